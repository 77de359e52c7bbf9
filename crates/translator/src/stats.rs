//! Statistics of the translator. They are costs of the host, not of the guest: they differ from run
//! to run, so they are not part of what is compared between runs.

use std::time::Instant;

/// Why translated code was left, or why it did not run a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// Time: the end of the budget.
    Budget,
    /// An interrupt, a notice of another hart or a changed timer has to be looked at.
    Recheck,
    /// A jump within the page that is not linked yet, or cannot be.
    Link,
    /// An indirect jump, or one to another page, that the table of jumps does not know.
    Indirect,
    /// An instruction that ends blocks and that the interpreter executes: CSRs, returns
    /// from traps, fences.
    System,
    /// An access to a device.
    Device,
    /// An exception.
    Trap,
    /// A miss that has to wait until other harts have caught up.
    Retry,
    /// The interpreter finished the block: results of earlier blocks are pending at its end, or
    /// floating point is off, clean, or rounds other than to nearest even.
    Rest,
    /// The block had no code: it is cold, or an observer watches every instruction.
    Cold,
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Reason; 10] = [
        Reason::Budget,
        Reason::Recheck,
        Reason::Link,
        Reason::Indirect,
        Reason::System,
        Reason::Device,
        Reason::Trap,
        Reason::Retry,
        Reason::Rest,
        Reason::Cold,
    ];

    /// Name for tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Budget => "budget",
            Reason::Recheck => "recheck",
            Reason::Link => "link",
            Reason::Indirect => "indirect",
            Reason::System => "system",
            Reason::Device => "device",
            Reason::Trap => "trap",
            Reason::Retry => "retry",
            Reason::Rest => "rest",
            Reason::Cold => "cold",
        }
    }
}

/// Counters of one translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks translated.
    pub blocks: u64,
    /// Guest instructions in them.
    pub instructions: u64,
    /// Bytes of code made for them.
    pub bytes: u64,
    /// Host time of translation, in nanoseconds.
    pub translate_ns: u64,
    /// Jumps between blocks that were linked.
    pub links: u64,
    /// How often all code was dropped.
    pub emptied: u64,
    /// Bytes of memory for code in use.
    pub code_bytes: u64,
    /// Bytes of memory for code.
    pub code_limit: u64,
    /// Times that code was entered.
    pub entries: u64,
    /// Blocks that were interpreted, being too cold.
    pub interpreted: u64,
    /// Exits because of traps.
    pub traps: u64,
    /// Exits because of devices.
    pub devices: u64,
    /// Blocks that the interpreter finished.
    pub rests: u64,
    /// Statistics that are measured only on request.
    pub measured: Option<Measured>,
}

/// Time and instructions by tier, since measuring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Host time in the hart, in nanoseconds: all tiers together.
    pub total_ns: u64,
    /// Host time in translated code and what it calls, in nanoseconds.
    pub code_ns: u64,
    /// Host time of translation, in nanoseconds.
    pub translate_ns: u64,
    /// Instructions retired, in all tiers.
    pub instructions: u64,
    /// Instructions retired in translated code and what it calls.
    pub code_instructions: u64,
    /// How often each [`Reason`] was met, by its number.
    pub exits: [u64; Reason::ALL.len()],
}

impl Measured {
    /// Host time in the interpreter and the loop around blocks, in nanoseconds.
    pub fn interpreter_ns(&self) -> u64 {
        self.total_ns
            .saturating_sub(self.code_ns + self.translate_ns)
    }

    /// Instructions retired in the interpreter.
    pub fn interpreter_instructions(&self) -> u64 {
        self.instructions.saturating_sub(self.code_instructions)
    }
}

/// The host's cheapest clock.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Measures one translator. The clock of ticks is calibrated by the host's clock.
#[derive(Debug)]
pub(crate) struct Meter {
    began: (Instant, u64),
    run: (u64, u64),
    entry: (u64, u64),
    total: u64,
    code: u64,
    instructions: u64,
    code_instructions: u64,
    /// Translation before measuring began, in nanoseconds.
    translated_before: u64,
    exits: [u64; Reason::ALL.len()],
}

impl Meter {
    pub fn new(translated_before: u64) -> Self {
        Self {
            began: (Instant::now(), ticks()),
            run: (0, 0),
            entry: (0, 0),
            total: 0,
            code: 0,
            instructions: 0,
            code_instructions: 0,
            translated_before,
            exits: [0; Reason::ALL.len()],
        }
    }

    /// A hart runs from here on.
    pub fn begin(&mut self, instret: u64) {
        self.run = (ticks(), instret);
    }

    /// It has stopped.
    pub fn end(&mut self, instret: u64) {
        self.total += ticks().wrapping_sub(self.run.0);
        self.instructions += instret.wrapping_sub(self.run.1);
    }

    /// Code is entered.
    pub fn enter(&mut self, instret: u64) {
        self.entry = (ticks(), instret);
    }

    /// Code was left.
    pub fn leave(&mut self) {
        self.code += ticks().wrapping_sub(self.entry.0);
    }

    /// Instructions that code has retired: up to `instret`, and `more` of a block that did
    /// not end.
    pub fn retired(&mut self, instret: u64, more: usize) {
        self.code_instructions += instret.wrapping_sub(self.entry.1) + more as u64;
    }

    pub fn count(&mut self, why: Reason) {
        self.exits[why as usize] += 1;
    }

    pub fn read(&self, translate_ns: u64) -> Measured {
        let elapsed = self.began.0.elapsed().as_nanos();
        let all = ticks().wrapping_sub(self.began.1).max(1) as u128;
        let ns = |t: u64| (t as u128 * elapsed / all) as u64;
        Measured {
            total_ns: ns(self.total),
            code_ns: ns(self.code),
            translate_ns: translate_ns - self.translated_before,
            instructions: self.instructions,
            code_instructions: self.code_instructions,
            exits: self.exits,
        }
    }
}
