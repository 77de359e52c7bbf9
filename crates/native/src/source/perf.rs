//! Counters of the processor, by perf_event.
//!
//! [`Layer`] is what is asked of the system call. [`Kernel`] asks the kernel; tests have a layer that fails in each way
//! that the system call can.

use std::collections::BTreeMap;
use std::io;

use nagori_epoch::{Counts, Meter, Reading, Sharing, Step, Variant, Width};
use perf_event::{Builder, ReadFormat};

use super::{Clocks, Gather, Source, Tid, Unusable};
use crate::counter::{UncoreEvent, What};
use crate::host::{System, DEVICES};
use crate::processors::Processor;

/// For whom a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A thread of user space, wherever it runs.
    Thread(Tid),
    /// What a virtual machine does on a thread that is one of its CPUs, its kernel included, and nothing of QEMU.
    Vcpu(Tid),
    /// This thread.
    Myself,
    /// Everything; read on this CPU.
    Cpu(u32),
}

/// What a counter said, or why it did not.
pub trait Handle {
    /// Value and times.
    ///
    /// # Errors
    /// What read(2) says.
    fn read(&mut self) -> io::Result<Reading>;
}

/// What is asked of perf_event_open(2).
pub trait Layer {
    /// Opens a counter, which counts from now on.
    ///
    /// # Errors
    /// What the system call says.
    fn open(&mut self, what: &What, target: Target) -> io::Result<Box<dyn Handle>>;
}

/// The kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Handle for perf_event::Counter {
    fn read(&mut self) -> io::Result<Reading> {
        let r = self.read_count_and_time()?;
        Ok(Reading {
            value: r.count,
            enabled: r.time_enabled,
            running: r.time_running,
        })
    }
}

impl Layer for Kernel {
    fn open(&mut self, what: &What, target: Target) -> io::Result<Box<dyn Handle>> {
        let mut builder = Builder::new(*what);
        builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        builder.enabled(true);
        match target {
            Target::Myself => builder.observe_self(),
            Target::Thread(tid) => builder.observe_pid(tid.0),
            Target::Vcpu(tid) => builder
                .observe_pid(tid.0)
                .include_kernel()
                .exclude_host(true),
            Target::Cpu(cpu) => {
                // Devices beside the cores cannot tell user space from the kernel.
                builder
                    .include_kernel()
                    .include_hv()
                    .any_pid()
                    .one_cpu(cpu as usize)
            }
        };
        Ok(Box::new(builder.build()?))
    }
}

/// What an error of perf_event_open means, and what would help.
pub fn explain(event: &str, error: io::Error, target: Target) -> Unusable {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    let uncore = matches!(target, Target::Cpu(_));
    let why = match number {
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::NXIO) => {
            "the kernel has no such counter here: the processor does not have it, or a hypervisor or container does \
                not pass it on"
        }
        Some(Errno::ACCESS | Errno::PERM) if uncore => {
            "counters of memory controllers count for everybody, so they need root, CAP_PERFMON, or \
                /proc/sys/kernel/perf_event_paranoid at 0 or below"
        }
        Some(Errno::ACCESS | Errno::PERM) if matches!(target, Target::Vcpu(_)) => {
            "counting a virtual machine's kernel needs root, CAP_PERFMON, or /proc/sys/kernel/perf_event_paranoid at 1 \
                or below"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "it is forbidden: perf_event_paranoid has to be 2 or below, or the caller root or CAP_PERFMON; a thread of \
                another user needs the right to trace it"
        }
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open (ulimit -n): each thread needs one for each \
            counter",
        Some(Errno::BUSY) => "another program, for instance the NMI watchdog or a profiler, holds the counter for \
            itself",
        Some(Errno::NOSPC) => "the processor has fewer counters than are asked for together",
        Some(Errno::INVAL) => "the kernel does not understand the event: it is too old for this processor, or the \
            processor is not what it says",
        Some(Errno::TOOBIG) => "the kernel is older than the form of the question",
        Some(Errno::SRCH) => "the thread is gone",
        Some(Errno::INTR) => "the question was interrupted again and again",
        Some(Errno::NOSYS) => "the kernel has no perf_event, or a container's filter forbids the call",
        // perf-event2 turns E2BIG into this kind.
        None if error.kind() == io::ErrorKind::Unsupported => "the kernel is older than the form of the question",
        _ => "the system call failed",
    };
    Unusable::Counter {
        event: event.to_owned(),
        why: why.to_owned(),
        error: Some(error),
    }
}

/// How often a question is repeated that a signal has interrupted.
const PATIENCE: usize = 16;

/// Repeats a call that a signal has interrupted.
pub fn persist<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut result = call();
    for _ in 1..PATIENCE {
        match &result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => result = call(),
            _ => break,
        }
    }
    result
}

/// Counts that a variant of the formulas needs of each thread.
pub fn needed(variant: Variant, processor: &Processor) -> Vec<&'static str> {
    let mut names = vec!["llc_misses"];
    if variant.needs_stalls() {
        names.extend(["stall_cycles", "llc_hits"]);
        if processor.stalls_from == crate::processors::StallsFrom::L1 {
            names.push("l2_hits");
        }
    }
    names
}

/// Refuses a variant for which a processor has no events.
///
/// # Errors
/// Names the count that is missing, and a variant that does without.
pub fn check_variant(variant: Variant, processor: &Processor) -> Result<(), Unusable> {
    let lacks = |v: Variant| {
        let missing = needed(v, processor)
            .into_iter()
            .find(|n| !processor.events.contains_key(*n));
        let uncore = &processor.uncore;
        let writebacks =
            v.needs_writebacks() && (uncore.writes.is_none() || uncore.reads.is_none());
        missing.or(writebacks.then_some("writebacks"))
    };
    let Some(count) = lacks(variant) else {
        return Ok(());
    };
    let instead = [
        Variant::Koshiba,
        Variant::Quartz,
        Variant::MissesWritebacks,
        Variant::Misses,
    ];
    let instead = instead
        .into_iter()
        .find(|&v| lacks(v).is_none())
        .map(Variant::name);
    let processor = processor.name.clone();
    Err(Unusable::Count {
        processor,
        count,
        variant: variant.name(),
        instead,
    })
}

/// One counter with its meter.
struct Counter {
    handle: Box<dyn Handle>,
    meter: Meter,
}

impl Counter {
    fn open(
        layer: &mut dyn Layer,
        name: &str,
        what: &What,
        target: Target,
    ) -> Result<Counter, Unusable> {
        let mut handle =
            persist(|| layer.open(what, target)).map_err(|e| explain(name, e, target))?;
        let first = persist(|| handle.read()).map_err(|e| explain(name, e, target))?;
        let meter = Meter::new(Width::FULL, Sharing::default(), first).map_err(|defect| {
            Unusable::Defect {
                event: name.to_owned(),
                defect,
            }
        })?;
        Ok(Counter { handle, meter })
    }

    fn read(&mut self, name: &str, target: Target) -> Result<Step, Unusable> {
        let now = persist(|| self.handle.read()).map_err(|e| explain(name, e, target))?;
        self.meter.read(now).map_err(|defect| Unusable::Defect {
            event: name.to_owned(),
            defect,
        })
    }
}

/// A count: a counter, and another one to subtract. The sums are what both have counted since the last difference.
struct Count {
    name: &'static str,
    plus: (Counter, u64),
    less: Option<(Counter, u64)>,
}

impl Count {
    fn read(&mut self, target: Target) -> Result<Step, Unusable> {
        let step = |(counter, sum): &mut (Counter, u64)| -> Result<bool, Unusable> {
            let step = counter.read(self.name, target)?;
            if let Step::Count(n) = step {
                *sum += n;
            }
            Ok(step != Step::Later)
        };
        let mut complete = step(&mut self.plus)?;
        if let Some(less) = &mut self.less {
            complete &= step(less)?;
        }
        if !complete {
            return Ok(Step::Later);
        }
        let less = self.less.as_mut().map_or(0, |l| std::mem::take(&mut l.1));
        // Read one after the other, the difference may come out below zero.
        Ok(Step::Count(
            std::mem::take(&mut self.plus.1).saturating_sub(less),
        ))
    }
}

/// A thread's counters.
struct Thread {
    counters: Vec<Count>,
    gather: Gather,
    /// What the common counters had said at its last count: reads, writes.
    common: [u64; 2],
}

/// Counters of the processor.
pub struct Perf {
    layer: Box<dyn Layer>,
    processor: Processor,
    variant: Variant,
    /// Whether the threads are virtual CPUs under KVM.
    guests: bool,
    uncore: [Vec<(String, Counter)>; 2],
    /// Sums of the common counters: reads, writes.
    sums: [u64; 2],
    threads: BTreeMap<Tid, Thread>,
}

impl Perf {
    /// Opens what counts for all threads together, and checks the variant.
    ///
    /// # Errors
    /// If the processor or the kernel does not have what the variant needs.
    pub fn new(
        mut layer: Box<dyn Layer>,
        system: &System,
        processor: Processor,
        variant: Variant,
    ) -> Result<Perf, Unusable> {
        check_variant(variant, &processor)?;
        let mut uncore = [Vec::new(), Vec::new()];
        if variant.needs_writebacks() {
            let events = [&processor.uncore.reads, &processor.uncore.writes];
            for (counters, event) in uncore.iter_mut().zip(events) {
                if let Some(event) = event {
                    *counters = open_uncore(layer.as_mut(), system, event)?;
                }
            }
        }
        Ok(Perf {
            layer,
            processor,
            variant,
            guests: false,
            uncore,
            sums: [0; 2],
            threads: BTreeMap::new(),
        })
    }

    /// From now on, threads are virtual CPUs under KVM.
    pub fn guests(mut self) -> Perf {
        self.guests = true;
        self
    }

    fn target(&self, thread: Tid) -> Target {
        if self.guests {
            Target::Vcpu(thread)
        } else {
            Target::Thread(thread)
        }
    }

    /// Reads the common counters.
    fn read_uncore(&mut self) -> Result<(), Unusable> {
        for (counters, sum) in self.uncore.iter_mut().zip(&mut self.sums) {
            for (name, counter) in counters {
                if let Step::Count(n) = counter.read(name, Target::Cpu(0))? {
                    *sum += n;
                }
            }
        }
        Ok(())
    }
}

/// A counter on each device, on the first CPU of each socket that the kernel names for it.
fn open_uncore(
    layer: &mut dyn Layer,
    system: &System,
    event: &UncoreEvent,
) -> Result<Vec<(String, Counter)>, Unusable> {
    let mut counters = Vec::new();
    for pmu in system
        .pmus()
        .into_iter()
        .filter(|p| is_numbered(p, &event.pmu))
    {
        let name = format!("{pmu}/{}/", event.text());
        let what = system.event(&pmu, event).map_err(|why| Unusable::Counter {
            event: name.clone(),
            why,
            error: None,
        })?;
        let mask = system.read(&format!("{DEVICES}/{pmu}/cpumask"));
        for cpu in parse_cpus(mask.as_deref().unwrap_or("0")) {
            let name = format!("{name} of CPU {cpu}");
            let counter = Counter::open(layer, &name, &what, Target::Cpu(cpu))?;
            counters.push((name, counter));
        }
    }
    if counters.is_empty() {
        let why = "the kernel shows no such device: it is too old for this processor, or a hypervisor does not pass it \
            on";
        return Err(Unusable::Counter {
            event: format!("{}*", event.pmu),
            why: why.into(),
            error: None,
        });
    }
    Ok(counters)
}

/// Whether a device's name is the prefix with a number.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// CPUs of a list such as "0,18-19".
fn parse_cpus(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(a), Ok(b)) = (a.trim().parse::<u32>(), b.trim().parse::<u32>()) {
            cpus.extend(a..=b.min(a.saturating_add(4096)));
        }
    }
    cpus
}

impl Source for Perf {
    fn describe(&self) -> String {
        format!("counters of this processor ({})", self.processor.name)
    }

    fn attach(&mut self, thread: Tid, _: Clocks) -> Result<(), Unusable> {
        let target = self.target(thread);
        let mut counters = Vec::new();
        for count in needed(self.variant, &self.processor) {
            let event = self
                .processor
                .events
                .get(count)
                .ok_or_else(|| Unusable::Processor(count.into()))?;
            let mut open = |code| {
                let what = What::Core(self.processor.config(code));
                Counter::open(self.layer.as_mut(), &event.name, &what, target)
            };
            let plus = (open(event.code)?, 0);
            let less = event.less.map(&mut open).transpose()?.map(|c| (c, 0));
            counters.push(Count {
                name: count,
                plus,
                less,
            });
        }
        self.read_uncore()?;
        let common = self.sums;
        self.threads.insert(
            thread,
            Thread {
                counters,
                gather: Gather::default(),
                common,
            },
        );
        Ok(())
    }

    fn read(&mut self, thread: Tid, _: Clocks) -> Result<Option<Counts>, Unusable> {
        self.read_uncore()?;
        let sums = self.sums;
        let target = self.target(thread);
        let Some(state) = self.threads.get_mut(&thread) else {
            return Ok(Some(Counts::default()));
        };
        let mut steps = Vec::new();
        for count in &mut state.counters {
            steps.push((count.name, count.read(target)?));
        }
        let Some(mut counts) = state.gather.add(steps.into_iter()) else {
            return Ok(None);
        };
        // Of the lines that memory controllers read, they cannot tell which were prefetched.
        counts.all_misses = sums[0] - state.common[0];
        counts.writebacks = sums[1] - state.common[1];
        state.common = sums;
        Ok(Some(counts))
    }

    fn detach(&mut self, thread: Tid) {
        self.threads.remove(&thread);
    }
}

#[cfg(test)]
mod tests;
