//! The light mode: programs behave as in functional mode, and each turn costs the cycles that the
//! world states.

use crate::common::bare::{Bare, BASE};
use crate::common::worlds::bus_of_flat;
use crate::common::{i, n, rm, s};
use nagori_hart::engine::NoEngine;
use nagori_hart::flat::Flat;
use nagori_hart::lines::Coherence;
use nagori_hart::mode::{Functional, Light, Mode};
use nagori_hart::world::{LineRequest, MemPort, Observer, Turn, World};
use nagori_hart::{Hart, HartConfig};
use nagori_isa::Op;

/// Flat memory where turns cost three cycles an instruction.
struct Priced {
    flat: Flat,
    turns: Vec<(u64, u64, u64)>,
}

bus_of_flat!(Priced);

impl MemPort for Priced {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.write_line(req)
    }
    fn turn_cost(&mut self, t: &Turn<'_>) -> u64 {
        self.turns.push((t.cycle, t.cycles, t.instructions));
        3 * t.instructions
    }
}

impl Observer for Priced {}

impl World for Priced {
    fn coherence(&mut self) -> &mut Coherence {
        self.flat.coherence()
    }
}

/// A loop of loads, stores and atomics, to the `wfi` at its end, in turns of so many cycles.
fn run<M: Mode>(turn: u64) -> (Hart, Priced) {
    let words = [
        i(Op::Addi, 7, 0, 60),
        i(Op::Addi, 5, 5, 3),
        s(Op::Sd, 5, 6, 0),
        rm(Op::AmoaddD, 8, 6, 7, 0),
        i(Op::Ld, 9, 6, 0),
        i(Op::Addi, 7, 7, -1),
        s(Op::Bne, 0, 7, -20),
        n(Op::Wfi),
    ];
    let Bare { w, mut h, mut code } = Bare::new(HartConfig::rocket(), false, &words);
    h.set_reg(6, BASE + 0x2000);
    let mut w = Priced {
        flat: w,
        turns: Vec::new(),
    };
    while !h.waiting {
        let limit = h.cycle + turn;
        h.run_as::<M, _, _>(&mut code, &mut w, limit, limit, &mut NoEngine);
    }
    (h, w)
}

#[test]
fn turns_cost_what_the_world_says() {
    let (plain, w) = run::<Functional>(20);
    assert!(w.turns.is_empty(), "nobody asks in functional mode");
    for turn in [1, 7, 20, 1000] {
        let (h, mut w) = run::<Light>(turn);
        let regs = |h: &Hart| (0..32).map(|k| h.reg(k)).collect::<Vec<_>>();
        assert_eq!(regs(&h), regs(&plain));
        assert_eq!(h.instret, plain.instret);
        assert_eq!(h.cycle, plain.cycle + 3 * plain.instret, "turns of {turn}");
        let told: u64 = w.turns.iter().map(|t| t.2).sum();
        assert_eq!(told, h.instret);
        let passed: u64 = w.turns.iter().map(|t| t.1).sum();
        assert_eq!(passed, plain.cycle);
        assert!(w.turns.is_sorted_by_key(|t| t.0));
        assert_eq!(h.check_invariants(&mut w), Ok(()));
    }
}
