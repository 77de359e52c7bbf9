//! The I/O table beside its model.

use crate::error::Error;
use nagori_iomap::{Access, Answer, Entry, Kind, Replacement, Rights, Table};
use std::io::BufRead;

/// What has been compared.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Tables.
    pub runs: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that hit.
    pub hits: u64,
    /// Lookups that missed.
    pub misses: u64,
    /// Lookups without the right.
    pub denied: u64,
    /// Writes of entries.
    pub writes: u64,
    /// Writes of entries that were refused.
    pub refused: u64,
}

/// Reads what the testbench of `io_map` wrote, and compares it. Lines: `N kind entries` a new table
/// (C, F, and for small ones L, I, R, S by replacement); `K vm from to size rights` an entry of a
/// constant table; `P place valid vm from to size rights ok` a write; `F vm from to size rights ok
/// place` a fill; `L vm addr write answer to` a lookup; `M count vm addr` the misses; `H place hits
/// denied` the counters of an entry.
pub fn compare(mut input: impl BufRead) -> Result<Compared, Error> {
    let mut all = Compared::default();
    let mut table: Option<Table> = None;
    let mut constant: Vec<Entry> = Vec::new();
    let mut text = String::new();
    let mut line = 0;
    loop {
        text.clear();
        if input.read_line(&mut text)? == 0 {
            return Ok(all);
        }
        line += 1;
        let bad = |why| Error::Line {
            line,
            text: text.trim_end().into(),
            why,
        };
        let mut words = text.split_ascii_whitespace();
        let word = words.next().unwrap_or("");
        if word == "N" {
            let kind = match words.next() {
                Some("C") => Kind::Constant,
                Some("F") => Kind::Full,
                Some("L") => Kind::Small(Replacement::Lru),
                Some("I") => Kind::Small(Replacement::Fifo),
                Some("R") => Kind::Small(Replacement::Random),
                Some("S") => Kind::Small(Replacement::Software),
                _ => return Err(bad("a kind of table")),
            };
            let entries = words.next().and_then(|w| w.parse().ok());
            let entries = entries.ok_or_else(|| bad("a number of entries"))?;
            constant.clear();
            table = None;
            if kind != Kind::Constant {
                table = Some(Table::new(kind, entries).map_err(|_| bad("a possible number"))?);
            }
            all.runs += 1;
            continue;
        }
        let numbers: Result<Vec<u64>, _> = words.map(|w| u64::from_str_radix(w, 16)).collect();
        let n = numbers.map_err(|_| bad("hexadecimal numbers"))?;
        let entry = |n: &[u64]| Entry {
            vm: n[0] as u16,
            from: n[1],
            to: n[2],
            size_log2: n[3] as u32,
            rights: Rights {
                read: n[4] & 1 != 0,
                write: n[4] & 2 != 0,
            },
        };
        if (word, n.len()) == ("K", 5) {
            constant.push(entry(&n));
            table = Some(Table::constant(&constant).map_err(|_| bad("an entry that fits"))?);
            continue;
        }
        let t = table.as_mut().ok_or_else(|| bad("a table begins with N"))?;
        let (hardware, model) = match (word, n.len()) {
            ("P", 8) => {
                let new = (n[1] != 0).then(|| entry(&n[2..]));
                let done = t.write(n[0] as usize, new);
                all.writes += 1;
                all.refused += u64::from(done.is_err());
                (format!("{}", n[7] != 0), format!("{}", done.is_ok()))
            }
            ("F", 7) => {
                let done = t.fill(entry(&n));
                all.writes += 1;
                all.refused += u64::from(done.is_err());
                let place = if n[5] != 0 { Some(n[6] as usize) } else { None };
                (format!("{place:?}"), format!("{:?}", done.ok()))
            }
            ("L", 5) => {
                let access = if n[2] != 0 {
                    Access::Write
                } else {
                    Access::Read
                };
                let model = t.look_up(n[0] as u16, n[1], access);
                all.lookups += 1;
                match model {
                    Answer::Hit(_) => all.hits += 1,
                    Answer::Miss => all.misses += 1,
                    Answer::Denied => all.denied += 1,
                }
                let hardware = match n[3] {
                    0 => Answer::Miss,
                    1 => Answer::Hit(n[4]),
                    _ => Answer::Denied,
                };
                (format!("{hardware:x?}"), format!("{model:x?}"))
            }
            ("M", 3) => {
                let last = t.last_miss().unwrap_or((0, 0));
                let model = (t.misses(), u64::from(last.0), last.1);
                (format!("{:x?}", (n[0], n[1], n[2])), format!("{model:x?}"))
            }
            ("H", 3) => {
                let c = t.counters().get(n[0] as usize);
                let c = c.ok_or_else(|| bad("a place of the table"))?;
                (
                    format!("{:?}", (n[1], n[2])),
                    format!("{:?}", (c.hits, c.denied)),
                )
            }
            _ => return Err(bad("N, K, P, F, L, M or H")),
        };
        if hardware != model {
            return Err(Error::Table {
                line,
                operation: text.trim_end().into(),
                hardware,
                model,
            });
        }
    }
}
