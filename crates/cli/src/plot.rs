//! Plots: their files, fonts and colours.

use crate::output::file::{self, Staged};
use crate::output::Messages;
use anyhow::{bail, Context};
use nagori_memtime::Method;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{register_font, FontStyle};
use std::path::Path;
use std::sync::Once;

/// The font of all plots.
pub const FONT: &str = "DejaVu Sans";
/// Colour of lines and text.
pub const INK: RGBColor = RGBColor(34, 34, 34);

/// Colours that colour-blind people can distinguish (Okabe and Ito), in the order in which series take them.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// The colour of a delay method, of the same set.
pub fn colour(m: Method) -> RGBColor {
    match m {
        Method::Dram => RGBColor(153, 153, 153),
        Method::Coarse => RGBColor(86, 180, 233),
        Method::Fine => RGBColor(230, 159, 0),
        Method::Extended => RGBColor(0, 114, 178),
    }
}

/// Format of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Vectors, as text.
    Svg,
    /// Pixels.
    Png,
}

/// The format by the file's name; standard output gets vectors.
fn format(path: &Path) -> anyhow::Result<Format> {
    if file::is_stdout(path) {
        return Ok(Format::Svg);
    }
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => bail!(
            "--plot {}: the name must end in .svg or .png",
            path.display()
        ),
    }
}

/// The file of `--plot`, before there is anything to draw.
pub struct Picture {
    format: Format,
    name: String,
    file: Staged,
}

impl Picture {
    /// Checks that a plot can be written under this name.
    pub fn create(path: &Path) -> anyhow::Result<Picture> {
        Ok(Picture {
            format: format(path)?,
            name: path.display().to_string(),
            file: Staged::create(path).context("--plot")?,
        })
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes what was drawn.
    pub fn finish(self, bytes: &[u8], messages: &Messages) -> anyhow::Result<()> {
        let shown = self.file.is_stdout();
        self.file.put(bytes).context("--plot")?;
        if !shown {
            messages.note(&format!("the plot is {}", self.name));
        }
        Ok(())
    }
}

/// A pixel plot as a file; the library writes such files only by name.
pub fn png(
    size: (u32, u32),
    draw: impl FnOnce(&DrawingArea<BitMapBackend<'_>, Shift>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<u8>> {
    let file = tempfile::Builder::new().suffix(".png").tempfile()?;
    let root = BitMapBackend::new(file.path(), size).into_drawing_area();
    draw(&root)?;
    drop(root);
    Ok(std::fs::read(file.path())?)
}

/// Registers [`FONT`]. The fonts are embedded, so that plots are the same everywhere.
pub fn register_fonts() {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_plots() {
        let of = |name: &str| format(Path::new(name)).ok();
        assert_eq!([of("a.svg"), of("-")], [Some(Format::Svg); 2]);
        assert_eq!(of("a.png"), Some(Format::Png));
        let e = format(Path::new("a.jpg")).unwrap_err().to_string();
        assert!(e.contains(".svg or .png"), "{e}");
        let e = Picture::create(Path::new("/no/such/a.svg")).err().unwrap();
        let e = std::format!("{e:#}");
        assert!(e.contains("no directory /no/such"), "{e}");
    }
}
