//! Charts: one description ([`Chart`]), one layout, and files in several forms.
//!
//! A chart says what is shown, never where. [`layout`] decides about places: no text lies on another, whatever
//! the names and numbers are. The result, a [`Scene`], is written as SVG, PNG or PDF; a chart itself is written as a
//! Vega-Lite document, for those who want to change it.
//!
//! Colours are those of Okabe and Ito, which colour-blind people can tell apart; series differ by their symbols as
//! well. Nothing depends on the host: fonts are embedded, and equal charts give equal bytes.

mod chart;
mod font;
mod layout;
mod pdf;
mod png;
mod scene;
mod svg;
mod ticks;
mod vega;

pub use chart::{Axis, Chart, Mark, Panel, Place, Point, Rule, Scale, Series};
pub use font::Font;
pub use layout::layout;
pub use scene::{Anchor, Bounds, Paint, Scene, Shape, Text, PALETTE};

use std::path::Path;

/// Why a chart cannot be drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chart contradicts itself.
    #[error("{place}: {what}")]
    Chart {
        /// Which panel and series.
        place: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The font is none, or lacks what is needed.
    #[error("the font cannot be used: {0}")]
    Font(String),
    /// The picture is too large to be held in memory.
    #[error("a picture of {0} x {1} pixels is too large")]
    Size(u32, u32),
    /// A library that writes a form of file has failed.
    #[error("cannot write the picture: {0}")]
    Write(String),
}

/// How a chart is to look.
#[derive(Debug, Clone)]
pub struct Look {
    /// Width in pixels; by default what the panels need.
    pub width: Option<f64>,
    /// Height in pixels; by default what the panels need. It grows if texts need more.
    pub height: Option<f64>,
    /// Height of text in pixels.
    pub text: f64,
    /// The font.
    pub font: Font,
    /// SVG takes ink and ground from the page that it is in.
    pub themed: bool,
}

impl Default for Look {
    fn default() -> Look {
        Look {
            width: None,
            height: None,
            text: 14.0,
            font: Font::embedded(),
            themed: false,
        }
    }
}

/// Form of a chart's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Vectors, for pages.
    Svg,
    /// Pixels.
    Png,
    /// Vectors, for papers.
    Pdf,
    /// A Vega-Lite document.
    Vega,
}

impl Format {
    /// By the ending of a file's name.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "svg" => Some(Format::Svg),
            "png" => Some(Format::Png),
            "pdf" => Some(Format::Pdf),
            "json" => Some(Format::Vega),
            _ => None,
        }
    }

    /// The endings that [`Format::of`] knows, for messages.
    pub const ENDINGS: &'static str = ".svg, .png, .pdf or .vl.json";
}

/// A chart as a file.
///
/// # Errors
/// If the chart contradicts itself, or the picture is too large.
pub fn file(chart: &Chart, format: Format, look: &Look) -> Result<Vec<u8>, Error> {
    if format == Format::Vega {
        chart.check()?;
        let text = serde_json::to_string_pretty(&vega::document(chart));
        return Ok(text.map_err(|e| Error::Write(e.to_string()))?.into_bytes());
    }
    let scene = layout(chart, look)?;
    match format {
        Format::Svg => Ok(svg::write(&scene, look).into_bytes()),
        Format::Png => png::write(&scene, look),
        _ => pdf::write(&scene, look),
    }
}

/// A chart as SVG.
///
/// # Errors
/// If the chart contradicts itself.
pub fn svg(chart: &Chart, look: &Look) -> Result<String, Error> {
    Ok(svg::write(&layout(chart, look)?, look))
}

/// A chart as a Vega-Lite document.
pub fn vega_lite(chart: &Chart) -> serde_json::Value {
    vega::document(chart)
}
