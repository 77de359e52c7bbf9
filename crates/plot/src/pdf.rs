//! Scenes as PDF, with the letters that they use.

use crate::font::Faces;
use crate::scene::{Anchor, Paint, Scene, Shape, Text};
use crate::{Error, Look};
use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{CidFontType, FontFlags, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use std::collections::BTreeMap;
use subsetter::GlyphRemapper;

/// Points of a page for a pixel of the scene.
const POINTS: f32 = 0.75;
/// Level of compression.
const LEVEL: u8 = 6;
const SYSTEM: SystemInfo = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// The letters of one font that are used.
struct Used {
    name: &'static [u8],
    /// First of the five objects that describe it.
    first: i32,
    bold: bool,
    glyphs: GlyphRemapper,
    /// By the new number: the character, and the width in thousandths.
    letters: BTreeMap<u16, (char, f32)>,
}

impl Used {
    fn new(name: &'static [u8], first: i32, bold: bool) -> Used {
        Used {
            name,
            first,
            bold,
            glyphs: GlyphRemapper::new(),
            letters: BTreeMap::new(),
        }
    }

    /// A text in the numbers of its letters.
    fn encode(&mut self, faces: &Faces<'_>, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for (c, glyph, width) in faces.glyphs(text, self.bold) {
            let new = self.glyphs.remap(glyph.0);
            self.letters.insert(new, (c, (width * 1000.0) as f32));
            out.extend(new.to_be_bytes());
        }
        out
    }
}

/// A PDF file of one page.
pub fn write(scene: &Scene, look: &Look) -> Result<Vec<u8>, Error> {
    let faces = look.font.faces()?;
    let mut fonts = [Used::new(b"R", 10, false), Used::new(b"B", 20, true)];
    let mut content = Content::new();
    let size = (scene.width as f32 * POINTS, scene.height as f32 * POINTS);
    // From pixels, counted downwards, to points, counted upwards.
    content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, size.1]);
    content.set_line_join(LineJoinStyle::RoundJoin);
    for s in &scene.shapes {
        match s {
            Shape::Path { .. } => path(&mut content, s),
            Shape::Text(t) => {
                let font = &mut fonts[usize::from(t.bold)];
                let code = font.encode(&faces, &t.text);
                text(&mut content, t, font.name, &code);
            }
        }
    }
    let [catalog, pages, page, stream, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut p = pdf.page(page);
    p.parent(pages);
    p.media_box(Rect::new(0.0, 0.0, size.0, size.1));
    p.contents(stream);
    let mut resources = p.resources();
    let mut names = resources.fonts();
    for f in fonts.iter().filter(|f| !f.letters.is_empty()) {
        names.pair(Name(f.name), Ref::new(f.first));
    }
    names.finish();
    resources.finish();
    p.finish();
    let bytes = compress_to_vec_zlib(&content.finish(), LEVEL);
    pdf.stream(stream, &bytes).filter(Filter::FlateDecode);
    let mut about = pdf.document_info(info);
    about.title(TextStr(&scene.title));
    about.producer(TextStr("nagori"));
    about.finish();
    for f in fonts.iter().filter(|f| !f.letters.is_empty()) {
        embed(&mut pdf, look, &faces, f)?;
    }
    Ok(pdf.finish())
}

fn colour(p: Paint) -> [f32; 3] {
    p.rgb().map(|c| f32::from(c) / 255.0)
}

fn path(content: &mut Content, shape: &Shape) {
    let Shape::Path {
        points,
        closed,
        fill,
        stroke,
        dash,
        ..
    } = shape
    else {
        return;
    };
    if points.is_empty() {
        return;
    }
    if let Some(fill) = fill {
        let [r, g, b] = colour(*fill);
        content.set_fill_rgb(r, g, b);
    }
    if let Some((paint, width)) = stroke {
        let [r, g, b] = colour(*paint);
        content.set_stroke_rgb(r, g, b);
        content.set_line_width(*width as f32);
        content.set_dash_pattern(dash.iter().map(|d| *d as f32), 0.0);
    }
    for (i, (x, y)) in points.iter().enumerate() {
        match i {
            0 => content.move_to(*x as f32, *y as f32),
            _ => content.line_to(*x as f32, *y as f32),
        };
    }
    if *closed {
        content.close_path();
    }
    match (fill, stroke) {
        (Some(_), Some(_)) => content.fill_nonzero_and_stroke(),
        (Some(_), None) => content.fill_nonzero(),
        (None, Some(_)) => content.stroke(),
        (None, None) => content.end_path(),
    };
}

fn text(content: &mut Content, t: &Text, font: &[u8], code: &[u8]) {
    let begin = match t.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -t.length / 2.0,
        Anchor::End => -t.length,
    } as f32;
    let (x, y) = (t.at.0 as f32, t.at.1 as f32);
    let [r, g, b] = colour(Paint::Ink);
    content.set_fill_rgb(r, g, b);
    content.begin_text();
    content.set_font(Name(font), t.size as f32);
    // Letters are the other way up than the page.
    content.set_text_matrix(if t.upright {
        [0.0, -1.0, -1.0, 0.0, x, y - begin]
    } else {
        [1.0, 0.0, 0.0, -1.0, x + begin, y]
    });
    content.show(Str(code));
    content.end_text();
}

/// Writes the letters that are used, and what they mean to those who search or copy text.
fn embed(pdf: &mut Pdf, look: &Look, faces: &Faces<'_>, f: &Used) -> Result<(), Error> {
    let [font, cid, descriptor, file, meaning] = [0, 1, 2, 3, 4].map(|i| Ref::new(f.first + i));
    let face = faces.of(f.bold);
    let letters: String = look
        .font
        .family()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    // Subsets have names that begin with six letters.
    let name = format!("NAGORI+{letters}{}", if f.bold { "-Bold" } else { "" });
    let name = Name(name.as_bytes());
    let outlines = face.tables().cff.is_some();
    pdf.type0_font(font)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(cid)
        .to_unicode(meaning);
    let mut c = pdf.cid_font(cid);
    c.subtype(if outlines {
        CidFontType::Type0
    } else {
        CidFontType::Type2
    });
    c.base_font(name);
    c.system_info(SYSTEM);
    c.font_descriptor(descriptor);
    if !outlines {
        c.cid_to_gid_map_predefined(Name(b"Identity"));
    }
    let mut widths = c.widths();
    for (glyph, (_, width)) in &f.letters {
        widths.consecutive(*glyph, [*width]);
    }
    widths.finish();
    c.finish();
    let thousandth = 1000.0 / f32::from(face.units_per_em());
    let of = |v: i16| f32::from(v) * thousandth;
    let all = face.global_bounding_box();
    let mut d = pdf.font_descriptor(descriptor);
    d.name(name)
        .flags(FontFlags::SYMBOLIC)
        .bbox(Rect::new(
            of(all.x_min),
            of(all.y_min),
            of(all.x_max),
            of(all.y_max),
        ))
        .italic_angle(face.italic_angle())
        .ascent(of(face.ascender()))
        .descent(of(face.descender()))
        .cap_height(face.capital_height().map_or(700.0, of))
        .stem_v(if f.bold { 140.0 } else { 80.0 });
    if outlines {
        d.font_file3(file)
    } else {
        d.font_file2(file)
    };
    d.finish();
    let subset = subsetter::subset(look.font.file(f.bold), 0, &f.glyphs);
    let subset = subset.map_err(|e| Error::Font(format!("{e:?}")))?;
    let bytes = compress_to_vec_zlib(&subset, LEVEL);
    let mut stream = pdf.stream(file, &bytes);
    stream.filter(Filter::FlateDecode);
    if outlines {
        stream.pair(Name(b"Subtype"), Name(b"OpenType"));
    }
    stream.finish();
    let mut map = UnicodeCmap::new(Name(b"Nagori"), SYSTEM);
    for (glyph, (c, _)) in &f.letters {
        map.pair(*glyph, *c);
    }
    pdf.stream(meaning, &map.finish());
    Ok(())
}
