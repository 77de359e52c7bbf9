//! Parameters of the general controller. Nothing has a hidden default: every
//! field must be given; presets give all of them.

use serde::{Deserialize, Serialize};

use super::expr::Expr;
use super::spec::{Command, DeviceSpec, Scope};
use crate::error::Error;

/// Whose rules of a clock the controller follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// The rules of this [module](super).
    General,
    /// The rules of Ramulator 2.1's controller for DDR with its scheduler `FRFCFS`, see
    /// [`ControllerParams::ramulator2`].
    Ramulator2,
    /// The rules of DRAMsim3 with queues by bank, see [`ControllerParams::dramsim3`].
    Dramsim3,
}

/// Another latency for a rule of the device: what another simulator has in its place. It applies
/// where the device has this rule with the latency `replaces`, and changes nothing elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleChange {
    /// Earlier command.
    pub prev: Command,
    /// Later command.
    pub next: Command,
    /// Where it applies.
    pub scope: Scope,
    /// Latency that the device has, compared in clocks.
    pub replaces: Expr,
    /// Latency in its place.
    pub latency: Expr,
}

/// Which ready command goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Reads and writes of open rows before activations and precharges; then by age.
    HitFirst,
    /// The command of the oldest request among those that are ready.
    AgeFirst,
}

/// When a row is closed without a request that needs another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Page {
    /// Never.
    Open,
    /// By auto-precharge in every read or write after which no other queued
    /// request of its queue wants the row.
    Closed,
    /// By auto-precharge in every read or write.
    ClosedAlways,
    /// By a precharge once the last read or write of the row is so many clocks ago and no queued
    /// request of the queue being served wants the bank.
    Timeout {
        /// Clocks since the last read or write of the row.
        clocks: u32,
    },
    /// As `timeout`, with a separate time for each bank: it is doubled when the row that it closed
    /// is the next one opened, and halved when a row had to be closed for a request.
    Adaptive {
        /// Initial time-out, clocks.
        initial: u32,
        /// Least time-out, clocks.
        min: u32,
        /// Greatest time-out, clocks.
        max: u32,
    },
}

/// How the memory is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefreshMode {
    /// Not at all.
    Off,
    /// `REFab`, rank by rank. The ranks' refreshes are staggered evenly.
    AllBank,
    /// `REFpb`, the banks of a rank in turn.
    PerBank,
}

/// What waits while a refresh is due and has not been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// What the refresh concerns: the rank, or the bank for `REFpb`.
    Target,
    /// The whole channel.
    Channel,
}

/// When a write is reported as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteDone {
    /// When the controller has it in its queue.
    Accepted,
    /// With its last data beat at the device.
    Data,
}

/// Positions of the parts of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// From the highest address bit down, either names separated by spaces ("row bank rank column
    /// channel"; names are channel, rank, bank_group, bank, row, column), or one letter for each
    /// bit ("rrrr bb cccc"; h channel, k rank, g bank group, b bank, r row, c column; spaces are
    /// ignored). The bytes of one burst follow below in both forms. Fields without bits may be left
    /// out.
    pub order: String,
    /// Bits that are XORed with others.
    pub xor: Vec<Xor>,
}

/// `field` becomes `field ^ with`, bit by bit from the lowest, for all bits of `field`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xor {
    /// channel, rank, bank_group or bank.
    pub field: String,
    /// row or column.
    pub with: String,
    /// Lowest bit of `with` that is used.
    pub from_bit: u32,
}

/// The general controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerParams {
    /// Name of its region in the statistics: "dram".
    pub region: String,
    /// Channels, a power of two.
    pub channels: u32,
    /// Mapping of addresses to channels, banks, rows.
    pub mapping: Mapping,
    /// Whose rules of a clock the controller follows.
    pub scheduler: Scheduler,
    /// Latencies in place of those of the device.
    pub rules: Vec<RuleChange>,
    /// `dramsim3`: entries of each bank's command queue; 0 for other schedulers.
    pub bank_queue: u32,
    /// `dramsim3`: queued writes that begin to be served once no bank has a command; 0 for other
    /// schedulers.
    pub idle_writes: u32,
    /// Read queue of every channel, in bursts.
    pub read_queue: u32,
    /// Write queue of every channel, in bursts.
    pub write_queue: u32,
    /// Queued writes at which writes begin to be served instead of reads.
    pub write_high: u32,
    /// Queued writes at which reads are served again if there are any.
    pub write_low: u32,
    /// Whether writes are also served while there are no reads.
    pub write_when_idle: bool,
    /// Whether reads are answered from queued writes that hold all their bytes.
    pub forward: bool,
    /// Whether writes are merged into queued writes of the same burst.
    pub merge_writes: bool,
    /// Whether reads join queued reads of the same burst.
    pub merge_reads: bool,
    /// Which ready command goes first.
    pub order: Order,
    /// Whether an open row stays open while a queued request of the queue being served wants it.
    /// Otherwise it is closed for any older request.
    pub keep_rows: bool,
    /// After so many reads and writes of an open row, no more of them are
    /// served while an older request waits for another row of the bank; 0: no limit.
    pub hit_cap: u32,
    /// Number of clocks in its queue after which a request is overdue; 0: no limit. While there is
    /// an overdue request, only overdue requests are served, and data is transferred only for the
    /// oldest of them, read or write. So no request waits longer than this, plus one row cycle and
    /// bus turnaround for each older one.
    pub starvation: u32,
    /// When rows are closed.
    pub page: Page,
    /// How the memory is refreshed.
    pub refresh: RefreshMode,
    /// Refreshes of a rank that may be postponed while it has requests, 0 to 8.
    pub refresh_postpone: u32,
    /// What waits for a refresh that is due.
    pub refresh_blocks: Blocks,
    /// Whether cell writes are paused for reads, while reads are served; requires a device that
    /// can.
    pub write_pause: bool,
    /// Pauses of one cell write at most; 0: no limit.
    pub write_pause_limit: u32,
    /// Clocks from the arrival to the queue.
    pub front_delay: u32,
    /// Clocks from the last data beat, or acceptance of a write, to the completion.
    pub back_delay: u32,
    /// When a write is complete.
    pub write_done: WriteDone,
}

/// Greatest length of a queue.
pub const MAX_QUEUE: u32 = 4096;
/// Greatest length of a bank's command queue.
pub const MAX_BANK_QUEUE: u32 = 64;

impl ControllerParams {
    /// A plain open-page FR-FCFS controller; consecutive bursts go to different bank groups.
    pub fn frfcfs() -> ControllerParams {
        ControllerParams {
            region: "dram".to_owned(),
            channels: 1,
            mapping: Mapping {
                order: "row bank rank column bank_group channel".to_owned(),
                xor: Vec::new(),
            },
            scheduler: Scheduler::General,
            rules: Vec::new(),
            bank_queue: 0,
            idle_writes: 0,
            read_queue: 32,
            write_queue: 32,
            write_high: 24,
            write_low: 8,
            write_when_idle: true,
            forward: true,
            merge_writes: true,
            merge_reads: false,
            order: Order::HitFirst,
            keep_rows: true,
            hit_cap: 0,
            starvation: 0,
            page: Page::Open,
            refresh: RefreshMode::AllBank,
            refresh_postpone: 0,
            refresh_blocks: Blocks::Target,
            write_pause: false,
            write_pause_limit: 0,
            front_delay: 0,
            back_delay: 0,
            write_done: WriteDone::Accepted,
        }
    }

    /// Ramulator 2.1's controller `GenericDDR` with `FRFCFS`, open rows, all-bank refresh and the
    /// map `RoBaRaCoCh`, command for command; its rules of a clock are in `channel/ramulator2.rs`.
    /// With it come the two latencies between ranks that its DDR3 and DDR4 have and the standards
    /// do not. A completion is a clock after the last beat, since it looks at a request in the clock
    /// after it came.
    pub fn ramulator2() -> ControllerParams {
        ControllerParams {
            scheduler: Scheduler::Ramulator2,
            rules: changes(&[
                (
                    Command::Rd,
                    Command::Wr,
                    Scope::OtherRank,
                    "CL + BL/2 + tRTRS - CWL",
                    "BL/2 + tRTRS",
                ),
                (
                    Command::Wr,
                    Command::Wr,
                    Scope::OtherRank,
                    "BL/2 + tRTRS",
                    "BL/2",
                ),
            ]),
            write_high: 26,
            write_low: 6,
            order: Order::AgeFirst,
            keep_rows: false,
            refresh_blocks: Blocks::Channel,
            back_delay: 1,
            mapping: Mapping {
                order: "row bank bank_group rank column channel".to_owned(),
                xor: Vec::new(),
            },
            ..ControllerParams::frfcfs()
        }
    }

    /// DRAMsim3 with the settings of its DDR3 and DDR4 files: 32 transactions of each kind, queues
    /// of 8 commands by bank, open pages, refreshes staggered over the ranks, the map
    /// `rochrababgco`; its rules of a clock are in `channel/dramsim3.rs`. With it come the
    /// latencies that follow from `tRTRS = 1` in these files.
    pub fn dramsim3() -> ControllerParams {
        let (rd, wr) = (Command::Rd, Command::Wr);
        let other = Scope::OtherRank;
        ControllerParams {
            scheduler: Scheduler::Dramsim3,
            rules: changes(&[
                (
                    rd,
                    wr,
                    Scope::Rank,
                    "CL + BL/2 + 2 - CWL",
                    "CL + BL/2 + 1 - CWL",
                ),
                (rd, rd, other, "BL/2 + tRTRS", "BL/2 + 1"),
                (wr, wr, other, "BL/2 + tRTRS", "BL/2"),
                (
                    rd,
                    wr,
                    other,
                    "CL + BL/2 + tRTRS - CWL",
                    "CL + BL/2 + 1 - CWL",
                ),
                (
                    wr,
                    rd,
                    other,
                    "max(1, CWL + BL/2 + tRTRS - CL)",
                    "max(1, CWL + BL/2 + 1 - CL)",
                ),
            ]),
            bank_queue: 8,
            idle_writes: 9,
            write_high: 32,
            write_low: 0,
            write_when_idle: false,
            merge_reads: true,
            order: Order::AgeFirst,
            hit_cap: 4,
            mapping: Mapping {
                order: "row channel rank bank bank_group column".to_owned(),
                xor: Vec::new(),
            },
            ..ControllerParams::frfcfs()
        }
    }

    /// The device with the latencies of `rules`.
    pub(super) fn adapt(&self, mut d: DeviceSpec) -> Result<DeviceSpec, Error> {
        if self.rules.is_empty() {
            return Ok(d);
        }
        let device = d.clone();
        let timings = device.resolve_timings()?;
        for c in &self.rules {
            for r in &mut d.rules {
                if (r.prev, r.next, r.scope, r.window) != (c.prev, c.next, c.scope, 1) {
                    continue;
                }
                let known = |e: &Expr| {
                    e.names()
                        .iter()
                        .all(|n| device.timings.iter().any(|t| t.name == *n))
                };
                if !known(&c.replaces) || !known(&c.latency) {
                    continue;
                }
                let clocks = |e: &Expr| device.clocks("controller.rules", e, &timings);
                let has = clocks(&r.latency).ok();
                if has.is_some() && has == clocks(&c.replaces).ok() {
                    r.latency = c.latency.clone();
                }
            }
        }
        Ok(d)
    }

    /// Checks the values against one another and the device.
    pub fn validate(&self, d: &DeviceSpec) -> Result<(), Error> {
        let fail = |path: &str, problem: String| {
            Err(Error::Spec {
                place: format!("controller of region {}: {path}", self.region),
                problem,
            })
        };
        if self.region.is_empty() {
            return fail("region", "is empty".to_owned());
        }
        if !self.channels.is_power_of_two() || self.channels > 64 {
            let p = format!("channels = {}", self.channels);
            return fail(&p, "a power of two up to 64 is needed".to_owned());
        }
        for (name, v) in [
            ("read_queue", self.read_queue),
            ("write_queue", self.write_queue),
        ] {
            let least = 64u32.div_ceil(d.organisation.access_bytes().max(1));
            if !(least..=MAX_QUEUE).contains(&v) {
                return fail(
                    &format!("{name} = {v}"),
                    format!("{least} (a request of 64 bytes) to {MAX_QUEUE} are possible"),
                );
            }
        }
        let (high, low) = (self.write_high, self.write_low);
        if low >= high || high > self.write_queue {
            return fail(
                &format!("write_low = {low}, write_high = {high}"),
                format!(
                    "write_low < write_high <= write_queue = {} is needed",
                    self.write_queue
                ),
            );
        }
        // A request of several bursts must find room below the mark.
        let bursts = 64u32.div_ceil(d.organisation.access_bytes().max(1));
        self.validate_scheduler(bursts)?;
        let waits = !self.write_when_idle && self.scheduler == Scheduler::General;
        if waits && self.write_queue - high + 1 < bursts {
            return fail(
                &format!("write_high = {high}"),
                format!(
                    "{} at most: else writes could wait for ever",
                    self.write_queue - bursts + 1
                ),
            );
        }
        if !self.write_when_idle && self.write_done == WriteDone::Data {
            return fail(
                "write_done = data",
                "needs write_when_idle: else the last writes would never end".to_owned(),
            );
        }
        let clocks = match self.page {
            Page::Timeout { clocks } => clocks,
            Page::Adaptive { initial, min, max } => {
                if min == 0 || min > initial || initial > max {
                    return fail(
                        "page.adaptive",
                        "1 <= min <= initial <= max is needed".to_owned(),
                    );
                }
                max
            }
            _ => 1,
        };
        for (name, v, min) in [
            ("page timeout", clocks, 1),
            ("starvation", self.starvation, 0),
            ("hit_cap", self.hit_cap, 0),
            ("front_delay", self.front_delay, 0),
            ("back_delay", self.back_delay, 0),
        ] {
            if !(min..=1 << 30).contains(&v) {
                return fail(&format!("{name} = {v}"), format!("{min} to 2^30 clocks"));
            }
        }
        let wanted = match self.refresh {
            RefreshMode::Off => None,
            RefreshMode::AllBank => Some(Command::RefAll),
            RefreshMode::PerBank => Some(Command::RefBank),
        };
        if let Some(c) = wanted {
            if !d.refresh.iter().any(|r| r.command == c) {
                return fail(
                    match c {
                        Command::RefBank => "refresh = per_bank",
                        _ => "refresh = all_bank",
                    },
                    format!(
                        "the device {} has no {c}: choose off or one of its own",
                        d.name
                    ),
                );
            }
        }
        if let (Some(c), Blocks::Channel) = (wanted, self.refresh_blocks) {
            let [row, busy] = d.refresh_demand(c)?.map(u64::from);
            let need = row * u64::from(d.organisation.ranks) + busy;
            for r in d.refresh.iter().filter(|r| r.command == c) {
                let interval = d.clocks("refresh", &r.interval, &d.resolve_timings()?)?;
                if u64::from(interval) <= need {
                    return fail(
                        "refresh_blocks = channel",
                        format!("an interval of {interval} clocks between {c}: more than {need} are needed where the \
                            refresh of each rank stops the channel, else requests starve"),
                    );
                }
            }
        }
        if self.refresh_postpone > 8 {
            let p = format!("refresh_postpone = {}", self.refresh_postpone);
            return fail(&p, "0 to 8 are possible".to_owned());
        }
        if self.write_pause && d.write_pause.is_none() {
            return fail(
                "write_pause",
                format!("the device {} cannot pause its cell writes", d.name),
            );
        }
        if self.write_pause {
            let (clean, dirty) = d.closing(&d.resolve_timings()?)?;
            if dirty <= clean {
                return fail(
                    "write_pause",
                    format!("there is no cell write to pause: PRE -> ACT of {} takes {dirty} clocks after a write and \
                        {clean} otherwise", d.name),
                );
            }
        }
        Ok(())
    }

    /// Checks the keys that only some schedulers have.
    fn validate_scheduler(&self, bursts: u32) -> Result<(), Error> {
        let name = match self.scheduler {
            Scheduler::General => "general",
            Scheduler::Ramulator2 => "ramulator2",
            Scheduler::Dramsim3 => "dramsim3",
        };
        let fail = |key: &str, problem: String| {
            Err(Error::Spec {
                place: format!("controller of region {}: {key}", self.region),
                problem,
            })
        };
        let needs = |key: &str, fine: bool, value: &str| {
            if fine {
                Ok(())
            } else {
                fail(key, format!("{value} is needed with scheduler = {name}"))
            }
        };
        if self.scheduler == Scheduler::Dramsim3 {
            if !(1..=MAX_BANK_QUEUE).contains(&self.bank_queue) {
                let p = format!("bank_queue = {}", self.bank_queue);
                return fail(&p, format!("1 to {MAX_BANK_QUEUE} are possible"));
            }
            let most = (self.write_queue + 1).saturating_sub(bursts);
            if !(1..=most).contains(&self.idle_writes) {
                let p = format!("idle_writes = {}", self.idle_writes);
                return fail(
                    &p,
                    format!("1 to {most} are possible, else writes could wait for ever"),
                );
            }
            needs("write_low", self.write_low == 0, "0")?;
            needs("write_when_idle", !self.write_when_idle, "false")?;
            needs("hit_cap", self.hit_cap > 0, "1 or more")?;
            needs("keep_rows", self.keep_rows, "true")?;
            let target = self.refresh_blocks == Blocks::Target;
            needs("refresh_blocks", target, "target")?;
        } else {
            needs("bank_queue", self.bank_queue == 0, "0")?;
            needs("idle_writes", self.idle_writes == 0, "0")?;
        }
        if self.scheduler == Scheduler::Ramulator2 {
            needs("write_when_idle", self.write_when_idle, "true")?;
            needs("hit_cap", self.hit_cap == 0, "0")?;
            needs("keep_rows", !self.keep_rows, "false")?;
            let channel = self.refresh_blocks == Blocks::Channel;
            needs("refresh_blocks", channel, "channel")?;
        }
        if self.scheduler != Scheduler::General {
            needs("order", self.order == Order::AgeFirst, "age_first")?;
            needs("starvation", self.starvation == 0, "0")?;
            needs("page", self.page == Page::Open, "open")?;
            let off_or_all = self.refresh != RefreshMode::PerBank;
            needs("refresh", off_or_all, "all_bank or off")?;
            needs("refresh_postpone", self.refresh_postpone == 0, "0")?;
            needs("write_pause", !self.write_pause, "false")?;
        }
        Ok(())
    }
}

/// Rules with the latency that they have and the one in its place; an expression here that is wrong
/// would make a policy without its change, which the tests of the policies would show.
fn changes(all: &[(Command, Command, Scope, &str, &str)]) -> Vec<RuleChange> {
    let change = |&(prev, next, scope, replaces, latency): &(_, _, _, &str, &str)| {
        Some(RuleChange {
            prev,
            next,
            scope,
            replaces: Expr::parse(replaces).ok()?,
            latency: Expr::parse(latency).ok()?,
        })
    };
    all.iter().filter_map(change).collect()
}
