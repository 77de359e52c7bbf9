//! From what a chart shows to where everything is.
//!
//! Every text has a place of its own by construction: headings and the legend are lines below one another, the labels
//! of an axis are chosen so that they do not touch, and labels of bars stand upright or are left out where they would.

mod axes;
mod legend;
mod marks;
mod panel;
pub(crate) mod style;
mod write;

use crate::scene::{Anchor, Bounds, Scene};
use crate::{Chart, Error, Look};
use panel::Plan;
use style::Styles;
use write::Writer;

/// Least width of a panel that has another one beside it, in heights of text.
const BESIDE: f64 = 21.0;
/// Default widths of panels: alone, and beside another.
const ALONE: f64 = 54.0;
const EACH: f64 = 43.0;
/// Least width of a picture.
const LEAST: f64 = 16.0;

/// Lays a chart out.
///
/// # Errors
/// If the chart contradicts itself, or the font cannot be read.
pub fn layout(chart: &Chart, look: &Look) -> Result<Scene, Error> {
    chart.check()?;
    let faces = look.font.faces()?;
    let em = look.text;
    let mut w = Writer::new(&faces, em);
    let styles = Styles::of(chart);
    let count = chart.panels.len();
    let wanted = chart.columns.unwrap_or(2).clamp(1, count);
    let own = match wanted {
        1 => ALONE,
        n => EACH * n as f64,
    };
    let width = look.width.unwrap_or(own * em).max(LEAST * em);
    let (margin, gap) = (em, 2.0 * em);
    let inner = width - 2.0 * margin;
    let each = |n: usize| (inner - gap * (n - 1) as f64) / n as f64;
    let fits = |n: &usize| *n == 1 || each(*n) >= BESIDE * em;
    let columns = (1..=wanted).rev().find(fits).unwrap_or(1);
    let across = each(columns);

    let mut y = margin;
    let place = |y| Bounds {
        left: margin,
        right: margin + inner,
        top: y,
        bottom: y,
    };
    if !chart.title.is_empty() {
        y = w.paragraph(&chart.title, place(y), 1.25 * em, true, Anchor::Start) + 0.3 * em;
    }
    if !chart.note.is_empty() {
        y = w.paragraph(&chart.note, place(y), em, false, Anchor::Start) + 0.3 * em;
    }
    y = legend::draw(&mut w, &styles, place(y));

    let rows = count.div_ceil(columns);
    let gaps = gap * (rows - 1) as f64;
    let down = match look.height {
        Some(h) => (h - y - margin - gaps) / rows as f64,
        None => (across * 0.66).clamp(18.0 * em, 27.0 * em),
    };
    for row in chart.panels.chunks(columns) {
        let mut height = down;
        // More height may need longer labels, and these more height.
        loop {
            let least = |p| Plan::new(&w, p, &styles, (across, height)).least();
            let wanted = row.iter().map(least).fold(height, f64::max);
            if wanted < height + 0.1 {
                break;
            }
            height = wanted;
        }
        for (i, panel) in row.iter().enumerate() {
            let plan = Plan::new(&w, panel, &styles, (across, height));
            let left = margin + (across + gap) * i as f64;
            plan.draw(&mut w, (left, y));
        }
        y += height + gap;
    }
    let title = if chart.title.is_empty() {
        &chart.panels[0].title
    } else {
        &chart.title
    };
    Ok(Scene {
        width,
        height: y - gap + margin,
        title: title.clone(),
        shapes: w.shapes,
    })
}
