//! Saving and restoring a controller.

use serde::{Deserialize, Serialize};

use super::saved::Saved;
use super::timing::Timing;
use super::Controller;
use crate::error::Error;
use crate::params::BoardParams;
use crate::request::Completion;
use crate::stats::Stats;
use crate::units::Ps;

/// Version of the format written.
const VERSION: u32 = 2;

/// The complete state of a controller, except for its command log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedController {
    version: u32,
    params: BoardParams,
    state: Saved,
    latest: Ps,
    next_seq: u64,
    stats: Stats,
    done: Vec<Completion>,
}

impl SavedController {
    /// Ids of the completions not yet fetched.
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        self.state.add_owed(ids);
        ids.extend(self.done.iter().map(|c| c.id));
    }
}

impl Controller {
    /// The controller as data.
    pub fn save(&self) -> SavedController {
        let (state, tags) = self.committed();
        SavedController {
            version: VERSION,
            params: self.params.clone(),
            state: Saved::new(&state, &tags),
            latest: self.latest,
            next_seq: self.next_seq,
            stats: self.out.counted(),
            done: self.out.done.clone(),
        }
    }

    /// Takes over a state saved by a controller of the same clock, capacity,
    /// mapping and machines.
    pub(super) fn resume(&mut self, s: SavedController) -> Result<(), Error> {
        let log = self.out.log.as_ref().map(|_| Vec::new());
        let new = Controller::restore(s)?;
        let fixed = |p: &BoardParams| (p.clock, p.capacity, p.mapping, p.machines);
        if fixed(&self.params) != fixed(&new.params) {
            return Err(Error::SavedState(
                "it belongs to a board controller of other parameters".to_owned(),
            ));
        }
        crate::checks::completions(&new.out.done)?;
        *self = new;
        self.out.log = log;
        Ok(())
    }

    /// A controller that continues from the saved state. The state is checked: damage is an error.
    pub fn restore(s: SavedController) -> Result<Controller, Error> {
        let fail = |what: &str| Err(Error::SavedState(what.to_owned()));
        if s.version != VERSION {
            return Err(Error::SavedState(format!(
                "version {}, this program reads version {VERSION}",
                s.version
            )));
        }
        let mut c = Controller::new(s.params)?;
        let banks = c.params.mapping.banks();
        let end = c.params.clock.edge_from(Ps::MAX_TIME);
        if let Err(part) = s.state.check(&Timing::new(&c.params), banks, end) {
            return fail(&format!("impossible state ({part})"));
        }
        if s.stats.banks.len() != banks || s.latest > Ps::MAX_TIME || s.next_seq > 1 << 62 {
            return fail("statistics or times do not fit the parameters");
        }
        let sane =
            |v: Result<serde_json::Value, _>, most| v.is_ok_and(|v| all_numbers_sane(&v, most));
        // Counters are added up over banks and regions.
        let state = sane(serde_json::to_value(s.state), 1 << 62);
        if !state || !sane(serde_json::to_value(&s.stats), 1 << 56) {
            return fail("a number too large to go on from");
        }
        c.state = s.state.load(&c.timing, &mut c.tags);
        c.latest = s.latest;
        c.next_seq = s.next_seq;
        c.out.stats = s.stats;
        c.out.last_bank = c.out.stats.last_bank;
        c.out.done = s.done;
        Ok(c)
    }
}

/// Fields that are points in time.
const TIMES: [&str; 4] = ["arrival", "from", "to", "at"];

/// No counter or time may be so large that a continued run could overflow it: sums of
/// latencies and points in time have bounds of their own, all others `most`.
fn all_numbers_sane(v: &serde_json::Value, most: u64) -> bool {
    use serde_json::Value;
    let at_most = |v: &Value, most: u64| v.as_u64().is_some_and(|n| n <= most);
    match v {
        Value::Array(a) => a.iter().all(|v| all_numbers_sane(v, most)),
        Value::Object(m) => m.iter().all(|(k, v)| match k.as_str() {
            // The callers' own, and only handed back.
            "id" => true,
            "sum" => at_most(v, 1 << 60),
            k if TIMES.contains(&k) && v.is_number() => at_most(v, Ps::MAX_TIME.0),
            _ => all_numbers_sane(v, most),
        }),
        v if v.is_number() => at_most(v, most),
        _ => true,
    }
}
