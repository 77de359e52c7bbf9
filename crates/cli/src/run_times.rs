//! The plot of run times: bars, with the share that is spent waiting for memory, or lines over a varied value.

use nagori_plot::{Axis, Chart, Mark, Panel, Place, Point, Series};

/// Greatest number of characters of the program's name.
const TITLE: usize = 70;
/// Colours: of waiting for memory, and of all else.
const WAITING: usize = 1;
const OTHER: usize = 5;

/// What is drawn of a row.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its method or memory.
    pub variant: String,
    /// Its varied values, by their keys.
    pub at: Vec<(String, String)>,
    /// The run time, or the reason why there is none.
    pub time: Result<f64, String>,
    /// Ends of its confidence interval, if there are several runs.
    pub interval: Option<[f64; 2]>,
    /// Share of it that is spent waiting for memory.
    pub waiting: f64,
}

/// The chart.
pub fn drawn(program: &str, rows: &[Shown]) -> Chart {
    let mut title: String = program.chars().take(TITLE).collect();
    if title.len() < program.len() {
        title.push_str("...");
    }
    let first = rows.first().map_or(String::new(), name);
    let mut note = format!("{first} is 1");
    if rows.iter().any(|b| b.interval.is_some()) {
        note.push_str("; intervals: 95 % of the mean");
    }
    let panel = match rows.first().and_then(along) {
        None => bars(rows),
        Some(key) => lines(rows, key),
    };
    Chart {
        title: format!("Run time of {title}"),
        note,
        ..Chart::of(panel)
    }
}

fn name(r: &Shown) -> String {
    let at = r.at.iter().map(|(k, v)| format!("{k}={v}"));
    std::iter::once(r.variant.clone())
        .chain(at)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first varied key.
fn along(r: &Shown) -> Option<usize> {
    (!r.at.is_empty()).then_some(0)
}

fn bars(rows: &[Shown]) -> Panel {
    let mut waiting = Series {
        colour: Some(WAITING),
        ..Series::new("waiting for memory", Mark::Stack)
    };
    let mut other = Series {
        colour: Some(OTHER),
        ..Series::new("everything else", Mark::Stack)
    };
    for r in rows {
        let x = name(r);
        match &r.time {
            Err(why) => other.points.push(Point::missing(x, why)),
            Ok(time) => {
                waiting.points.push(Point::new(x.clone(), time * r.waiting));
                let rest = Point::new(x, time * (1.0 - r.waiting)).within(r.interval);
                other.points.push(rest.labelled(format!("{time:.3}")));
            }
        }
    }
    let x = Axis {
        names: rows.iter().map(name).collect(),
        ..Axis::names("")
    };
    Panel::new("", (x, Axis::new("run time", "")), vec![waiting, other])
}

/// A line for each variant and each combination of the other varied values.
fn lines(rows: &[Shown], key: usize) -> Panel {
    let values: Vec<&str> = rows.iter().map(|r| r.at[key].1.as_str()).collect();
    let numbers: Option<Vec<(f64, &str)>> = values
        .iter()
        .map(|v| nagori_terminal::numbers::with_unit(v))
        .collect();
    let numbers = numbers.filter(|n| n.iter().all(|v| v.1 == n[0].1));
    let title = &rows[0].at[key].0;
    let x = match &numbers {
        Some(n) => {
            let (least, most) = n
                .iter()
                .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v.0), b.max(v.0)));
            // Sizes are doubled, not added to.
            let axis = Axis::new(title, n[0].1);
            if least > 0.0 && most >= 8.0 * least {
                axis.log()
            } else {
                axis
            }
        }
        None => Axis::names(title),
    };
    let mark = if numbers.is_some() {
        Mark::Line
    } else {
        Mark::Points
    };
    let mut panel = Panel::new("", (x, Axis::new("run time", "")), Vec::new());
    for (i, r) in rows.iter().enumerate() {
        let others = { r.at.iter().enumerate() }.filter(|(k, _)| *k != key);
        let mut name = r.variant.clone();
        for (_, (k, v)) in others {
            name += &format!(", {k}={v}");
        }
        let place = match &numbers {
            Some(n) => Place::Number(n[i].0),
            None => Place::Name(values[i].to_string()),
        };
        let points = r
            .time
            .as_ref()
            .ok()
            .map(|t| Point::new(place, *t).within(r.interval));
        panel.add(Series::new(name, mark).with(points));
    }
    panel.empty = "no run can be compared".into();
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_plot::{svg, Look};

    fn row(variant: &str, at: &[(&str, &str)], time: Result<f64, &str>) -> Shown {
        Shown {
            variant: variant.into(),
            at: at
                .iter()
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .collect(),
            time: time.map_err(str::to_string),
            interval: time.ok().map(|t| [t * 0.9, t * 1.1]),
            waiting: 0.5,
        }
    }

    #[test]
    fn a_picture_has_a_bar_for_each_method() {
        let rows = [
            row("dram", &[], Ok(1.0)),
            row("fine", &[], Err("unfinished: timeout")),
            row("extended", &[], Ok(3.456)),
        ];
        let text = svg(&drawn("./sort 10", &rows), &Look::default()).unwrap();
        for part in [
            "Run time of ./sort 10",
            "dram is 1; intervals: 95 % of the mean",
            "extended",
            "3.456",
            "1.000",
            "waiting for memory",
            "unfinished: timeout",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn varied_numbers_are_an_axis() {
        let rows: Vec<Shown> = [("dram", 1.0), ("fine", 2.0)]
            .iter()
            .flat_map(|(v, t)| {
                ["16 KiB", "64 KiB", "256 KiB"].map(|s| row(v, &[("l1d.size", s)], Ok(*t)))
            })
            .collect();
        let chart = drawn("p", &rows);
        let panel = &chart.panels[0];
        assert_eq!(panel.series.len(), 2);
        assert_eq!(panel.series[1].points.len(), 3);
        assert_eq!(
            (panel.x.title.as_str(), panel.x.unit.as_str()),
            ("l1d.size", "KiB")
        );
        assert!(svg(&chart, &Look::default())
            .unwrap()
            .contains("l1d.size [KiB]"));
        let named: Vec<Shown> = ["open", "closed"]
            .map(|s| row("dram", &[("page", s), ("n", "1")], Ok(1.0)))
            .into();
        let chart = drawn("p", &named);
        assert_eq!(chart.panels[0].series[0].name, "dram, n=1");
        assert!(svg(&chart, &Look::default()).unwrap().contains("closed"));
    }
}
