//! Addresses to channel, rank, bank group, bank, row and column.

use super::params::{ControllerParams, Mapping};
use super::spec::DeviceSpec;
use crate::error::Error;

/// A decoded address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Channel.
    pub channel: u32,
    /// Rank on its channel.
    pub rank: u32,
    /// Bank group in its rank.
    pub bank_group: u32,
    /// Bank in its bank group.
    pub bank: u32,
    /// Row.
    pub row: u32,
    /// Column in bursts.
    pub column: u32,
}

/// Field names, letters of the bit form, and places in arrays of fields.
const FIELDS: [(&str, char); 6] = [
    ("channel", 'h'),
    ("rank", 'k'),
    ("bank_group", 'g'),
    ("bank", 'b'),
    ("row", 'r'),
    ("column", 'c'),
];
const CHANNEL: usize = 0;
const ROW: usize = 4;
const COLUMN: usize = 5;

/// Consecutive address bits that go to consecutive bits of a field.
#[derive(Clone, Copy, Debug)]
struct Run {
    shift: u32,
    mask: u64,
    to: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mix {
    field: usize,
    with: usize,
    from: u32,
    mask: u32,
}

/// A compiled mapping.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The lowest bits of every field, which mostly are all of it.
    low: [Run; 6],
    /// Further bits, with their field.
    more: Vec<(usize, Run)>,
    mixes: Vec<Mix>,
    capacity: u64,
}

impl Decoder {
    /// Compiles the mapping of a controller over its device.
    pub fn new(p: &ControllerParams, d: &DeviceSpec) -> Result<Decoder, Error> {
        let o = &d.organisation;
        let bits = [
            p.channels,
            o.ranks,
            o.bank_groups,
            o.banks_per_group,
            o.rows,
            o.columns / o.burst_length,
        ]
        .map(u32::ilog2);
        let fail = |problem: String| Error::Spec {
            place: format!("controller of region {}: mapping", p.region),
            problem,
        };
        let order = parse(&p.mapping, &bits).map_err(fail)?;
        let low = o.access_bytes().ilog2();
        let mut runs: [Vec<Run>; 6] = Default::default();
        let mut used = [0u32; 6];
        // From the lowest bit up.
        for (i, &f) in order.iter().rev().enumerate() {
            let shift = low + i as u32;
            let to = used[f];
            used[f] += 1;
            match runs[f].last_mut() {
                Some(r) if r.shift + r.mask.count_ones() == shift => r.mask = r.mask << 1 | 1,
                _ => runs[f].push(Run { shift, mask: 1, to }),
            }
        }
        if runs[CHANNEL].iter().any(|r| r.shift < 6) {
            return Err(fail(
                "a 64-byte line must lie in one channel: put the channel bits at bit 6 or above"
                    .to_owned(),
            ));
        }
        let mut mixes: Vec<Mix> = Vec::new();
        for x in &p.mapping.xor {
            let find = |name: &str, from: &[usize]| {
                from.iter()
                    .copied()
                    .find(|&i| FIELDS[i].0 == name)
                    .ok_or_else(|| {
                        let names: Vec<_> = from.iter().map(|&i| FIELDS[i].0).collect();
                        fail(format!("xor: '{name}' is none of {}", names.join(", ")))
                    })
            };
            let field = find(&x.field, &[0, 1, 2, 3])?;
            let with = find(&x.with, &[ROW, COLUMN])?;
            if bits[field] == 0 || bits[with] < x.from_bit.saturating_add(bits[field]) {
                return Err(fail(format!(
                    "xor of {} ({} bits) with {} from bit {}: {} has {} bits",
                    x.field, bits[field], x.with, x.from_bit, x.with, bits[with]
                )));
            }
            if field == CHANNEL && with == COLUMN && o.access_bytes() < 64 {
                return Err(fail(
                    "xor of channel with column would part a 64-byte line: use the row".to_owned(),
                ));
            }
            let mix = Mix {
                field,
                with,
                from: x.from_bit,
                mask: (1 << bits[field]) - 1,
            };
            // Two equal ones undo each other, so only few remain, however many are given.
            match mixes.iter().position(|m| *m == mix) {
                Some(i) => drop(mixes.remove(i)),
                None => mixes.push(mix),
            }
        }
        Ok(Decoder {
            low: std::array::from_fn(|f| {
                let none = Run {
                    shift: 0,
                    mask: 0,
                    to: 0,
                };
                runs[f].first().copied().unwrap_or(none)
            }),
            more: (0..6)
                .flat_map(|f| runs[f].iter().skip(1).map(move |r| (f, *r)))
                .collect(),
            mixes,
            capacity: o.channel_bytes() << bits[CHANNEL],
        })
    }

    /// Bytes that can be addressed.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where `addr` lies. Bits beyond the capacity are ignored.
    #[inline]
    pub fn decode(&self, addr: u64) -> Place {
        let part = |r: &Run| (((addr >> r.shift) & r.mask) as u32) << r.to;
        let mut v: [u32; 6] = std::array::from_fn(|f| part(&self.low[f]));
        for (f, r) in &self.more {
            v[*f] |= part(r);
        }
        for m in &self.mixes {
            v[m.field] ^= (v[m.with] >> m.from) & m.mask;
        }
        Place {
            channel: v[0],
            rank: v[1],
            bank_group: v[2],
            bank: v[3],
            row: v[ROW],
            column: v[COLUMN],
        }
    }
}

/// Field of every bit, from the highest down.
fn parse(m: &Mapping, bits: &[u32; 6]) -> Result<Vec<usize>, String> {
    let named = m
        .order
        .split_whitespace()
        .all(|w| FIELDS.iter().any(|f| f.0 == w));
    let mut order = Vec::new();
    if named && !m.order.trim().is_empty() {
        for w in m.order.split_whitespace() {
            let f = FIELDS.iter().position(|f| f.0 == w).unwrap_or(0);
            if order.contains(&f) {
                return Err(format!("'{}': {w} stands twice", m.order));
            }
            order.extend(std::iter::repeat_n(f, bits[f] as usize));
        }
    } else {
        for c in m.order.chars().filter(|c| !c.is_whitespace()) {
            let f = FIELDS.iter().position(|f| f.1 == c).ok_or_else(|| {
                format!(
                    "'{}': neither names (channel rank bank_group bank row column) nor letters (h k g b r c)",
                    m.order
                )
            })?;
            order.push(f);
        }
    }
    for (i, (name, _)) in FIELDS.iter().enumerate() {
        let n = order.iter().filter(|&&f| f == i).count();
        if n != bits[i] as usize {
            return Err(format!(
                "'{}': {n} bits of {name}, the memory has {}",
                m.order, bits[i]
            ));
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::super::params::Xor;
    use super::super::preset::ddr3_1600k;
    use super::*;
    use std::collections::BTreeSet;

    fn decoder(order: &str, xor: &[(&str, &str, u32)]) -> Result<Decoder, Error> {
        let mut p = ControllerParams::frfcfs();
        p.channels = 2;
        p.mapping.order = order.to_owned();
        p.mapping.xor = xor
            .iter()
            .map(|x| Xor {
                field: x.0.to_owned(),
                with: x.1.to_owned(),
                from_bit: x.2,
            })
            .collect();
        Decoder::new(&p, &ddr3_1600k()?)
    }

    #[test]
    fn names_and_letters() {
        let d = decoder("row bank column channel", &[]).unwrap();
        assert_eq!(d.capacity(), 8 << 30);
        let p = d.decode(1 << 6 | 3 << 7 | 5 << 14 | 9 << 17);
        assert_eq!((p.channel, p.column, p.bank, p.row), (1, 3, 5, 9));
        let letters = format!("{} b bb ccccc h cc", "r".repeat(16));
        let d = decoder(&letters, &[]).unwrap();
        let p = d.decode(2 << 6 | 1 << 8 | 3 << 9 | 5 << 14 | 9 << 17);
        assert_eq!((p.channel, p.column, p.bank, p.row), (1, 14, 5, 9));
    }

    #[test]
    fn xor_keeps_it_one_to_one() {
        let d = decoder(
            "row bank column channel",
            &[("bank", "row", 0), ("channel", "column", 2)],
        )
        .unwrap();
        let all: BTreeSet<_> = (0..1u64 << 14).map(|i| d.decode(i << 6)).collect();
        assert_eq!(all.len(), 1 << 14);
        assert_eq!(d.decode(5 << 17).bank, 5);
        assert_eq!(d.decode(4 << 7).channel, 1);
    }

    #[test]
    fn equal_xors_undo_each_other() {
        let twice =
            |n| decoder("row bank column channel", &[("bank", "row", 3)].repeat(n)).unwrap();
        let plain = decoder("row bank column channel", &[]).unwrap();
        for (n, is) in [(1, 1), (2, 0), (1001, 1), (100_000, 0)] {
            let d = twice(n);
            assert_eq!(d.mixes.len(), is, "{n}");
            let like = if is == 1 { &twice(1) } else { &plain };
            (0..1u64 << 12).for_each(|i| assert_eq!(d.decode(i << 15), like.decode(i << 15)));
        }
    }

    #[test]
    fn errors() {
        for (order, xor, hint) in [
            ("row bank column", &[][..], "channel"),
            ("row row bank column channel", &[], "twice"),
            ("row bnak column channel", &[], "neither"),
            ("rrbbcc", &[], "the memory has"),
            ("", &[], "the memory has"),
            ("row bank column channel", &[("row", "row", 0)], "none of"),
            ("row bank column channel", &[("bank", "row", 14)], "16 bits"),
            ("row bank column channel", &[("rank", "row", 0)], "0 bits"),
        ] {
            let e = decoder(order, xor).unwrap_err().to_string();
            assert!(e.contains(hint), "{order}: {e}");
        }
    }
}
