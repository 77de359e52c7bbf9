//! Results of one study, by program.

use crate::conditions::Conditions;
use crate::figures::Figures;
use crate::record::Record;
use nagori_memtime::Method;
use std::collections::BTreeMap;

/// What NVMM is where run times are 1: as fast as DRAM.
const BASES: [&str; 2] = ["dram", "ddr4"];

/// Results of a program under the memories of a study.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The program's name.
    pub program: String,
    /// Figures by the memory's name: those of the run without a seed, or with the least.
    pub figures: BTreeMap<String, Figures>,
    /// Run times relative to the run with the same seed under `dram`, or with `ddr4` where NVMM has a memory of its
    /// own, by the memory's name.
    pub times: BTreeMap<String, Vec<f64>>,
    /// Versions of its packages.
    pub versions: BTreeMap<String, String>,
    /// Why it has no figures, by the memory's name.
    pub failures: BTreeMap<String, String>,
    /// Elapsed seconds of the host, of all runs.
    pub host_seconds: f64,
}

impl Row {
    /// The mean run time under a memory; under `dram` it is 1.
    pub fn time(&self, memory: &str) -> Option<f64> {
        let all = self.times.get(memory)?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The figures under a memory.
    pub fn of(&self, memory: &str) -> Option<&Figures> {
        self.figures.get(memory)
    }
}

/// Results of programs under the same conditions but for memory and seed.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// One row for each program that has a result, by name.
    pub rows: Vec<Row>,
    /// Names of all memories: methods in their order, then others.
    pub memories: Vec<String>,
    /// Fingerprints of all models of the results.
    pub models: Vec<String>,
}

impl Table {
    /// The results that were made under conditions like these, whatever their memory and seed.
    pub fn of(records: &[Record], like: &Conditions) -> Table {
        let mut chosen: Vec<&Record> = records
            .iter()
            .filter(|r| like.is_like(&r.conditions))
            .collect();
        // Without a seed first.
        chosen.sort_by_key(|r| r.conditions.seed);
        let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
        let mut bases: BTreeMap<(&str, Option<u64>), u64> = BTreeMap::new();
        let has = |name: &&&str| chosen.iter().any(|r| r.conditions.memory.name() == **name);
        let base = BASES.iter().find(has).copied().unwrap_or(BASES[0]);
        let of_base = |r: &&&Record| r.conditions.memory.name() == base;
        for r in chosen.iter().filter(of_base) {
            let time = r.figures.as_ref().map(|f| f.time_ps);
            bases.extend(time.map(|t| ((r.program.as_str(), r.conditions.seed), t)));
        }
        let mut table = Table::default();
        for r in &chosen {
            let row = rows.entry(&r.program).or_default();
            row.program = r.program.clone();
            row.versions.extend(r.versions.clone());
            row.host_seconds += r.host.seconds;
            if !table.models.contains(&r.model) {
                table.models.push(r.model.clone());
            }
            let name = r.conditions.memory.name().to_string();
            if !table.memories.contains(&name) {
                table.memories.push(name.clone());
            }
            match (&r.figures, &r.failure) {
                (Some(f), _) => {
                    row.figures.entry(name.clone()).or_insert_with(|| f.clone());
                    if let Some(base) = bases
                        .get(&(r.program.as_str(), r.conditions.seed))
                        .filter(|b| **b > 0)
                    {
                        row.times
                            .entry(name)
                            .or_default()
                            .push(f.time_ps as f64 / *base as f64);
                    }
                }
                (None, Some(f)) => {
                    row.failures.insert(name, f.why.clone());
                }
                (None, None) => {}
            }
        }
        let place = |name: &String| {
            Method::ALL
                .iter()
                .position(|m| m.to_string() == *name)
                .unwrap_or(usize::MAX)
        };
        table.memories.sort_by_key(|m| (place(m), m.clone()));
        table.models.sort();
        table.rows = rows.into_values().collect();
        table
    }

    /// Rows that have run times under all of some memories, in ascending order of those under the last.
    pub fn ascending(&self, memories: &[&str]) -> Vec<&Row> {
        let whole = |r: &&Row| memories.iter().all(|m| r.time(m).is_some());
        let mut rows: Vec<&Row> = self.rows.iter().filter(whole).collect();
        let time = |r: &Row| memories.last().and_then(|m| r.time(m)).unwrap_or(0.0);
        rows.sort_by(|a, b| {
            time(a)
                .total_cmp(&time(b))
                .then_with(|| a.program.cmp(&b.program))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Size;
    use crate::{Host, Malloc, Memory, Timing, FORMAT};

    fn record(program: &str, memory: &str, seed: Option<u64>, time_ps: u64) -> Record {
        Record {
            format: FORMAT,
            program: program.into(),
            conditions: Conditions {
                machine: "vc707".into(),
                set: Vec::new(),
                memory: Memory::Method(memory.into()),
                placement: "heap".into(),
                malloc: Malloc::Nagori,
                timing: Timing::Region,
                size: Size::Default,
                seed,
            },
            key: format!("{memory}{seed:?}"),
            model: "m".into(),
            versions: BTreeMap::new(),
            whole_instructions: 1,
            output: String::new(),
            figures: (time_ps > 0).then(|| Figures {
                time_ps,
                ..Figures::default()
            }),
            failure: None,
            host: Host::default(),
        }
    }

    #[test]
    fn where_there_are_no_methods_ddr4_is_the_base() {
        let mut all = [
            record("a", "dram", None, 100),
            record("a", "dram", None, 130),
        ];
        for (r, name) in all.iter_mut().zip(["ddr4", "pcm"]) {
            r.conditions.memory = Memory::Model(name.into());
        }
        let t = Table::of(&all, &all[0].conditions);
        assert_eq!(
            (t.rows[0].time("ddr4"), t.rows[0].time("pcm")),
            (Some(1.0), Some(1.3))
        );
    }

    #[test]
    fn times_are_relative_to_the_run_with_the_same_seed() {
        let records = [
            record("a", "dram", Some(1), 100),
            record("a", "dram", Some(2), 200),
            record("a", "extended", Some(1), 150),
            record("a", "extended", Some(2), 500),
            record("b", "dram", Some(1), 100),
            record("b", "extended", Some(1), 120),
            record("c", "extended", Some(1), 120),
        ];
        let t = Table::of(&records, &records[2].conditions);
        assert_eq!(t.memories, ["dram", "extended"]);
        assert_eq!(t.rows[0].times["extended"], [1.5, 2.5]);
        assert_eq!(t.rows[0].time("extended"), Some(2.0));
        let order: Vec<&str> = t
            .ascending(&["extended"])
            .iter()
            .map(|r| r.program.as_str())
            .collect();
        assert_eq!(order, ["b", "a"]);
        let mut other = records[0].conditions.clone();
        other.malloc = Malloc::Jemalloc;
        assert!(Table::of(&records, &other).rows.is_empty());
    }
}
