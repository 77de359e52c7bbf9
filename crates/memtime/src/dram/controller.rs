//! The general controller: channels behind one address map.

use super::channel::{Channel, Rules};
use super::energy::{Costs, Events};
use super::expr::Expr;
use super::lanes::{self, with_bursts, DramLane, DramMap};
use super::mapping::{Decoder, Place};
use super::params::ControllerParams;
use super::spec::{Command, DeviceSpec};
use super::timing::Table;
use super::Issued;
use crate::error::Error;
use crate::lanes::{Lane, Lanes};
use crate::model::{
    BankStats, Change, ChannelStats, CommandPart, Counters, EnergyStats, Latency, MemoryModel,
    ModelStats, RegionStats,
};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::units::Ps;

/// The general controller with its devices. See the [module](super) for the rules.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) spec: DeviceSpec,
    pub(super) rules: Rules,
    decoder: Decoder,
    pub(super) channels: Vec<Channel>,
    access: u32,
    pub(super) latest: Ps,
    pub(super) from: Ps,
    costs: Option<Costs>,
    /// Energy up to the last change of its costs, and the number of events until then.
    pub(super) spent: EnergyStats,
    pub(super) spent_events: Events,
    pub(super) changes: Vec<Change>,
}

/// Parameters that cannot change while the controller runs.
pub(super) const FIXED: [&str; 8] = [
    "region",
    "channels",
    "mapping",
    "scheduler",
    "rules",
    "read_queue",
    "write_queue",
    "bank_queue",
];

impl Controller {
    /// A controller at time 0 with all banks closed.
    pub fn new(spec: DeviceSpec, params: ControllerParams) -> Result<Controller, Error> {
        let spec = params.adapt(spec)?;
        let table = Table::new(&spec)?.split_cell_writes(&spec)?;
        params.validate(&spec)?;
        let decoder = Decoder::new(&params, &spec)?;
        let rules = Rules::new(table, params);
        let channels = (0..rules.params.channels)
            .map(|i| Channel::new(i as u16, spec.clock, &rules))
            .collect();
        let costs = Costs::new(&spec, refresh_command(&rules))?;
        Ok(Controller {
            access: spec.organisation.access_bytes(),
            spec,
            rules,
            decoder,
            channels,
            latest: Ps::ZERO,
            from: Ps::ZERO,
            costs,
            spent: EnergyStats::default(),
            spent_events: Events::default(),
            changes: Vec::new(),
        })
    }

    /// The device in use.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The parameters in use.
    pub fn params(&self) -> &ControllerParams {
        &self.rules.params
    }

    /// Coordinates of an address.
    pub fn place(&self, addr: u64) -> Place {
        self.decoder.decode(addr)
    }

    /// Changes a timing of the device from the clock edge at or after `at` on. Distances that were
    /// computed for commands issued before stay.
    pub fn set_timing(&mut self, at: Ps, name: &str, value: Expr) -> Result<(), Error> {
        let mut spec = self.spec.clone();
        let Some(t) = spec.timings.iter_mut().find(|t| t.name == name) else {
            let known: Vec<&str> = self.spec.timings.iter().map(|t| &*t.name).collect();
            return Err(Error::Unsupported {
                model: format!("device {}", self.spec.name),
                what: format!("timing {name}: it has {}", known.join(", ")),
            });
        };
        let from = std::mem::replace(&mut t.value, value.clone());
        let table = Table::new(&spec)?.split_cell_writes(&spec)?;
        self.rules.params.validate(&spec)?;
        if table.cell.is_some() != self.rules.table.cell.is_some() {
            return Err(Error::Spec {
                place: format!("device {}: timing {name} = {value}", spec.name),
                problem: "cell writes that can be paused cannot appear or vanish while the controller runs: PRE -> ACT \
                    must stay longer after a write than otherwise, or not".to_owned(),
            });
        }
        self.advance_to(at)?;
        let rules = Rules::new(table, self.rules.params.clone());
        self.change(spec, rules)?;
        self.record(
            format!("timings.{name}"),
            from.to_string(),
            value.to_string(),
        );
        Ok(())
    }

    /// Changes the parameters from the clock edge at or after `at` on; region, channels, mapping
    /// and the sizes of the queues are fixed. Requests and open rows stay; page time-outs and
    /// refreshes that the changed policy needs restart.
    pub fn set_params(&mut self, at: Ps, params: ControllerParams) -> Result<(), Error> {
        params.validate(&self.spec)?;
        let before = fields(&self.rules.params)?;
        let after = fields(&params)?;
        for field in FIXED {
            if before[field] != after[field] {
                return Err(Error::Fixed {
                    field,
                    from: before[field].to_string(),
                    to: after[field].to_string(),
                });
            }
        }
        self.advance_to(at)?;
        let rules = Rules::new(self.rules.table.clone(), params);
        self.change(self.spec.clone(), rules)?;
        for (k, v) in &before {
            if *v != after[k] {
                self.record(k.clone(), v.to_string(), after[k].to_string());
            }
        }
        Ok(())
    }

    fn change(&mut self, spec: DeviceSpec, rules: Rules) -> Result<(), Error> {
        let costs = Costs::new(&spec, refresh_command(&rules))?;
        let events = self.events();
        if let Some(c) = &self.costs {
            self.spent.add(&c.of(&events.since(&self.spent_events)));
        }
        self.spent_events = events;
        self.costs = costs;
        for c in &mut self.channels {
            c.changed(&self.rules, &rules);
        }
        self.spec = spec;
        self.rules = rules;
        Ok(())
    }

    fn record(&mut self, what: String, from: String, to: String) {
        let edge = self.spec.clock.edge_from(self.latest);
        self.changes.push(Change {
            at: self.spec.clock.edge(edge),
            what,
            from,
            to,
        });
    }

    fn check(&self, at: Ps, r: &Request) -> Result<(), Error> {
        lanes::check(self.decoder.capacity(), at, r)
    }

    /// Events for energy since the start of the statistics.
    pub(super) fn events(&self) -> Events {
        let mut e = Events::default();
        let start = self.spec.clock.edge_from(self.from);
        for c in &self.channels {
            for b in &c.count.banks {
                e.activate += b.activations;
                e.read += b.reads;
                e.write += b.writes;
                e.precharge_clean += b.precharges_clean;
                e.precharge_dirty += b.precharges_dirty;
                e.pauses += b.write_pauses;
                if self.rules.refresh == Some(1) {
                    e.refresh += b.refreshes;
                }
            }
            if self.rules.refresh != Some(1) {
                e.refresh += c.count.refresh_all;
            }
            let active = c.open_clocks();
            e.active += active;
            let all = (c.now.saturating_sub(start)) * self.rules.table.ranks as u64;
            e.precharged += all.saturating_sub(active);
        }
        e
    }

    fn stats(&self, to: Ps) -> ModelStats {
        let table = &self.rules.table;
        let region = &self.rules.params.region;
        let mut total = Counters::default();
        let (mut read, mut write) = (Latency::default(), Latency::default());
        let mut channels = Vec::new();
        let per_rank = table.banks / table.ranks;
        for (i, c) in self.channels.iter().enumerate() {
            read.merge(&c.count.read_latency);
            write.merge(&c.count.write_latency);
            let mut sum = Counters::default();
            let banks = c.count.banks.iter().enumerate().map(|(b, counters)| {
                let counters = Counters {
                    write_paused: self.spec.clock.edge(c.paused_clocks(b)),
                    ..*counters
                };
                sum.add(&counters);
                BankStats {
                    rank: (b / per_rank) as u32,
                    bank_group: (b % per_rank / table.per_group) as u32,
                    bank: (b % table.per_group) as u32,
                    counters,
                }
            });
            let banks: Vec<BankStats> = banks.collect();
            // A refresh of a rank is one command, though all its banks count it.
            if self.rules.refresh != Some(1) {
                sum.refreshes = c.count.refresh_all;
            }
            let q = &c.count.requests;
            sum.forwarded_reads = q.forwarded_reads;
            sum.merged_reads = q.merged_reads;
            sum.merged_writes = q.merged_writes;
            total.add(&Counters {
                reads: q.reads,
                writes: q.writes,
                read_bytes: q.read_bytes,
                write_bytes: q.write_bytes,
                ..sum
            });
            channels.push(ChannelStats {
                name: format!("{region}.{i}"),
                counters: sum,
                data_busy: self.spec.clock.edge(c.count.columns * table.burst),
                banks,
            });
        }
        let energy = self.costs.as_ref().map(|c| {
            let mut e = c.of(&self.events().since(&self.spent_events));
            e.add(&self.spent);
            e
        });
        ModelStats {
            name: self.spec.name.clone(),
            from: self.from,
            to,
            clock: self.spec.clock,
            regions: vec![RegionStats {
                name: region.clone(),
                counters: total,
                read_latency: read,
                write_latency: write,
                energy,
                wear: None,
            }],
            channels,
            changes: self.changes.clone(),
            counters: Default::default(),
        }
    }
}

fn refresh_command(r: &Rules) -> Command {
    match r.refresh {
        Some(1) => Command::RefBank,
        _ => Command::RefAll,
    }
}

/// Compares the serialised fields, so that no field can be forgotten.
pub(super) fn fields(
    p: &ControllerParams,
) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    match serde_json::to_value(p) {
        Ok(serde_json::Value::Object(m)) => Ok(m),
        _ => Err(Error::Spec {
            place: format!("controller of region {}", p.region),
            problem: "cannot be serialised".to_owned(),
        }),
    }
}

impl MemoryModel for Controller {
    fn capacity(&self) -> u64 {
        self.decoder.capacity()
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        self.check(at, &r)?;
        self.latest = self.latest.max(at);
        let (rules, period) = (&self.rules, self.spec.clock);
        let clock = period.edge_from(self.latest);
        let access = self.access.into();
        Ok(with_bursts(&self.decoder, access, &r, |places| {
            let c = &mut self.channels[places[0].0.channel as usize];
            c.run(clock, rules);
            if !c.admits(rules, r.kind, places) {
                return Submit::Busy(period.edge(c.room_clock(rules)));
            }
            c.push(rules, self.latest, r.id, r.kind, r.bytes, places);
            Submit::Accepted
        }))
    }

    fn submit_waiting(&mut self, at: Ps, r: Request) -> Result<Ps, Error> {
        self.check(at, &r)?;
        self.latest = self.latest.max(at);
        let (rules, period) = (&self.rules, self.spec.clock);
        let access = self.access.into();
        with_bursts(&self.decoder, access, &r, |places| {
            let c = &mut self.channels[places[0].0.channel as usize];
            let first = period.edge_from(self.latest);
            let mut clock = first;
            c.run(clock, rules);
            while !c.admits(rules, r.kind, places) {
                clock = c.room_clock(rules);
                c.run(clock, rules);
            }
            let mut accepted = at;
            if clock > first {
                accepted = period.edge(clock);
                if accepted > Ps::MAX_TIME {
                    return Err(Error::TooLate(accepted));
                }
                self.latest = accepted;
            }
            c.push(rules, self.latest, r.id, r.kind, r.bytes, places);
            Ok(accepted)
        })
    }

    fn lanes(&mut self) -> Option<Lanes<'_>> {
        let (decoder, rules) = (&self.decoder, &self.rules);
        let (access, clock) = (self.access.into(), self.spec.clock);
        let lane = |channel| -> Box<dyn Lane> {
            Box::new(DramLane {
                channel,
                rules,
                decoder,
                access,
                clock,
            })
        };
        Some(Lanes {
            lanes: self.channels.iter_mut().map(lane).collect(),
            map: Box::new(DramMap { decoder }),
        })
    }

    fn next_event(&self) -> Option<Ps> {
        let next = self
            .channels
            .iter()
            .filter_map(|c| c.next_clock(&self.rules))
            .min()?;
        Some(self.spec.clock.edge(next))
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        let clock = self.spec.clock.edge_from(self.latest);
        for c in &mut self.channels {
            c.run(clock, &self.rules);
        }
        Ok(())
    }

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        self.channels.iter_mut().for_each(Channel::begin_flush);
        let mut result = Ok(());
        while let (Ok(()), Some(t)) = (&result, self.next_event()) {
            result = self.advance_to(t);
        }
        let ends = self.channels.iter_mut().map(Channel::end_flush);
        let end = self.spec.clock.edge(ends.max().unwrap_or(0));
        result?;
        self.advance_to(end)?;
        Ok(end)
    }

    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        let mut copy = self.clone();
        copy.channels.iter_mut().for_each(|c| c.log = None);
        copy.advance_to(at)?;
        let mut ids = Vec::new();
        for c in &copy.channels {
            c.unfinished_writes(&mut ids);
        }
        Ok(crate::window::distinct(ids))
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        for c in &mut self.channels {
            into.append(&mut c.done);
        }
    }

    fn report(&self, at: Ps) -> ModelStats {
        let mut copy = self.clone();
        for c in &mut copy.channels {
            c.log = None;
        }
        let at = at.max(self.latest).min(Ps::MAX_TIME);
        // Cannot fail: the time is within range.
        let _ = copy.advance_to(at);
        copy.stats(at)
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        for c in &mut self.channels {
            c.reset_count();
        }
        self.from = self.latest;
        self.spent = EnergyStats::default();
        self.spent_events = Events::default();
        self.changes.clear();
        Ok(())
    }

    fn clock(&self) -> Period {
        self.spec.clock
    }

    /// Keys: "timings.tRCD" (or "timing.tRCD") with an expression, or a field of
    /// [`ControllerParams`] with its value as JSON or as plain text.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let timing = key.strip_prefix("timings.");
        if let Some(name) = timing.or_else(|| key.strip_prefix("timing.")) {
            return self.set_timing(at, name, Expr::parse(value)?);
        }
        let fail = |problem: String| Error::Spec {
            place: format!("controller of region {}: {key}", self.rules.params.region),
            problem,
        };
        let mut all = fields(&self.rules.params)?;
        if !all.contains_key(key) || FIXED.contains(&key) {
            let what = if all.contains_key(key) {
                "cannot change while the controller runs"
            } else {
                "is no parameter"
            };
            let can: Vec<_> = all.keys().filter(|k| !FIXED.contains(&&***k)).collect();
            let can = can.iter().map(|k| k.as_str()).collect::<Vec<_>>();
            let timings: Vec<_> = self.spec.timings.iter().map(|t| &*t.name).collect();
            return Err(fail(format!(
                "{what}: {}, and timings.NAME with one of {} can",
                can.join(", "),
                timings.join(", ")
            )));
        }
        let v = serde_json::from_str(value)
            .unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
        all.insert(key.to_owned(), v);
        let params = serde_json::from_value(serde_json::Value::Object(all))
            .map_err(|e| fail(format!("'{value}': {e}")))?;
        self.set_params(at, params)
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let all = fields(&self.rules.params).unwrap_or_default();
        let own = all.iter().filter(|(k, _)| !FIXED.contains(&k.as_str()));
        let own = own.map(|(k, v)| (k.clone(), crate::window::plain(v)));
        let timings = self.spec.timings.iter();
        let timings = timings.map(|t| (format!("timings.{}", t.name), t.value.to_string()));
        own.chain(timings).collect()
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        let mut copy = self.clone();
        for c in &mut copy.channels {
            c.log = None;
        }
        Some(Box::new(copy))
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        for c in &mut self.channels {
            c.log = on.then(Vec::new);
        }
        Ok(())
    }

    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        // A channel without requests lags behind; its commands come first.
        let clock = self.spec.clock.edge_from(self.latest);
        for c in &mut self.channels {
            c.run(clock, &self.rules);
        }
        let start = into.len();
        for c in &mut self.channels {
            if let Some(log) = &mut c.log {
                into.append(log);
            }
        }
        if self.channels.len() > 1 {
            into[start..].sort_by_key(|c| (c.clock, c.channel));
        }
    }

    fn command_parts(&self) -> Vec<CommandPart> {
        vec![CommandPart {
            name: self.rules.params.region.clone(),
            channels: self.channels.len() as u16,
            clock: self.spec.clock,
        }]
    }
}

/// Requests are held in queues, so nothing is outstanding once they are empty.
impl Controller {
    /// Completes everything outstanding, from `at` on, and returns the time after which nothing
    /// else happens. Posted writes that wait for more writes keep waiting; [`MemoryModel::flush`]
    /// sends them, too.
    pub fn finish(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        let mut end = at;
        while let Some(t) = self.next_event() {
            self.advance_to(t)?;
            end = t;
        }
        Ok(self.latest.max(end))
    }

    /// Whether there is room for a request of that kind with one burst at that address.
    pub fn has_room(&self, addr: u64, kind: Kind) -> bool {
        let p = self.decoder.decode(addr);
        self.channels[p.channel as usize].has_room(kind, 1)
    }
}

#[cfg(test)]
impl Controller {
    /// Clocks with an open bank, of all ranks.
    pub(crate) fn open_clocks(&self) -> u64 {
        self.channels.iter().map(Channel::open_clocks).sum()
    }
}
