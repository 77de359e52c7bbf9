//! Scenes as SVG.

use crate::scene::{Anchor, Paint, Scene, Shape};
use crate::Look;
use std::fmt::Write;

/// A number with a digit after the point, if it needs one.
fn n(v: f64) -> String {
    let text = format!("{v:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

fn colour(p: Paint, themed: bool) -> String {
    match (p, themed) {
        (Paint::Ink, true) => "currentColor".into(),
        (Paint::Grid, true) => "var(--grid)".into(),
        (Paint::Ground, true) => "var(--ground)".into(),
        _ => {
            let [r, g, b] = p.rgb();
            format!("#{r:02x}{g:02x}{b:02x}")
        }
    }
}

fn escape(text: &str) -> String {
    let legal = |c: char| !c.is_control();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace(|c| !legal(c), " ")
}

/// A document.
pub fn write(scene: &Scene, look: &Look) -> String {
    let (w, h) = (n(scene.width), n(scene.height));
    let family = escape(look.font.family());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
         font-family=\"'{family}', Verdana, sans-serif\">\n<title>{}</title>\n",
        escape(&scene.title)
    );
    if !look.themed {
        let ground = colour(Paint::Ground, false);
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<rect width=\"{w}\" height=\"{h}\" fill=\"{ground}\"/>"
        );
    }
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
                out.push_str("<path d=\"");
                for (i, (x, y)) in points.iter().enumerate() {
                    let letter = if i == 0 { 'M' } else { 'L' };
                    let _ = write!(out, "{letter}{} {}", n(*x), n(*y));
                }
                out.push_str(if *closed { "Z\"" } else { "\"" });
                let fill = fill.map_or("none".into(), |f| colour(f, look.themed));
                let _ = write!(out, " fill=\"{fill}\"");
                if let Some((paint, width)) = stroke {
                    let paint = colour(*paint, look.themed);
                    let _ = write!(out, " stroke=\"{paint}\" stroke-width=\"{}\"", n(*width));
                }
                if !dash.is_empty() {
                    let dash: Vec<String> = dash.iter().map(|d| n(*d)).collect();
                    let _ = write!(out, " stroke-dasharray=\"{}\"", dash.join(" "));
                }
                if *opacity < 1.0 {
                    let _ = write!(out, " opacity=\"{opacity}\"");
                }
                out.push_str("/>\n");
            }
            Shape::Text(t) => {
                let (x, y) = (n(t.at.0), n(t.at.1));
                let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"", n(t.size));
                let _ = write!(out, " fill=\"{}\"", colour(Paint::Ink, look.themed));
                match t.anchor {
                    Anchor::Start => {}
                    Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
                    Anchor::End => out.push_str(" text-anchor=\"end\""),
                }
                if t.bold {
                    out.push_str(" font-weight=\"bold\"");
                }
                if t.upright {
                    let _ = write!(out, " transform=\"rotate(-90 {x} {y})\"");
                }
                let _ = writeln!(out, ">{}</text>", escape(&t.text));
            }
        }
    }
    out.push_str("</svg>\n");
    out
}
