//! Random numbers and permutations that are the same on every host.

/// xoshiro256** (Blackman and Vigna, 2018), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

/// One step of SplitMix64 (Steele, Lea and Flood, 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// A bijection of 64-bit words without visible structure (SplitMix64's).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// A generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Random {
        let mut s = seed;
        Random(std::array::from_fn(|_| splitmix(&mut s)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `n`, which is not 0, without bias (Lemire, 2019).
    pub fn below(&mut self, n: u64) -> u64 {
        loop {
            let wide = u128::from(self.bits()) * u128::from(n);
            let low = wide as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)` of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A random permutation of `0..n` that takes no memory: a Feistel network over the next power of
/// four, repeated until the result is in range.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    half: u32,
    keys: [u64; 6],
}

impl Permutation {
    /// A permutation of `0..n`; `n` is 1 to 2^62.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let bits = 64 - (n - 1).leading_zeros();
        let mut s = seed ^ 0x7065_726d;
        Permutation {
            n,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| splitmix(&mut s)),
        }
    }

    /// The image of `i`, which is below `n`.
    pub fn of(&self, mut i: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        loop {
            let (mut l, mut r) = (i >> self.half, i & mask);
            for k in self.keys {
                (l, r) = (r, l ^ (mix(r ^ k) & mask));
            }
            i = l << self.half | r;
            if i < self.n {
                return i;
            }
        }
    }
}

/// Ranks with Zipf's law: rank k, from 0, has a probability in proportion to
/// 1 / (k + 1)^s. Rejection-inversion (Hörmann and Derflinger, 1996).
///
/// The last bit of a logarithm or a power differs between C libraries, and in one between processors. A crate computes
/// them, so that a trace is the same on every host.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    s: f64,
    h_first: f64,
    h_last: f64,
    threshold: f64,
}

impl Zipf {
    /// Ranks below `n`, which is not 0; the exponent `s` is above 0.
    pub fn new(n: u64, s: f64) -> Zipf {
        let mut z = Zipf {
            n: n as f64,
            s,
            h_first: 0.0,
            h_last: 0.0,
            threshold: 0.0,
        };
        z.h_first = z.integral(1.5) - 1.0;
        z.h_last = z.integral(z.n + 0.5);
        z.threshold = 2.0 - z.inverse(z.integral(2.5) - libm::pow(2.0, -s));
        z
    }

    /// Integral of x^-s, shifted so that it is continuous in s.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.s) * log;
        log * if t.abs() > 1e-8 {
            libm::expm1(t) / t
        } else {
            1.0
        }
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.s)).max(-1.0);
        let f = if t.abs() > 1e-8 {
            libm::log1p(t) / t
        } else {
            1.0
        };
        libm::exp(f * x)
    }

    /// A rank from 0.
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.h_last + random.unit() * (self.h_first - self.h_last);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.threshold || u >= self.integral(k + 0.5) - libm::pow(k, -self.s) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_permutations() {
        for n in [1, 2, 3, 17, 64, 1000, 4096] {
            let p = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| p.of(i)).collect();
            assert!(n < 17 || seen.windows(2).any(|w| w[0] > w[1]));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
        let order = |seed| (0..100).map(move |i| Permutation::new(100, seed).of(i));
        assert!(order(1).eq(order(1)));
        assert!(!order(1).eq(order(2)));
    }

    #[test]
    fn numbers_are_below_their_bound_and_even() {
        let mut r = Random::new(1);
        let mut counts = [0u32; 5];
        for _ in 0..50_000 {
            counts[r.below(5) as usize] += 1;
        }
        // 10 000 each, standard deviation 89.
        assert!(
            counts.iter().all(|c| (9_550..10_450).contains(c)),
            "{counts:?}"
        );
    }

    #[test]
    fn the_law_of_zipf() {
        for s in [0.5, 0.99, 1.0, 1.5] {
            const N: u64 = 100;
            const DRAWS: u32 = 200_000;
            let (z, mut r) = (Zipf::new(N, s), Random::new(3));
            let mut counts = [0u32; N as usize];
            for _ in 0..DRAWS {
                counts[z.rank(&mut r) as usize] += 1;
            }
            let whole: f64 = (1..=N).map(|k| (k as f64).powf(-s)).sum();
            for k in [0usize, 1, 2, 9, 49, 99] {
                let p = ((k + 1) as f64).powf(-s) / whole;
                let (mean, sigma) = (f64::from(DRAWS) * p, (f64::from(DRAWS) * p).sqrt());
                let off = (f64::from(counts[k]) - mean).abs();
                assert!(
                    off < 5.0 * sigma,
                    "s {s}, rank {k}: {} for {mean:.0}",
                    counts[k]
                );
            }
        }
    }
}
