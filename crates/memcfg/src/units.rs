//! Units of plain numbers.

/// By the last part of the key.
pub(crate) const UNITS: &[(&str, &str)] = &[
    ("read_queue", "burst"),
    ("write_queue", "burst"),
    ("write_high", "burst"),
    ("write_low", "burst"),
    ("starvation", "nCK"),
    ("clocks", "nCK"),
    ("initial", "nCK"),
    ("min", "nCK"),
    ("max", "nCK"),
    ("front_delay", "nCK"),
    ("back_delay", "nCK"),
    ("clock", "ps"),
    ("capacity", "byte"),
    ("granularity", "byte"),
    ("nvmm_base", "byte"),
    ("low", "bit"),
    ("bits", "bit"),
    ("base", "byte"),
    ("line_bytes", "byte"),
    ("block_bytes", "byte"),
    ("header_bytes", "byte"),
    ("row_bytes", "byte"),
    ("translation_bytes", "byte"),
    ("ps_per_byte", "ps"),
    ("read_pj", "pJ"),
    ("write_pj", "pJ"),
    ("background_mw", "mW"),
    ("region_lines", "line"),
    ("gap_interval", "write"),
    ("mean", "write"),
    ("median", "write"),
    ("writes", "write"),
    ("deviation_percent", "%"),
    ("sigma_percent", "%"),
];

/// Whether the plain number at a key, of which `last` is the last part, is a number of bytes.
pub(crate) fn is_bytes(last: &str) -> bool {
    UNITS.iter().any(|u| u.0 == last && u.1 == "byte")
}
