//! The table of `nagori bench iomap`.

use super::rows::{Direction, Row};
use super::ways::{Kind, Replacement};
use nagori_terminal::tables;
use std::collections::BTreeMap;

/// For people: a line for each cell, and what the gain is on average.
pub fn text(machine: &str, rows: &[Row]) -> String {
    let mut out = format!(
        "TCP transfers of {machine} by the Ethernet MAC at another place than its driver expects, \
        Mbit/s\n\n"
    );
    out.push_str(&table(rows));
    let of = |kind: Kind| {
        let ratios: Vec<f64> = { rows.iter() }
            .filter(|r| r.way == kind)
            .filter_map(|r| r.ratio_to_monitor)
            .collect();
        (!ratios.is_empty()).then(|| {
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            let least = ratios.iter().copied().fold(f64::MAX, f64::min);
            let most = ratios.iter().copied().fold(0.0, f64::max);
            (mean, least, most)
        })
    };
    for (kind, name) in [
        (Kind::Constant, "constant table"),
        (Kind::None, "no virtualization"),
        (Kind::Small, "small tables"),
    ] {
        if let Some((mean, least, most)) = of(kind) {
            let percent = |r: f64| 100.0 * (r - 1.0);
            out.push_str(&format!(
                "\n{name}: {:+.1} % over the monitor on average, {:+.1} to {:+.1} %",
                percent(mean),
                percent(least),
                percent(most)
            ));
        }
    }
    for (replacement, entries) in enough(rows) {
        let how = replacement.name();
        out.push_str(&match entries {
            Some(n) => {
                format!("\nsmall tables, {how}: as fast as the constant one from {n} entries on")
            }
            None => format!(
                "\nsmall tables, {how}: slower than the constant one with all numbers of entries"
            ),
        });
    }
    out.push('\n');
    out
}

/// How much slower than the constant table a small one may be on average, to count as equally fast.
const AS_FAST: f64 = 0.99;

/// For each replacement, the number of entries from which on small tables are as fast as the constant one, over the
/// cells in which both were measured.
fn enough(rows: &[Row]) -> Vec<(Replacement, Option<u32>)> {
    let cell = |r: &Row| (r.direction, r.buffer_kib);
    let constant: Vec<&Row> = rows.iter().filter(|r| r.way == Kind::Constant).collect();
    let mut means: BTreeMap<(Replacement, u32), (f64, u32)> = BTreeMap::new();
    for r in rows {
        let beside = constant.iter().find(|c| cell(c) == cell(r));
        if let (Some(small), Some(c)) = (r.replacement.zip(r.entries), beside) {
            let mean = means.entry(small).or_default();
            *mean = (mean.0 + r.mbps / c.mbps, mean.1 + 1);
        }
    }
    let mut found: BTreeMap<Replacement, Option<u32>> = BTreeMap::new();
    // In ascending order of entries: a slow one makes all smaller ones too small.
    for ((replacement, entries), (sum, n)) in means {
        let least = found.entry(replacement).or_default();
        *least = if sum / f64::from(n) >= AS_FAST {
            least.or(Some(entries))
        } else {
            None
        };
    }
    found.into_iter().collect()
}

fn table(rows: &[Row]) -> String {
    let mut t = tables::table([
        "way",
        "direction",
        "KiB",
        "Mbit/s",
        "least",
        "most",
        "to monitor",
        "instructions",
        "translation",
        "share",
        "traps/s",
        "I/O per frame",
    ]);
    for r in rows {
        let cells = [
            r.way_name(),
            if r.direction == Direction::Up {
                "up"
            } else {
                "down"
            }
            .into(),
            r.buffer_kib.to_string(),
            format!("{:.2}", r.mbps),
            format!("{:.2}", r.mbps_spread.min),
            format!("{:.2}", r.mbps_spread.max),
            r.ratio_to_monitor.map_or("-".into(), |x| format!("{x:.3}")),
            tables::grouped(r.instructions),
            tables::grouped(r.translation_instructions),
            format!("{:.1} %", 100.0 * r.translation_share),
            format!("{:.0}", r.traps_per_second),
            format!("{:.1}", r.io_accesses_per_frame),
        ];
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}

#[cfg(test)]
mod tests {
    use super::super::run::Counts;
    use super::super::ways::Way;
    use super::*;

    #[test]
    fn small_tables_are_as_fast_from_a_number_of_entries_on() {
        let row = |kind, small, mbps: f64| {
            let way = Way { kind, small };
            Row::new(&way, (Direction::Up, 1), vec![mbps], &Counts::default())
        };
        let small = |n, r, mbps| row(Kind::Small, Some((n, r)), mbps);
        use Replacement::{Fifo, Lru, Random};
        let rows = [
            row(Kind::Constant, None, 10.0),
            small(4, Lru, 9.95),
            small(8, Lru, 9.0),
            small(16, Lru, 9.92),
            small(32, Lru, 10.0),
            small(16, Fifo, 9.0),
            small(4, Random, 10.0),
        ];
        assert_eq!(
            enough(&rows),
            [(Lru, Some(16)), (Fifo, None), (Random, Some(4))]
        );
        assert!(text("m", &rows).contains("lru: as fast as the constant one from 16 entries on"));
    }
}
