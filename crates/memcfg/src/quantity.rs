//! Numbers with units: widths, currents, voltages, energies, powers, sizes.

/// A unit and its value in base units.
pub type Unit = (&'static str, f64);

/// Widths, in bits.
pub const BITS: &[Unit] = &[("bit", 1.0)];
/// Voltages, in volts.
pub const VOLTS: &[Unit] = &[("V", 1.0), ("mV", 1e-3)];
/// Currents, in milliamperes.
pub const MILLIAMPERES: &[Unit] = &[("mA", 1.0), ("A", 1e3), ("uA", 1e-3)];
/// Energies, in picojoules.
pub const PICOJOULES: &[Unit] = &[("pJ", 1.0), ("nJ", 1e3), ("uJ", 1e6), ("fJ", 1e-3)];
/// Powers, in milliwatts.
pub const MILLIWATTS: &[Unit] = &[("mW", 1.0), ("W", 1e3), ("uW", 1e-3)];
/// Sizes, in bytes.
pub const BYTES: &[Unit] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// Reads a number followed by one of `units`, in the base unit (the first).
pub fn measure(text: &str, units: &[Unit]) -> Result<f64, String> {
    let names = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let wrong = || {
        format!(
            "`{text}` is not possible: expected a number and one of {}",
            names()
        )
    };
    let t = text.trim();
    let split = t
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (number, unit) = (&t[..split], t[split..].trim());
    let &(_, scale) = units.iter().find(|u| u.0 == unit).ok_or_else(wrong)?;
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let value = value * scale;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_with_units() {
        assert_eq!(measure("1.35 V", VOLTS), Ok(1.35));
        assert_eq!(measure("55mA", MILLIAMPERES), Ok(55.0));
        for bad in ["", "1.35", "1 kV", "V", "1.2.3 V", "-1 V", "1e3 V"] {
            let e = measure(bad, VOLTS).unwrap_err();
            assert!(e.contains("V, mV"), "{bad}: {e}");
        }
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in ".*") {
            let _ = measure(&text, PICOJOULES);
        }
    }
}
