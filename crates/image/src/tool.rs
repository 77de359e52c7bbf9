//! Runs programs of the host.

use crate::Error;
use std::process::{Command, Output};

/// A program of the host and the packages that contain it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub packages: &'static str,
}

pub(crate) const GCC: Tool = Tool {
    name: "riscv64-linux-gnu-gcc",
    packages: "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
};
pub(crate) const LD: Tool = Tool {
    name: "riscv64-linux-gnu-ld",
    packages: "binutils-riscv64-linux-gnu",
};
impl Tool {
    /// A command whose messages are not translated, since some of them are parsed.
    pub fn command(self) -> Command {
        let mut c = Command::new(self.name);
        c.env("LC_ALL", "C");
        c
    }

    /// Turns "no such file" into the name of the package to install.
    pub fn spawn_error(self, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::NotFound {
            Error::ToolMissing {
                tool: self.name.into(),
                packages: self.packages,
            }
        } else {
            Error::Io {
                what: "run",
                path: self.name.into(),
                source,
            }
        }
    }

    /// Runs it to its end; an error if the program fails.
    pub fn run(self, mut command: Command, what: &str) -> Result<Output, Error> {
        let out = command.output().map_err(|e| self.spawn_error(e))?;
        if out.status.success() {
            Ok(out)
        } else {
            Err(failure(self, what, &out))
        }
    }
}

fn failure(tool: Tool, what: &str, out: &Output) -> Error {
    let text = String::from_utf8_lossy(&out.stderr);
    // The end of the output holds the errors; warnings of long runs come first.
    let lines: Vec<&str> = text.trim().lines().collect();
    Error::Command {
        what: what.to_string(),
        command: tool.name.into(),
        status: out.status.to_string(),
        output: lines[lines.len().saturating_sub(12)..].join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_names_its_packages() {
        let tool = Tool {
            name: "nagori-no-such-tool",
            ..GCC
        };
        let e = tool.run(tool.command(), "compile").unwrap_err().to_string();
        assert_eq!(
            e,
            "`nagori-no-such-tool` is not installed; it is in the Debian package(s) \
             gcc-riscv64-linux-gnu libc6-dev-riscv64-cross: \
             apt-get install gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
        );
    }

    #[test]
    fn only_the_end_of_long_output_is_shown() {
        let text: String = (0..40).map(|i| format!("line {i}\n")).collect();
        let out = Output {
            status: Default::default(),
            stdout: Vec::new(),
            stderr: text.into_bytes(),
        };
        let e = failure(GCC, "compile", &out).to_string();
        assert!(!e.contains("line 27\n"), "{e}");
        assert!(e.ends_with("line 39"), "{e}");
    }
}
