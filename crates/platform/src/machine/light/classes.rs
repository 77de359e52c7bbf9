//! What lines of each class cost: see [`Rest`].

use super::costs::{InOrder, GAPS};
use super::Lines;
use nagori_epoch::{Amount, Attribution, Counts, Model, Params, PerLine, Variant, Weight};
use nagori_memtime::{Period, Ps};

/// Classes of lines: by the gap, in random order and then in order.
pub(super) const CLASSES: usize = 2 * GAPS;

/// The class of lines with such a gap, which come in order (1) or not (0).
#[inline]
pub(super) fn class_of(gap: u8, order: usize) -> u8 {
    gap + (order * GAPS) as u8
}

/// The formulas for lines of one class: reads with those written back, and flushed lines. None if they cost no more
/// than what is charged at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    lines: Model,
    flushes: Model,
    /// Picoseconds of a line read, written back, flushed.
    pub costs: (u64, u64, u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Each {
    pub queue: (u64, u64),
    /// Picoseconds that a read takes, by the gap before it.
    pub open: [u64; GAPS],
    /// Reads in order.
    pub in_order: Option<InOrder>,
    /// Lines that non-temporal stores have filled, and those that stores in a store buffer have asked for; in random order, and in
    /// order.
    pub past: [Hidden; 2],
    pub stores: [Hidden; 2],
}

/// Lines that a hart does not wait for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hidden {
    /// Picoseconds from a line to the next transfer at the earliest, by the gap before that.
    pub then: [u64; GAPS],
    /// The same until the line is there or written, by the gap before the line.
    pub fenced: [u64; GAPS],
}

/// What follows lines that were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Then {
    /// The class of the gap between, and its picoseconds.
    pub gap: u8,
    pub ps: u64,
    /// Whether the hart waits until they are written.
    pub waits: bool,
}

impl Hidden {
    /// Picoseconds that the hart waits for so many lines with such a class of gap before them.
    pub fn waits(&self, then: Then, before: u8, lines: u32) -> u64 {
        let (times, gap) = match then.waits {
            true => (&self.fenced, before),
            false => (&self.then, then.gap),
        };
        u64::from(lines) * times[gap as usize].saturating_sub(then.ps)
    }
}

impl Rest {
    /// For lines that cost so much when read, written back and flushed, if a read has been charged `paid` at once.
    pub fn new(costs: (u64, u64, u64), paid: u64) -> Option<Rest> {
        let (read, write_back, flush) = costs;
        // No latency is zero, so all of them are a picosecond longer.
        let clock = Period::of_ps(1)?;
        let params = |read: u64, write: u64, dram: u64, flush, nt_store| Params {
            variant: Variant::MissesWritebacks,
            attribution: Attribution::OwnVictims,
            clock,
            dram: Ps(dram + 1),
            read: Ps(read + 1),
            write: Ps(write + 1),
            weight: Weight::ONE,
            l2_weight: Weight::ZERO,
            flush,
            nt_store,
        };
        let above = |base: u64| {
            Some(PerLine {
                base: Ps(base + 1),
                overlap: Weight::ONE,
            })
        };
        Some(Rest {
            // Lines written back beyond one for each read are counted as stores past the caches.
            lines: Model::new(params(read, read + write_back, paid, None, above(read))).ok()?,
            flushes: Model::new(params(0, flush, 0, above(0), None)).ok()?,
            costs,
        })
    }

    /// Picoseconds for which so many lines were read and written.
    pub fn times(&self, n: &Lines) -> (u64, u64) {
        let of = |n: u32, ps: u64| u64::from(n).saturating_mul(ps);
        let (read, write_back, flush) = self.costs;
        let written = of(n.write_back, write_back).saturating_add(of(n.flush, flush));
        (of(n.read, read), written)
    }

    /// What so many lines have added.
    pub fn delay(&self, n: &Lines) -> Amount {
        let of = |m: &Model, counts: Counts| m.delay(&counts).unwrap_or_default().total();
        let with_victim = n.write_back.min(n.read);
        let lines = Counts {
            llc_misses: n.read.into(),
            own_victims: Some(with_victim.into()),
            nt_stores: (n.write_back - with_victim).into(),
            ..Counts::default()
        };
        let mut sum = of(&self.lines, lines);
        if n.flush > 0 {
            let flushes = n.flush.into();
            sum += of(
                &self.flushes,
                Counts {
                    flushes,
                    ..Counts::default()
                },
            );
        }
        sum
    }
}
