//! The plot of `nagori bench off2f`: a panel for each method, a line for each format.

use crate::plot::{png, register_fonts, Format, FONT, INK};
use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A point: method, format, KiB of text, milliseconds.
pub type Point = (String, String, f64, f64);

const PANEL: (u32, u32) = (560, 520);
/// Distinguishable by colour-blind people (Okabe and Ito), in the order of the formats.
const COLOURS: [RGBColor; 3] = [
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
];

/// Draws the points, which are in the order of the text's size; there is at least one.
pub fn draw(
    format: Format,
    methods: &[&str],
    formats: &[&str],
    points: &[Point],
) -> anyhow::Result<Vec<u8>> {
    register_fonts();
    let size = (PANEL.0 * methods.len() as u32, PANEL.1);
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
            let drawn = panels(&root, methods, formats, points);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(size, |root| panels(root, methods, formats, points)),
    };
    drawn.context("cannot draw the plot")
}

fn panels<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    methods: &[&str],
    formats: &[&str],
    points: &[Point],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let range = |pick: fn(&Point) -> f64| {
        let (low, high) = points
            .iter()
            .map(pick)
            .fold((f64::MAX, 0.0), |(l, h), v| (v.min(l), v.max(h)));
        low / 1.3..high * 1.3
    };
    let (x, y) = (range(|p| p.2), range(|p| p.3));
    root.fill(&WHITE)?;
    for (area, method) in root.split_evenly((1, methods.len())).iter().zip(methods) {
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .caption(*method, (FONT, 20, FontStyle::Bold).into_font().color(&INK))
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x.clone().log_scale(), y.clone().log_scale())?;
        chart
            .configure_mesh()
            .label_style((FONT, 14).into_font().color(&INK))
            .x_desc("text [KiB]")
            .y_desc("exec to exit [ms]")
            .draw()?;
        for (name, colour) in formats.iter().zip(COLOURS) {
            let line = points.iter().filter(|p| p.0 == *method && p.1 == *name);
            let line: Vec<(f64, f64)> = line.map(|p| (p.2, p.3)).collect();
            chart
                .draw_series(std::iter::once(PathElement::new(
                    line,
                    colour.stroke_width(2),
                )))?
                .label(*name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font((FONT, 14).into_font().color(&INK))
            .background_style(WHITE.mix(0.8))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_and_format_is_drawn() {
        let mut points = Vec::new();
        for method in ["dram", "fine"] {
            for (i, format) in ["elf-disk", "elf-dax", "off2f"].into_iter().enumerate() {
                for kib in [32.0, 8192.0] {
                    points.push((method.into(), format.into(), kib, kib / (i + 1) as f64));
                }
            }
        }
        let methods = ["dram", "fine"];
        let formats = ["elf-disk", "elf-dax", "off2f"];
        let svg = draw(Format::Svg, &methods, &formats, &points).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        for word in ["dram", "fine", "elf-disk", "elf-dax", "off2f", "text [KiB]"] {
            assert!(svg.contains(word), "{word}");
        }
        let png = draw(Format::Png, &methods, &formats, &points).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
}
