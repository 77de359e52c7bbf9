//! Version numbers in Debian's order (deb-version(7)).

use std::cmp::Ordering;

/// Compares two versions `[epoch:]upstream[-revision]`.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    epoch(a.0)
        .cmp(&epoch(b.0))
        .then_with(|| part(a.1, b.1))
        .then_with(|| part(a.2, b.2))
}

/// Epoch, upstream version and revision; absent ones are empty.
fn split(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = match version.split_once(':') {
        Some((e, rest)) if e.bytes().all(|b| b.is_ascii_digit()) => (e, rest),
        _ => ("", version),
    };
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch, upstream, revision)
}

/// Leading zeros do not count, so that numbers of any length can be compared as text.
fn epoch(digits: &str) -> (usize, &str) {
    let digits = digits.trim_start_matches('0');
    (digits.len(), digits)
}

/// Compares runs of other characters and numbers in turn.
fn part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let (x, y) = (run(&mut a, false), run(&mut b, false));
        let length = x.len().max(y.len());
        for i in 0..length {
            match weight(x.get(i)).cmp(&weight(y.get(i))) {
                Ordering::Equal => {}
                other => return other,
            }
        }
        let (x, y) = (run(&mut a, true), run(&mut b, true));
        match number(x).cmp(&number(y)) {
            Ordering::Equal => {}
            other => return other,
        }
    }
    Ordering::Equal
}

/// Takes the digits, or the other characters, at the beginning.
fn run<'a>(text: &mut &'a [u8], digits: bool) -> &'a [u8] {
    let end = text.iter().position(|c| c.is_ascii_digit() != digits);
    let (head, tail) = text.split_at(end.unwrap_or(text.len()));
    *text = tail;
    head
}

fn number(digits: &[u8]) -> (usize, &[u8]) {
    let zeros = digits.iter().take_while(|&&d| d == b'0').count();
    (digits.len() - zeros, &digits[zeros..])
}

/// A tilde is before the end, letters are before everything else.
fn weight(c: Option<&u8>) -> i32 {
    match c {
        None => 0,
        Some(b'~') => -1,
        Some(c) if c.is_ascii_alphabetic() => i32::from(*c),
        Some(c) => i32::from(*c) + 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From the test suites and manuals of dpkg and apt: the first is the smaller one.
    const LESS: [(&str, &str); 24] = [
        ("1.0~", "1.0"),
        ("1.0~~", "1.0~"),
        ("1.0~~a", "1.0~"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+"),
        ("1.0", "1.0-1"),
        ("1.0-1", "1.0-1+b1"),
        ("1.0-1~bpo1", "1.0-1"),
        ("1.2", "1.10"),
        ("1.9.9", "1.10"),
        ("2", "1:1"),
        ("1:1", "2:0"),
        ("7.6-0", "7.6p2-4"),
        ("1.0-0", "1.0-1"),
        ("1.18.36-1", "1.18.36-1.1"),
        ("1.18.36-19", "1.18.36-0.17.35-18"),
        ("0.4-1", "0.4a6-2"),
        ("1.11rc1-1", "1.11rc2-1"),
        ("1.002-1+b2", "1.3"),
        ("1.1.1", "1.1.1r-1"),
        ("3.0~rc1-1", "3.0-1"),
        ("0-pre", "0-pree"),
        ("1.1.6r-1", "1.1.6r2-1"),
        ("0.6a", "0.6.1"),
    ];

    #[test]
    fn a_table() {
        for (a, b) in LESS {
            assert_eq!(compare(a, b), Ordering::Less, "{a} < {b}");
            assert_eq!(compare(b, a), Ordering::Greater, "{b} > {a}");
        }
        for (a, b) in [
            ("1.0", "0:1.0"),
            ("1.0", "1.00"),
            ("1", "1-0"),
            ("1.a", "1.0a"),
            ("00:1", "1"),
            ("1-1", "1-01"),
        ] {
            assert_eq!(compare(a, b), compare(b, a).reverse());
            if a != "1.a" {
                assert_eq!(compare(a, b), Ordering::Equal, "{a} = {b}");
            }
        }
        let large = "99999999999999999999999999";
        assert_eq!(compare(large, &format!("{large}0")), Ordering::Less);
    }

    proptest! {
        #[test]
        fn a_total_order(list in prop::collection::vec("[0-9a.~+:-]{0,7}", 3)) {
            let (a, b, c) = (&list[0], &list[1], &list[2]);
            prop_assert_eq!(compare(a, a), Ordering::Equal);
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            if compare(a, b) != Ordering::Greater && compare(b, c) != Ordering::Greater {
                prop_assert_ne!(compare(a, c), Ordering::Greater);
            }
        }
    }
}
