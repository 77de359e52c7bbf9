//! `nagori suite run`.

use super::args::{RunArgs, Subset};
use super::library;
use anyhow::bail;
use nagori_memtime::Method;
use nagori_suite::{Conditions, Event, Lab, Library, Memory, Program, Record, Store, Task};
use nagori_terminal::output::{Exit, Messages, MEANINGLESS, SUCCESS};
use nagori_terminal::tables::{duration, grouped};

/// Memories beside the methods, if nothing is chosen.
const MODELS: [&str; 1] = ["pcm"];

/// Runs the command.
pub fn command(a: &RunArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let library = library(&a.library);
    let programs = chosen(a, &library)?;
    let store = Store::open(&a.store.store)?;
    let mut lab = Lab::new(library, a.cache.source(), messages)?;
    let tasks = match tasks(a, &mut lab, &programs) {
        Ok(tasks) => tasks,
        // Ended while an image was built.
        Err(e) => {
            messages.signals().check()?;
            return Err(e);
        }
    };
    let mut done = Vec::new();
    let mut todo = Vec::new();
    for t in tasks {
        match (store.get(&t.program, &t.key)?, a.failed) {
            (Some(r), true) if r.failure.is_some() => todo.push(t),
            (None, false) => todo.push(t),
            (Some(r), _) => done.push(r),
            (None, true) => {}
        }
    }
    messages.note(&format!(
        "{} to be run, {} done before",
        todo.len(),
        done.len()
    ));
    if a.dry_run {
        for t in &todo {
            messages.note(&name(t));
        }
        return Ok(SUCCESS);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = a.jobs.map_or(cores, |n| n as usize);
    let (all, mut ended) = (todo.len(), 0);
    let result = lab.run(&todo, jobs, &mut |event| {
        match event {
            Event::Begun(_) => {}
            Event::Done(task, record) => {
                store.put(&record)?;
                ended += 1;
                messages.note(&format!(
                    "{ended}/{all} {}: {}",
                    name(task),
                    outcome(&record)
                ));
                done.push(*record);
            }
        }
        Ok(())
    });
    let failed: Vec<&Record> = done.iter().filter(|r| r.failure.is_some()).collect();
    for r in &failed {
        tell(r, messages);
    }
    let ended_early = messages.signals().check();
    if ended_early.is_ok() {
        result?;
    }
    if let Err(e) = ended_early {
        messages.note(&format!(
            "{ended} of {all} runs have ended; the same command goes on from there"
        ));
        return Err(e);
    }
    Ok(if failed.is_empty() {
        SUCCESS
    } else {
        MEANINGLESS
    })
}

/// All runs. A program's runs come one after the other, so that a study that was ended early has whole rows.
fn tasks(a: &RunArgs, lab: &mut Lab<'_>, programs: &[Program]) -> anyhow::Result<Vec<Task>> {
    let mut all = Vec::new();
    for p in programs {
        for c in conditions(a) {
            all.push(lab.task(p, &c)?);
        }
    }
    Ok(all)
}

/// The programs to be run.
fn chosen(a: &RunArgs, library: &Library) -> anyhow::Result<Vec<Program>> {
    let programs = match a.programs.is_empty() {
        false => a
            .programs
            .iter()
            .map(|n| library.program(n))
            .collect::<Result<_, _>>()?,
        true => {
            let mut all = library.programs()?;
            all.retain(|p| match a.subset {
                Subset::All => p.variant_of.is_none(),
                Subset::Quick => p.quick,
                Subset::Threads => p.variant_of.is_some(),
            });
            all
        }
    };
    if programs.is_empty() {
        bail!("there is no program in the subset");
    }
    Ok(programs)
}

/// Everything under which a program is to be run: for each seed all memories.
fn conditions(a: &RunArgs) -> Vec<Conditions> {
    let methods: Vec<Method> = match (&a.methods, &a.memory_models) {
        (m, models) if m.is_empty() && models.is_empty() => Method::ALL.to_vec(),
        (m, _) => m.clone(),
    };
    let models: Vec<String> = match (&a.methods, &a.memory_models) {
        (m, models) if m.is_empty() && models.is_empty() => MODELS.map(String::from).to_vec(),
        (_, models) => models.clone(),
    };
    let methods = methods.iter().map(|m| Memory::Method(m.to_string()));
    let memories: Vec<Memory> = methods
        .chain(models.into_iter().map(Memory::Model))
        .collect();
    let seeds: Vec<Option<u64>> = if a.seeds.is_empty() {
        vec![None]
    } else {
        a.seeds.iter().copied().map(Some).collect()
    };
    let choice = a.machine.choice();
    let of = |memory: &Memory, seed: Option<u64>| Conditions {
        machine: choice.machine.clone(),
        set: choice.set.clone(),
        memory: memory.clone(),
        placement: a.placement.clone(),
        malloc: a.malloc,
        timing: a.timing,
        size: a.size,
        seed,
    };
    seeds
        .iter()
        .flat_map(|s| memories.iter().map(move |m| of(m, *s)))
        .collect()
}

fn name(t: &Task) -> String {
    format!("{}, {}, {}", t.program, t.conditions, t.conditions.size)
}

fn outcome(r: &Record) -> String {
    match &r.figures {
        None => "failed".into(),
        Some(f) => format!(
            "{} in {} instructions, {} requests of NVMM ({:.0} s of this host)",
            duration(f.time_ps),
            grouped(f.instructions),
            grouped(f.nvmm.requests()),
            r.host.seconds
        ),
    }
}

fn tell(r: &Record, messages: &Messages) {
    let Some(f) = &r.failure else { return };
    let tail = f.tail.trim();
    let tail = if tail.is_empty() {
        String::new()
    } else {
        format!("\n  {}", tail.replace('\n', "\n  "))
    };
    messages.warning(&format!(
        "{}, {}, {} failed: {}{tail}",
        r.program, r.conditions, r.conditions.size, f.why
    ));
}
