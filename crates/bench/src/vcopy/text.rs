//! The tables of `nagori bench vcopy`.

use super::cells::{Cell, Consumer, Loops, Reader, Size, Stores};
use super::rows::{Row, ACCESSES, MISSES, PHASES};
use nagori_terminal::tables::{row, table, text as lines};
use std::fmt::Write;

/// A published figure, and what of our rows it is about.
struct Published {
    bytes: u16,
    what: &'static str,
    value: f64,
}

/// Takeya et al. (2021), Intel Core i7-6900K: quotients of the figures that they give.
const PUBLISHED: &[Published] = &[
    Published {
        bytes: 64,
        what: "L1 misses, non-temporal / temporal",
        value: 66.9 / 75.3,
    },
    Published {
        bytes: 1024,
        what: "L1 misses, non-temporal / temporal",
        value: 112.0 / 323.7,
    },
    Published {
        bytes: 64,
        what: "L1 miss ratio, non-temporal / temporal",
        value: 8.5 / 9.3,
    },
    Published {
        bytes: 1024,
        what: "L1 miss ratio, non-temporal / temporal",
        value: 9.3 / 15.2,
    },
    Published {
        bytes: 64,
        what: "throughput, two loops / one (non-temporal)",
        value: 42.5 / 45.3,
    },
    Published {
        bytes: 1024,
        what: "throughput, two loops / one (non-temporal)",
        value: 9.2 / 9.1,
    },
];

fn real(v: Option<f64>, digits: usize) -> String {
    v.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"))
}

fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?).filter(|q| q.is_finite())
}

/// Share of accesses that miss, in percent.
fn miss_ratio(r: &Row) -> Option<f64> {
    let of = |name: &str| r.counts.get(name).map(|n| *n as f64);
    quotient(of(MISSES).map(|n| 100.0 * n), of(ACCESSES))
}

/// What separates one table from another.
fn place(r: &Row) -> String {
    let model = r
        .memory_model
        .as_ref()
        .map_or(String::new(), |m| format!(" ({m})"));
    format!("{}{model}", r.cell.memory.name())
}

/// The row of a cell in the same memory as another row.
fn find<'a>(rows: &'a [Row], like: &Row, cell: Cell) -> Option<&'a Row> {
    rows.iter()
        .find(|r| r.cell == cell && r.memory_model == like.memory_model)
}

fn is_base(c: &Cell) -> bool {
    c.queue == Stores::Temporal && c.consumer == Consumer::Concurrent && !c.phases
}

/// All tables for people.
pub fn text(machine: &str, rows: &[Row]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Copies into a virtqueue's buffers on {machine}, temporal (t) and non-temporal (nt) \
        stores\n"
    );
    copies(&mut out, rows);
    loops(&mut out, rows);
    others(&mut out, rows);
    phases(&mut out, rows);
    published(&mut out, rows);
    out
}

/// Temporal against non-temporal, for everything else equal.
fn copies(out: &mut String, rows: &[Row]) {
    let mut t = table([
        "buffers",
        "ring",
        "reader",
        "batch",
        "bytes",
        "L1 misses/packet t",
        "nt",
        "nt/t",
        "miss % t",
        "nt",
        "Mpps t",
        "nt",
        "nt/t",
    ]);
    let mut any = false;
    for r in rows
        .iter()
        .filter(|r| is_base(&r.cell) && r.cell.loops == Loops::One)
    {
        if r.cell.copy != Stores::Temporal {
            continue;
        }
        let nt = Cell {
            copy: Stores::Nontemporal,
            ..r.cell
        };
        let Some(n) = find(rows, r, nt) else { continue };
        any = true;
        let misses = |r: &Row| r.per_packet(MISSES);
        row(
            &mut t,
            [
                place(r),
                r.cell.ring.name(),
                r.cell.reader.name(),
                r.cell.batch.to_string(),
                r.cell.packet_bytes.name(),
                real(misses(r), 2),
                real(misses(n), 2),
                real(quotient(misses(n), misses(r)), 3),
                real(miss_ratio(r), 1),
                real(miss_ratio(n), 1),
                real(Some(r.throughput_mpps), 3),
                real(Some(n.throughput_mpps), 3),
                real(
                    quotient(Some(n.throughput_mpps), Some(r.throughput_mpps)),
                    3,
                ),
            ],
        );
    }
    if any {
        let _ = writeln!(out, "{}", lines(&t));
    }
}

/// Two loops against one.
fn loops(out: &mut String, rows: &[Row]) {
    let mut t = table([
        "buffers",
        "ring",
        "reader",
        "copy",
        "bytes",
        "Mpps one loop",
        "two",
        "two/one",
    ]);
    let mut any = false;
    for r in rows
        .iter()
        .filter(|r| is_base(&r.cell) && r.cell.loops == Loops::One)
    {
        let Some(two) = find(
            rows,
            r,
            Cell {
                loops: Loops::Two,
                ..r.cell
            },
        ) else {
            continue;
        };
        any = true;
        row(
            &mut t,
            [
                place(r),
                r.cell.ring.name(),
                r.cell.reader.name(),
                r.cell.copy.name(),
                r.cell.packet_bytes.name(),
                real(Some(r.throughput_mpps), 3),
                real(Some(two.throughput_mpps), 3),
                real(
                    quotient(Some(two.throughput_mpps), Some(r.throughput_mpps)),
                    3,
                ),
            ],
        );
    }
    if any {
        let _ = writeln!(out, "{}", lines(&t));
    }
}

/// A consumer after the batch, and non-temporal entries, against the same without.
fn others(out: &mut String, rows: &[Row]) {
    let mut t = table([
        "consumer",
        "entries",
        "ring",
        "reader",
        "copy",
        "loops",
        "bytes",
        "L1 misses/packet",
        "Mpps",
        "of the base",
    ]);
    let mut any = false;
    for r in rows.iter().filter(|r| !is_base(&r.cell) && !r.cell.phases) {
        let base = Cell {
            consumer: Consumer::Concurrent,
            queue: Stores::Temporal,
            ..r.cell
        };
        let base = find(rows, r, base);
        any = true;
        row(
            &mut t,
            [
                r.cell.consumer.name(),
                r.cell.queue.name(),
                r.cell.ring.name(),
                r.cell.reader.name(),
                r.cell.copy.name(),
                r.cell.loops.name(),
                r.cell.packet_bytes.name(),
                real(r.per_packet(MISSES), 2),
                real(Some(r.throughput_mpps), 3),
                real(
                    quotient(Some(r.throughput_mpps), base.map(|b| b.throughput_mpps)),
                    3,
                ),
            ],
        );
    }
    if any {
        let _ = writeln!(out, "{}", lines(&t));
    }
}

/// Where the producer's cycles go.
fn phases(out: &mut String, rows: &[Row]) {
    let head = ["buffers", "ring", "reader", "copy", "bytes"]
        .into_iter()
        .chain(PHASES);
    let mut t = table(head.chain(["cycles/packet"]));
    let mut any = false;
    for r in rows {
        let Some(of) = &r.phase_cycles_per_packet else {
            continue;
        };
        any = true;
        let named = [
            place(r),
            r.cell.ring.name(),
            r.cell.reader.name(),
            r.cell.copy.name(),
            r.cell.packet_bytes.name(),
        ];
        let cycles = PHASES.iter().map(|p| real(of.get(p).copied(), 1));
        let sum = [real(Some(r.cycles_per_packet), 1)];
        row(&mut t, named.into_iter().chain(cycles).chain(sum));
    }
    if any {
        let _ = writeln!(
            out,
            "The producer's cycles for a packet, by phase (with the cost of measuring them)\n{}",
            lines(&t)
        );
    }
}

/// What the published figures are about, from our rows: the base ring, a consumer that reads the queue.
fn ours(rows: &[Row], p: &Published, batch: u16) -> Option<f64> {
    let cell = |copy, loops| {
        let wanted = Cell {
            packet_bytes: Size::Bytes(p.bytes),
            copy,
            loops,
            reader: Reader::Queue,
            batch,
            ..Cell::BASE
        };
        rows.iter().find(|r| r.cell == wanted)
    };
    let (t, n) = (
        cell(Stores::Temporal, Loops::One),
        cell(Stores::Nontemporal, Loops::One),
    );
    match p.what.split(',').next()? {
        "L1 misses" => quotient(n?.per_packet(MISSES), t?.per_packet(MISSES)),
        "L1 miss ratio" => quotient(miss_ratio(n?), miss_ratio(t?)),
        _ => {
            let two = cell(Stores::Nontemporal, Loops::Two)?;
            quotient(Some(two.throughput_mpps), Some(n?.throughput_mpps))
        }
    }
}

fn published(out: &mut String, rows: &[Row]) {
    // Their batches are not given.
    let batches = [1, Cell::BASE.batch];
    let mut t = table([
        "published (Core i7-6900K)",
        "bytes",
        "theirs",
        "here, batch of 1",
        "here, batch of 32",
    ]);
    let mut any = false;
    for p in PUBLISHED {
        let [one, many] = batches.map(|b| ours(rows, p, b));
        any |= one.is_some() || many.is_some();
        row(
            &mut t,
            [
                p.what.into(),
                p.bytes.to_string(),
                format!("{:.3}", p.value),
                real(one, 3),
                real(many, 3),
            ],
        );
    }
    if any {
        let _ = writeln!(out, "{}", lines(&t));
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Side;
    use super::*;
    use std::collections::BTreeMap;

    fn measured(cell: Cell, cycles: u64, misses: u64) -> Row {
        let counts = BTreeMap::from([(MISSES.to_string(), misses), (ACCESSES.to_string(), 1000)]);
        let side = |counts| Side {
            cycles,
            told: 0,
            phases: [1, 2, 3, 4, 5],
            counts,
        };
        let both = [
            side(counts),
            side(BTreeMap::from([
                (MISSES.to_string(), 0),
                (ACCESSES.to_string(), 0),
            ])),
        ];
        Row::new(cell, 320, &[both], 1e9)
    }

    #[test]
    fn quotients_are_those_of_the_right_cells() {
        let nt = Cell {
            copy: Stores::Nontemporal,
            ..Cell::BASE
        };
        let rows = [
            measured(Cell::BASE, 320_000, 640),
            measured(nt, 160_000, 320),
            measured(
                Cell {
                    loops: Loops::Two,
                    ..nt
                },
                200_000,
                320,
            ),
            measured(Cell { phases: true, ..nt }, 200_000, 320),
            measured(
                Cell {
                    consumer: Consumer::After,
                    ..nt
                },
                80_000,
                320,
            ),
        ];
        let text = text("m", &rows);
        let line = |word: &str| {
            text.lines()
                .find(|l| l.contains(word))
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            line("dram")[5..],
            ["2.00", "1.00", "0.500", "64.0", "32.0", "1.000", "2.000", "2.000"]
        );
        assert_eq!(line("after")[7..], ["1.00", "4.000", "2.000"]);
        let two = text
            .lines()
            .find(|l| l.contains("two loops / one"))
            .unwrap();
        assert!(two.ends_with("0.800"), "{two}");
    }
}
