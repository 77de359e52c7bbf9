//! The table of `nagori bench iomap`.

use super::rows::{Direction, Row};
use super::ways::Kind;
use crate::tables;

/// For people: a line for each cell, and what the gain is on average.
pub fn text(machine: &str, rows: &[Row]) -> String {
    let mut out = format!("TCP transfers of {machine} by the Ethernet MAC at another place than its driver expects, Mbit/s\n\n");
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
    out.push('\n');
    out
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
