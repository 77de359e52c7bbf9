//! The core of the reference board, for the tests of this crate: what its description says, with all extensions but
//! Svadu, and with triggers.

use crate::config::{CoreTiming, Ext, Extensions, HartConfig, PredictorGeometry};
use nagori_config::{Library, Machine, DEFAULT_MACHINE};
use serde::{de::DeserializeOwned, Serialize};
use std::sync::LazyLock;

static HART: LazyLock<HartConfig> = LazyLock::new(|| {
    let board = Machine::load(&Library::default(), DEFAULT_MACHINE, &[]).expect("a description");
    let hart = board.hart().expect("a core");
    HartConfig {
        // Its walker sets no bits.
        isa: Extensions::ALL.without(Ext::Svadu),
        asid_bits: hart.asid_bits,
        pmp_entries: hart.pmp_entries,
        triggers: 4,
        functional_cpi: hart.functional_cpi,
        io_table_cycles: hart.io_table_cycles,
        hands_over: hart.hands_over,
        plain: hart.plain,
        l1d: hart.l1d,
        l1i: hart.l1i,
        dtlb: as_here(&hart.dtlb),
        itlb: as_here(&hart.itlb),
        predictor: as_here(&hart.predictor),
        timing: as_here(&hart.timing),
    }
});

/// A value of this crate as others know it, as one of the crate that is compiled for its tests.
fn as_here<T: DeserializeOwned>(value: &impl Serialize) -> T {
    let value = serde_json::to_value(value).expect("a value");
    serde_json::from_value(value).expect("the fields are the same")
}

pub fn hart() -> HartConfig {
    HART.clone()
}

pub fn timing() -> CoreTiming {
    HART.timing
}

pub fn predictor() -> PredictorGeometry {
    HART.predictor
}
