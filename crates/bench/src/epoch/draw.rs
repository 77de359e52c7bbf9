//! The plots of `nagori bench epoch`.

use super::rows::{relative, Figure, Row};
use nagori_plot::{Axis, Chart, Mark, Panel, Place, Point, Series};

/// Errors that are greater are drawn there, in percent.
const BEYOND: f64 = 120.0;

/// The different values of a column, in the order of rows.
fn names<T>(rows: &[T], of: impl Fn(&T) -> String) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for r in rows {
        let name = of(r);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Run time and write throughput over the latency of writes: lines are of the memory itself, points by epochs.
pub fn figures(rows: &[Figure]) -> Chart {
    let x = || Axis::new("write latency / DRAM latency", "");
    let mut times = Panel::new(
        "Run time",
        (x(), Axis::new("run time, 1 at W = DRAM", "")),
        Vec::new(),
    );
    let mut written = Panel::new(
        "Write throughput",
        (x(), Axis::new("throughput", "MB/s")),
        Vec::new(),
    );
    for (i, program) in names(rows, |r| r.program.clone()).into_iter().enumerate() {
        let of: Vec<&Figure> = rows.iter().filter(|r| r.program == program).collect();
        for (k, mark) in [(0, Mark::Line), (1, Mark::Points)] {
            let series = |value: &dyn Fn(&Figure) -> f64| Series {
                name: match k {
                    0 => program.clone(),
                    _ => format!("{program}, by epochs"),
                },
                colour: Some(i),
                mark,
                dashed: k == 1,
                points: of
                    .iter()
                    .map(|r| Point::new(r.write as f64, value(r)))
                    .collect(),
                ..Series::default()
            };
            let time = |r: &Figure| {
                let (detailed, emulated) = relative(rows, r);
                [detailed, emulated][k]
            };
            times.series.push(series(&time));
            written.series.push(series(&|r| r.written[k]));
        }
    }
    Chart {
        panels: vec![times, written],
        ..Chart::default()
    }
}

/// Errors of all rows: by memory, and over the share of writes.
pub fn errors(rows: &[Row]) -> Chart {
    let one_machine = names(rows, |r| r.machine.clone()).len() == 1;
    let place = |r: &Row| {
        if one_machine {
            r.memory.to_string()
        } else {
            format!("{}\n{}", r.memory, r.machine)
        }
    };
    // A few programs that are ten times too slow would leave no room for the others.
    let error = |r: &Row| (r.error * 100.0).min(BEYOND);
    let note = if rows.iter().any(|r| r.error * 100.0 > BEYOND) {
        format!(
            "A point is a program; errors above {BEYOND} \
        % are drawn there"
        )
    } else {
        "A point is a program".into()
    };
    let panel = |title: &str, x: Axis, of: &dyn Fn(&Row) -> Option<Place>| {
        let mut panel = Panel::new(
            title,
            (x, Axis::new("error of the run time", "%")),
            Vec::new(),
        );
        for method in names(rows, |r| r.method.name().to_owned()) {
            let of_method = rows.iter().filter(|r| r.method.name() == method);
            let points = of_method.filter_map(|r| Some(Point::new(of(r)?, error(r))));
            panel
                .series
                .push(Series::new(method.clone(), Mark::Points).with(points));
        }
        panel
    };
    let writes = Axis {
        zero: Some(true),
        ..Axis::new("writes among the lines of NVMM", "%")
    };
    Chart {
        note,
        panels: vec![
            panel("Error by memory", Axis::names("memory"), &|r| {
                Some(place(r).into())
            }),
            panel("Error and share of writes", writes, &|r| {
                Some((r.write_share? * 100.0).into())
            }),
        ],
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_epoch::Variant;
    use nagori_plot::{svg, Look};

    #[test]
    fn pictures_have_all_points() {
        let row = |method, error| Row {
            machine: "vc707".into(),
            memory: "coarse".into(),
            program: "chase".into(),
            method,
            epoch_ps: 1,
            detailed_ns: 2.0,
            dram_ns: 1.0,
            emulated_ns: 2.0,
            error,
            write_share: Some(0.5),
            lines_at_a_time: Some(1.0),
            act_per_req: None,
            not_waited: None,
            handed_over: 0.0,
            injected_cycles: 1,
        };
        let rows = [row(Variant::Koshiba, 0.1), row(Variant::Quartz, -0.2)];
        let chart = errors(&rows);
        let drawn = svg(&chart, &Look::default()).unwrap();
        let points = chart
            .panels
            .iter()
            .flat_map(|p| &p.series)
            .map(|s| s.points.len());
        assert_eq!(points.sum::<usize>(), 4);
        assert!(drawn.contains("koshiba") && drawn.contains("coarse"));
        let figure = |write| Figure {
            program: "profile".into(),
            write,
            detailed_ns: 1.0,
            emulated_ns: 1.0,
            written: [1.0, 2.0],
        };
        let rows = [figure(1), figure(2)];
        let svg = svg(&figures(&rows), &Look::default()).unwrap();
        assert!(svg.contains("profile") && svg.contains("MB/s"));
    }
}
