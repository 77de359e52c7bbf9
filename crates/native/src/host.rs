//! What this host is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::counter::{UncoreEvent, What};

/// Where the kernel shows the devices of perf_event.
pub const DEVICES: &str = "sys/bus/event_source/devices";

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

    /// Clock of the first CPU, as the kernel says: its greatest without turbo if it is known, else the one of this
    /// moment.
    pub fn clock_hz(&self) -> Option<u64> {
        if let Some(khz) = self.read("sys/devices/system/cpu/cpu0/cpufreq/base_frequency") {
            return khz.parse::<u64>().ok()?.checked_mul(1000);
        }
        let info = self.read("proc/cpuinfo")?;
        let line = info.lines().find(|l| l.starts_with("cpu MHz"))?;
        let (mega, milli) = line.split_once(':')?.1.trim().split_once('.')?;
        let kilo = mega
            .parse::<u64>()
            .ok()?
            .checked_mul(1000)?
            .checked_add(milli.get(..3)?.parse().ok()?)?;
        kilo.checked_mul(1000)
    }

    /// Devices of perf_event.
    pub fn pmus(&self) -> Vec<String> {
        self.list(DEVICES)
    }

    /// The code of a device's event, as the kernel says that fields are laid out.
    ///
    /// # Errors
    /// If the device does not have the event or a field, or a value does not fit.
    pub fn event(&self, pmu: &str, event: &UncoreEvent) -> Result<What, String> {
        let read = |name: &str| {
            let path = format!("{DEVICES}/{pmu}/{name}");
            self.read(&path)
                .ok_or_else(|| format!("the kernel has no file /{path}"))
        };
        let kind = read("type")?;
        let kind: u32 = kind.parse().map_err(|_| format!("its type is `{kind}`"))?;
        let mut fields = event.fields.clone();
        if let Some(name) = &event.event {
            for part in read(&format!("events/{name}"))?.split(',') {
                let (field, value) = part.split_once('=').unwrap_or((part, "1"));
                fields.insert(
                    field.trim().to_owned(),
                    number(value).ok_or_else(|| format!("`{part}` is no field"))?,
                );
            }
        }
        let mut config = [0; 3];
        for (field, value) in fields {
            let format = read(&format!("format/{field}"))?;
            place(&mut config, &format, value)
                .ok_or_else(|| format!("{field}={value:#x} does not fit `{format}`"))?;
        }
        Ok(What::Device(kind, config))
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

/// A number in decimal or, after 0x, in hexadecimal.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Puts a value where a format says, such as `config:0-7,32-35`: its low bits into the first range.
fn place(config: &mut [u64; 3], format: &str, mut value: u64) -> Option<()> {
    let (word, ranges) = format.split_once(':')?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if high < low || high > 63 {
            return None;
        }
        let bits = high - low + 1;
        let mask = u64::MAX >> (64 - bits);
        config[word] |= (value & mask) << low;
        value = value.checked_shr(bits).unwrap_or(0);
    }
    (value == 0).then_some(())
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
    fn fields_go_where_the_kernel_says() {
        let mut config = [0; 3];
        place(&mut config, "config:0-7,32-35", 0x1a0).unwrap();
        place(&mut config, "config:8-15", 0x1e).unwrap();
        place(&mut config, "config1:63", 1).unwrap();
        place(&mut config, "config2:0-63", u64::MAX).unwrap();
        assert_eq!(config, [0x1_0000_1ea0, 1 << 63, u64::MAX]);
        for (format, value) in [
            ("config:0-7", 256),
            ("config9:0-7", 1),
            ("config:5-64", 1),
            ("x", 1),
            ("config:7-5", 1),
        ] {
            assert!(place(&mut config, format, value).is_none(), "{format}");
        }
    }

    #[test]
    fn cpuinfo_of_both_architectures() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 45\nmodel name\t: Xeon \
            E5\nflags\t\t: fpu hypervisor lm\n\n";
        let p = Processor::parse(x86);
        assert_eq!(
            (p.vendor.as_str(), p.family, p.model, p.virtual_machine),
            ("GenuineIntel", 6, 45, true)
        );
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: \
            0xd0c\n";
        let p = Processor::parse(arm);
        assert_eq!(
            (p.vendor.as_str(), p.family, p.model, p.virtual_machine),
            ("ARM", 8, 0xd0c, false)
        );
        assert_eq!(Processor::parse(""), Processor::default());
    }
}
