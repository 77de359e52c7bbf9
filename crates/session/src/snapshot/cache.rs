//! Cached boots: made on demand, found by a hash of everything that they depend on.

use crate::caller::{check, Caller, Step};
use crate::devices::{self, Devices};
use crate::drive::{self, BoxedService, Course, Service, Wishes};
use crate::end::End;
use crate::error::{Context, Error, Result};
use crate::image;
use crate::nvmm::NvmmSpec;
use crate::software;
use nagori_config::Machine as Description;
use nagori_machine::{Engine, Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_platform::loader::Plan;
use nagori_snapshot::{Header, Meta, Snapshot, FORMAT};
use rustix::fs::{flock, FlockOperation};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::Xxh3;

/// Number of cached boots that are kept without being requested; each takes tens of MB.
const KEEP: usize = 24;
/// Bytes that they may take in all, if nothing else is said.
const LIMIT: u64 = 512 << 20;
/// How long the host sleeps at most while it works for a guest that waits.
const PATIENCE: Duration = Duration::from_millis(1);
/// Lines of the console that an error shows.
const TAIL: usize = 15;
/// End of a cached boot's file name.
const SUFFIX: &str = ".snap";

/// What to boot, up to the point where the guest requests a snapshot.
pub struct Boot<'a> {
    /// The machine. Values that can be changed while a machine runs do not matter.
    pub description: &'a Description,
    /// The contents of memory: firmware, kernel, initial root file system, device tree.
    pub plan: &'a Plan,
    /// The guest's label of the point; `None`: any label.
    pub label: Option<u64>,
    /// Other things on which the boot depends, such as the identity of a disk.
    pub depends: &'a [String],
    /// What is booted, for human readers.
    pub what: &'a str,
    /// Host resources that the boot needs, such as a disk.
    pub devices: &'a Devices,
    /// The image that NVMM has when the machine boots.
    pub nvmm: Option<&'a NvmmSpec>,
}

/// A cached boot. It can be used for as long as this is there, even if another process makes room in the cache.
pub struct Booted {
    path: PathBuf,
    file: File,
}

impl Booted {
    /// A cached boot whose beginning and end are intact; records its use.
    fn open(path: &Path) -> Option<Booted> {
        let file = File::open(path).ok()?;
        Snapshot::new(file.try_clone().ok()?).ok()?;
        // Only affects which boots are removed first.
        let _ = file.set_modified(SystemTime::now());
        let path = path.to_owned();
        Some(Booted { path, file })
    }

    /// Its file, which another process may remove.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A machine that goes on from there, as a description says.
    pub fn machine(&self, description: &Description) -> Result<Machine> {
        let use_of = || format!("cannot use the snapshot {}", self.path.display());
        let file = self.file.try_clone().with_context(use_of)?;
        let snapshot = Snapshot::new(file).with_context(use_of)?;
        snapshot
            .machine_as(description)
            .with_context(|| format!("cannot go on from {}", self.path.display()))
    }
}

/// Where cached boots are, in a directory of guest images.
pub fn dir(images: &Path) -> PathBuf {
    images.join("boots")
}

/// A cached boot, newly made if there is none. One serves any number of runs.
///
/// Several processes may ask at once: one boots, the others wait. An interrupted boot leaves
/// nothing behind that could be taken for a cached boot. Behind it, the boots that were not used for the longest time
/// are removed, as far as all of them take more than `limit` bytes (a default without one).
pub fn boot(dir: &Path, limit: Option<u64>, boot: &Boot, caller: &dyn Caller) -> Result<Booted> {
    let at = |what: &'static str| {
        move |e: std::io::Error| {
            if image::cannot_write(&e) {
                Error::Unwritable {
                    dir: dir.to_owned(),
                    source: Box::new(e.into()),
                }
            } else {
                Error::During {
                    what: format!("cannot {what} the cache of boots {}", dir.display()),
                    source: Box::new(e.into()),
                }
            }
        }
    };
    let key = key(boot)?;
    let path = dir.join(format!("{key}{SUFFIX}"));
    if let Some(booted) = Booted::open(&path) {
        return Ok(booted);
    }
    fs::create_dir_all(dir).map_err(at("make"))?;
    let lock = File::create(dir.join(format!("{key}.lock"))).map_err(at("lock"))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        caller.note("waiting for the same boot in another process");
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            check(caller)?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // Another process may have finished it before the lock was taken.
    let booted = match Booted::open(&path) {
        Some(booted) => booted,
        None => {
            if path.exists() {
                caller.warning(&format!("{} cannot be used; booting anew", path.display()));
            }
            make(&path, boot, caller)?;
            Booted::open(&path).ok_or_else(|| {
                let file = path.display();
                Error::Guest(format!(
                    "{file} cannot be used, though it was made just now"
                ))
            })?
        }
    };
    // A process that waits for the lock has its file open and does not need the name.
    let _ = fs::remove_file(dir.join(format!("{key}.lock")));
    // In a directory that several users share, one may not be allowed to remove another's.
    if let Err(e) = prune(dir, KEEP, None, false).and_then(|_| shrink(dir, limit.unwrap_or(LIMIT)))
    {
        caller.warning(&format!(
            "the cache of boots stays as large as it is: {}",
            e.chain()
        ));
    }
    Ok(booted)
}

/// Hash of everything that a boot depends on. Any change of this code changes it.
fn key(b: &Boot) -> Result<String> {
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

/// The file from which this code was loaded: the program itself, or a library that a program has loaded, such as
/// Python's.
pub fn loaded_from() -> std::io::Result<PathBuf> {
    let here = loaded_from as fn() -> std::io::Result<PathBuf> as usize;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let file = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let path = rest.find('/').map(|at| &rest[at..])?;
        (address(from)?..address(to)?)
            .contains(&here)
            .then(|| path.into())
    });
    file.map_or_else(std::env::current_exe, Ok)
}

/// Hash of the file of this code.
fn program() -> std::io::Result<u128> {
    let mut file = File::open(loaded_from()?)?;
    let mut h = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(h.digest128()),
            n => h.update(&buffer[..n]),
        }
    }
}

/// Boots and saves, with a message for the user.
fn make(path: &Path, b: &Boot, caller: &dyn Caller) -> Result<()> {
    let mut console = Vec::new();
    caller.progress(Step::Boot(b.what));
    let result = until_asked(b, &mut console, caller);
    caller.progress(Step::Done);
    // The caller that ended the boot need not be told how far it was.
    check(caller)?;
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
    nagori_snapshot::save_file(&machine, path, &meta)
        .with_context(|| format!("cannot save the boot to {}", path.display()))?;
    check(caller)
}

/// Ends a boot where the guest requests a snapshot, and keeps its output.
struct Booting<'a> {
    label: Option<u64>,
    console: &'a mut Vec<u8>,
}

impl Service for Booting<'_> {
    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        self.console.extend(machine.console_output());
        match stop {
            Stop::Snapshot(label) if self.label.is_none_or(|l| l == label) => {
                wishes.end(End::Saved);
            }
            // A guest that restarts would do so for ever.
            Stop::Reset => wishes.end(End::Restart),
            // Something on the host works for the guest.
            Stop::Idle(Ps::NEVER) => wishes.wake_within(PATIENCE),
            _ => {}
        }
        Ok(())
    }

    fn may_wake(&self, machine: &Machine) -> bool {
        machine.expects_host()
    }
}

/// Runs without the timing model until the guest requests a snapshot.
fn until_asked(b: &Boot, console: &mut Vec<u8>, caller: &dyn Caller) -> Result<Machine> {
    let mut machine = Machine::new(b.description).context("the machine cannot be built")?;
    machine.set_timed(false);
    machine.set_engine(Engine::best())?;
    if let Some(image) = b.nvmm {
        image.show(&mut machine)?;
    }
    software::install(&mut machine, b.plan.clone(), false, None)?;
    let mut services: Vec<BoxedService<'_>> = vec![Box::new(Booting {
        label: b.label,
        console,
    })];
    services.extend(b.devices.connect(&mut machine, caller)?);
    let end = drive::drive(&mut machine, &mut services, caller, Course::default())?;
    drop(services);
    let why = match end {
        End::Saved => return Ok(machine),
        End::Off(code) => format!("the guest switched itself off (code {code})"),
        End::Restart => "the guest restarted".into(),
        End::Stuck => "every hart waits, and nothing can wake one".into(),
        end => end.describe(),
    };
    Err(Error::Guest(why))
}

/// A cached boot.
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When it was made, or last used.
    pub used: SystemTime,
}

/// All cached boots, the last used first.
pub fn entries(dir: &Path) -> Result<Vec<Entry>> {
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
        // A boot that another process removes in the meantime is not listed.
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

/// Removes those that were not used for the longest time until the rest takes at most `limit` bytes; the last one used
/// stays.
fn shrink(dir: &Path, limit: u64) -> Result<()> {
    let mut sum = 0;
    for (n, e) in entries(dir)?.into_iter().enumerate() {
        sum += e.bytes;
        if n > 0 && sum > limit {
            remove(&e)?;
        }
    }
    Ok(())
}

fn remove(e: &Entry) -> Result<()> {
    match fs::remove_file(&e.path) {
        Err(x) if x.kind() != std::io::ErrorKind::NotFound => {
            Err(x).with_context(|| format!("cannot remove {}", e.path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes all but the `keep` last used, but none that was used within `age`; returns what was
/// removed.
pub fn prune(dir: &Path, keep: usize, age: Option<Duration>, dry_run: bool) -> Result<Vec<Entry>> {
    let now = SystemTime::now();
    let mut gone = Vec::new();
    for e in entries(dir)?.into_iter().skip(keep) {
        let unused = now.duration_since(e.used).unwrap_or_default();
        if age.is_some_and(|a| unused < a) {
            continue;
        }
        if !dry_run {
            remove(&e)?;
        }
        gone.push(e);
    }
    Ok(gone)
}
