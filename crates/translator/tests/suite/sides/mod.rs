//! A program on two sides: the interpreter, and what is compared with it.
#![allow(dead_code)]

use crate::common::worlds::Watched;
use crate::common::Rng;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{Bus, BusFault, Event, LineRequest, MemPort, Observer, Requester, World};
use nagori_hart::{CodeCache, Csrs, Exit, Hart, HartStats, Privilege};
use nagori_ram::GuestRam;
use nagori_translator::{Options, Translator};

/// A world that sees traps but not instructions: with those nothing would be translated.
pub struct Quiet(pub Watched);

impl Bus for Quiet {
    fn ram(&self) -> &GuestRam {
        self.0.ram()
    }
    fn ram_base(&self) -> u64 {
        self.0.ram_base()
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        self.0.mmio_read(by, paddr, size)
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        v: u64,
    ) -> Result<(), BusFault> {
        self.0.mmio_write(by, paddr, size, v)
    }
    fn time(&self, cycle: u64) -> u64 {
        self.0.time(cycle)
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.0.cycle_of_time(time)
    }
}

impl MemPort for Quiet {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.0.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.0.write_line(req)
    }
}

impl Observer for Quiet {
    const TRAPS: bool = true;
    fn happened(&mut self, event: &Event<'_>) {
        self.0.happened(event);
    }
}

impl World for Quiet {
    fn coherence(&mut self) -> &mut Coherence {
        self.0.coherence()
    }
}

/// What runs the code.
pub enum Runner<W> {
    Interpreter,
    Translator(Box<Translator<W>>),
    /// One or the other, by a random number before each slice.
    Both(Box<Translator<W>>, Rng),
}

pub struct Side<W> {
    pub w: W,
    pub h: Hart,
    pub code: CodeCache,
    pub runner: Runner<W>,
}

/// All that a hart is, as far as it can be seen.
#[derive(PartialEq, Debug)]
pub struct State {
    pub pc: u64,
    pub cycle: u64,
    pub instret: u64,
    pub x: Vec<u64>,
    pub f: Vec<u64>,
    pub csr: Csrs,
    pub privilege: Privilege,
    pub stats: HartStats,
    pub waiting: bool,
}

impl<W: World> Side<W> {
    pub fn run(&mut self, limit: u64) -> Exit {
        match &mut self.runner {
            Runner::Interpreter => self.h.run(&mut self.code, &mut self.w, limit),
            Runner::Translator(t) => {
                self.h
                    .run_with(&mut self.code, &mut self.w, limit, t.as_mut())
            }
            Runner::Both(t, rng) => {
                if rng.one_in(2) {
                    self.h.run(&mut self.code, &mut self.w, limit)
                } else {
                    self.h
                        .run_with(&mut self.code, &mut self.w, limit, t.as_mut())
                }
            }
        }
    }

    pub fn state(&self) -> State {
        let h = &self.h;
        State {
            pc: h.state.pc,
            cycle: h.state.cycle,
            instret: h.state.instret,
            x: (0..32).map(|k| h.reg(k)).collect(),
            f: (0..32).map(|k| h.freg(k)).collect(),
            csr: h.state.csr.clone(),
            privilege: h.state.privilege,
            stats: h.state.stats,
            waiting: h.state.waiting,
        }
    }

    pub fn memory(&self) -> Vec<u8> {
        let mut m = vec![0; self.w.ram().len() as usize];
        self.w.ram().read_bytes(0, &mut m).expect("all of it");
        m
    }
}

/// What differs between two states, in words.
pub fn difference(a: &State, b: &State) -> String {
    let mut out = String::new();
    for k in 0..32 {
        if a.x[k] != b.x[k] {
            out += &format!("x{k}: {:#x}, translated {:#x}\n", a.x[k], b.x[k]);
        }
        if a.f[k] != b.f[k] {
            out += &format!("f{k}: {:#x}, translated {:#x}\n", a.f[k], b.f[k]);
        }
    }
    let scalars = |s: &State| format!("{:x?}", (s.pc, s.privilege, &s.csr));
    let times = |s: &State| format!("{:?}", (s.cycle, s.instret, &s.stats));
    for (x, y) in [(scalars(a), scalars(b)), (times(a), times(b))] {
        if x != y {
            out += &format!("{x}\ntranslated\n{y}\n");
        }
    }
    out
}

pub const CODE_BYTES: usize = 1 << 20;

pub fn translator<W: World>(threshold: u8, code_bytes: usize) -> Box<Translator<W>> {
    let options = Options {
        code_bytes,
        threshold,
    };
    Box::new(Translator::new(options).expect("memory for code"))
}

/// Runs two sides in slices until the end; what the second side's translator did.
pub fn lock_step<W: World>(
    name: &str,
    sides: &mut [Side<W>; 2],
    rng: &mut Rng,
    slice: u64,
    mut done: impl FnMut(&mut Side<W>, Exit) -> bool,
    traps: impl Fn(&Side<W>) -> usize,
) -> bool {
    for turn in 0.. {
        if sides[0].h.state.instret > 400_000 || traps(&sides[0]) > 20_000 {
            return false;
        }
        let before = sides[0].h.state.pc;
        let limit = sides[0].h.state.cycle + 1 + rng.below(slice);
        let exits = [sides[0].run(limit), sides[1].run(limit)];
        let states = [sides[0].state(), sides[1].state()];
        assert!(
            states[0] == states[1] && exits[0] == exits[1],
            "{name}, turn {turn} from {before:#x}, exits {exits:?}:\n{}",
            difference(&states[0], &states[1])
        );
        if rng.one_in(64) {
            let s = &mut sides[1];
            s.h.check_invariants(&mut s.w)
                .unwrap_or_else(|e| panic!("{name}, turn {turn}: {e}"));
        }
        let ends = sides.each_mut().map(|s| done(s, exits[0]));
        if ends[0] {
            break;
        }
    }
    assert!(
        sides[0].memory() == sides[1].memory(),
        "{name}: memory differs"
    );
    true
}
