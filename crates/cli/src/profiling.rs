//! `--profile`: which code waits for memory.

use crate::args::InspectArgs;
use anyhow::{bail, Context};
use nagori_hart::world::Stall;
use nagori_machine::{Attributed, Attribution, Machine};
use nagori_platform::loader;
use nagori_profile::{folded, kernel, pprof, Counted, Lines, Profile, Region, Space, Symbols};
use nagori_ram::GuestRam;
use nagori_session::sampling::Sampled;
use nagori_terminal::output::file::{self, Staged};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ending of files of folded stacks.
const FOLDED: &str = "folded";
/// Name of the file from which the kernel's own table of symbols is.
const KERNEL: &str = "vmlinux";

/// Where Debian's packages put debug information that is not in a program itself.
pub const DEBUG: &str = "/usr/lib/debug";

/// The part of a profile that the machine holds.
struct Shared(Arc<Mutex<Profile>>);

fn lock(p: &Mutex<Profile>) -> MutexGuard<'_, Profile> {
    // A profile consists of numbers: it is usable even after a panic.
    p.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attribution for Shared {
    fn count(&mut self, stall: &Stall, nvmm: bool, ram: &GuestRam, ram_base: u64) {
        let region = if nvmm { Region::Nvmm } else { Region::Dram };
        lock(&self.0).count(stall, region, ram, ram_base);
    }
    fn reset(&mut self) {
        lock(&self.0).reset();
    }
    fn name_space(&mut self, satp: u64, name: &str) {
        lock(&self.0).name_space(Space(satp), name);
    }
    fn take(&mut self) -> Attributed {
        Attributed(Some(Arc::new(lock(&self.0).take())))
    }
    fn another(&self) -> Box<dyn Attribution> {
        Box::new(Shared(Arc::new(Mutex::new(lock(&self.0).another()))))
    }
}

/// Most functions of a table.
const FUNCTIONS: usize = 25;

/// How long a function has waited for a memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waiting {
    /// Its name; one for all addresses without any.
    pub function: String,
    /// The program or kernel that it is of.
    pub space: String,
    /// `user`, `supervisor` or `machine`.
    pub privilege: &'static str,
    /// `dram` or `nvmm`.
    pub memory: &'static str,
    /// In nanoseconds, of all harts.
    pub ns: u64,
    /// Of all waiting.
    pub share: f64,
    /// The source line of the function that has waited longest, as `FILE:LINE`, if the program says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// A profile that is being collected.
pub struct Profiling {
    profile: Arc<Mutex<Profile>>,
    /// pprof's file.
    binary: Option<Staged>,
    /// The file of folded stacks.
    text: Option<Staged>,
    /// The kernel's functions have names.
    knows_kernel: bool,
}

impl Profiling {
    /// Has a machine's waiting attributed from now on, if requested; `program` is the file that is run, with the
    /// symbols that its loader has found. Files are created now, so that a long run does not end with a name that
    /// cannot be written.
    pub fn start(
        machine: &mut Machine,
        a: &InspectArgs,
        (program, own): (Option<&str>, &loader::Symbols),
    ) -> anyhow::Result<Option<Profiling>> {
        let Some(path) = &a.profile else {
            return Ok(None);
        };
        let create = |path: &Path| Staged::create(path).context("--profile").map(Some);
        let only_text = path.extension().is_some_and(|e| e == FOLDED);
        let (binary, text) = match only_text {
            true => (None, create(path)?),
            // There is only one standard output.
            false if file::is_stdout(path) => (create(path)?, None),
            false => {
                let mut text = path.as_os_str().to_owned();
                text.push(".");
                text.push(FOLDED);
                (create(path)?, create(Path::new(&text))?)
            }
        };
        let profiling = Profiling::collect(machine, a, (program, own))?;
        Ok(Some(Profiling {
            binary,
            text,
            ..profiling
        }))
    }

    /// Collects a profile of which no files are written.
    pub fn collect(
        machine: &mut Machine,
        a: &InspectArgs,
        (program, own): (Option<&str>, &loader::Symbols),
    ) -> anyhow::Result<Profiling> {
        let mut symbols = Symbols::default();
        let mut lines = Lines::default();
        // Lines are more than is needed: a table of them that cannot be read is none.
        let debug = Path::new(DEBUG);
        for given in &a.profile_symbols {
            let file = Named::read(given)?;
            file.symbols(&mut symbols)?;
            let _ = file.lines(&mut lines, debug);
        }
        if !own.is_empty() {
            if let Some(Ok(file)) = program.map(Named::read) {
                let _ = file.lines(&mut lines, debug);
            }
            let table = own.iter().map(|(a, n, s)| (a, n, s.to_string()));
            symbols.add_table(program.unwrap_or_default(), table.collect(), 0);
        }
        let knows_kernel = add_kernel(&mut symbols, machine.ram());
        let period = machine.config().core_period().fraction();
        let mut profile = Profile::new(symbols, period);
        profile.set_lines(lines);
        if let Some(program) = program {
            profile.name_program(program);
        }
        let profile = Arc::new(Mutex::new(profile));
        machine.set_attribution(Some(Box::new(Shared(profile.clone()))));
        Ok(Profiling {
            profile,
            binary: None,
            text: None,
            knows_kernel,
        })
    }

    /// Writes the files; returns the functions that have waited longest. Of a sampled run all of that is an estimate.
    pub fn finish(
        self,
        machine: &mut Machine,
        sampled: Option<&Sampled>,
    ) -> anyhow::Result<Vec<Waiting>> {
        machine.set_attribution(None);
        let mut ps = machine.report().elapsed_ps;
        let mut profile = lock(&self.profile);
        if let Some(s) = sampled {
            profile.estimate(
                s.attributed()
                    .filter_map(|(factor, a)| Some((factor, counted(a)?))),
            );
            ps = s.time_ps().map_or(ps, |t| t.value.round() as u64);
        }
        let ns = ps / 1000;
        if !self.knows_kernel {
            // It was not there yet, or had not moved to its addresses.
            add_kernel(profile.symbols_mut(), machine.ram());
        }
        if let Some(mut file) = self.binary {
            pprof::write(&profile, ns, BufWriter::new(&mut file)).context("--profile")?;
            file.finish().context("--profile")?;
        }
        if let Some(file) = self.text {
            let text = folded::folded(&profile);
            file.put(text.as_bytes()).context("--profile")?;
        }
        Ok(functions(&profile))
    }
}

/// What was counted in a part of a run.
fn counted(a: &Attributed) -> Option<&Counted> {
    a.0.as_ref()?.downcast_ref()
}

/// What a row of the table is of: function, space, privilege, memory.
type Of = (String, String, &'static str, &'static str);

/// The functions that have waited longest, each with its own waiting, not that of those that it has called.
fn functions(p: &Profile) -> Vec<Waiting> {
    let mut all: BTreeMap<Of, (u64, BTreeMap<String, u64>)> = BTreeMap::new();
    for (key, v) in p.rows() {
        let at = p.stack(key.frames).first().copied();
        let function = match at {
            Some(at) => match p.symbols().lookup(at) {
                Some(s) => s.name.clone(),
                // Addresses by themselves would be many, with little waiting each.
                None => "(no symbol)".into(),
            },
            None => "(no stack)".into(),
        };
        let of = (
            function,
            p.space_name(key.space),
            key.privilege_name(),
            key.region.name(),
        );
        let (cycles, lines) = all.entry(of).or_default();
        *cycles += v.cycles;
        if let Some((file, line)) = at.and_then(|at| p.lines().lookup(at)) {
            *lines.entry(format!("{file}:{line}")).or_default() += v.cycles;
        }
    }
    let total = p.total().cycles.max(1) as f64;
    let mut all: Vec<Waiting> = { all.into_iter() }
        .filter(|(_, (cycles, _))| *cycles > 0)
        .map(
            |((function, space, privilege, memory), (cycles, lines))| Waiting {
                function,
                space,
                privilege,
                memory,
                ns: p.ns(cycles),
                share: cycles as f64 / total,
                // Of equal ones the first.
                line: { lines.into_iter().rev() }.max_by_key(|l| l.1).map(|l| l.0),
            },
        )
        .collect();
    // Those that are equal stay in the order of their names.
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all.truncate(FUNCTIONS);
    all
}

/// Adds the functions of the kernel in a machine's memory; whether there is one.
pub fn add_kernel(symbols: &mut Symbols, ram: &GuestRam) -> bool {
    let found = kernel::functions(ram);
    found.is_some_and(|table| symbols.add_table(KERNEL, table, 0) > 0)
}

/// The file and the address of `FILE[@ADDRESS]`.
fn place(given: &str) -> anyhow::Result<(&str, u64)> {
    let Some((file, at)) = given.rsplit_once('@') else {
        return Ok((given, 0));
    };
    if Path::new(given).exists() {
        return Ok((given, 0));
    }
    let hex = at.strip_prefix("0x").unwrap_or(at);
    match u64::from_str_radix(hex, 16) {
        Ok(bias) => Ok((file, bias)),
        Err(_) => bail!("--symbols {given}: `{at}` is no hexadecimal address"),
    }
}

/// A file with names of places in a program, as `--symbols` names it.
pub struct Named<'a> {
    file: &'a str,
    bytes: Vec<u8>,
    /// What is added to its addresses.
    bias: u64,
}

impl Named<'_> {
    /// Reads it.
    pub fn read(given: &str) -> anyhow::Result<Named<'_>> {
        let (file, bias) = place(given)?;
        let bytes =
            std::fs::read(file).with_context(|| format!("cannot read symbols from {file}"))?;
        Ok(Named { file, bytes, bias })
    }

    /// Adds its symbols.
    pub fn symbols(&self, to: &mut Symbols) -> anyhow::Result<()> {
        to.add(self.file, &self.bytes, self.bias)?;
        Ok(())
    }

    /// Adds its source lines, or those of the file with its debug information, which is found by build id in a
    /// directory in which Debian's -dbgsym packages have it. Lists of symbols have none.
    pub fn lines(&self, to: &mut Lines, debug: &Path) -> anyhow::Result<()> {
        let Named { file, bytes, bias } = self;
        if !bytes.starts_with(b"\x7fELF") || to.add(file, bytes, *bias)? > 0 {
            return Ok(());
        }
        let Some(separate) = Lines::separate(bytes, debug) else {
            return Ok(());
        };
        if let Ok(bytes) = std::fs::read(&separate) {
            to.add(&separate.display().to_string(), &bytes, *bias)?;
        }
        Ok(())
    }
}
