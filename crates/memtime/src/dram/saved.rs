//! The saved state of the general controller.

use serde::{Deserialize, Serialize};

use super::channel::{self, Channel, Rules};
use super::controller::{fields, Controller, FIXED};
use super::energy::Events;
use super::expr::Expr;
use super::params::ControllerParams;
use super::spec::DeviceSpec;
use crate::checks::{changes, digest, ensure, now, version};
use crate::error::Error;
use crate::model::EnergyStats;
use crate::saved::bad;
use crate::stats::Change;
use crate::units::Ps;

/// Version of the format written.
const VERSION: u32 = 2;

/// The complete state of a [`Controller`], except for its command log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    /// Identifies the device, apart from the values of its timings.
    device: u64,
    timings: Vec<(String, Expr)>,
    params: ControllerParams,
    latest: Ps,
    from: Ps,
    /// Energy up to the last change of its costs, as bit patterns: activations, reads, writes,
    /// precharges, refreshes, standby.
    spent: [u64; 6],
    spent_events: Events,
    changes: Vec<Change>,
    channels: Vec<channel::saved::Saved>,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        self.channels.iter().for_each(|c| c.add_owed(ids));
    }
}

/// The device without the values of its timings.
fn device(d: &DeviceSpec) -> Result<u64, Error> {
    let mut d = d.clone();
    for t in &mut d.timings {
        t.value = Expr::parse("0")?;
    }
    let text = serde_json::to_string(&d).map_err(|e| bad(e.to_string()))?;
    Ok(digest(&text))
}

impl Controller {
    pub(super) fn saved(&self) -> Saved {
        let timings = self.spec.timings.iter();
        let e = &self.spent;
        let spent = [
            e.activate,
            e.read,
            e.write,
            e.precharge,
            e.refresh,
            e.background,
        ];
        Saved {
            version: VERSION,
            // A device that was accepted can be written as text.
            device: device(&self.spec).unwrap_or(0),
            timings: timings.map(|t| (t.name.clone(), t.value.clone())).collect(),
            params: self.rules.params.clone(),
            latest: self.latest,
            from: self.from,
            spent: spent.map(f64::to_bits),
            spent_events: self.spent_events,
            changes: self.changes.clone(),
            channels: self.channels.iter().map(Channel::save).collect(),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "general controller")?;
        let foreign =
            || bad("it belongs to a general controller of another device or other parameters");
        let mut spec = self.spec.clone();
        if s.device != device(&spec)? || s.timings.len() != spec.timings.len() {
            return Err(foreign());
        }
        for (t, (name, value)) in spec.timings.iter_mut().zip(s.timings) {
            if t.name != name {
                return Err(foreign());
            }
            t.value = value;
        }
        let (own, saved) = (fields(&self.rules.params)?, fields(&s.params)?);
        if FIXED.iter().any(|f| own[*f] != saved[*f]) {
            return Err(foreign());
        }
        let mut new = Controller::new(spec, s.params)?;
        now(s.latest, s.from)?;
        changes(&s.changes)?;
        ensure(s.channels.len() == new.channels.len(), "channels")?;
        let sums: u128 = s.channels.iter().map(|c| c.latency_sums()).sum();
        ensure(sums <= 1 << 58, "latencies")?;
        let rows = new.spec.organisation.rows;
        let rules: &Rules = &new.rules;
        for (c, saved) in new.channels.iter_mut().zip(s.channels) {
            c.load(saved, rules, rows)?;
        }
        new.latest = s.latest;
        new.from = s.from;
        let [activate, read, write, precharge, refresh, background] = s.spent.map(f64::from_bits);
        new.spent = EnergyStats {
            activate,
            read,
            write,
            precharge,
            refresh,
            background,
            other: Default::default(),
        };
        ensure(new.spent.total().is_finite(), "energy")?;
        ensure(new.events().contain(&s.spent_events), "events of energy")?;
        new.spent_events = s.spent_events;
        new.changes = s.changes;
        for (c, old) in new.channels.iter_mut().zip(&self.channels) {
            c.log = old.log.as_ref().map(|_| Vec::new());
        }
        *self = new;
        Ok(())
    }
}
