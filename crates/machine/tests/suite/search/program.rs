//! Random programs of several harts. A program is a tree of items, so that whoever looks for the cause of a difference
//! can leave out any of them; it sets itself up, comes to an end whatever is left of it, and needs no loader.

use super::layout::{addi, point, ADDRESS, BASES, LOCK, SUM, VALUES};
use crate::common::random::op;
use crate::common::Rng;
use nagori_config::map;
use nagori_isa::Op;

/// A part of a program.
#[derive(Clone, Debug)]
pub enum Item {
    /// Instructions; those with other low bits than 3 are compressed.
    Words(Vec<u32>),
    /// Items so many times.
    Loop(u32, Vec<Item>),
    /// Items, unless a bit of what has been found is set.
    Unless(u32, Vec<Item>),
    /// Items under a lock.
    Locked(Lock, Vec<Item>),
    /// Looks at a word so many times, until it is not zero.
    Wait(Place, u32),
    /// Calls a function of the program.
    Call(usize),
    /// Calls it by its address in a register.
    CallFar(usize),
    /// Jumps to one of several places near, by what has been found.
    Jump,
    /// Adds to a double word by `lr` and `sc`, until that succeeds.
    Reserved(Place, u8),
    /// Replaces the next instruction.
    Patch(u32),
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Swap,
    Reserve,
    LookFirst,
}

/// A lock: the last word of a shared line.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    pub way: Way,
    pub place: Place,
    /// Released by an atomic.
    pub atomic: bool,
}

/// An address: which region, and the offset in it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub region: usize,
    pub offset: u32,
}

/// What harts run as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    Machine,
    Supervisor,
    User,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// What harts run, the first one the first, and again from the first on if there are more harts.
    pub sections: Vec<Vec<Item>>,
    pub functions: Vec<Vec<Item>>,
    pub level: Level,
    /// Pages of 4 KiB, not of 2 MiB.
    pub pages: bool,
    /// Harts that use other virtual addresses than the rest, a bit each.
    pub aliases: u64,
    /// Ticks from one timer interrupt to the next; 0: none.
    pub timer: u32,
    /// What hardware counters count.
    pub events: Vec<u32>,
    /// Functions begin with the last two bytes of a line.
    pub edges: bool,
    /// Bytes between the sections, halves of words.
    pub gaps: Vec<u32>,
}

/// Makes items.
struct Maker<'a> {
    rng: &'a mut Rng,
    /// Lines that are used most, by their offsets.
    lines: Vec<u32>,
    functions: usize,
    interrupts: bool,
    harts: u64,
    /// How often each kind of instructions is chosen, beside the others.
    taste: Vec<u64>,
}

const KINDS: usize = 14;

impl Maker<'_> {
    fn value(&mut self) -> u8 {
        self.rng.pick(&VALUES)
    }

    fn float(&mut self) -> u8 {
        self.rng.below(8) as u8
    }

    /// A place for an access of so many bytes. The last words of lines that harts share are locks.
    fn place(&mut self, size: u64) -> Place {
        let region = self.rng.pick(&[0, 0, 1, 1, 2]);
        let page = match self.rng.below(3) {
            0 => 0,
            _ => self.rng.below(6) as u32,
        };
        let line = if self.rng.one_in(8) {
            64 * self.rng.below(64) as u32
        } else {
            self.rng.pick(&self.lines)
        };
        let within = self.rng.below(56 / size) * size;
        Place {
            region,
            offset: 4096 * page + line + within as u32,
        }
    }

    /// An access, with the address in a base register if it is near.
    fn access(&mut self, p: Place, f: impl Fn(u8, i32) -> u32) -> Vec<u32> {
        if p.offset < 4096 {
            return vec![f(BASES[p.region], p.offset as i32 - 2048)];
        }
        let mut words = point(p);
        words.push(f(ADDRESS, 0));
        words
    }

    fn mix(&mut self, r: u8) -> Vec<u32> {
        match self.rng.below(5) {
            0 | 1 => vec![op(Op::Add, SUM, SUM, r, 0)],
            2 => vec![
                op(Op::Slli, LOCK[0], SUM, 0, 1),
                op(Op::Xor, SUM, LOCK[0], r, 0),
            ],
            _ => Vec::new(),
        }
    }

    fn load(&mut self) -> Vec<u32> {
        let (o, size) = self.rng.pick(&[
            (Op::Ld, 8),
            (Op::Ld, 8),
            (Op::Lw, 4),
            (Op::Lwu, 4),
            (Op::Lh, 2),
            (Op::Lhu, 2),
            (Op::Lb, 1),
            (Op::Lbu, 1),
            (Op::Fld, 8),
            (Op::Flw, 4),
        ]);
        let p = self.place(size);
        let float = matches!(o, Op::Fld | Op::Flw);
        let r = if float { self.float() } else { self.value() };
        let mut words = self.access(p, |b, imm| op(o, r, b, 0, imm));
        if self.rng.one_in(8) {
            let at = words.len() - 1;
            words.insert(at, self.hint());
        }
        if !float {
            words.extend(self.mix(r));
        }
        words
    }

    fn hint(&mut self) -> u32 {
        let hints = [Op::NtlAll, Op::NtlAll, Op::NtlP1, Op::NtlPall, Op::NtlS1];
        op(self.rng.pick(&hints), 0, 0, 0, 0)
    }

    fn store(&mut self) -> Vec<u32> {
        let (o, size) = self.rng.pick(&[
            (Op::Sd, 8),
            (Op::Sd, 8),
            (Op::Sw, 4),
            (Op::Sh, 2),
            (Op::Sb, 1),
            (Op::Fsd, 8),
            (Op::Fsw, 4),
        ]);
        let p = self.place(size);
        let hint = self.rng.one_in(4).then(|| self.hint());
        let far = p.offset >= 4096;
        let r = match o {
            Op::Fsd | Op::Fsw => self.float(),
            _ => self.value(),
        };
        let mut words = self.access(p, |b, imm| op(o, 0, b, r, imm));
        if let Some(h) = hint {
            let at = words.len() - 1;
            words.insert(at, h);
        }
        // Some more to the same line.
        while far && self.rng.one_in(2) {
            words.extend(hint);
            let to = self.rng.below(8 - u64::from(p.offset % 64 / 8)) as i32;
            if u64::from(p.offset % 64) + 8 * to as u64 <= 48 {
                words.push(op(o, 0, ADDRESS, r, 8 * to));
            }
        }
        words
    }

    /// A whole line under a hint.
    fn whole_line(&mut self) -> Vec<u32> {
        let p = Place {
            region: self.rng.pick(&[1, 2]),
            offset: self.place(1).offset & !63,
        };
        let (hint, r) = (self.hint(), self.value());
        let mut words = point(p);
        words.extend((0..8).flat_map(|k| [hint, op(Op::Sd, 0, ADDRESS, r, 8 * k)]));
        words
    }

    fn atomic(&mut self) -> Item {
        let place = self.place(8);
        let mut words = point(place);
        let (r, v) = (self.value(), self.value());
        // A word or a double word, at the address of a double word.
        words.push(op(Op::Andi, ADDRESS, ADDRESS, 0, -8));
        if self.rng.one_in(3) {
            if self.rng.one_in(2) {
                return Item::Reserved(place, r);
            }
            words.push(op(Op::LrW, r, ADDRESS, 0, 0));
            if self.rng.one_in(2) {
                words.push(addi(r, r, 1));
            }
            words.push(op(Op::ScW, LOCK[0], ADDRESS, r, 0));
            words.push(op(Op::Add, SUM, SUM, LOCK[0], 0));
        } else {
            let all = [
                Op::AmoaddW,
                Op::AmoaddD,
                Op::AmoswapD,
                Op::AmoxorW,
                Op::AmoorD,
                Op::AmoandW,
                Op::AmomaxD,
                Op::AmominuW,
            ];
            words.push(op(self.rng.pick(&all), r, ADDRESS, v, 0));
        }
        words.extend(self.mix(r));
        Item::Words(words)
    }

    fn block_op(&mut self) -> Vec<u32> {
        let p = self.place(1);
        let all = [
            Op::CboClean,
            Op::CboFlush,
            Op::CboInval,
            Op::CboZero,
            Op::PrefetchR,
            Op::PrefetchW,
            Op::PrefetchI,
            Op::CflushDL1,
        ];
        let mut words = point(p);
        words.push(op(self.rng.pick(&all), 0, ADDRESS, 0, 0));
        words
    }

    fn fence(&mut self) -> Vec<u32> {
        match self.rng.below(12) {
            0 => vec![op(Op::FenceI, 0, 0, 0, 0)],
            _ => {
                let bits = self
                    .rng
                    .pick(&[0x33, 0x33, 0x11, 0x22, 0x31, 0x23, 0x12, 0x833]);
                vec![op(Op::Fence, 0, 0, 0, bits)]
            }
        }
    }

    fn csr(&mut self) -> Vec<u32> {
        let r = self.value();
        let which = self
            .rng
            .pick(&[0xc00, 0xc00, 0xc01, 0xc02, 0xc03, 0xc04, 0xc05]);
        let mut words = vec![op(Op::Csrrs, r, 0, 0, which)];
        words.extend(self.mix(r));
        words
    }

    fn compute(&mut self) -> Vec<u32> {
        let all = [
            Op::Add,
            Op::Sub,
            Op::Xor,
            Op::Sltu,
            Op::Sra,
            Op::Addw,
            Op::Mul,
            Op::Mulh,
            Op::Mulw,
            Op::Div,
            Op::Remu,
            Op::Divuw,
        ];
        (0..1 + self.rng.below(6))
            .map(|_| {
                let (d, a, b) = (self.value(), self.value(), self.value());
                match self.rng.below(6) {
                    // c.addi, c.nop.
                    0 => 0x0005 | u32::from(d) << 7,
                    1 => 0x0001,
                    2 => op(Op::Xori, d, a, 0, self.rng.below(2048) as i32),
                    _ => op(self.rng.pick(&all), d, a, b, 0),
                }
            })
            .collect()
    }

    fn floats(&mut self) -> Vec<u32> {
        let all = [
            Op::FaddD,
            Op::FmulD,
            Op::FdivD,
            Op::FsubD,
            Op::FaddS,
            Op::FdivS,
            Op::FsgnjD,
        ];
        let (d, a, b) = (self.float(), self.float(), self.float());
        let r = self.value();
        match self.rng.below(5) {
            0 => vec![op(Op::FcvtDL, d, r, 0, 0)],
            1 => vec![op(Op::FsqrtD, d, a, 0, 0)],
            2 => vec![op(Op::FmvXD, r, a, 0, 0)],
            _ => vec![op(self.rng.pick(&all), d, a, b, 0)],
        }
    }

    fn device(&mut self) -> Vec<u32> {
        let to = self.rng.below(self.harts) as i32;
        match self.rng.below(3) {
            // The time, as the CLINT has it.
            0 => vec![
                op(Op::Lui, ADDRESS, 0, 0, map::CLINT as i32 + 0xc000),
                op(Op::Ld, self.value(), ADDRESS, 0, -8),
            ],
            _ if !self.interrupts => self.compute(),
            // An interrupt for a hart.
            _ => vec![
                op(Op::Lui, ADDRESS, 0, 0, map::CLINT as i32),
                addi(LOCK[0], 0, 1),
                op(Op::Sw, 0, ADDRESS, LOCK[0], 4 * to),
            ],
        }
    }

    fn items(&mut self, n: u64, depth: usize, locked: bool) -> Vec<Item> {
        (0..n).map(|_| self.item(depth, locked)).collect()
    }

    fn item(&mut self, depth: usize, locked: bool) -> Item {
        let total: u64 = self.taste.iter().sum();
        let mut at = self.rng.below(total);
        let mut kind = 0;
        while at >= self.taste[kind] {
            at -= self.taste[kind];
            kind += 1;
        }
        let inner = depth < 2;
        Item::Words(match kind {
            0 => self.load(),
            1 => self.store(),
            2 => return self.atomic(),
            3 => self.block_op(),
            4 => self.fence(),
            5 => self.csr(),
            6 => self.floats(),
            7 => self.whole_line(),
            8 => self.device(),
            9 if inner => {
                let (times, n) = (1 + self.rng.below(12), 1 + self.rng.below(8));
                return Item::Loop(times as u32, self.items(n, depth + 1, locked));
            }
            10 if inner => {
                let (mask, n) = (1 << self.rng.below(8), 1 + self.rng.below(5));
                return Item::Unless(mask, self.items(n, depth, locked));
            }
            11 if !locked => {
                let place = Place {
                    region: 0,
                    offset: self.rng.pick(&self.lines) + 56,
                };
                let lock = Lock {
                    way: self.rng.pick(&[Way::Swap, Way::Reserve, Way::LookFirst]),
                    place,
                    atomic: self.rng.one_in(3),
                };
                let n = 1 + self.rng.below(5);
                return Item::Locked(lock, self.items(n, depth, true));
            }
            12 if !locked && self.functions > 0 => {
                let f = self.rng.below(self.functions as u64) as usize;
                let far = self.rng.one_in(3);
                return if far { Item::CallFar(f) } else { Item::Call(f) };
            }
            13 => match self.rng.below(7) {
                4 => return Item::Jump,
                0 => return Item::Patch(addi(SUM, SUM, self.rng.below(64) as i32)),
                1 | 2 => return Item::Wait(self.place(8), 1 + self.rng.below(40) as u32),
                // An access that traps.
                3 => vec![op(
                    Op::Lw,
                    self.value(),
                    BASES[1],
                    0,
                    1 + 4 * self.rng.below(8) as i32,
                )],
                _ => self.compute(),
            },
            _ => self.compute(),
        })
    }
}

impl Program {
    /// A program for so many harts.
    pub fn random(rng: &mut Rng, harts: u64) -> Program {
        let spread = rng.pick(&[1, 1, 2, 8, 64]);
        let lines = 1 + rng.below(12);
        let lines = (0..lines).map(|_| 64 * (rng.below(64 / spread) as u32));
        let lines = lines.collect();
        let taste = (0..KINDS).map(|k| match k {
            0 | 1 => 4 + rng.below(12),
            9 => 1 + rng.below(4),
            _ => rng.below(5),
        });
        let taste: Vec<u64> = taste.collect();
        let level = rng.pick(&[
            Level::Machine,
            Level::Machine,
            Level::Supervisor,
            Level::User,
        ]);
        let (functions, interrupts) = (rng.below(4), rng.one_in(2));
        let mut maker = Maker {
            rng: &mut *rng,
            lines,
            functions: 0,
            interrupts,
            harts,
            taste,
        };
        let all = (0..functions).map(|_| {
            let n = 1 + maker.rng.below(8);
            maker.items(n, 1, true)
        });
        let functions: Vec<Vec<Item>> = all.collect();
        maker.functions = functions.len();
        let different = 1 + maker.rng.below(harts);
        let sections = (0..different).map(|_| {
            let n = 4 + maker.rng.below(50);
            // What is done once finds little in the caches.
            vec![Item::Loop(
                1 + maker.rng.below(6) as u32,
                maker.items(n, 0, false),
            )]
        });
        let sections = sections.collect();
        let codes = [
            0x102, 0x103, 0x109, 0x110, 0x111, 0x112, 0x114, 0x204, 0x207, 0x20a, 0x20d, 0x300,
        ];
        Program {
            sections,
            functions,
            level,
            pages: rng.one_in(2),
            aliases: if rng.one_in(2) { 0 } else { rng.bits() },
            timer: if rng.one_in(3) {
                20 + rng.below(200) as u32
            } else {
                0
            },
            events: (0..rng.below(4)).map(|_| rng.pick(&codes)).collect(),
            gaps: (0..8).map(|_| rng.below(64) as u32).collect(),
            edges: rng.one_in(3),
        }
    }
}
