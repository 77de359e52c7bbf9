//! Boots that are kept: made on demand, found by a hash of everything that they depend on.

use crate::args::CacheArgs;
use crate::devices;
use crate::guest;
use crate::image;
use crate::output::Messages;
use crate::signals::Signals;
use anyhow::{bail, Context};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_platform::clock::Ps;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{Plan, Software};
use nagori_platform::machine::{Engine, Machine, Quiet, Stop};
use nagori_platform::snapshot::{Header, Meta, Snapshot, FORMAT};
use rustix::fs::{flock, FlockOperation};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::Xxh3;

/// Cached boots that are kept without being asked; each takes some tens of MB.
const KEEP: usize = 24;
/// Core cycles between looks at the host.
const SLICE: u64 = 1_000_000;
/// Lines of the console that an error shows.
const TAIL: usize = 15;
/// End of a cached boot's file name.
const SUFFIX: &str = ".snap";

/// What to boot, up to the point where the guest asks for a snapshot.
pub struct Boot<'a> {
    /// The machine. Of the values that can be changed while a machine runs none matters.
    pub description: &'a Description,
    /// What goes where in memory: firmware, kernel, initial root file system, device tree.
    pub plan: &'a Plan,
    /// The guest's label of the point; any, if there is none.
    pub label: Option<u64>,
    /// What else the boot depends on, such as the identity of a disk.
    pub depends: &'a [String],
    /// For people: what is booted.
    pub what: &'a str,
    /// Connects what belongs to the host and the boot needs, such as a disk.
    pub connect: &'a dyn Fn(&mut Machine<Quiet>) -> anyhow::Result<()>,
}

/// Where cached boots are.
pub fn dir(cache: &CacheArgs) -> anyhow::Result<PathBuf> {
    Ok(crate::image::options(cache)?.cache_dir.join("boots"))
}

/// The cache of boots is where nothing can be written.
#[derive(Debug)]
struct Unwritable(PathBuf);

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&image::unwritable_cache(&self.0))
    }
}

/// Whether a boot could only not be kept.
pub fn is_unwritable(e: &anyhow::Error) -> bool {
    e.downcast_ref::<Unwritable>().is_some()
}

/// A cached boot, newly made if there is none. The same file serves any number of runs.
///
/// Several processes may ask at once: one boots, the others wait. An interrupted boot leaves
/// nothing behind that looks like one.
pub fn boot(dir: &Path, boot: &Boot, messages: &Messages) -> anyhow::Result<PathBuf> {
    let at = |what: &'static str| {
        move |e: std::io::Error| match image::cannot_write(&e) {
            true => anyhow::Error::from(e).context(Unwritable(dir.to_owned())),
            false => anyhow::Error::from(e).context(format!(
                "cannot {what} the cache of boots {}",
                dir.display()
            )),
        }
    };
    let key = key(boot)?;
    let path = dir.join(format!("{key}{SUFFIX}"));
    if usable(&path) {
        return Ok(path);
    }
    fs::create_dir_all(dir).map_err(at("make"))?;
    let lock = File::create(dir.join(format!("{key}.lock"))).map_err(at("lock"))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        messages.note("waiting for the same boot in another process");
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            messages.signals().check()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        if usable(&path) {
            return Ok(path);
        }
    }
    // Somebody may have finished it between the look and the lock.
    if !usable(&path) {
        if path.exists() {
            messages.warning(&format!("{} cannot be used; booting anew", path.display()));
        }
        make(&path, boot, messages)?;
    }
    // Who waits for the lock holds it by its file, not by its name.
    let _ = fs::remove_file(dir.join(format!("{key}.lock")));
    prune(dir, KEEP, None, false)?;
    Ok(path)
}

/// Whether a boot is there and sound as far as a look at its ends tells; notes its use.
fn usable(path: &Path) -> bool {
    let sound = Snapshot::open(path).is_ok();
    if sound {
        // Only matters for what is removed first.
        let _ = File::open(path).and_then(|f| f.set_modified(SystemTime::now()));
    }
    sound
}

/// Hash of everything that a boot depends on. Any change of this program counts.
fn key(b: &Boot) -> anyhow::Result<String> {
    let mut h = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        h.update(&(bytes.len() as u64).to_le_bytes());
        h.update(bytes);
    };
    part(&FORMAT.to_le_bytes());
    part(env!("CARGO_PKG_VERSION").as_bytes());
    part(
        &program()
            .context("cannot read this program's own file")?
            .to_le_bytes(),
    );
    part(Header::hash(b.description).as_bytes());
    for s in &b.plan.segments {
        part(&s.addr.to_le_bytes());
        part(&s.memory_size.to_le_bytes());
        part(&s.bytes);
    }
    let e = b.plan.entry;
    for n in [e.pc, e.a1, e.a2, b.label.map_or(0, |l| l.wrapping_add(1))] {
        part(&n.to_le_bytes());
    }
    for d in b.depends {
        part(d.as_bytes());
    }
    Ok(format!("{:032x}", h.digest128()))
}

/// Hash of this program.
fn program() -> std::io::Result<u128> {
    let mut file = File::open(std::env::current_exe()?)?;
    let mut h = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(h.digest128()),
            n => h.update(&buffer[..n]),
        }
    }
}

/// Boots and saves, with a message for whoever waits.
fn make(path: &Path, b: &Boot, messages: &Messages) -> anyhow::Result<()> {
    let bar = match messages.quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    // The template is a constant.
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("a template");
    bar.set_style(style);
    bar.set_message(format!(
        "booting {} once; the next runs start from here",
        b.what
    ));
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut console = Vec::new();
    let result = until_asked(b, &mut console, messages.signals());
    bar.finish_and_clear();
    // Whoever ends the boot need not be told how far it was.
    messages.signals().check()?;
    let mut machine = result.with_context(|| {
        let text = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n  ");
        format!(
            "the boot of {} failed; the console's last lines:\n  {tail}",
            b.what
        )
    })?;
    let mut meta = Meta::new();
    meta.insert("what".into(), b.what.into());
    devices::note(&mut machine, &mut meta);
    machine
        .save_file(path, &meta)
        .with_context(|| format!("cannot save the boot to {}", path.display()))?;
    messages.signals().check()
}

/// Runs without the timing model until the guest asks for a snapshot.
fn until_asked(b: &Boot, console: &mut Vec<u8>, signals: &Signals) -> anyhow::Result<Machine> {
    let mut machine = Machine::new(b.description, Quiet).context("the machine cannot be built")?;
    machine.set_timed(false);
    machine.set_engine(Engine::best())?;
    guest::load(&mut machine, b.plan, false)?;
    machine.set_software(Some(Arc::new(Software {
        plan: b.plan.clone(),
        timed: false,
        tohost: None,
    })));
    (b.connect)(&mut machine)?;
    loop {
        signals.check()?;
        machine.poll_devices();
        let stop = machine.run(SLICE, None);
        console.extend(machine.console_output());
        match stop {
            Stop::Snapshot(label) if b.label.is_none_or(|l| l == label) => return Ok(machine),
            Stop::Snapshot(_) | Stop::Slice | Stop::Instructions | Stop::Debug | Stop::Reached => {}
            Stop::Idle(Ps::NEVER) if machine.expects_host() => {
                // Something on the host works for the guest.
                std::thread::sleep(Duration::from_millis(1));
            }
            Stop::Idle(Ps::NEVER) => bail!("every hart waits, and nothing can wake one"),
            Stop::Idle(_) => {}
            Stop::EndOfTime => bail!("{}", crate::output::END_OF_TIME),
            Stop::PowerOff(code) => bail!("the guest switched itself off (code {code})"),
            Stop::Reset => bail!("the guest restarted"),
        }
    }
}

/// A cached boot.
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When it was made or used last.
    pub used: SystemTime,
}

/// All cached boots, those used last first.
pub fn entries(dir: &Path) -> anyhow::Result<Vec<Entry>> {
    let context = || format!("cannot list {}", dir.display());
    let list = match fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        list => list.with_context(context)?,
    };
    let mut all = Vec::new();
    for e in list {
        let e = e.with_context(context)?;
        let path = e.path();
        if !path.to_string_lossy().ends_with(SUFFIX) {
            continue;
        }
        // One that another process removes meanwhile is none.
        let Ok(meta) = e.metadata() else { continue };
        all.push(Entry {
            path,
            bytes: meta.len(),
            used: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        });
    }
    all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    Ok(all)
}

/// Removes all but the `keep` used last, but none that was used within `age`; what was removed.
pub fn prune(
    dir: &Path,
    keep: usize,
    age: Option<Duration>,
    dry_run: bool,
) -> anyhow::Result<Vec<Entry>> {
    let now = SystemTime::now();
    let mut gone = Vec::new();
    for e in entries(dir)?.into_iter().skip(keep) {
        let unused = now.duration_since(e.used).unwrap_or_default();
        if age.is_some_and(|a| unused < a) {
            continue;
        }
        if !dry_run {
            match fs::remove_file(&e.path) {
                Err(x) if x.kind() != std::io::ErrorKind::NotFound => {
                    return Err(x).with_context(|| format!("cannot remove {}", e.path.display()))
                }
                _ => {}
            }
        }
        gone.push(e);
    }
    Ok(gone)
}
