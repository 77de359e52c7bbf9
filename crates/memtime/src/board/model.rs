//! The bank-machine controller as a [`MemoryModel`].

use super::{Command, Controller, Op};
use serde_json::Value;

use crate::command::Command as Device;
use crate::command::Issued;
use crate::error::Error;
use crate::model::{
    BankStats, ChannelStats, CommandPart, Counters, Latency, MemoryModel, ModelStats, RegionStats,
    LATENCY_BUCKETS,
};
use crate::params::BoardParams;
use crate::period::Period;
use crate::request::{Completion, Request, Submit};
use crate::saved::SavedModel;
use crate::stats::{self, Histogram, Region};
use crate::units::Ps;

/// Keys that can change while the controller runs.
const CHANGEABLE: [&str; 6] = [
    "method",
    "rp_test",
    "nvmm_base",
    "timing.NAME",
    "delays.NAME",
    "refresh.NAME",
];

impl MemoryModel for Controller {
    fn capacity(&self) -> u64 {
        self.params().capacity
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        Controller::submit(self, at, r)
    }

    fn next_event(&self) -> Option<Ps> {
        Controller::next_event(self)
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        Controller::advance_to(self, t)
    }

    /// Every row is closed without further requests, which is when NVMM is written.
    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        Controller::flush(self, at)
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        Controller::drain(self, into);
    }

    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        Ok(crate::window::distinct(self.unfinished_ids(at)?))
    }

    /// The controller counts latencies only by powers of two: each one is counted in the first
    /// bucket of its octave, and `min` and `max` are bounds of octaves.
    fn report(&self, at: Ps) -> ModelStats {
        let s = self.stats(at.min(Ps::MAX_TIME));
        let regions = Region::ALL.map(|r| {
            let v = s.region(r);
            RegionStats {
                name: match r {
                    Region::Dram => "dram",
                    Region::Nvmm => "nvmm",
                }
                .to_owned(),
                counters: counters(&v.counters),
                read_latency: latency(&v.read_latency),
                write_latency: latency(&v.write_latency),
                energy: None,
                wear: None,
            }
        });
        let banks = s.banks.iter().zip(0..).map(|(c, bank)| BankStats {
            rank: 0,
            bank_group: 0,
            bank,
            counters: counters(c),
        });
        ModelStats {
            name: "board".to_owned(),
            from: s.from,
            to: s.to,
            clock: self.params().clock,
            regions: regions.to_vec(),
            channels: vec![ChannelStats {
                name: "board.0".to_owned(),
                counters: counters(&s.total()),
                data_busy: Ps::ZERO,
                banks: banks.collect(),
            }],
            changes: s.changes.clone(),
            counters: [
                ("refreshes", s.refreshes as f64),
                ("refresh_ticks_lost", s.refresh_ticks_lost as f64),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
        }
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        Controller::reset_stats(self, at)
    }

    fn clock(&self) -> Period {
        self.params().clock
    }

    /// Keys are paths of [`BoardParams`]: "method", "delays.trcd".
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let fail = |problem: String| Error::Spec {
            place: format!("board controller: {key}"),
            problem,
        };
        let mut all = serde_json::to_value(self.params()).map_err(|e| fail(e.to_string()))?;
        let path = format!("/{}", key.replace('.', "/"));
        let Some(slot) = all.pointer_mut(&path).filter(|v| !v.is_object()) else {
            return Err(fail(format!(
                "is no parameter of this controller: {} can change while it runs",
                CHANGEABLE.join(", ")
            )));
        };
        *slot = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        let params: BoardParams =
            serde_json::from_value(all).map_err(|e| fail(format!("'{value}': {e}")))?;
        self.set_params(at, params).map_err(|e| match e {
            Error::Fixed { .. } => fail(format!("{e}; {} can", CHANGEABLE.join(", "))),
            e => e,
        })
    }

    fn parameters(&self) -> Vec<(String, String)> {
        fn walk(path: &str, v: &Value, into: &mut Vec<(String, String)>) {
            match v {
                Value::Object(m) => m.iter().for_each(|(k, v)| {
                    let path = if path.is_empty() {
                        k.clone()
                    } else {
                        format!("{path}.{k}")
                    };
                    walk(&path, v, into);
                }),
                v => into.push((path.to_owned(), crate::window::plain(v))),
            }
        }
        let mut all = Vec::new();
        walk(
            "",
            &serde_json::to_value(self.params()).unwrap_or_default(),
            &mut all,
        );
        all.retain(|(k, _)| {
            let first = k.split('.').next().unwrap_or(k);
            !super::FIXED.contains(&first)
        });
        all
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        let mut copy = self.clone();
        copy.set_logging(false);
        Some(Box::new(copy))
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(Controller::save(self))
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        self.set_logging(on);
        Ok(())
    }

    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        into.extend(self.take_log().iter().filter_map(issued));
    }

    fn command_parts(&self) -> Vec<CommandPart> {
        vec![CommandPart {
            name: "board".to_owned(),
            channels: 1,
            clock: MemoryModel::clock(self),
        }]
    }
}

/// Acceptance is not a device command. The controller does not know columns.
fn issued(c: &Command) -> Option<Issued> {
    let op = match c.op {
        Op::Accept => return None,
        Op::Activate => Device::Act,
        Op::Read => Device::Rd,
        Op::Write => Device::Wr,
        Op::Precharge => Device::Pre,
        Op::Refresh => Device::RefAll,
    };
    Some(Issued {
        clock: c.clock,
        op,
        channel: 0,
        rank: 0,
        bank_group: 0,
        bank: c.bank,
        row: c.row,
        column: 0,
    })
}

fn counters(c: &stats::Counters) -> Counters {
    Counters {
        reads: c.reads,
        writes: c.writes,
        read_bytes: c.read_bytes,
        write_bytes: c.write_bytes,
        row_hits: c.row_hits,
        // A machine closes its row unless the next one takes it over.
        row_misses: c.requests().saturating_sub(c.row_hits),
        activations: c.activations,
        precharges_clean: c.precharges_clean,
        precharges_dirty: c.precharges_dirty,
        refreshes: c.refreshes,
        ..Default::default()
    }
}

fn latency(h: &Histogram) -> Latency {
    let mut l = Latency {
        count: h.count,
        sum: h.sum,
        ..Default::default()
    };
    let used = h.buckets.iter().enumerate().filter(|b| *b.1 > 0);
    for (n, (i, count)) in used.enumerate() {
        let bucket = if i == 0 { 0 } else { 8 * i + 1 };
        l.buckets[bucket.min(LATENCY_BUCKETS - 1)] += count;
        let (from, to) = Histogram::range_ns(i);
        if n == 0 {
            l.min = Ps::from_ns(from);
        }
        l.max = Ps::from_ns(to.unwrap_or(2 * from));
    }
    l
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described;
    use crate::request::Kind;

    #[test]
    fn as_a_model() {
        let mut c = Controller::new(described::board::<BoardParams>()).unwrap();
        let m: &mut dyn MemoryModel = &mut c;
        m.set_command_log(true).unwrap();
        for (id, addr) in [(1, 0), (2, 2 << 29)] {
            let r = Request {
                id,
                addr,
                kind: Kind::Read,
                bytes: 64,
            };
            assert_eq!(m.submit(Ps::ZERO, r).unwrap(), Submit::Accepted);
        }
        while let Some(t) = m.next_event() {
            m.advance_to(t).unwrap();
        }
        let mut done = Vec::new();
        m.drain(&mut done);
        assert_eq!(done.len(), 2);
        let s = m.report(Ps::from_ns(1000));
        assert_eq!(s.total().reads, 2);
        let nvmm = s.region("nvmm").unwrap();
        assert_eq!((nvmm.counters.reads, nvmm.counters.activations), (1, 1));
        assert_eq!(nvmm.read_latency.buckets.iter().sum::<u64>(), 1);
        let mut log = Vec::new();
        m.take_commands(&mut log);
        assert_eq!(log.iter().filter(|c| c.op == Device::Act).count(), 2);
        m.set_parameter(Ps::from_ns(1000), "method", "extended")
            .unwrap();
        m.set_parameter(Ps::from_ns(1000), "delays.trcd", "500 ns")
            .unwrap();
        let s = m.report(Ps::from_ns(1000));
        assert_eq!(s.changes.len(), 2);
        assert!(m.set_parameter(Ps::ZERO, "delays", "1").is_err());
        assert!(m.set_parameter(Ps::ZERO, "nothing", "1").is_err());
        assert!(m.set_parameter(Ps::ZERO, "method", "wrong").is_err());
        for key in ["clock", "nothing"] {
            let e = m.set_parameter(Ps::ZERO, key, "10 ns").unwrap_err();
            assert!(e.to_string().contains("timing.NAME, delays.NAME"), "{e}");
        }
        m.set_parameter(Ps::from_ns(1000), "timing.rcd", "9")
            .unwrap();
        assert_eq!(m.report(Ps::from_ns(1000)).changes.len(), 3);
    }
}
