//! Files of plots, and how they look.

use crate::output::file::{self, Staged};
use crate::output::Messages;
use anyhow::{bail, Context};
use clap::Args;
use nagori_memtime::Method;
use nagori_plot::{Chart, Font, Format, Look};
use std::path::{Path, PathBuf};

/// Least and greatest edge of a plot, in pixels.
const EDGES: [u32; 2] = [200, 8000];
/// Least and greatest height of its text.
const TEXTS: [f64; 2] = [6.0, 60.0];

/// How a plot looks.
#[derive(Debug, Clone, Default, Args)]
pub struct LookArgs {
    /// Width and height of the plot in pixels (PNG files have twice as many), such as 900x600, or its width
    /// [default: what it needs].
    #[arg(long, value_name = "WIDTH[xHEIGHT]", value_parser = size, help_heading = "Plot")]
    pub plot_size: Option<(u32, Option<u32>)>,
    /// Font of the plot: a TrueType or OpenType file [default: DejaVu Sans].
    #[arg(long, value_name = "FILE", help_heading = "Plot")]
    pub plot_font: Option<PathBuf>,
    /// Height of the plot's text in pixels [default: 14].
    #[arg(long, value_name = "PIXELS", value_parser = text, help_heading = "Plot")]
    pub plot_text: Option<f64>,
}

/// `WIDTH` or `WIDTHxHEIGHT`.
fn size(given: &str) -> Result<(u32, Option<u32>), String> {
    let [least, most] = EDGES;
    let edge = |t: &str| match t.trim().parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("`{t}`: expected {least} to {most} pixels")),
    };
    match given.split_once('x') {
        Some((w, h)) => Ok((edge(w)?, Some(edge(h)?))),
        None => Ok((edge(given)?, None)),
    }
}

fn text(given: &str) -> Result<f64, String> {
    let [least, most] = TEXTS;
    match given.parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("expected {least} to {most} pixels")),
    }
}

impl LookArgs {
    /// The look that is asked for.
    pub fn look(&self) -> anyhow::Result<Look> {
        let mut look = Look::default();
        if let Some((width, height)) = self.plot_size {
            look.width = Some(width.into());
            look.height = height.map(f64::from);
        }
        if let Some(text) = self.plot_text {
            look.text = text;
        }
        if let Some(path) = &self.plot_font {
            let of = || format!("--plot-font {}", path.display());
            let bytes = std::fs::read(path).with_context(of)?;
            look.font = Font::read(bytes).with_context(of)?;
        }
        Ok(look)
    }
}

/// The colour of a delay method, as charts count them.
pub fn colour(m: Method) -> usize {
    match m {
        Method::Dram => 6,
        Method::Coarse => 5,
        Method::Fine => 4,
        Method::Extended => 0,
    }
}

/// The form by the file's name; standard output gets vectors.
pub fn format(path: &Path) -> anyhow::Result<Format> {
    if file::is_stdout(path) {
        return Ok(Format::Svg);
    }
    match Format::of(path) {
        Some(f) => Ok(f),
        None => bail!(
            "{}: the name must end in {}",
            path.display(),
            Format::ENDINGS
        ),
    }
}

/// The file of `--plot`, before there is anything to draw.
pub struct Picture {
    format: Format,
    look: Look,
    name: String,
    file: Staged,
}

impl Picture {
    /// Checks that a plot can be written under this name.
    pub fn create(path: &Path, look: &LookArgs) -> anyhow::Result<Picture> {
        Ok(Picture {
            format: format(path).context("--plot")?,
            look: look.look()?,
            name: path.display().to_string(),
            file: Staged::create(path).context("--plot")?,
        })
    }

    /// The one that an option asks for, if it does.
    pub fn wanted(path: Option<&Path>, look: &LookArgs) -> anyhow::Result<Option<Picture>> {
        if path.is_none()
            && (look.plot_size.is_some() || look.plot_font.is_some() || look.plot_text.is_some())
        {
            bail!("--plot-size, --plot-font and --plot-text are of a plot, but there is no --plot");
        }
        path.map(|p| Picture::create(p, look)).transpose()
    }

    /// Draws a chart into it.
    pub fn draw(self, chart: &Chart, messages: &Messages) -> anyhow::Result<()> {
        let bytes =
            bytes(chart, self.format, &self.look).context("--plot: cannot draw the plot")?;
        let shown = self.file.is_stdout();
        self.file.put(&bytes).context("--plot")?;
        if let (Some(asked), true) = (self.look.height, self.format != Format::Vega) {
            let is = nagori_plot::layout(chart, &self.look)?.height;
            if is > asked + 1.0 {
                messages.note(&format!(
                    "the plot is {is:.0} pixels high: its texts have no room in {asked:.0}"
                ));
            }
        }
        if !shown {
            messages.note(&format!("the plot is {}", self.name));
        }
        Ok(())
    }
}

/// A chart as a file.
pub fn bytes(chart: &Chart, format: Format, look: &Look) -> anyhow::Result<Vec<u8>> {
    Ok(nagori_plot::file(chart, format, look)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_plots() {
        let of = |name: &str| format(Path::new(name)).ok();
        assert_eq!([of("a.svg"), of("-")], [Some(Format::Svg); 2]);
        assert_eq!(of("a.png"), Some(Format::Png));
        assert_eq!(of("a.pdf"), Some(Format::Pdf));
        assert_eq!([of("a.vl.json"), of("a.json")], [Some(Format::Vega); 2]);
        let e = format(Path::new("a.jpg")).unwrap_err().to_string();
        assert!(e.contains(".svg, .png, .pdf or .vl.json"), "{e}");
        let e = Picture::create(Path::new("/no/such/a.svg"), &LookArgs::default())
            .err()
            .unwrap();
        let e = std::format!("{e:#}");
        assert!(e.contains("no directory /no/such"), "{e}");
    }

    #[test]
    fn looks_are_checked() {
        assert_eq!(size("900x600"), Ok((900, Some(600))));
        assert_eq!(size("900"), Ok((900, None)));
        assert!(size("9x9").is_err() && size("900x").is_err() && size("wide").is_err());
        assert!(text("14").is_ok() && text("1").is_err());
        let look = LookArgs {
            plot_text: Some(12.0),
            ..LookArgs::default()
        };
        assert!(Picture::wanted(None, &look).is_err());
    }
}
