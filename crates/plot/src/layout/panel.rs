//! A panel: its headings, its axes, and where its data are.

use super::axes::{self, Head, Horizontal, Label, Range, DROP};
use super::marks;
use super::style::{Styles, RULE};
use super::write::{Writer, LINE};
use crate::scene::{Anchor, Bounds, Paint};
use crate::{Mark, Panel, Place, Point, Scale};

/// Least height of the data, in heights of text.
const DATA: f64 = 9.0;
/// Greatest length of a name that stands upright, in heights of text.
const NAME: f64 = 14.0;
/// Size of a panel's title, as a share of the text's.
const TITLE: f64 = 1.1;
/// Right of the data.
const RIGHT: f64 = 0.8;
/// From a base line to the middle of its letters.
const MIDDLE: f64 = 0.27;
/// Above a bar, before its label.
const ABOVE_BAR: f64 = 0.35;

/// How labels of bars are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// From left to right.
    Flat,
    /// Upwards, where bars are narrow.
    Upright,
    /// Not at all, where bars are narrower than a line of text.
    Nowhere,
}

/// Where everything of a panel is, relative to its corner.
pub struct Plan<'p> {
    panel: &'p Panel,
    styles: &'p Styles,
    size: (f64, f64),
    /// Of the data.
    data: Bounds,
    y: Range,
    ticks: Vec<Label>,
    x: Horizontal,
    /// Of bars, and of those that are missing.
    labels: [Labels; 2],
    /// Its names.
    names: Vec<String>,
    /// Whether there is anything to draw.
    drawn: bool,
}

impl<'p> Plan<'p> {
    /// For a width and a height.
    pub fn new(
        w: &Writer<'_>,
        panel: &'p Panel,
        styles: &'p Styles,
        (width, height): (f64, f64),
    ) -> Plan<'p> {
        let em = w.em;
        let names = panel.names();
        let values = panel.points().flat_map(|p| p.values());
        let values = values.chain(panel.rules.iter().map(|r| r.y));
        let values = values.chain(marks::sums(panel)).chain(panel.y.to);
        let found = axes::ends(values);
        let drawn = panel.points().next().is_some();
        let (least, most) = found.unwrap_or((1.0, 1.0));
        let top = heading(w, panel, width);
        let titles = LINE * em * w.wrap(&panel.x.label(), width, em, false).len() as f64;
        let mut left = 0.0;
        let slots = marks::Slots::of(panel);
        loop {
            let across = (width - left - RIGHT * em).max(4.0 * em);
            let beyond = (left, RIGHT * em);
            let x = axes::horizontal(w, panel, across, beyond, NAME * em);
            let bottom = x.height + titles + 0.3 * em;
            let down = (height - top - bottom).max(DATA * em);
            let slot = across / names.len().max(1) as f64;
            let labels = [false, true].map(|missing| kind(w, panel, missing, slots.width(slot)));
            let heads = heads(w, panel, labels, down);
            let (y, ticks) = axes::vertical(w, panel, (least, most), down, &heads);
            let widest = ticks
                .iter()
                .map(|t| w.length(&t.lines[0]))
                .fold(0.0, f64::max);
            let wanted = widest + 0.6 * em;
            if wanted > left + 0.01 {
                left = wanted;
                continue;
            }
            let data = Bounds {
                left,
                right: left + across,
                top,
                bottom: top + down,
            };
            let size = (width, top + down + bottom);
            return Plan {
                panel,
                styles,
                size,
                data,
                y,
                ticks,
                x,
                labels,
                names,
                drawn,
            };
        }
    }

    /// Its height, which is at least the one that was asked for if that is enough.
    pub fn least(&self) -> f64 {
        self.size.1
    }

    /// Where a value is, on the page.
    pub fn y(&self, v: f64) -> f64 {
        self.data.bottom - self.y.share(v) * self.data.height()
    }

    /// Where bars begin.
    pub fn ground(&self) -> f64 {
        match self.y {
            Range::Linear(a, b) => self.y(0f64.clamp(a, b)),
            Range::Log(..) => self.data.bottom,
        }
    }

    /// Where a place is; that of a name is the middle of its slot.
    pub fn x(&self, at: &Place) -> f64 {
        let share = match at {
            Place::Number(v) => self.x.range.share(*v),
            Place::Name(n) => {
                let i = self.names.iter().position(|o| o == n).unwrap_or(0);
                (i as f64 + 0.5) / self.names.len().max(1) as f64
            }
        };
        self.data.left + share * self.data.width()
    }

    /// Width of a name's slot.
    pub fn slot(&self) -> f64 {
        self.data.width() / self.names.len().max(1) as f64
    }

    /// What it shows.
    pub fn panel(&self) -> &Panel {
        self.panel
    }

    /// What series look like.
    pub fn styles(&self) -> &Styles {
        self.styles
    }

    /// Draws it with its corner at a place.
    pub fn draw(mut self, w: &mut Writer<'_>, (left, top): (f64, f64)) {
        let (width, height) = self.size;
        let mut at = Bounds {
            left,
            right: left + width,
            top,
            bottom: top + height,
        };
        let em = w.em;
        if !self.panel.title.is_empty() {
            at.top = w.paragraph(&self.panel.title, at, TITLE * em, true, Anchor::Start) + 0.2 * em;
        }
        if !self.drawn {
            let why = match self.panel.empty.as_str() {
                "" => "there is nothing to show",
                why => why,
            };
            w.paragraph(why, at, em, false, Anchor::Start);
            return;
        }
        w.paragraph(&self.panel.y.label(), at, em, false, Anchor::Start);
        let d = &mut self.data;
        (d.left, d.right) = (d.left + left, d.right + left);
        (d.top, d.bottom) = (d.top + top, d.bottom + top);
        self.axes(w);
        for r in &self.panel.rules {
            let y = self.y(r.y);
            w.line(
                vec![(self.data.left, y), (self.data.right, y)],
                Paint::Ink,
                1.4,
                RULE,
            );
        }
        marks::draw(&self, w);
        let below = Bounds {
            top: self.data.bottom + self.x.height + 0.2 * em,
            ..at
        };
        w.paragraph(&self.panel.x.label(), below, em, false, Anchor::Middle);
    }

    fn axes(&self, w: &mut Writer<'_>) {
        let (em, d) = (w.em, self.data);
        for t in &self.ticks {
            let y = d.top + t.tick;
            w.line(vec![(d.left, y), (d.right, y)], Paint::Grid, 1.0, &[]);
            let at = (d.left - 0.5 * em, y + MIDDLE * em);
            w.text(&t.lines[0], at, Anchor::End, false);
        }
        let names = self.panel.x.scale == Scale::Names;
        let ground = self.ground();
        w.line(
            vec![(d.left, ground), (d.right, ground)],
            Paint::Ink,
            1.0,
            &[],
        );
        if ground < d.bottom - 0.5 && !names {
            w.line(
                vec![(d.left, d.bottom), (d.right, d.bottom)],
                Paint::Grid,
                1.0,
                &[],
            );
        }
        let first = d.bottom + DROP * em;
        for l in &self.x.labels {
            if !names {
                let x = d.left + l.tick;
                w.line(
                    vec![(x, d.bottom), (x, d.bottom + 0.35 * em)],
                    Paint::Ink,
                    1.0,
                    &[],
                );
            }
            let x = d.left + l.at;
            if self.x.upright {
                w.text(&l.lines[0], (x + MIDDLE * em, first), Anchor::End, true);
                continue;
            }
            for (i, line) in l.lines.iter().enumerate() {
                let base = first + (crate::scene::ABOVE + LINE * i as f64) * em;
                w.text(line, (x, base), Anchor::Middle, false);
            }
        }
        let rows = self
            .x
            .groups
            .iter()
            .map(|g| g.lines.len())
            .max()
            .unwrap_or(0);
        let first = d.bottom + self.x.height - LINE * em * rows as f64;
        for (n, g) in self.x.groups.iter().enumerate() {
            for (i, line) in g.lines.iter().enumerate() {
                let base = first + (crate::scene::ABOVE + LINE * i as f64) * em;
                w.text(line, (d.left + g.at, base), Anchor::Middle, false);
            }
            if n + 1 < self.x.groups.len() {
                let x = d.left + g.tick;
                w.line(
                    vec![(x, d.top), (x, d.bottom + self.x.height)],
                    Paint::Grid,
                    1.0,
                    &[],
                );
            }
        }
    }
}

/// From a panel's corner to its data.
fn heading(w: &Writer<'_>, p: &Panel, width: f64) -> f64 {
    let em = w.em;
    let mut top = 0.0;
    if !p.title.is_empty() {
        let lines = w.wrap(&p.title, width, TITLE * em, true).len() as f64;
        top += lines * LINE * TITLE * em + 0.2 * em;
    }
    let lines = w.wrap(&p.y.label(), width, em, false).len() as f64;
    top + lines * LINE * em + 0.7 * em
}

/// Points of bars with labels.
pub fn labelled(p: &Panel) -> impl Iterator<Item = (&crate::Series, &crate::Point)> {
    let bars = { p.series.iter() }.filter(|s| matches!(s.mark, Mark::Bars | Mark::Stack));
    let all = bars.flat_map(|s| s.points.iter().map(move |p| (s, p)));
    all.filter(|(_, p)| !p.label.is_empty())
}

/// How the labels of bars can be written, or of those that are missing, which are longer; each bar has so much room.
fn kind(w: &Writer<'_>, p: &Panel, missing: bool, room: f64) -> Labels {
    let longest = labelled(p)
        .filter(|l| l.1.y.is_none() == missing)
        .map(|l| w.length(&l.1.label))
        .fold(0.0, f64::max);
    match longest + 0.3 * w.em {
        l if l <= room => Labels::Flat,
        _ if 1.1 * w.em <= room => Labels::Upright,
        _ => Labels::Nowhere,
    }
}

/// The room that labels need above their bars, in a panel of a height.
fn heads(w: &Writer<'_>, p: &Panel, kinds: [Labels; 2], height: f64) -> Vec<Head> {
    let em = w.em;
    let room = |point: &Point| match kinds[usize::from(point.y.is_none())] {
        Labels::Flat => 1.4 * em,
        Labels::Upright => w.length(&cut(w, &point.label, height)) + 2.0 * ABOVE_BAR * em,
        Labels::Nowhere => 0.0,
    };
    labelled(p)
        .map(|(s, point)| Head {
            // Labels of negative bars are above zero.
            value: match p.y.scale {
                Scale::Log => marks::top(p, s, point).unwrap_or(0.0),
                _ => marks::top(p, s, point).unwrap_or(0.0).max(0.0),
            },
            room: room(point),
        })
        .collect()
}

/// A label that is at most half as long as the data are high.
pub fn cut(w: &Writer<'_>, label: &str, height: f64) -> String {
    w.cut(label, 0.5 * height)
}

/// Draws the label of a bar above its top, unless it would lie on one of those `before`.
pub fn label(
    plan: &Plan<'_>,
    w: &mut Writer<'_>,
    point: &Point,
    (x, y): (f64, f64),
    before: &mut Vec<Bounds>,
) {
    let em = w.em;
    let base = y - ABOVE_BAR * em;
    let cut = cut(w, &point.label, plan.data.height());
    let (text, at, anchor, upright) = match plan.labels[usize::from(point.y.is_none())] {
        Labels::Flat => (&point.label, (x, base), Anchor::Middle, false),
        Labels::Upright => (&cut, (x + MIDDLE * em, base), Anchor::Start, true),
        Labels::Nowhere => return,
    };
    let place = w.bounds(text, at, anchor, upright);
    if before.iter().all(|b| !b.overlaps(&place)) {
        before.push(place);
        w.text(text, at, anchor, upright);
    }
}
