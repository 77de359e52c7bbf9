//! Results of single runs, and their table.

use super::engine::{Engine, Run};
use nagori_memtime::Method;
use nagori_terminal::sample::Sample;
use nagori_terminal::tables;
use serde::Serialize;

/// Name of the mode without the timing model.
pub const FUNCTIONAL: &str = "functional";
/// Name of the mode with it.
pub const TIMED: &str = "timed";
/// Name of QEMU in the list of engines.
pub const QEMU: &str = "qemu";

/// One result; the JSON form. Values that do not apply are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which program.
    pub workload: String,
    /// Name of the machine's description; none for QEMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// [`FUNCTIONAL`] or [`TIMED`].
    pub mode: &'static str,
    /// An [`Engine`]'s name, or [`QEMU`].
    pub engine: &'static str,
    /// Delay method of a timed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// Instructions retired by all harts; null where they are not known (a boot in QEMU).
    pub instructions: Option<u64>,
    /// Processor time of the host, all threads, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Processor time of all runs, in seconds, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_sample: Option<Sample>,
    /// Million instructions per second of processor time.
    pub mips: Option<f64>,
    /// Guest time of a timed run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_seconds: Option<f64>,
    /// Guest seconds per second of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_time_factor: Option<f64>,
    /// Misses of the modelled caches in a timed run: loads, stores, page walks, instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses: Option<u64>,
    /// Million loads from random places per second of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub million_accesses_per_second: Option<f64>,
    /// Peak resident memory apart from the guest's, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_memory_bytes: Option<u64>,
}

impl Row {
    /// A run of ours; `method` if it was timed.
    pub fn new(workload: &str, engine: Engine, method: Option<Method>, run: &Run) -> Row {
        let r = &run.report;
        let misses = r.harts.iter().map(|h| {
            let e = &h.events;
            e.l1d_load_misses + e.l1d_store_misses + e.l1d_walk_misses + e.l1i_misses
        });
        let seconds = r.elapsed_ps as f64 * 1e-12;
        let timed = method.is_some();
        Row {
            method: method.map(Method::name),
            mode: if timed { TIMED } else { FUNCTIONAL },
            guest_seconds: timed.then_some(seconds),
            real_time_factor: timed.then_some(seconds / run.cpu),
            cache_misses: timed.then_some(misses.sum()),
            own_memory_bytes: Some(run.own_memory),
            ..Row::of(workload, engine.name(), Some(r.instructions), run.cpu)
        }
    }

    /// A functional run without further data.
    pub fn of(workload: &str, engine: &'static str, n: Option<u64>, cpu: f64) -> Row {
        Row {
            workload: workload.into(),
            machine: None,
            mode: FUNCTIONAL,
            engine,
            method: None,
            instructions: n,
            cpu_seconds: cpu,
            cpu_seconds_sample: None,
            mips: n.map(|n| n as f64 / 1e6 / cpu),
            guest_seconds: None,
            real_time_factor: None,
            cache_misses: None,
            million_accesses_per_second: None,
            own_memory_bytes: None,
        }
    }

    /// Adds the name of the machine.
    pub fn with_machine(mut self, name: &str) -> Row {
        self.machine = Some(name.into());
        self
    }

    /// Adds the times of all runs.
    pub fn with_times(mut self, times: &[f64]) -> Row {
        self.cpu_seconds_sample = Sample::of(times).filter(|s| s.count > 1);
        self
    }

    /// Adds the number of loads from random places.
    pub fn with_accesses(mut self, n: Option<f64>) -> Row {
        self.million_accesses_per_second = n.map(|n| n / 1e6 / self.cpu_seconds);
        self
    }
}

/// The table of rows, with ratios to QEMU if it ran.
pub fn table(rows: &[Row]) -> String {
    let qemu = |r: &Row| {
        let same = |q: &&Row| q.engine == QEMU && q.workload == r.workload;
        rows.iter().find(same)
    };
    let machine = |r: &Row| r.machine.clone();
    let mut machines: Vec<String> = rows.iter().filter_map(machine).collect();
    machines.dedup();
    let several = machines.iter().any(|m| *m != machines[0]);
    let compared = rows.iter().any(|r| r.engine == QEMU);
    let mut head = vec![
        "workload",
        "mode",
        "engine",
        "instructions",
        "cpu [s]",
        "mean ± 95 %",
        "MIPS",
        "guest [s]",
        "real time",
        "own [MiB]",
    ];
    if compared {
        head.push("of QEMU");
    }
    if several {
        head.push("machine");
    }
    let real = |v: Option<f64>, digits: usize| v.map_or("-".into(), |v| format!("{v:.digits$}"));
    let mut t = tables::table(head);
    for r in rows {
        let mode = match r.method {
            Some(m) => format!("{} {m}", r.mode),
            None => r.mode.into(),
        };
        let mut cells = vec![
            r.workload.clone(),
            mode,
            r.engine.into(),
            r.instructions.map_or("-".into(), tables::grouped),
            format!("{:.3}", r.cpu_seconds),
            r.cpu_seconds_sample
                .as_ref()
                .map_or("-".into(), |s| s.shown(3)),
            real(r.mips, 1),
            real(r.guest_seconds, 2),
            real(r.real_time_factor, 2),
            real(r.own_memory_bytes.map(|b| b as f64 / 1_048_576.0), 1),
        ];
        if compared {
            // QEMU does the same work, so times can be compared even if it does not count instructions.
            cells.push(real(qemu(r).map(|q| q.cpu_seconds / r.cpu_seconds), 3));
        }
        if several {
            cells.push(machine(r).unwrap_or_default());
        }
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_and_without_qemu() {
        let mut rows = vec![Row::of("sort", "interpreter", Some(150_000_000), 1.0)];
        rows.push(Row {
            mode: TIMED,
            method: Some("dram"),
            guest_seconds: Some(4.5),
            real_time_factor: Some(1.5),
            own_memory_bytes: Some(3 << 20),
            ..Row::of("sort", "interpreter", Some(150_000_000), 3.0).with_times(&[3.0, 3.5])
        });
        let plain = table(&rows);
        for part in [
            "150 000 000",
            "150.0",
            "50.0",
            "timed dram",
            "1.50",
            "3.250 ± 3.177",
            "3.0",
        ] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
        assert!(!plain.contains("QEMU"), "{plain}");
        assert!(!plain.contains("machine"), "{plain}");
        rows.push(Row::of("sort", "interpreter", None, 1.0).with_machine("board"));
        assert!(!table(&rows).contains("board"), "one machine");
        rows.push(Row::of("sort", "interpreter", None, 1.0).with_machine("server"));
        for part in ["machine", "board", "server"] {
            assert!(table(&rows).contains(part), "{part}");
        }
        rows.push(Row::of("sort", QEMU, None, 0.25));
        let both = table(&rows);
        for part in ["0.250", "0.083", "1.000"] {
            assert!(both.contains(part), "{part}: {both}");
        }
    }

    #[test]
    fn rows_as_json() {
        let row = Row::of("random", QEMU, Some(2_000_000), 0.5).with_accesses(Some(1e6));
        let json = serde_json::to_value(row).unwrap();
        let expected = serde_json::json!({
            "workload": "random", "mode": "functional", "engine": "qemu",
            "instructions": 2_000_000, "cpu_seconds": 0.5, "mips": 4.0,
            "million_accesses_per_second": 2.0,
        });
        assert_eq!(json, expected);
    }
}
