//! `nagori bench speed`: how fast this program emulates, on the host's clock.

pub mod args;
pub(super) mod engine;
mod goals;
pub(super) mod host;
pub mod programs;
mod qemu;
mod row;

use anyhow::{bail, Context};
use args::SpeedArgs;
use engine::{Engine, Run};
use nagori_config::Machine as Description;
use nagori_memtime::Method;
use nagori_platform::loader::Plan;
use nagori_session::image;
use nagori_session::software::{self, Software};
use nagori_terminal::args::MachineArgs;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use programs::{Program, Work, EMPTY, PROGRAMS};
use row::Row;
use serde_json::json;

/// The boot of Linux to its shell's first command.
const BOOT: &str = "linux-boot";
/// The kernel's argument that names this command.
const COMMAND: &str = "nagori.run=\"true\"";

/// Runs the command.
pub fn command(a: &SpeedArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // Possible errors are found before the minutes of measurement.
    let names = || PROGRAMS.iter().map(|p| p.name).chain([BOOT]);
    if let Some(bad) = a.only.iter().find(|n| !names().any(|k| k == n.as_str())) {
        let known: Vec<&str> = names().collect();
        bail!(
            "there is no workload `{bad}`: expected {}",
            known.join(", ")
        );
    }
    let to = a.report.as_deref().map(Staged::create).transpose();
    let to = to.context("--report")?;
    let session = Session::new(a, messages)?;
    let wanted = |name: &str| a.only.is_empty() || a.only.iter().any(|n| n == name);
    let mut rows = Vec::new();
    for p in PROGRAMS.iter().filter(|p| wanted(p.name)) {
        rows.extend(session.program(p)?);
    }
    // The boot takes its time whatever the length; a quick run leaves it out.
    if wanted(BOOT) && (!a.quick || !a.only.is_empty()) {
        rows.extend(session.boot()?);
    }
    // Goals and ratios are about the main machine; rows of other machines are only shown beside its own.
    let main = Some(&session.description.config.name);
    let own = |r: &&Row| r.machine.is_none() || r.machine.as_ref() == main;
    let own: Vec<Row> = rows.iter().filter(own).cloned().collect();
    let goals = goals::goals(&own);
    if let Some(file) = to {
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "processor": host::processor(),
            "qemu": session.qemu.as_ref().map(|q| &q.version),
            "machine": session.description.config.name,
            "length_percent": a.scale(),
            "repeats": a.repeats,
            "rule": "least processor time of the repeats; timed boots once",
            "rows": rows,
            "ratios": goals::ratios(&own),
            "goals": goals,
        });
        let written = file.put(format!("{report:#}\n").as_bytes());
        written.context("--report")?;
    }
    if a.json {
        output::print_json(&json!(rows))?;
    } else {
        let mut text = row::table(&rows);
        if a.qemu {
            text = format!("{text}\n{}", goals::table(&goals));
        }
        output::print(&text)?;
    }
    Ok(SUCCESS)
}

/// QEMU, and the cost of starting it.
struct Other {
    version: String,
    start: f64,
}

/// Shared context of all measurements.
struct Session<'a> {
    args: &'a SpeedArgs,
    messages: &'a Messages,
    engines: Vec<Engine>,
    description: Description,
    timed: Vec<(Method, Description)>,
    work: Work,
    qemu: Option<Other>,
}

impl<'a> Session<'a> {
    fn new(args: &'a SpeedArgs, messages: &'a Messages) -> anyhow::Result<Session<'a>> {
        let engines = args.engine.engines();
        engines.iter().try_for_each(|e| e.check())?;
        let description = args.machine.resolve(&[])?;
        let timed = methods(args, &[])?;
        for (m, d) in &timed {
            programs::data_base(&d.config.memory, *m)?;
        }
        let work = Work::new()?;
        let mut session = Session {
            args,
            messages,
            engines,
            description,
            timed,
            work,
            qemu: None,
        };
        if args.qemu {
            let version = qemu::version()?;
            let elf = session.work.compile(&EMPTY, args.scale(), None)?;
            let (start, _) = session.least(|| Ok(qemu::program(&elf)?.1), |t| *t)?;
            session.qemu = Some(Other { version, start });
        }
        Ok(session)
    }

    /// The repetition with the least processor time, since other work on the host only adds to it;
    /// and the times of all.
    fn least<T>(
        &self,
        run: impl Fn() -> anyhow::Result<T>,
        time: impl Fn(&T) -> f64,
    ) -> anyhow::Result<(T, Vec<f64>)> {
        let mut best = run()?;
        let mut times = vec![time(&best)];
        for _ in 1..self.args.repeats {
            let next = run()?;
            times.push(time(&next));
            if time(&next) < time(&best) {
                best = next;
            }
        }
        Ok((best, times))
    }

    fn run(
        &self,
        engine: Engine,
        on: &Description,
        plan: impl Fn() -> anyhow::Result<Plan>,
        timed: bool,
    ) -> anyhow::Result<(Run, Vec<f64>)> {
        let signals = self.messages.signals();
        self.least(
            || engine::run(engine, on, plan()?, timed, signals),
            |r| r.cpu,
        )
    }

    /// The rows of a bare-metal program.
    fn program(&self, p: &Program) -> anyhow::Result<Vec<Row>> {
        let (name, memory) = (p.name, &self.description.config.memory);
        let harts = self.description.config.harts;
        if harts < p.harts {
            bail!(
                "{name} needs {} harts, but the machine has {harts}: name other workloads with --only, or give --set \
                    harts={}",
                p.harts,
                p.harts
            );
        }
        self.messages.note(&format!("running {name}"));
        let scale = self.args.scale();
        let accesses = p.accesses.map(|n| n as f64 * f64::from(scale) / 100.0);
        let elf = self.work.compile(p, scale, None)?;
        let mut rows = Vec::new();
        let mut results = Results::default();
        for &engine in &self.engines {
            let plan = || programs::plan(memory, &elf);
            let (run, times) = self.run(engine, &self.description, plan, false)?;
            results.add(engine.name(), run.lines.clone())?;
            let row = Row::new(name, engine, None, &run).with_accesses(accesses);
            let row = row.with_machine(&self.description.config.name);
            rows.push(row.with_times(&times));
        }
        for (method, description) in &self.timed {
            let (memory, machine) = (&description.config.memory, &description.config.name);
            if description.config.harts < p.harts {
                self.messages
                    .note(&format!("{machine} has too few harts for {name}"));
                continue;
            }
            let elf = match programs::data_base(memory, *method)? {
                None => elf.clone(),
                data => self.work.compile(p, scale, data)?,
            };
            for &engine in &self.engines {
                let plan = || programs::plan(memory, &elf);
                let (run, times) = self.run(engine, description, plan, true)?;
                results.add(method.name(), run.lines.clone())?;
                let row = Row::new(name, engine, Some(*method), &run).with_accesses(accesses);
                let row = row.with_machine(machine);
                rows.push(row.with_times(&times));
            }
        }
        if let (Some(other), true) = (&self.qemu, p.is_single()) {
            let ((lines, cpu), mut times) = self.least(|| qemu::program(&elf), |r| r.1)?;
            results.add(row::QEMU, lines)?;
            let own = |cpu: f64| (cpu - other.start).max(host::LEAST);
            times.iter_mut().for_each(|t| *t = own(*t));
            let counted = rows.first().and_then(|r| r.instructions);
            let row = Row::of(name, row::QEMU, counted, own(cpu)).with_accesses(accesses);
            rows.push(row.with_times(&times));
        }
        Ok(rows)
    }

    /// The rows of the boot, on one hart.
    fn boot(&self) -> anyhow::Result<Vec<Row>> {
        let one = ["harts=1".to_string()];
        let description = self.args.machine.resolve(&one)?;
        let image = image::build(&self.args.cache.options()?, self.messages)?;
        self.messages.note("booting Linux");
        let software = Software {
            append: Some(COMMAND.into()),
            ..Software::default()
        };
        let plan = |d: &Description| Ok(software::plan(d, &software, Some(&image))?);
        let mut rows = Vec::new();
        for &engine in &self.engines {
            let (run, times) = self.run(engine, &description, || plan(&description), false)?;
            let row = Row::new(BOOT, engine, None, &run).with_times(&times);
            rows.push(row.with_machine(&description.config.name));
        }
        for (method, description) in methods(self.args, &one)? {
            for &engine in &self.engines {
                let signals = self.messages.signals();
                let run = engine::run(engine, &description, plan(&description)?, true, signals)?;
                let row = Row::new(BOOT, engine, Some(method), &run);
                rows.push(row.with_machine(&description.config.name));
            }
        }
        if self.qemu.is_some() {
            let fast = image.manifest.fast_boot_args.as_str();
            let arguments = format!("console=ttyS0 {fast} {COMMAND}");
            let (cpu, times) = self.least(|| qemu::boot(&image, &arguments), |t| *t)?;
            rows.push(Row::of(BOOT, row::QEMU, None, cpu).with_times(&times));
        }
        Ok(rows)
    }
}

/// The machines under every method of timed runs, with more settings.
fn methods(a: &SpeedArgs, more: &[String]) -> anyhow::Result<Vec<(Method, Description)>> {
    let machines = a.machines();
    let one = |(machine, m): (&MachineArgs, Method)| {
        let mut settings = more.to_vec();
        settings.push(format!("method={}", m.name()));
        Ok((m, machine.resolve(&settings)?))
    };
    let all = machines
        .iter()
        .flat_map(|machine| a.timed().into_iter().map(move |m| (machine, m)));
    all.map(one).collect()
}

/// The output of a program, which must be the same wherever it ran.
#[derive(Default)]
struct Results(Option<(String, Vec<String>)>);

impl Results {
    fn add(&mut self, who: &str, lines: Vec<String>) -> anyhow::Result<()> {
        match &self.0 {
            None if lines.is_empty() => bail!("{who} printed no result"),
            None => self.0 = Some((who.into(), lines)),
            Some((first, expected)) if *expected != lines => {
                bail!("{who} computed {lines:?}, but {first} {expected:?}")
            }
            Some(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_differ_are_told() {
        let line = |s: &str| vec![s.to_string()];
        let mut r = Results::default();
        assert!(r.add("interpreter", Vec::new()).is_err());
        r.add("interpreter", line("17")).unwrap();
        r.add("dram", line("17")).unwrap();
        let e = r.add("qemu", line("18")).unwrap_err().to_string();
        assert_eq!(e, "qemu computed [\"18\"], but interpreter [\"17\"]");
    }
}
