//! Rules compiled to integer clocks, and the earliest clock of every command.
//!
//! Each level (bank, bank group, rank, channel) keeps, for every command, the first clock at which
//! the rules allow it so far; a command may be issued at the greatest of its levels' clocks.
//! Windows are evaluated when the earlier command is issued: the next one is constrained by the
//! `window`-th last.

use serde::{Deserialize, Serialize};

use super::spec::{Command, DeviceSpec, RowState, Scope};
use crate::error::Error;

/// Commands that rules can refer to.
pub(crate) const N: usize = 8;
pub(crate) const ACT: usize = 0;
pub(crate) const PRE: usize = 1;
pub(crate) const PREA: usize = 2;
pub(crate) const RD: usize = 3;
pub(crate) const WR: usize = 4;
pub(crate) const REFA: usize = 5;
pub(crate) const REFB: usize = 6;
/// Commands that rules cannot refer to.
const OTHER: usize = 7;

/// Number of a command in rules; commands with auto-precharge have the number of the plain ones.
pub(crate) const fn index(c: Command) -> usize {
    match c {
        Command::Act => ACT,
        Command::Pre => PRE,
        Command::PreAll => PREA,
        Command::Rd | Command::RdA => RD,
        Command::Wr | Command::WrA => WR,
        Command::RefAll => REFA,
        Command::RefBank => REFB,
        Command::Pause | Command::Resume => OTHER,
    }
}

/// A cell write that can be paused, in clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellWrite {
    /// `PRE` to the beginning of the cell write.
    pub close: u64,
    /// Its length.
    pub length: u64,
    /// Length of an iteration.
    pub step: u64,
    /// Clocks lost by a resumption.
    pub overhead: u64,
}

/// A rule in clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    pub next: usize,
    pub scope: Scope,
    pub latency: u64,
    pub window: usize,
    pub row: RowState,
    /// Where the ring buffer of each window begins.
    ring: usize,
}

/// A later command, and the clocks until it.
type Distance = (usize, u64);

/// A level of wider scope than bank that a command raises, see [`Times`].
#[derive(Clone, Copy, Debug)]
struct Raise {
    level: usize,
    next: usize,
    latency: u64,
}

/// A rule that counts the last commands of a group, a rank or the channel.
#[derive(Clone, Copy, Debug)]
struct Window {
    raise: Raise,
    length: usize,
    /// Where its ring buffer begins.
    ring: usize,
}

/// What a command in a bank group does to levels of wider scope than bank.
#[derive(Clone, Debug, Default)]
struct After {
    raises: Vec<Raise>,
    windows: Vec<Window>,
}

/// The rule table in clocks.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rules: [Vec<Compiled>; N],
    /// Rules of scope bank that follow whatever happened before.
    of_bank: [Vec<Distance>; N],
    /// Rules of wider scope, see [`Table::after`].
    wider: Vec<After>,
    /// The other rules: windows of a bank, and what depends on the state of the row.
    other: [Vec<Compiled>; N],
    rings: usize,
    pub banks: usize,
    pub groups: usize,
    pub ranks: usize,
    pub per_group: usize,
    /// Banks of a rank.
    pub per_rank: usize,
    /// Bank groups of a rank.
    pub groups_per_rank: usize,
    /// By bank: its group and its rank, numbered over the channel.
    at: Vec<(u16, u16)>,
    pub read_data: u64,
    pub write_data: u64,
    /// `REFab` and `REFpb`; 0 where the device has none.
    pub interval: [u64; 2],
    /// Data bus time of a burst, clocks, for utilisation: the shorter of the
    /// distances of two reads and two writes.
    pub burst: u64,
    /// Set by [`Table::split_cell_writes`].
    pub cell: Option<CellWrite>,
    /// Clocks from `PRE` of a written row to the end of its cell write; 0 for a device that writes
    /// its cells earlier.
    pub close_written: u64,
}

impl Table {
    pub fn new(d: &DeviceSpec) -> Result<Table, Error> {
        d.validate()?;
        let t = d.resolve_timings()?;
        let o = &d.organisation;
        let mut table = Table {
            rules: Default::default(),
            of_bank: Default::default(),
            wider: Default::default(),
            other: Default::default(),
            rings: 0,
            banks: (o.ranks * o.banks()) as usize,
            groups: (o.ranks * o.bank_groups) as usize,
            ranks: o.ranks as usize,
            per_group: o.banks_per_group as usize,
            per_rank: o.banks() as usize,
            groups_per_rank: o.bank_groups as usize,
            at: (0..o.ranks * o.banks())
                .map(|b| ((b / o.banks_per_group) as u16, (b / o.banks()) as u16))
                .collect(),
            read_data: d.clocks("read_data", &d.read_data, &t)?.into(),
            write_data: d.clocks("write_data", &d.write_data, &t)?.into(),
            interval: [0; 2],
            burst: u64::MAX,
            cell: None,
            close_written: match d.closing(&t)? {
                (clean, dirty) if dirty > clean => dirty.into(),
                _ => 0,
            },
        };
        for r in &d.rules {
            let wide = r.prev.rank_wide() || r.next.rank_wide();
            let scope = match r.scope {
                Scope::Bank | Scope::BankGroup if wide => Scope::Rank,
                s => s,
            };
            let latency = d.clocks("rule", &r.latency, &t)?.into();
            let (prev, next) = (index(r.prev), index(r.next));
            if prev == next && (prev == RD || prev == WR) && r.window == 1 && latency > 0 {
                table.burst = table.burst.min(latency);
            }
            let window = r.window as usize;
            let ring = table.rings;
            if window > 1 {
                let instances = match scope {
                    Scope::Bank => table.banks,
                    Scope::BankGroup => table.groups,
                    Scope::Rank => table.ranks,
                    _ => 1,
                };
                // One more word for the position.
                table.rings += instances * (window + 1);
            }
            table.rules[prev].push(Compiled {
                next,
                scope,
                latency,
                window,
                row: r.row,
                ring,
            });
        }
        if table.burst == u64::MAX {
            table.burst = 0;
        }
        for r in &d.refresh {
            let i = usize::from(r.command == Command::RefBank);
            table.interval[i] = d.clocks("refresh", &r.interval, &t)?.into();
        }
        table.sort_rules();
        Ok(table)
    }

    /// Place of a command in a bank group of the channel among all of them.
    #[inline]
    pub fn after(&self, c: usize, group: usize) -> usize {
        c * self.groups + group
    }

    fn sort_rules(&mut self) {
        self.wider = vec![After::default(); N * self.groups];
        for (c, rules) in self.rules.iter().enumerate() {
            self.of_bank[c].clear();
            self.other[c].clear();
            for r in rules {
                let own = r.scope == Scope::Bank;
                if r.row != RowState::Any || (own && r.window > 1) {
                    self.other[c].push(*r);
                    continue;
                }
                if own {
                    self.of_bank[c].push((r.next, r.latency));
                    continue;
                }
                for group in 0..self.groups {
                    let after = self.after(c, group);
                    let raises = self.levels(r.scope, group).map(|level| Raise {
                        level,
                        next: r.next,
                        latency: r.latency,
                    });
                    if r.window == 1 {
                        self.wider[after].raises.extend(raises);
                        continue;
                    }
                    let instance = match r.scope {
                        Scope::BankGroup => group,
                        Scope::Rank => group / self.groups_per_rank,
                        _ => 0,
                    };
                    let windows = raises.map(|raise| Window {
                        raise,
                        length: r.window,
                        ring: r.ring + instance * (r.window + 1),
                    });
                    self.wider[after].windows.extend(windows);
                }
            }
        }
    }

    /// Numbers of the levels that a rule of wider scope than bank raises after a command in a bank
    /// group: groups, then ranks, then the channel.
    pub fn levels(&self, scope: Scope, group: usize) -> impl Iterator<Item = usize> {
        let (groups, ranks, per_rank) = (self.groups, self.ranks, self.groups_per_rank);
        let rank = group / per_rank;
        let first = rank * per_rank;
        let (levels, but) = match scope {
            Scope::Bank => (0..0, None),
            Scope::BankGroup => (group..group + 1, None),
            Scope::OtherBankGroup => (first..first + per_rank, Some(group)),
            Scope::Rank => (groups + rank..groups + rank + 1, None),
            Scope::OtherRank => (groups..groups + ranks, Some(groups + rank)),
            Scope::Channel => (groups + ranks..groups + ranks + 1, None),
        };
        levels.filter(move |l| Some(*l) != but)
    }

    /// The rules that follow from a command.
    pub fn rules_from(&self, c: usize) -> &[Compiled] {
        &self.rules[c]
    }

    /// Group and rank of a bank, numbered over the channel.
    #[inline]
    pub fn group_and_rank(&self, bank: usize) -> (usize, usize) {
        let (group, rank) = self.at[bank];
        (group.into(), rank.into())
    }

    /// Whether a rule of wider scope than bank concerns a bank after a command in a bank group.
    pub fn concerns(&self, scope: Scope, group: usize, bank: usize) -> bool {
        let (to_group, to_rank) = self.group_and_rank(bank);
        let rank = group / self.groups_per_rank;
        match scope {
            Scope::Bank => false,
            Scope::BankGroup => to_group == group,
            Scope::OtherBankGroup => to_group != group && to_rank == rank,
            Scope::Rank => to_rank == rank,
            Scope::OtherRank => to_rank != rank,
            Scope::Channel => true,
        }
    }

    /// Removes the cell write from the rules if it can be paused: a `PRE` of a dirty row then
    /// counts as one of a clean row, and the caller is responsible for the rest.
    pub fn split_cell_writes(mut self, d: &DeviceSpec) -> Result<Table, Error> {
        let Some(p) = &d.write_pause else {
            return Ok(self);
        };
        let t = d.resolve_timings()?;
        let (clean, dirty) = d.closing(&t)?;
        if dirty <= clean {
            return Ok(self);
        }
        self.cell = Some(CellWrite {
            close: clean.into(),
            length: (dirty - clean).into(),
            step: d
                .clocks("write_pause.granularity", &p.granularity, &t)?
                .into(),
            overhead: d.clocks("write_pause.overhead", &p.overhead, &t)?.into(),
        });
        let split = |r: &Compiled| r.next == ACT && r.scope == Scope::Bank && r.window == 1;
        self.rules[PRE].retain(|r| !(split(r) && r.row == RowState::Dirty));
        for r in self.rules[PRE].iter_mut().filter(|r| split(r)) {
            r.row = RowState::Any;
        }
        self.sort_rules();
        Ok(self)
    }
}

type Level = [u64; N];

/// Earliest clocks of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "SavedTimes", into = "SavedTimes")]
pub(crate) struct Times {
    bank: Vec<Level>,
    /// Levels of wider scope: groups, then ranks, then the channel.
    wider: Vec<Level>,
    groups: usize,
    rings: Vec<u64>,
}

/// The form of [`Times`] in a saved state.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTimes {
    bank: Vec<Level>,
    group: Vec<Level>,
    rank: Vec<Level>,
    channel: Level,
    rings: Vec<u64>,
}

impl From<SavedTimes> for Times {
    fn from(s: SavedTimes) -> Times {
        let mut wider = s.group;
        let groups = wider.len();
        wider.extend(s.rank);
        wider.push(s.channel);
        Times {
            bank: s.bank,
            wider,
            groups,
            rings: s.rings,
        }
    }
}

impl From<Times> for SavedTimes {
    fn from(mut t: Times) -> SavedTimes {
        let channel = t.wider.pop().unwrap_or_default();
        let rank = t.wider.split_off(t.groups);
        SavedTimes {
            bank: t.bank,
            group: t.wider,
            rank,
            channel,
            rings: t.rings,
        }
    }
}

/// Entry of a ring buffer that has not been used.
const EMPTY: u64 = u64::MAX;

/// Puts a command into a ring buffer; returns the clock of the oldest of the last `window`, this one
/// included.
#[inline]
fn counted(rings: &mut [u64], ring: usize, window: usize, clock: u64) -> Option<u64> {
    let (position, ring) = rings[ring..=ring + window]
        .split_first_mut()
        .expect("a ring has a position");
    let p = if *position >= window as u64 {
        0
    } else {
        *position
    };
    ring[p as usize] = clock;
    *position = if p + 1 == window as u64 { 0 } else { p + 1 };
    let oldest = ring[*position as usize];
    (oldest != EMPTY).then_some(oldest)
}

impl Times {
    pub fn new(t: &Table) -> Times {
        Times {
            bank: vec![[0; N]; t.banks],
            wider: vec![[0; N]; t.groups + t.ranks + 1],
            groups: t.groups,
            rings: vec![EMPTY; t.rings],
        }
    }

    /// Whether there are as many timers as the table needs.
    pub fn fits(&self, t: &Table) -> bool {
        let found = [self.bank.len(), self.groups, self.wider.len()];
        found == [t.banks, t.groups, t.groups + t.ranks + 1] && self.rings.len() == t.rings
    }

    /// Whether no timer is later than clock `far`.
    pub fn are_before(&self, far: u64) -> bool {
        let mut levels = self.bank.iter().chain(&self.wider).flatten();
        levels.all(|c| *c <= far) && self.rings.iter().all(|c| *c <= far || *c == EMPTY)
    }

    /// Earliest clock of a command to one bank.
    #[inline]
    pub fn bank_command(&self, t: &Table, bank: usize, c: usize) -> u64 {
        let (group, rank) = t.group_and_rank(bank);
        self.known(bank, group, rank, c)
    }

    /// Earliest clock of bank, group and rank from known numbers.
    #[inline]
    pub fn known(&self, bank: usize, group: usize, rank: usize, c: usize) -> u64 {
        self.bank[bank][c]
            .max(self.wider[group][c])
            .max(self.rank_command(rank, c))
    }

    /// What the rules of the scope of a level allow; see [`Table::levels`].
    #[inline]
    pub fn of_level(&self, level: usize, c: usize) -> u64 {
        self.wider[level][c]
    }

    /// Earliest clock of a command to a rank.
    #[inline]
    pub fn rank_command(&self, rank: usize, c: usize) -> u64 {
        let channel = self.wider[self.wider.len() - 1][c];
        self.wider[self.groups + rank][c].max(channel)
    }

    /// Latest clock until which any refresh has to wait.
    pub fn refreshes_from(&self) -> u64 {
        let levels = self.bank.iter().chain(&self.wider);
        levels.map(|l| l[REFA].max(l[REFB])).max().unwrap_or(0)
    }

    /// First clock after `clock` at which rules of scope bank allow a precharge.
    #[inline]
    pub fn auto_precharge(&self, bank: usize, clock: u64) -> u64 {
        self.bank[bank][PRE].max(clock + 1)
    }

    /// Records a command. `bank` is any bank of the rank for one that concerns
    /// the rank; `dirty` is the state of the row.
    #[inline(always)]
    pub fn issue(&mut self, t: &Table, c: usize, bank: usize, clock: u64, dirty: bool) {
        let (group, _) = t.group_and_rank(bank);
        let own = &mut self.bank[bank];
        for &(next, latency) in &t.of_bank[c] {
            let at = &mut own[next % N];
            *at = (*at).max(clock + latency);
        }
        let after = &t.wider[t.after(c, group)];
        for r in &after.raises {
            let at = &mut self.wider[r.level][r.next % N];
            *at = (*at).max(clock + r.latency);
        }
        for w in &after.windows {
            if let Some(from) = counted(&mut self.rings, w.ring, w.length, clock) {
                let at = &mut self.wider[w.raise.level][w.raise.next % N];
                *at = (*at).max(from + w.raise.latency);
            }
        }
        if !t.other[c].is_empty() {
            self.issue_others(t, c, bank, clock, dirty);
        }
    }

    fn issue_others(&mut self, t: &Table, c: usize, bank: usize, clock: u64, dirty: bool) {
        let (group, rank) = t.group_and_rank(bank);
        for r in &t.other[c] {
            match r.row {
                RowState::Clean if dirty => continue,
                RowState::Dirty if !dirty => continue,
                _ => {}
            }
            let mut from = clock;
            if r.window > 1 {
                let instance = match r.scope {
                    Scope::Bank => bank,
                    Scope::BankGroup => group,
                    Scope::Rank => rank,
                    _ => 0,
                };
                let ring = r.ring + instance * (r.window + 1);
                match counted(&mut self.rings, ring, r.window, clock) {
                    Some(first) => from = first,
                    None => continue,
                }
            }
            let time = from + r.latency;
            let raise = |l: &mut Level| l[r.next] = l[r.next].max(time);
            match r.scope {
                Scope::Bank => raise(&mut self.bank[bank]),
                scope => t
                    .levels(scope, group)
                    .for_each(|l| raise(&mut self.wider[l])),
            }
        }
    }
}
