//! The plot of a comparison: run times as bars, with the share that is spent waiting for memory.

use super::compare::{in_vain, normalised, Row, Variant};
use super::report::Figures;
use crate::args::TimingMethod;
use crate::plot::{self, colour, Format, FONT, INK};
use crate::sample::Sample;
use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (900, 560);
/// Margins of the area for bars: left, right, top, bottom.
const EDGES: [i32; 4] = [90, 860, 96, 490];
/// Colour of a memory's bar.
const MODEL: RGBColor = RGBColor(0, 158, 115);
/// Colour of a bar of epochs.
const EPOCH: RGBColor = RGBColor(204, 121, 167);
/// Width of a bar, where 1 is the distance between bars.
const BAR: f64 = 0.6;
/// Strength of a bar's colour where the machine does not wait for memory.
const PALE: f64 = 0.45;
/// Greatest number of characters of the program's name.
const TITLE: usize = 70;

struct Bar {
    variant: Variant,
    /// The run time, or the reason why there is none.
    time: Result<f64, &'static str>,
    /// Ends of its confidence interval, if there are several runs.
    interval: Option<[f64; 2]>,
    /// Share of it that is spent waiting for memory.
    waiting: f64,
}

/// Draws the run times relative to the first.
pub fn draw(format: Format, program: &str, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let bars: Vec<Bar> = rows
        .iter()
        .map(|r| {
            let sample = normalised(rows, r).and_then(|v| Sample::of(&v));
            let stalled = r.mean(|r| Figures::of(&r.report).stalled());
            Bar {
                variant: r.variant.clone(),
                time: match &sample {
                    Some(s) => Ok(s.mean),
                    None => Err(r
                        .flaw()
                        .or_else(|| in_vain(rows, r))
                        .unwrap_or("nothing to compare with")),
                },
                interval: sample.and_then(|s| s.ci95),
                waiting: stalled.unwrap_or(0.0),
            }
        })
        .collect();
    plot::register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = paint(&root, program, &bars);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => plot::png(SIZE, |root| paint(root, program, &bars)),
    };
    drawn.context("cannot draw the plot")
}

/// The next round number above.
fn top(highest: f64) -> f64 {
    let scale = 10f64.powf(highest.max(1e-9).log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let wanted = highest * 1.08 / scale;
    let step = steps.into_iter().find(|s| *s >= wanted).unwrap_or(12.0);
    step * scale
}

fn paint<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    program: &str,
    bars: &[Bar],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let [left, right, ceiling, floor] = EDGES;
    let font = |size: i32| (FONT, size).into_font().color(&INK);
    let at = |h: HPos, v: VPos| font(16).pos(Pos::new(h, v));
    root.fill(&WHITE)?;
    let mut title: String = program.chars().take(TITLE).collect();
    if title.len() < program.len() {
        title.push_str("...");
    }
    let bold = (FONT, 22, FontStyle::Bold).into_font().color(&INK);
    root.draw(&Text::new(format!("Run time of {title}"), (left, 18), bold))?;
    let first = bars
        .first()
        .map_or(String::new(), |b| b.variant.to_string());
    let mut below = format!("{first} is 1; the dark part is waiting for memory");
    if bars.iter().any(|b| b.interval.is_some()) {
        below.push_str("; whiskers: 95 % interval of the mean");
    }
    root.draw(&Text::new(below, (left, 54), font(16)))?;

    let ends = bars.iter().flat_map(|b| {
        let end = b.interval.map(|i| i[1]);
        [b.time.ok(), end].into_iter().flatten()
    });
    let highest = top(ends.fold(0.0, f64::max));
    let y = |v: f64| floor - (v / highest * f64::from(floor - ceiling)).round() as i32;
    for i in 0..=4 {
        let v = highest * f64::from(i) / 4.0;
        let line = [(left, y(v)), (right, y(v))];
        root.draw(&PathElement::new(line, RGBColor(221, 221, 221)))?;
        let label = at(HPos::Right, VPos::Center);
        root.draw(&Text::new(format!("{v:.2}"), (left - 10, y(v)), label))?;
    }
    let step = f64::from(right - left) / bars.len().max(1) as f64;
    for (i, b) in bars.iter().enumerate() {
        let middle = f64::from(left) + step * (i as f64 + 0.5);
        let half = step * BAR / 2.0;
        let (x0, x1) = ((middle - half) as i32, (middle + half) as i32);
        let ink = match &b.variant {
            Variant::Method(TimingMethod::Delay(m)) => colour(*m),
            Variant::Method(TimingMethod::Epoch(_)) => EPOCH,
            Variant::Model(_) => MODEL,
        };
        let value = at(HPos::Center, VPos::Bottom);
        let (text, mut above) = match b.time {
            Err(why) => (format!("unfinished: {why}"), floor),
            Ok(time) => {
                let waits = y(time * b.waiting);
                let pale = ink.mix(PALE).filled();
                root.draw(&Rectangle::new([(x0, y(time)), (x1, waits)], pale))?;
                root.draw(&Rectangle::new([(x0, waits), (x1, floor)], ink.filled()))?;
                (format!("{time:.3}"), y(time))
            }
        };
        if let Some([low, high]) = b.interval {
            let x = middle as i32;
            let (low, high) = (y(low.max(0.0)), y(high));
            let tick = |y: i32| PathElement::new([(x - 8, y), (x + 8, y)], INK);
            root.draw(&PathElement::new([(x, low), (x, high)], INK))?;
            root.draw(&tick(low))?;
            root.draw(&tick(high))?;
            above = above.min(high);
        }
        root.draw(&Text::new(text, (middle as i32, above - 6), value))?;
        let name = at(HPos::Center, VPos::Top);
        root.draw(&Text::new(
            b.variant.to_string(),
            (middle as i32, floor + 12),
            name,
        ))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_memtime::Method;

    #[test]
    fn a_picture_has_a_bar_for_each_method() {
        let bar = |method, time, interval| Bar {
            variant: Variant::Method(TimingMethod::Delay(method)),
            time,
            interval,
            waiting: 0.5,
        };
        let bars = [
            bar(Method::Dram, Ok(1.0), None),
            bar(Method::Fine, Err("timeout"), None),
            bar(Method::Extended, Ok(3.456), Some([3.1, 3.8])),
        ];
        plot::register_fonts();
        let mut text = String::new();
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        paint(&root, "./sort 10", &bars).unwrap();
        drop(root);
        for part in [
            "./sort 10",
            "dram",
            "extended",
            "3.456",
            "1.000",
            "95 % interval",
            "unfinished: timeout",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([top(1.0), top(0.9), top(3.5)], [1.2, 1.0, 4.0]);
        assert!(top(0.0) > 0.0);
    }
}
