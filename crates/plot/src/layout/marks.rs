//! What is drawn of series.

use super::panel::{label, labelled, Plan};
use super::style::Style;
use super::write::Writer;
use crate::scene::{Bounds, Paint};
use crate::{Mark, Panel, Place, Point, Scale, Series};

/// Share of a name's slot that its bars take.
const USED: f64 = 0.82;
/// Most points of a line that has symbols.
const SYMBOLS: usize = 40;

/// Places of series beside one another within the slot of a name.
pub struct Slots {
    /// Names of series, in their order; stacked ones share a place.
    places: Vec<String>,
}

/// The name of the place of all stacked series.
const STACKED: &str = "\u{0}stack";

fn place(s: &Series) -> &str {
    match (s.mark, s.beside.as_str()) {
        (_, beside) if !beside.is_empty() => beside,
        (Mark::Stack, _) => STACKED,
        _ => &s.name,
    }
}

impl Slots {
    /// Of a panel.
    pub fn of(p: &Panel) -> Slots {
        let mut places: Vec<String> = Vec::new();
        for s in p.series.iter().filter(|s| is_beside(s)) {
            let place = place(s);
            if !places.iter().any(|o| o == place) {
                places.push(place.to_string());
            }
        }
        Slots { places }
    }

    /// Width of a place in a slot.
    pub fn width(&self, slot: f64) -> f64 {
        slot * USED / self.places.len().max(1) as f64
    }

    /// Middle of a series' place, relative to the middle of a slot.
    fn middle(&self, s: &Series, slot: f64) -> f64 {
        if !is_beside(s) {
            return 0.0;
        }
        let i = self.places.iter().position(|o| o == place(s)).unwrap_or(0);
        let n = self.places.len().max(1) as f64;
        ((i as f64 + 0.5) / n - 0.5) * slot * USED
    }
}

fn is_beside(s: &Series) -> bool {
    matches!(s.mark, Mark::Bars | Mark::Stack | Mark::Points)
}

/// The value at which a stacked point begins.
fn below(p: &Panel, s: &Series, at: &Place) -> f64 {
    let before = p.series.iter().take_while(|o| !std::ptr::eq(*o, s));
    let stacked = before.filter(|o| o.mark == Mark::Stack);
    let at = stacked.flat_map(|o| o.points.iter().filter(|q| q.x == *at));
    at.filter_map(|q| q.y).sum()
}

/// The value above which the label of a point is.
pub fn top(p: &Panel, s: &Series, point: &Point) -> Option<f64> {
    let y = match s.mark {
        Mark::Stack => point.y? + below(p, s, &point.x),
        _ => point.y?,
    };
    Some(point.high.map_or(y, |h| y.max(h)))
}

/// Tops of stacked bars.
pub fn sums(p: &Panel) -> impl Iterator<Item = f64> + '_ {
    let stacked = p.series.iter().filter(|s| s.mark == Mark::Stack);
    stacked.flat_map(move |s| s.points.iter().filter_map(move |q| top(p, s, q)))
}

/// Draws all series, then the labels of bars.
pub fn draw(plan: &Plan<'_>, w: &mut Writer<'_>) {
    let p = plan.panel();
    let slots = Slots::of(p);
    let slot = plan.slot();
    let x = |s: &Series, point: &Point| {
        let shift = match p.x.scale {
            Scale::Names => slots.middle(s, slot),
            _ => 0.0,
        };
        plan.x(&point.x) + shift
    };
    let width = slots.width(slot);
    for s in &p.series {
        let style = plan.styles().find(s);
        match s.mark {
            Mark::Bars | Mark::Stack => {
                for point in &s.points {
                    bar(plan, w, (s, point), (x(s, point), width), style);
                }
            }
            Mark::Line => line(plan, w, s, style),
            Mark::Steps => steps(plan, w, s, style),
            Mark::Points => {
                let radius = if s.points.len() > SYMBOLS { 0.22 } else { 0.3 } * w.em;
                for point in &s.points {
                    let at = x(s, point);
                    interval(plan, w, point, at, 0.7 * w.em);
                    if let Some(y) = point.y {
                        style.symbol(w, (at, plan.y(y)), radius);
                    }
                }
            }
        }
    }
    let mut before = Vec::new();
    for (s, point) in labelled(p) {
        let y = top(p, s, point).map_or(plan.ground(), |v| plan.y(v));
        let at = (x(s, point), y.min(plan.ground()));
        label(plan, w, point, at, &mut before);
    }
}

fn bar(
    plan: &Plan<'_>,
    w: &mut Writer<'_>,
    (s, point): (&Series, &Point),
    (x, width): (f64, f64),
    style: &Style,
) {
    if let Some(y) = point.y {
        let (from, to) = match s.mark {
            Mark::Stack => {
                let below = below(plan.panel(), s, &point.x);
                (plan.y(below), plan.y(below + y))
            }
            _ => (plan.ground(), plan.y(y)),
        };
        let half = 0.46 * width.min(6.0 * w.em);
        let bar = Bounds {
            left: x - half,
            right: x + half,
            top: from.min(to),
            bottom: from.max(to),
        };
        w.rectangle(bar, style.paint);
    }
    interval(plan, w, point, x, (0.5 * width).min(0.8 * w.em));
}

/// A whisker.
fn interval(plan: &Plan<'_>, w: &mut Writer<'_>, point: &Point, x: f64, width: f64) {
    let (Some(low), Some(high)) = (point.low, point.high) else {
        return;
    };
    let (low, high) = (plan.y(low), plan.y(high));
    w.line(vec![(x, low), (x, high)], Paint::Ink, 1.3, &[]);
    for y in [low, high] {
        let ends = vec![(x - width / 2.0, y), (x + width / 2.0, y)];
        w.line(ends, Paint::Ink, 1.3, &[]);
    }
}

/// Points with values, in the order of the axis.
fn ordered(plan: &Plan<'_>, s: &Series) -> Vec<(f64, f64)> {
    let with = |p: &Point| Some((plan.x(&p.x), plan.y(p.y?)));
    let mut points: Vec<(f64, f64)> = s.points.iter().filter_map(with).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn line(plan: &Plan<'_>, w: &mut Writer<'_>, s: &Series, style: &Style) {
    for point in &s.points {
        interval(plan, w, point, plan.x(&point.x), 0.7 * w.em);
    }
    let points = ordered(plan, s);
    if points.len() > 1 {
        w.line(points.clone(), style.paint, 2.0, style.dash);
    }
    if points.len() <= SYMBOLS {
        for at in points {
            style.symbol(w, at, 0.28 * w.em);
        }
    }
}

fn steps(plan: &Plan<'_>, w: &mut Writer<'_>, s: &Series, style: &Style) {
    let mut path: Vec<(f64, f64)> = Vec::new();
    for (x, y) in ordered(plan, s) {
        if let Some(last) = path.last().copied() {
            path.push((x, last.1));
        }
        path.push((x, y));
    }
    w.line(path, style.paint, 1.8, style.dash);
}
