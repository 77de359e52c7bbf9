//! How a program lies in memory: what sets it up, its trap handler, page tables, and its items as code.

use super::program::{Item, Level, Place, Program, Way};
use crate::common::random::op;
use nagori_config::map;
use nagori_isa::Op;

/// Offsets in memory.
const HANDLER: u64 = 0x800;
pub const SECTIONS: u64 = 0x1000;
const TABLES: u64 = 0x10_0000;
const SHARED: u64 = 0x20_0000;
const PRIVATE: u64 = 0x28_0000;
const PRIVATE_BYTES: u64 = 0x1_0000;
/// How many harts have come to their ends, then a line for what each has found.
const RESULTS: u64 = 0x3f_0000;
const NVMM: u64 = 128 << 20;
/// Bytes from each of these places on that programs may change.
pub const CHANGED: [(u64, u64); 2] = [(0, 0x40_0000), (NVMM, 0x1_0000)];
/// Memory has a second virtual address, so much further.
const ALIAS: u64 = 1 << 30;

/// What harts compute with.
pub const VALUES: [u8; 8] = [5, 6, 7, 8, 14, 15, 16, 17];
/// What comes out of it.
pub const SUM: u8 = 9;
pub const BASES: [u8; 3] = [10, 11, 12];
pub const ADDRESS: u8 = 13;
/// Counters of loops, by depth.
pub const COUNTERS: [u8; 6] = [18, 19, 20, 21, 22, 23];
pub const LOCK: [u8; 2] = [24, 25];
pub const HART: u8 = 26;
pub const TRAPS: u8 = 27;
/// The trap handler's own; the last two have the addresses of the hart's registers in the CLINT.
pub const OWN: [u8; 4] = [28, 29, 30, 31];

pub fn addi(rd: u8, rs: u8, imm: i32) -> u32 {
    op(Op::Addi, rd, rs, 0, imm)
}

/// A value as `lui` or `auipc` and a signed immediate of 12 bits make it.
fn high_and_low(value: i32) -> (i32, i32) {
    let low = value << 20 >> 20;
    (value.wrapping_sub(low), low)
}

/// A register is set to a value of 32 bits, sign-extended.
pub fn li(rd: u8, value: i32) -> Vec<u32> {
    match high_and_low(value) {
        (0, low) => vec![addi(rd, 0, low)],
        (high, low) => vec![op(Op::Lui, rd, 0, 0, high), op(Op::Addiw, rd, rd, 0, low)],
    }
}

/// As [`li`], for an address, whose highest bit is no sign.
pub fn li_address(rd: u8, value: u64) -> Vec<u32> {
    let mut words = li(rd, (value >> 12) as i32);
    words.push(op(Op::Slli, rd, rd, 0, 12));
    words.extend(li(ADDRESS, (value & 0xfff) as i32));
    words.push(op(Op::Add, rd, rd, ADDRESS, 0));
    words
}

/// `ADDRESS` is set to the address of a place. Bases point into the middle of what an offset reaches.
pub fn point(p: Place) -> Vec<u32> {
    let mut words = li(ADDRESS, p.offset as i32 - 2048);
    words.push(op(Op::Add, ADDRESS, ADDRESS, BASES[p.region], 0));
    words
}

impl Program {
    /// The program as parts of memory for so many harts: offsets and bytes.
    pub fn image(&self, harts: u64) -> Vec<(u64, Vec<u8>)> {
        let mut code = Code::new(SECTIONS);
        let mut starts = Vec::new();
        for (k, items) in self.sections.iter().enumerate() {
            let gap = self.gaps.get(k).copied().unwrap_or(0);
            (0..gap).for_each(|_| code.put(1));
            starts.push(code.here());
            code.items(items, 0);
            code.put(op(Op::Ecall, 0, 0, 0, 0));
        }
        code.functions(&self.functions, self.edges);
        let sections = code.bytes();
        assert!(SECTIONS + (sections.len() as u64) < TABLES, "too long");
        let mut parts = vec![
            (0, self.start(harts, &starts)),
            (HANDLER, self.handler(harts)),
            (SECTIONS, sections),
        ];
        if self.level != Level::Machine {
            parts.push((TABLES, self.tables()));
        }
        parts
    }

    /// The program's image as an ELF file for `nagori bare`.
    pub fn elf(&self, harts: u64) -> Vec<u8> {
        let parts = self.image(harts);
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let half = |h: &mut Vec<u8>, v: u16| h.extend(v.to_le_bytes());
        half(&mut head, 2);
        half(&mut head, 243);
        head.extend(1u32.to_le_bytes());
        for v in [map::MEMORY, 64, 0] {
            head.extend(v.to_le_bytes());
        }
        head.extend(0u32.to_le_bytes());
        for v in [64, 56, parts.len() as u16, 64, 0, 0] {
            half(&mut head, v);
        }
        let mut at = 64 + 56 * parts.len() as u64;
        for (offset, bytes) in &parts {
            let n = bytes.len() as u64;
            head.extend(1u32.to_le_bytes());
            head.extend(7u32.to_le_bytes());
            for v in [at, map::MEMORY + offset, map::MEMORY + offset, n, n, 1] {
                head.extend(v.to_le_bytes());
            }
            at += n;
        }
        head.extend(parts.into_iter().flat_map(|p| p.1));
        head
    }

    fn start(&self, harts: u64, starts: &[u64]) -> Vec<u8> {
        let base = map::MEMORY;
        let mut words = vec![op(Op::Csrrs, HART, 0, 0, 0xf14)];
        let set = |words: &mut Vec<u32>, csr: i32| words.push(op(Op::Csrrw, 0, 5, 0, csr));
        for (csr, value) in [
            (0x305, base + HANDLER),
            // Protection: all of memory.
            (0x3b0, (1 << 54) - 1),
            (0x3a0, 0x1f),
            // Counters, and cache-block operations, in all modes.
            (0x306, 0xffff_ffff),
            (0x106, 0xffff_ffff),
            (0x30a, 0xf0),
            (0x10a, 0xf0),
            (0x304, if self.timer > 0 { 0x88 } else { 0x8 }),
        ] {
            words.extend(li_address(5, value));
            set(&mut words, csr);
        }
        for (csr, code) in (0x323..).zip(&self.events) {
            words.extend(li(5, *code as i32));
            set(&mut words, csr);
        }
        // Where the hart's registers in the CLINT are.
        words.extend([
            op(Op::Lui, OWN[2], 0, 0, map::CLINT as i32),
            op(Op::Slli, 5, HART, 0, 2),
            op(Op::Add, OWN[2], OWN[2], 5, 0),
            op(Op::Lui, OWN[3], 0, 0, map::CLINT as i32 + 0x4000),
            op(Op::Slli, 5, HART, 0, 3),
            op(Op::Add, OWN[3], OWN[3], 5, 0),
        ]);
        if self.timer > 0 {
            words.extend(self.next_tick());
        }
        let own = op(Op::Slli, 6, HART, 0, PRIVATE_BYTES.trailing_zeros() as i32);
        words.push(own);
        for (r, at) in BASES.into_iter().zip([SHARED, PRIVATE, NVMM]) {
            words.extend(li_address(r, base + at + 2048));
        }
        words.push(op(Op::Add, BASES[1], BASES[1], 6, 0));
        if self.level != Level::Machine {
            words.extend(li_address(5, (base + TABLES) >> 12));
            words.extend([addi(6, 0, 8), op(Op::Slli, 6, 6, 0, 60)]);
            words.push(op(Op::Or, 5, 5, 6, 0));
            set(&mut words, 0x180);
            // Some harts use the other addresses.
            words.extend(li(5, self.aliases as u16 as i32));
            words.push(op(Op::Srl, 5, 5, HART, 0));
            words.push(op(Op::Andi, 5, 5, 0, 1));
            words.push(op(Op::Slli, 5, 5, 0, ALIAS.trailing_zeros() as i32));
            words.extend(BASES.map(|r| op(Op::Add, r, r, 5, 0)));
        }
        for r in VALUES.into_iter().chain([SUM, TRAPS, 1]) {
            words.push(addi(r, 0, i32::from(r)));
        }
        words.push(op(Op::FcvtDL, 0, 0, 0, 0));
        // The table of starts is behind this: its distance is known when the rest is.
        let mode = match self.level {
            Level::Machine => 3,
            Level::Supervisor => 1,
            Level::User => 0,
        };
        let mut status = li(13, mode << 11 | 1 << 13 | 1 << 7);
        status.push(op(Op::Csrrw, 0, 13, 0, 0x300));
        // Floating point is on before its first instruction.
        let last = words.pop().expect("the last one");
        words.extend(status);
        words.push(last);
        let table = 4 * (words.len() as i32 + 6);
        words.extend([
            op(Op::Auipc, 13, 0, 0, 0),
            op(Op::Slli, 24, HART, 0, 3),
            op(Op::Add, 13, 13, 24, 0),
            op(Op::Ld, 13, 13, 0, (table + 7) / 8 * 8 - (table - 24)),
            op(Op::Csrrw, 0, 13, 0, 0x341),
            op(Op::Mret, 0, 0, 0, 0),
        ]);
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.resize(bytes.len().div_ceil(8) * 8, 0);
        for k in 0..harts {
            let start = starts[k as usize % starts.len()];
            bytes.extend((base + start).to_le_bytes());
        }
        assert!(bytes.len() as u64 <= HANDLER, "{}", bytes.len());
        bytes
    }

    /// The next interrupt of the timer.
    fn next_tick(&self) -> Vec<u32> {
        let mut words = vec![
            op(Op::Lui, OWN[1], 0, 0, map::CLINT as i32 + 0xc000),
            op(Op::Ld, OWN[1], OWN[1], 0, -8),
        ];
        words.push(addi(OWN[1], OWN[1], self.timer as i32));
        words.push(op(Op::Sd, 0, OWN[3], OWN[1], 0));
        words
    }

    /// Exceptions skip their instruction, but for environment calls, with which a hart comes to its end.
    fn handler(&self, harts: u64) -> Vec<u8> {
        let mut c = Code::new(HANDLER);
        let [cause, more, msip, _] = OWN;
        c.put(op(Op::Csrrs, cause, 0, 0, 0x342));
        let interrupt = c.branch(Op::Blt, cause, 0);
        c.put(addi(more, cause, -8));
        c.put(op(Op::Sltiu, more, more, 0, 4));
        let end = c.branch(Op::Bne, more, 0);
        c.put(op(Op::Csrrs, more, 0, 0, 0x341));
        c.put(addi(more, more, 4));
        c.put(op(Op::Csrrw, 0, more, 0, 0x341));
        c.put(addi(TRAPS, TRAPS, 1));
        c.put(op(Op::Mret, 0, 0, 0, 0));
        c.lands(interrupt);
        c.put(op(Op::Andi, cause, cause, 0, 0xff));
        c.put(addi(cause, cause, -3));
        let timer = c.branch(Op::Bne, cause, 0);
        c.put(op(Op::Sw, 0, msip, 0, 0));
        c.put(addi(TRAPS, TRAPS, 16));
        c.put(op(Op::Mret, 0, 0, 0, 0));
        c.lands(timer);
        self.next_tick().into_iter().for_each(|w| c.put(w));
        c.put(addi(TRAPS, TRAPS, 256));
        c.put(op(Op::Mret, 0, 0, 0, 0));
        c.lands(end);
        c.put(op(Op::Csrrwi, 0, 0, 0, 0x304));
        let results = li_address(5, map::MEMORY + RESULTS);
        results.into_iter().for_each(|w| c.put(w));
        c.put(op(Op::Slli, 6, HART, 0, 6));
        c.put(op(Op::Add, 6, 6, 5, 0));
        c.put(op(Op::Sd, 0, 6, SUM, 64));
        c.put(op(Op::Sd, 0, 6, TRAPS, 72));
        c.put(op(Op::Fence, 0, 0, 0, 0x33));
        c.put(addi(7, 0, 1));
        c.put(op(Op::AmoaddD, 7, 5, 7, 0));
        c.put(addi(8, 0, harts as i32 - 1));
        let others = c.branch(Op::Bne, 7, 8);
        c.put(op(Op::Lui, 5, 0, 0, map::SYSCON as i32));
        li(6, 0x5555).into_iter().for_each(|w| c.put(w));
        c.put(op(Op::Sw, 0, 5, 6, 0));
        c.lands(others);
        c.put(op(Op::Wfi, 0, 0, 0, 0));
        c.put(op(Op::Jal, 0, 0, 0, -4));
        let bytes = c.bytes();
        assert!(HANDLER + bytes.len() as u64 <= SECTIONS, "{}", bytes.len());
        bytes
    }

    /// Page tables: memory twice, devices once.
    fn tables(&self) -> Vec<u8> {
        let table = |k: u64| (map::MEMORY + TABLES + 4096 * k) >> 12 << 10 | 1;
        let leaf = |offset: u64| {
            let user = u64::from(self.level == Level::User) << 4;
            (map::MEMORY + offset) >> 12 << 10 | 0xcf | user
        };
        let mut pages = vec![[0u64; 512]; 6];
        pages[0][0] = leaf(0) & 0x3ff;
        pages[0][2] = table(1);
        pages[0][3] = table(2);
        for t in [1, 2] {
            for (k, entry) in pages[t].iter_mut().enumerate().take(128) {
                *entry = leaf((k as u64) << 21);
            }
        }
        if self.pages {
            for (t, k) in [(3, 0), (4, SHARED >> 21), (5, NVMM >> 21)] {
                for (i, entry) in pages[t].iter_mut().enumerate() {
                    *entry = leaf((k << 21) + ((i as u64) << 12));
                }
                pages[1][k as usize] = table(t as u64);
                pages[2][k as usize] = table(t as u64);
            }
        }
        let words = pages.iter().flatten();
        words.flat_map(|w| w.to_le_bytes()).collect()
    }
}

/// Code that is being laid out.
struct Code {
    at: u64,
    halves: Vec<u16>,
    calls: Vec<(usize, usize)>,
    far_calls: Vec<(usize, usize)>,
}

impl Code {
    fn new(at: u64) -> Self {
        Code {
            at,
            halves: Vec::new(),
            calls: Vec::new(),
            far_calls: Vec::new(),
        }
    }

    fn here(&self) -> u64 {
        self.at + 2 * self.halves.len() as u64
    }

    fn put(&mut self, word: u32) {
        self.halves.push(word as u16);
        if word & 3 == 3 {
            self.halves.push((word >> 16) as u16);
        }
    }

    fn all(&mut self, words: &[u32]) {
        words.iter().for_each(|w| self.put(*w));
    }

    fn set(&mut self, place: usize, word: u32) {
        self.halves[place] = word as u16;
        self.halves[place + 1] = (word >> 16) as u16;
    }

    /// A branch forward, whose target is not known yet.
    fn branch(&mut self, o: Op, a: u8, b: u8) -> (usize, Op, u8, u8) {
        let place = self.halves.len();
        self.put(op(o, 0, a, b, 8));
        (place, o, a, b)
    }

    /// It leads to here.
    fn lands(&mut self, (place, o, a, b): (usize, Op, u8, u8)) {
        let distance = 2 * (self.halves.len() - place) as i32;
        self.set(place, op(o, 0, a, b, distance));
    }

    /// A branch back to a place.
    fn back(&mut self, o: Op, a: u8, b: u8, to: usize) {
        let distance = 2 * (to as i32 - self.halves.len() as i32);
        if distance >= -4096 {
            return self.put(op(o, 0, a, b, distance));
        }
        let over = match o {
            Op::Bne => Op::Beq,
            _ => Op::Bne,
        };
        self.put(op(over, 0, a, b, 8));
        self.put(op(Op::Jal, 0, 0, 0, distance - 4));
    }

    fn items(&mut self, items: &[Item], depth: usize) {
        for i in items {
            self.item(i, depth);
        }
    }

    fn item(&mut self, item: &Item, depth: usize) {
        let [one, found] = LOCK;
        match item {
            Item::Words(words) => self.all(words),
            Item::Loop(n, items) => {
                let counter = COUNTERS[depth % COUNTERS.len()];
                self.put(addi(counter, 0, *n as i32));
                let start = self.halves.len();
                self.items(items, depth + 1);
                self.put(addi(counter, counter, -1));
                self.back(Op::Bne, counter, 0, start);
            }
            Item::Unless(mask, items) => {
                self.put(op(Op::Andi, one, SUM, 0, *mask as i32));
                let over = self.branch(Op::Bne, one, 0);
                self.items(items, depth);
                self.lands(over);
            }
            Item::Locked(lock, items) => {
                self.all(&point(lock.place));
                self.put(addi(one, 0, 1));
                let start = self.halves.len();
                match lock.way {
                    Way::Swap => self.put(op(Op::AmoswapW, found, ADDRESS, one, 0)),
                    Way::Reserve => {
                        self.put(op(Op::LrW, found, ADDRESS, 0, 0));
                        self.back(Op::Bne, found, 0, start);
                        self.put(op(Op::ScW, found, ADDRESS, one, 0));
                    }
                    Way::LookFirst => {
                        self.put(op(Op::Lw, found, ADDRESS, 0, 0));
                        self.back(Op::Bne, found, 0, start);
                        self.put(op(Op::AmoswapW, found, ADDRESS, one, 0));
                    }
                }
                self.back(Op::Bne, found, 0, start);
                self.put(op(Op::Fence, 0, 0, 0, 0x23));
                self.items(items, depth);
                self.all(&point(lock.place));
                if lock.atomic {
                    self.put(op(Op::AmoswapW, 0, ADDRESS, 0, 0))
                } else {
                    self.put(op(Op::Fence, 0, 0, 0, 0x31));
                    self.put(op(Op::Sw, 0, ADDRESS, 0, 0));
                }
            }
            Item::Wait(place, times) => {
                self.all(&point(*place));
                self.put(op(Op::Andi, ADDRESS, ADDRESS, 0, -8));
                self.put(addi(one, 0, *times as i32));
                let start = self.halves.len();
                self.put(op(Op::Ld, found, ADDRESS, 0, 0));
                let over = self.branch(Op::Bne, found, 0);
                self.put(addi(one, one, -1));
                self.back(Op::Bne, one, 0, start);
                self.lands(over);
                self.put(op(Op::Add, SUM, SUM, one, 0));
            }
            Item::Reserved(place, by) => {
                self.all(&point(*place));
                self.put(op(Op::Andi, ADDRESS, ADDRESS, 0, -8));
                let start = self.halves.len();
                self.put(op(Op::LrD, found, ADDRESS, 0, 0));
                self.put(op(Op::Add, one, found, *by, 0));
                self.put(op(Op::ScD, one, ADDRESS, one, 0));
                self.back(Op::Bne, one, 0, start);
                self.put(op(Op::Add, SUM, SUM, found, 0));
            }
            Item::Call(f) => {
                self.calls.push((self.halves.len(), *f));
                self.put(op(Op::Jal, 1, 0, 0, 4));
            }
            Item::CallFar(f) => {
                self.far_calls.push((self.halves.len(), *f));
                self.put(op(Op::Auipc, ADDRESS, 0, 0, 0));
                self.put(op(Op::Jalr, 1, ADDRESS, 0, 8));
            }
            Item::Jump => {
                const PLACES: i32 = 4;
                self.put(op(Op::Auipc, ADDRESS, 0, 0, 0));
                self.put(op(Op::Andi, one, SUM, 0, 2 * (PLACES - 1)));
                self.put(op(Op::Add, ADDRESS, ADDRESS, one, 0));
                self.put(op(Op::Jalr, 0, ADDRESS, 0, 16));
                // c.addi: what is found depends on the place.
                (0..PLACES).for_each(|_| self.put(0x0005 | u32::from(SUM) << 7));
            }
            Item::Patch(word) => {
                if !self.here().is_multiple_of(4) {
                    self.put(1);
                }
                let new = li(one, *word as i32);
                let distance = 4 * (new.len() as i32 + 3);
                self.put(op(Op::Auipc, ADDRESS, 0, 0, 0));
                self.all(&new);
                self.put(op(Op::Sw, 0, ADDRESS, one, distance));
                self.put(op(Op::FenceI, 0, 0, 0, 0));
                self.put(addi(0, 0, 0));
            }
        }
    }

    /// Functions, and the calls of them.
    fn functions(&mut self, functions: &[Vec<Item>], edges: bool) {
        let mut starts = Vec::new();
        for items in functions {
            while edges && self.here() % 64 != 62 {
                self.put(1);
            }
            starts.push(self.halves.len());
            // Loops of callers count elsewhere.
            self.items(items, 3);
            self.put(op(Op::Jalr, 0, 1, 0, 0));
        }
        // A function that was left out is what follows the call.
        let distance = |place: usize, f: usize, behind: i32| match starts.get(f) {
            Some(to) => 2 * (*to as i32 - place as i32),
            None => behind,
        };
        for (place, f) in std::mem::take(&mut self.calls) {
            let to = distance(place, f, 4);
            self.set(place, op(Op::Jal, 1, 0, 0, to));
        }
        for (place, f) in std::mem::take(&mut self.far_calls) {
            let (high, low) = high_and_low(distance(place, f, 8));
            self.set(place, op(Op::Auipc, ADDRESS, 0, 0, high));
            self.set(place + 2, op(Op::Jalr, 1, ADDRESS, 0, low));
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.halves.iter().flat_map(|h| h.to_le_bytes()).collect()
    }
}
