//! Fonts: how long texts are, and what letters look like.

use crate::Error;
use std::borrow::Cow;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// A file that the build script has compressed.
fn unpacked(file: &[u8]) -> Cow<'static, [u8]> {
    let font = miniz_oxide::inflate::decompress_to_vec(file);
    font.expect("the build script has compressed it").into()
}

/// A font with its bold letters.
#[derive(Debug, Clone)]
pub struct Font {
    /// Its name, for files that do not contain it.
    family: String,
    regular: Cow<'static, [u8]>,
    bold: Cow<'static, [u8]>,
}

impl Font {
    /// DejaVu Sans, which is part of the program.
    pub fn embedded() -> Font {
        Font {
            family: "DejaVu Sans".into(),
            regular: unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/regular"))),
            bold: unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/bold"))),
        }
    }

    /// A TrueType or OpenType file; it is used for bold text as well.
    ///
    /// # Errors
    /// If it is none, or does not allow to be embedded.
    pub fn read(file: Vec<u8>) -> Result<Font, Error> {
        let face = Face::parse(&file, 0).map_err(|e| Error::Font(e.to_string()))?;
        let name = face.names().into_iter().find_map(|n| {
            let family = n.name_id == ttf_parser::name_id::FAMILY;
            family.then(|| n.to_string()).flatten()
        });
        let family = name.ok_or_else(|| Error::Font("it has no name".into()))?;
        if face.glyph_index('0').is_none() || face.glyph_index('a').is_none() {
            return Err(Error::Font(format!("{family} has no Latin letters")));
        }
        if face.permissions() == Some(ttf_parser::Permissions::Restricted) {
            let what = format!("{family} does not allow to be embedded in documents");
            return Err(Error::Font(what));
        }
        let file: Cow<'static, [u8]> = Cow::Owned(file);
        Ok(Font {
            family,
            regular: file.clone(),
            bold: file,
        })
    }

    /// Its name.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// The file of its letters.
    pub(crate) fn file(&self, bold: bool) -> &[u8] {
        if bold {
            &self.bold
        } else {
            &self.regular
        }
    }

    /// Its letters, to be measured.
    pub(crate) fn faces(&self) -> Result<Faces<'_>, Error> {
        let face = |bold| Face::parse(self.file(bold), 0).map_err(|e| Error::Font(e.to_string()));
        Ok(Faces {
            regular: face(false)?,
            bold: face(true)?,
        })
    }
}

/// Letters of a font.
pub(crate) struct Faces<'f> {
    regular: Face<'f>,
    bold: Face<'f>,
}

impl<'f> Faces<'f> {
    pub fn of(&self, bold: bool) -> &Face<'f> {
        if bold {
            &self.bold
        } else {
            &self.regular
        }
    }

    /// The glyphs of a text, with their widths as shares of the size. What the font does not have is its sign for that.
    pub fn glyphs<'t>(
        &'t self,
        text: &'t str,
        bold: bool,
    ) -> impl Iterator<Item = (char, GlyphId, f64)> + 't {
        let face = self.of(bold);
        let em = f64::from(face.units_per_em());
        text.chars().map(move |c| {
            let glyph = face.glyph_index(c).unwrap_or(GlyphId(0));
            let width = face.glyph_hor_advance(glyph).unwrap_or(0);
            (c, glyph, f64::from(width) / em)
        })
    }

    /// How long a text is.
    pub fn length(&self, text: &str, size: f64, bold: bool) -> f64 {
        self.glyphs(text, bold).map(|g| g.2).sum::<f64>() * size
    }

    /// Draws the outlines of a text that begins at (0, 0); y points down.
    pub fn outline(&self, text: &str, size: f64, bold: bool, to: &mut dyn OutlineBuilder) {
        let face = self.of(bold);
        let scale = size / f64::from(face.units_per_em());
        let mut x = 0.0;
        for (_, glyph, width) in self.glyphs(text, bold) {
            let mut placed = Placed {
                to,
                x: x as f32,
                scale: scale as f32,
            };
            face.outline_glyph(glyph, &mut placed);
            x += width * size;
        }
    }
}

/// Puts a glyph at its place.
struct Placed<'a> {
    to: &'a mut dyn OutlineBuilder,
    x: f32,
    scale: f32,
}

impl Placed<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Placed<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.to.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.to.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.to.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.to.curve_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.to.close();
    }
}
