//! An independent checker of DRAM command logs.
//!
//! It knows what the limits mean (a bank must be precharged before it is
//! activated, data bursts must not overlap, write recovery counts from the end
//! of the data) and nothing of the rule tables or of the scheduler: it keeps
//! the state of each bank and of the data bus, and looks at each command once.

mod limits;
mod pause;
#[cfg(test)]
mod tests;

pub use limits::{Limits, Missing};

use std::fmt;

use crate::dram::{Command, DeviceSpec, Issued};
use crate::error::Error;

/// A command, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Opens a row.
    Activate,
    /// Closes the row of a bank.
    Precharge,
    /// Closes the rows of all banks of a rank.
    PrechargeAll,
    /// Reads a burst.
    Read,
    /// Reads a burst, then closes the row.
    ReadPrecharge,
    /// Writes a burst.
    Write,
    /// Writes a burst, then closes the row.
    WritePrecharge,
    /// Refreshes a rank.
    Refresh,
    /// Refreshes one bank.
    RefreshBank,
    /// Pauses the cell write of a bank.
    Pause,
    /// Resumes it.
    Resume,
}

/// One entry of the command log of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Clock in which the command is on the bus.
    pub at: u64,
    /// The command.
    pub op: Op,
    /// Rank.
    pub rank: u32,
    /// Bank group of the rank.
    pub group: u32,
    /// Bank of the group.
    pub bank: u32,
    /// Row: of an activation, and of a column command if it is known.
    pub row: Option<u64>,
}

impl From<&Issued> for Entry {
    fn from(i: &Issued) -> Entry {
        let (op, row) = match i.op {
            Command::Act => (Op::Activate, Some(i.row.into())),
            Command::Pre => (Op::Precharge, None),
            Command::PreAll => (Op::PrechargeAll, None),
            Command::Rd => (Op::Read, Some(i.row.into())),
            Command::RdA => (Op::ReadPrecharge, Some(i.row.into())),
            Command::Wr => (Op::Write, Some(i.row.into())),
            Command::WrA => (Op::WritePrecharge, Some(i.row.into())),
            Command::RefAll => (Op::Refresh, None),
            Command::RefBank => (Op::RefreshBank, None),
            Command::Pause => (Op::Pause, None),
            Command::Resume => (Op::Resume, None),
        };
        Entry {
            at: i.clock,
            op,
            rank: i.rank.into(),
            group: i.bank_group.into(),
            bank: i.bank.into(),
            row,
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number of the command in the log, from 0.
    pub index: usize,
    /// The offending command.
    pub entry: Entry,
    /// The rule, by the name of its timing value or in words.
    pub rule: &'static str,
    /// Earliest clock that the rule allows, if the rule is about time.
    pub earliest: Option<u64>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.entry;
        write!(
            f,
            "command {}: {:?} rank {} group {} bank {} at clock {}: {}",
            self.index, e.op, e.rank, e.group, e.bank, e.at, self.rule
        )?;
        match self.earliest {
            Some(t) => write!(f, " allows it from clock {t}"),
            None => Ok(()),
        }
    }
}

/// Refreshes that may be postponed (JESD79-3F, JESD79-4).
const POSTPONED: u64 = 8;

#[derive(Clone, Debug, Default)]
struct Bank {
    open: bool,
    row: Option<u64>,
    activated: Option<u64>,
    /// Start of the last precharge, and how long it takes.
    precharged: Option<(u64, u64)>,
    read: Option<u64>,
    /// End of the last write's data.
    written: Option<u64>,
    refreshed: Option<u64>,
    write: Option<pause::CellWrite>,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    banks: Vec<Bank>,
    /// Clocks of the last four activations (and refreshes of banks), newest last.
    recent: [Option<u64>; 4],
    /// Last activation by bank group.
    activated: Vec<Option<(u64, u32)>>,
    read: Vec<Option<u64>>,
    write: Vec<Option<u64>>,
    precharged: Option<u64>,
    all_precharged: Option<u64>,
    refreshed: Option<u64>,
    bank_refreshed: Option<(u64, u32, u32)>,
    /// Ends of the newest read and write data.
    data: [Option<u64>; 2],
}

/// The checker of one channel.
#[derive(Clone, Debug)]
pub struct Checker {
    limits: Limits,
    banks_per_group: u32,
    groups: u32,
    ranks: Vec<Rank>,
    last: Option<u64>,
    seen: usize,
    found: Vec<Violation>,
}

impl Checker {
    /// A channel of idle ranks with closed banks at clock 0.
    pub fn new(limits: Limits, ranks: u32, groups: u32, banks_per_group: u32) -> Checker {
        let rank = Rank {
            banks: vec![Bank::default(); (groups * banks_per_group) as usize],
            activated: vec![None; groups as usize],
            read: vec![None; groups as usize],
            write: vec![None; groups as usize],
            ..Rank::default()
        };
        Checker {
            limits,
            banks_per_group,
            groups,
            ranks: vec![rank; ranks as usize],
            last: None,
            seen: 0,
            found: Vec::new(),
        }
    }

    /// The checker of a channel of this device.
    pub fn of(d: &DeviceSpec) -> Result<Checker, Error> {
        let o = &d.organisation;
        let limits = Limits::of(d)?;
        Ok(Checker::new(
            limits,
            o.ranks,
            o.bank_groups,
            o.banks_per_group,
        ))
    }

    /// Checks a whole log.
    pub fn check(mut self, log: &[Entry]) -> Vec<Violation> {
        for e in log {
            self.command(*e);
        }
        self.found
    }

    /// The violations found so far.
    pub fn violations(&self) -> &[Violation] {
        &self.found
    }

    /// Checks the next command.
    pub fn command(&mut self, e: Entry) {
        let index = self.seen;
        self.seen += 1;
        let mut judge = Judge {
            index,
            entry: e,
            found: &mut self.found,
        };
        if e.rank as usize >= self.ranks.len()
            || e.group >= self.groups
            || e.bank >= self.banks_per_group
        {
            judge.state("a rank, group or bank that is not there");
            return;
        }
        if let Some(last) = self.last {
            judge.time("one command a clock", last + 1);
        }
        self.last = Some(e.at);
        let at = (e.group * self.banks_per_group + e.bank) as usize;
        match e.op {
            Op::Activate => activate(
                &self.limits,
                &mut self.ranks[e.rank as usize],
                at,
                &mut judge,
            ),
            Op::Read | Op::ReadPrecharge | Op::Write | Op::WritePrecharge => {
                column(&self.limits, &mut self.ranks, at, &mut judge)
            }
            Op::Precharge | Op::PrechargeAll => precharge(
                &self.limits,
                &mut self.ranks[e.rank as usize],
                at,
                &mut judge,
            ),
            Op::Pause | Op::Resume => {
                let b = &mut self.ranks[e.rank as usize].banks[at];
                match e.op {
                    Op::Pause => pause::pause(&self.limits, b, &mut judge),
                    _ => pause::resume(&self.limits, b, &mut judge),
                }
            }
            Op::Refresh => refresh(&self.limits, &mut self.ranks[e.rank as usize], &mut judge),
            Op::RefreshBank => refresh_bank(
                &self.limits,
                &mut self.ranks[e.rank as usize],
                at,
                &mut judge,
            ),
        }
    }

    /// Ends the log at clock `at`, and checks whether a refresh is overdue.
    pub fn finish(mut self, at: u64) -> Vec<Violation> {
        if let (Some(refi), Some(_)) = (self.limits.refi, self.limits.rfc) {
            for rank in 0..self.ranks.len() {
                let r = &self.ranks[rank];
                let by_bank = r.bank_refreshed.is_some();
                let last = if by_bank {
                    r.banks.iter().map(|b| b.refreshed.unwrap_or(0)).min()
                } else {
                    r.refreshed
                };
                if at > last.unwrap_or(0) + (POSTPONED + 1) * refi {
                    let entry = Entry {
                        at,
                        op: Op::Refresh,
                        rank: rank as u32,
                        group: 0,
                        bank: 0,
                        row: None,
                    };
                    let mut judge = Judge {
                        index: self.seen,
                        entry,
                        found: &mut self.found,
                    };
                    judge.state("tREFI: refresh overdue");
                }
            }
        }
        self.found
    }
}

struct Judge<'a> {
    index: usize,
    entry: Entry,
    found: &'a mut Vec<Violation>,
}

impl Judge<'_> {
    fn time(&mut self, rule: &'static str, earliest: u64) {
        if self.entry.at < earliest {
            self.push(rule, Some(earliest));
        }
    }

    fn after(&mut self, rule: &'static str, since: Option<u64>, clocks: u64) {
        if let Some(s) = since {
            self.time(rule, s + clocks);
        }
    }

    fn state(&mut self, rule: &'static str) {
        self.push(rule, None);
    }

    fn push(&mut self, rule: &'static str, earliest: Option<u64>) {
        self.found.push(Violation {
            index: self.index,
            entry: self.entry,
            rule,
            earliest,
        });
    }
}

fn activate(l: &Limits, r: &mut Rank, at: usize, j: &mut Judge) {
    let e = j.entry;
    all_closed(l, r, j);
    let b = &mut r.banks[at];
    if b.open {
        j.state("ACT to a bank with an open row");
    }
    match &b.write {
        Some(w) if w.touched => pause::activate(l, b, w, j),
        _ => {
            if let Some((start, length)) = b.precharged {
                j.time("tRP", start + length);
            }
        }
    }
    j.after("tRC", b.activated, l.rc);
    for (group, last) in r.activated.iter().enumerate() {
        if let Some((t, bank)) = *last {
            let same = group == e.group as usize;
            if !(same && bank == e.bank) {
                let rule = if same { "tRRD (same group)" } else { "tRRD" };
                j.time(rule, t + l.rrd[usize::from(!same)]);
            }
        }
    }
    if let Some(faw) = l.faw {
        j.after("tFAW", r.recent[0], faw);
    }
    if let Some(rfc) = l.rfc {
        j.after("tRFC", r.refreshed, rfc);
    }
    if let Some(rfc) = l.rfc_bank {
        j.after("tRFCpb", b.refreshed, rfc);
        if let Some((t, group, bank)) = r.bank_refreshed {
            if (group, bank) != (e.group, e.bank) {
                j.time("tRRD after a bank's refresh", t + l.rrd[0]);
            }
        }
    }
    *b = Bank {
        open: true,
        row: e.row,
        activated: Some(e.at),
        refreshed: b.refreshed,
        write: b.write.filter(|w| w.stop.is_some()),
        ..Bank::default()
    };
    r.activated[e.group as usize] = Some((e.at, e.bank));
    r.recent.rotate_left(1);
    r.recent[3] = Some(e.at);
}

fn column(l: &Limits, ranks: &mut [Rank], at: usize, j: &mut Judge) {
    let e = j.entry;
    let write = matches!(e.op, Op::Write | Op::WritePrecharge);
    let start = e.at + if write { l.write_data } else { l.read_data };
    // Data of the other ranks, then of this one: [end of reads, end of writes].
    for (n, r) in ranks.iter().enumerate() {
        if n != e.rank as usize {
            for end in r.data.into_iter().flatten() {
                if start < end + l.rank_gap {
                    j.time("tRTRS", e.at + end + l.rank_gap - start);
                }
            }
        }
    }
    let r = &mut ranks[e.rank as usize];
    if let Some(end) = r.data[usize::from(write)] {
        if start < end {
            j.time("data bus", e.at + end - start);
        }
    }
    if let (true, Some(end)) = (write, r.data[0]) {
        let free = end + l.read_to_write_gap;
        if start < free {
            j.time("read to write turnaround", e.at + free - start);
        }
    }
    for group in 0..r.read.len() {
        let same = group == e.group as usize;
        let which = usize::from(!same);
        let last = if write { r.write[group] } else { r.read[group] };
        let rule = if same { "tCCD (same group)" } else { "tCCD" };
        j.after(rule, last, l.ccd[which]);
        if !write {
            let rule = if same { "tWTR (same group)" } else { "tWTR" };
            j.after(
                rule,
                r.write[group],
                l.write_data_late + l.burst + l.wtr[which],
            );
        }
    }
    let b = &mut r.banks[at];
    if !b.open {
        j.state("column command to a closed bank");
    } else if let (Some(open), Some(row)) = (b.row, e.row) {
        if open != row {
            j.state("column command to another row than the open one");
        }
    }
    j.after("tRCD", b.activated, l.rcd);
    if write {
        if b.write.is_some() {
            j.state("write to a bank whose cell write is paused");
        }
        r.write[e.group as usize] = Some(e.at);
        b.written = Some(e.at + l.write_data_late + l.burst);
    } else {
        r.read[e.group as usize] = Some(e.at);
        b.read = Some(e.at);
    }
    r.data[usize::from(write)] = Some(start + l.burst);
    if matches!(e.op, Op::ReadPrecharge | Op::WritePrecharge) {
        let recovered = if write {
            e.at + l.write_data_late + l.burst + l.wr
        } else {
            e.at + l.rtp
        };
        let kept = b.activated.map_or(0, |a| a + l.ras);
        close(l, b, recovered.max(kept));
    }
}

/// Closes a row from clock `start` on; for a written row the write of its cells takes
/// additional time beyond tRP.
fn close(l: &Limits, b: &mut Bank, start: u64) {
    b.open = false;
    b.precharged = Some((start, l.rp));
    if b.written.is_some() && l.cell_write > 0 {
        b.precharged = Some((start, l.rp + l.cell_write));
        b.write = Some(pause::CellWrite::new(start + l.rp, l.cell_write));
    }
}

/// A longer time for precharging all banks applies to every bank of the rank.
fn all_closed(l: &Limits, r: &Rank, j: &mut Judge) {
    if l.rp_all != l.rp {
        j.after("tRP of all banks", r.all_precharged, l.rp_all);
    }
}

fn may_close(l: &Limits, b: &Bank, j: &mut Judge) {
    if b.open {
        j.after("tRAS", b.activated, l.ras);
        j.after("tRTP", b.read, l.rtp);
        j.after("tWR", b.written, l.wr);
    }
}

fn precharge(l: &Limits, r: &mut Rank, at: usize, j: &mut Judge) {
    let e = j.entry;
    if let Some(ppd) = l.ppd {
        j.after("tPPD", r.precharged, ppd);
    }
    let all = e.op == Op::PrechargeAll;
    let which = if all { 0..r.banks.len() } else { at..at + 1 };
    for b in &mut r.banks[which] {
        may_close(l, b, j);
        // Precharging a closed bank does nothing.
        if b.open {
            close(l, b, e.at);
        }
    }
    r.precharged = Some(e.at);
    if all {
        r.all_precharged = Some(e.at);
    }
}

fn idle(l: &Limits, b: &Bank, j: &mut Judge) {
    if b.open {
        j.state("refresh with an open row");
    }
    if b.write.is_some_and(|w| w.stop.is_some()) {
        j.state("refresh of a bank whose cell write is paused");
    }
    if let Some((start, length)) = b.precharged {
        j.time("tRP", start + length);
    }
    j.after("tRC", b.activated, l.rc);
}

fn refresh(l: &Limits, r: &mut Rank, j: &mut Judge) {
    let at = j.entry.at;
    all_closed(l, r, j);
    for b in &r.banks {
        idle(l, b, j);
    }
    if let Some(rfc) = l.rfc {
        j.after("tRFC", r.refreshed, rfc);
    }
    if let (Some(rfc), Some((t, ..))) = (l.rfc_bank, r.bank_refreshed) {
        j.time("tRFCpb", t + rfc);
    }
    if let Some(refi) = l.refi {
        if at > r.refreshed.unwrap_or(0) + (POSTPONED + 1) * refi {
            j.state("tREFI: refresh overdue");
        }
    }
    r.refreshed = Some(at);
}

fn refresh_bank(l: &Limits, r: &mut Rank, at: usize, j: &mut Judge) {
    let e = j.entry;
    all_closed(l, r, j);
    idle(l, &r.banks[at], j);
    if let Some(rfc) = l.rfc {
        j.after("tRFC", r.refreshed, rfc);
    }
    if let (Some(rfc), Some((t, ..))) = (l.rfc_bank, r.bank_refreshed) {
        j.time("tRFCpb", t + rfc);
    }
    for (group, last) in r.activated.iter().enumerate() {
        if let Some((t, bank)) = *last {
            if (group as u32, bank) != (e.group, e.bank) {
                j.time("tRRD before a bank's refresh", t + l.rrd[0]);
            }
        }
    }
    if let Some(faw) = l.faw {
        j.after("tFAW", r.recent[0], faw);
    }
    let b = &mut r.banks[at];
    if let Some(refi) = l.refi {
        if e.at > b.refreshed.unwrap_or(0) + (POSTPONED + 1) * refi {
            j.state("tREFI: refresh overdue");
        }
    }
    b.refreshed = Some(e.at);
    r.bank_refreshed = Some((e.at, e.group, e.bank));
    r.recent.rotate_left(1);
    r.recent[3] = Some(e.at);
}
