//! Texts and lines of a scene that is being made.

use crate::font::Faces;
use crate::scene::{Anchor, Bounds, Paint, Shape, Text, ABOVE};

/// Distance of lines of text, as a share of their size.
pub const LINE: f64 = 1.3;

/// Collects shapes.
pub struct Writer<'f> {
    faces: &'f Faces<'f>,
    /// Height of text.
    pub em: f64,
    /// Those so far.
    pub shapes: Vec<Shape>,
}

impl<'f> Writer<'f> {
    /// Nothing yet.
    pub fn new(faces: &'f Faces<'f>, em: f64) -> Writer<'f> {
        let shapes = Vec::new();
        Writer { faces, em, shapes }
    }

    /// How long a text of the usual size is.
    pub fn length(&self, text: &str) -> f64 {
        self.faces.length(text, self.em, false)
    }

    /// The lines of a text that is at most so wide; words that are wider are broken.
    pub fn wrap(&self, text: &str, width: f64, size: f64, bold: bool) -> Vec<String> {
        let fits = |t: &str| self.faces.length(t, size, bold) <= width;
        let mut lines = Vec::new();
        for paragraph in text.lines() {
            let mut line = String::new();
            for word in paragraph.split(' ').filter(|w| !w.is_empty()) {
                let longer = if line.is_empty() {
                    word.to_string()
                } else {
                    format!("{line} {word}")
                };
                if fits(&longer) {
                    line = longer;
                    continue;
                }
                if !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                }
                for c in word.chars() {
                    line.push(c);
                    if !fits(&line) && line.chars().count() > 1 {
                        line.pop();
                        lines.push(std::mem::replace(&mut line, c.to_string()));
                    }
                }
            }
            lines.push(line);
        }
        lines.retain(|l| !l.is_empty());
        lines
    }

    /// A text, cut off where it would be longer.
    pub fn cut(&self, text: &str, length: f64) -> String {
        if self.length(text) <= length {
            return text.to_string();
        }
        let mut short: String = text.to_string();
        while short.pop().is_some() {
            let shown = format!("{}...", short.trim_end());
            if self.length(&shown) <= length {
                return shown;
            }
        }
        String::new()
    }

    /// A line of text.
    pub fn text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, upright: bool) {
        self.sized(text, at, self.em, (anchor, upright, false));
    }

    /// Where a line of text would be.
    pub fn bounds(&self, text: &str, at: (f64, f64), anchor: Anchor, upright: bool) -> Bounds {
        self.made(text, at, self.em, (anchor, upright, false))
            .bounds()
    }

    fn made(
        &self,
        text: &str,
        at: (f64, f64),
        size: f64,
        (anchor, upright, bold): (Anchor, bool, bool),
    ) -> Text {
        Text {
            text: text.to_string(),
            at,
            size,
            length: self.faces.length(text, size, bold),
            anchor,
            upright,
            bold,
        }
    }

    fn sized(
        &mut self,
        text: &str,
        at: (f64, f64),
        size: f64,
        (anchor, upright, bold): (Anchor, bool, bool),
    ) {
        if !text.is_empty() {
            let text = self.made(text, at, size, (anchor, upright, bold));
            self.shapes.push(Shape::Text(text));
        }
    }

    /// A text in lines between two edges, from a place on; returns where the next one begins.
    pub fn paragraph(
        &mut self,
        text: &str,
        at: Bounds,
        size: f64,
        bold: bool,
        anchor: Anchor,
    ) -> f64 {
        let x = match anchor {
            Anchor::Start => at.left,
            Anchor::Middle => (at.left + at.right) / 2.0,
            Anchor::End => at.right,
        };
        let mut y = at.top;
        for line in self.wrap(text, at.width(), size, bold) {
            self.sized(&line, (x, y + ABOVE * size), size, (anchor, false, bold));
            y += LINE * size;
        }
        y
    }

    /// A line through points.
    pub fn line(
        &mut self,
        points: Vec<(f64, f64)>,
        paint: Paint,
        width: f64,
        dash: &'static [f64],
    ) {
        self.shapes.push(Shape::Path {
            points,
            closed: false,
            fill: None,
            stroke: Some((paint, width)),
            dash,
            opacity: 1.0,
        });
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, b: Bounds, paint: Paint) {
        self.shapes.push(Shape::Path {
            points: vec![
                (b.left, b.top),
                (b.right, b.top),
                (b.right, b.bottom),
                (b.left, b.bottom),
            ],
            closed: true,
            fill: Some(paint),
            stroke: None,
            dash: &[],
            opacity: 1.0,
        });
    }
}
