//! The plot of `nagori bench iomap`: throughput by size of the buffer.

use super::rows::{Direction, Row};
use super::ways::Kind;
use anyhow::bail;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Series};

/// The colour without virtualization: that of no table, dashed.
const NONE: usize = 6;

/// Throughput by buffer: a panel for each direction, and for each rule by which small tables replace entries.
pub fn chart(machine: &str, rows: &[Row]) -> anyhow::Result<Chart> {
    let mut rules: Vec<&str> = Vec::new();
    for r in rows.iter().filter_map(|r| r.replacement) {
        if !rules.contains(&r.name()) {
            rules.push(r.name());
        }
    }
    let rules: Vec<Option<&str>> = if rules.is_empty() {
        vec![None]
    } else {
        rules.into_iter().map(Some).collect()
    };
    let mut panels = Vec::new();
    for rule in rules {
        for (direction, name) in [(Direction::Up, "up"), (Direction::Down, "down")] {
            let of = |r: &&Row| {
                r.direction == direction && r.replacement.is_none_or(|r| Some(r.name()) == rule)
            };
            let title = match rule {
                None => name.to_string(),
                Some(rule) => format!("{name}, small tables: {rule}"),
            };
            let panel = panel(title, rows.iter().filter(of));
            if !panel.series.is_empty() {
                panels.push(panel);
            }
        }
    }
    if panels.is_empty() {
        bail!("there is nothing to draw");
    }
    Ok(Chart {
        title: format!("Throughput of the network by buffer, machine {machine}"),
        panels,
        ..Chart::default()
    })
}

fn panel<'r>(title: String, rows: impl Iterator<Item = &'r Row>) -> Panel {
    let axes = (
        Axis::new("buffer", "KiB").log(),
        Axis::new("throughput", "Mbit/s"),
    );
    let mut panel = Panel::new(title, axes, Vec::new());
    for r in rows {
        let name = match r.entries {
            Some(n) => format!("small table, {n} entries"),
            None => r.way_name(),
        };
        panel.add(Series {
            colour: (r.way == Kind::None).then_some(NONE),
            dashed: r.way == Kind::None,
            ..Series::new(name, Mark::Line).with([Point::new(f64::from(r.buffer_kib), r.mbps)])
        });
    }
    panel
}

#[cfg(test)]
mod tests {
    use super::super::run::Counts;
    use super::super::ways::{Replacement, Way};
    use super::*;
    use nagori_plot::{svg, Look};

    #[test]
    fn directions_and_rules_are_panels_and_nothing_is_an_error() {
        let row = |kind, small, direction, kib| {
            let way = Way { kind, small };
            let at = (direction, kib);
            Row::new(&way, at, vec![f64::from(kib)], &Counts::default())
        };
        let mut rows = Vec::new();
        for (direction, kib) in [
            (Direction::Up, 1),
            (Direction::Up, 64),
            (Direction::Down, 1),
        ] {
            rows.push(row(Kind::Monitor, None, direction, kib));
            for n in [4, 8] {
                for rule in [Replacement::Lru, Replacement::Fifo] {
                    rows.push(row(Kind::Small, Some((n, rule)), direction, kib));
                }
            }
        }
        let chart = chart("m", &rows).unwrap();
        let titles: Vec<&str> = chart.panels.iter().map(|p| p.title.as_str()).collect();
        let of = |d: &str, r: &str| format!("{d}, small tables: {r}");
        assert_eq!(
            titles,
            [
                of("up", "lru"),
                of("down", "lru"),
                of("up", "fifo"),
                of("down", "fifo")
            ]
        );
        // What has no rule is in all panels, to compare with.
        assert!(chart.panels.iter().all(|p| p.series.len() == 3));
        let text = svg(&chart, &Look::default()).unwrap();
        for word in [
            "machine m",
            "monitor",
            "buffer [KiB]",
            "small table, 8 entries",
        ] {
            assert!(text.contains(word), "{word}");
        }
        assert!(super::chart("m", &[]).is_err());
    }
}
