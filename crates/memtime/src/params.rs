//! Parameters of the board's controller.
//!
//! Times are written with their unit ("1000 ns"); counts of clocks are plain
//! numbers of the controller's clock.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::mapping::AddressMapping;
use crate::period::Period;
use crate::units::{ps_text, Clocks, Ps};

/// How NVMM is made slower than DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// No added delay.
    #[default]
    Dram,
    /// Every request to NVMM is held before it reaches the controller.
    Coarse,
    /// Longer tRCD in NVMM banks, longer tRP after a dirty row.
    Fine,
    /// `Fine`, and longer tRAS in NVMM banks.
    Extended,
}

impl Method {
    /// All methods, in the order of their definition.
    pub const ALL: [Method; 4] = [Method::Dram, Method::Coarse, Method::Fine, Method::Extended];

    /// Lower-case name, as in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Dram => "dram",
            Method::Coarse => "coarse",
            Method::Fine => "fine",
            Method::Extended => "extended",
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which bank is tested (is it NVMM? is its row dirty?) for the added tRP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RpTest {
    /// The bank of the newest accepted request (as the board's controller does).
    NewestRequest,
    /// The bank that is precharged.
    OwnBank,
}

/// Added delays of NVMM; each method uses some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// `coarse`: hold of a read address.
    #[serde(with = "ps_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub coarse_read: Ps,
    /// `coarse`: hold of a write address.
    #[serde(with = "ps_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub coarse_write: Ps,
    /// `fine`, `extended`: added to tRCD of NVMM banks.
    #[serde(with = "ps_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub trcd: Ps,
    /// `fine`, `extended`: added to tRP when the row buffer is dirty.
    #[serde(with = "ps_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub trp: Ps,
    /// `extended`: added to tRAS of NVMM banks.
    #[serde(with = "ps_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub tras: Ps,
}

/// Timing of the bank machines, in clocks of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BankTiming {
    /// From acceptance to the earliest activation.
    pub wait: Clocks,
    /// tRCD: activation to column command.
    pub rcd: Clocks,
    /// tRAS: activation to precharge.
    pub ras: Clocks,
    /// tRTP: read column to the end of the row's stay.
    pub rtp: Clocks,
    /// tWTP: write column to the end of the row's stay.
    pub wtp: Clocks,
    /// tRP: precharge to activation.
    pub rp: Clocks,
    /// CL: read column command to data at the device.
    pub cl: Clocks,
    /// From data at the device to the first beat at the controller's port.
    pub data: Clocks,
    /// From acceptance of a write to its response at the port.
    pub response: Clocks,
}

/// Refresh, in clocks of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Whether there are refreshes (`false` only for experiments: a real device would lose data).
    pub enabled: bool,
    /// Clocks between two ticks.
    pub interval: Clocks,
    /// Clock of the first tick, from the start of the controller.
    pub first_tick: Clocks,
    /// From a request for a refresh, while no maintenance is under way, to the beginning of
    /// maintenance with its pulse.
    pub pulse_delay: Clocks,
    /// Length of the pulse with which maintenance begins.
    pub pulse: Clocks,
    /// The pulse limits longer tRAS timers to this.
    pub ras_limit: Clocks,
    /// The pulse limits longer tRTP and tWTP timers to this.
    pub rtp_limit: Clocks,
    /// From the refresh command to the release of held requests.
    pub duration: Clocks,
}

/// Everything that describes the board's controller and its memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BoardParams {
    /// Period of the controller's clock.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub clock: Period,
    /// Size of the memory in bytes, whole banks.
    pub capacity: u64,
    /// Address mapping.
    pub mapping: AddressMapping,
    /// Offset of the first NVMM byte: a multiple of the bank size, or the
    /// capacity for no NVMM at all.
    pub nvmm_base: u64,
    /// Number of bank machines, 1 to 8.
    pub machines: u32,
    /// Method at the start.
    pub method: Method,
    /// Bank that is tested for the added tRP.
    pub rp_test: RpTest,
    /// Bank machine timing.
    pub timing: BankTiming,
    /// Added delays.
    pub delays: Delays,
    /// Refresh.
    pub refresh: Refresh,
}

impl BoardParams {
    /// Bytes of one bank.
    pub fn bank_bytes(&self) -> u64 {
        1 << self.mapping.bank.low
    }

    /// Checks every value and their relations.
    pub fn validate(&self) -> Result<(), Error> {
        self.mapping.validate()?;
        if self.mapping.bank.low < self.mapping.row.low {
            return Err(bad(
                "mapping.bank",
                format!("{:?}", self.mapping.bank),
                "the bank bits must be the highest: a region is a set of whole banks",
            ));
        }
        let bank = self.bank_bytes();
        if self.capacity == 0
            || !self.capacity.is_multiple_of(bank)
            || self.capacity > self.mapping.span()
        {
            return Err(bad(
                "capacity",
                format!("{:#x}", self.capacity),
                format!(
                    "whole banks of {bank:#x} bytes, {:#x} at most",
                    self.mapping.span()
                ),
            ));
        }
        if !self.nvmm_base.is_multiple_of(bank) || self.nvmm_base > self.capacity {
            return Err(bad(
                "nvmm_base",
                format!("{:#x}", self.nvmm_base),
                format!(
                    "a multiple of the bank size {bank:#x}, from 0 (all NVMM) to the capacity {:#x} (no NVMM)",
                    self.capacity
                ),
            ));
        }
        if !(1..=8).contains(&self.machines) {
            return Err(bad("machines", self.machines, "1 to 8"));
        }
        if !(100.0..=1_000_000.0).contains(&self.clock.as_ps()) {
            return Err(bad("clock", self.clock, "a period of 100 ps to 1000 ns"));
        }
        let t = &self.timing;
        let r = &self.refresh;
        for (field, v, min) in [
            ("timing.wait", t.wait, 1),
            ("timing.rcd", t.rcd, 1),
            ("timing.ras", t.ras, 1),
            ("timing.rtp", t.rtp, 1),
            ("timing.wtp", t.wtp, 1),
            ("timing.rp", t.rp, 1),
            ("timing.cl", t.cl, 0),
            ("timing.data", t.data, 0),
            ("timing.response", t.response, 1),
            ("refresh.interval", r.interval, 1),
            ("refresh.first_tick", r.first_tick, 0),
            ("refresh.pulse_delay", r.pulse_delay, 0),
            ("refresh.pulse", r.pulse, 1),
            ("refresh.ras_limit", r.ras_limit, 1),
            ("refresh.rtp_limit", r.rtp_limit, 1),
            ("refresh.duration", r.duration, 1),
        ] {
            if !(min..=MAX_CLOCKS).contains(&v.0) {
                return Err(bad(field, v.0, format!("{min} to {MAX_CLOCKS} clocks")));
            }
        }
        let d = &self.delays;
        for (field, v) in [
            ("delays.coarse_read", d.coarse_read),
            ("delays.coarse_write", d.coarse_write),
            ("delays.trcd", d.trcd),
            ("delays.trp", d.trp),
            ("delays.tras", d.tras),
        ] {
            if v > MAX_DELAY {
                return Err(bad(field, v, format!("{MAX_DELAY} at most")));
            }
        }
        let busy = r.pulse_delay.0 + r.pulse.0 + r.duration.0;
        if r.interval.0 <= busy {
            return Err(bad(
                "refresh.interval",
                r.interval.0,
                format!("more than pulse_delay + pulse + duration = {busy} clocks"),
            ));
        }
        Ok(())
    }
}

/// Longest count of a timer.
const MAX_CLOCKS: u32 = 1_000_000;
/// Longest added delay.
const MAX_DELAY: Ps = Ps::from_ns(10_000_000);

fn bad(field: &'static str, value: impl ToString, expected: impl Into<String>) -> Error {
    Error::Param {
        field,
        value: value.to_string(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described;
    use crate::mapping::BitField;

    #[test]
    fn round_trip_and_unknown_keys() {
        let p = described::board::<BoardParams>();
        let text = serde_json::to_string(&p).unwrap();
        assert!(text.contains("\"trcd\":\"1000 ns\""), "{text}");
        assert_eq!(serde_json::from_str::<BoardParams>(&text).unwrap(), p);
        let extra = text.replace("\"machines\"", "\"machine\":1,\"machines\"");
        assert!(serde_json::from_str::<BoardParams>(&extra).is_err());
    }

    #[test]
    fn validation_names_field_and_remedy() {
        described::board::<BoardParams>().validate().unwrap();
        let check = |f: &dyn Fn(&mut BoardParams), field: &str, hint: &str| {
            let mut p = described::board::<BoardParams>();
            f(&mut p);
            let e = p.validate().unwrap_err().to_string();
            assert!(e.contains(field) && e.contains(hint), "{e}");
        };
        check(&|p| p.nvmm_base = 4096, "nvmm_base", "0x20000000");
        check(&|p| p.nvmm_base = 5 << 30, "nvmm_base", "0x100000000");
        check(&|p| p.capacity = 8 << 30, "capacity", "0x100000000");
        check(&|p| p.machines = 9, "machines", "1 to 8");
        check(&|p| p.timing.wait = Clocks(0), "timing.wait", "1 to");
        check(
            &|p| p.refresh.interval = Clocks(59),
            "interval",
            "59 clocks",
        );
        check(
            &|p| p.delays.tras = Ps::from_ns(10_000_001),
            "tras",
            "at most",
        );
        let clock = |text: &str| text.parse().unwrap();
        check(&|p| p.clock = clock("99.9 ps"), "clock", "period");
        check(&|p| p.clock = clock("1001 ns"), "clock", "period");
        let swap = |p: &mut BoardParams| {
            p.mapping.row = BitField::new(31, 16);
            p.mapping.bank = BitField::new(15, 13);
        };
        check(&swap, "mapping.bank", "highest");
    }
}
