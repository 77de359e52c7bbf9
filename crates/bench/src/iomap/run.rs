//! The two machines of the benchmark: booted once for each way, and copied for each cell.

use super::ways::{Monitors, Way, MAC};
use anyhow::{anyhow, bail, Context};
use nagori_config::Machine as Description;
use nagori_hart::world::Event;
use nagori_machine::{Checkpoint, Engine, EventSink, Machine, Stop};
use nagori_platform::devices::ethmac::Ethmac;
use nagori_platform::loader::Plan;
use nagori_session::drive::{drive, BoxedService, Course, Peer, Service, Wishes};
use nagori_session::software::{self, Software};
use nagori_session::{Caller, End, MachineChoice};
use nagori_terminal::output::Messages;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a switch of 100 Mbit/s takes to look the port up.
const DELAY: Duration = Duration::from_micros(10);
const READY: &str = "iomap: ready";
const DONE: &str = "iomap: done";
/// Addresses of the machine that is measured, and of the one at the other end.
const ADDRESSES: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
/// Guest seconds after which a command has failed.
const PATIENCE_S: u64 = 600;

/// What both machines boot.
pub struct Guest {
    image: nagori_image::GuestImage,
    initrd: tempfile::NamedTempFile,
}

impl Guest {
    /// Debian with the driver of the MAC, and Debian's nuttcp and ethtool.
    pub fn build(messages: &Messages) -> anyhow::Result<Guest> {
        let mut options = nagori_session::image::options(None)?;
        options.add_modules(["ethoc"]);
        let image = nagori_session::image::build(&options, messages)?;
        let packages = ["nuttcp", "ethtool", "libmnl0", "libc6"];
        let needed = [
            "bin/nuttcp",
            "bin/ethtool",
            "lib/libc.so.6",
            "lib/libm.so.6",
            "lib/libmnl.so.0",
        ];
        // Where a file of the packages comes to be. Libraries may have more of the version in their names than programs
        // ask for.
        let place = |path: &str| {
            let last = path.rsplit('/').next().unwrap_or(path);
            if last.starts_with("ld-linux-riscv64") {
                return Some(format!("lib/{last}"));
            }
            let is = |n: &&&str| match n.strip_prefix("lib/") {
                Some(name) => last == name || last.starts_with(&format!("{name}.")),
                None => path.ends_with(**n),
            };
            needed.iter().find(is).map(|n| n.to_string())
        };
        let wanted = |path: &str| place(path).is_some();
        let files = nagori_session::image::package_files(&options, &packages, wanted, messages)?;
        let placed: Vec<(String, Vec<u8>)> = { files.into_iter() }
            .filter_map(|(path, bytes)| Some((place(&path)?, bytes)))
            .collect();
        for name in needed {
            if !placed.iter().any(|(p, _)| p == name) {
                bail!("Debian's packages {} have no {name}", packages.join(", "));
            }
        }
        let list: Vec<(&str, u32, &[u8])> =
            placed.iter().map(|(p, b)| (&**p, 0o755, &**b)).collect();
        let mut bytes = std::fs::read(&image.initrd)
            .with_context(|| format!("cannot read {}", image.initrd.display()))?;
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(nagori_image::overlay_cpio(&list)?);
        let initrd = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        std::fs::write(initrd.path(), bytes)?;
        Ok(Guest { image, initrd })
    }

    fn plan(
        &self,
        d: &Description,
        script: String,
        base: Software,
        append: &str,
    ) -> anyhow::Result<Plan> {
        let initrd: PathBuf = self.initrd.path().into();
        let software = Software {
            initrd: Some(software::Part::File(initrd)),
            append: Some(format!("quiet nagori.net=none {append}")),
            run: Some(script),
            ..base
        };
        Ok(software::plan(d, &software, Some(&self.image))?)
    }
}

/// A conversation with a shell at a console.
struct Dialogue<'a> {
    input: Vec<u8>,
    said: &'a mut String,
    until: &'static str,
    from: Option<u64>,
}

impl Service for Dialogue<'_> {
    fn before(&mut self, m: &mut Machine, wishes: &mut Wishes) -> nagori_session::Result<()> {
        let now = m.now().0;
        if !self.input.is_empty() {
            m.console_input(&self.input);
            self.input.clear();
        }
        let from = *self.from.get_or_insert(now);
        if now - from > PATIENCE_S * 1_000_000_000_000 {
            wishes.end(End::Limit);
        }
        Ok(())
    }

    fn after(
        &mut self,
        m: &mut Machine,
        _: Stop,
        wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        let out = m.console_output();
        if !out.is_empty() {
            self.said.push_str(&String::from_utf8_lossy(&out));
            if self.said.contains(self.until) {
                wishes.end(End::Quit);
            }
        }
        Ok(())
    }

    fn may_wake(&self, _: &Machine) -> bool {
        false
    }
}

/// Runs until the console says something; returns all that it said.
fn talk(
    m: &mut Machine,
    peer: Option<&mut Peer<'_>>,
    line: &str,
    until: &'static str,
    caller: &dyn Caller,
) -> anyhow::Result<String> {
    let mut said = String::new();
    let dialogue = Dialogue {
        input: line.as_bytes().to_vec(),
        said: &mut said,
        until,
        from: None,
    };
    let mut services: Vec<BoxedService<'_>> = vec![Box::new(dialogue)];
    if let Some(peer) = peer {
        services.push(Box::new(peer));
    }
    let end = drive(m, &mut services, caller, Course::default())?;
    drop(services);
    match end {
        End::Quit => Ok(said),
        End::Signal(n) => Err(nagori_session::Interrupted(n).into()),
        end => Err(anyhow!(
            "the guest stopped answering: {}; its console said last:\n{}",
            end.describe(),
            tail(&said)
        )),
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

fn describe(machine: &str, set: &[String]) -> anyhow::Result<Description> {
    let choice = MachineChoice {
        machine: machine.into(),
        set: set.to_vec(),
    };
    Ok(choice.resolve(&[])?)
}

fn booted(d: &Description, plan: &Plan, caller: &dyn Caller) -> anyhow::Result<Machine> {
    let mut m = Machine::new(d)?;
    m.set_timed(false);
    m.set_engine(Engine::best())?;
    software::load(&mut m, plan, false)?;
    talk(&mut m, None, "", READY, caller)?;
    Ok(m)
}

/// The first slot with the MAC.
fn slot(m: &Machine) -> anyhow::Result<usize> {
    let mut slots = m.config().devices.iter();
    let at = slots.position(|s| s.kind == nagori_config::SlotKind::Ethmac);
    at.with_context(|| {
        format!(
            "the machine {} has no Ethernet MAC: its `devices` need `ethmac`",
            m.config().name
        )
    })
}

/// The machine at the other end, where a server waits.
pub fn peer(guest: &Guest, messages: &Messages) -> anyhow::Result<Checkpoint> {
    let d = describe("peer", &["devices=[\"ethmac\"]".into(), "seed=3".into()])?;
    let script = format!(
        "ip addr add {}/24 dev eth0; ip link set eth0 up; nuttcp -S; echo {READY}; while sleep 100000; do :; done",
        ADDRESSES[1]
    );
    let plan = guest.plan(&d, script, Software::default(), "")?;
    let m = booted(&d, &plan, messages.signals())
        .context("the machine at the other end does not boot")?;
    Ok(m.checkpoint()?)
}

/// Two machines that are joined and have talked, as they were at one moment.
pub struct Ready {
    machine: Checkpoint,
    peer: Checkpoint,
}

impl Ready {
    /// Boots a machine for a way, and lets it talk to the peer for the first time.
    pub fn boot(
        way: &Way,
        (machine, set, append, prepare): (&str, &[String], &str, Option<&str>),
        (guest, monitors): (&Guest, &Monitors),
        peer: &Checkpoint,
        caller: &dyn Caller,
    ) -> anyhow::Result<Ready> {
        let mut settings = set.to_vec();
        settings.extend(way.settings());
        let software = way.firmware(monitors);
        Ready::boot_with(
            (machine, &settings),
            software,
            (append, prepare),
            guest,
            peer,
            caller,
        )
    }

    /// As [`Ready::boot`], with the machine, changes of its description and the firmware themselves instead of a way.
    pub fn boot_with(
        (machine, settings): (&str, &[String]),
        firmware: Software,
        (append, prepare): (&str, Option<&str>),
        guest: &Guest,
        peer: &Checkpoint,
        caller: &dyn Caller,
    ) -> anyhow::Result<Ready> {
        let d = describe(machine, settings)?;
        let script = format!(
            "stty -echo; echo {READY}; while read -r line; do eval \"$line\"; echo {DONE}; done"
        );
        let plan = guest.plan(&d, script, firmware, append)?;
        let mut m = booted(&d, &plan, caller).context("it does not boot")?;
        let mut other: Machine = peer.fork()?;
        other.set_engine(Engine::best())?;
        let (a, b) = (slot(&m)?, slot(&other)?);
        let mut joined = Peer::join((&mut m, a), (other, b), DELAY, Vec::new(), caller)?;
        let line = format!(
            "{}ip addr add {}/24 dev eth0 && ip link set eth0 up && sleep 3 && nuttcp -t -l1k -n4 {} && sleep 2\n",
            prepare.map_or(String::new(), |p| format!("{p}; ")),
            ADDRESSES[0],
            ADDRESSES[1]
        );
        let said = talk(&mut m, Some(&mut joined), &line, DONE, caller)?;
        if !said.contains("Mbps") {
            bail!("the machines do not reach each other:\n{}", tail(&said));
        }
        Ready::of(&m, &joined)
    }

    /// Runs transfers in both directions, one after the other, until the other VM has said something on the console
    /// that they share. All that was said, and when it began.
    pub fn until(
        &self,
        word: &'static str,
        caller: &dyn Caller,
    ) -> anyhow::Result<(String, Duration)> {
        let (mut m, mut joined) = self.start(&())?;
        let begins = Duration::from_nanos(m.now().0 / 1000);
        let both = ["-t", "-r"]
            .map(|way| format!("nuttcp -fparse {way} -l16k -n32 {}; ", ADDRESSES[1]))
            .concat();
        let line = format!("while :; do {both}done\n");
        let said = talk(&mut m, Some(&mut joined), &line, word, caller)?;
        Ok((said, begins))
    }

    /// A copy with the timing model on.
    fn start(&self, caller: &'static dyn Caller) -> anyhow::Result<(Machine, Peer<'static>)> {
        self.start_after(None, caller)
    }

    /// As [`Ready::start`]; what two machines that are not needed any more have translated is used again.
    fn start_after(
        &self,
        spent: Option<(Machine, Machine)>,
        caller: &'static dyn Caller,
    ) -> anyhow::Result<(Machine, Peer<'static>)> {
        let (mut m, other) = match spent {
            Some((m, other)) => (
                self.machine.fork_after(m, None)?,
                self.peer.fork_after(other, None)?,
            ),
            None => {
                let mut both = (self.machine.fork()?, self.peer.fork()?);
                both.0.set_engine(Engine::best())?;
                both.1.set_engine(Engine::best())?;
                both
            }
        };
        m.set_timed(true);
        let (a, b) = (slot(&m)?, slot(&other)?);
        let joined = Peer::join((&mut m, a), (other, b), DELAY, Vec::new(), caller)?;
        Ok((m, joined))
    }

    /// These machines as they are after a transfer in each direction with the timing model on, neither of which counts:
    /// their caches and predictors are in the state in which they are between transfers.
    pub fn warmed(&self, bytes: u64, caller: &dyn Caller) -> anyhow::Result<Ready> {
        let (mut m, mut joined) = self.start(&())?;
        for up in [true, false] {
            let t = Transfer {
                up,
                buffer_kib: 16,
                bytes,
            };
            t.run(&mut m, &mut joined, caller)?;
        }
        Ready::settled(&mut m, &mut joined, caller)
    }

    /// Throughput of transfers one after the other, in Mbit/s, and what the first of them costs, instruction by
    /// instruction.
    pub fn transfers(
        &self,
        t: &Transfer,
        n: usize,
        spent: &Spent,
        caller: &dyn Caller,
    ) -> anyhow::Result<(Vec<f64>, Counts)> {
        let (mut m, mut joined) = self.start(&())?;
        m.set_event_sink(Some(Box::<Counter>::default()));
        let before = (m.now(), frames(&mut m)?);
        let mut rates = vec![t.run(&mut m, &mut joined, caller)?];
        let counter = m.event_sink::<Counter>();
        let mut counts = counter.context("it has counted")?.counts;
        counts.frames = frames(&mut m)? - before.1;
        counts.seconds = (m.now().0 - before.0 .0) as f64 / 1e12;
        // Where instructions are reported, they are interpreted, which takes longer and changes nothing: the others go
        // without it.
        let then = Ready::settled(&mut m, &mut joined, caller)?;
        let (mut m, mut joined) = then.start_after(spent.take(), &())?;
        for _ in 1..n {
            rates.push(t.run(&mut m, &mut joined, caller)?);
        }
        spent.keep(m, joined);
        Ok((rates, counts))
    }

    /// As [`Ready::of`], once no frame is on the wire any more: a checkpoint does not contain those.
    fn settled(
        m: &mut Machine,
        joined: &mut Peer<'_>,
        caller: &dyn Caller,
    ) -> anyhow::Result<Ready> {
        talk(m, Some(joined), "sleep 1\n", DONE, caller)?;
        Ready::of(m, joined)
    }

    /// Two machines as they are now.
    fn of(m: &Machine, joined: &Peer<'_>) -> anyhow::Result<Ready> {
        let other = joined.machine();
        let other = other.context("the machine at the other end is off")?;
        Ok(Ready {
            machine: m.checkpoint()?,
            peer: other.checkpoint()?,
        })
    }
}

/// Pairs of machines that have done their work, with what they have translated: at most one for each cell that is being
/// measured. Machines of another way are of no use, so cells of a way follow on each other.
#[derive(Default)]
pub struct Spent(Mutex<Vec<(Machine, Machine)>>);

impl Spent {
    fn pairs(&self) -> MutexGuard<'_, Vec<(Machine, Machine)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<(Machine, Machine)> {
        self.pairs().pop()
    }

    fn keep(&self, m: Machine, joined: Peer<'_>) {
        if let Some(other) = joined.into_machine() {
            self.pairs().push((m, other));
        }
    }
}

fn frames(m: &mut Machine) -> anyhow::Result<u64> {
    let slot = slot(m)?;
    let traffic = m.in_slot::<Ethmac, _>(slot, |d, _| d.traffic());
    let t = traffic.context("the MAC is there")?;
    Ok(t.sent_frames + t.received_frames)
}

/// What is transferred.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// To the peer.
    pub up: bool,
    pub buffer_kib: u32,
    pub bytes: u64,
}

impl Transfer {
    /// Runs it; Mbit/s as the program prints it.
    fn run(
        &self,
        m: &mut Machine,
        peer: &mut Peer<'_>,
        caller: &dyn Caller,
    ) -> anyhow::Result<f64> {
        let how = if self.up { "-t" } else { "-r" };
        let buffer = u64::from(self.buffer_kib) << 10;
        let line = format!(
            "nuttcp -fparse {how} -l{buffer} -n{} {}\n",
            self.bytes.div_ceil(buffer),
            ADDRESSES[1]
        );
        let said = talk(m, Some(peer), &line, DONE, caller)?;
        rate(&said).with_context(|| format!("`{}` printed no rate:\n{}", line.trim(), tail(&said)))
    }
}

/// The number behind a text.
pub fn number<T: std::str::FromStr>(text: &str, before: &str) -> Option<T> {
    let rest = text.split(before).nth(1)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    rest[..end].parse().ok()
}

/// All values of `rate_Mbps=` in what several runs of `nuttcp -fparse` have printed.
pub fn rates(text: &str) -> Vec<f64> {
    text.lines().filter_map(rate).collect()
}

/// Runs a program that needs no devices of the host until its console says something.
pub fn alone(
    (machine, settings): (&str, &[String]),
    software: &Software,
    until: &'static str,
    caller: &dyn Caller,
) -> anyhow::Result<String> {
    let d = describe(machine, settings)?;
    let plan = software::plan(&d, software, None)?;
    let mut m = Machine::new(&d)?;
    m.set_timed(true);
    m.set_engine(Engine::best())?;
    software::load(&mut m, &plan, false)?;
    talk(&mut m, None, "", until, caller)
}

/// The value of `rate_Mbps=` in a line of `nuttcp -fparse`.
fn rate(text: &str) -> Option<f64> {
    let fields: BTreeMap<&str, &str> = text
        .split_whitespace()
        .filter_map(|w| w.split_once('='))
        .collect();
    let rate: f64 = fields.get("rate_Mbps")?.parse().ok()?;
    (rate > 0.0).then_some(rate)
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub instructions: u64,
    /// Instructions of the monitor, from a fault's trap to its return.
    pub translation: u64,
    /// Traps of them.
    pub traps: u64,
    /// Accesses of the MAC's registers and descriptors.
    pub accesses: u64,
    pub frames: u64,
    pub seconds: f64,
}

/// Counts instructions as they commit.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    /// Whether the monitor is at a fault.
    inside: bool,
    counts: Counts,
}

const MACHINE: u8 = 3;
/// Causes: access faults of loads and of stores.
const FAULTS: [u64; 2] = [5, 7];

impl EventSink for Counter {
    fn wants_words(&self) -> bool {
        false
    }

    fn happened(&mut self, event: &Event<'_>) {
        if let Some(t) = event
            .trap()
            .filter(|t| t.to == MACHINE && t.from != MACHINE)
        {
            self.inside = FAULTS.contains(&t.cause);
            self.counts.traps += u64::from(self.inside);
        }
        let Event::Commit(c) = event else { return };
        if !c.retired() {
            return;
        }
        self.counts.instructions += 1;
        if c.privilege == MACHINE {
            self.counts.translation += u64::from(self.inside);
        } else {
            self.inside = false;
        }
        let of_mac = |at: u64| MAC.iter().any(|m| (*m..*m + 0x1000).contains(&at));
        self.counts.accesses += c.accesses().filter(|a| of_mac(a.paddr)).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let line = "megabytes=0.2500 real_seconds=0.10 rate_Mbps=20.5000 tx_cpu=61 rx_cpu=3\r\niomap: done";
        assert_eq!(rate(line), Some(20.5));
        assert_eq!(rate("nuttcp: connect: refused"), None);
    }
}
