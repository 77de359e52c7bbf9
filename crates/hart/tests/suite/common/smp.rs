//! Several harts over one memory: the machine, and programs for it.

use super::{bytes, i, li, n, rm, rocket, s, Rng};
use nagori_hart::engine::{Engine, NoEngine};
use nagori_hart::flat::Flat;
use nagori_hart::lines::LineState;
use nagori_hart::world::{Bus, World};
use nagori_hart::{CodeCache, Exit, Hart, HartConfig, HartStats};
use nagori_isa::Op::*;

pub const BASE: u64 = 0x8000_0000;
const MEMORY: u64 = 4 << 20;
pub const DATA: u64 = BASE + 0x10_0000;

/// Harts with their caches, over flat memory, and what runs their code.
pub struct Machine<E = NoEngine> {
    pub w: Flat,
    pub harts: Vec<Hart>,
    pub codes: Vec<CodeCache>,
    pub engines: Vec<E>,
    pub done: Vec<bool>,
}

impl Machine {
    /// Each hart begins at its program; `wfi` ends it.
    pub fn new(programs: &[Vec<u32>], timed: bool) -> Self {
        Self::with_engines(programs, timed, || NoEngine)
    }
}

impl<E: Engine<Flat>> Machine<E> {
    /// As [`Machine::new`], with an engine for each hart.
    pub fn with_engines(programs: &[Vec<u32>], timed: bool, engine: impl Fn() -> E) -> Self {
        Self::with_core(rocket(), programs, timed, engine)
    }

    /// As [`Machine::with_engines`], with another core; lines take longer if it does not wait for loads.
    pub fn with_core(
        config: HartConfig,
        programs: &[Vec<u32>],
        timed: bool,
        engine: impl Fn() -> E,
    ) -> Self {
        let n = programs.len();
        let mut w = Flat::new(BASE, MEMORY, n, &config).expect("memory");
        if config.timing.lfb > 0 {
            w.latency = 70;
        }
        let harts = (0..n)
            .map(|id| {
                let at = 0x1000 * id as u64;
                w.ram()
                    .write_bytes(at, &bytes(&programs[id]))
                    .expect("in memory");
                let mut h = Hart::new(id, config.clone()).expect("configuration");
                h.set_timed(timed);
                h.state.pc = BASE + at;
                h.state.csr.mtvec = BASE + 0xf_0000;
                h.set_reg(10, DATA);
                h.set_reg(11, id as u64);
                h
            })
            .collect();
        Self {
            w,
            harts,
            codes: (0..n).map(|_| CodeCache::default()).collect(),
            engines: (0..n).map(|_| engine()).collect(),
            done: vec![false; n],
        }
    }

    /// One call of `run` for the hart that is furthest behind, for at most `slice`
    /// cycles beyond the next one. False when all are done.
    pub fn turn(&mut self, slice: u64) -> bool {
        let left = (0..self.harts.len()).filter(|&k| !self.done[k]);
        let Some(k) = left.clone().min_by_key(|&k| self.harts[k].state.cycle) else {
            return false;
        };
        let others = left
            .filter(|&j| j != k)
            .map(|j| self.harts[j].state.cycle)
            .min();
        let h = &mut self.harts[k];
        let limit = others.unwrap_or(h.state.cycle) + slice;
        let limit = limit.max(h.state.cycle + 1);
        let exit = h.run_with(&mut self.codes[k], &mut self.w, limit, &mut self.engines[k]);
        self.done[k] = exit == Exit::Wfi;
        assert!(
            h.state.cycle < 200_000_000,
            "hart {k} hangs at {:#x}",
            h.state.pc
        );
        true
    }

    pub fn run(&mut self, slice: u64) {
        let mut turns = 0u64;
        while self.turn(slice) {
            turns += 1;
            if turns.is_multiple_of(64) {
                self.check();
            }
        }
        self.check();
        for h in &self.harts {
            assert_eq!(
                h.state.csr.mcause, 0,
                "hart {} trapped at {:#x}",
                h.id, h.state.csr.mepc
            );
        }
    }

    /// Filters in step with caches; at most one hart has a line exclusively.
    pub fn check(&mut self) {
        for h in &self.harts {
            h.check_invariants(&mut self.w)
                .unwrap_or_else(|e| panic!("{e}"));
        }
        let c = self.w.coherence();
        for (k, l1) in c.l1d.iter().enumerate() {
            for i in 0..l1.len() {
                let (line, state) = l1.entry(i);
                if matches!(state, LineState::Exclusive | LineState::Dirty) {
                    assert!(
                        !c.holders(k, line).0,
                        "hart {k} has {line:#x} {state:?}, and so has another"
                    );
                }
            }
        }
    }

    pub fn word(&self, at: u64) -> u64 {
        self.w.ram().read_u64(at - BASE).expect("in memory")
    }

    pub fn times(&self) -> Vec<(u64, u64, HartStats)> {
        self.harts
            .iter()
            .map(|h| (h.state.cycle, h.state.instret, h.state.stats))
            .collect()
    }
}

/// Ways in which harts take turns.
pub const SLICES: [u64; 4] = [1, 13, 200, 5000];

pub fn each(test: impl Fn(bool, u64, usize)) {
    for timed in [false, true] {
        for slice in SLICES {
            for harts in [2, 4] {
                test(timed, slice, harts);
            }
        }
    }
}

/// `body` repeated `count` times (x31), then wfi.
pub fn repeat(count: i32, body: &[u32]) -> Vec<u32> {
    let mut v = li(31, count).to_vec();
    v.extend(body);
    v.push(i(Addi, 31, 31, -1));
    v.push(s(Bne, 0, 31, -4 * (body.len() as i32 + 1)));
    v.push(n(Wfi));
    v
}

/// Takes the lock at 64(x10) by exchange and gives it back.
pub fn locked(inside: &[u32]) -> Vec<u32> {
    let mut v = vec![
        i(Addi, 12, 10, 64),
        i(Addi, 5, 0, 1),
        rm(AmoswapW, 6, 12, 5, 2),
        s(Bne, 0, 6, -4),
    ];
    v.extend(inside);
    v.push(rm(AmoswapW, 0, 12, 0, 1));
    v
}

/// A program of random accesses to a few shared lines.
pub fn traffic(rng: &mut Rng) -> Vec<u32> {
    let mut body = Vec::new();
    for _ in 0..60 {
        let off = (rng.below(24) * 64 + rng.below(8) * 8) as i32;
        let x = 5 + rng.below(4) as u8;
        match rng.below(10) {
            0..=3 => body.push(i(Ld, x, 10, off)),
            4..=6 => body.push(s(Sd, x, 10, off)),
            7 => body.extend([i(Addi, 12, 10, off), rm(AmoaddD, x, 12, 31, 0)]),
            8 => body.extend([
                i(Addi, 12, 10, off),
                rm(LrD, x, 12, 0, 0),
                rm(ScD, x, 12, 31, 0),
            ]),
            _ => {
                let op = rng.pick(&[CboFlush, CboClean, CflushDL1U, CboZero]);
                body.extend([i(Addi, 12, 10, off), i(op, 0, 12, 0)]);
            }
        }
    }
    repeat(60, &body)
}
