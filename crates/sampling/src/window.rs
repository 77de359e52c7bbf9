//! One window of a machine: it is warmed in detail, and then measured.

use nagori_machine::{Attributed, Machine, Report, Stop};
use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};

/// What is wrong, in words.
pub type Failure = String;

/// How long a window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// Instructions of all harts in detail before it.
    pub warm_up: u64,
    /// Instructions of all harts that are measured.
    pub measured: u64,
}

/// What a window has shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Window {
    /// Instructions of all harts.
    pub instructions: u64,
    /// Machine time in which not every hart slept, in picoseconds.
    pub awake_ps: u64,
    /// Machine time in which every hart slept.
    pub asleep_ps: u64,
    /// What was counted.
    pub report: Report,
    /// Lines that memory read for caches that had room.
    pub cold: u64,
    /// As `awake_ps`, if such lines had been hits.
    pub awake_if_hits_ps: u64,
    /// What the profiler has counted, if there is one.
    #[serde(skip)]
    pub attributed: Attributed,
}

/// Picoseconds that a line of a cold cache may cost, and the part of a window that is looked at again.
const LINE_PS: u64 = 300_000;
const WORTH: u64 = 200;

impl Window {
    /// What was measured as a whole, taken for a window.
    pub(crate) fn of(whole: &Report) -> Window {
        Window {
            instructions: whole.instructions.max(1),
            awake_ps: whole.elapsed_ps,
            asleep_ps: 0,
            report: whole.clone(),
            cold: 0,
            awake_if_hits_ps: whole.elapsed_ps,
            attributed: Attributed::default(),
        }
    }

    /// Whether so many lines came for caches that had room that the window is worth a second look.
    pub fn is_in_doubt(&self) -> bool {
        self.cold.saturating_mul(LINE_PS).saturating_mul(WORTH) > self.awake_ps
    }

    /// What the window was when lines of cold caches were hits.
    pub fn bound(&mut self, as_hits: Option<&Window>) {
        if let Some(other) = as_hits {
            // Instructions of the two may differ by a block.
            let each = other.awake_ps as f64 / other.instructions as f64;
            self.awake_if_hits_ps = (each * self.instructions as f64) as u64;
        }
    }

    /// How much shorter the window might have been with warm caches, as a part of it.
    pub fn doubt(&self) -> f64 {
        let shorter = self.awake_ps.saturating_sub(self.awake_if_hits_ps);
        shorter as f64 / (self.awake_ps as f64).max(1.0)
    }
}

/// Cycles that a machine runs before it is looked at.
const SLICE: u64 = 1 << 24;
/// Jumps over time in which every hart sleeps, in one window: a machine that needs something of the host waits in vain.
const JUMPS: u32 = 10_000;

/// Runs so many instructions. Whether it came to that.
fn run(m: &mut Machine, instructions: u64) -> bool {
    let until = m.steps().saturating_add(instructions);
    let mut jumps = 0;
    loop {
        match m.run(SLICE, Some(until)) {
            Stop::Instructions => return true,
            Stop::Slice | Stop::Snapshot(_) => {}
            Stop::Idle(at) if at < Ps::NEVER && jumps < JUMPS => jumps += 1,
            _ => return false,
        }
    }
}

/// Measures a machine from where it is; it has to be functional. `None` if the program, what is timed of it, or the
/// machine ended before the window did.
pub fn measure(m: &mut Machine, length: Length) -> Option<Window> {
    m.set_timed(true);
    m.take_cold_lines();
    if !run(m, length.warm_up) || !m.timed() {
        return None;
    }
    m.reset_stats();
    m.take_cold_lines();
    let begin = m.progress();
    if !run(m, length.measured) || !m.timed() {
        return None;
    }
    let part = m.progress().since(&begin);
    if part.instructions == 0 {
        return None;
    }
    let awake_ps = part.time_ps.saturating_sub(part.asleep_ps);
    Some(Window {
        instructions: part.instructions,
        awake_ps,
        asleep_ps: part.asleep_ps,
        report: m.report(),
        cold: m.take_cold_lines(),
        awake_if_hits_ps: awake_ps,
        attributed: m.take_attributed(),
    })
}
