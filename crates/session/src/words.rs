//! Numbers for human readers.

/// Digits in groups of three: 12 345 678.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(d);
    }
    out
}

/// A number of things: "1 finding", "2 findings", "1 recovery", "0 recoveries".
pub fn counted(n: u64, thing: &str) -> String {
    match (n, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(n)),
        (_, None) => format!("{} {thing}s", grouped(n)),
    }
}

/// A length of time in a suitable unit.
pub fn duration(ps: u64) -> String {
    let units = [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")];
    let v = ps as f64;
    match units.iter().find(|u| v >= u.0) {
        Some((one, unit)) => format!("{:.6} {unit}", v / one),
        None => format!("{ps} ps"),
    }
}

/// A number of bytes in a suitable unit.
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", n as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        for (n, thing, text) in [
            (0, "finding", "0 findings"),
            (1, "finding", "1 finding"),
            (2, "finding", "2 findings"),
            (1, "recovery", "1 recovery"),
            (12_345, "recovery", "12 345 recoveries"),
        ] {
            assert_eq!(counted(n, thing), text);
        }
    }
}
