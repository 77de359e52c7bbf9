//! The state of the engine as it is saved: one record for each machine and
//! each waiting request. The engine's own form is packed and has derived parts.

use serde::{Deserialize, Serialize};

use super::engine::{bit, Bits, Channel, State, Tags, MAX_MACHINES, NEVER, NONE, PORT_DEPTH};
use super::event::Tag;
use super::timing::Timing;
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

/// Phase of a bank machine. RCD and Column are one phase (`ready` distinguishes them), and so
/// are RTP and Precharge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// `ready`: end of the wait.
    Wait,
    /// `ready`: earliest column command.
    Column,
    /// `ready`: end of tRTP, after which new requests can no longer take over the row.
    Rtp,
    /// `ready`: end of tRP.
    Rp,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Machine {
    tag: Tag,
    /// Order of acceptance.
    order: u64,
    ready: u64,
    /// Earliest precharge by tRAS.
    ras_end: u64,
    phase: Phase,
    /// Neighbours among the machines of the same bank.
    older: u8,
    newer: u8,
}

/// One address channel of the port: a queue whose head is at the handshake.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Queue {
    queue: [Tag; PORT_DEPTH],
    first: u8,
    len: u8,
    /// Clock in which the head reached the handshake.
    came: u64,
    /// Clock at which the hold of the head ends.
    ready: u64,
}

/// See [`State`] for what the fields mean.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    now: u64,
    machines: [Machine; MAX_MACHINES],
    channels: [Queue; 2],
    next_order: u64,
    busy: u8,
    held: u8,
    marked: u8,
    passing: u8,
    writing: u8,
    newest: [u8; MAX_BANKS],
    dirty: u16,
    newest_bank: u8,
    tick_at: u64,
    begin_at: Option<u64>,
    pulse_end: u64,
    requested: bool,
    maintenance: bool,
    refreshing: bool,
    refresh_end: u64,
}

impl Saved {
    /// Ids of the writes that have not issued their column command.
    pub fn unfinished_ids(&self) -> Vec<u64> {
        let machines = Bits(self.busy).map(|i| &self.machines[i]);
        let accepted = machines
            .filter(|m| matches!(m.phase, Phase::Wait | Phase::Column))
            .map(|m| &m.tag);
        let waiting = self.channels.iter();
        let waiting = waiting.flat_map(|c| c.queue.iter().take(c.len.into()));
        let writes = accepted.chain(waiting).filter(|t| t.kind == Kind::Write);
        writes.map(|t| t.id).collect()
    }

    /// Ids of the completions to come: of reads that have not issued their column command, and of
    /// requests that wait at the port. Requests of `access` have no completion.
    pub fn add_owed(&self, ids: &mut Vec<u64>) {
        let machines = Bits(self.busy).filter_map(|i| self.machines.get(i));
        let reads = machines.filter(|m| matches!(m.phase, Phase::Wait | Phase::Column));
        let reads = reads.map(|m| &m.tag).filter(|t| t.kind == Kind::Read);
        let waiting = self.channels.iter();
        let waiting = waiting.flat_map(|c| c.queue.iter().take(c.len.into()));
        ids.extend(reads.chain(waiting).filter(|t| !t.sync).map(|t| t.id));
    }

    /// The plain form of a state.
    pub fn new(s: &State, tags: &Tags) -> Saved {
        let mut machines = [Machine {
            tag: Tag::EMPTY,
            order: 0,
            ready: 0,
            ras_end: 0,
            phase: Phase::Wait,
            older: NONE,
            newer: NONE,
        }; MAX_MACHINES];
        for i in Bits(s.busy) {
            let phase = match bit(i) {
                b if s.wait & b != 0 => Phase::Wait,
                b if s.column & b != 0 => Phase::Column,
                b if s.rtp & b != 0 => Phase::Rtp,
                _ => Phase::Rp,
            };
            let older = Bits(s.busy).find(|&o| usize::from(s.newer[o]) == i);
            machines[i] = Machine {
                tag: tags[usize::from(s.place[i])],
                order: s.order[i],
                ready: s.ready[i],
                ras_end: s.ras_end[i],
                phase,
                older: older.map_or(NONE, |o| o as u8),
                newer: s.newer[i],
            };
        }
        let channels = s.channels.map(|ch| {
            let mut queue = [Tag::EMPTY; PORT_DEPTH];
            for (k, waiting) in queue.iter_mut().enumerate().take(ch.len.into()) {
                let at = (usize::from(ch.first) + k) % PORT_DEPTH;
                *waiting = Tag {
                    // What a discarded look-ahead left.
                    accepted: 0,
                    hit: false,
                    ..tags[usize::from(ch.queue[at])]
                };
            }
            Queue {
                queue,
                first: 0,
                len: ch.len,
                came: if ch.len > 0 { ch.came } else { 0 },
                ready: if ch.len > 0 { ch.ready } else { 0 },
            }
        });
        Saved {
            now: s.now,
            machines,
            channels,
            next_order: s.next_order,
            busy: s.busy,
            held: s.held,
            marked: s.marked,
            passing: s.passing,
            writing: s.writing,
            newest: s.newest,
            dirty: s.dirty,
            newest_bank: s.newest_bank,
            tick_at: s.tick_at,
            begin_at: (s.begin_at != NEVER).then_some(s.begin_at),
            pulse_end: if s.pulse_end > s.now { s.pulse_end } else { 0 },
            requested: s.requested,
            maintenance: s.maintenance,
            refreshing: s.refreshing,
            // What is over is the same, whenever it was.
            refresh_end: if s.refreshing { s.refresh_end } else { 0 },
        }
    }

    /// The engine's form of a state that has been [checked](Self::check).
    pub fn load(&self, t: &Timing, tags: &mut Tags) -> State {
        let mut s = State::new(t);
        s.now = self.now;
        s.next_order = self.next_order;
        s.held = self.held;
        s.marked = self.marked;
        s.passing = self.passing;
        s.writing = self.writing;
        s.newest = self.newest;
        s.dirty = self.dirty;
        s.newest_bank = self.newest_bank;
        s.tick_at = self.tick_at;
        s.begin_at = self.begin_at.unwrap_or(NEVER);
        s.pulse_end = self.pulse_end;
        s.requested = self.requested;
        s.maintenance = self.maintenance;
        s.refreshing = self.refreshing;
        s.refresh_end = self.refresh_end;
        s.busy = self.busy;
        for i in Bits(self.busy) {
            let m = &self.machines[i];
            s.place[i] = s.take_place();
            tags[usize::from(s.place[i])] = m.tag;
            s.order[i] = m.order;
            s.ready[i] = m.ready;
            s.ras_end[i] = m.ras_end;
            s.row[i] = m.tag.row;
            s.bank[i] = m.tag.bank;
            s.newer[i] = m.newer;
            let set = |on: bool, set: &mut u8| *set |= if on { bit(i) } else { 0 };
            set(m.phase == Phase::Wait, &mut s.wait);
            set(m.phase == Phase::Column, &mut s.column);
            set(m.phase == Phase::Rtp, &mut s.rtp);
            set(m.phase == Phase::Rp, &mut s.rp);
            set(m.older != NONE, &mut s.queued);
            set(m.tag.hit, &mut s.hit);
            set(m.tag.kind == Kind::Write, &mut s.writes);
        }
        for (ch, q) in s.channels.iter_mut().zip(&self.channels) {
            *ch = Channel {
                queue: [0; PORT_DEPTH],
                first: q.first,
                len: q.len,
                came: q.came,
                ready: q.ready,
            };
        }
        for k in 0..2 {
            for n in 0..usize::from(self.channels[k].len) {
                let at = (usize::from(self.channels[k].first) + n) % PORT_DEPTH;
                let place = s.take_place();
                tags[usize::from(place)] = self.channels[k].queue[at];
                s.channels[k].queue[at] = place;
            }
        }
        s.update_all();
        s
    }

    /// Checks that a state read from outside is one that the rules can reach, as far as safety and
    /// progress depend on it: clocks up to `latest`, timers up to the longest that the parameters
    /// allow. The error names the part.
    pub fn check(&self, t: &Timing, banks: usize, latest: u64) -> Result<(), &'static str> {
        let fail = |bad: bool, what| if bad { Err(what) } else { Ok(()) };
        let far = self.now.saturating_add(1 << 28);
        fail(self.now > latest, "clock")?;
        fail(self.busy & !t.machines != 0, "busy machines")?;
        let subsets = [self.held, self.marked, self.passing, self.writing];
        fail(
            subsets.iter().any(|s| s & !self.busy != 0),
            "sets of machines",
        )?;
        fail(self.held & self.marked != 0, "held and marked machines")?;
        fail(self.held != 0 && !self.maintenance, "held machines")?;
        let waits = self.maintenance && !self.refreshing;
        fail((self.marked != 0) != waits, "marked machines")?;
        fail(self.refreshing && !self.maintenance, "refresh")?;
        fail(waits && !self.requested, "requested refresh")?;
        let due = self.requested && !self.maintenance;
        fail(self.begin_at.is_some() != due, "beginning of maintenance")?;
        let begin = self.begin_at.unwrap_or(0);
        let times = [self.refresh_end, self.tick_at, begin, self.pulse_end];
        fail(times.iter().any(|&x| x > far), "refresh timers")?;
        fail(usize::from(self.newest_bank) >= banks, "newest bank")?;
        for ch in &self.channels {
            let bad = usize::from(ch.first) >= PORT_DEPTH || usize::from(ch.len) > PORT_DEPTH;
            fail(bad || ch.ready > far, "port queue")?;
            let bank = |q: &Tag| usize::from(q.bank) >= banks;
            fail(ch.queue.iter().any(bank), "bank of a waiting request")?;
        }
        let index = |i: u8| (i < 8 && self.busy & bit(i.into()) != 0).then_some(usize::from(i));
        let mut reached = 0u8;
        for (bank, &newest) in self.newest.iter().enumerate() {
            let (mut at, mut newer) = (newest, NONE);
            let mut order = u64::MAX;
            while at != NONE {
                let i = index(at).ok_or("links of a bank")?;
                let m = &self.machines[i];
                let ordered = m.order < order && m.order < self.next_order;
                let linked = m.newer == newer && ordered && reached & bit(i) == 0;
                fail(
                    !linked || usize::from(m.tag.bank) != bank,
                    "links of a bank",
                )?;
                let first = m.older == NONE;
                let from_older =
                    !first && self.passing & bit(index(m.older).ok_or("links of a bank")?) != 0;
                let waiting = m.phase == Phase::Wait;
                fail(waiting && m.tag.hit != from_older, "passed row")?;
                fail(!waiting && !first, "order in a bank")?;
                fail(self.passing & bit(i) != 0 && newer == NONE, "passed row")?;
                fail(self.held & bit(i) != 0 && !waiting, "held machines")?;
                let late = m.tag.accepted > self.now;
                fail(
                    late || m.ready > far || m.ras_end > far,
                    "timers of a machine",
                )?;
                let todo = matches!(m.phase, Phase::Wait | Phase::Column);
                let writes = m.tag.kind == Kind::Write && todo;
                fail((self.writing & bit(i) != 0) != writes, "set of writes")?;
                reached |= bit(i);
                (order, newer, at) = (m.order, at, m.older);
            }
        }
        fail(reached != self.busy, "links of a bank")
    }
}
