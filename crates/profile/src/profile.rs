//! Collects the profile: one row for each stack, address space, privilege, reason and region.

use crate::lines::Lines;
use crate::symbols::Symbols;
use crate::unwind::{self, Registers, View};
use nagori_hart::world::{LineKind, Stall};
use nagori_ram::GuestRam;
use std::collections::HashMap;
use std::sync::Arc;

/// Greatest number of rows; new ones beyond it are counted without their stack.
const MAX_ROWS: usize = 1 << 20;

/// A part of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// DRAM.
    Dram,
    /// NVMM.
    Nvmm,
}

impl Region {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Region::Dram => "dram",
            Region::Nvmm => "nvmm",
        }
    }
}

/// An address space: the value of satp, or 0 without address translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(pub u64);

/// Number of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frames(pub u32);

/// What transfers are attributed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Address space.
    pub space: Space,
    /// 0 user, 1 supervisor, 3 machine.
    pub privilege: u8,
    /// Reason of the transfer; see [`kind_name`].
    pub kind: u8,
    /// Region of the lines.
    pub region: Region,
    /// The call stack.
    pub frames: Frames,
}

/// Names of reasons, by the number in a [`Key`].
const KINDS: [(LineKind, &str); 9] = [
    (LineKind::Load, "load"),
    (LineKind::Store, "store"),
    (LineKind::Fetch, "fetch"),
    (LineKind::PageWalk, "page-walk"),
    (LineKind::Evict, "evict"),
    (LineKind::Flush, "flush"),
    (LineKind::Probe, "probe"),
    (LineKind::Prefetch, "prefetch"),
    (LineKind::Combine, "combine"),
];

impl Key {
    /// The reason as a word.
    pub fn kind_name(&self) -> &'static str {
        KINDS.get(self.kind as usize).map_or("", |k| k.1)
    }

    /// The privilege as a word.
    pub fn privilege_name(&self) -> &'static str {
        match self.privilege {
            0 => "user",
            1 => "supervisor",
            _ => "machine",
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values {
    /// Core cycles that harts waited.
    pub cycles: u64,
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
}

/// What was counted in a part of a run.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// In the order of their keys.
    rows: Vec<(Key, Values)>,
    /// By [`Frames`].
    stacks: Vec<Box<[u64]>>,
    unknown: u64,
}

/// The profile collected so far.
pub struct Profile {
    symbols: Arc<Symbols>,
    lines: Lines,
    /// The program that is run, if there is one.
    program: Option<String>,
    /// Period of the core clock: the picoseconds of so many cycles.
    period: (u64, u64),
    rows: HashMap<Key, Values>,
    numbers: HashMap<Box<[u64]>, Frames>,
    stacks: Vec<Box<[u64]>>,
    names: HashMap<Space, String>,
    /// Number of transfers for whose stacks there was no room.
    unknown: u64,
    scratch: Vec<u64>,
}

impl Profile {
    /// An empty profile of harts whose clock takes `period.0` ps for `period.1` cycles.
    pub fn new(symbols: Symbols, period: (u64, u64)) -> Profile {
        Profile {
            symbols: Arc::new(symbols),
            lines: Lines::default(),
            program: None,
            period,
            rows: HashMap::new(),
            numbers: HashMap::new(),
            stacks: Vec::new(),
            names: HashMap::new(),
            unknown: 0,
            scratch: Vec::new(),
        }
    }

    /// An empty one for a copy of the machine, with the symbols that there are.
    pub fn another(&self) -> Profile {
        Profile {
            symbols: self.symbols.clone(),
            ..Profile::new(Symbols::default(), self.period)
        }
    }

    /// Attributes a transfer of a line in a region. `ram` is guest memory, in which callers are
    /// found, and `ram_base` its first physical address.
    pub fn count(&mut self, s: &Stall, region: Region, ram: &GuestRam, ram_base: u64) {
        let machine_mode = s.privilege == 3;
        let view = View {
            ram,
            base: ram_base,
            satp: if machine_mode { 0 } else { s.satp },
        };
        let registers = Registers {
            pc: s.pc,
            ra: s.ra,
            fp: s.fp,
        };
        let mut frames = std::mem::take(&mut self.scratch);
        unwind::stack(registers, &view, &self.symbols, &mut frames);
        let kind = KINDS
            .iter()
            .position(|k| k.0 == s.kind)
            .unwrap_or(KINDS.len());
        let key = Key {
            space: Space(s.satp),
            privilege: s.privilege,
            kind: kind as u8,
            region,
            frames: self.number(&frames),
        };
        self.scratch = frames;
        let v = self.rows.entry(key).or_default();
        v.cycles += s.cycles;
        if s.write {
            v.writes += 1
        } else {
            v.reads += 1
        }
    }

    fn number(&mut self, frames: &[u64]) -> Frames {
        if let Some(n) = self.numbers.get(frames) {
            return *n;
        }
        let full = self.stacks.len() >= MAX_ROWS;
        let frames: Box<[u64]> = if full { Box::default() } else { frames.into() };
        self.unknown += u64::from(full);
        let next = Frames(self.stacks.len() as u32);
        let stacks = &mut self.stacks;
        *self.numbers.entry(frames).or_insert_with_key(|f| {
            stacks.push(f.clone());
            next
        })
    }

    /// Names an address space, also for what has been counted already.
    pub fn name_space(&mut self, space: Space, name: &str) {
        self.names.insert(space, name.to_string());
    }

    /// Resets all counts.
    pub fn reset(&mut self) {
        self.rows.clear();
        self.numbers.clear();
        self.stacks.clear();
        self.unknown = 0;
    }

    /// Gives away all counts, and starts anew.
    pub fn take(&mut self) -> Counted {
        let counted = Counted {
            rows: self.rows(),
            stacks: std::mem::take(&mut self.stacks),
            unknown: self.unknown,
        };
        self.reset();
        counted
    }

    /// Counts are an estimate from parts of the run from now on, each of which stands for so many like it.
    pub fn estimate<'a>(&mut self, parts: impl Iterator<Item = (f64, &'a Counted)>) {
        self.reset();
        let mut sums: HashMap<Key, [f64; 3]> = HashMap::new();
        let mut unknown = 0.0;
        for (factor, part) in parts {
            for (key, v) in &part.rows {
                let stack = part.stacks.get(key.frames.0 as usize);
                let frames = self.number(stack.map_or(&[], |s| s));
                let sum = sums.entry(Key { frames, ..*key }).or_default();
                for (s, v) in sum.iter_mut().zip([v.cycles, v.reads, v.writes]) {
                    *s += factor * v as f64;
                }
            }
            unknown += factor * part.unknown as f64;
        }
        self.unknown += unknown.round() as u64;
        let rounded = sums.into_iter().map(|(key, sum)| {
            let [cycles, reads, writes] = sum.map(|s| s.round() as u64);
            (
                key,
                Values {
                    cycles,
                    reads,
                    writes,
                },
            )
        });
        self.rows = rounded.filter(|r| r.1 != Values::default()).collect();
    }

    /// All rows, in an order that depends only on the guest.
    pub fn rows(&self) -> Vec<(Key, Values)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(k, v)| (*k, *v)).collect();
        rows.sort_by_key(|(k, _)| *k);
        rows
    }

    /// The addresses of a stack, innermost first; empty if there was no room for it.
    pub fn stack(&self, f: Frames) -> &[u64] {
        self.stacks.get(f.0 as usize).map_or(&[], |s| s)
    }

    /// The symbols.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The symbols, to add some.
    pub fn symbols_mut(&mut self) -> &mut Symbols {
        Arc::make_mut(&mut self.symbols)
    }

    /// The source lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Sets the source lines. A copy of the machine has none: names are given where it is read.
    pub fn set_lines(&mut self, lines: Lines) {
        self.lines = lines;
    }

    /// Names the program that is run: its file.
    pub fn name_program(&mut self, file: &str) {
        self.program = Some(file.to_string());
    }

    /// The name of the program that is run, if there is one.
    pub fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }

    /// Name of an address space: the one that the guest gave, else one derived from satp.
    pub fn space_name(&self, space: Space) -> String {
        match self.names.get(&space) {
            Some(name) => name.clone(),
            None if space.0 >> 60 == 0 => "physical".into(),
            None => format!(
                "asid {} table {:#x}",
                space.0 >> 44 & 0xffff,
                (space.0 & ((1 << 44) - 1)) << 12
            ),
        }
    }

    /// The sum of all rows.
    pub fn total(&self) -> Values {
        self.rows.values().fold(Values::default(), |a, v| Values {
            cycles: a.cycles + v.cycles,
            reads: a.reads + v.reads,
            writes: a.writes + v.writes,
        })
    }

    /// Number of transfers whose stacks were not kept, since there were too many different ones.
    pub fn without_stack(&self) -> u64 {
        self.unknown
    }

    /// A number of core cycles in nanoseconds, rounded down.
    pub fn ns(&self, cycles: u64) -> u64 {
        let (ps, of) = self.period;
        (u128::from(cycles) * u128::from(ps) / (1000 * u128::from(of))) as u64
    }
}
