//! Ratios to QEMU, and the goals of the project for speed.

use super::row::{Row, FUNCTIONAL, QEMU, TIMED};
use super::BOOT;
use nagori_terminal::tables;
use serde::Serialize;

/// The double-precision workload.
const DOUBLE: &str = "matrix";
/// Random accesses under paging.
const RANDOM: &str = "random";
/// Workloads whose timed speed is bounded by misses: their goal is a share of the functional speed.
const MISSES: [&str; 2] = [RANDOM, "chase64m"];
/// Work of four harts, and the same work on one.
const SMP: (&str, &str) = ("smp4", "smp1");

/// The speed of an engine for a workload relative to QEMU, functional.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// Which program.
    pub workload: String,
    /// Which engine.
    pub engine: &'static str,
    /// QEMU's processor time by the engine's.
    pub of_qemu: f64,
}

/// The ratios of all workloads that ran in both.
pub fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let ours = rows
        .iter()
        .filter(|r| r.engine != QEMU && r.mode == FUNCTIONAL);
    let ratio = |r: &Row| {
        let same = |q: &&Row| q.engine == QEMU && q.workload == r.workload;
        let q = rows.iter().find(same)?;
        Some(Ratio {
            workload: r.workload.clone(),
            engine: r.engine,
            of_qemu: q.cpu_seconds / r.cpu_seconds,
        })
    };
    ours.filter_map(ratio).collect()
}

/// A goal and its measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Goal {
    /// The quantity.
    pub goal: &'static str,
    /// Which engine.
    pub engine: &'static str,
    /// The bound.
    pub bound: f64,
    /// Whether the bound is a minimum or a maximum.
    pub at_least: bool,
    /// Unit of the values; a ratio if empty.
    pub unit: &'static str,
    /// What was measured; null if it was not.
    pub value: Option<f64>,
    /// If it is the extreme of several: which one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether it is met; null if it was not measured.
    pub met: Option<bool>,
}

/// A value, and the run from which it is.
type Of = (f64, Option<String>);

fn smallest(values: impl IntoIterator<Item = (f64, String)>) -> Option<Of> {
    let least = values.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    least.map(|(v, at)| (v, Some(at)))
}

fn largest(values: impl IntoIterator<Item = (f64, String)>) -> Option<Of> {
    let most = values.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(v, at)| (v, Some(at)))
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    (n > 0.0).then(|| (values.iter().map(|v| v.ln()).sum::<f64>() / n).exp())
}

/// The median.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The rows of one engine.
struct Measured<'a> {
    rows: Vec<&'a Row>,
    ratios: Vec<Ratio>,
}

impl Measured<'_> {
    fn timed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().copied().filter(|r| r.mode == TIMED)
    }

    /// Timed rows of the set: programs that run on one hart.
    fn set(&self) -> impl Iterator<Item = &Row> {
        self.timed()
            .filter(|r| r.workload != SMP.0 && r.workload != SMP.1)
    }

    fn label(r: &Row) -> String {
        match r.method {
            Some(m) => format!("{}, {m}", r.workload),
            None => r.workload.clone(),
        }
    }

    /// Ratios of one workload's times: another's, under the same mode and method, by its own.
    fn speeds(&self, workload: &str, other: &str) -> Vec<(f64, String)> {
        let pair = |r: &&Row| {
            let same = |o: &&&Row| o.workload == other && (o.mode, o.method) == (r.mode, r.method);
            let o = self.rows.iter().find(same)?;
            Some((r.mips? / o.mips?, Self::label(r)))
        };
        let ours = self.rows.iter().filter(|r| r.workload == workload);
        ours.filter_map(pair).collect()
    }

    fn functional(&self, workload: &str) -> Option<&Row> {
        let is = |r: &&&Row| r.workload == workload && r.mode == FUNCTIONAL;
        self.rows.iter().find(is).copied()
    }

    fn ratio(&self, workload: &str) -> Option<Of> {
        let r = self.ratios.iter().find(|r| r.workload == workload)?;
        Some((r.of_qemu, None))
    }

    /// The least median over all methods.
    fn timed_median(&self) -> Option<Of> {
        let mut methods: Vec<&str> = self.set().filter_map(|r| r.method).collect();
        methods.sort_unstable();
        methods.dedup();
        let of = |m: &&str| {
            let set = self.set().filter(|r| r.method == Some(*m));
            Some((median(set.filter_map(|r| r.mips).collect())?, m.to_string()))
        };
        smallest(methods.iter().filter_map(of))
    }

    /// Timed speed as a share of functional speed, where misses bound it.
    fn shares(&self) -> Option<Of> {
        let rows = self.set().filter(|r| MISSES.contains(&r.workload.as_str()));
        let share = |r: &Row| {
            let f = self.functional(&r.workload)?;
            Some((r.mips? / f.mips?, Self::label(r)))
        };
        smallest(rows.filter_map(share))
    }

    /// Host time that a miss adds, in ns: the whole difference between timed and functional time is
    /// attributed to the misses.
    fn miss_cost(&self) -> Option<Of> {
        let rows = self.set().filter(|r| MISSES.contains(&r.workload.as_str()));
        let cost = |r: &Row| {
            let more = r.cpu_seconds - self.functional(&r.workload)?.cpu_seconds;
            let misses = r.cache_misses.filter(|&n| n > 0)?;
            Some((more * 1e9 / misses as f64, Self::label(r)))
        };
        largest(rows.filter_map(cost))
    }

    fn real_time(&self, wanted: impl Fn(&str) -> bool) -> Option<Of> {
        let rows = self.timed().filter(|r| wanted(&r.workload));
        smallest(rows.filter_map(|r| Some((r.real_time_factor?, Self::label(r)))))
    }

    fn goals(&self, engine: &'static str) -> Vec<Goal> {
        let all: Vec<f64> = self.ratios.iter().map(|r| r.of_qemu).collect();
        let each = self.ratios.iter().map(|r| (r.of_qemu, r.workload.clone()));
        let set = self
            .set()
            .filter(|r| !MISSES.contains(&r.workload.as_str()));
        let set = set.filter_map(|r| Some((r.mips?, Self::label(r))));
        let boots = self.timed().filter(|r| r.workload == BOOT);
        let memory = self.rows.iter().filter_map(|r| {
            let mib = r.own_memory_bytes? as f64 / 1_048_576.0;
            Some((mib, format!("{}, {}", r.workload, r.mode)))
        });
        let least = |goal, bound, unit, value: Option<Of>| {
            Goal::new(goal, engine, (bound, true), unit, value)
        };
        let most = |goal, bound, unit, value: Option<Of>| {
            Goal::new(goal, engine, (bound, false), unit, value)
        };
        vec![
            least(
                "functional, of QEMU: geometric mean",
                1.3,
                "",
                geometric_mean(&all).map(|v| (v, None)),
            ),
            least("functional, of QEMU: slowest", 0.8, "", smallest(each)),
            least("functional, of QEMU: boot", 1.5, "", self.ratio(BOOT)),
            least("functional, of QEMU: doubles", 2.0, "", self.ratio(DOUBLE)),
            least(
                "functional, of QEMU: random access",
                2.5,
                "",
                self.ratio(RANDOM),
            ),
            least("timed: median", 200.0, "MIPS", self.timed_median()),
            least(
                "timed: slowest, but for random access",
                100.0,
                "MIPS",
                smallest(set),
            ),
            least(
                "timed: random access, of its functional speed",
                0.75,
                "",
                self.shares(),
            ),
            most("timed: what a miss adds", 30.0, "ns", self.miss_cost()),
            least(
                "timed: guest seconds per second",
                1.0,
                "",
                self.real_time(|w| w != SMP.0),
            ),
            least(
                "timed: the same, four busy harts",
                1.0,
                "",
                self.real_time(|w| w == SMP.0),
            ),
            least(
                "four busy harts, of one's speed",
                0.8,
                "",
                smallest(self.speeds(SMP.0, SMP.1)),
            ),
            most(
                "boot to shell, functional",
                5.0,
                "s",
                self.functional(BOOT).map(|r| (r.cpu_seconds, None)),
            ),
            most(
                "boot to shell, timed",
                12.0,
                "s",
                largest(boots.map(|r| (r.cpu_seconds, Self::label(r)))),
            ),
            most("memory beside the guest's", 300.0, "MiB", largest(memory)),
        ]
    }
}

impl Goal {
    fn new(
        goal: &'static str,
        engine: &'static str,
        (bound, at_least): (f64, bool),
        unit: &'static str,
        of: Option<Of>,
    ) -> Goal {
        let (value, at) = of.map_or((None, None), |(v, at)| (Some(v), at));
        let met = value.map(|v| if at_least { v >= bound } else { v <= bound });
        Goal {
            goal,
            engine,
            bound,
            at_least,
            unit,
            value,
            at,
            met,
        }
    }
}

/// The goals, for every engine that ran.
pub fn goals(rows: &[Row]) -> Vec<Goal> {
    let mut engines: Vec<&'static str> = Vec::new();
    for r in rows.iter().filter(|r| r.engine != QEMU) {
        if !engines.contains(&r.engine) {
            engines.push(r.engine);
        }
    }
    let of = |engine: &&'static str| {
        let mut ratios = ratios(rows);
        ratios.retain(|r| r.engine == *engine);
        let rows = rows.iter().filter(|r| r.engine == *engine).collect();
        Measured { rows, ratios }.goals(engine)
    };
    engines.iter().flat_map(of).collect()
}

/// The goals as a table.
pub fn table(goals: &[Goal]) -> String {
    let mut t = tables::table(["goal", "engine", "wanted", "measured", "", "at"]);
    for g in goals {
        let sign = if g.at_least { ">=" } else { "<=" };
        let value = g.value.map_or("-".into(), |v| format!("{v:.2} {}", g.unit));
        let met = match g.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        let cells = [
            g.goal.to_string(),
            g.engine.into(),
            format!("{sign} {} {}", g.bound, g.unit).trim_end().into(),
            value.trim_end().into(),
            met.into(),
            g.at.clone().unwrap_or_default(),
        ];
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functional(workload: &str, engine: &'static str, cpu: f64) -> Row {
        Row::of(workload, engine, Some(100_000_000), cpu)
    }

    fn timed(workload: &str, method: &'static str, cpu: f64) -> Row {
        Row {
            mode: TIMED,
            method: Some(method),
            guest_seconds: Some(2.0),
            real_time_factor: Some(2.0 / cpu),
            cache_misses: Some(10_000_000),
            own_memory_bytes: Some(400 << 20),
            ..functional(workload, "translator", cpu)
        }
    }

    fn goal<'a>(goals: &'a [Goal], name: &str) -> &'a Goal {
        goals.iter().find(|g| g.goal == name).expect(name)
    }

    #[test]
    fn what_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 8.0]).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn goals_from_rows() {
        let rows = [
            functional("matrix", "translator", 0.25),
            timed("matrix", "dram", 0.5),
            timed("matrix", "extended", 2.0),
            functional("matrix", QEMU, 0.5),
            functional("random", "translator", 0.5),
            timed("random", "dram", 0.6),
            functional("random", QEMU, 0.25),
            functional("smp1", "translator", 1.0),
            functional("smp4", "translator", 1.6),
            timed("smp4", "dram", 4.0),
        ];
        let all = goals(&rows);
        assert!(all.iter().all(|g| g.engine == "translator"));
        let check = |name: &str, value: f64, met: bool, at: Option<&str>| {
            let g = goal(&all, name);
            let v = g.value.expect(name);
            assert!((v - value).abs() < 1e-9, "{name}: {v}");
            assert_eq!((g.met, g.at.as_deref()), (Some(met), at), "{name}");
        };
        check("functional, of QEMU: geometric mean", 1.0, false, None);
        check("functional, of QEMU: slowest", 0.5, false, Some("random"));
        check("functional, of QEMU: doubles", 2.0, true, None);
        check("functional, of QEMU: random access", 0.5, false, None);
        // dram: (200 + 166.7) / 2; extended: 50
        check("timed: median", 50.0, false, Some("extended"));
        check(
            "timed: slowest, but for random access",
            50.0,
            false,
            Some("matrix, extended"),
        );
        check(
            "timed: random access, of its functional speed",
            0.5 / 0.6,
            true,
            Some("random, dram"),
        );
        check("timed: what a miss adds", 10.0, true, Some("random, dram"));
        check(
            "timed: guest seconds per second",
            1.0,
            true,
            Some("matrix, extended"),
        );
        check(
            "timed: the same, four busy harts",
            0.5,
            false,
            Some("smp4, dram"),
        );
        check(
            "four busy harts, of one's speed",
            0.625,
            false,
            Some("smp4"),
        );
        assert_eq!(goal(&all, "memory beside the guest's").met, Some(false));
        assert_eq!(goal(&all, "boot to shell, timed").met, None);
        let text = table(&all);
        for part in ["NOT MET", "met", "not measured", ">= 200 MIPS", "<= 30 ns"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn without_qemu_there_are_no_ratios() {
        let rows = [functional("sort", "interpreter", 1.0)];
        assert!(ratios(&rows).is_empty());
        assert_eq!(
            goal(&goals(&rows), "functional, of QEMU: slowest").met,
            None
        );
    }
}
