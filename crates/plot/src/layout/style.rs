//! What series look like: by their names, alike in all panels.

use super::write::Writer;
use crate::scene::{Paint, Shape, PALETTE};
use crate::{Chart, Mark, Series};
use std::f64::consts::TAU;

/// Dashes of a line that is dashed by its own wish, and of rounds of colours after the first.
pub const DASHED: &[f64] = &[6.0, 4.0];
const ROUNDS: [&[f64]; 4] = [&[], &[2.0, 3.0], &[10.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];
/// Of rules.
pub const RULE: &[f64] = &[3.0, 3.0];

/// The look of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Style {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its colour.
    pub paint: Paint,
    /// Its dashes.
    pub dash: &'static [f64],
    /// Corners of its symbol; 0: round.
    corners: usize,
    /// Its symbol is empty.
    hollow: bool,
}

/// The looks of all series, in the order of the legend.
pub struct Styles {
    /// One for each name.
    pub all: Vec<Style>,
    /// Names of rules.
    pub rules: Vec<String>,
}

impl Styles {
    /// Of a chart.
    pub fn of(chart: &Chart) -> Styles {
        let mut all: Vec<Style> = Vec::new();
        let mut next = 0;
        for s in chart.panels.iter().flat_map(|p| &p.series) {
            if all.iter().any(|o| o.name == s.name) {
                continue;
            }
            let n = s.colour.unwrap_or(next);
            if s.colour.is_none() {
                next += 1;
            }
            let round = (n / PALETTE.len()) % ROUNDS.len();
            all.push(Style {
                name: s.name.clone(),
                mark: s.mark,
                paint: Paint::Palette(n),
                dash: if s.dashed { DASHED } else { ROUNDS[round] },
                corners: [0, 4, 3, 5][(n + round) % 4],
                hollow: s.dashed || round % 2 == 1,
            });
        }
        let mut rules: Vec<String> = Vec::new();
        for r in chart.panels.iter().flat_map(|p| &p.rules) {
            if !rules.contains(&r.name) {
                rules.push(r.name.clone());
            }
        }
        Styles { all, rules }
    }

    /// That of a series.
    pub fn find(&self, s: &Series) -> &Style {
        let found = self.all.iter().find(|o| o.name == s.name);
        found.unwrap_or(&self.all[0])
    }
}

impl Style {
    /// Draws its symbol.
    pub fn symbol(&self, w: &mut Writer<'_>, at: (f64, f64), radius: f64) {
        let (n, turn) = match self.corners {
            0 => (20, 0.0),
            // A diamond, and what stands on a side.
            4 => (4, 0.0),
            n => (n, -TAU / 4.0),
        };
        let size = radius * if self.corners == 0 { 1.0 } else { 1.25 };
        let point = |i: usize| {
            let angle = turn + TAU * i as f64 / n as f64;
            (at.0 + size * angle.cos(), at.1 + size * angle.sin())
        };
        w.shapes.push(Shape::Path {
            points: (0..n).map(point).collect(),
            closed: true,
            fill: Some(if self.hollow {
                Paint::Ground
            } else {
                self.paint
            }),
            // Symbols stay visible on bars of any colour.
            stroke: Some(if self.hollow {
                (self.paint, 1.6)
            } else {
                (Paint::Ground, 0.8)
            }),
            dash: &[],
            opacity: 1.0,
        });
    }
}
