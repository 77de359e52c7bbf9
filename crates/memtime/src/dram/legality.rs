//! The device's rules alone, without queues or policies: when may a command be issued? For tests of
//! tables, and for other schedulers.

use super::spec::{Command, DeviceSpec};
use super::timing::{Table, Times, ACT, PRE, PREA, RD, REFA, REFB, WR};
use crate::error::Error;

/// A bank of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankAt {
    /// Rank.
    pub rank: u32,
    /// Bank group of the rank.
    pub group: u32,
    /// Bank of the group.
    pub bank: u32,
}

/// Rules of a device, and the constraints from the commands issued so far. Only times are checked:
/// whether a bank is open is up to the caller. Cell writes cannot be paused here; `PAUSE` and
/// `RESUM` have no effect.
#[derive(Clone, Debug)]
pub struct Legality {
    table: Table,
    times: Times,
    open: Vec<bool>,
    dirty: Vec<bool>,
}

impl Legality {
    /// A channel on which nothing has been issued.
    pub fn new(d: &DeviceSpec) -> Result<Legality, Error> {
        let table = Table::new(d)?;
        Ok(Legality {
            times: Times::new(&table),
            open: vec![false; table.banks],
            dirty: vec![false; table.banks],
            table,
        })
    }

    fn number(&self, at: BankAt) -> usize {
        let per_rank = self.table.banks / self.table.ranks;
        at.rank as usize * per_rank + at.group as usize * self.table.per_group + at.bank as usize
    }

    fn rank(&self, at: BankAt) -> std::ops::Range<usize> {
        let per_rank = self.table.banks / self.table.ranks;
        let first = at.rank as usize * per_rank;
        first..first + per_rank
    }

    /// First clock at which the rules allow `c`. For commands that concern a rank, bank group and
    /// bank are ignored.
    ///
    /// # Panics
    /// If there is no such bank.
    pub fn earliest(&self, c: Command, at: BankAt) -> u64 {
        let bank = self.number(at);
        let t = &self.table;
        match c {
            Command::Act => self.times.bank_command(t, bank, ACT),
            Command::Pre => self.times.bank_command(t, bank, PRE),
            Command::Rd | Command::RdA => self.times.bank_command(t, bank, RD),
            Command::Wr | Command::WrA => self.times.bank_command(t, bank, WR),
            Command::RefBank => self.times.bank_command(t, bank, REFB),
            Command::Pause | Command::Resume => 0,
            Command::RefAll => self.times.rank_command(at.rank as usize, REFA),
            Command::PreAll => self
                .rank(at)
                .filter(|&b| self.open[b])
                .map(|b| self.times.bank_command(t, b, PRE))
                .fold(self.times.rank_command(at.rank as usize, PREA), u64::max),
        }
    }

    /// Records that `c` is issued at `clock`, which is not checked.
    ///
    /// # Panics
    /// If there is no such bank.
    pub fn issue(&mut self, c: Command, at: BankAt, clock: u64) {
        let bank = self.number(at);
        let dirty = self.dirty[bank];
        let t = &self.table;
        match c {
            Command::Act => {
                self.times.issue(t, ACT, bank, clock, false);
                self.open[bank] = true;
                self.dirty[bank] = false;
            }
            Command::Pre => {
                self.times.issue(t, PRE, bank, clock, dirty);
                self.open[bank] = false;
            }
            Command::PreAll => {
                for b in self.rank(at) {
                    if std::mem::take(&mut self.open[b]) {
                        self.times.issue(&self.table, PRE, b, clock, self.dirty[b]);
                    }
                }
                self.times.issue(&self.table, PREA, bank, clock, false);
            }
            Command::Rd | Command::RdA => self.times.issue(t, RD, bank, clock, dirty),
            Command::Wr | Command::WrA => {
                self.dirty[bank] = true;
                self.times.issue(t, WR, bank, clock, true);
            }
            Command::RefAll => self.times.issue(t, REFA, bank, clock, false),
            Command::RefBank => self.times.issue(t, REFB, bank, clock, false),
            Command::Pause | Command::Resume => {}
        }
        if matches!(c, Command::RdA | Command::WrA) {
            let start = self.times.auto_precharge(bank, clock);
            self.times
                .issue(&self.table, PRE, bank, start, self.dirty[bank]);
            self.open[bank] = false;
        }
    }
}
