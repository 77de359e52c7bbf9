//! What this host is.

use std::fs;
use std::path::{Path, PathBuf};

/// A host's processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// As in /proc/cpuinfo; "ARM" for Arm's implementer.
    pub vendor: String,
    /// Family; for Arm the architecture.
    pub family: u32,
    /// Model; for Arm the part.
    pub model: u32,
    /// What it calls itself.
    pub name: String,
    /// Whether a hypervisor says that it is there.
    pub virtual_machine: bool,
}

/// Where the system says what it is: `/`, or a folder in tests.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl Default for System {
    fn default() -> System {
        System {
            root: PathBuf::from("/"),
        }
    }
}

impl System {
    /// A system below a folder.
    pub fn below(root: &Path) -> System {
        System {
            root: root.to_owned(),
        }
    }

    /// A file of the system as text, without surrounding space; `None` if it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path.trim_start_matches('/'))).ok()?;
        Some(text.trim().to_owned())
    }

    /// Names in a folder, in order.
    pub fn list(&self, path: &str) -> Vec<String> {
        let folder = fs::read_dir(self.root.join(path.trim_start_matches('/')));
        let mut names: Vec<String> = folder
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The processor.
    pub fn processor(&self) -> Processor {
        Processor::parse(&self.read("proc/cpuinfo").unwrap_or_default())
    }

    /// Value of perf_event_paranoid: how much is forbidden to ordinary users. `None`: the kernel has no perf_event.
    pub fn paranoid(&self) -> Option<i32> {
        self.read("proc/sys/kernel/perf_event_paranoid")?
            .parse()
            .ok()
    }

    /// Devices of perf_event.
    pub fn pmus(&self) -> Vec<String> {
        self.list("sys/bus/event_source/devices")
    }

    /// The device of the cores' counters.
    pub fn core_pmu(&self) -> Option<String> {
        let known = |n: &&String| {
            matches!(n.as_str(), "cpu" | "cpu_core")
                || n.starts_with("armv8_")
                || n.starts_with("armv9_")
        };
        self.pmus().iter().find(known).cloned()
    }
}

impl Processor {
    /// Reads /proc/cpuinfo.
    pub fn parse(cpuinfo: &str) -> Processor {
        let field = |name: &str| {
            let line = cpuinfo
                .lines()
                .find(|l| l.split(':').next().is_some_and(|k| k.trim() == name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let number = |name: &str| {
            let text = field(name).unwrap_or_default();
            match text.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).unwrap_or(0),
                None => text.parse().unwrap_or(0),
            }
        };
        let virtual_machine =
            field("flags").is_some_and(|f| f.split_whitespace().any(|f| f == "hypervisor"));
        if let Some(implementer) = field("CPU implementer") {
            let vendor = if implementer == "0x41" {
                "ARM".into()
            } else {
                implementer
            };
            let (family, model) = (number("CPU architecture"), number("CPU part"));
            return Processor {
                vendor,
                family,
                model,
                name: format!("part {model:#x}"),
                virtual_machine,
            };
        }
        Processor {
            vendor: field("vendor_id").unwrap_or_default(),
            family: number("cpu family"),
            model: number("model"),
            name: field("model name").unwrap_or_default(),
            virtual_machine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_of_both_architectures() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 45\nmodel name\t: Xeon E5\nflags\t\t: fpu hypervisor lm\n\n";
        let p = Processor::parse(x86);
        assert_eq!(
            (p.vendor.as_str(), p.family, p.model, p.virtual_machine),
            ("GenuineIntel", 6, 45, true)
        );
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n";
        let p = Processor::parse(arm);
        assert_eq!(
            (p.vendor.as_str(), p.family, p.model, p.virtual_machine),
            ("ARM", 8, 0xd0c, false)
        );
        assert_eq!(Processor::parse(""), Processor::default());
    }
}
