//! Hardware counters of a hart: their values, and when they overflow.

use crate::csr::Moment;
use crate::events::{lookup, Counted, Mix, CODE};
use crate::hart::Hart;
use crate::hpm::{bits, filtered, ByPrivilege, Modes, COUNTERS, FIRST, OF};
use crate::place::End;
use crate::preop::PreOp;
use crate::privilege::Privilege;
use crate::trap::irq;
use crate::world::World;
use nagori_cache::{Coherence, HartCounts};

impl Hart {
    fn counted<'a>(&'a self, lines: &'a HartCounts, at: Moment) -> Counted<'a> {
        Counted {
            cycle: at.cycle,
            instret: at.instret,
            hart: &self.state.stats,
            mix: self.state.mix.zip(&self.run.mix_here, u64::wrapping_add),
            lines,
        }
    }

    /// The count of a counter's event.
    fn hpm_source<W: World>(&self, w: &mut W, k: usize, at: Moment) -> u64 {
        match self.state.csr.hpm.counters[k].row() {
            Some(row) => row.count(&self.counted(w.coherence().counts(self.id), at)),
            None => 0,
        }
    }

    /// A counter by its index from mhpmcounter3 on.
    pub(crate) fn hpm_value<W: World>(&self, w: &mut W, k: usize, at: Moment) -> u64 {
        if k >= COUNTERS {
            return 0;
        }
        let source = self.hpm_source(w, k, at);
        self.state.csr.hpm.counters[k].counter.read(source)
    }

    pub(crate) fn set_hpm<W: World>(&mut self, w: &mut W, k: usize, value: u64, at: Moment) {
        if k >= COUNTERS {
            return;
        }
        // The write takes the place of this instruction's own increment.
        let at = at.behind();
        self.look_for_overflows(w, at);
        let source = self.hpm_source(w, k, at);
        let c = &mut self.state.csr.hpm.counters[k];
        c.counter.write(source, value);
        c.find_wrap(source);
        self.hpm_changed();
    }

    /// Writes mhpmevent. An event that does not exist is none.
    pub(crate) fn select_event<W: World>(&mut self, w: &mut W, k: usize, value: u64, at: Moment) {
        if k >= COUNTERS {
            return;
        }
        let at = at.behind();
        self.look_for_overflows(w, at);
        let value_now = self.hpm_value(w, k, at);
        let known = lookup((value & CODE) as u16).is_some();
        let select = if known { value } else { value & !CODE };
        self.state.csr.hpm.counters[k].select = select;
        // Instructions of this block by kind are counted only if they were before.
        let source = self.hpm_source(w, k, at);
        let stop = self.hpm_stands(k, self.state.privilege);
        let c = &mut self.state.csr.hpm.counters[k];
        c.counter.inhibit(source, true);
        c.counter.write(source, value_now);
        c.counter.inhibit(source, stop);
        c.find_wrap(source);
        self.hpm_changed();
    }

    /// mcountinhibit has been written.
    pub(crate) fn inhibit_events<W: World>(&mut self, w: &mut W, at: Moment) {
        let at = at.behind();
        self.look_for_overflows(w, at);
        self.start_and_stop(w, u32::MAX >> (32 - COUNTERS), self.state.privilege, at);
    }

    /// Whether a counter stands still in a mode.
    fn hpm_stands(&self, k: usize, p: Privilege) -> bool {
        let inhibited = self.state.csr.mcountinhibit >> (k + FIRST) & 1 != 0;
        inhibited || filtered(self.state.csr.hpm.counters[k].select, p)
    }

    /// Some counters go on or stop, as the registers and a mode want it.
    fn start_and_stop<W: World>(&mut self, w: &mut W, which: u32, p: Privilege, at: Moment) {
        let mut any = false;
        for k in bits(which) {
            let stop = self.hpm_stands(k, p);
            if stop == self.state.csr.hpm.counters[k].counter.frozen.is_some() {
                continue;
            }
            let source = self.hpm_source(w, k, at);
            let c = &mut self.state.csr.hpm.counters[k];
            c.counter.inhibit(source, stop);
            c.find_wrap(source);
            any = true;
        }
        if any {
            self.hpm_changed();
        }
    }

    fn hpm_changed(&mut self) {
        self.state.csr.hpm.refresh();
        self.run.recheck = true;
    }

    /// scountovf as the present mode sees it.
    pub(crate) fn overflown(&self) -> u64 {
        let visible = match self.state.privilege {
            Privilege::Machine => u64::MAX,
            _ => self.state.csr.mcounteren,
        };
        self.state.csr.hpm.overflown() & visible
    }

    /// The hart is going to another mode: counters that do not count there stop, others go on.
    #[inline(always)]
    pub(crate) fn leaves_mode<W: World>(&mut self, w: &mut W, to: Privilege, at: Moment) {
        if self.state.csr.hpm.derived.filtered != 0 || self.state.modes.is_some() {
            self.changes_mode(w, to, at);
        }
    }

    #[cold]
    fn changes_mode<W: World>(&mut self, w: &mut W, to: Privilege, at: Moment) {
        if let Some(mut modes) = self.state.modes.take() {
            let lines = w.coherence().counts(self.id);
            modes.account(self.state.privilege, &self.counted(lines, at));
            self.state.modes = Some(modes);
        }
        let filtered = self.state.csr.hpm.derived.filtered;
        if to != self.state.privilege && filtered != 0 {
            self.look_for_overflows(w, at);
            self.start_and_stop(w, filtered, to, at);
        }
    }

    /// Notes which counters have overflown, with the interrupt that follows.
    #[inline(always)]
    pub(crate) fn look_for_overflows<W: World>(&mut self, w: &mut W, at: Moment) {
        if self.state.csr.hpm.derived.armed != 0 {
            self.note_overflows(w, at);
        }
    }

    #[cold]
    fn note_overflows<W: World>(&mut self, w: &mut W, at: Moment) {
        let mut any = false;
        for k in bits(self.state.csr.hpm.derived.armed) {
            if self.hpm_source(w, k, at) < self.state.csr.hpm.counters[k].wrap {
                continue;
            }
            any = true;
            let c = &mut self.state.csr.hpm.counters[k];
            c.wrap = u64::MAX;
            if self.config.isa.has(nagori_isa::Ext::Sscofpmf) && c.select & OF == 0 {
                c.select |= OF;
                self.state.csr.mip_soft |= irq::LCOFIP;
            }
        }
        if any {
            self.hpm_changed();
        }
    }

    /// Looks for overflows between blocks. The core cycle before which no interrupt follows from another one.
    #[inline(always)]
    pub(crate) fn next_overflow<W: World>(&mut self, w: &mut W) -> u64 {
        match self.state.csr.hpm.derived.armed {
            0 => u64::MAX,
            _ => self.find_next_overflow(w),
        }
    }

    #[cold]
    fn find_next_overflow<W: World>(&mut self, w: &mut W) -> u64 {
        let at = self.moment();
        self.note_overflows(w, at);
        if self.state.csr.mie & irq::LCOFIP == 0 {
            // Whoever reads the registers looks for it.
            return u64::MAX;
        }
        let next = bits(self.state.csr.hpm.derived.armed).filter_map(|k| {
            let left = self.state.csr.hpm.counters[k]
                .wrap
                .saturating_sub(self.hpm_source(w, k, at));
            let c = &self.state.csr.hpm.counters[k];
            let row = c.row().filter(|_| c.select & OF == 0)?;
            Some(self.state.cycle.saturating_add((left / row.most).max(1)))
        });
        next.min().unwrap_or(u64::MAX)
    }

    /// Whether instructions are counted by kind: then the interpreter runs them.
    #[inline(always)]
    pub(crate) fn counts_mix(&self) -> bool {
        self.state.csr.hpm.derived.mix
    }

    /// A run of instructions of a block has retired, or (`back`) is taken back.
    #[cold]
    pub(crate) fn count_mix(&mut self, ops: &[PreOp], back: bool) {
        let f = if back {
            u64::wrapping_sub
        } else {
            u64::wrapping_add
        };
        self.state.mix = self.state.mix.zip(&Mix::of(ops), f);
    }

    /// A block begins whose instructions are counted by kind. Only its last one can read counters or change the mode.
    #[cold]
    pub(crate) fn mix_begins(&mut self, ops: &[PreOp]) {
        let before = ops.len().saturating_sub(1);
        self.run.mix_here = Mix::of(&ops[..before]);
        self.run.mix_on = true;
    }

    /// A block has ended whose instructions are counted by kind.
    #[cold]
    pub(crate) fn mix_ends(&mut self, ops: &[PreOp], end: &End) {
        let retired = match *end {
            End::Done => ops.len(),
            End::Left(i) => i + 1,
            End::NotNow(i) | End::Trap(i, _) => i,
            // The block goes on, or is given up by `leave_stop`.
            End::Stopped(_) => 0,
        };
        self.count_mix(&ops[..retired], false);
        self.run.mix_here = Mix::default();
        self.run.mix_on = false;
    }

    /// Counts events by privilege from now on, or no longer.
    pub fn count_by_privilege(&mut self, caches: &Coherence, on: bool) {
        let now = self.counted(caches.counts(self.id), self.moment());
        self.state.modes = on.then(|| Box::new(Modes::new(&now)));
    }

    /// Counts of all events by privilege, if they are counted, with the caches of the machine.
    pub fn by_privilege(&self, caches: &Coherence) -> Option<ByPrivilege> {
        let mut modes = self.state.modes.clone()?;
        let lines = caches.counts(self.id);
        modes.account(self.state.privilege, &self.counted(lines, self.moment()));
        Some(modes.by)
    }
}
