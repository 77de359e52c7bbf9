//! Runs programs of the host.

use crate::Error;
use std::process::{Command, Output};

/// A program of the host and the packages that contain it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub packages: &'static str,
}

pub(crate) const APT_GET: Tool = Tool {
    name: "apt-get",
    packages: "apt",
};
pub(crate) const APT_CACHE: Tool = Tool {
    name: "apt-cache",
    packages: "apt",
};
pub(crate) const DPKG_DEB: Tool = Tool {
    name: "dpkg-deb",
    packages: "dpkg",
};
pub(crate) const MKE2FS: Tool = Tool {
    name: "mke2fs",
    packages: "e2fsprogs",
};
pub(crate) const DEBUGFS: Tool = Tool {
    name: "debugfs",
    packages: "e2fsprogs",
};
pub(crate) const GCC: Tool = Tool {
    name: "riscv64-linux-gnu-gcc",
    packages: "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
};
pub(crate) const LD: Tool = Tool {
    name: "riscv64-linux-gnu-ld",
    packages: "binutils-riscv64-linux-gnu",
};
pub(crate) const STRIP: Tool = Tool {
    name: "riscv64-linux-gnu-strip",
    packages: "binutils-riscv64-linux-gnu",
};

impl Tool {
    /// A command whose messages are not translated, since some of them are parsed.
    pub fn command(self) -> Command {
        let mut c = Command::new(self.name);
        c.env("LC_ALL", "C");
        // File system tools are in directories that are only in root's PATH.
        if let Some(path) = std::env::var_os("PATH") {
            let mut path = path;
            path.push(":/usr/sbin:/sbin");
            c.env("PATH", path);
        }
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

/// Classifies a failed run by what the user can do about it.
fn failure(tool: Tool, what: &str, out: &Output) -> Error {
    let text = String::from_utf8_lossy(&out.stderr);
    classify(tool.name, what, &out.status.to_string(), text.trim())
}

fn classify(command: &str, what: &str, status: &str, text: &str) -> Error {
    const NETWORK: [&str; 6] = [
        "Could not resolve",
        "Temporary failure resolving",
        "Could not connect",
        "Unable to connect",
        "Network is unreachable",
        "Connection timed out",
    ];
    // Messages of gpgv (apt 2) and sqv (apt 3).
    const SIGNATURE: [&str; 5] = [
        "NO_PUBKEY",
        "is not signed",
        "EXPKEYSIG",
        "Missing key",
        "signatures were invalid",
    ];
    let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
    let what = what.to_string();
    // The end of the output holds the errors; warnings of long runs come first.
    let lines: Vec<&str> = text.lines().collect();
    let output = lines[lines.len().saturating_sub(12)..].join("\n");
    if command.starts_with("apt") && has(&NETWORK) {
        Error::Network { what, output }
    } else if command.starts_with("apt") && has(&SIGNATURE) {
        Error::Signature { what, output }
    } else {
        Error::Command {
            what,
            command: command.into(),
            status: status.into(),
            output,
        }
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
    fn failures_are_sorted() {
        let e = classify(
            "apt-get",
            "read the index",
            "exit status: 100",
            "E: Failed to fetch x  Temporary failure resolving 'mirror'",
        );
        assert!(matches!(e, Error::Network { .. }), "{e}");
        assert!(e.to_string().contains("is there a network?"), "{e}");
        let e = classify(
            "apt-get",
            "read the index",
            "exit status: 100",
            "E: The repository 'x' is not signed.",
        );
        assert!(e.to_string().contains("debian-archive-keyring"), "{e}");
        let e = classify("dpkg-deb", "unpack", "exit status: 2", "Could not resolve");
        assert!(matches!(e, Error::Command { .. }), "{e}");
    }

    #[test]
    fn only_the_end_of_long_output_is_shown() {
        let text: String = (0..40).map(|i| format!("line {i}\n")).collect();
        let e = classify("dpkg-deb", "unpack", "exit status: 2", text.trim());
        assert!(!e.to_string().contains("line 27\n"), "{e}");
        assert!(e.to_string().ends_with("line 39"), "{e}");
    }
}
