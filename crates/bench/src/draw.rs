//! The plot of a board benchmark: read and write latency by benchmark, beside one another by method.

use super::{Op, Row, BENCHMARKS, OPS};
use anyhow::bail;
use nagori_memtime::Method;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Series};
use nagori_terminal::plot::colour;

/// What published latencies are called, and their colour.
const PUBLISHED: (&str, usize) = ("published, reference board", 1);

/// The chart of what was measured, with what was published.
pub fn board(machine: &str, measured: &[Row], published: &[Row]) -> anyhow::Result<Chart> {
    if measured.is_empty() || measured.iter().any(|r| r.latency_ns <= 0.0) {
        bail!("there are no latencies to draw");
    }
    Ok(Chart {
        title: format!(
            "Average latency of one access to NVMM from Linux user space, machine {machine}"
        ),
        panels: OPS
            .iter()
            .map(|op| panel(*op, measured, published))
            .collect(),
        ..Chart::default()
    })
}

/// The name of a cell's place: its value, and below it the benchmark.
fn place(r: &Row) -> String {
    format!("{}\n{}", r.value, r.benchmark.axis())
}

fn panel(op: Op, measured: &[Row], published: &[Row]) -> Panel {
    let of = |m: Method| measured.iter().filter(move |r| r.op == op && r.method == m);
    let methods: Vec<Method> = Method::ALL
        .into_iter()
        .filter(|m| of(*m).next().is_some())
        .collect();
    let mut series: Vec<Series> = { methods.iter() }
        .map(|m| Series {
            colour: Some(colour(*m)),
            ..Series::new(m.name(), Mark::Bars).with(of(*m).map(|r| {
                // An axis of logarithms has no zero.
                let within = r.interval.filter(|[low, _]| *low > 0.0);
                Point::new(place(r), r.latency_ns).within(within)
            }))
        })
        .collect();
    for m in &methods {
        let points = published.iter().filter(|r| r.op == op && r.method == *m);
        series.push(Series {
            colour: Some(PUBLISHED.1),
            beside: m.name().into(),
            ..Series::new(PUBLISHED.0, Mark::Points)
                .with(points.map(|r| Point::new(place(r), r.latency_ns)))
        });
    }
    series.retain(|s| !s.points.is_empty());
    let names = { BENCHMARKS.iter() }
        .flat_map(|(b, values)| values.iter().map(move |v| format!("{v}\n{}", b.axis())))
        .collect();
    let x = Axis {
        names,
        ..Axis::names("")
    };
    Panel::new(op.name(), (x, Axis::new("latency", "ns").log()), series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use nagori_plot::PALETTE;
    use nagori_plot::{svg, Look};

    fn draw(methods: &[Method]) -> Chart {
        let (measured, published) = sample(methods);
        board("vc707", &measured, &published).unwrap()
    }

    #[test]
    fn every_cell_has_its_bar_and_every_published_one_its_marker() {
        let text = svg(&draw(&Method::ALL), &Look::default()).unwrap();
        for m in Method::ALL {
            let [r, g, b] = PALETTE[colour(m)];
            let fill = format!("fill=\"#{r:02x}{g:02x}{b:02x}\"");
            // Sixteen bars and one in the legend.
            assert_eq!(text.matches(&fill).count(), 17, "{m}");
        }
        let [r, g, b] = PALETTE[PUBLISHED.1];
        let fill = format!("fill=\"#{r:02x}{g:02x}{b:02x}\"");
        assert_eq!(text.matches(&fill).count(), 21);
        for part in [
            "published, reference board",
            "banks in turn",
            ">8192<",
            "20\u{a0}000",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn a_picture_of_some_methods() {
        let text = svg(&draw(&[Method::Fine]), &Look::default()).unwrap();
        assert!(text.contains("fine") && !text.contains("coarse"));
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let e = board("vc707", &[], &[]).unwrap_err();
        assert!(format!("{e:#}").contains("no latencies to draw"), "{e:#}");
    }
}
