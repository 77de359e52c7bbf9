//! Numbers as arguments, read by `nagori_values`.

use nagori_values::{Limit, SIZE, TIME};
use std::ops::RangeBounds;

/// A parser of whole numbers in a range: `1000000`, `1e6`, `0x40`.
pub fn count<T>(
    range: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + Limit,
{
    move |text| nagori_values::count(text, range.clone())
}

/// Reads a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    nagori_values::count(text, ..).map_err(|e| {
        format!("{e}; a seed begins a sequence of random numbers, and equal seeds give equal runs")
    })
}

/// A parser of numbers that may have a fraction.
pub fn real(
    range: impl RangeBounds<f64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| nagori_values::real(text, range.clone())
}

/// Reads a number of bytes or an address: 4096, 0x1000, 64 KiB, 2GiB.
pub fn size(text: &str) -> Result<u64, String> {
    SIZE.read(text, Some(1))
}

/// A parser of sizes in a unit (`KiB`, `MiB`), which a number without unit has, too.
pub fn in_units<T>(
    unit: &'static str,
    range: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + Limit,
{
    move |text| {
        let scale = SIZE.unit(unit).unwrap_or(1);
        let bytes = SIZE.read(text, Some(scale))?;
        if !bytes.is_multiple_of(scale) {
            return Err(format!("`{text}` is no whole number of {unit}"));
        }
        let number = (bytes / scale).to_string();
        nagori_values::count(&number, range.clone()).map_err(|e| format!("{e} ({unit})"))
    }
}

/// Reads a time in seconds, which a number without unit has: 10, 0.5, 500 ms.
pub fn seconds(text: &str) -> Result<f64, String> {
    const SECOND: u64 = 1_000_000_000_000;
    let ps = TIME.read(text, Some(SECOND))?;
    if (1..=1_000_000 * SECOND).contains(&ps) {
        Ok(ps as f64 / SECOND as f64)
    } else {
        Err(format!(
            "{text} is not possible: expected seconds, more than 0 and at most 1000000"
        ))
    }
}

/// A number with its unit, as in descriptions.
pub fn with_unit(text: &str) -> Option<(f64, &str)> {
    let t = text.trim();
    let end = t.find(|c: char| !(c.is_ascii_digit() || ".-+".contains(c)));
    let (n, unit) = t.split_at(end.unwrap_or(t.len()));
    let n: f64 = n.parse().ok()?;
    n.is_finite().then_some((n, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_units_and_seconds() {
        let mib = in_units::<u32>("MiB", 1..=1 << 20);
        for (text, n) in [
            ("300", 300),
            ("300 MiB", 300),
            ("1GiB", 1024),
            ("1.5 GiB", 1536),
        ] {
            assert_eq!(mib(text), Ok(n), "{text}");
        }
        for (text, what) in [
            ("1 KiB", "no whole number of MiB"),
            ("0", "from 1 to 1048576 (MiB)"),
            ("much", "`much` is no size"),
            ("2 TiB", "not possible"),
        ] {
            let e = mib(text).unwrap_err();
            assert!(e.contains(what), "{text}: {e}");
        }
        for (text, s) in [("10", 10.0), ("0.3", 0.3), ("500 ms", 0.5), ("1e3", 1000.0)] {
            assert_eq!(seconds(text), Ok(s), "{text}");
        }
        for bad in ["0", "-1", "1e7", "inf", "2 weeks"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(seed("abc")
            .unwrap_err()
            .contains("a seed begins a sequence"));
    }
}
