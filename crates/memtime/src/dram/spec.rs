//! Devices as data: organisation, timings, rules between commands, refresh,
//! energy. Every value carries its source.
//!
//! A rule is a row of a table: after `prev`, the command `next` in the given scope must wait for
//! `latency`. The engine compiles rules to counts of device clocks once; supporting a new device
//! takes a new table and no code.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::expr::Expr;
pub use crate::command::Command;
use crate::error::Error;
use crate::period::Period;

/// Relation between the targets of `prev` and `next` for which a rule applies. For a command that
/// concerns a whole rank, `bank` and `bank_group` mean the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Both go to one bank.
    Bank,
    /// Both go to one bank group, be it to one bank or to two.
    BankGroup,
    /// Another bank group of the same rank.
    OtherBankGroup,
    /// Both go to one rank, be it to one bank or to two.
    Rank,
    /// Another rank of the same channel.
    OtherRank,
    /// The whole channel.
    Channel,
}

/// State of the row when `prev` is issued.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// Any state.
    #[default]
    Any,
    /// Not written since the activation.
    Clean,
    /// Written since the activation.
    Dirty,
}

/// Banks and widths of a rank, and ranks of a channel. All numbers are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Organisation {
    /// Ranks on a channel.
    pub ranks: u32,
    /// Bank groups of a rank; 1 where the device has none.
    pub bank_groups: u32,
    /// Banks of a bank group.
    pub banks_per_group: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Columns of a row, each of the width of a device.
    pub columns: u32,
    /// Data width of a device in bits.
    pub device_width: u32,
    /// Data width of a channel in bits.
    pub channel_width: u32,
    /// Columns moved by one `RD` or `WR`.
    pub burst_length: u32,
}

impl Organisation {
    /// Bytes moved by one `RD` or `WR`.
    pub const fn access_bytes(&self) -> u32 {
        self.channel_width / 8 * self.burst_length
    }

    /// Bytes of a row over the whole channel width.
    pub const fn row_bytes(&self) -> u32 {
        self.channel_width / 8 * self.columns
    }

    /// Devices of a rank.
    pub const fn devices(&self) -> u32 {
        self.channel_width / self.device_width
    }

    /// Banks of a rank.
    pub const fn banks(&self) -> u32 {
        self.bank_groups * self.banks_per_group
    }

    /// Bytes of a channel.
    pub const fn channel_bytes(&self) -> u64 {
        self.row_bytes() as u64 * self.rows as u64 * (self.ranks * self.banks()) as u64
    }
}

/// A named duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Standard name: "tRCD", "CL".
    pub name: String,
    /// Value with its unit: "13.75 ns", "11 nCK", "max(4 nCK, 6 ns)". May refer to timings that
    /// precede it.
    pub value: Expr,
    /// Table, data sheet or paper.
    pub source: String,
}

/// One row of the rule table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Earlier command.
    pub prev: Command,
    /// Later command.
    pub next: Command,
    /// Where it applies.
    pub scope: Scope,
    /// Clocks from `prev` to `next`, at least.
    pub latency: Expr,
    /// Counted from the `window`-th last `prev`: 1 for the last, 4 for tFAW.
    #[serde(default = "one")]
    pub window: u32,
    /// Applies only if the row of `prev` was in this state.
    #[serde(default)]
    pub row: RowState,
    /// Table, data sheet or paper.
    pub source: String,
}

fn one() -> u32 {
    1
}

/// A kind of refresh that the device supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// `REFab` or `REFpb`. Rules give its duration.
    pub command: Command,
    /// Average time from one such command to the next in a rank.
    pub interval: Expr,
    /// Table, data sheet or paper.
    pub source: String,
}

/// Pausing of the cell write that a dirty precharge begins, so that a read of
/// the bank need not wait for its end (write pausing: Qureshi et al., HPCA 2010).
///
/// The cell write is the time that a precharge of a written row takes beyond one of a clean row,
/// according to the rules from `PRE` to `ACT` of scope bank; it begins when a clean bank could be
/// activated. It consists of iterations of `granularity`. A `PAUSE` stops it at the next end of an
/// iteration, at least one iteration after its beginning or resumption; from then on the bank can
/// be activated and read, but not written, since the rest of the write occupies its data register.
/// A `RESUM` of the closed bank continues it: `overhead`, then the rest. Nothing is written twice,
/// so pausing does not wear cells; the overhead costs energy at the power of the cell write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WritePause {
    /// The write can be interrupted at multiples of this time from its beginning.
    pub granularity: Expr,
    /// Time added to the rest of the write by each interruption.
    pub overhead: Expr,
    /// Data sheet or paper.
    pub source: String,
}

/// Energy or currents of commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
// One a device: its size matters to nobody.
#[allow(clippy::large_enum_variant)]
pub enum Energy {
    /// From data sheet currents, by the method of Micron's technical note TN-41-01.
    Idd(Idd),
    /// Energies per command.
    PerOperation(PerOperation),
}

/// Currents of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idd {
    /// Supply voltage, V.
    pub vdd: f64,
    /// One activation and precharge per tRC, mA.
    pub idd0: f64,
    /// Precharged standby, mA.
    pub idd2n: f64,
    /// Active standby, mA.
    pub idd3n: f64,
    /// Burst read, mA.
    pub idd4r: f64,
    /// Burst write, mA.
    pub idd4w: f64,
    /// Burst refresh, mA.
    pub idd5b: f64,
    /// tRAS, the active part of the idd0 cycle.
    pub tras: Expr,
    /// tRC, the whole idd0 cycle.
    pub trc: Expr,
    /// Time of one burst on the bus.
    pub burst: Expr,
    /// tRFC at idd5b.
    pub trfc: Expr,
    /// Data sheet.
    pub source: String,
}

/// Energies of one command of the whole rank, and standby power of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerOperation {
    /// Activation, pJ.
    pub activate: f64,
    /// Read of one burst, pJ.
    pub read: f64,
    /// Write of one burst, pJ.
    pub write: f64,
    /// Precharge of a clean row, pJ.
    pub precharge_clean: f64,
    /// Precharge of a written row, pJ: the cell write of technologies that
    /// write back at precharge.
    pub precharge_dirty: f64,
    /// Refresh command, pJ.
    pub refresh: f64,
    /// Rank with an open bank, mW.
    pub standby_active: f64,
    /// Rank with all banks precharged, mW.
    pub standby_precharged: f64,
    /// Data sheet or paper.
    pub source: String,
}

/// A device type with the ranks of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Name of the preset.
    pub name: String,
    /// "DDR3", "PCM", ...
    pub technology: String,
    /// Main source.
    pub source: String,
    /// Period of the command clock (tCK).
    pub clock: Period,
    /// Sizes.
    pub organisation: Organisation,
    /// Durations by name.
    pub timings: Vec<Timing>,
    /// Rules between commands.
    pub rules: Vec<Rule>,
    /// From `RD` to the last data beat: "CL + BL/2".
    pub read_data: Expr,
    /// From `WR` to the last data beat: "CWL + BL/2".
    pub write_data: Expr,
    /// Kinds of refresh; empty if none is needed.
    #[serde(default)]
    pub refresh: Vec<Refresh>,
    /// Write pausing, an option of NVMM devices.
    #[serde(default)]
    pub write_pause: Option<WritePause>,
    /// Energy of commands; without it no energy is reported.
    #[serde(default)]
    pub energy: Option<Energy>,
}

/// Longest latency of a rule, in clocks.
pub const MAX_CLOCKS: u32 = 1 << 30;
/// Longest window of a rule.
pub const MAX_WINDOW: u32 = 16;
/// Most banks of a channel, over all its ranks.
pub const MAX_BANKS: u32 = 256;

impl DeviceSpec {
    fn fail<T>(&self, path: impl fmt::Display, problem: impl Into<String>) -> Result<T, Error> {
        Err(Error::Spec {
            place: format!("device {}: {path}", self.name),
            problem: problem.into(),
        })
    }

    /// Every timing in clocks, in the order of the table.
    pub fn resolve_timings(&self) -> Result<Vec<(&str, u32)>, Error> {
        let mut all: Vec<(&str, u32)> = Vec::with_capacity(self.timings.len());
        for t in &self.timings {
            let path = format!("timing {}", t.name);
            if all.iter().any(|a| a.0 == t.name) {
                return self.fail(path, "given twice: keep one");
            }
            let v = self.clocks(&path, &t.value, &all)?;
            all.push((&t.name, v));
        }
        Ok(all)
    }

    /// Value of an expression in clocks, over resolved timings.
    pub fn clocks(&self, path: &str, e: &Expr, timings: &[(&str, u32)]) -> Result<u32, Error> {
        let lookup = |n: &str| timings.iter().find(|t| t.0 == n).map(|t| i64::from(t.1));
        match e.eval(self.clock, &lookup) {
            Ok(v) => match u32::try_from(v) {
                Ok(v) if v <= MAX_CLOCKS => Ok(v),
                _ => self.fail(
                    path,
                    format!("'{e}' is {v} clocks: 0 to {MAX_CLOCKS} are possible"),
                ),
            },
            Err(err) => self.fail(path, err.to_string()),
        }
    }

    /// Checks everything that can be checked without a controller's parameters.
    pub fn validate(&self) -> Result<(), Error> {
        if self.name.is_empty() {
            return self.fail("name", "is empty");
        }
        if !(10.0..=1_000_000.0).contains(&self.clock.as_ps()) {
            return self.fail("clock", "a period of 10 ps to 1000 ns is possible");
        }
        self.check_organisation()?;
        let t = self.resolve_timings()?;
        for (name, e) in [
            ("read_data", &self.read_data),
            ("write_data", &self.write_data),
        ] {
            if self.clocks(name, e, &t)? == 0 {
                return self.fail(name, "must be 1 clock at least");
            }
        }
        for (i, r) in self.rules.iter().enumerate() {
            self.check_rule(i, r, &t)?;
        }
        for r in &self.refresh {
            let path = format!("refresh {}", r.command);
            if !matches!(r.command, Command::RefAll | Command::RefBank) {
                return self.fail(path, "the command must be REFab or REFpb");
            }
            if self
                .refresh
                .iter()
                .filter(|o| o.command == r.command)
                .count()
                > 1
            {
                return self.fail(path, "given twice: keep one");
            }
            let interval = self.clocks(&path, &r.interval, &t)?;
            let [row, busy] = self.refresh_demand(r.command)?;
            if u64::from(interval) <= u64::from(row) + u64::from(busy) {
                return self.fail(
                    path,
                    format!("an interval of {interval} clocks: more than {row} for one access of a row and its end, \
                        and {busy} for the refresh, are needed, else requests starve"),
                );
            }
        }
        if let Some(p) = &self.write_pause {
            if self.clocks("write_pause.granularity", &p.granularity, &t)? == 0 {
                return self.fail("write_pause.granularity", "must be 1 clock at least");
            }
            self.clocks("write_pause.overhead", &p.overhead, &t)?;
            if !self.refresh.is_empty() {
                return self.fail(
                    "write_pause",
                    "a device that is refreshed cannot pause cell writes here: leave out one of refresh and \
                        write_pause",
                );
            }
        }
        self.check_relations(&t)?;
        self.check_energy(&t)
    }

    /// Clocks from `PRE` to `ACT` of a bank whose row is clean, and dirty.
    pub(crate) fn closing(&self, t: &[(&str, u32)]) -> Result<(u32, u32), Error> {
        let (mut clean, mut dirty) = (0, 0);
        for r in &self.rules {
            let of_bank = r.scope == Scope::Bank && r.window == 1;
            if (r.prev, r.next) != (Command::Pre, Command::Act) || !of_bank {
                continue;
            }
            let v = self.clocks("rule", &r.latency, t)?;
            if r.row != RowState::Dirty {
                clean = clean.max(v);
            }
            if r.row != RowState::Clean {
                dirty = dirty.max(v);
            }
        }
        Ok((clean, dirty))
    }

    /// Clocks needed between two refreshes by `command` for a row to be used at all: opening,
    /// accessing and closing it, plus the longest time for which a rule makes other commands wait
    /// for the refresh.
    /// that a rule makes others wait for the refresh.
    pub fn refresh_demand(&self, command: Command) -> Result<[u32; 2], Error> {
        let t = self.resolve_timings()?;
        let from_to = |prev: Command, next: Command| -> Result<u32, Error> {
            let rules = self
                .rules
                .iter()
                .filter(|r| r.prev == prev && r.next == next);
            rules
                .map(|r| self.clocks("rule", &r.latency, &t))
                .try_fold(0, |m, v| Ok(m.max(v?)))
        };
        use Command::{Act, Pre, PreAll, Rd, Wr};
        let read = from_to(Act, Rd)?.saturating_add(from_to(Rd, Pre)?);
        let write = from_to(Act, Wr)?.saturating_add(from_to(Wr, Pre)?);
        let open = from_to(Act, Pre)?.max(read).max(write);
        let close = from_to(Pre, command)?.max(from_to(PreAll, command)?);
        Ok([open.saturating_add(close), self.longest(command, &t)?])
    }

    /// Longest latency of a rule after `prev`.
    fn longest(&self, prev: Command, t: &[(&str, u32)]) -> Result<u32, Error> {
        let mut max = 0;
        for r in self.rules.iter().filter(|r| r.prev == prev) {
            max = max.max(self.clocks("rule", &r.latency, t)?);
        }
        Ok(max)
    }

    fn check_organisation(&self) -> Result<(), Error> {
        let o = &self.organisation;
        for (name, v, max) in [
            ("ranks", o.ranks, 16),
            ("bank_groups", o.bank_groups, 64),
            ("banks_per_group", o.banks_per_group, 64),
            ("rows", o.rows, 1 << 24),
            ("columns", o.columns, 1 << 16),
            ("device_width", o.device_width, 512),
            ("channel_width", o.channel_width, 512),
            ("burst_length", o.burst_length, 64),
        ] {
            if !v.is_power_of_two() || v > max {
                let p = format!("organisation.{name} = {v}");
                return self.fail(p, format!("a power of two up to {max} is needed"));
            }
        }
        if o.channel_width < 8 || o.channel_width < o.device_width {
            let p = format!("organisation.channel_width = {}", o.channel_width);
            return self.fail(p, "8 bits and one device at least are needed");
        }
        if !(8..=64).contains(&o.access_bytes()) {
            let p = "organisation: channel_width / 8 * burst_length";
            let b = o.access_bytes();
            return self.fail(p, format!("{b} bytes an access: 8 to 64 are possible"));
        }
        if o.columns < o.burst_length {
            return self.fail("organisation.columns", "a row is shorter than a burst");
        }
        if o.ranks * o.banks() > MAX_BANKS {
            return self.fail(
                "organisation",
                format!("more than {MAX_BANKS} banks on a channel"),
            );
        }
        Ok(())
    }

    fn check_rule(&self, i: usize, r: &Rule, t: &[(&str, u32)]) -> Result<(), Error> {
        let path = format!("rule {} {} -> {} {:?}", i + 1, r.prev, r.next, r.scope);
        self.clocks(&path, &r.latency, t)?;
        for c in [r.prev, r.next] {
            if matches!(c, Command::RdA | Command::WrA) {
                return self.fail(
                    path,
                    "RDA and WRA have no rules: they follow those of RD, WR and the PRE they end \
                    with",
                );
            }
            if matches!(c, Command::Pause | Command::Resume) {
                return self.fail(
                    path,
                    "PAUSE and RESUM have no rules: write_pause says what they do",
                );
            }
        }
        if !(1..=MAX_WINDOW).contains(&r.window) {
            return self.fail(path, format!("window: 1 to {MAX_WINDOW}"));
        }
        if r.window > 1 && matches!(r.scope, Scope::OtherRank | Scope::OtherBankGroup) {
            return self.fail(
                path,
                "a window needs the scope bank, bank_group, rank or channel",
            );
        }
        let wide = r.prev.rank_wide() || r.next.rank_wide();
        if wide && r.scope == Scope::OtherBankGroup {
            return self.fail(
                path,
                "a command that concerns the whole rank knows no other bank group: use the scope \
                rank",
            );
        }
        if r.row != RowState::Any && !matches!(r.prev, Command::Pre) {
            return self.fail(
                path,
                "only rules after PRE may ask for the state of the row",
            );
        }
        Ok(())
    }

    /// Checks relations between timings that must hold for both to be meaningful.
    fn check_relations(&self, t: &[(&str, u32)]) -> Result<(), Error> {
        let get = |n: &str| t.iter().find(|t| t.0 == n).map(|t| t.1);
        if let (Some(rc), Some(ras), Some(rp)) = (get("tRC"), get("tRAS"), get("tRP")) {
            if rc < ras + rp {
                return self.fail(
                    "timing tRC",
                    format!("{rc} clocks are less than tRAS + tRP = {ras} + {rp}: a bank cannot be faster than its \
                        parts"),
                );
            }
        }
        if let (Some(ras), Some(rcd)) = (get("tRAS"), get("tRCD")) {
            if ras < rcd {
                return self.fail(
                    "timing tRAS",
                    format!("{ras} clocks are less than tRCD = {rcd}: a row would close before it can be read"),
                );
            }
        }
        if let (Some(faw), Some(rrd)) = (get("tFAW"), get("tRRD").or(get("tRRD_S"))) {
            if faw != 0 && faw < rrd {
                return self.fail(
                    "timing tFAW",
                    format!("{faw} clocks are less than one tRRD = {rrd}"),
                );
            }
        }
        // What every device of this kind must say.
        for (prev, next, what) in [
            (Command::Act, Command::Rd, "tRCD"),
            (Command::Act, Command::Wr, "tRCD"),
            (Command::Pre, Command::Act, "tRP"),
            (Command::Rd, Command::Rd, "tCCD"),
            (Command::Wr, Command::Wr, "tCCD"),
            (Command::Rd, Command::Wr, "the turn of the bus"),
            (Command::Wr, Command::Rd, "tWTR"),
            (Command::Rd, Command::Pre, "tRTP"),
            (Command::Wr, Command::Pre, "tWR"),
            (Command::Act, Command::Pre, "tRAS"),
        ] {
            if !self.rules.iter().any(|r| r.prev == prev && r.next == next) {
                return self.fail(
                    "rules",
                    format!(
                        "no rule {prev} -> {next} ({what}): add one, with latency 0 if the \
                    device has no such limit"
                    ),
                );
            }
        }
        for r in &self.refresh {
            if !self
                .rules
                .iter()
                .any(|x| x.prev == r.command && x.next == Command::Act)
            {
                let c = r.command;
                return self.fail("rules", format!("no rule {c} -> ACT (tRFC): add one"));
            }
        }
        Ok(())
    }

    fn check_energy(&self, t: &[(&str, u32)]) -> Result<(), Error> {
        let values: Vec<(&str, f64)> = match &self.energy {
            None => return Ok(()),
            Some(Energy::Idd(i)) => {
                for (name, e) in [
                    ("tras", &i.tras),
                    ("trc", &i.trc),
                    ("burst", &i.burst),
                    ("trfc", &i.trfc),
                ] {
                    self.clocks(&format!("energy.idd.{name}"), e, t)?;
                }
                vec![
                    ("idd.vdd", i.vdd),
                    ("idd.idd0", i.idd0),
                    ("idd.idd2n", i.idd2n),
                    ("idd.idd3n", i.idd3n),
                    ("idd.idd4r", i.idd4r),
                    ("idd.idd4w", i.idd4w),
                    ("idd.idd5b", i.idd5b),
                ]
            }
            Some(Energy::PerOperation(p)) => vec![
                ("per_operation.activate", p.activate),
                ("per_operation.read", p.read),
                ("per_operation.write", p.write),
                ("per_operation.precharge_clean", p.precharge_clean),
                ("per_operation.precharge_dirty", p.precharge_dirty),
                ("per_operation.refresh", p.refresh),
                ("per_operation.standby_active", p.standby_active),
                ("per_operation.standby_precharged", p.standby_precharged),
            ],
        };
        for (name, v) in values {
            if !(0.0..=1e12).contains(&v) {
                let p = format!("energy.{name} = {v}");
                return self.fail(p, "a number from 0 to 1e12 is needed");
            }
        }
        Ok(())
    }
}
