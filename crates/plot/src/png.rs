//! Scenes as pixels.

use crate::scene::{Anchor, Paint, Scene, Shape, Text};
use crate::{Error, Look};
use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint as Ink, Path, PathBuilder, Pixmap, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::OutlineBuilder;

/// Pixels of a picture for one of its scene: pictures are to be printed.
const SCALE: f32 = 2.0;
/// Most pixels along an edge.
const MOST: u32 = 20_000;

/// Outlines of letters as a path.
struct Letters(PathBuilder);

impl OutlineBuilder for Letters {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}

fn ink(p: Paint, opacity: f64) -> Ink<'static> {
    let [r, g, b] = p.rgb();
    let mut ink = Ink::default();
    ink.set_color_rgba8(r, g, b, (opacity * 255.0).round() as u8);
    ink
}

fn path(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        match i {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// A PNG file.
pub fn write(scene: &Scene, look: &Look) -> Result<Vec<u8>, Error> {
    let pixels = |v: f64| (v * f64::from(SCALE)).ceil() as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    let map = (width <= MOST && height <= MOST).then(|| Pixmap::new(width, height));
    let mut map = map.flatten().ok_or(Error::Size(width, height))?;
    let [r, g, b] = Paint::Ground.rgb();
    map.fill(tiny_skia::Color::from_rgba8(r, g, b, 255));
    let faces = look.font.faces()?;
    let all = Transform::from_scale(SCALE, SCALE);
    for s in &scene.shapes {
        match s {
            Shape::Path {
                points,
                closed,
                fill,
                stroke,
                dash,
                opacity,
            } => {
                // What has no extent is not drawn.
                let Some(path) = path(points, *closed) else {
                    continue;
                };
                if let Some(fill) = fill {
                    map.fill_path(&path, &ink(*fill, *opacity), FillRule::Winding, all, None);
                }
                if let Some((paint, width)) = stroke {
                    let dash: Vec<f32> = dash.iter().map(|d| *d as f32).collect();
                    let stroke = Stroke {
                        width: *width as f32,
                        line_cap: LineCap::Butt,
                        line_join: LineJoin::Round,
                        dash: StrokeDash::new(dash, 0.0),
                        ..Stroke::default()
                    };
                    map.stroke_path(&path, &ink(*paint, *opacity), &stroke, all, None);
                }
            }
            Shape::Text(t) => {
                let mut letters = Letters(PathBuilder::new());
                faces.outline(&t.text, t.size, t.bold, &mut letters);
                let Some(path) = letters.0.finish() else {
                    continue;
                };
                map.fill_path(
                    &path,
                    &ink(Paint::Ink, 1.0),
                    FillRule::Winding,
                    place(t),
                    None,
                );
            }
        }
    }
    map.encode_png().map_err(|e| Error::Write(e.to_string()))
}

/// From the begin of a text to its place.
fn place(t: &Text) -> Transform {
    let begin = match t.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -t.length / 2.0,
        Anchor::End => -t.length,
    };
    let turned = if t.upright {
        Transform::from_rotate(-90.0)
    } else {
        Transform::identity()
    };
    turned
        .pre_translate(begin as f32, 0.0)
        .post_translate(t.at.0 as f32, t.at.1 as f32)
        .post_scale(SCALE, SCALE)
}
