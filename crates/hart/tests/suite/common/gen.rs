//! Random user-level programs: sequences of units with branches forward over
//! a few of them, and the static ELF that runs them under an emulator of
//! Linux programs as well as on the bare hart.

use super::{bytes, csrr, csrw, i, inst, li, n, r, rm, s, u, Rng};
use nagori_isa::{decode, encode, Ext, Format, Inst, Op, OPS};

/// Registers that point into the scratch memory, with their offsets in it. The
/// stack pointer and two of x8..x15, for the compressed forms.
const POINTERS: [(u8, u64); 3] = [(2, 256), (8, 768), (9, 1280)];
/// Points to the state block of the program.
const STATE: u8 = 31;
/// Counts loops.
const COUNTER: u8 = 30;
/// Bytes of scratch memory of a program.
pub const SCRATCH: u64 = 2048;
/// Offset of fcsr in a state block: x0..x31, f0..f31 come before it.
const FCSR: u64 = 512;
/// Offset of the scratch memory in a state block.
const SCRATCH_AT: u64 = 528;
/// Bytes of a state block.
pub const STATE_BYTES: u64 = SCRATCH_AT + SCRATCH;
/// Address of the image.
pub const BASE: u64 = 0x10_0000;

/// A branch whose distance is known when the program is laid out.
#[derive(Clone, Copy, Debug)]
enum Fix {
    /// 32-bit branch at this halfword.
    Branch(usize),
    /// `jal`.
    Jump(usize),
    /// `c.beqz`, `c.bnez`.
    ShortBranch(usize),
    /// `c.j`.
    ShortJump(usize),
    /// `jalr` whose register holds the address of the halfword in the second place.
    Indirect(usize, usize),
}

/// A piece of a program that is kept or left out as a whole.
#[derive(Clone, Debug)]
pub struct Unit {
    code: Vec<u16>,
    /// A branch over so many units.
    fix: Option<(Fix, usize)>,
}

/// A program: what it starts from and what it does.
#[derive(Clone, Debug)]
pub struct Program {
    pub state: Vec<u8>,
    pub units: Vec<Unit>,
}

fn halves(words: &[u32]) -> Vec<u16> {
    let half = |w: &u32| {
        if *w & 3 == 3 {
            vec![*w as u16, (*w >> 16) as u16]
        } else {
            vec![*w as u16]
        }
    };
    words.iter().flat_map(half).collect()
}

fn plain(words: &[u32]) -> Unit {
    Unit {
        code: halves(words),
        fix: None,
    }
}

fn reserved(r: u8) -> bool {
    r == STATE || r == COUNTER || POINTERS.iter().any(|p| p.0 == r)
}

/// Extensions with weights of their own.
const COMMON: [Ext; 4] = [Ext::I, Ext::M, Ext::F, Ext::D];

/// Further extensions of the table whose instructions compute something.
fn further() -> Vec<Ext> {
    use Format::*;
    let computes = |f: Format| {
        matches!(
            f,
            R | I | Unary | Shift5 | Shift6 | FpFma | FpArith | FpUnary | FpPair
        ) || matches!(
            f,
            FpCompare | FpToInt | FpFromInt | FpMoveToInt | FpMoveFromInt
        )
    };
    let has = |e: &Ext| OPS.iter().any(|r| r.ext == *e && computes(r.format));
    let all = Ext::ALL.iter().copied();
    // QEMU 7.2, Debian 12's, does not know Zicond.
    all.filter(|e| !COMMON.contains(e) && *e != Ext::Zicond && has(e))
        .collect()
}

/// Loads and stores of the table, with their sizes.
fn accesses() -> Vec<(Op, u64)> {
    use Format::{FpLoad, FpStore, Load, Store};
    let access = |f: Format| matches!(f, Load | Store | FpLoad | FpStore);
    let size = |name: &str| match name.trim_end_matches('u').chars().last() {
        Some('b') => 1,
        Some('h') => 2,
        Some('w') => 4,
        _ => 8,
    };
    let rows = OPS.iter().filter(|r| access(r.format));
    rows.map(|r| (r.op, size(r.name))).collect()
}

/// Generates units; keeps what was written lately, so that results are used.
struct Maker<'a> {
    rng: &'a mut Rng,
    recent: Vec<u8>,
    recent_f: Vec<u8>,
}

impl Maker<'_> {
    /// A destination; never a reserved register.
    fn rd(&mut self) -> u8 {
        loop {
            let r = self.rng.below(32) as u8;
            if !reserved(r) {
                self.recent.push(r);
                return r;
            }
        }
    }

    fn rs(&mut self) -> u8 {
        let n = self.recent.len();
        if n > 4 && self.rng.one_in(2) {
            return self.recent[n - 1 - self.rng.below(4) as usize];
        }
        self.rng.below(32) as u8
    }

    fn fd(&mut self) -> u8 {
        let f = self.rng.below(32) as u8;
        self.recent_f.push(f);
        f
    }

    fn fs(&mut self) -> u8 {
        let n = self.recent_f.len();
        if n > 4 && self.rng.one_in(2) {
            return self.recent_f[n - 1 - self.rng.below(4) as usize];
        }
        self.rng.below(32) as u8
    }

    fn round(&mut self) -> u8 {
        self.rng.pick(&[0, 1, 2, 3, 4, 7, 7])
    }

    /// An offset from a scratch pointer, aligned to `size`.
    fn offset(&mut self, size: u64) -> i32 {
        ((self.rng.below((256 + 512) / size) * size) as i32) - 256
    }

    /// An address in scratch memory, put into a register: its number and the instruction.
    fn address(&mut self, size: u64) -> (u8, u32) {
        let (base, off) = (self.rng.pick(&POINTERS).0, self.offset(size));
        loop {
            let a = self.rd();
            if a != 0 {
                return (a, i(Op::Addi, a, base, off));
            }
        }
    }

    fn arithmetic(&mut self, ext: Ext) -> Unit {
        loop {
            let row = self.rng.pick(OPS);
            // QEMU before 8.0 counts the zeros of the upper half, too.
            if row.ext != ext || row.op == Op::Ctzw {
                continue;
            }
            let e = inst(row.op);
            let imm12 = (self.rng.bits() as i32) << 20 >> 20;
            let e = match row.format {
                Format::R => Inst {
                    rd: self.rd(),
                    rs1: self.rs(),
                    rs2: self.rs(),
                    ..e
                },
                Format::I => Inst {
                    rd: self.rd(),
                    rs1: self.rs(),
                    imm: imm12,
                    ..e
                },
                Format::Unary => Inst {
                    rd: self.rd(),
                    rs1: self.rs(),
                    ..e
                },
                Format::Shift6 => Inst {
                    rd: self.rd(),
                    rs1: self.rs(),
                    imm: imm12 & 63,
                    ..e
                },
                Format::Shift5 => Inst {
                    rd: self.rd(),
                    rs1: self.rs(),
                    imm: imm12 & 31,
                    ..e
                },
                Format::U => Inst {
                    rd: self.rd(),
                    imm: (self.rng.bits() as i32) << 12,
                    ..e
                },
                Format::Fence => Inst {
                    imm: self.rng.below(256) as i32,
                    ..e
                },
                Format::FpFma => Inst {
                    rd: self.fd(),
                    rs1: self.fs(),
                    rs2: self.fs(),
                    rs3: self.fs(),
                    rm: self.round(),
                    ..e
                },
                Format::FpArith => Inst {
                    rd: self.fd(),
                    rs1: self.fs(),
                    rs2: self.fs(),
                    rm: self.round(),
                    ..e
                },
                Format::FpUnary => Inst {
                    rd: self.fd(),
                    rs1: self.fs(),
                    rm: self.round(),
                    ..e
                },
                Format::FpPair => Inst {
                    rd: self.fd(),
                    rs1: self.fs(),
                    rs2: self.fs(),
                    ..e
                },
                Format::FpCompare => Inst {
                    rd: self.rd(),
                    rs1: self.fs(),
                    rs2: self.fs(),
                    ..e
                },
                Format::FpToInt => Inst {
                    rd: self.rd(),
                    rs1: self.fs(),
                    rm: self.round(),
                    ..e
                },
                Format::FpFromInt => Inst {
                    rd: self.fd(),
                    rs1: self.rs(),
                    rm: self.round(),
                    ..e
                },
                Format::FpMoveToInt => Inst {
                    rd: self.rd(),
                    rs1: self.fs(),
                    ..e
                },
                Format::FpMoveFromInt => Inst {
                    rd: self.fd(),
                    rs1: self.rs(),
                    ..e
                },
                _ => continue,
            };
            // Some fields make another instruction (a hint) of it: those come as they are elsewhere.
            if let Some(w) = encode(&e) {
                return plain(&[w]);
            }
        }
    }

    fn memory(&mut self) -> Unit {
        let (base, _) = self.rng.pick(&POINTERS);
        let (op, size) = self.rng.pick(&accesses());
        let off = self.offset(size);
        plain(&[match op.info().format {
            Format::Load => i(op, self.rd(), base, off),
            Format::FpLoad => i(op, self.fd(), base, off),
            Format::FpStore => s(op, self.fs(), base, off),
            _ => s(op, self.rs(), base, off),
        }])
    }

    fn atomic(&mut self) -> Unit {
        loop {
            let row = self.rng.pick(OPS);
            if row.ext != Ext::A {
                continue;
            }
            let double = row.name.ends_with(".d");
            let (a, set) = self.address(if double { 8 } else { 4 });
            let mut order = || self.rng.below(4) as u8;
            let (o1, o2) = (order(), order());
            let (lr, sc) = if double {
                (Op::LrD, Op::ScD)
            } else {
                (Op::LrW, Op::ScW)
            };
            if row.op != lr {
                // An sc on its own has no reservation and fails.
                return plain(&[set, rm(row.op, self.rd(), a, self.rs(), o1)]);
            }
            let mut t = self.rd();
            while t == a {
                t = self.rd();
            }
            let mut code = vec![set, rm(lr, t, a, 0, o1)];
            if self.rng.one_in(2) {
                code.push(r(Op::Xor, t, t, self.rs()));
            }
            code.push(rm(sc, self.rd(), a, self.rs(), o2));
            return plain(&code);
        }
    }

    fn csr(&mut self) -> Unit {
        const FFLAGS: i32 = 1;
        const FRM: i32 = 2;
        const FCSR: i32 = 3;
        let (rd, rs) = (self.rd(), self.rs());
        let small = self.rng.below(32) as u8;
        plain(&[match self.rng.below(8) {
            0 => i(Op::Csrrw, rd, rs, FFLAGS),
            1 => i(Op::Csrrs, rd, rs, FFLAGS),
            2 => i(Op::Csrrc, rd, rs, FFLAGS),
            3 => i(Op::Csrrsi, rd, small, FFLAGS),
            4 => i(Op::Csrrs, rd, 0, self.rng.pick(&[FFLAGS, FRM, FCSR])),
            5 => i(Op::Csrrci, rd, small, self.rng.pick(&[FFLAGS, FCSR])),
            // Only rounding modes that exist, or later instructions would be illegal.
            _ => i(Op::Csrrwi, rd, small % 5, FRM),
        }])
    }

    /// A 16-bit instruction from random bits, if it is one that may run here.
    fn compressed(&mut self) -> Unit {
        loop {
            let w = self.rng.bits() as u16;
            if w & 3 == 3 {
                continue;
            }
            let Some(d) = decode(w as u32) else { continue };
            let size = match d.op {
                Op::Lw | Op::Sw | Op::Flw | Op::Fsw => 4,
                Op::Ld | Op::Sd | Op::Fld | Op::Fsd => 8,
                _ => 0,
            };
            let ok = match d.op.info().format {
                Format::R | Format::I | Format::U | Format::Shift5 | Format::Shift6 => {
                    !reserved(d.rd)
                }
                Format::Load => !reserved(d.rd) && POINTERS.iter().any(|p| p.0 == d.rs1),
                Format::Store | Format::FpStore | Format::FpLoad => {
                    POINTERS.iter().any(|p| p.0 == d.rs1)
                }
                _ => false,
            };
            if !ok || (size != 0 && !(d.imm as u64).is_multiple_of(size)) {
                continue;
            }
            return Unit {
                code: vec![w],
                fix: None,
            };
        }
    }

    fn branch(&mut self) -> Unit {
        use Op::*;
        let over = self.rng.below(4) as usize;
        let (code, fix) = match self.rng.below(8) {
            0..=3 => {
                let op = self.rng.pick(&[Beq, Bne, Blt, Bge, Bltu, Bgeu]);
                (halves(&[s(op, self.rs(), self.rs(), 4)]), Fix::Branch(0))
            }
            4 => (halves(&[u(Jal, self.rd(), 4)]), Fix::Jump(0)),
            5 => {
                let mut a = self.rd();
                while a == 0 {
                    a = self.rd();
                }
                // Bit 0 of the sum is ignored.
                (
                    halves(&[u(Auipc, a, 0), i(Jalr, self.rd(), a, 0)]),
                    Fix::Indirect(2, 0),
                )
            }
            6 => {
                let bit = self.rng.below(2) as u16;
                let reg = self.rng.below(8) as u16;
                (vec![0xc001 | bit << 13 | reg << 7], Fix::ShortBranch(0))
            }
            _ => (vec![0xa001], Fix::ShortJump(0)),
        };
        Unit {
            code,
            fix: Some((fix, over)),
        }
    }

    /// A loop of a few arithmetic instructions.
    fn repeat(&mut self) -> Unit {
        let mut body = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let ext = self.rng.pick(&[Ext::I, Ext::M, Ext::D]);
            body.extend(self.arithmetic(ext).code);
        }
        let bytes = body.len() as i32 * 2;
        let mut code = halves(&[i(Op::Addi, COUNTER, 0, 1 + self.rng.below(12) as i32)]);
        code.extend(body);
        code.extend(halves(&[i(Op::Addi, COUNTER, COUNTER, -1)]));
        code.extend(halves(&[s(Op::Bne, 0, COUNTER, -(bytes + 4))]));
        Unit { code, fix: None }
    }

    fn unit(&mut self) -> Unit {
        match self.rng.below(100) {
            0..=17 => {
                let more = further();
                let other = !more.is_empty() && self.rng.one_in(2);
                let ext = if other { self.rng.pick(&more) } else { Ext::I };
                self.arithmetic(ext)
            }
            18..=26 => self.arithmetic(Ext::M),
            27..=38 => self.arithmetic(Ext::F),
            39..=50 => self.arithmetic(Ext::D),
            51..=66 => self.memory(),
            67..=72 => self.atomic(),
            73..=75 => self.csr(),
            76..=89 => self.compressed(),
            90..=96 => self.branch(),
            97 => self.repeat(),
            98 if self.rng.one_in(2) => {
                // Markers, which are no-ops to everybody else.
                let number = self.rng.below(16) as u32;
                plain(&[0x4e00_2013 | number << 20 | u32::from(self.rs()) << 15])
            }
            98 => {
                plain(&[self
                    .rng
                    .pick(&[n(Op::FenceI), n(Op::Pause), n(Op::NtlP1), n(Op::NtlAll)])])
            }
            _ => {
                let op = self
                    .rng
                    .pick(&[Op::PrefetchI, Op::PrefetchR, Op::PrefetchW]);
                plain(&[i(op, 0, self.rs(), 32 * (self.rng.below(128) as i32 - 64))])
            }
        }
    }
}

impl Program {
    /// A program of `units` units. `block` is the address at which its state block will lie.
    pub fn random(rng: &mut Rng, units: usize, block: u64) -> Self {
        let mut state = vec![0u8; STATE_BYTES as usize];
        let mut put =
            |at: u64, v: u64| state[at as usize..at as usize + 8].copy_from_slice(&v.to_le_bytes());
        for k in 1..31 {
            put(8 * k, rng.int());
        }
        for (p, off) in POINTERS {
            put(8 * p as u64, block + SCRATCH_AT + off);
        }
        put(8 * STATE as u64, block);
        for k in 0..32 {
            put(256 + 8 * k, rng.freg());
        }
        put(FCSR, rng.below(5) << 5 | rng.below(32));
        for k in (0..SCRATCH).step_by(8) {
            let v = if rng.one_in(2) { rng.freg() } else { rng.int() };
            put(SCRATCH_AT + k, v);
        }
        let mut m = Maker {
            rng,
            recent: Vec::new(),
            recent_f: Vec::new(),
        };
        let units = (0..units).map(|_| m.unit()).collect();
        Self { state, units }
    }

    /// The sequence as code, with the branches resolved.
    pub fn code(&self) -> Vec<u8> {
        let mut starts = vec![0usize];
        for x in &self.units {
            starts.push(starts[starts.len() - 1] + 2 * x.code.len());
        }
        let mut out = Vec::new();
        for (k, x) in self.units.iter().enumerate() {
            let mut code = x.code.clone();
            if let Some((fix, over)) = x.fix {
                let target = starts[(k + 1 + over).min(self.units.len())];
                resolve(&mut code, fix, (target - starts[k]) as i32);
            }
            out.extend(code.iter().flat_map(|h| h.to_le_bytes()));
        }
        out
    }

    /// Loads the state, runs the sequence, stores the state. For an image address of `at`
    /// and a state block at `block`.
    fn wrapped(&self, block: u64) -> Vec<u8> {
        let mut head = li(STATE, block as i32).to_vec();
        head.push(i(Op::Ld, 5, STATE, FCSR as i32));
        head.push(csrw(3, 5));
        let mut tail = Vec::new();
        for k in 0..32u8 {
            head.push(i(Op::Fld, k, STATE, 256 + 8 * k as i32));
            tail.push(s(Op::Fsd, k, STATE, 256 + 8 * k as i32));
        }
        for k in 1..31u8 {
            head.push(i(Op::Ld, k, STATE, 8 * k as i32));
            tail.push(s(Op::Sd, k, STATE, 8 * k as i32));
        }
        tail.push(csrr(5, 3));
        tail.push(s(Op::Sd, 5, STATE, FCSR as i32));
        let mut out = bytes(&head);
        out.extend(self.code());
        out.extend(bytes(&tail));
        out
    }

    /// Adds instructions at the end.
    pub fn push(&mut self, words: &[u32]) {
        self.units.push(plain(words));
    }

    /// The program reduced to its first units.
    pub fn first(&self, units: usize) -> Self {
        Self {
            state: self.state.clone(),
            units: self.units[..units].to_vec(),
        }
    }

    /// Disassembly of a unit.
    pub fn show(&self, unit: usize) -> String {
        let x = &self.units[unit];
        let (mut at, mut out) = (0, Vec::new());
        while at < x.code.len() {
            let w = x.code[at] as u32 | (*x.code.get(at + 1).unwrap_or(&0) as u32) << 16;
            let long = w & 3 == 3;
            out.push(match decode(w) {
                Some(d) => nagori_isa::disassemble(&d, 0),
                None => format!("{w:#x}"),
            });
            at += 1 + long as usize;
        }
        out.join("; ")
    }
}

fn resolve(code: &mut [u16], fix: Fix, distance: i32) {
    let get = |c: &[u16], at: usize| c[at] as u32 | (c[at + 1] as u32) << 16;
    let put = |c: &mut [u16], at: usize, w: u32| {
        c[at..at + 2].copy_from_slice(&[w as u16, (w >> 16) as u16])
    };
    let d = |at: usize| distance - 2 * at as i32;
    match fix {
        Fix::Branch(at) | Fix::Jump(at) => {
            let mut x = decode(get(code, at)).expect("a branch");
            x.imm = d(at);
            put(code, at, encode(&x).expect("a short distance"));
        }
        Fix::Indirect(at, from) => {
            let mut x = decode(get(code, at)).expect("a jump");
            x.imm = d(from) | 1;
            put(code, at, encode(&x).expect("a short distance"));
        }
        Fix::ShortBranch(at) => {
            let b = d(at) as u16;
            let bit = |from: u16, to: u16| (b >> from & 1) << to;
            code[at] |= bit(8, 12)
                | bit(4, 11)
                | bit(3, 10)
                | bit(7, 6)
                | bit(6, 5)
                | bit(2, 4)
                | bit(1, 3)
                | bit(5, 2);
        }
        Fix::ShortJump(at) => {
            let b = d(at) as u16;
            let bit = |from: u16, to: u16| (b >> from & 1) << to;
            code[at] |= bit(11, 12)
                | bit(4, 11)
                | bit(9, 10)
                | bit(8, 9)
                | bit(10, 8)
                | bit(6, 7)
                | bit(7, 6)
                | bit(3, 5)
                | bit(2, 4)
                | bit(1, 3)
                | bit(5, 2);
        }
    }
}

/// Several programs in one image.
pub struct Image {
    /// Contents from [`BASE`] on.
    pub bytes: Vec<u8>,
    /// First instruction.
    pub entry: u64,
    /// Offset of the state blocks, one after another.
    pub states: usize,
    /// How many there are.
    pub programs: usize,
}

/// Address of the state block of a program of an image.
pub fn block_address(k: usize) -> u64 {
    BASE + 0x1000 + k as u64 * STATE_BYTES
}

impl Image {
    /// Lays programs out: a page for the ELF header, the state blocks, the code. At its end the
    /// image writes the state blocks to file descriptor 1 and exits.
    pub fn new(programs: &[Program]) -> Self {
        let mut b = vec![0u8; 0x1000];
        let states = b.len();
        for p in programs {
            b.extend(&p.state);
        }
        // Codes begin at any halfword, so that instructions cross pages, too.
        b.resize(b.len() + 64, 0);
        let entry = BASE + b.len() as u64;
        for (k, p) in programs.iter().enumerate() {
            b.extend(p.wrapped(block_address(k)));
        }
        let len = programs.len() as u64 * STATE_BYTES;
        let mut end = vec![i(Op::Addi, 17, 0, 64), i(Op::Addi, 10, 0, 1)];
        end.extend(li(11, block_address(0) as i32));
        end.extend(li(12, len as i32));
        end.extend([
            n(Op::Ecall),
            i(Op::Addi, 17, 0, 93),
            i(Op::Addi, 10, 0, 0),
            n(Op::Ecall),
        ]);
        b.extend(bytes(&end));
        b.resize(b.len().next_multiple_of(4096), 0);
        Self {
            bytes: b,
            entry,
            states,
            programs: programs.len(),
        }
    }

    /// The image as a static ELF executable with one segment.
    pub fn elf(&self) -> Vec<u8> {
        let mut e = self.bytes.clone();
        let mut put = |at: usize, v: &[u8]| e[at..at + v.len()].copy_from_slice(v);
        put(0, b"\x7fELF\x02\x01\x01");
        put(16, &2u16.to_le_bytes()); // executable
        put(18, &243u16.to_le_bytes()); // RISC-V
        put(20, &1u32.to_le_bytes());
        put(24, &self.entry.to_le_bytes());
        put(32, &64u64.to_le_bytes()); // program headers
        put(48, &5u32.to_le_bytes()); // RVC, double-float ABI
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(58, &64u16.to_le_bytes());
        put(64, &1u32.to_le_bytes()); // load
        put(68, &7u32.to_le_bytes()); // read, write, execute
        put(80, &BASE.to_le_bytes());
        put(88, &BASE.to_le_bytes());
        let len = self.bytes.len() as u64;
        put(96, &len.to_le_bytes());
        put(104, &len.to_le_bytes());
        put(112, &4096u64.to_le_bytes());
        e
    }
}
