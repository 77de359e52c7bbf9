//! From a checked description to the parameters of the parts.

use super::MachineError;
use crate::config::{Machine as Resolved, MachineConfig, Method, RpTest, TlbConfig};
use nagori_hart::config::{CacheGeometry, CoreTiming, HartConfig, PredictorGeometry, TlbGeometry};
use nagori_memtime::mapping::{AddressMapping, BitField};
use nagori_memtime::params::{BankTiming, Delays, Refresh};
use nagori_memtime::{BoardParams, Clocks, Ps};

fn cache(c: &crate::config::CacheConfig) -> CacheGeometry {
    CacheGeometry {
        sets: c.sets() as u32,
        ways: c.ways,
        line: c.line,
    }
}

fn tlb(t: &TlbConfig) -> TlbGeometry {
    TlbGeometry {
        sectors: t.sectors,
        pages_per_sector: t.pages_per_sector,
        superpages: t.superpage_entries,
    }
}

/// The delay method in the controller's terms.
pub(super) fn method(m: Method) -> nagori_memtime::Method {
    match m {
        Method::Dram => nagori_memtime::Method::Dram,
        Method::Coarse => nagori_memtime::Method::Coarse,
        Method::Fine => nagori_memtime::Method::Fine,
        Method::Extended => nagori_memtime::Method::Extended,
    }
}

/// Parameters of every hart.
pub fn hart_config(r: &Resolved) -> Result<HartConfig, MachineError> {
    let c = &r.config;
    let core = |e: serde_json::Error| MachineError::Core {
        core: r.core.name.clone(),
        problem: e.to_string(),
    };
    let mut timing: CoreTiming = serde_json::from_value(r.core.timing_values()).map_err(core)?;
    // The hub's probes cost nothing where there is no second core to probe.
    timing.hub = if c.harts > 1 { c.hub_cycles } else { 0 };
    let predictor: PredictorGeometry =
        serde_json::from_value(r.core.predictor_values()).map_err(core)?;
    Ok(HartConfig {
        asid_bits: c.asid_bits,
        pmp_entries: c.pmp_entries,
        sstc: c.has("sstc"),
        zicbom: c.has("zicbom"),
        zicboz: c.has("zicboz"),
        functional_cpi: c.functional_cpi,
        l1d: cache(&c.l1d),
        l1i: cache(&c.l1i),
        dtlb: tlb(&c.dtlb),
        itlb: tlb(&c.itlb),
        predictor,
        timing,
    })
}

/// Parameters of the memory controller.
pub fn board_params(c: &MachineConfig) -> BoardParams {
    let k = &c.memory.controller;
    let n = |v: u32| Clocks(v.into());
    let delay = |v: u32| Ps(k.clock_ps * u64::from(v));
    let base = BoardParams::vc707();
    let bank_bits = c.memory.banks.trailing_zeros();
    BoardParams {
        clock: Ps(k.clock_ps),
        capacity: c.memory.size.0,
        mapping: AddressMapping {
            bank: BitField {
                low: k.bank_shift,
                bits: bank_bits,
            },
            row: BitField {
                low: k.row_shift,
                bits: k.bank_shift - k.row_shift,
            },
            column: BitField {
                low: 0,
                bits: k.row_shift,
            },
        },
        nvmm_base: c.memory.nvmm_boundary.0,
        machines: k.bank_machines,
        method: method(c.method),
        rp_test: match k.rp_test {
            RpTest::NewestRequest => nagori_memtime::params::RpTest::NewestRequest,
            RpTest::OwnBank => nagori_memtime::params::RpTest::OwnBank,
        },
        timing: BankTiming {
            wait: n(k.wait_clocks),
            rcd: n(k.rcd_clocks),
            ras: n(k.ras_clocks),
            rtp: n(k.rtp_clocks),
            wtp: n(k.rtp_clocks),
            rp: n(k.rp_clocks),
            ..base.timing
        },
        delays: Delays {
            coarse_read: delay(k.coarse_read_clocks),
            coarse_write: delay(k.coarse_write_clocks),
            trcd: delay(k.added_rcd_clocks),
            trp: delay(k.added_rp_clocks),
            tras: delay(k.added_ras_clocks),
        },
        refresh: Refresh {
            enabled: true,
            interval: n(k.refresh_interval_clocks),
            first_tick: n(k.refresh_interval_clocks),
            pulse_delay: n(k.pulse_start_clocks),
            pulse: n(k.pulse_length_clocks),
            ras_limit: n(k.pulse_ras_limit_clocks),
            rtp_limit: n(k.pulse_rtp_limit_clocks),
            duration: n(k.refresh_clocks),
        },
    }
}
