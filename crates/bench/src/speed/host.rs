//! Costs of runs on the host: processor time and memory.

use anyhow::Context;
use nagori_session::{Capture, Error, Event, Port};
use nix::sys::resource::{getrusage, UsageWho};

/// The least time that is told apart from none, in seconds.
pub const LEAST: f64 = 1e-4;

fn time(who: UsageWho) -> anyhow::Result<f64> {
    let used = getrusage(who).context("cannot get the processor time")?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    Ok(seconds(used.user_time()) + seconds(used.system_time()))
}

/// Processor time of this process so far, all threads, user and system, in seconds.
pub fn own_time() -> anyhow::Result<f64> {
    time(UsageWho::RUSAGE_SELF)
}

/// Processor time of terminated child processes so far, user and system, in seconds.
pub fn child_time() -> anyhow::Result<f64> {
    time(UsageWho::RUSAGE_CHILDREN)
}

/// The model of the host's processor, as its kernel names it.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name"));
    match model.and_then(|l| l.split_once(':')) {
        Some((_, name)) => name.trim().to_string(),
        None => "unknown".into(),
    }
}

/// Resident bytes outside of mappings of at least `guest` bytes, from the text of /proc/self/smaps.
/// The guest's memory is the only mapping of that size.
fn resident_beside(smaps: &str, guest: u64) -> Option<u64> {
    let kib = |line: &str, key: &str| -> Option<u64> {
        let rest = line.strip_prefix(key)?.trim();
        rest.strip_suffix(" kB")?.trim().parse().ok()
    };
    let (mut sum, mut size, mut any) = (0, 0, false);
    for line in smaps.lines() {
        if let Some(n) = kib(line, "Size:") {
            size = n;
        } else if let Some(n) = kib(line, "Rss:") {
            any = true;
            if size < guest / 1024 {
                sum += n;
            }
        }
    }
    any.then_some(sum * 1024)
}

/// A console that keeps its output, and samples this process's memory now and then.
pub struct Probe {
    console: Capture<fn(&str)>,
    guest: u64,
    calls: u64,
    most: u64,
}

impl Probe {
    /// Number of calls between two samples, in the end; a sample takes about a millisecond.
    const APART: u64 = 256;

    /// For a guest with this much memory.
    pub fn new(guest: u64) -> Probe {
        Probe {
            console: Capture::new(|_| ()),
            guest,
            calls: 0,
            most: 0,
        }
    }

    /// The lines printed, and the peak resident memory apart from the guest's.
    pub fn finish(self) -> (Vec<String>, u64) {
        (self.console.lines(), self.most)
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let file = "/proc/self/smaps";
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        let now = resident_beside(&text, self.guest)
            .with_context(|| format!("{file} has not the expected form"))?;
        self.most = self.most.max(now);
        Ok(())
    }
}

impl Port for Probe {
    fn interactive(&self) -> bool {
        self.console.interactive()
    }
    fn is_open(&self) -> bool {
        self.console.is_open()
    }
    fn events(&mut self) -> nagori_session::Result<Vec<Event>> {
        self.calls += 1;
        if self.calls.is_power_of_two() || self.calls.is_multiple_of(Self::APART) {
            self.look().map_err(Error::service)?;
        }
        self.console.events()
    }
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.console.write(bytes)
    }
    fn message(&mut self, text: &str) {
        self.console.message(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_advances() {
        let before = own_time().unwrap();
        let mut x = 1u64;
        while own_time().unwrap() < before + 0.02 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(child_time().unwrap() >= 0.0);
    }

    #[test]
    fn the_guests_memory_is_left_out() {
        let text = "\
00400000-00500000 r-xp 0 08:01 1 /bin/x\nSize:   1024 kB\nRss:   512 kB\nPss: 512 kB\n\
7f0000000000-7f0100000000 rw-p 0 00:00 0\nSize:  4194304 kB\nRss:  70000 kB\n\
7ff000000000-7ff000001000 rw-p 0 00:00 0 [stack]\nSize:  132 kB\nRss:  20 kB\n";
        assert_eq!(resident_beside(text, 4 << 30), Some(532 << 10));
        assert_eq!(resident_beside(text, 8 << 30), Some((532 + 70000) << 10));
        assert_eq!(resident_beside("", 1), None);
    }

    #[test]
    fn a_probe_sees_what_is_touched() {
        // Far more than what other tests of this process give back meanwhile.
        const MORE: usize = 256 << 20;
        let mut probe = Probe::new(1 << 40);
        probe.events().unwrap();
        let before = probe.most;
        let touched = std::hint::black_box(vec![1u8; MORE]);
        probe.events().unwrap();
        assert!(before > 1 << 20 && probe.most > before + MORE as u64 / 2);
        drop(touched);
        probe.write(b"line\n").unwrap();
        let (lines, most) = probe.finish();
        assert_eq!(lines, ["line"]);
        assert!(most > MORE as u64);
    }
}
