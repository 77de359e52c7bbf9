//! Parameters in the engine's units.

use crate::params::{BoardParams, Method, RpTest};
use crate::request::Kind;

/// Parameters in the form the engine uses: clocks, and the method resolved.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub wait: u64,
    pub rcd: u64,
    pub ras: u64,
    /// Column command to the end of the row's stay (tRTP, tWTP), by kind.
    pub stay: [u64; 2],
    pub rp: u64,
    pub read_data: u64,
    pub response: u64,
    pub add_rcd: u64,
    pub add_ras: u64,
    pub add_rp: u64,
    pub hold: [u64; 2],
    pub nvmm: u16,
    pub own_bank: bool,
    pub machines: u8,
    pub refresh: bool,
    pub interval: u64,
    pub first_tick: u64,
    /// From a request of refresh to the beginning of maintenance.
    pub begin_delay: u64,
    pub pulse: u64,
    pub ras_limit: u64,
    pub rtp_limit: u64,
    pub duration: u64,
}

impl Timing {
    /// From validated parameters.
    pub fn new(p: &BoardParams) -> Timing {
        let clocks = |t: crate::units::Ps| p.clock.edge_from(t);
        let fine = matches!(p.method, Method::Fine | Method::Extended);
        let coarse = p.method == Method::Coarse;
        let when = |on: bool, n: u64| if on { n } else { 0 };
        let (t, r, d) = (&p.timing, &p.refresh, &p.delays);
        let first = (p.nvmm_base >> p.mapping.bank.low) as usize;
        let nvmm = (first..p.mapping.banks()).fold(0u16, |m, b| m | 1 << b);
        let mut hold = [0; 2];
        hold[Kind::Read as usize] = when(coarse, clocks(d.coarse_read));
        hold[Kind::Write as usize] = when(coarse, clocks(d.coarse_write));
        Timing {
            wait: t.wait.0.into(),
            rcd: t.rcd.0.into(),
            ras: t.ras.0.into(),
            stay: [t.rtp.0.into(), t.wtp.0.into()],
            rp: t.rp.0.into(),
            read_data: u64::from(t.cl.0) + u64::from(t.data.0),
            response: t.response.0.into(),
            add_rcd: when(fine, clocks(d.trcd)),
            add_ras: when(p.method == Method::Extended, clocks(d.tras)),
            add_rp: when(fine, clocks(d.trp)),
            hold,
            nvmm,
            own_bank: p.rp_test == RpTest::OwnBank,
            machines: ((1u16 << p.machines) - 1) as u8,
            refresh: r.enabled,
            interval: r.interval.0.into(),
            first_tick: r.first_tick.0.into(),
            begin_delay: r.pulse_delay.0.into(),
            pulse: r.pulse.0.into(),
            ras_limit: r.ras_limit.0.into(),
            rtp_limit: r.rtp_limit.0.into(),
            duration: r.duration.0.into(),
        }
    }

    #[inline]
    pub fn is_nvmm(&self, bank: u8) -> bool {
        self.nvmm >> bank & 1 != 0
    }

    /// Hold of an address at the head of its channel.
    #[inline]
    pub fn hold_of(&self, kind: Kind, bank: u8) -> u64 {
        if self.is_nvmm(bank) {
            self.hold[kind as usize]
        } else {
            0
        }
    }

    /// Clocks from the column command of a read, or the acceptance of a write, to its answer.
    #[inline]
    pub fn answer(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read => self.read_data,
            Kind::Write => self.response,
        }
    }

    /// Refreshes, the first by a tick at `tick_at`, that begin and end before `until` in an
    /// idle controller: clock of the last one, and how many.
    #[inline]
    pub fn idle_refreshes(&self, tick_at: u64, until: u64) -> Option<(u64, u64)> {
        let first = tick_at + self.begin_delay;
        // The clock that releases the holds must be processed, too.
        let end = first + self.duration.max(self.pulse);
        if end >= until {
            return None;
        }
        let rest = until - 1 - end;
        let more = if rest < self.interval {
            0
        } else {
            rest / self.interval
        };
        Some((first + more * self.interval, more + 1))
    }

    /// tRCD and tRAS of a bank.
    #[inline]
    pub fn activation(&self, bank: u8) -> (u64, u64) {
        if self.is_nvmm(bank) {
            (self.rcd + self.add_rcd, self.ras + self.add_ras)
        } else {
            (self.rcd, self.ras)
        }
    }
}
