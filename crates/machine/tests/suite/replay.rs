//! Replay of the stream of events: registers and memory are reconstructed from it alone, and each
//! instruction is compared with the state that follows from the events before it.
//!
//! `NAGORI_REPLAYS` sets the number of random programs (default 12).

use crate::common::random::op;
use crate::common::*;
use nagori_hart::world::{AccessKind, Commit, Event, LineKind, MemAccess, Reg};
use nagori_isa::{decode, Format, Inst, Op, OPS};
use nagori_machine::{Engine, EventSink, Machine, Stop, TranslatorOptions};
use nagori_snapshot::{Bytes, Meta, Snapshot};
use std::collections::HashMap;

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});

/// An event with owned data.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Told {
    Commit(Commit),
    Trap {
        pc: u64,
        cause: u64,
        cycle: u64,
    },
    WriteBack {
        line: u64,
        kind: LineKind,
        cycle: u64,
    },
}

/// The reconstructed state of a hart.
#[derive(Clone, Default)]
struct Shadow {
    x: [u64; 32],
    f: [u64; 32],
    mscratch: u64,
    /// The next instruction's address, if it is known.
    next: Option<u64>,
    cycle: u64,
    retired: u64,
}

/// Reconstructs the state from the stream, and checks the stream.
#[derive(Default)]
struct Replay {
    harts: Vec<Shadow>,
    /// Bytes of memory that have been stored or read, by address.
    memory: HashMap<u64, u8>,
    /// Addresses of memory.
    ram: std::ops::Range<u64>,
    /// Whether devices store to memory.
    shares: bool,
    keep: bool,
    told: Vec<Told>,
    /// Loads whose value was known before.
    known: u64,
    /// Results that were computed again.
    computed: u64,
    traps: u64,
    write_backs: u64,
}

/// The result of an integer operation, for most of them.
fn compute(i: &Inst, a: u64, b: u64) -> Option<u64> {
    use Op::*;
    let imm = i.imm as i64 as u64;
    let word = |v: u64| Some(v as i32 as i64 as u64);
    Some(match i.op {
        Addi => a.wrapping_add(imm),
        Slti => u64::from((a as i64) < imm as i64),
        Sltiu => u64::from(a < imm),
        Xori => a ^ imm,
        Ori => a | imm,
        Andi => a & imm,
        Slli => a << (i.imm & 63),
        Srli => a >> (i.imm & 63),
        Srai => (a as i64 >> (i.imm & 63)) as u64,
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Sll => a << (b & 63),
        Slt => u64::from((a as i64) < b as i64),
        Sltu => u64::from(a < b),
        Xor => a ^ b,
        Srl => a >> (b & 63),
        Sra => (a as i64 >> (b & 63)) as u64,
        Or => a | b,
        And => a & b,
        Addiw => return word(a.wrapping_add(imm)),
        Addw => return word(a.wrapping_add(b)),
        Subw => return word(a.wrapping_sub(b)),
        Mul => a.wrapping_mul(b),
        Mulw => return word(a.wrapping_mul(b)),
        Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Remu => a.checked_rem(b).unwrap_or(a),
        Lui => imm,
        _ => return None,
    })
}

/// What an atomic stores.
fn combine(op: Op, old: u64, b: u64) -> Option<u64> {
    use Op::*;
    Some(match op {
        AmoswapW | AmoswapD => b,
        AmoaddW | AmoaddD => old.wrapping_add(b),
        AmoxorW | AmoxorD => old ^ b,
        AmoandW | AmoandD => old & b,
        AmoorW | AmoorD => old | b,
        AmomaxD => (old as i64).max(b as i64) as u64,
        AmominuD => old.min(b),
        AmomaxW => (old as i32).max(b as i32) as u64,
        AmominuW => u64::from((old as u32).min(b as u32)),
        _ => return None,
    })
}

/// The low bytes of a value.
fn low(v: u64, size: u8) -> u64 {
    v & (u64::MAX >> (64 - 8 * u32::from(size)))
}

/// A loaded value, extended as in the register.
fn extended(op: Op, v: u64) -> u64 {
    use Op::*;
    match op {
        Lb => v as i8 as i64 as u64,
        Lh => v as i16 as i64 as u64,
        Lw | LrW => v as i32 as i64 as u64,
        Flw => v | 0xffff_ffff_0000_0000,
        _ => v,
    }
}

impl Replay {
    fn new(shares: bool, keep: bool) -> Self {
        Self {
            shares,
            keep,
            ..Self::default()
        }
    }

    fn access(&mut self, a: &MemAccess) {
        let within = self.ram.contains(&a.paddr);
        for (k, at) in (a.paddr..).take(a.size.into()).enumerate() {
            let byte = (a.value >> (8 * (k & 15))) as u8;
            match a.kind {
                AccessKind::Read if within && !self.shares => {
                    let held = *self.memory.entry(at).or_insert(byte);
                    assert_eq!(held, byte, "{a:x?} reads what was stored last");
                    self.known += u64::from(k == 0);
                }
                AccessKind::Write if within => {
                    self.memory.insert(at, byte);
                }
                _ => {}
            }
        }
    }

    /// The accesses are those of the instruction, with the values of its registers.
    fn check_accesses(&self, c: &Commit, i: &Inst) {
        let h = &self.harts[c.hart];
        let (a, b) = (h.x[i.rs1 as usize], h.x[i.rs2 as usize]);
        let all: Vec<MemAccess> = c.accesses().collect();
        let kinds: Vec<AccessKind> = all.iter().map(|a| a.kind).collect();
        let written = c.writes[0].map(|w| w.1);
        use AccessKind::*;
        match i.op.info().format {
            Format::Load | Format::FpLoad | Format::LoadReserved => {
                let at = a.wrapping_add(i.imm as i64 as u64);
                assert_eq!((kinds, all[0].vaddr), (vec![Read], at), "{c:x?}");
                let v = extended(i.op, all[0].value as u64);
                assert!(written.is_none_or(|w| w == v), "{c:x?}");
            }
            Format::Store | Format::FpStore => {
                let at = a.wrapping_add(i.imm as i64 as u64);
                let v = match i.op.info().format {
                    Format::Store => b,
                    _ => h.f[i.rs2 as usize],
                };
                assert_eq!((kinds, all[0].vaddr), (vec![Write], at), "{c:x?}");
                assert_eq!(all[0].value as u64, low(v, all[0].size), "{c:x?}");
            }
            Format::Amo if matches!(i.op, Op::ScW | Op::ScD) => {
                let stored = c.stored.expect("an sc says what it did");
                assert_eq!(kinds, vec![Write; usize::from(stored)], "{c:x?}");
                assert!(written.is_none_or(|w| w == u64::from(!stored)));
                if let Some(w) = all.first() {
                    assert_eq!((w.vaddr, w.value as u64), (a, low(b, w.size)), "{c:x?}");
                }
            }
            Format::Amo => {
                assert_eq!((kinds, all[0].vaddr), (vec![Read, Write], a), "{c:x?}");
                let size = all[0].size;
                let old = match size {
                    4 => all[0].value as i32 as i64 as u64,
                    _ => all[0].value as u64,
                };
                assert!(written.is_none_or(|w| w == old), "{c:x?}");
                if let Some(new) = combine(i.op, old, b) {
                    assert_eq!(all[1].value as u64, low(new, size), "{c:x?}");
                }
            }
            Format::Cas | Format::CasPair | Format::Cbo | Format::Cflush => {}
            _ => assert!(all.is_empty(), "{c:x?}"),
        }
    }

    fn commit(&mut self, c: &Commit) {
        let h = &mut self.harts[c.hart];
        assert!(h.next.is_none_or(|pc| pc == c.pc), "{:x?} {c:x?}", h.next);
        assert!(h.cycle <= c.cycle, "in the order of time: {c:x?}");
        h.cycle = c.cycle;
        h.next = None;
        if c.trap.is_some() {
            assert_eq!((c.writes, c.accesses), ([None; 2], [None; 2]));
            self.traps += 1;
            return;
        }
        h.retired += 1;
        let i = decode(c.word).expect("an instruction");
        assert_eq!(c.op, Some(i.op));
        self.check_accesses(c, &i);
        for a in c.accesses() {
            self.access(&a);
        }
        let h = &mut self.harts[c.hart];
        let (a, b) = (h.x[i.rs1 as usize], h.x[i.rs2 as usize]);
        let (behind, target) = (
            c.pc.wrapping_add(i.len.into()),
            c.pc.wrapping_add(i.imm as i64 as u64),
        );
        let written = c.writes[0].map(|w| w.1);
        let mut result = compute(&i, a, b);
        h.next = Some(behind);
        use Op::*;
        match i.op {
            Beq if a == b => h.next = Some(target),
            Bne if a != b => h.next = Some(target),
            Blt if (a as i64) < b as i64 => h.next = Some(target),
            Bge if a as i64 >= b as i64 => h.next = Some(target),
            Bltu if a < b => h.next = Some(target),
            Bgeu if a >= b => h.next = Some(target),
            Jal => (h.next, result) = (Some(target), Some(behind)),
            Jalr => {
                let to = a.wrapping_add(i.imm as i64 as u64) & !1;
                (h.next, result) = (Some(to), Some(behind));
            }
            Auipc => result = Some(target),
            Mret | Sret => h.next = None,
            Csrrw | Csrrs | Csrrc if i.imm == 0x340 => result = Some(h.mscratch),
            _ => {}
        }
        if let (Some(v), true) = (result, i.rd != 0) {
            assert_eq!(written, Some(v), "{} {c:x?}", i.op.name());
            self.computed += 1;
        }
        for (r, v) in c.writes() {
            match r {
                Reg::X(r) => h.x[r as usize] = v,
                Reg::F(r) => h.f[r as usize] = v,
                Reg::Csr(0x340) => h.mscratch = v,
                Reg::Csr(_) => {}
            }
        }
    }
}

impl EventSink for Replay {
    fn happened(&mut self, event: &Event<'_>) {
        let told = match event {
            Event::Commit(c) => {
                self.commit(c);
                Told::Commit(**c)
            }
            Event::Trap(t) => {
                self.traps += 1;
                self.harts[t.hart].next = None;
                Told::Trap {
                    pc: t.pc,
                    cause: t.cause,
                    cycle: t.cycle,
                }
            }
            Event::Device(_) | Event::Reached(_) => return,
            Event::WriteBack(r) => {
                self.write_backs += 1;
                Told::WriteBack {
                    line: r.line,
                    kind: r.kind,
                    cycle: r.cycle,
                }
            }
        };
        if self.keep {
            self.told.push(told);
        }
    }
}

/// What has been reconstructed of a machine.
fn replay_of(m: &mut Machine) -> &mut Replay {
    m.event_sink().expect("the replay")
}

/// Initialises the reconstructed state from the harts.
fn follow(m: &mut Machine) {
    let harts = m.config().harts as usize;
    let ram = m.config().memory.base..m.config().memory.end();
    let shadows = (0..harts)
        .map(|k| {
            let h = m.hart(k).expect("a hart");
            Shadow {
                x: std::array::from_fn(|r| h.reg(r)),
                f: std::array::from_fn(|r| h.freg(r)),
                next: Some(h.state.pc),
                retired: h.state.instret,
                ..Shadow::default()
            }
        })
        .collect();
    for k in 0..harts {
        let v = m.csr(k, 0x340).expect("mscratch");
        let o: &mut Vec<Shadow> = &mut replay_of(m).harts;
        if o.is_empty() {
            *o = Vec::clone(&shadows);
        }
        o[k].mscratch = v;
    }
    replay_of(m).ram = ram;
}

/// Compares the reconstructed state with the harts, between two instructions.
fn compare(m: &mut Machine, what: &str) {
    let shadows = replay_of(m).harts.clone();
    for (k, s) in shadows.iter().enumerate() {
        let h = m.hart(k).expect("a hart");
        for r in 0..32 {
            assert_eq!(s.x[r], h.reg(r), "{what}: x{r} of hart {k}");
            assert_eq!(s.f[r], h.freg(r), "{what}: f{r} of hart {k}");
        }
        assert_eq!(s.retired, h.state.instret, "{what}: hart {k}");
        assert!(
            s.next.is_none_or(|pc| pc == h.state.pc),
            "{what}: pc of hart {k}"
        );
    }
}

/// Bytes of code before the random part, and of the data that the harts contend for.
const DATA: i32 = 0x4000;

/// A loop of random instructions over the same lines on every hart; instructions that trap are
/// skipped. Ends in `wfi`.
fn program(rng: &mut Rng) -> Vec<u32> {
    let mut words = vec![
        op(Op::Auipc, 5, 0, 0, 0),
        op(Op::Addi, 5, 5, 0, 36),
        op(Op::Csrrw, 0, 5, 0, 0x305),
        op(Op::Lui, 5, 0, 0, 0x6000),
        op(Op::Csrrs, 0, 5, 0, 0x300),
        op(Op::Auipc, 6, 0, 0, DATA),
        op(Op::Csrrs, 10, 0, 0, 0xf14),
        op(Op::Addi, 7, 0, 0, 25),
        op(Op::Jal, 0, 0, 0, 28),
        // The handler.
        op(Op::Csrrw, 31, 31, 0, 0x340),
        op(Op::Csrrs, 31, 0, 0, 0x341),
        op(Op::Addi, 31, 31, 0, 4),
        op(Op::Csrrw, 0, 31, 0, 0x341),
        op(Op::Csrrw, 31, 31, 0, 0x340),
        op(Op::Mret, 0, 0, 0, 0),
    ];
    let start = words.len();
    let plain: Vec<Op> = OPS
        .iter()
        .map(|i| i.op)
        .filter(|o| {
            use Format::*;
            matches!(
                o.info().format,
                R | I | Shift6 | Shift5 | Unary | FpFma | FpArith | FpCompare | FpToInt | FpFromInt
            )
        })
        .collect();
    let memory: Vec<Op> = OPS
        .iter()
        .map(|i| i.op)
        .filter(|o| {
            use Format::*;
            matches!(
                o.info().format,
                Load | Store | FpLoad | FpStore | LoadReserved | Amo | Cas | Cbo | Cflush
            ) && *o != Op::CflushDL1
        })
        .collect();
    for _ in 0..120 {
        let reg = |rng: &mut Rng| 8 + rng.below(20) as u8;
        let (rd, rs1, rs2) = (reg(rng), reg(rng), reg(rng));
        let at = 8 * rng.below(200) as i32 + i32::from(rng.one_in(12));
        let from = if rng.one_in(2) { &plain } else { &memory };
        let o = rng.pick(from);
        use Format::*;
        let word = match o.info().format {
            I => op(o, rd, rs1, 0, rng.below(4096) as i32 - 2048),
            Shift6 | Shift5 => op(o, rd, rs1, 0, rng.below(32) as i32),
            Load | FpLoad => op(o, rd, 6, 0, at),
            Store | FpStore => op(o, 0, 6, rs2, at),
            LoadReserved | Amo | Cas | Cbo | Cflush => {
                words.push(op(Op::Addi, 5, 6, 0, at));
                match o.info().format {
                    Amo | Cas => op(o, rd, 5, rs2, 0),
                    Cbo | Cflush => op(o, 0, 5, 0, 0),
                    _ => op(o, rd, 5, 0, 0),
                }
            }
            Unary | FpToInt | FpFromInt => op(o, rd, rs1, 0, 0),
            _ => op(o, rd, rs1, rs2, 0),
        };
        words.push(word);
        if rng.one_in(10) {
            let branch = rng.pick(&[Op::Beq, Op::Bne, Op::Blt, Op::Bgeu]);
            words.push(op(branch, 0, rs1, rs2, 8));
            words.push(op(Op::Fence, 0, 0, 0, 0x33));
        }
    }
    words.push(op(Op::Addi, 7, 7, 0, -1));
    let back = 4 * (words.len() - start) as i32;
    words.extend([
        op(Op::Beq, 0, 7, 0, 8),
        op(Op::Jal, 0, 0, 0, -back - 4),
        op(Op::Wfi, 0, 0, 0, 0),
        op(Op::Jal, 0, 0, 0, -4),
    ]);
    words
}

fn machine(words: &[u32], harts: usize, timed: bool) -> Machine {
    machine_with(words, &[&format!("harts={harts}")], timed)
}

/// A machine whose memory begins with these words. Instructions of extensions that it lacks are
/// illegal, which the handler skips.
fn machine_with(words: &[u32], settings: &[&str], timed: bool) -> Machine {
    let description = describe("vc707", settings);
    let mut m = Machine::new(&description).expect("a machine");
    m.set_event_sink(Some(Box::new(Replay::new(false, true))));
    m.set_timed(timed);
    put_words(m.ram(), 0, words);
    let base = m.config().memory.base;
    m.start_at(base, 0, 0);
    follow(&mut m);
    m
}

/// Runs to the end, and checks the reconstructed state at each stop.
fn finish(m: &mut Machine, slice: u64, what: &str) {
    for _ in 0..1_000_000 {
        if let Stop::Idle(_) = m.run(slice, None) {
            return compare(m, what);
        }
        compare(m, what);
    }
    panic!("{what}: no end");
}

#[test]
fn the_stream_says_all_that_happens_to_registers_and_memory() {
    for seed in 0..env("NAGORI_REPLAYS", 12) {
        let mut rng = Rng::new(seed);
        let words = program(&mut rng);
        for (harts, timed) in [(1, false), (1, true), (4, false), (4, true)] {
            let what = format!("seed {seed}, {harts} harts, timed {timed}");
            let mut m = machine(&words, harts, timed);
            finish(&mut m, 1 + rng.below(3000), &what);
            let first = std::mem::take(&mut replay_of(&mut m).told);
            let o = replay_of(&mut m);
            assert!(o.known > 100 && o.computed > 500 && o.traps > 10, "{what}");
            let written = o.write_backs;
            let stats = |k: usize| m.hart(k).expect("a hart").state.stats;
            let counted: u64 = (0..harts)
                .map(|k| stats(k).l1d_writebacks + stats(k).l1d_flushes + stats(k).probes)
                .sum();
            assert_eq!(written, counted, "{what}: each line that is written back");
            assert!(written == 0 || timed, "{what}");
            assert!(written > 10 || !timed || harts == 1, "{what}");
            // Neither engine nor slices change the stream.
            let mut m = machine(&words, harts, timed);
            m.set_engine(EAGER).expect("an engine of this host");
            finish(&mut m, 1 + rng.below(300), &what);
            assert!(replay_of(&mut m).told == first, "{what}: translator");
        }
    }
}

#[test]
fn lines_that_are_told_are_those_that_memory_gets() {
    let [l2, llc] = super::contended::LEVELS;
    for settings in [&["harts=1"][..], &["harts=4"], &["harts=4", l2, llc]] {
        let words = program(&mut Rng::new(7));
        let mut m = machine_with(&words, settings, true);
        finish(&mut m, 1000, &settings.concat());
        let told = replay_of(&mut m).write_backs;
        let written = m.report().memory.total().writes;
        // The last requests may be outstanding.
        assert!(
            told.abs_diff(written) <= 8,
            "{settings:?}: {told}, {written}"
        );
        assert!(told > 0, "{settings:?}");
    }
}

#[test]
fn a_snapshot_in_between_leaves_nothing_out() {
    for seed in 0..env("NAGORI_REPLAYS", 12) / 3 {
        let mut rng = Rng::new(100 + seed);
        let words = program(&mut rng);
        let what = format!("seed {seed}");
        let mut m = machine(&words, 4, true);
        finish(&mut m, 5000, &what);
        let whole = std::mem::take(&mut replay_of(&mut m).told);
        let mut m = machine(&words, 4, true);
        let mut blocked = 0;
        while !matches!(m.run(1 + rng.below(2000), None), Stop::Idle(_)) {
            blocked += (0..4)
                .filter(|k| m.hart(*k).expect("a hart").is_blocked())
                .count();
            let mut bytes = Vec::new();
            nagori_snapshot::save(&m, &mut bytes, &Meta::new()).expect("a snapshot");
            let snapshot = Snapshot::new(Bytes(bytes)).expect("a snapshot");
            let before = m.take_event_sink::<Replay>().expect("the replay");
            m = snapshot.machine().expect("a machine");
            m.set_event_sink(Some(before));
        }
        compare(&mut m, &what);
        assert!(blocked > 0, "{what}: some snapshot has blocked harts");
        assert!(replay_of(&mut m).told == whole, "{what}");
    }
}

#[test]
fn programs_are_replayed() {
    let Some(list) = programs("replay") else {
        return;
    };
    for (name, elf) in list {
        for timed in [false, true] {
            let description = describe("vc707", &["harts=4"]);
            // Devices store to memory in some of them.
            let replay = Replay::new(name.contains("virtio"), false);
            let mut m = Machine::new(&description).expect("a machine");
            m.set_event_sink(Some(Box::new(replay)));
            m.set_timed(timed);
            load(&mut m, &elf);
            follow(&mut m);
            for _ in 0..400 {
                match m.run(20_000, Some(1_000_000)) {
                    Stop::Slice => compare(&mut m, &name),
                    Stop::Idle(_) => {}
                    _ => break,
                }
            }
            let o = replay_of(&mut m);
            assert!(o.computed > 100, "{name} timed {timed}");
        }
    }
}
