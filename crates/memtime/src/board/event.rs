//! What the engine reports while it runs.

use serde::{Deserialize, Serialize};

use super::engine::Tags;
use crate::request::Kind;
use crate::units::Ps;

/// One step of the controller, for logs and comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Clock of the controller.
    pub clock: u64,
    /// What happens.
    pub op: Op,
    /// Bank; 0 for a refresh, which concerns all of them.
    pub bank: u8,
    /// Row; 0 for a refresh.
    pub row: u32,
    /// Number of the request, counted from 0 in order of submission; 0 for a refresh.
    pub seq: u64,
}

/// Steps of a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// A request is taken from the port.
    Accept,
    /// Row activation (ACT).
    Activate,
    /// Read column command.
    Read,
    /// Write column command.
    Write,
    /// Precharge (PRE) of one bank.
    Precharge,
    /// Refresh (REF) of all banks.
    Refresh,
}

/// What a request carries through the controller for reporting.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Tag {
    pub id: u64,
    /// Number in order of submission.
    pub seq: u64,
    /// Time of arrival at the port.
    pub arrival: Ps,
    pub accepted: u64,
    pub row: u32,
    pub bank: u8,
    pub bytes: u8,
    pub kind: Kind,
    /// Submitted by `access`: no completion record is needed.
    pub sync: bool,
    pub hit: bool,
}

impl Tag {
    pub const EMPTY: Tag = Tag {
        id: 0,
        seq: 0,
        arrival: Ps(0),
        accepted: 0,
        row: 0,
        bank: 0,
        bytes: 0,
        kind: Kind::Read,
        sync: false,
        hit: false,
    };
}

/// Engine events; a superset of [`Command`]. Requests are named by the index of their tag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Accept {
        clock: u64,
        place: u8,
    },
    Activate {
        clock: u64,
        place: u8,
    },
    Column {
        clock: u64,
        place: u8,
    },
    Precharge {
        clock: u64,
        place: u8,
        dirty: bool,
    },
    /// `count` refreshes, the first at `clock`, then every `every` clocks.
    Refresh {
        clock: u64,
        every: u64,
        count: u64,
    },
    /// A tick found a refresh requested already.
    TickLost,
}

impl Event {
    /// Calls `f` with each command of the event.
    pub fn commands(&self, tags: &Tags, mut f: impl FnMut(Command)) {
        let mut one = |op, clock, place: u8| {
            let tag = &tags[usize::from(place)];
            f(Command {
                clock,
                op,
                bank: tag.bank,
                row: tag.row,
                seq: tag.seq,
            });
        };
        match *self {
            Event::Accept { clock, place } => one(Op::Accept, clock, place),
            Event::Activate { clock, place } => one(Op::Activate, clock, place),
            Event::Column { clock, place } => match tags[usize::from(place)].kind {
                Kind::Read => one(Op::Read, clock, place),
                Kind::Write => one(Op::Write, clock, place),
            },
            Event::Precharge { clock, place, .. } => one(Op::Precharge, clock, place),
            Event::Refresh {
                clock,
                every,
                count,
            } => {
                for i in 0..count {
                    f(Command {
                        clock: clock + i * every,
                        op: Op::Refresh,
                        bank: 0,
                        row: 0,
                        seq: 0,
                    });
                }
            }
            Event::TickLost => {}
        }
    }
}

/// Receiver of engine events, resolved at compile time.
pub(crate) trait Sink {
    fn event(&mut self, e: Event, tags: &Tags);

    /// Whether to stop after the clock of the last event.
    #[inline]
    fn done(&self) -> bool {
        false
    }
}
