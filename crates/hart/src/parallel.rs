//! Differences when harts run at the same time, in threads of the host ([`World::PARALLEL`]):
//! atomics, and notices from other harts while blocks run.
//!
//! Only code that passes the filters runs without the lock on the shared state. Everything else
//! begins with [`Hart::poll_notices`] and ends with [`World::release`], so a filter is only changed
//! by its hart, under the lock, when no notice of another hart is pending.

use crate::access::read_ram;
use crate::hart::Hart;
use crate::world::World;
use nagori_cache::Notice;
use nagori_ram::GuestRam;

/// Replaces a scalar of 4 or 8 bytes by what `f` makes of it, in one step; what was there.
pub(crate) fn update(ram: &GuestRam, offset: u64, size: u8, f: impl Fn(u64) -> u64) -> u64 {
    let read = || match size {
        4 => ram.read_u32(offset).map(u64::from),
        _ => ram.read_u64(offset),
    };
    // In range by construction, as for other accesses.
    let mut old = read().unwrap_or(0);
    loop {
        match exchange(ram, offset, size, old, f(old)) {
            Ok(old) => return old,
            Err(now) => old = now,
        }
    }
}

/// Replaces a scalar of 4 or 8 bytes if it is what is expected; what was there.
pub(crate) fn exchange(
    ram: &GuestRam,
    offset: u64,
    size: u8,
    old: u64,
    new: u64,
) -> Result<u64, u64> {
    let done = match size {
        4 => ram
            .compare_exchange_u32(offset, old as u32, new as u32)
            .map(|r| r.map(u64::from).map_err(u64::from)),
        _ => ram.compare_exchange_u64(offset, old, new),
    };
    done.unwrap_or(Ok(0))
}

impl Hart {
    /// Takes what harts share for this one, and applies what others want of its data filter.
    /// To be called before anything but code that passes the filters. Nothing to do where harts
    /// run one after the other.
    #[inline(always)]
    pub fn poll_notices<W: World>(&mut self, w: &mut W) {
        if W::PARALLEL {
            w.acquire();
            self.heed_notices(w);
        }
    }

    /// Applies what others, or events, want of this hart's filters while it runs.
    #[inline(always)]
    pub(crate) fn heed_notices<W: World>(&mut self, w: &mut W) {
        if w.coherence().has_notices(self.id) {
            self.heed_all(w);
        }
    }

    #[cold]
    #[inline(never)]
    fn heed_all<W: World>(&mut self, w: &mut W) {
        for n in w.coherence().take_notices(self.id) {
            match n {
                // Code may be running: it is dropped between blocks.
                Notice::StaleCode(_) => {
                    w.coherence().post(self.id, n);
                    self.run.recheck = true;
                }
                _ => self.apply_notice(w, n),
            }
        }
    }

    /// Between the decoding of a page by another hart and the notice of it, this one may
    /// have stored to it: all decode it again.
    pub(crate) fn stored_meanwhile<W: World>(&mut self, w: &mut W, page: u64) {
        if w.coherence().invalidate_code(page << 12) {
            self.run.recheck = true;
        }
    }

    /// Before code is fetched behind a fence.i, pages that others may have stored to without
    /// being noticed are dropped.
    pub(crate) fn drop_unguarded<W: World>(&mut self, w: &mut W) {
        for page in w.coherence().unguarded() {
            w.coherence().invalidate_code(page << 12);
        }
        self.run.recheck = true;
    }

    /// Stores if memory still holds what lr has read there, as an sc does that cannot see
    /// others' stores: a value that was changed and changed back is not noticed.
    pub(crate) fn store_if_same<W: World>(&self, w: &W, o: u64, size: u8, value: u64) -> bool {
        let (at, bytes, old) = self.run.loaded;
        (at, bytes) == (o, size)
            && read_ram(w, o, size) == old
            && exchange(w.ram(), o, size, old, value).is_ok()
    }

    /// Ends the reservation of the last lr, as an implementation may at any time.
    pub fn end_reservation(&mut self) {
        self.state.reservation = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_by_several_threads_are_all_counted() {
        let ram = GuestRam::new(4096).unwrap();
        std::thread::scope(|s| {
            for size in [4, 8, 4, 8] {
                let ram = &ram;
                s.spawn(move || {
                    for _ in 0..10_000 {
                        update(ram, size as u64, size, |old| old + 1);
                    }
                });
            }
        });
        assert_eq!(ram.read_u32(4), Some(20_000));
        assert_eq!(ram.read_u64(8), Some(20_000));
    }
}
