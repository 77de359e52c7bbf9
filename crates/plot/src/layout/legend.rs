//! The legend: entries in lines below the heading, where no data are.

use super::style::{Styles, RULE};
use super::write::{Writer, LINE};
use crate::scene::{Anchor, Bounds, Paint, ABOVE};
use crate::Mark;

/// Width of the sample of a look, in heights of text.
const SAMPLE: f64 = 1.9;
const GAP: f64 = 0.5;
const APART: f64 = 1.4;

/// Draws it from a place on; returns where what follows begins.
pub fn draw(w: &mut Writer<'_>, styles: &Styles, at: Bounds) -> f64 {
    let em = w.em;
    let before = (SAMPLE + GAP) * em;
    let room = at.width() - before;
    let (mut x, mut y) = (at.left, at.top);
    let mut lines_here = 0;
    let named = styles.all.iter().filter(|s| !s.name.is_empty());
    let names: Vec<(Option<_>, &str)> = named
        .map(|s| (Some(s), s.name.as_str()))
        .chain(styles.rules.iter().map(|r| (None, r.as_str())))
        .collect();
    for (style, name) in names {
        let lines = w.wrap(name, room, em, false);
        let width = lines.iter().map(|l| w.length(l)).fold(0.0, f64::max);
        if x > at.left && x + before + width > at.right {
            y += LINE * em * f64::from(lines_here);
            (x, lines_here) = (at.left, 0);
        }
        let middle = y + 0.5 * em;
        let (from, to) = (x, x + SAMPLE * em);
        match style {
            None => w.line(vec![(from, middle), (to, middle)], Paint::Ink, 1.4, RULE),
            Some(s) => {
                if matches!(s.mark, Mark::Bars | Mark::Stack) {
                    let sample = Bounds {
                        left: from + 0.4 * em,
                        right: to,
                        top: middle - 0.42 * em,
                        bottom: middle + 0.42 * em,
                    };
                    w.rectangle(sample, s.paint);
                }
                if matches!(s.mark, Mark::Line | Mark::Steps) {
                    w.line(vec![(from, middle), (to, middle)], s.paint, 2.0, s.dash);
                }
                if matches!(s.mark, Mark::Line | Mark::Points) {
                    s.symbol(w, ((from + to) / 2.0, middle), 0.28 * em);
                }
            }
        }
        for (i, line) in lines.iter().enumerate() {
            let base = y + ABOVE * em + LINE * em * i as f64;
            w.text(line, (x + before, base), Anchor::Start, false);
        }
        lines_here = lines_here.max(lines.len() as u32);
        x += before + width + APART * em;
    }
    if x > at.left {
        y + LINE * em * f64::from(lines_here) + 0.5 * em
    } else {
        y
    }
}
