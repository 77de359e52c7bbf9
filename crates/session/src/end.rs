//! How a machine's run can end.

/// The message at the end of machine time.
pub const END_OF_TIME: &str =
    "machine time is at its end, 210 days after its start (64 bits of picoseconds)";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By the guest, with its code.
    Off(u32),
    /// By the limit on instructions.
    Limit,
    /// Deadlock: nothing can happen any more.
    Stuck,
    /// At the end of machine time.
    Time,
    /// By a wish of the caller, which stands for this signal.
    Signal(u8),
    /// By the user at the console, or by a service that has what it needs.
    Quit,
    /// By a snapshot, as requested.
    Saved,
    /// By a guest that restarts, although its software cannot be loaded again.
    Restart,
    /// By a power cut, as requested.
    PowerCut,
}

impl End {
    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            End::Off(_) => "off",
            End::Limit => "instruction-limit",
            End::Stuck => "stuck",
            End::Time => "end-of-time",
            End::Signal(_) => "signal",
            End::Quit => "quit",
            End::Saved => "snapshot",
            End::Restart => "restart",
            End::PowerCut => "power-cut",
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match (self.message(), self) {
            (Some(text), _) => text,
            (None, End::Off(code)) => format!("its exit code is {code}"),
            (None, _) => self.name().into(),
        }
    }

    /// A message for the user; `None` if the run ended as requested.
    pub fn message(self) -> Option<String> {
        Some(match self {
            End::Off(code) if code > 255 => {
                format!("the guest's exit code is {code}; the exit code here is 255")
            }
            End::Off(_) | End::Saved | End::PowerCut => return None,
            End::Limit => "the instruction limit was reached (--max-instructions)".into(),
            End::Stuck => "every hart waits (wfi), and nothing can wake one".into(),
            End::Time => END_OF_TIME.into(),
            End::Signal(n) => format!("ended by signal {n}"),
            End::Quit => "the machine was ended from the console".into(),
            End::Restart => {
                "the guest restarts, and nothing is known that could be loaded again".into()
            }
        })
    }
}
