//! The general controller for DRAM-like devices described as data.

pub mod expr;
pub mod params;
pub mod preset;
pub mod spec;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use expr::Expr;
pub use params::ControllerParams;
pub use spec::{Command, DeviceSpec};

/// A device command as issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    /// Clock of the channel.
    pub clock: u64,
    /// Command.
    pub op: Command,
    /// Channel, counted over all controllers of a model.
    pub channel: u16,
    /// Rank.
    pub rank: u8,
    /// Bank group; 0 for commands that concern the rank.
    pub bank_group: u8,
    /// Bank in its group; 0 for commands that concern the rank.
    pub bank: u8,
    /// Row; the open one for a precharge of one bank, 0 where there is none.
    pub row: u32,
    /// Column in bursts; 0 but for reads and writes.
    pub column: u32,
}

/// "clock op channel rank bank_group bank row column", columns aligned.
impl fmt::Display for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>10} {:<5} {} {} {} {:>2} {:#07x} {:#05x}",
            self.clock,
            self.op,
            self.channel,
            self.rank,
            self.bank_group,
            self.bank,
            self.row,
            self.column
        )
    }
}
