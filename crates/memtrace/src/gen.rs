//! Traces of known patterns.

use nagori_memtime::request::Kind;

use crate::error::{Error, Place};
use crate::random::{Permutation, Random, Zipf};
use crate::record::{Record, Source, Times};

/// Order of the addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// One access after the other from the base; at the end of the span again from the base.
    Sequential,
    /// Each access anywhere in the span, all places equally likely.
    Random,
    /// Each access this many bytes after the one before, modulo the span.
    Strided(u64),
    /// Few places are accessed often: places, in random order, have probabilities according to
    /// Zipf's law with this exponent.
    Zipf(f64),
    /// All places of the span once in random order, then again in the same order, as when following
    /// a linked list; meant for the dependent mode.
    PointerChase,
}

/// Specification of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// Order of the addresses.
    pub pattern: Pattern,
    /// Number of accesses.
    pub count: u64,
    /// First address.
    pub base: u64,
    /// Bytes from the base on that are accessed.
    pub span: u64,
    /// Length of an access, a power of two up to 64; all are aligned to it.
    pub bytes: u32,
    /// Share of writes, 0 to 1, at random places.
    pub writes: f64,
    /// Time from one access to the next, in cycles.
    pub gap: u64,
    /// Seed; equal specifications give equal traces.
    pub seed: u64,
}

impl Spec {
    fn check(&self) -> Result<(), Error> {
        let b = u64::from(self.bytes);
        let wrong = |text: String| Err(Error::Option(text));
        if !(b.is_power_of_two() && b <= 64) {
            return wrong(format!(
                "accesses of {b} bytes: 1, 2, 4, 8, 16, 32 or 64 are possible"
            ));
        }
        if self.span == 0
            || !self.span.is_multiple_of(b)
            || !self.base.is_multiple_of(b)
            || self.span > 1 << 62
        {
            return wrong(format!(
                "span {:#x} from base {:#x}: both must be multiples of {b} bytes, the span not 0 and 2^62 at most",
                self.span, self.base
            ));
        }
        if self.base.checked_add(self.span).is_none() {
            return wrong(format!(
                "base {:#x} and span {:#x} reach beyond 64-bit addresses",
                self.base, self.span
            ));
        }
        if !(0.0..=1.0).contains(&self.writes) {
            return wrong(format!(
                "a share of writes of {}: 0 to 1 is possible",
                self.writes
            ));
        }
        if self.count.checked_mul(self.gap.max(1)).is_none() {
            return wrong(format!(
                "{} accesses with a gap of {} cycles: the times do not fit into 64 bits",
                self.count, self.gap
            ));
        }
        match self.pattern {
            Pattern::Strided(s) if s == 0 || s % b != 0 => wrong(format!(
                "a stride of {s} bytes: a multiple of the access of {b} bytes is needed"
            )),
            Pattern::Zipf(s) if !(s > 0.0 && s <= 10.0) => wrong(format!(
                "an exponent of {s}: more than 0 and up to 10 is possible"
            )),
            _ => Ok(()),
        }
    }
}

/// A trace that is being generated.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: Spec,
    places: u64,
    made: u64,
    next: u64,
    random: Random,
    permutation: Permutation,
    zipf: Zipf,
}

impl Generator {
    /// Begins a trace.
    pub fn new(spec: Spec) -> Result<Generator, Error> {
        spec.check()?;
        let places = spec.span / u64::from(spec.bytes);
        let exponent = match spec.pattern {
            Pattern::Zipf(s) => s,
            _ => 1.0,
        };
        Ok(Generator {
            places,
            made: 0,
            next: 0,
            random: Random::new(spec.seed),
            permutation: Permutation::new(places, spec.seed),
            zipf: Zipf::new(places, exponent),
            spec,
        })
    }

    fn offset(&mut self) -> u64 {
        let bytes = u64::from(self.spec.bytes);
        match self.spec.pattern {
            Pattern::Sequential => self.step(bytes),
            Pattern::Strided(s) => self.step(s),
            Pattern::Random => self.random.below(self.places) * bytes,
            Pattern::Zipf(_) => {
                let rank = self.zipf.rank(&mut self.random);
                self.permutation.of(rank) * bytes
            }
            Pattern::PointerChase => self.permutation.of(self.made % self.places) * bytes,
        }
    }

    /// Returns the next offset, then advances it by `by` modulo the span.
    fn step(&mut self, by: u64) -> u64 {
        let now = self.next;
        self.next = ((u128::from(now) + u128::from(by)) % u128::from(self.spec.span)) as u64;
        now
    }
}

impl Source for Generator {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.made == self.spec.count {
            return Ok(None);
        }
        let addr = self.spec.base + self.offset();
        let write = self.spec.writes > 0.0 && self.random.unit() < self.spec.writes;
        let time = self.made * self.spec.gap;
        self.made += 1;
        Ok(Some(Record {
            addr,
            kind: if write { Kind::Write } else { Kind::Read },
            bytes: self.spec.bytes,
            time,
        }))
    }

    fn times(&self) -> Times {
        Times::Cycles
    }

    fn name(&self) -> &str {
        "generated trace"
    }

    fn place(&self) -> Place {
        Place::Record(self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(pattern: Pattern) -> Spec {
        Spec {
            pattern,
            count: 64,
            base: 1 << 20,
            span: 16 * 64,
            bytes: 64,
            writes: 0.0,
            gap: 3,
            seed: 1,
        }
    }

    fn all(s: Spec) -> Vec<Record> {
        let mut g = Generator::new(s).unwrap();
        std::iter::from_fn(|| g.next().unwrap()).collect()
    }

    fn lines(p: Pattern) -> Vec<u64> {
        let of = |r: &Record| (r.addr - (1 << 20)) / 64;
        all(spec(p)).iter().map(of).collect()
    }

    #[test]
    fn orders() {
        let seq = lines(Pattern::Sequential);
        assert!(seq.iter().copied().eq((0..64).map(|i| i % 16)));
        assert_eq!(lines(Pattern::Strided(256))[..6], [0, 4, 8, 12, 0, 4]);
        let chase = lines(Pattern::PointerChase);
        assert_eq!(chase[..16], chase[16..32]);
        let mut round = chase[..16].to_vec();
        assert_ne!(round, seq[..16]);
        round.sort_unstable();
        assert_eq!(round, seq[..16]);
        let random = lines(Pattern::Random);
        assert_ne!(random[..16], random[16..32]);
        assert!(random.iter().all(|&l| l < 16));
        let zipf = lines(Pattern::Zipf(2.0));
        let most = (0..16)
            .map(|l| zipf.iter().filter(|&&z| z == l).count())
            .max();
        // Rank 0 has a share of 0.63.
        assert!(most.unwrap() > 28, "{zipf:?}");
    }

    #[test]
    fn writes_times_and_seeds() {
        let mut s = spec(Pattern::Random);
        s.writes = 0.3;
        s.count = 10_000;
        let a = all(s);
        let writes = a.iter().filter(|r| r.kind == Kind::Write).count();
        assert!((2_800..3_200).contains(&writes), "{writes}");
        assert_eq!(a[9].time, 27);
        assert_eq!(a, all(s));
        s.seed = 2;
        assert_ne!(a, all(s));
    }

    #[test]
    fn impossible_ones_are_told() {
        let s = spec(Pattern::Random);
        for (bad, what) in [
            (Spec { bytes: 48, ..s }, "48 bytes"),
            (Spec { span: 0, ..s }, "span 0x0"),
            (Spec { base: 1, ..s }, "base 0x1"),
            (Spec { base: !63, ..s }, "beyond 64-bit"),
            (Spec { writes: 1.5, ..s }, "writes of 1.5"),
            (Spec { gap: 1 << 60, ..s }, "do not fit"),
            (spec(Pattern::Strided(32)), "stride of 32"),
            (spec(Pattern::Zipf(0.0)), "exponent of 0"),
        ] {
            let e = Generator::new(bad).unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        }
    }
}
