//! What the engine reports while it runs.

use serde::{Deserialize, Serialize};

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

/// What a request carries through the controller for the sake of reporting.
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
    /// Submitted by `access`: nobody waits for its completion record.
    pub sync: bool,
    pub hit: bool,
}

/// Engine events; a superset of [`Command`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Accept(Tag),
    Activate {
        clock: u64,
        tag: Tag,
    },
    Column {
        clock: u64,
        tag: Tag,
    },
    Precharge {
        clock: u64,
        tag: Tag,
        dirty: bool,
    },
    /// `count` refreshes, the first at `clock`, then every `every` clocks.
    Refresh {
        clock: u64,
        every: u64,
        count: u64,
    },
    /// A tick found one pending already.
    TickLost,
}

impl Event {
    /// Calls `f` with each command of the event.
    pub fn commands(&self, mut f: impl FnMut(Command)) {
        let one = |op, clock, tag: &Tag| Command {
            clock,
            op,
            bank: tag.bank,
            row: tag.row,
            seq: tag.seq,
        };
        match self {
            Event::Accept(tag) => f(one(Op::Accept, tag.accepted, tag)),
            Event::Activate { clock, tag } => f(one(Op::Activate, *clock, tag)),
            Event::Column { clock, tag } => {
                let op = match tag.kind {
                    Kind::Read => Op::Read,
                    Kind::Write => Op::Write,
                };
                f(one(op, *clock, tag));
            }
            Event::Precharge { clock, tag, .. } => f(one(Op::Precharge, *clock, tag)),
            Event::Refresh {
                clock,
                every,
                count,
            } => {
                for i in 0..*count {
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
    fn event(&mut self, e: Event);
}
