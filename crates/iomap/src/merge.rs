//! The fewest entries for a list of ports.
//!
//! An entry is an aligned range of a power of two of bytes, so two entries are either disjoint or
//! one holds the other. Ports of one VM with the same distance between the two sides and the same
//! rights can share entries; call them a group. An entry of a group may not hold
//! - a byte that another group of the VM uses, since entries of one VM do not overlap,
//! - a byte of the bus that is kept, that is only listed for other VMs, or that this VM is only
//!   granted with fewer rights,
//! - more bytes that are not listed than the caller permits, unless it is of the smallest size.
//!
//! All that contains a range that is not permitted is not permitted either. So each listed byte has
//! a largest permitted range that holds it; these largest ranges are disjoint, each of them
//! needs at least one entry, and one is enough. That is the fewest number. The entry is the smallest range that
//! holds the listed bytes of the largest one: no other choice of so few entries gives away less.
//! Entries of different groups are disjoint, since one that held another would hold a byte that
//! the other group uses.

use crate::ports::{Port, Ports};
use crate::{Entry, Rights, MIN_SIZE_LOG2};
use std::collections::BTreeMap;
use thiserror::Error as ThisError;

/// Most entries that [`merge`] returns.
pub const MAX_MERGED: usize = 1 << 16;
/// Greatest size of an entry, as a power of two.
const MAX_SIZE_LOG2: u32 = 63;

/// Why ports cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum MergeError {
    /// The smallest entry cannot move them by such a distance.
    #[error(
        "line {line}: {from:#x} and {to:#x} are not as far behind a multiple of 4 as one another, and the \
         smallest entry has 4 aligned bytes"
    )]
    Distance {
        /// Line of the port.
        line: usize,
        /// The VM's address.
        from: u64,
        /// The address on the bus.
        to: u64,
    },
    /// Two lines say different things of the same address.
    #[error("lines {first} and {second}: VM {vm} cannot have {from:#x} in two ways")]
    Twice {
        /// Line of one port.
        first: usize,
        /// Line of the other.
        second: usize,
        /// Number of the VM.
        vm: u16,
        /// An address that both have.
        from: u64,
    },
    /// Bytes that may not be given away are within the same four aligned bytes as a port.
    #[error(
        "VM {vm}, {from:#x}: the smallest entry, 4 bytes, would give away bytes of another port"
    )]
    Inseparable {
        /// Number of the VM.
        vm: u16,
        /// The VM's address of the four bytes.
        from: u64,
    },
    /// A port that is listed for a VM is kept from all.
    #[error("lines {port} and {kept}: the port is kept from all VMs")]
    Kept {
        /// Line of the port.
        port: usize,
        /// Line that keeps it.
        kept: usize,
    },
    /// The distance between the two sides permits only small entries.
    #[error("more than {MAX_MERGED} entries")]
    TooMany,
}

/// An entry, and how much more than listed ports it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merged {
    /// The entry.
    pub entry: Entry,
    /// Bytes of it that are no listed port.
    pub slack: u64,
}

/// Disjoint ranges of addresses in ascending order, as first byte and the byte behind the last.
#[derive(Debug, Clone, Default)]
struct Ranges {
    list: Vec<(i128, i128)>,
    /// Bytes in front of each of them.
    before: Vec<i128>,
}

impl Ranges {
    fn new(mut all: Vec<(i128, i128)>) -> Ranges {
        all.sort_unstable();
        let mut list: Vec<(i128, i128)> = Vec::new();
        for (first, end) in all {
            match list.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => list.push((first, end)),
            }
        }
        let mut sum = 0;
        let before = list.iter().map(|r| {
            sum += r.1 - r.0;
            sum - (r.1 - r.0)
        });
        let before = before.collect();
        Ranges { list, before }
    }

    /// Bytes below an address.
    fn below(&self, addr: i128) -> i128 {
        let i = self.list.partition_point(|r| r.0 < addr);
        match i.checked_sub(1) {
            Some(i) => self.before[i] + addr.min(self.list[i].1) - self.list[i].0,
            None => 0,
        }
    }

    /// Bytes within a range.
    fn count(&self, first: i128, end: i128) -> i128 {
        self.below(end) - self.below(first)
    }

    /// The first address at or behind another.
    fn from(&self, addr: i128) -> Option<i128> {
        let i = self.list.partition_point(|r| r.1 <= addr);
        self.list.get(i).map(|r| r.0.max(addr))
    }
}

/// VM, distance from the VM's address to that of the bus, rights to read and to write.
type Key = (u16, i128, bool, bool);

struct Group {
    key: Key,
    listed: Ranges,
    /// What its entries may not hold, in the VM's addresses.
    forbidden: Ranges,
    /// Most bytes of an entry that are not listed.
    slack: i128,
}

impl Group {
    fn permits(&self, first: i128, log2: u32) -> bool {
        let end = first + (1 << log2);
        let rest = (1 << log2) - self.listed.count(first, end);
        self.forbidden.count(first, end) == 0 && (rest <= self.slack || log2 == MIN_SIZE_LOG2)
    }

    /// Entries for what is listed in a range.
    fn cover(&self, first: i128, log2: u32, to: &mut Vec<Merged>) -> Result<(), MergeError> {
        let half = 1 << log2 >> 1;
        let (lower, upper) = (
            self.listed.count(first, first + half),
            self.listed.count(first + half, first + 2 * half),
        );
        let halves = [(first, lower), (first + half, upper)];
        if log2 > MIN_SIZE_LOG2 {
            let whole = lower > 0 && upper > 0 && self.permits(first, log2);
            if !whole {
                for (first, listed) in halves {
                    if listed > 0 {
                        self.cover(first, log2 - 1, to)?;
                    }
                }
                return Ok(());
            }
        }
        let (vm, distance, read, write) = self.key;
        // What is listed is below 2^64 on both sides, and so is the aligned range around it.
        let (from, bus) = (first as u64, (first + distance) as u64);
        if !self.permits(first, log2) {
            return Err(MergeError::Inseparable { vm, from });
        }
        if to.len() == MAX_MERGED {
            return Err(MergeError::TooMany);
        }
        to.push(Merged {
            entry: Entry {
                vm,
                from,
                to: bus,
                size_log2: log2,
                rights: Rights { read, write },
            },
            slack: (2 * half - lower - upper) as u64,
        });
        Ok(())
    }

    fn entries(&self, to: &mut Vec<Merged>) -> Result<(), MergeError> {
        let largest = self.key.1.trailing_zeros().min(MAX_SIZE_LOG2);
        let mut next = 0;
        while let Some(addr) = self.listed.from(next) {
            let first = addr >> largest << largest;
            self.cover(first, largest, to)?;
            next = first + (1 << largest);
        }
        Ok(())
    }
}

fn from_side(p: &Port) -> (i128, i128) {
    let first = i128::from(p.from);
    (first, first + i128::from(p.size))
}

fn bus_side(first: u64, size: u64) -> (i128, i128) {
    let first = i128::from(first);
    (first, first + i128::from(size))
}

fn key(p: &Port) -> Key {
    let distance = i128::from(p.to) - i128::from(p.from);
    (p.vm, distance, p.rights.read, p.rights.write)
}

/// Ports of one VM that share addresses say the same of them.
fn check(list: &Ports) -> Result<(), MergeError> {
    for p in &list.ports {
        if key(p).1 & 3 != 0 {
            return Err(MergeError::Distance {
                line: p.line,
                from: p.from,
                to: p.to,
            });
        }
    }
    let mut sorted: Vec<&Port> = list.ports.iter().collect();
    sorted.sort_by_key(|p| (p.vm, p.from, p.line));
    // Of the ports so far, the one that reaches furthest.
    let mut furthest: Option<&Port> = None;
    for &p in &sorted {
        match furthest {
            Some(f) if f.vm == p.vm && from_side(f).1 > i128::from(p.from) => {
                if key(f) != key(p) {
                    return Err(MergeError::Twice {
                        first: f.line.min(p.line),
                        second: f.line.max(p.line),
                        vm: p.vm,
                        from: p.from,
                    });
                }
                if from_side(p).1 > from_side(f).1 {
                    furthest = Some(p);
                }
            }
            _ => furthest = Some(p),
        }
    }
    let kept = Ranges::new(list.kept.iter().map(|k| bus_side(k.to, k.size)).collect());
    for p in &list.ports {
        let (first, end) = bus_side(p.to, p.size);
        if kept.count(first, end) > 0 {
            let meets = |k: &&crate::ports::Kept| {
                let (f, e) = bus_side(k.to, k.size);
                f < end && first < e
            };
            let line = list.kept.iter().find(meets).map_or(0, |k| k.line);
            return Err(MergeError::Kept {
                port: p.line,
                kept: line,
            });
        }
    }
    Ok(())
}

/// `all` without `without`.
fn subtract(all: &Ranges, without: &Ranges) -> Vec<(i128, i128)> {
    let mut rest = Vec::new();
    for &(mut first, end) in &all.list {
        while first < end {
            let next = without.from(first).map_or(end, |n| n.min(end));
            if next > first {
                rest.push((first, next));
            }
            let i = without.list.partition_point(|r| r.1 <= next);
            first = without.list.get(i).map_or(end, |r| r.1).max(next);
        }
    }
    rest
}

/// The fewest entries for a list of ports, ordered by VM and address. `slack` is how many bytes that
/// are not listed an entry of more than 4 bytes may hold: 0 gives nothing else away, more is for
/// lists whose `keep` lines name all other ports nearby.
pub fn merge(list: &Ports, slack: u64) -> Result<Vec<Merged>, MergeError> {
    check(list)?;
    let mut groups: BTreeMap<Key, Vec<(i128, i128)>> = BTreeMap::new();
    for p in &list.ports {
        groups.entry(key(p)).or_default().push(from_side(p));
    }
    let on_bus = |fits: &dyn Fn(&Port) -> bool| {
        let ports = list.ports.iter().filter(|p| fits(p));
        Ranges::new(ports.map(|p| bus_side(p.to, p.size)).collect())
    };
    let everything = on_bus(&|_| true);
    let mut entries = Vec::new();
    for (&key, listed) in &groups {
        let (vm, distance, read, write) = key;
        // Bytes of the bus that the VM has with these rights anyhow.
        let granted =
            on_bus(&|p| p.vm == vm && (p.rights.read || !read) && (p.rights.write || !write));
        let mut forbidden = subtract(&everything, &granted);
        forbidden.extend(list.kept.iter().map(|k| bus_side(k.to, k.size)));
        for r in &mut forbidden {
            *r = (r.0 - distance, r.1 - distance);
        }
        let others = groups.iter().filter(|(k, _)| k.0 == vm && **k != key);
        forbidden.extend(others.flat_map(|(_, listed)| listed));
        let group = Group {
            key,
            listed: Ranges::new(listed.clone()),
            forbidden: Ranges::new(forbidden),
            slack: slack.into(),
        };
        group.entries(&mut entries)?;
    }
    entries.sort_by_key(|m| (m.entry.vm, m.entry.from));
    Ok(entries)
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
