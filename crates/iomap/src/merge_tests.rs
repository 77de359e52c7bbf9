use super::*;
use crate::ports::{parse, Kept};
use crate::{Access, Answer, Table};
use proptest::prelude::*;

fn list(text: &str) -> Ports {
    parse(text).unwrap()
}

/// From, to, logarithm of the size, slack.
fn merged(text: &str, slack: u64) -> Vec<(u64, u64, u32, u64)> {
    let m = merge(&list(text), slack).unwrap();
    let short = |m: &Merged| (m.entry.from, m.entry.to, m.entry.size_log2, m.slack);
    m.iter().map(short).collect()
}

const ETHERNET: &str = "0x92000000 0x40001000 4 x18\n0x92000400 0x40001400 4 x256\n";

#[test]
fn registers_and_buffers_of_a_network_controller() {
    assert_eq!(list(ETHERNET).ports.len(), 274);
    let exact = [
        (0x9200_0000, 0x4000_1000, 6, 0),
        (0x9200_0040, 0x4000_1040, 3, 0),
        (0x9200_0400, 0x4000_1400, 10, 0),
    ];
    assert_eq!(merged(ETHERNET, 0), exact);
    // 18 registers have 72 bytes: 56 less than a range of a power of two.
    assert_eq!(merged(ETHERNET, 55), exact);
    let two = [
        (0x9200_0000, 0x4000_1000, 7, 56),
        (0x9200_0400, 0x4000_1400, 10, 0),
    ];
    assert_eq!(merged(ETHERNET, 56), two);
    let one = [(0x9200_0000, 0x4000_1000, 11, 2048 - 1024 - 72)];
    assert_eq!(merged(ETHERNET, 1 << 20), one);
    // What is kept is not given away, whatever slack is permitted.
    let kept = format!("{ETHERNET}keep 0x40001070 4");
    let m = merged(&kept, 1 << 20);
    assert_eq!(m, [exact[0], exact[1], exact[2]]);
}

#[test]
fn the_distance_limits_the_size() {
    // 0x1010 - 0x1000 is a multiple of 16 and no more.
    assert_eq!(merged("0x1000 0x1010 64", 0).len(), 4);
    assert_eq!(merged("0x1000 0x1004 64", 0).len(), 16);
    let e = merge(&list("4 6 4"), 0).unwrap_err();
    assert!(matches!(e, MergeError::Distance { line: 1, .. }), "{e}");
    let e = merge(&list("0 4 0x100000"), 0).unwrap_err();
    assert_eq!(e, MergeError::TooMany);
    assert_eq!(merged("0 0 0x8000000000000000", 0), [(0, 0, 63, 0)]);
}

#[test]
fn ports_of_others_are_not_given_away() {
    // The second word on the bus is another VM's.
    let text = "0x100 0x200 4\n0x108 0x208 4\n0x900 0x204 4 vm=1";
    assert_eq!(merged(text, 16).len(), 3);
    assert_eq!(merged("0x100 0x200 4\n0x108 0x208 4", 16).len(), 1);
    // It may be shared.
    let text = "0x100 0x200 4\n0x104 0x204 4\n0x900 0x204 4 vm=1";
    assert_eq!(
        merged(text, 0),
        [(0x100, 0x200, 3, 0), (0x900, 0x204, 2, 0)]
    );
    // Rights are not extended either: the second word may only be read.
    let text = "0x100 0x200 4\n0x104 0x204 4 r\n0x108 0x208 4";
    assert_eq!(merged(text, 16).len(), 3);
}

#[test]
fn lists_that_contradict_themselves_are_refused() {
    let e = merge(&list("0 0x100 8\n4 0x204 4"), 0).unwrap_err();
    let twice = MergeError::Twice {
        first: 1,
        second: 2,
        vm: 0,
        from: 4,
    };
    assert_eq!(e, twice);
    let e = merge(&list("0 0x100 8\nkeep 0x104 1"), 0).unwrap_err();
    assert_eq!(e, MergeError::Kept { port: 1, kept: 2 });
    // Two bytes that are apart on the bus stand in one word of the VM's map.
    let e = merge(&list("0 0x100 1\n1 0x201 1"), 0).unwrap_err();
    assert!(matches!(e, MergeError::Inseparable { .. }), "{e}");
}

/// All aligned ranges of words within a number of words.
fn dyadic(words: u32) -> Vec<(u32, u32)> {
    let sizes = (0..=words.ilog2()).map(|k| 1 << k);
    sizes
        .flat_map(|size| (0..words / size).map(move |i| (i * size, size)))
        .collect()
}

/// The fewest entries, and their least slack, by trying all sets of aligned ranges of both groups.
/// The groups differ by a distance that permits all sizes; `used[g]` and `kept[g]` are bit sets of
/// words that group g lists, and of words that are kept on the bus side of the group.
fn try_all(words: u32, used: [u32; 2], kept: [u32; 2], slack: u32) -> (u32, u32) {
    let ranges = dyadic(words);
    let mask = |&(first, size): &(u32, u32)| (((1u64 << size) - 1) << first) as u32;
    let good = |g: usize| {
        let ranges = ranges.iter().map(mask);
        let others = used[1 - g] | kept[g];
        ranges
            .filter(|m| {
                let rest = (m & !used[g]).count_ones();
                m & others == 0 && (rest * 4 <= slack || m.count_ones() == 1)
            })
            .collect::<Vec<u32>>()
    };
    let options = [good(0), good(1)];
    let mut best = (u32::MAX, u32::MAX);
    for a in 0..1u32 << options[0].len() {
        for b in 0..1u32 << options[1].len() {
            let n = a.count_ones() + b.count_ones();
            if n > best.0 {
                continue;
            }
            let mut taken = 0;
            let mut ok = true;
            let mut covered = [0; 2];
            for (g, set) in [(0, a), (1, b)] {
                for (i, m) in options[g].iter().enumerate() {
                    if set >> i & 1 != 0 {
                        ok &= taken & m == 0;
                        taken |= m;
                        covered[g] |= m;
                    }
                }
            }
            if ok && used[0] & !covered[0] == 0 && used[1] & !covered[1] == 0 {
                let rest = (taken & !used[0] & !used[1]).count_ones();
                best = best.min((n, rest));
            }
        }
    }
    best
}

fn case(words: u32, used: [u32; 2], kept: [u32; 2], slack: u32) -> (Ports, (u32, u32)) {
    let rights = Rights {
        read: true,
        write: true,
    };
    let mut p = Ports::default();
    for (g, base) in [(0, 0x1000), (1, 0x2000)] {
        for w in 0..words {
            let to = base + 4 * u64::from(w);
            if used[g] >> w & 1 != 0 {
                p.ports.push(Port {
                    vm: 0,
                    from: 4 * u64::from(w),
                    to,
                    size: 4,
                    rights,
                    line: 1,
                });
            }
            if kept[g] >> w & 1 != 0 {
                p.kept.push(Kept {
                    to,
                    size: 4,
                    line: 1,
                });
            }
        }
    }
    (p, try_all(words, used, kept, slack))
}

fn compare(words: u32, used: [u32; 2], kept: [u32; 2], slack: u32) {
    let (p, (fewest, least)) = case(words, used, kept, slack);
    let m = merge(&p, slack.into()).unwrap();
    assert_eq!(m.len() as u32, fewest, "{used:x?} {kept:x?} {slack}");
    let given: u64 = m.iter().map(|m| m.slack).sum();
    assert_eq!(given, 4 * u64::from(least), "{used:x?} {kept:x?} {slack}");
}

/// Every list of ports in eight words, with each amount of slack.
#[test]
fn no_set_of_entries_is_smaller_one_group() {
    for used in 1..256 {
        for slack in [0, 4, 8, 16, 32] {
            compare(8, [used, 0], [0, 0], slack);
        }
    }
}

/// Every pair of groups in four words, with every word kept that neither lists.
#[test]
fn no_set_of_entries_is_smaller_two_groups() {
    for one in 0..16u32 {
        for two in (0..16).filter(|two| one & two == 0) {
            for kept in 0..16 {
                for slack in [0, 4, 16] {
                    compare(4, [one, two], [kept & !one, 0], slack);
                }
            }
        }
    }
}

proptest! {
    /// Every listed byte is translated as listed, nothing else beyond the slack is, and the entries
    /// make a table.
    #[test]
    fn entries_do_what_the_list_says(
        lines in prop::collection::vec((0..3u16, 0..64u64, 0..4u64, 1..12u64, 0..3u8), 1..12),
        kept in prop::collection::vec((0..300u64, 1..8u64), 0..3),
        slack in prop::sample::select(vec![0u64, 7, 64, 1 << 20]),
    ) {
        let mut p = Ports::default();
        for (i, &(vm, from, distance, size, r)) in lines.iter().enumerate() {
            let rights = Rights { read: r != 1, write: r != 0 };
            let from = 4 * from;
            p.ports.push(Port { vm, from, to: from + 16 * distance, size, rights, line: i + 1 });
        }
        for &(to, size) in &kept {
            p.kept.push(Kept { to, size, line: 0 });
        }
        let Ok(m) = merge(&p, slack) else { return Ok(()) };
        let entries: Vec<Entry> = m.iter().map(|m| m.entry).collect();
        let mut table = Table::constant(&entries).unwrap();
        for vm in 0..3 {
            for addr in 0..512 {
                let listed = p.ports.iter().find(|p| p.vm == vm && (p.from..p.from + p.size).contains(&addr));
                for access in [Access::Read, Access::Write] {
                    let answer = table.look_up(vm, addr, access);
                    let Some(l) = listed else {
                        // A byte that is not listed leads nowhere that the VM may not be.
                        if let Answer::Hit(to) = answer {
                            prop_assert!(!kept.iter().any(|k| (k.0..k.0 + k.1).contains(&to)));
                            let there = p.ports.iter().filter(|p| (p.to..p.to + p.size).contains(&to));
                            let mut there = there.peekable();
                            let mine = |p: &Port| p.vm == vm && p.rights.permit(access);
                            prop_assert!(there.peek().is_none() || there.any(mine));
                        }
                        continue;
                    };
                    match answer {
                        Answer::Hit(to) => {
                            prop_assert!(l.rights.permit(access));
                            prop_assert_eq!(to, l.to + (addr - l.from));
                        }
                        _ => prop_assert!(!l.rights.permit(access)),
                    }
                }
            }
        }
        let inside = |m: &Merged| (m.entry.from..m.entry.from + (1 << m.entry.size_log2))
            .filter(|a| !p.ports.iter().any(|p| p.vm == m.entry.vm && (p.from..p.from + p.size).contains(a)))
            .count() as u64;
        for m in &m {
            prop_assert_eq!(m.slack, inside(m));
            prop_assert!(m.slack <= slack || m.entry.size_log2 == 2);
        }
    }
}
