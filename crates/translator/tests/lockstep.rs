//! The translator against the interpreter, in lock step: the same random programs, in
//! slices of the same random lengths, with every register, counter, statistic and byte
//! of memory compared on the way.
//!
//! `NAGORI_TRANSLATOR_PROGRAMS` sets the number of programs (default 120),
//! `NAGORI_TRANSLATOR_SEED` the first seed.

#[path = "../../hart/tests/common/mod.rs"]
mod common;

use common::gen::{block_address, Image, Program, BASE as USER_BASE};
use common::guest::{Sv39, USER_ALL};
use common::privileged::{Privileged, DONE};
use common::worlds::{Taken, Watched};
use common::{bytes, csrw, env, i, n, Rng};
use nagori_hart::cache::Coherence;
use nagori_hart::flat::Flat;
use nagori_hart::world::{
    Bus, BusFault, LineRequest, MemPort, Observer, Requester, TrapEvent, World,
};
use nagori_hart::{CodeCache, Csrs, Exit, Hart, HartConfig, HartStats, Privilege};
use nagori_isa::Op;
use nagori_ram::GuestRam;
use nagori_translator::{Options, Translator};

/// A world that sees traps but not instructions: with those nothing would be translated.
struct Quiet(Watched);

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
    const TRAP: bool = true;
    fn trap(&mut self, t: &TrapEvent) {
        self.0.trap(t);
    }
}

impl World for Quiet {
    fn coherence(&mut self) -> &mut Coherence {
        self.0.coherence()
    }
}

/// What runs the code.
enum Runner<W> {
    Interpreter,
    Translator(Box<Translator<W>>),
    /// One or the other, by a random number before each slice.
    Both(Box<Translator<W>>, Rng),
}

struct Side<W> {
    w: W,
    h: Hart,
    code: CodeCache,
    runner: Runner<W>,
}

/// All that a hart is, as far as it can be seen.
#[derive(PartialEq, Debug)]
struct State {
    pc: u64,
    cycle: u64,
    instret: u64,
    x: Vec<u64>,
    f: Vec<u64>,
    csr: Csrs,
    privilege: Privilege,
    stats: HartStats,
    waiting: bool,
}

impl<W: World> Side<W> {
    fn run(&mut self, limit: u64) -> Exit {
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

    fn state(&self) -> State {
        let h = &self.h;
        State {
            pc: h.pc,
            cycle: h.cycle,
            instret: h.instret,
            x: (0..32).map(|k| h.reg(k)).collect(),
            f: (0..32).map(|k| h.freg(k)).collect(),
            csr: h.csr.clone(),
            privilege: h.privilege,
            stats: h.stats,
            waiting: h.waiting,
        }
    }

    fn memory(&self) -> Vec<u8> {
        let mut m = vec![0; self.w.ram().len() as usize];
        self.w.ram().read_bytes(0, &mut m).expect("all of it");
        m
    }
}

/// What differs between two states, in words.
fn difference(a: &State, b: &State) -> String {
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

const CODE_BYTES: usize = 1 << 20;

fn translator<W: World>(threshold: u8, code_bytes: usize) -> Box<Translator<W>> {
    let options = Options {
        code_bytes,
        threshold,
    };
    Box::new(Translator::new(options).expect("memory for code"))
}

/// Runs two sides in slices until the end; what the second side's translator did.
fn lock_step<W: World>(
    name: &str,
    sides: &mut [Side<W>; 2],
    rng: &mut Rng,
    slice: u64,
    mut done: impl FnMut(&mut Side<W>, Exit) -> bool,
    traps: impl Fn(&Side<W>) -> usize,
) -> bool {
    for turn in 0.. {
        if sides[0].h.instret > 400_000 || traps(&sides[0]) > 20_000 {
            return false;
        }
        let before = sides[0].h.pc;
        let limit = sides[0].h.cycle + 1 + rng.below(slice);
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

fn privileged(seed: u64, timed: bool, slice: u64, runner: Runner<Quiet>) -> bool {
    let name = format!("program {seed}, timed {timed}, slice {slice}");
    let side = |runner| {
        let Privileged { w, h } = Privileged::random(seed, 160, timed);
        Side {
            w: Quiet(w),
            h,
            code: CodeCache::default(),
            runner,
        }
    };
    let mut sides = [side(Runner::Interpreter), side(runner)];
    let mut rng = Rng::new(seed ^ slice);
    let done = |s: &mut Side<Quiet>, exit| {
        if exit == Exit::Wfi {
            if s.h.pc == DONE {
                return true;
            }
            s.h.waiting = false;
        }
        false
    };
    let came = lock_step(&name, &mut sides, &mut rng, slice, done, |s| {
        s.w.0.traps.len()
    });
    let traps: [&Vec<Taken>; 2] = [&sides[0].w.0.traps, &sides[1].w.0.traps];
    assert_eq!(traps[0], traps[1], "{name}");
    assert_eq!(
        sides[0].w.0.flat.traffic, sides[1].w.0.flat.traffic,
        "{name}"
    );
    came
}

#[test]
fn privileged_programs() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    let count = env("NAGORI_TRANSLATOR_PROGRAMS", 120);
    let mut ended = 0;
    for seed in first..first + count {
        for timed in [false, true] {
            for slice in [7, 400, 20_000] {
                ended += privileged(
                    seed,
                    timed,
                    slice,
                    Runner::Translator(translator((seed % 3) as u8, CODE_BYTES)),
                ) as u64;
            }
        }
    }
    assert!(ended > count * 3, "only {ended} runs came to their end");
}

#[test]
fn switching_at_any_moment() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    for seed in first..first + env("NAGORI_TRANSLATOR_PROGRAMS", 120) / 4 {
        for timed in [false, true] {
            let t = translator(0, CODE_BYTES);
            privileged(seed, timed, 30, Runner::Both(t, Rng::new(seed)));
        }
    }
}

#[test]
fn a_small_arena_is_emptied_and_filled_again() {
    for seed in 0..env("NAGORI_TRANSLATOR_PROGRAMS", 120) / 8 {
        for timed in [false, true] {
            let t = translator(0, Options::LEAST_BYTES);
            privileged(seed, timed, 1000, Runner::Translator(t));
        }
    }
}

const MEMORY: u64 = 8 << 20;
const SUPPORT: u64 = USER_BASE + MEMORY - 0x2_0000;
const TRAP: u64 = SUPPORT + 0x800;

/// A hart before a program for user mode or machine mode.
fn user(image: &Image, timed: bool, paged: bool, runner: Runner<Flat>) -> Side<Flat> {
    let config = HartConfig::rocket();
    let w = Flat::new(USER_BASE, MEMORY, 1, &config).expect("memory");
    let ram = w.ram();
    ram.write_bytes(0, &image.bytes).expect("image fits");
    let mut h = Hart::new(0, config).expect("configuration");
    h.set_timed(timed);
    let mut table = Sv39::new(ram, USER_BASE, SUPPORT + 0x1000);
    table.map(USER_BASE, USER_BASE, MEMORY - 0x2_0000, USER_ALL);
    let mstatus = 1u64 << 13 | if paged { 0 } else { 3 << 11 };
    let words = [
        csrw(0x305, 10),
        csrw(0x3b0, 11),
        csrw(0x3a0, 12),
        csrw(0x180, 13),
        csrw(0x300, 14),
        csrw(0x341, 15),
        n(Op::Mret),
    ];
    ram.write_bytes(SUPPORT - USER_BASE, &bytes(&words))
        .expect("in memory");
    ram.write_u32(TRAP - USER_BASE, i(Op::Jal, 0, 0, 0))
        .expect("in memory");
    h.pc = SUPPORT;
    h.set_reg(10, TRAP);
    h.set_reg(11, u64::MAX >> 10);
    h.set_reg(12, 0x1f);
    h.set_reg(13, if paged { table.satp() } else { 0 });
    h.set_reg(14, mstatus);
    h.set_reg(15, image.entry);
    Side {
        w,
        h,
        code: CodeCache::default(),
        runner,
    }
}

#[test]
fn user_programs() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    for seed in first..first + env("NAGORI_TRANSLATOR_PROGRAMS", 120) {
        let p = Program::random(&mut Rng::new(seed), 200, block_address(0));
        let image = Image::new(&[p]);
        for (timed, paged, slice) in [
            (false, false, 10_000),
            (false, true, 50),
            (true, false, 10_000),
            (true, true, 300),
            (true, true, 9),
        ] {
            let t = Runner::Translator(translator(0, CODE_BYTES));
            let mut sides = [
                user(&image, timed, paged, Runner::Interpreter),
                user(&image, timed, paged, t),
            ];
            let name = format!("user program {seed}, timed {timed}, paged {paged}");
            let mut rng = Rng::new(seed);
            let done = |s: &mut Side<Flat>, _| s.h.pc == TRAP;
            let came = lock_step(&name, &mut sides, &mut rng, slice, done, |_| 0);
            assert!(came, "{name}: does not come to its end");
            let Runner::Translator(t) = &sides[1].runner else {
                unreachable!("set above")
            };
            assert!(t.stats().entries > 0, "{name}: nothing was translated");
        }
    }
}
