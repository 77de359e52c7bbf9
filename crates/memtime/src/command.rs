//! Commands of devices.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Commands of a DRAM-like device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Row activation.
    #[serde(rename = "ACT")]
    Act,
    /// Precharge of one bank.
    #[serde(rename = "PRE")]
    Pre,
    /// Precharge of all open banks of a rank. Counts as a `PRE` of each of
    /// them for every rule; rules of its own add to that.
    #[serde(rename = "PREab")]
    PreAll,
    /// Read.
    #[serde(rename = "RD")]
    Rd,
    /// Write.
    #[serde(rename = "WR")]
    Wr,
    /// Read with auto-precharge: a `RD`, then a `PRE` at the first clock at
    /// which the rules of scope bank allow one. Has no rules of its own.
    #[serde(rename = "RDA")]
    RdA,
    /// Write with auto-precharge, likewise.
    #[serde(rename = "WRA")]
    WrA,
    /// Refresh of a rank, all its banks precharged.
    #[serde(rename = "REFab")]
    RefAll,
    /// Refresh of one precharged bank.
    #[serde(rename = "REFpb")]
    RefBank,
    /// Pauses the cell write of a bank, see [`WritePause`](crate::dram::spec::WritePause). Has no rules of its own.
    #[serde(rename = "PAUSE")]
    Pause,
    /// Resumes the paused cell write of a closed bank, likewise.
    #[serde(rename = "RESUM")]
    Resume,
}

impl Command {
    /// All commands.
    pub const ALL: [Command; 11] = [
        Command::Act,
        Command::Pre,
        Command::PreAll,
        Command::Rd,
        Command::Wr,
        Command::RdA,
        Command::WrA,
        Command::RefAll,
        Command::RefBank,
        Command::Pause,
        Command::Resume,
    ];

    /// As in data sheets.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Act => "ACT",
            Command::Pre => "PRE",
            Command::PreAll => "PREab",
            Command::Rd => "RD",
            Command::Wr => "WR",
            Command::RdA => "RDA",
            Command::WrA => "WRA",
            Command::RefAll => "REFab",
            Command::RefBank => "REFpb",
            Command::Pause => "PAUSE",
            Command::Resume => "RESUM",
        }
    }

    /// Concerns all banks of a rank.
    pub const fn rank_wide(self) -> bool {
        matches!(self, Command::PreAll | Command::RefAll)
    }

    /// Moves data.
    pub const fn is_column(self) -> bool {
        matches!(
            self,
            Command::Rd | Command::Wr | Command::RdA | Command::WrA
        )
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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
    /// Column in bursts; 0 except for reads and writes.
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
