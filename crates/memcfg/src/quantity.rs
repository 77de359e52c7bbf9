//! Units of widths, currents, voltages, energies, powers.

use nagori_values::Unit;

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
