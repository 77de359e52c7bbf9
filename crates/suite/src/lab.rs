//! Runs of programs under conditions.

use crate::compile;
use crate::conditions::{Conditions, Malloc, Memory, Timing};
use crate::error::{at, Error, Result};
use crate::figures::Figures;
use crate::inputs;
use crate::library::Library;
use crate::program::{Program, Size};
use crate::record::{Failure, Host, Record, FORMAT};
use crate::MODEL;
use nagori_image::{Base, RootfsSpec};
use nagori_machine::{Machine, Report};
use nagori_session::drive::{Service, Wishes};
use nagori_session::problems::NEVER_ENDED;
use nagori_session::program::{
    Captured, Loaded, Outcome, Program as Job, Run, Timing as When, Why,
};
use nagori_session::sampling::{Asked, Plan};
use nagori_session::{image, Caller, MachineChoice, Options, Placement, Rootfs, Session};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tempfile::TempDir;

/// No run has more instructions than this: it would never end.
const MOST_INSTRUCTIONS: u64 = 100_000_000_000;
/// What the script is called in the guest.
const SCRIPT: &str = "run.sh";
/// The library that binds jemalloc's mappings to NVMM: source, and place in the guest.
const BINDER: (&str, &str) = ("bind-mmap.c", "/usr/local/lib/libnagori-bind.so");
const JEMALLOC: &str = "/usr/lib/riscv64-linux-gnu/libjemalloc.so.2";
/// Lines of output that a failure keeps.
const TAIL: usize = 12;

/// A run to be made.
#[derive(Debug, Clone)]
pub struct Task {
    /// The program's name.
    pub program: String,
    /// Under what.
    pub conditions: Conditions,
    /// Hash of everything on which its figures depend.
    pub key: String,
}

/// Something that has happened to a task, by its place in the list.
pub enum Event<'t> {
    /// It begins.
    Begun(&'t Task),
    /// It has a result, which may be a failure.
    Done(&'t Task, Box<Record>),
}

/// A program whose files have been made, in one size.
struct Ready {
    program: Program,
    size: Size,
    /// Files of the host, and their places in the guest.
    files: Vec<(PathBuf, String)>,
    /// Hash of these files.
    hash: String,
    versions: BTreeMap<String, String>,
}

/// Makes runs.
pub struct Lab<'a> {
    library: Library,
    caller: &'a dyn Caller,
    source: image::Source,
    ready: BTreeMap<(String, Size), Ready>,
    /// By name: the file of the root file system, and its key.
    images: BTreeMap<String, (PathBuf, String, BTreeMap<String, String>)>,
    /// The guest's kernel, firmware and first programs.
    guest: Option<String>,
    binder: Option<PathBuf>,
    dir: TempDir,
}

impl<'a> Lab<'a> {
    /// Programs of a library, with images from a source, where boots are kept, too.
    pub fn new(library: Library, source: image::Source, caller: &'a dyn Caller) -> Result<Lab<'a>> {
        Ok(Lab {
            library,
            caller,
            source,
            ready: BTreeMap::new(),
            images: BTreeMap::new(),
            guest: None,
            binder: None,
            dir: tempfile::tempdir().map_err(at("make", Path::new("a temporary directory")))?,
        })
    }

    /// A task: makes the program's inputs and the image that it needs, if they are not there yet.
    pub fn task(&mut self, program: &Program, conditions: &Conditions) -> Result<Task> {
        conditions.placed().map_err(Error::Request)?;
        self.prepare(program, conditions.size)?;
        if conditions.malloc == Malloc::Jemalloc && self.binder.is_none() {
            let flags = ["-shared", "-fPIC"].map(String::from);
            let bytes = compile::compile(&self.library, BINDER.0, &[BINDER.0.into()], &flags)?;
            self.binder = Some(self.place(BINDER.0, &bytes)?);
        }
        let choice = choice(conditions);
        let machine = choice.resolve(&[]).map_err(Error::Session)?;
        let own = machine.config.memory.regions.get("nvmm");
        if let (Some(own), Memory::Method(method)) = (own, &conditions.memory) {
            return Err(Error::Request(format!(
                "{method}: on {} NVMM is a memory of its own ({}), which no method changes; \
                 --memory-model ddr4,pcm,xpoint compares memories, with ddr4 as the base",
                conditions.machine, own.model
            )));
        }
        let ready = self.ready(&program.name, conditions.size)?;
        let (_, root, _) = self.image(&program.image)?;
        let mut without_name = conditions.clone();
        // What a description says counts, not where it lies.
        without_name.machine = String::new();
        let depends = json!({
            "format": FORMAT,
            "model": MODEL,
            "machine": {"config": machine.config, "core": machine.core},
            "guest": self.guest,
            "root": root,
            "conditions": without_name,
            "run": program.filled(&program.run, conditions.size),
            "begin": program.size(conditions.size)?.begin,
            "files": ready.hash,
        });
        let hash = Sha256::digest(depends.to_string());
        let key = hex(&hash)[..16].to_string();
        Ok(Task {
            program: program.name.clone(),
            conditions: conditions.clone(),
            key,
        })
    }

    fn ready(&self, name: &str, size: Size) -> Result<&Ready> {
        let found = self.ready.get(&(name.to_string(), size));
        found.ok_or_else(|| Error::Request(format!("{name} was not prepared")))
    }

    fn image(&self, name: &str) -> Result<&(PathBuf, String, BTreeMap<String, String>)> {
        let found = self.images.get(name);
        found.ok_or_else(|| Error::Request(format!("the image {name} was not built")))
    }

    fn place(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).map_err(at("write", &path))?;
        Ok(path)
    }

    fn prepare(&mut self, program: &Program, size: Size) -> Result<()> {
        let key = (program.name.clone(), size);
        if self.ready.contains_key(&key) {
            return Ok(());
        }
        program.size(size)?;
        if !self.images.contains_key(&program.image) {
            let spec = RootfsSpec {
                packages: self.library.image(&program.image)?.packages,
                ..RootfsSpec::new(Base::Run)
            };
            let options = self.source.options().map_err(Error::Session)?;
            let root = image::rootfs::build(&options, &spec, self.caller)?;
            let versions = root
                .manifest
                .packages
                .iter()
                .map(|p| (p.name.clone(), p.version.clone()));
            let built = (
                root.path.clone(),
                root.manifest.key.clone(),
                versions.collect(),
            );
            self.images.insert(program.image.clone(), built);
            let guest = image::build(&options, self.caller)?;
            self.guest = Some(guest.manifest.key);
        }
        let mut files = Vec::new();
        let mut hash = Sha256::new();
        let mut versions = BTreeMap::new();
        let script = program.filled(&program.run, size).into_bytes();
        let mut all = vec![(format!("/root/{SCRIPT}"), script, false)];
        for i in &program.inputs {
            all.push((
                format!("/root/{}", i.file),
                inputs::make(&self.library, program, i, size)?,
                false,
            ));
        }
        if !program.sources.is_empty() {
            let libraries: Vec<String> =
                program.libraries.iter().map(|l| format!("-l{l}")).collect();
            let bytes =
                compile::compile(&self.library, &program.name, &program.sources, &libraries)?;
            all.push((format!("/usr/local/bin/{}", program.name), bytes, true));
            versions.insert("riscv64-linux-gnu-gcc".into(), compile::version()?);
        }
        for (n, (guest, bytes, executable)) in all.iter().enumerate() {
            hash.update((guest.len() as u64).to_le_bytes());
            hash.update(guest);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
            let path = self.place(&format!("{}-{size}-{n}", program.name), bytes)?;
            if *executable {
                use std::os::unix::fs::PermissionsExt;
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(&path, mode).map_err(at("change", &path))?;
            }
            files.push((path, guest.clone()));
        }
        let (_, _, all) = self.image(&program.image)?;
        for p in &program.packages {
            versions.extend(all.get(p).map(|v| (p.clone(), v.clone())));
        }
        let ready = Ready {
            program: program.clone(),
            size,
            files,
            hash: hex(&hash.finalize()),
            versions,
        };
        self.ready.insert(key, ready);
        Ok(())
    }

    /// Makes runs, several at a time, in the order of the list; `tell` is called from several threads, one at a time.
    ///
    /// An error ends the work, and so does the caller's wish; results that were told of before are whole.
    pub fn run(
        &self,
        tasks: &[Task],
        jobs: usize,
        tell: &mut (dyn FnMut(Event<'_>) -> Result<()> + Send),
    ) -> Result<()> {
        let mut sessions: Vec<((MachineChoice, Placement, String), Session<'_>)> = Vec::new();
        for t in tasks {
            let ready = self.ready(&t.program, t.conditions.size)?;
            let which = which(&t.conditions, &ready.program)?;
            if sessions.iter().any(|(w, _)| *w == which) {
                continue;
            }
            let (root, _, _) = self.image(&ready.program.image)?;
            let options = Options {
                machine: which.0.clone(),
                placement: which.1,
                rootfs: Rootfs::Named(root.to_string_lossy().into_owned()),
                images: self.source.clone(),
                ..Options::default()
            };
            sessions.push((which, Session::boot(options, self.caller)?));
        }
        let next = AtomicUsize::new(0);
        let tell = Mutex::new((tell, Ok(())));
        let stop = |e: Error| {
            if let Ok(mut t) = tell.lock() {
                if t.1.is_ok() {
                    t.1 = Err(e);
                }
            }
        };
        let say = |event: Event<'_>| {
            let said = tell.lock().map(|mut t| (t.0)(event));
            match said {
                Ok(Ok(())) => true,
                Ok(Err(e)) => {
                    stop(e);
                    false
                }
                Err(_) => false,
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| loop {
                    let failed = tell.lock().map_or(true, |t| t.1.is_err());
                    if failed || self.caller.interrupted().is_some() {
                        break;
                    }
                    let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    if !say(Event::Begun(task)) {
                        break;
                    }
                    match self.one(task, &sessions) {
                        Ok(Some(record)) => {
                            if !say(Event::Done(task, Box::new(record))) {
                                break;
                            }
                        }
                        Ok(None) => break,
                        Err(e) => {
                            stop(e);
                            break;
                        }
                    }
                });
            }
        });
        tell.into_inner().map_or(Ok(()), |t| t.1)
    }

    /// One run; nothing if the caller has ended it.
    fn one(
        &self,
        task: &Task,
        sessions: &[((MachineChoice, Placement, String), Session<'_>)],
    ) -> Result<Option<Record>> {
        let c = &task.conditions;
        let ready = self.ready(&task.program, c.size)?;
        let which = which(c, &ready.program)?;
        let found = sessions.iter().find(|(w, _)| *w == which);
        let (_, session) =
            found.ok_or_else(|| Error::Request("the machine was not booted".into()))?;
        let start = Instant::now();
        let (job, begin) = self.job(ready, c)?;
        let measured = measure(session, &job, begin);
        let (run, report, whole) = match measured {
            Ok(m) => m,
            Err(e) if e.interrupted().is_some() => return Ok(None),
            // What one program does to its machine is no reason to give up the others.
            Err(e) => {
                let failure = Failure {
                    why: e.chain(),
                    tail: String::new(),
                };
                return Ok(Some(record(
                    task,
                    ready,
                    (None, Some(failure)),
                    (String::new(), 0),
                    start,
                )));
            }
        };
        if matches!(run.why, Why::Signal(_)) {
            return Ok(None);
        }
        let sum = hex(&Sha256::digest(&run.output.stdout));
        let expected = ready.program.size(c.size)?.output.clone();
        let figures = Figures::of(&report, footprint(&run));
        let expects = c.timing != Timing::Functional && c.placed() != Ok(Placement::Dram);
        let nothing = (expects && figures.nvmm.requests() == 0)
            .then(|| "what was timed made no request of NVMM".to_string());
        let why = failure(&run, c.timing, &sum, expected.as_deref()).or(nothing);
        let tail = |b: &[u8]| {
            let text = String::from_utf8_lossy(b).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL)..].join("\n")
        };
        let failure = why.map(|why| Failure {
            why,
            tail: format!("{}\n{}", tail(&run.output.stdout), tail(&run.output.stderr)),
        });
        let figures = failure.is_none().then_some(figures);
        Ok(Some(record(
            task,
            ready,
            (figures, failure),
            (sum, whole),
            start,
        )))
    }

    /// The job for a machine, and when its region begins if that is told by a number of instructions.
    fn job(&self, ready: &Ready, c: &Conditions) -> Result<(Loaded, Option<u64>)> {
        let begin = ready
            .program
            .size(c.size)?
            .begin
            .filter(|_| c.timing.of_region());
        let mut job = Job::new("sh").args(["-e", SCRIPT]);
        job.files = ready.files.clone();
        job.method = c.memory.method();
        job.seed = c.seed;
        job.max_instructions = Some(MOST_INSTRUCTIONS);
        job.timing = match (c.timing, begin) {
            (Timing::Whole, _) => When::Whole,
            (Timing::Region | Timing::Sampled, None) => When::Regions,
            _ => When::Off,
        };
        if c.timing == Timing::Sampled {
            job.sampling = Some(Asked {
                // Runs share the host's cores already.
                plan: Plan {
                    threads: 1,
                    ..Plan::default()
                },
                windows_to: None,
            });
        }
        if c.malloc == Malloc::Jemalloc {
            let heap = c.placed().map_err(Error::Request)? == Placement::Heap;
            let binder = self.binder.as_ref().filter(|_| heap);
            if let Some(binder) = binder {
                job.files.push((binder.clone(), BINDER.1.into()));
            }
            let preload = if heap {
                format!("{}:{JEMALLOC}", BINDER.1)
            } else {
                JEMALLOC.into()
            };
            job = job.env("LD_PRELOAD", &preload);
        }
        Ok((job.load()?, begin))
    }
}

fn choice(c: &Conditions) -> MachineChoice {
    let mut set = c.set.clone();
    set.extend(c.memory.setting());
    MachineChoice {
        machine: c.machine.clone(),
        set,
    }
}

/// What runs share a boot by.
fn which(c: &Conditions, p: &Program) -> Result<(MachineChoice, Placement, String)> {
    let placement = c.placed().map_err(Error::Request)?;
    Ok((choice(c), placement, p.image.clone()))
}

fn record(
    task: &Task,
    ready: &Ready,
    (figures, failure): (Option<Figures>, Option<Failure>),
    (output, whole_instructions): (String, u64),
    start: Instant,
) -> Record {
    debug_assert_eq!(ready.size, task.conditions.size);
    Record {
        format: FORMAT,
        program: task.program.clone(),
        conditions: task.conditions.clone(),
        key: task.key.clone(),
        model: MODEL.into(),
        versions: ready.versions.clone(),
        whole_instructions,
        output,
        figures,
        failure,
        host: Host {
            seconds: (start.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        },
    }
}

/// The most memory that it had at a time, in KiB.
fn footprint(run: &Run) -> u64 {
    match &run.why {
        Why::Outcome(Outcome::Ended(e)) => e.max_rss_kib,
        _ => 0,
    }
}

/// Why a run does not count.
fn failure(run: &Run, timing: Timing, sum: &str, expected: Option<&str>) -> Option<String> {
    if let Some(message) = run.why.message() {
        return Some(message);
    }
    match run.exit_code() {
        Some(0) => {}
        Some(n) => return Some(format!("the script ended with exit code {n}")),
        None => return Some("the script did not come to its end".into()),
    }
    let open = |p: &&nagori_session::problems::Problem| p.meaningless || p.what == NEVER_ENDED;
    if let Some(p) = run
        .problems
        .iter()
        .filter(|_| timing.of_region())
        .find(open)
    {
        return Some(p.message.clone());
    }
    let other = expected.is_some_and(|e| e != sum);
    other.then(|| {
        format!(
            "its output is another one: SHA-256 {sum}, not {}",
            expected.unwrap_or("")
        )
    })
}

/// Begins the region when enough instructions were executed.
struct Beginning {
    at: u64,
    done: Arc<AtomicBool>,
}

impl Service for Beginning {
    fn before(&mut self, machine: &mut Machine, _: &mut Wishes) -> nagori_session::Result<()> {
        let begun = self.done.load(Ordering::Relaxed);
        // Behind its end it does not begin any more.
        if !begun && machine.steps() >= self.at && machine.marks().is_empty() {
            self.done.store(true, Ordering::Relaxed);
            machine.reset_stats();
            machine.set_timed(true);
        }
        // The script has ended its region: what follows need not be timed.
        if begun && machine.timed() && !machine.marks().is_empty() {
            machine.set_timed(false);
        }
        Ok(())
    }
}

/// Makes a run: its result, the report of its timed part, and the instructions of all of it.
fn measure(
    session: &Session<'_>,
    job: &Loaded,
    begin: Option<u64>,
) -> nagori_session::Result<(Run, Report, u64)> {
    let mut running = session.start(job)?;
    let first = running.machine.steps();
    let done = Arc::new(AtomicBool::new(false));
    if let Some(n) = begin {
        running.holders.push(Box::new(Beginning {
            at: first + n,
            done: done.clone(),
        }));
    }
    let mut captured = Captured::default();
    let mut run = running.wait(&mut captured)?;
    run.output = captured;
    let whole = running.machine.steps() - first;
    if let Some(n) = begin.filter(|_| !done.load(Ordering::Relaxed)) {
        let e = format!(
            "the region was to begin after {n} instructions, but it ended before that, or at once behind it \
             (the script has {whole})"
        );
        return Err(nagori_session::Error::Request(e));
    }
    // The script ends the region with the marker of a dump; without it the region ends with the script.
    // What was estimated is the run's report.
    let estimated = run.sampled.as_ref().is_some_and(|s| !s.is_whole());
    let marked = begin.is_some() && !estimated;
    let dumped = running.machine.marks().first().filter(|_| marked);
    let report = dumped.map_or_else(|| run.report.clone(), |(_, r)| r.clone());
    Ok((run, report, whole))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
