//! Panels of lines over a logarithmic axis: what several benchmarks draw.

use crate::plot::{png, register_fonts, Format, FONT, INK};
use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);

/// A line.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: RGBColor,
    /// In pixels.
    pub width: u32,
    /// Whether the legend has it.
    pub named: bool,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one another; a panel without lines stays empty.
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What the vertical axis counts.
    pub y: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Adds a point to the line of a name, which is made if there is none yet.
pub fn add(lines: &mut Vec<Line>, line: Line) {
    match lines.iter_mut().find(|l| l.name == line.name) {
        Some(old) => old.points.extend(line.points),
        None => lines.push(line),
    }
}

/// Draws panels side by side; `x` is what the horizontal axis counts, `legend` where the names are.
pub fn draw(
    format: Format,
    x: &str,
    legend: SeriesLabelPosition,
    panels: &[Panel],
) -> anyhow::Result<Vec<u8>> {
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = side_by_side(&root, x, legend, panels);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| side_by_side(root, x, legend.clone(), panels)),
    };
    drawn.context("cannot draw the plot")
}

fn side_by_side<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    x: &str,
    legend: SeriesLabelPosition,
    panels: &[Panel],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((1, panels.len())).iter().zip(panels) {
        if panel.lines.is_empty() {
            continue;
        }
        let points = || panel.lines.iter().flat_map(|l| &l.points);
        let highest = points().map(|p| p.1).fold(0.0, f64::max);
        // Labels are where something was measured.
        let mut xs: Vec<f64> = points().map(|p| p.0).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (least, most) = match xs[..] {
            [one] => (one, one),
            [least, .., most] => (least, most),
            [] => continue,
        };
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .caption(
                &panel.title,
                (FONT, 20, FontStyle::Bold).into_font().color(&INK),
            )
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(
                (least / 1.1..most * 1.1).log_scale().with_key_points(xs),
                0.0..highest * 1.15 + 1e-9,
            )?;
        chart
            .configure_mesh()
            .label_style((FONT, 14).into_font().color(&INK))
            .x_label_formatter(&|x| x.to_string())
            .x_desc(x)
            .y_desc(panel.y)
            .draw()?;
        for line in &panel.lines {
            let style = line.colour.stroke_width(line.width);
            let path = PathElement::new(line.points.clone(), style);
            let series = chart.draw_series(std::iter::once(path))?;
            if line.named {
                series
                    .label(&line.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
        }
        chart
            .configure_series_labels()
            .position(legend.clone())
            .label_font((FONT, 14).into_font().color(&INK))
            .background_style(WHITE.mix(0.8))
            .draw()?;
    }
    root.present()?;
    Ok(())
}
