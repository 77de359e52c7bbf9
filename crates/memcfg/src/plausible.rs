//! Times that no device has: most likely another unit was meant.
//!
//! What is plausible follows from the presets, whose values have sources: a time of the same name
//! that is longer or shorter than all of theirs by more than [`FACTOR`] is told of. It is used all
//! the same, since a study may want it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nagori_memtime::Ps;

use crate::kinds::{Memory, Row};
use crate::library::EMBEDDED;
use crate::tree::Origin;

/// How many times longer than the longest of the presets, or shorter than the shortest, a time may be
/// without a word.
const FACTOR: u64 = 100;

/// A time of a preset, and where it is from.
#[derive(Clone)]
struct Known {
    time: Ps,
    from: String,
}

/// The shortest and the longest time of each name in the presets.
type Times = BTreeMap<String, [Known; 2]>;

fn name(row: &Row) -> &str {
    row.key.rsplit('.').next().unwrap_or(&row.key)
}

fn time(row: &Row) -> Option<Ps> {
    row.value.parse().ok().filter(|t| *t > Ps::ZERO)
}

fn times() -> Times {
    let mut all = Times::new();
    for (preset, _) in EMBEDDED {
        // Presets are tested; what they do not have is not compared with.
        let Ok(memory) = Memory::load(preset, &[]) else {
            continue;
        };
        for row in &memory.rows {
            let Some(time) = time(row) else { continue };
            let known = Known {
                time,
                from: format!("{preset}, {}", row.source),
            };
            let ends = all
                .entry(name(row).to_owned())
                .or_insert_with(|| [known.clone(), known.clone()]);
            if time < ends[0].time {
                ends[0] = known.clone();
            }
            if time > ends[1].time {
                ends[1] = known;
            }
        }
    }
    all
}

/// What is to be told of the times that were set for this run or given in a file.
pub(crate) fn warnings(rows: &[Row]) -> Vec<String> {
    static TIMES: OnceLock<Times> = OnceLock::new();
    let given = rows
        .iter()
        .filter(|r| matches!(r.origin, Origin::Set | Origin::File));
    let one = |row: &Row| {
        let time = time(row)?;
        let [least, most] = TIMES.get_or_init(times).get(name(row))?;
        let (than, known) = if time.0 / FACTOR > most.time.0 {
            ("longest", most)
        } else if time.0 < least.time.0 / FACTOR {
            ("shortest", least)
        } else {
            return None;
        };
        Some(format!(
            "`{}` is {}, more than {FACTOR} times off the {than} of the presets, {} ({}): was another unit meant?",
            row.key, row.value, known.time, known.from
        ))
    };
    given.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_times_are_told_of_and_unusual_ones_are_not() {
        let of = |name: &str, setting: &str| {
            let m = Memory::load(name, &[setting.to_owned()]);
            m.unwrap_or_else(|e| panic!("{e}")).warnings
        };
        for (memory, setting, what) in [
            (
                "pcm",
                "timings.tSET=300 ms",
                "`timings.tSET` is 300 ms, more than 100 times off the longest of the presets",
            ),
            ("stt-mram", "timings.tWR=1 ms", "`timings.tWR` is 1 ms"),
            (
                "hybrid",
                "nvmm.timings.tSET=1 s",
                "`nvmm.timings.tSET` is 1 s",
            ),
        ] {
            let told = of(memory, setting);
            assert_eq!(told.len(), 1, "{setting}: {told:?}");
            assert!(
                told[0].contains(what) && told[0].contains("was another unit meant?"),
                "{told:?}"
            );
        }
        for (memory, setting) in [
            ("pcm", "timings.tSET=1 us"),
            ("stt-mram", "timings.tWR=100 ns"),
            ("ddr3", "controller.read_queue=64"),
        ] {
            assert_eq!(of(memory, setting), Vec::<String>::new(), "{setting}");
        }
        for (name, _) in EMBEDDED {
            assert!(Memory::load(name, &[]).unwrap().warnings.is_empty());
        }
    }

    #[test]
    fn the_source_is_that_of_the_preset() {
        let told = Memory::load("pcm", &["timings.tSET=300 ms".to_owned()]).unwrap();
        let row = Memory::load("pcm", &[]).unwrap().rows;
        let row = row.iter().find(|r| r.key == "timings.tSET").unwrap();
        assert!(
            told.warnings[0].contains(&row.source),
            "{:?}",
            told.warnings
        );
    }
}
