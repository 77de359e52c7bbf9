//! A compact table of each hart's cycle and of what it runs, so that the scheduler finds the next
//! turn without accessing the harts themselves.

use super::sleeps;
use nagori_hart::{Hart, Privilege};

/// All harts that run are in user mode.
const USERS: u8 = 1;

/// All harts that run are in machine mode, without an operating system.
const BARE: u8 = 2;

/// Some hart runs a kernel or its firmware.
const KERNEL: u8 = 4;

/// The bit for what a hart runs.
#[inline(always)]
pub(super) fn mode(h: &Hart) -> u8 {
    match h.state.privilege {
        Privilege::User => USERS,
        Privilege::Machine if !h.state.csr.paging() => BARE,
        _ => KERNEL,
    }
}

/// Whether harts in these modes rarely send interrupts to one another.
#[inline(always)]
pub(super) fn is_apart(modes: u8) -> bool {
    modes == USERS || modes == BARE
}

/// A hart's cycle and number. Of two harts at the same cycle, the one with the lower number is
/// first.
pub(super) type Place = (u64, usize);
pub(super) const NOBODY: Place = (u64::MAX, usize::MAX);

/// The scheduler's copy of a hart's state.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its cycle if it can run, otherwise `u64::MAX`.
    cycle: u64,
    /// The cycle at which it wakes by itself if it sleeps, otherwise `u64::MAX`.
    wake: u64,
    /// The bit for what it runs (see `turns`); 0 if it sleeps.
    mode: u8,
}

/// All harts, as they are between turns. Must be updated whenever a hart has changed.
#[derive(Debug, Default)]
pub(super) struct Roster {
    harts: Vec<Entry>,
    /// Harts that do not sleep, a bit each; blocked ones are among them.
    pub running: u64,
    /// What these harts run, a bit for each kind.
    pub modes: u8,
    /// The earliest cycle at which one of the sleeping harts wakes by itself.
    pub wake: u64,
}

impl Roster {
    /// Updates the table from all harts.
    pub fn look(&mut self, harts: &[Hart]) {
        self.harts.clear();
        self.harts.extend(harts.iter().map(entry));
        self.sum_up();
    }

    /// Updates the entry of one hart.
    #[inline(always)]
    pub fn look_at(&mut self, i: usize, h: &Hart) {
        let new = entry(h);
        let old = std::mem::replace(&mut self.harts[i], new);
        if (old.mode, old.wake) != (new.mode, new.wake) {
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        (self.running, self.modes, self.wake) = (0, 0, u64::MAX);
        for (i, e) in self.harts.iter().enumerate() {
            self.running |= u64::from(e.mode != 0) << i;
            self.modes |= e.mode;
            self.wake = self.wake.min(e.wake);
        }
    }

    /// The two harts that are furthest behind, of those that can run.
    #[inline(always)]
    pub fn first_two(&self) -> (Place, Place) {
        let (mut first, mut second) = (NOBODY, NOBODY);
        for (i, e) in self.harts.iter().enumerate() {
            // Of harts at the same cycle, the one with the lower number stays first.
            if e.cycle < first.0 {
                (first, second) = ((e.cycle, i), first);
            } else if e.cycle < second.0 {
                second = (e.cycle, i);
            }
        }
        (first, second)
    }

    /// The cycle of a hart that can run.
    #[inline(always)]
    pub fn cycle(&self, i: usize) -> u64 {
        self.harts[i].cycle
    }
}

#[inline(always)]
fn entry(h: &Hart) -> Entry {
    if sleeps(h) {
        return Entry {
            cycle: u64::MAX,
            wake: h.wake_cycle().unwrap_or(u64::MAX).max(h.state.cycle),
            mode: 0,
        };
    }
    Entry {
        cycle: if h.is_blocked() {
            u64::MAX
        } else {
            h.state.cycle
        },
        wake: u64::MAX,
        mode: mode(h),
    }
}
