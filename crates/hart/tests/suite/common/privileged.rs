//! Random privileged programs. Code comes in slots of 32 bytes; whatever traps
//! is resumed at the next slot by handlers in M and S mode, so that every
//! program comes to its end.
//!
//! Physical and S-mode virtual addresses are the same; U mode runs the code at
//! an alias. Registers x21..x28 hold constants and are not written by slots.

use super::guest::Sv39;
use super::worlds::{core, Watched};
use super::{bytes, csrr, csrw, i, li, n, r, rm, s, u, Rng};
use nagori_hart::world::Bus;
use nagori_hart::Hart;
use nagori_isa::{decode, Ext, Extensions, Format, Op, OPS};
use Op::*;

/// First address of memory.
pub const BASE: u64 = 0x10_0000;
/// Bytes of memory.
pub const MEMORY: u64 = 0x18_0000;
const M_HANDLER: u64 = 0x10_1000;
const S_HANDLER: u64 = 0x10_2000;
const M_AREA: u64 = 0x10_3000;
const S_AREA: u64 = 0x10_3800;
const CODE: u64 = 0x10_4000;
const DATA: u64 = 0x11_0000;
const DATA_BYTES: u64 = 0x1_0000;
/// Pages whose rights change; the first of their 2 MiB.
const SPECIAL: u64 = 0x20_0000;
const SPECIAL_PAGES: u64 = 16;
const TABLES: u64 = 0x24_0000;
/// Bit of the addresses that U mode uses.
const ALIAS: u64 = 1 << 30;
/// A superpage of 2 MiB over the special pages, and one that is misaligned.
const SUPER: u64 = 0x6000_0000;
/// A superpage of 1 GiB over physical address 0.
const GIGA: u64 = 0x8000_0000;
const SLOT: u64 = 32;
const NOP: u32 = 0x13;

/// Where the machine-mode handler goes when the program is over.
const FINISH: u64 = M_HANDLER + 0xf00;
/// Where the hart waits then, for ever.
pub const DONE: u64 = FINISH + 8;

/// Not written by random instructions: pointers for compressed forms, constants.
fn reserved(r: u8) -> bool {
    matches!(r, 2 | 8 | 9 | 21..=28)
}

fn rd(rng: &mut Rng) -> u8 {
    loop {
        let r = rng.below(32) as u8;
        if !reserved(r) {
            return r;
        }
    }
}

/// One instruction that neither jumps nor touches memory outside the data; rarely one that is illegal.
fn simple(rng: &mut Rng) -> u32 {
    if rng.one_in(25) {
        let w = rng.bits() as u32;
        return if decode(w).is_none() { w | 3 } else { 0 };
    }
    loop {
        // Whatever the extension: the format says what the instruction may do.
        let row = rng.pick(OPS);
        let w = row.match_ | rng.bits() as u32 & !row.mask;
        let Some(d) = decode(w) else { continue };
        let int = match row.format {
            Format::R | Format::Unary | Format::I | Format::Shift5 | Format::Shift6 | Format::U => {
                true
            }
            Format::FpCompare | Format::FpToInt | Format::FpMoveToInt => true,
            Format::FpArith | Format::FpFma | Format::FpPair | Format::FpUnary => false,
            Format::FpFromInt | Format::FpMoveFromInt | Format::Fence | Format::Prefetch => false,
            Format::Load => {
                let off = (rng.below(64) * 8) as i32;
                return i(d.op, rd(rng), rng.pick(&[8, 9]), off);
            }
            Format::FpLoad => return i(d.op, d.rd, rng.pick(&[8, 9]), (rng.below(64) * 8) as i32),
            Format::Store | Format::FpStore => {
                return s(d.op, d.rs2, rng.pick(&[8, 9]), (rng.below(64) * 8) as i32)
            }
            _ => continue,
        };
        if int && reserved(d.rd) {
            continue;
        }
        return w;
    }
}

/// Often all extensions, else not those that a few cannot be without. Half of the time, hardware sets A and D bits.
fn some_extensions(rng: &mut Rng) -> Extensions {
    let mut set = Extensions::ALL;
    if rng.one_in(2) {
        set = set.without(Ext::Svadu);
    }
    if rng.one_in(3) {
        for _ in 0..1 + rng.below(4) {
            let e = rng.pick(Ext::ALL);
            if !matches!(e, Ext::I | Ext::Zicsr | Ext::Priv) {
                set = set.without(e);
            }
        }
    }
    set
}

/// Any address that a program may access, good and bad.
fn data_address(rng: &mut Rng) -> u64 {
    let alias = if rng.one_in(2) { ALIAS } else { 0 };
    let align = if rng.one_in(12) { 0 } else { 7 };
    let a = match rng.below(12) {
        0..=4 => DATA + rng.below(DATA_BYTES) + alias,
        5..=7 => SPECIAL + rng.below(SPECIAL_PAGES << 12) + alias,
        8 => SUPER + rng.below(SPECIAL_PAGES << 12) + if rng.one_in(4) { 2 << 20 } else { 0 },
        9 => {
            GIGA + if rng.one_in(2) {
                DATA
            } else {
                rng.below(1 << 22)
            }
        }
        10 => rng.pick(&[
            0,
            1 << 40,
            u64::MAX - 7,
            BASE + MEMORY,
            BASE - 8,
            0x4000_0000,
            0x5000_0000,
        ]),
        _ => SPECIAL + rng.below(4) * 4096 + 0xff8 + rng.below(2) * 8 + alias,
    };
    a & !align
}

/// Values for a CSR that a program may write without losing its way.
fn csr_and_value(rng: &mut Rng) -> (u16, u64) {
    let v = rng.bits();
    let sparse = v & rng.bits();
    match rng.below(30) {
        26 => (0x7a0, rng.below(5)),
        27..=28 => {
            // For any kind, mode, match and size.
            let kinds = rng.pick(&[1, 2, 3, 4, 7]) | rng.pick(&[0x08, 0x10, 0x40, 0x58, 0x18]);
            let how = rng.pick(&[0, 0, 0, 1, 2, 3, 4, 8]) << 7 | rng.pick(&[0, 0, 2, 3, 5]) << 16;
            (0x7a1, 6 << 60 | kinds | how)
        }
        29 => {
            let data = data_address(rng);
            let code = CODE + rng.below(160) * SLOT + 4 * rng.below(8);
            let ones = (1 << rng.below(10)) - 1;
            (0x7a2, rng.pick(&[data, code, code | ALIAS]) | ones)
        }
        0..=2 => (
            0x300,
            sparse & 0x7e_19aa | if rng.one_in(4) { 0 } else { 1 << 13 },
        ),
        3 => (
            0x100,
            sparse & 0xc_0122 | if rng.one_in(4) { 0 } else { 1 << 13 },
        ),
        4..=5 => (0x302, v & 0xb1ff),
        6 => (0x303, v),
        7 => (0x304, sparse),
        8 => (0x104, sparse),
        9 => (0x344, sparse),
        10 => (0x144, sparse),
        11 => (rng.pick(&[0x306, 0x106]), v),
        12 => (0x30a, v & !(1 << 63)),
        13 => (0x10a, v),
        14 => (rng.pick(&[0x141, 0x142, 0x143, 0x341, 0x342, 0x343]), v),
        15 => (rng.pick(&[1, 2, 3]), sparse),
        16 => (0xb02, v),
        17 => (0x320, if rng.one_in(2) { 4 } else { 0 }),
        18 => (0x14d, v),
        19..=20 => {
            // Entries 8..14 over the special pages; 15 lets everything else pass.
            let lock = if rng.one_in(40) {
                !0
            } else {
                0x007f_7f7f_7f7f_7f7f
            };
            (0x3a2, v & lock & 0x00ff_ffff_ffff_ffff | 0x1f << 56)
        }
        21..=23 => {
            let at = SPECIAL + rng.below(SPECIAL_PAGES << 12);
            let ones = rng.below(12);
            (
                0x3b8 + rng.below(7) as u16,
                at >> 2 & !((1 << ones) - 1) | ((1 << ones) - 1) >> 1,
            )
        }
        24 => (rng.pick(&[0xc02, 0xf14, 0x301, 0xf11]), v),
        _ => (rng.below(4096) as u16 | 0x400, v),
    }
}

/// Whether a random number is one whose value depends on time or would stop the program.
fn unfit(number: u16) -> bool {
    let time =
        matches!(number, 0xb00 | 0xb03..=0xb1f | 0xc00 | 0xc01 | 0xc03..=0xc1f | 0x323..=0x33f);
    time || matches!(
        number,
        0x105 | 0x140 | 0x180 | 0x305 | 0x340 | 0x3a0..=0x3ef
    )
}

/// A program in memory, ready to run.
pub struct Privileged {
    pub w: Watched,
    pub h: Hart,
}

struct Slots<'a> {
    rng: &'a mut Rng,
    count: u64,
    /// Slots that hold nothing but simple instructions, and may be stored to.
    plain: Vec<u64>,
}

impl Slots<'_> {
    /// A literal of 8 bytes at the end of a slot whose instructions are `words` (six at most).
    fn with_literal(words: &[u32], literal: u64) -> Vec<u32> {
        let mut v = words.to_vec();
        assert!(v.len() <= 5);
        v.push(u(Jal, 0, (SLOT as i32) - 4 * v.len() as i32));
        v.resize(6, NOP);
        v.extend([literal as u32, (literal >> 32) as u32]);
        v
    }

    fn access(&mut self) -> Vec<u32> {
        let mut a = data_address(self.rng);
        let mut op = self.rng.pick(&[
            Lb, Lbu, Lh, Lhu, Lw, Lwu, Ld, Flw, Fld, Sb, Sh, Sw, Sd, Fsw, Fsd, LrD, ScD, AmoaddW,
            AmoswapD, AmomaxuW, CboClean, CboFlush, CboInval, CboZero, CflushDL1U, CflushDL1,
        ]);
        if self.rng.one_in(12) {
            a = (CODE + self.rng.below(self.count * SLOT)) & !7;
            op = self.rng.pick(&[Ld, Lw, LrW, CboClean, CflushDL1U]);
        }
        let t = self.rng.below(32) as u8;
        let dest = rd(self.rng);
        let word = |op: Op, off: i32| match op.info().format {
            Format::Load => i(op, dest, 29, off),
            Format::FpLoad => i(op, t, 29, off),
            Format::Store | Format::FpStore => s(op, t, 29, off),
            Format::LoadReserved => rm(op, dest, 29, 0, 0),
            Format::Amo | Format::Cas => rm(op, dest, 29, t, 1),
            Format::CasPair => rm(op, dest & !1, 29, t & !1, 1),
            _ => r(op, 0, 29, 0),
        };
        let second = match op {
            LrD => word(ScD, 0),
            LrW => word(ScW, 0),
            _ if self.rng.one_in(2) => word(self.rng.pick(&[Ld, Sd]), 8),
            _ => NOP,
        };
        Self::with_literal(
            &[u(Auipc, 29, 0), i(Ld, 29, 29, 24), word(op, 0), second],
            a,
        )
    }

    fn csr(&mut self) -> Vec<u32> {
        let (number, value) = loop {
            let (c, v) = csr_and_value(self.rng);
            if !unfit(c) || matches!(c, 0x3a2 | 0x3b8..=0x3be) {
                break (c, v);
            }
        };
        // Set and clear would reach bits that the value leaves out.
        let whole = matches!(
            number,
            0x3a2 | 0x3b8..=0x3be | 0x30a | 0x302 | 0x320 | 0x7a1
        );
        let op = if whole {
            Csrrw
        } else {
            self.rng.pick(&[Csrrw, Csrrs, Csrrc])
        };
        Self::with_literal(
            &[
                u(Auipc, 29, 0),
                i(Ld, 29, 29, 24),
                i(op, rd(self.rng), 29, number as i32),
            ],
            value,
        )
    }

    /// A store into a later slot of simple instructions, with and without fence.i.
    fn modify(&mut self, own: u64) -> Option<Vec<u32>> {
        let later: Vec<u64> = self.plain.iter().copied().filter(|k| *k > own).collect();
        if later.is_empty() {
            return None;
        }
        let near = later.len().min(4) as u64;
        let at = CODE + later[self.rng.below(near) as usize] * SLOT + 4 * self.rng.below(8);
        let alias = if self.rng.one_in(3) { ALIAS } else { 0 };
        let fence = if self.rng.one_in(3) { NOP } else { n(FenceI) };
        let words = [
            u(Auipc, 29, 0),
            i(Lw, 30, 29, 28),
            i(Lw, 29, 29, 24),
            s(Sw, 30, 29, 0),
            fence,
        ];
        let new = simple(self.rng);
        Some(Self::with_literal(&words, at | alias | (new as u64) << 32))
    }

    /// From M (or by sret from S) to a mode, at the next slot.
    fn switch(&mut self) -> Vec<u32> {
        let next = [u(Auipc, 29, 0), i(Addi, 29, 29, SLOT as i32)];
        let mut v = next.to_vec();
        match self.rng.below(5) {
            0 => v.extend([csrw(0x341, 29), csrw_set(0x300, 27), n(Mret)]),
            1 | 2 => {
                v.extend([
                    csrw(0x341, 29),
                    csrw_clear(0x300, 27),
                    csrw_set(0x300, 22),
                    n(Mret),
                ]);
            }
            3 => v.extend([
                r(Or, 29, 29, 23),
                csrw(0x341, 29),
                csrw_clear(0x300, 27),
                n(Mret),
            ]),
            _ => v.extend([
                r(Or, 29, 29, 23),
                csrw(0x141, 29),
                csrw_clear(0x100, 21),
                n(Sret),
            ]),
        }
        v
    }

    fn slot(&mut self, own: u64) -> Vec<u32> {
        match self.rng.below(100) {
            0..=24 => self.access(),
            25..=36 => self.csr(),
            37..=44 => self.modify(own).unwrap_or_default(),
            45..=54 => self.switch(),
            55..=60 => vec![n(Ecall)],
            61..=62 => {
                vec![self
                    .rng
                    .pick(&[n(Ebreak), 0x0001_9002, n(Wfi), n(SfenceVma), n(FenceI)])]
            }
            63..=68 => {
                // A new entry for one of the special pages, at either address.
                let k = self.rng.below(SPECIAL_PAGES);
                let page = SPECIAL + self.rng.below(SPECIAL_PAGES) * 4096;
                let pte = page >> 12 << 10 | special_flags(self.rng);
                let table = self.rng.pick(&[24, 25]);
                let words = [
                    u(Auipc, 29, 0),
                    i(Ld, 29, 29, 24),
                    s(Sd, 29, table, 8 * k as i32),
                    n(SfenceVma),
                ];
                Self::with_literal(&words, pte)
            }
            69..=70 => vec![csrw(0x180, self.rng.pick(&[0, 26, 26])), n(SfenceVma)],
            71..=74 => {
                let a = self.rng.pick(&[
                    0x10,
                    1 << 40,
                    u64::MAX - 3,
                    BASE + MEMORY,
                    GIGA,
                    0x5000_0000,
                ]);
                Self::with_literal(
                    &[
                        u(Auipc, 28, 0),
                        i(Ld, 29, 28, 24),
                        i(Addi, 28, 28, SLOT as i32),
                        i(Jalr, 1, 29, 0),
                    ],
                    a,
                )
            }
            75..=78 => {
                let alu = |rng: &mut Rng| r(rng.pick(&[Add, Xor, Mul, Divu, Sltu]), 5, 6, 5);
                let (a, b) = (alu(self.rng), alu(self.rng));
                let count = 1 + self.rng.below(9) as i32;
                vec![
                    i(Addi, 30, 0, count),
                    a,
                    b,
                    i(Addi, 30, 30, -1),
                    s(Bne, 0, 30, -12),
                ]
            }
            79..=82 => {
                let (a, b) = (self.rng.below(32) as u8, self.rng.below(32) as u8);
                let mut v = vec![s(self.rng.pick(&[Beq, Bne, Blt, Bgeu]), a, b, SLOT as i32)];
                v.extend((0..7).map(|_| simple(self.rng)));
                v
            }
            _ => (0..8).map(|_| simple(self.rng)).collect(),
        }
    }
}

fn csrw_set(number: u16, rs: u8) -> u32 {
    i(Csrrs, 0, rs, number as i32)
}

fn csrw_clear(number: u16, rs: u8) -> u32 {
    i(Csrrc, 0, rs, number as i32)
}

/// Flags of a leaf: often everything, else anything.
fn special_flags(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => 0xdf,
        1 => 0xcf,
        _ => rng.bits() & 0xff,
    }
}

/// A handler: skips to the next slot. `m`: of machine mode, which also ends the program.
fn handler(m: bool) -> Vec<u32> {
    let (scratch, epc, cause, ie) = if m {
        (0x340, 0x341, 0x342, 0x304)
    } else {
        (0x140, 0x141, 0x142, 0x104)
    };
    let swap = i(Csrrw, 31, 31, scratch);
    let mut v = vec![
        swap,
        s(Sd, 29, 31, 0),
        s(Sd, 30, 31, 8),
        s(Sd, 20, 31, 40),
        csrr(29, cause),
    ];
    let restore = [
        i(Ld, 29, 31, 0),
        i(Ld, 30, 31, 8),
        i(Ld, 20, 31, 40),
        swap,
        n(if m { Mret } else { Sret }),
    ];
    // Interrupt: off with all of them, and on.
    v.push(s(Bge, 0, 29, 4 * (2 + restore.len() as i32)));
    v.push(csrw(ie, 0));
    v.extend(restore);
    if m {
        // ecall from U or S: go on in M.
        v.extend([
            i(Addi, 30, 0, 8),
            s(Beq, 30, 29, 12),
            i(Addi, 30, 0, 9),
            s(Bne, 30, 29, 24),
        ]);
        v.extend([
            csrw_set(0x300, 27),
            csrr(30, epc),
            i(Xori, 29, 23, -1),
            r(And, 30, 30, 29),
            csrw(epc, 30),
        ]);
    }
    let offset = [
        r(And, 30, 29, 30),
        i(Ld, 20, 31, 16),
        r(Sub, 30, 30, 20),
        i(Ld, 20, 31, 24),
    ];
    v.extend([csrr(29, epc), i(Ld, 30, 31, 32)]);
    v.extend(offset);
    let finish = |v: &Vec<u32>, base: u64| {
        let here = base + 4 * v.len() as u64;
        if m {
            u(Jal, 0, (FINISH as i64 - here as i64) as i32)
        } else {
            n(Ecall)
        }
    };
    // Outside the code: an ecall of the other handler ends the program, a wild jump goes on at x28.
    v.push(s(Bltu, 20, 30, if m { 32 } else { 16 }));
    if m {
        v.extend([csrr(20, cause), i(Addi, 30, 0, 9), s(Bne, 30, 20, 8)]);
        v.push(finish(&v, M_HANDLER));
    }
    // The next time a slot further on, so that there is an end.
    v.extend([
        i(Addi, 29, 28, 0),
        i(Addi, 28, 28, SLOT as i32),
        u(Jal, 0, 12),
    ]);
    v.extend([i(Andi, 29, 29, -32), i(Addi, 29, 29, SLOT as i32)]);
    v.extend([csrw(epc, 29), i(Ld, 30, 31, 32)]);
    v.extend(offset);
    v.push(s(Bltu, 20, 30, 8));
    v.push(finish(&v, M_HANDLER));
    v.extend(restore);
    v
}

impl Privileged {
    /// A program of `count` slots.
    pub fn random(seed: u64, count: u64, timed: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut config = core(seed);
        config.asid_bits = rng.pick(&[0, 8]);
        config.isa = some_extensions(&mut Rng::new(!seed));
        let w = Watched::new(BASE, MEMORY, 1, &config);
        let ram = w.ram();
        let put = |at: u64, b: &[u8]| ram.write_bytes(at - BASE, b).expect("in memory");

        let plain: Vec<u64> = (0..count).filter(|_| rng.one_in(4)).collect();
        let mut slots = Slots {
            rng: &mut rng,
            count,
            plain,
        };
        for k in 0..count {
            let mut words = if slots.plain.contains(&k) {
                (0..8).map(|_| simple(slots.rng)).collect()
            } else {
                slots.slot(k)
            };
            words.resize(8, NOP);
            put(CODE + k * SLOT, &bytes(&words));
        }
        put(CODE + count * SLOT, &bytes(&[n(Ebreak)]));
        put(M_HANDLER, &bytes(&handler(true)));
        put(S_HANDLER, &bytes(&handler(false)));
        put(FINISH, &bytes(&[csrw(0x304, 0), n(Wfi), u(Jal, 0, -4)]));
        for area in [M_AREA, S_AREA] {
            for (at, v) in [(16, CODE), (24, (count + 1) * SLOT), (32, !ALIAS)] {
                put(area + at, &u64::to_le_bytes(v));
            }
        }
        for k in 0..DATA_BYTES / 8 {
            let v = if rng.one_in(2) { rng.freg() } else { rng.int() };
            put(DATA + 8 * k, &v.to_le_bytes());
        }

        let mut t = Sv39::new(ram, BASE, TABLES);
        t.map(BASE, BASE, DATA - BASE, 0xcf);
        t.map(DATA, DATA, DATA_BYTES, 0xc7);
        t.map(CODE | ALIAS, CODE, DATA - CODE, 0xdf);
        t.map(DATA | ALIAS, DATA, DATA_BYTES, 0xd7);
        for k in 0..SPECIAL_PAGES {
            let (a, b) = (special_flags(&mut rng), special_flags(&mut rng));
            t.map(SPECIAL + 4096 * k, SPECIAL + 4096 * k, 4096, a);
            t.map((SPECIAL + 4096 * k) | ALIAS, SPECIAL + 4096 * k, 4096, b);
        }
        let entries = [
            t.entry(SUPER, 1),
            t.entry(SUPER + (2 << 20), 1),
            t.entry(GIGA, 2),
        ];
        t.put(entries[0], SPECIAL >> 12 << 10 | special_flags(&mut rng));
        t.put(entries[1], DATA >> 12 << 10 | 0xcf);
        t.put(entries[2], rng.pick(&[0xc7, 0xd7]));
        let tables = (t.entry(SPECIAL, 0), t.entry(SPECIAL | ALIAS, 0));
        let satp = t.satp();

        let mut words = Vec::new();
        let mut set = |number: u16, v: u64| {
            let [a, b] = li(5, (v >> 32) as i32);
            let [c, d] = li(6, v as i32);
            words.extend([
                a,
                b,
                i(Slli, 5, 5, 32),
                c,
                d,
                i(Slli, 6, 6, 32),
                i(Srli, 6, 6, 32),
            ]);
            words.extend([r(Or, 5, 5, 6), csrw(number, 5)]);
        };
        for k in 0..7 {
            set(0x3b7 + k, SPECIAL >> 2);
        }
        set(0x3bf, u64::MAX >> 10);
        set(0x3a2, 0x1f << 56);
        set(0x340, M_AREA);
        set(0x140, S_AREA);
        set(0x305, M_HANDLER);
        set(0x105, S_HANDLER);
        set(0x180, satp);
        set(0x30a, 0xf0);
        set(0x10a, 0xf0);
        set(0x300, 1 << 13 | 3 << 11);
        set(0x341, CODE);
        words.push(n(Mret));
        assert!(words.len() < 0x400);
        put(BASE, &bytes(&words));

        let mut h = Hart::new(0, config).expect("configuration");
        h.set_timed(timed);
        h.state.pc = BASE;
        for k in 1..32u8 {
            h.set_reg(k as usize, rng.int());
        }
        let constants = [
            (2, DATA + 0x400),
            (8, DATA + 0x800),
            (9, (DATA + 0x1000) | ALIAS),
            (21, 0x100),
            (22, 0x800),
            (23, ALIAS),
            (24, tables.0),
            (25, tables.1),
            (26, satp),
            (27, 0x1800),
            (28, CODE + count * SLOT),
        ];
        for (r, v) in constants {
            h.set_reg(r, v);
        }
        for k in 0..32 {
            h.set_freg(k, rng.freg());
        }
        Self { w, h }
    }
}
