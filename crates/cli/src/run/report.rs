//! The costs of a run, for human readers and as JSON.

use crate::figures::Figures;
use crate::profiling::Waiting;
use crate::sampling;
use nagori_machine::{Machine, Report};
use nagori_memtime::stats::Region;
use nagori_session::problems::{Nvmm, Problem, NEVER_ENDED};
use nagori_session::program::{Outcome, Run, Why};
use nagori_session::sampling::Sampled;
use nagori_terminal::output::{Exit, Messages, MEANINGLESS, SIGNAL, SUCCESS};
use nagori_terminal::tables::{self, duration, grouped, row, table, text};
use serde_json::{json, Value};

/// Exit code if there is no such program, as in shells.
const NOT_FOUND: u8 = 127;
/// A program that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
const ENOENT: u32 = 2;

/// This command's exit code, by the reason for the end of the run.
fn exit(why: &Why) -> Exit {
    let low = |n: u32| n.min(255) as u8;
    match why {
        Why::Outcome(Outcome::Ended(e)) if e.by_signal => {
            Exit(SIGNAL.saturating_add(low(e.status)))
        }
        Why::Outcome(Outcome::Ended(e)) => Exit(low(e.status)),
        Why::Outcome(Outcome::Failed { errno, .. }) if *errno == ENOENT => Exit(NOT_FOUND),
        Why::Outcome(Outcome::Failed { .. }) => Exit(NOT_EXECUTABLE),
        Why::Outcome(Outcome::Timeout | Outcome::HostTimeout) | Why::Instructions => {
            nagori_terminal::output::LIMIT
        }
        Why::Off(code) => Exit(low(*code)),
        Why::Stuck | Why::Time => nagori_terminal::output::STUCK,
        Why::Signal(n) => Exit(SIGNAL.saturating_add(*n)),
        Why::PowerCut => SUCCESS,
    }
}

/// A run that has ended.
pub struct Result {
    /// Why it ended.
    pub why: Why,
    /// Statistics from the program's start to its end, or of regions of interest.
    pub report: Report,
    /// Number of regions of interest that ended, if only they count.
    pub regions: Option<u64>,
    /// Problems that make the figures incomplete or misleading.
    pub problems: Vec<Problem>,
    /// Whether every problem is an error.
    pub strict: bool,
    /// What NVMM was to it.
    pub nvmm: Nvmm,
    /// Whether the timing model was on.
    pub timed: bool,
    /// Statistics of the whole machine, for human readers and as JSON.
    pub full: (String, Value),
    /// Checksums of the outputs.
    pub sums: [u64; 2],
    /// How the run was sampled, if it was.
    pub sampled: Option<Box<Sampled>>,
    /// Which functions waited for memory, if that was asked for.
    pub functions: Vec<Waiting>,
    /// Processor time of the host from the command to the program's start, in seconds.
    pub start_cpu: Option<f64>,
}

/// The most important figures as JSON, units in names.
pub fn summary(report: &Report) -> Value {
    let f = Figures::of(report);
    let region = |r: Region| {
        let f = tables::part(report, r);
        let per_write = (f.writes > 0).then(|| f.reads as f64 / f.writes as f64);
        let mut value = json!({
            "reads": f.reads,
            "writes": f.writes,
            "read_bytes": f.read_bytes,
            "write_bytes": f.write_bytes,
            "act_per_req": f.act_per_req,
            "bank_para": f.bank_para,
            "read_latency_avg_ns": f.read_ns,
            "write_latency_avg_ns": f.write_ns,
            "write_to_medium_avg_ns": f.medium_ns,
            "reads_per_write": per_write,
        });
        if let Some(e) = f.energy_pj {
            value["energy_pj"] = json!(e);
        }
        value
    };
    json!({
        "guest_time_ps": f.time_ps,
        "instructions": f.instructions,
        "busy_cycles": f.busy,
        "cpi": f.cpi(),
        "memory_stall_cycles": f.stall,
        "l1d_misses": f.misses[0],
        "l1i_misses": f.misses[1],
        "dtlb_misses": f.misses[2],
        "itlb_misses": f.misses[3],
        "dram": region(Region::Dram),
        "nvmm": region(Region::Nvmm),
    })
}

/// A figure that may not exist.
pub fn real(v: Option<f64>, digits: usize) -> String {
    v.map_or("-".into(), |v| format!("{v:.digits$}"))
}

impl Result {
    /// The result of a run on a machine: whether the timing model was on, and whether every problem is an error.
    pub fn of(run: Run, m: &Machine, (timed, strict): (bool, bool)) -> Result {
        Result {
            why: run.why,
            report: run.report,
            regions: run.regions,
            problems: run.problems,
            strict,
            nvmm: run.nvmm,
            timed,
            full: (tables::machine(m), tables::machine_json(m)),
            sums: run.sums,
            functions: Vec::new(),
            sampled: run.sampled,
            start_cpu: run.start_cpu,
        }
    }

    /// Whether the program did something else than in another run, as far as its exit code and output tell.
    pub fn differs(&self, other: &Result) -> bool {
        exit(&self.why) != exit(&other.why) || self.sums != other.sums
    }

    /// Whether the requested figures exist.
    pub fn is_meaningful(&self) -> bool {
        self.problems.iter().all(|p| !p.meaningless)
    }

    /// Whether there is something that is an error with --strict, and that is given.
    pub fn fails_strictly(&self) -> bool {
        self.strict && !self.problems.is_empty()
    }

    /// Whether the figures cover a whole run of the program.
    pub fn is_whole(&self) -> bool {
        self.why.is_end() && self.is_meaningful()
    }

    /// This command's exit code: the program's, unless that is 0 although something failed.
    pub fn exit(&self) -> Exit {
        match exit(&self.why) {
            SUCCESS if !self.is_meaningful() || self.fails_strictly() => MEANINGLESS,
            e => e,
        }
    }

    /// Reports what the figures do not show, as far as it is `told`.
    pub fn warn(&self, messages: &Messages, told: impl Fn(&Problem) -> bool) {
        for p in self.problems.iter().filter(|p| told(p)) {
            if p.meaningless {
                messages.error(&anyhow::anyhow!(p.message.clone()))
            } else {
                messages.warning(&p.message)
            }
        }
    }

    /// The table for human readers.
    pub fn table(&self) -> String {
        let f = Figures::of(&self.report);
        let r = &self.report;
        let mut t = table([
            format!("machine {}, {}", r.machine, tables::nvmm(r)),
            String::new(),
        ]);
        let mut add = |name: &str, value: String| row(&mut t, [name.to_string(), value]);
        if let Some(n) = self.regions {
            let open = self.problems.iter().any(|p| p.what == NEVER_ENDED);
            let open = if open {
                ", and one that never ended"
            } else {
                ""
            };
            add("regions of interest", grouped(n) + open);
        }
        if self.timed {
            add("guest time", duration(f.time_ps));
        }
        add("instructions", grouped(f.instructions));
        if self.timed {
            add("cycles of harts that were not idle", grouped(f.busy));
            add("CPI", real(f.cpi(), 3));
            add(
                "waiting for memory",
                f.stalled()
                    .map_or("-".into(), |s| format!("{:.1} %", 100.0 * s)),
            );
            for (name, n) in ["L1D misses", "L1I misses", "DTLB misses", "ITLB misses"]
                .iter()
                .zip(f.misses)
            {
                add(name, grouped(n));
            }
        }
        let mut out = text(&t);
        out.push('\n');
        if let Some(s) = &self.sampled {
            out.push_str(&sampling::as_table(s));
            out.push('\n');
        }
        if let Some(epochs) = tables::epochs(r) {
            out.push_str(&epochs);
            out.push('\n');
        }
        out.push_str(&tables::memory(r));
        if !r.memories.is_empty() {
            out.push('\n');
            out.push_str(&tables::memories(r));
        }
        out
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let process = match &self.why {
            Why::Outcome(Outcome::Ended(e)) => json!(e),
            _ => Value::Null,
        };
        let memory = &self.report.memory;
        json!({
            "end": {"why": self.why.name(), "exit_code": self.exit().0, "message": self.why.message()},
            "machine": self.report.machine,
            "method": memory.method,
            "memory_model": tables::own_memory(&self.report),
            "timed": self.timed,
            "regions_of_interest": self.regions,
            "problems": self.problems,
            // The requested one does not exist.
            "summary": self.is_meaningful().then(|| summary(&self.report)),
            "process": process,
            "statistics": tables::to_json(&self.report),
            "machine_statistics": self.full.1,
            "sampled": self.sampled.as_deref().map(sampling::as_json),
        })
    }
}
