//! Axes: which values they reach, and which labels have room.

use super::write::{Writer, LINE};
use crate::ticks::{multiples, number, plain, powers, step};
use crate::{Panel, Place, Scale};

/// From values to shares of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Equal differences are equal distances.
    Linear(f64, f64),
    /// Equal ratios are.
    Log(f64, f64),
}

impl Range {
    /// Where a value is: 0 at the begin, 1 at the end.
    pub fn share(self, v: f64) -> f64 {
        match self {
            Range::Linear(a, b) => (v - a) / (b - a),
            Range::Log(a, b) => (v / a).ln() / (b / a).ln(),
        }
    }

    /// Its ends.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Range::Linear(a, b) | Range::Log(a, b) => (a, b),
        }
    }
}

/// A label at a place along the axis, in pixels from its begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Of the value.
    pub tick: f64,
    /// Of the text's middle.
    pub at: f64,
    /// In lines.
    pub lines: Vec<String>,
}

/// Room for a label above a bar, in pixels, and the value above which it is.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The value.
    pub value: f64,
    /// The room.
    pub room: f64,
}

/// Least and greatest of values, if there are any.
pub fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |all, v| match all {
        None => Some((v, v)),
        Some((a, b)) => Some((f64::min(a, v), f64::max(b, v))),
    })
}

/// The vertical axis: its range for a height, and its labels; places are counted from the top.
pub fn vertical(
    w: &Writer<'_>,
    p: &Panel,
    (least, most): (f64, f64),
    height: f64,
    heads: &[Head],
) -> (Range, Vec<Label>) {
    let apart = 1.7 * w.em;
    let range = match p.y.scale {
        Scale::Log => {
            let around = powers(least / 20.0, most * 20.0, &[1.0, 2.0, 5.0]);
            let below = around.iter().rev().find(|t| **t <= least / 1.05);
            let above = around.iter().find(|t| **t >= most * 1.03);
            let from = *below.unwrap_or(&(least / 2.0));
            let mut to = *above.unwrap_or(&(most * 2.0));
            for h in heads.iter().filter(|h| h.value > from) {
                let share = height / (height - h.room).max(height / 4.0);
                to = to.max(from * (h.value / from).powf(share));
            }
            Range::Log(from, to)
        }
        _ => {
            let zero = p.y.zero.unwrap_or(true);
            let (mut low, mut high) = (least, most);
            if zero {
                (low, high) = (low.min(0.0), high.max(0.0));
            }
            if high - low < 1e-12 * high.abs().max(low.abs()).max(1e-290) {
                let more = high.abs().max(1.0);
                high += more;
                low -= if zero { 0.0 } else { more };
            }
            let unit = step(high - low, (height / apart / 1.6).clamp(2.0, 8.0));
            let slack = 1e-9 * unit;
            let from = if low >= 0.0 && zero {
                0.0
            } else {
                ((low + slack) / unit).floor() * unit
            };
            let mut to = ((high - slack) / unit).ceil() * unit;
            for h in heads {
                let share = height / (height - h.room).max(height / 4.0);
                to = to.max(from + (h.value - from) * share);
            }
            Range::Linear(from, to)
        }
    };
    let (from, to) = range.ends();
    let at = |v: f64| (1.0 - range.share(v)) * height;
    let apart_enough = |t: &[f64]| t.windows(2).all(|p| (at(p[0]) - at(p[1])).abs() >= apart);
    let linear = || {
        let unit = step(to - from, (height / apart / 1.6).clamp(2.0, 8.0));
        (multiples(from, to, unit), unit)
    };
    let (ticks, unit) = match range {
        Range::Linear(..) => linear(),
        Range::Log(..) => {
            let sets: [&[f64]; 2] = [&[1.0, 2.0, 5.0], &[1.0]];
            let mut sets: Vec<Vec<f64>> = sets.iter().map(|f| powers(from, to, f)).collect();
            for k in [2, 3, 5, 10, 20] {
                let every = powers(from, to, &[1.0]).into_iter().step_by(k);
                sets.push(every.collect());
            }
            let fits = sets.into_iter().find(|t| t.len() > 1 && apart_enough(t));
            match fits {
                Some(t) => (t, 0.0),
                None => {
                    let mut kept: Vec<f64> = Vec::new();
                    for t in linear().0.into_iter().filter(|t| *t > 0.0) {
                        if kept.last().is_none_or(|k| (at(*k) - at(t)).abs() >= apart) {
                            kept.push(t);
                        }
                    }
                    (kept, 0.0)
                }
            }
        }
    };
    let text = |t: f64| {
        if unit > 0.0 {
            number(t, unit)
        } else {
            plain(t)
        }
    };
    let label = |t: f64| Label {
        tick: at(t),
        at: at(t),
        lines: vec![text(t)],
    };
    (range, ticks.into_iter().map(label).collect())
}

/// The labels of a horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Horizontal {
    /// Of numbers; names have places instead.
    pub range: Range,
    /// One below each value that has room.
    pub labels: Vec<Label>,
    /// They run upwards.
    pub upright: bool,
    /// Below the labels, for several of them.
    pub groups: Vec<Label>,
    /// From the axis to the end of all.
    pub height: f64,
}

/// From the axis to its labels, in heights of text.
pub const DROP: f64 = 0.75;

/// The horizontal axis of a width; labels may go so far beyond its ends.
pub fn horizontal(
    w: &Writer<'_>,
    p: &Panel,
    width: f64,
    beyond: (f64, f64),
    most: f64,
) -> Horizontal {
    match p.x.scale {
        Scale::Names => of_names(w, &p.names(), width, most),
        _ => of_numbers(w, p, width, beyond),
    }
}

fn of_numbers(w: &Writer<'_>, p: &Panel, width: f64, beyond: (f64, f64)) -> Horizontal {
    let mut xs: Vec<f64> = { p.points() }
        .filter_map(|p| match p.x {
            Place::Number(v) => Some(v),
            Place::Name(_) => None,
        })
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (first, last) = (
        xs.first().copied().unwrap_or(1.0),
        xs.last().copied().unwrap_or(1.0),
    );
    let log = p.x.scale == Scale::Log;
    let range = if log {
        let pad = (last / first).powf(0.03).max(1.05);
        Range::Log(first / pad, last * pad)
    } else {
        let zero = p.x.zero.unwrap_or(false);
        let (a, b) = if zero {
            (first.min(0.0), last.max(0.0))
        } else {
            (first, last)
        };
        let pad = if b > a {
            (b - a) * 0.03
        } else {
            b.abs().max(1.0) * 0.5
        };
        let from = if zero && a == 0.0 { 0.0 } else { a - pad };
        Range::Linear(from, b + pad)
    };
    let (from, to) = range.ends();
    let label = |v: f64, text: String| {
        let half = w.length(&text) / 2.0;
        let tick = range.share(v) * width;
        let (low, high) = (half - beyond.0, width + beyond.1 - half);
        Label {
            tick,
            at: tick.min(high).max(low),
            lines: vec![text],
        }
    };
    let half = |l: &Label| w.length(&l.lines[0]) / 2.0;
    let touch = |a: &Label, b: &Label| (a.at - b.at).abs() < half(a) + half(b) + 0.6 * w.em;
    let free = |l: &[Label]| l.windows(2).all(|p| !touch(&p[0], &p[1]));
    let labels = if log {
        // Where something was measured, if that is not everywhere.
        let values = match xs.len() {
            0..=16 => xs,
            _ => [&[1.0, 2.0, 5.0][..], &[1.0][..]]
                .map(|f| powers(from, to, f))
                .into_iter()
                .find(|t| (2..=12).contains(&t.len()))
                .unwrap_or_else(|| vec![first, last]),
        };
        let all: Vec<Label> = values.iter().map(|v| label(*v, plain(*v))).collect();
        let mut kept: Vec<Label> = Vec::new();
        let ends = all.first().into_iter().chain(all.last());
        for l in ends.chain(&all) {
            if kept.iter().all(|k| !touch(k, l)) {
                kept.push(l.clone());
            }
        }
        kept.sort_by(|a, b| a.at.total_cmp(&b.at));
        kept
    } else {
        let with = |count: i32| {
            let unit = step(to - from, f64::from(count));
            let ticks = multiples(from, to, unit);
            let labels = ticks.into_iter().map(|t| label(t, number(t, unit)));
            labels.collect::<Vec<_>>()
        };
        (1..=10)
            .rev()
            .map(with)
            .find(|l| free(l))
            .unwrap_or_default()
    };
    Horizontal {
        range,
        labels,
        upright: false,
        groups: Vec::new(),
        height: (DROP + LINE) * w.em,
    }
}

fn of_names(w: &Writer<'_>, names: &[String], width: f64, most: f64) -> Horizontal {
    let em = w.em;
    let slot = width / names.len().max(1) as f64;
    let middle = |i: usize| slot * (i as f64 + 0.5);
    let joined: Vec<String> = names.iter().map(|n| n.replace('\n', ", ")).collect();
    // Where groups have no room, their names are those of their members, too.
    let parts: Vec<(&str, &str)> = match slot >= 3.0 * em {
        true => { names.iter() }
            .map(|n| n.split_once('\n').unwrap_or((n, "")))
            .collect(),
        false => joined.iter().map(|n| (n.as_str(), "")).collect(),
    };
    let room = slot - 0.6 * em;
    let broken = |t: &str| {
        let whole = t.split(' ').all(|word| w.length(word) <= room);
        whole
            .then(|| w.wrap(t, room, em, false))
            .filter(|l| l.len() <= 3)
    };
    let flat: Option<Vec<Vec<String>>> = parts.iter().map(|p| broken(p.0)).collect();
    let upright = flat.is_none();
    let (lines, mut height) = match flat {
        Some(lines) => {
            let rows = lines.iter().map(Vec::len).max().unwrap_or(1);
            (lines, LINE * em * rows as f64)
        }
        None => {
            let cut: Vec<String> = parts.iter().map(|p| w.cut(p.0, most)).collect();
            let longest = cut.iter().map(|c| w.length(c)).fold(0.0, f64::max);
            (
                cut.into_iter().map(|c| vec![c]).collect(),
                longest + 0.3 * em,
            )
        }
    };
    // Names that are too many are shown now and then.
    let every = if upright {
        ((1.15 * em / slot).ceil() as usize).max(1)
    } else {
        1
    };
    let labels = { lines.into_iter().enumerate() }
        .filter(|(i, _)| i % every == 0)
        .map(|(i, lines)| Label {
            tick: middle(i),
            at: middle(i),
            lines,
        });
    let labels = labels.collect();
    let mut groups: Vec<Label> = Vec::new();
    let mut from = 0;
    let mut rows = 0;
    for i in 1..=parts.len() {
        if i < parts.len() && parts[i].1 == parts[from].1 {
            continue;
        }
        let span = slot * (i - from) as f64 - 0.6 * em;
        let lines = w.wrap(parts[from].1, span, em, false);
        rows = rows.max(lines.len());
        if !lines.is_empty() {
            groups.push(Label {
                tick: slot * i as f64,
                at: slot * (from + i) as f64 / 2.0,
                lines,
            });
        }
        from = i;
    }
    height += LINE * em * rows as f64;
    Horizontal {
        range: Range::Linear(0.0, names.len().max(1) as f64),
        labels,
        upright,
        groups,
        height: DROP * em + height,
    }
}
