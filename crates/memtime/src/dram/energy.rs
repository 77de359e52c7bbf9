//! Energy per command and standby power, from the device's description.

use serde::{Deserialize, Serialize};

use super::spec::{Command, DeviceSpec, Energy};
use crate::error::Error;
use crate::model::EnergyStats;

/// Events that cost energy, of one rank or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Events {
    pub activate: u64,
    pub read: u64,
    pub write: u64,
    pub precharge_clean: u64,
    pub precharge_dirty: u64,
    pub refresh: u64,
    /// Pauses of cell writes.
    pub pauses: u64,
    /// Time of ranks with an open bank, and with none, in clocks.
    pub active: u64,
    pub precharged: u64,
}

/// Energies in pJ of a whole rank; the last two per clock of standby.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    activate: f64,
    read: f64,
    write: f64,
    precharge_clean: f64,
    precharge_dirty: f64,
    refresh: f64,
    /// The overhead of a resumption at the mean power of a cell write.
    pause: f64,
    active: f64,
    precharged: f64,
}

impl Costs {
    /// `refresh` is the command in use. With IDD values a `REFpb` costs the
    /// bank's share of a `REFab`.
    pub fn new(d: &DeviceSpec, refresh: Command) -> Result<Option<Costs>, Error> {
        let clock = d.clock.as_ns();
        let t = d.resolve_timings()?;
        let ns = |e| Ok::<f64, Error>(f64::from(d.clocks("energy", e, &t)?) * clock);
        Ok(match &d.energy {
            None => None,
            Some(Energy::PerOperation(p)) => Some(Costs {
                activate: p.activate,
                read: p.read,
                write: p.write,
                precharge_clean: p.precharge_clean,
                precharge_dirty: p.precharge_dirty,
                refresh: p.refresh,
                pause: match &d.write_pause {
                    Some(w) => {
                        let (clean, dirty) = d.closing(&t)?;
                        let length = f64::from(dirty.saturating_sub(clean)) * clock;
                        (p.precharge_dirty - p.precharge_clean) * ns(&w.overhead)? / length
                    }
                    None => 0.0,
                },
                // mW * ns = pJ.
                active: p.standby_active * clock,
                precharged: p.standby_precharged * clock,
            }),
            Some(Energy::Idd(i)) => {
                // mA * V * ns = pJ.
                let rank = i.vdd * f64::from(d.organisation.devices());
                let (ras, rc) = (ns(&i.tras)?, ns(&i.trc)?);
                let burst = ns(&i.burst)?;
                let all_bank = (i.idd5b - i.idd3n) * ns(&i.trfc)? * rank;
                let share = match refresh {
                    Command::RefBank => f64::from(d.organisation.banks()),
                    _ => 1.0,
                };
                Some(Costs {
                    activate: (i.idd0 * rc - i.idd3n * ras - i.idd2n * (rc - ras)) * rank,
                    read: (i.idd4r - i.idd3n) * burst * rank,
                    write: (i.idd4w - i.idd3n) * burst * rank,
                    precharge_clean: 0.0,
                    precharge_dirty: 0.0,
                    refresh: all_bank / share,
                    pause: 0.0,
                    active: i.idd3n * rank * clock,
                    precharged: i.idd2n * rank * clock,
                })
            }
        })
    }

    pub fn of(&self, e: &Events) -> EnergyStats {
        let n = |n: u64, cost: f64| n as f64 * cost;
        EnergyStats {
            activate: n(e.activate, self.activate),
            read: n(e.read, self.read),
            write: n(e.write, self.write),
            precharge: n(e.precharge_clean, self.precharge_clean)
                + n(e.precharge_dirty, self.precharge_dirty)
                + n(e.pauses, self.pause),
            refresh: n(e.refresh, self.refresh),
            background: n(e.active, self.active) + n(e.precharged, self.precharged),
            other: Default::default(),
        }
    }
}

impl Events {
    /// Whether every count is at least that of the other.
    pub fn contain(&self, o: &Events) -> bool {
        self.activate >= o.activate
            && self.read >= o.read
            && self.write >= o.write
            && self.precharge_clean >= o.precharge_clean
            && self.precharge_dirty >= o.precharge_dirty
            && self.refresh >= o.refresh
            && self.pauses >= o.pauses
            && self.active >= o.active
            && self.precharged >= o.precharged
    }

    pub fn since(&self, o: &Events) -> Events {
        Events {
            activate: self.activate - o.activate,
            read: self.read - o.read,
            write: self.write - o.write,
            precharge_clean: self.precharge_clean - o.precharge_clean,
            precharge_dirty: self.precharge_dirty - o.precharge_dirty,
            refresh: self.refresh - o.refresh,
            pauses: self.pauses - o.pauses,
            active: self.active - o.active,
            precharged: self.precharged - o.precharged,
        }
    }
}
