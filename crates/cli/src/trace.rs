//! Traces of the harts' activity.

use crate::args::TraceKind;
use anyhow::Context;
use nagori_hart::trap::cause;
use nagori_hart::world::{AccessKind, Commit, Event, LineKind, Reg, TrapEvent};
use nagori_isa::{csr, decode_with, disassemble, Extensions};
use nagori_machine::{BusTransfer, BusWatch, EventSink, Machine, Stop};
use nagori_memtrace::bus;
use nagori_platform::loader::Symbols;
use nagori_session::drive::{Service, Wishes};
use nagori_session::Error;
use nagori_terminal::output::file::Staged;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Names of exceptions (privileged specification, values of mcause).
const EXCEPTIONS: [(u64, &str); 14] = [
    (cause::FETCH_MISALIGNED, "fetch-misaligned"),
    (cause::FETCH_ACCESS, "fetch-access-fault"),
    (cause::ILLEGAL, "illegal-instruction"),
    (cause::BREAKPOINT, "breakpoint"),
    (cause::LOAD_MISALIGNED, "load-misaligned"),
    (cause::LOAD_ACCESS, "load-access-fault"),
    (cause::STORE_MISALIGNED, "store-misaligned"),
    (cause::STORE_ACCESS, "store-access-fault"),
    (cause::ECALL_U, "ecall-from-u"),
    (cause::ECALL_U + 1, "ecall-from-s"),
    (cause::ECALL_U + 3, "ecall-from-m"),
    (cause::FETCH_PAGE, "fetch-page-fault"),
    (cause::LOAD_PAGE, "load-page-fault"),
    (cause::STORE_PAGE, "store-page-fault"),
];

/// Names of interrupts.
const INTERRUPTS: [(u64, &str); 6] = [
    (1, "supervisor-software"),
    (3, "machine-software"),
    (5, "supervisor-timer"),
    (7, "machine-timer"),
    (9, "supervisor-external"),
    (11, "machine-external"),
];

/// `interrupt supervisor-timer`, `exception load-page-fault`.
fn cause_name(code: u64) -> String {
    let number = code & !cause::INTERRUPT;
    let (kind, names) = if code & cause::INTERRUPT != 0 {
        ("interrupt", &INTERRUPTS[..])
    } else {
        ("exception", &EXCEPTIONS[..])
    };
    match names.iter().find(|n| n.0 == number) {
        Some((_, name)) => format!("{kind} {name}"),
        None => format!("{kind} {number}"),
    }
}

fn privilege_letter(p: u8) -> char {
    match p {
        0 => 'U',
        1 => 'S',
        3 => 'M',
        _ => '?',
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the trace to {}", path.display())
}

/// The file of a trace. With its first failure it is given up, and nothing of it stays.
struct Lines {
    path: PathBuf,
    out: Option<BufWriter<Staged>>,
    failure: Option<io::Error>,
}

impl Lines {
    fn create(path: &Path, option: &'static str) -> anyhow::Result<Lines> {
        Ok(Lines {
            path: path.into(),
            out: Some(BufWriter::new(Staged::create(path).context(option)?)),
            failure: None,
        })
    }

    fn write(&mut self, line: impl FnOnce(&mut BufWriter<Staged>) -> io::Result<()>) {
        let Some(out) = &mut self.out else { return };
        if let Err(e) = line(out) {
            self.failure = Some(e);
            self.out = None;
        }
    }

    /// The failure, once.
    fn check(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Gives the file its name.
    fn finish(&mut self) -> io::Result<()> {
        self.check()?;
        match self.out.take() {
            Some(out) => out.into_inner().map_err(|e| e.into_error())?.close(),
            None => Ok(()),
        }
    }

    fn failed(&self) -> String {
        cannot_write(&self.path)
    }
}

/// Writes a line for each traced event. Lines start with their kind (exec, mem, irq, line), the cycle of
/// the hart, and the hart; lines of a commit log have Spike's format.
pub struct Tracer {
    out: Lines,
    exec: bool,
    mem: bool,
    irq: bool,
    lines: bool,
    commit: bool,
    isa: Extensions,
    symbols: Symbols,
}

impl Tracer {
    /// A tracer that writes to a new file.
    pub fn create(
        path: &Path,
        kinds: &[TraceKind],
        isa: Extensions,
        symbols: Symbols,
    ) -> anyhow::Result<Tracer> {
        Ok(Tracer {
            out: Lines::create(path, "--trace-file")?,
            exec: kinds.contains(&TraceKind::Exec),
            mem: kinds.contains(&TraceKind::Mem),
            irq: kinds.contains(&TraceKind::Irq),
            lines: kinds.contains(&TraceKind::Lines),
            commit: kinds.contains(&TraceKind::Commit),
            isa,
            symbols,
        })
    }

    fn line(
        &mut self,
        kind: &str,
        (hart, cycle, pc): (usize, u64, u64),
        rest: std::fmt::Arguments,
    ) {
        let symbol = self.symbols.lookup(pc);
        self.out.write(|out| match symbol {
            Some((name, offset)) => writeln!(
                out,
                "{kind} {cycle:>10} h{hart} {pc:#018x} <{name}+{offset:#x}> {rest}"
            ),
            None => writeln!(out, "{kind} {cycle:>10} h{hart} {pc:#018x} <?> {rest}"),
        });
    }

    /// Writes an instruction, with the values that it has written.
    fn exec(&mut self, c: &Commit) {
        let letter = privilege_letter(c.privilege);
        let word = match c.word & 3 {
            3 => format!("{:08x}", c.word),
            _ => format!("    {:04x}", c.word & 0xffff),
        };
        let text = match decode_with(self.isa, c.word) {
            Some(i) => disassemble(&i, c.pc),
            None => "(illegal)".to_string(),
        };
        let values = values(c);
        let rest = format_args!("{letter} {word} {text}{values}");
        self.line("exec", (c.hart, c.cycle, c.pc), rest);
    }

    fn accesses(&mut self, c: &Commit) {
        let place = (c.hart, c.cycle, c.pc);
        for a in c.accesses() {
            let (name, valued) = match a.kind {
                AccessKind::Read => ("read", true),
                AccessKind::Write => ("write", true),
                AccessKind::Clean => ("clean", false),
                AccessKind::Flush => ("flush", false),
                AccessKind::FlushAll => {
                    self.line("mem ", place, format_args!("flush all"));
                    continue;
                }
            };
            let value = if valued {
                format!("={:#x}", a.value)
            } else {
                String::new()
            };
            let (size, vaddr, paddr) = (a.size, a.vaddr, a.paddr);
            let rest = format_args!("{name} {size} {vaddr:#018x} mem[{paddr:#x}]{value}");
            self.line("mem ", place, rest);
        }
    }

    fn trap(&mut self, e: &TrapEvent) {
        let (from, to) = (privilege_letter(e.from), privilege_letter(e.to));
        let (name, tval) = (cause_name(e.cause), e.tval);
        let rest = format_args!("{name} tval {tval:#x} from {from} to {to}");
        self.line("irq ", (e.hart, e.cycle, e.pc), rest);
    }

    /// Writes a line in the form of Spike's commit log.
    fn log(&mut self, c: &Commit) {
        self.out.write(|out| writeln!(out, "{}", spike(c)));
    }
}

/// The registers that an instruction has written and its accesses to memory, as text after the
/// disassembly.
fn values(c: &Commit) -> String {
    let registers = c.writes().map(|(r, v)| match r {
        Reg::X(r) => format!("x{r}={v:#x}"),
        Reg::F(r) => format!("f{r}={v:#x}"),
        Reg::Csr(r) => format!("{}={v:#x}", csr::name(r)),
    });
    let memory = c.accesses().filter_map(|a| match a.kind {
        AccessKind::Read => Some(format!("mem[{:#x}]", a.paddr)),
        AccessKind::Write => Some(format!("mem[{:#x}]={:#x}", a.paddr, a.value)),
        _ => None,
    });
    let all: Vec<String> = registers.chain(memory).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("; {}", all.join(" "))
    }
}

/// A retired instruction in the form of Spike's commit log (`--log-commits`).
fn spike(c: &Commit) -> String {
    let word = match c.word & 3 {
        3 => format!("{:08x}", c.word),
        _ => format!("{:04x}", c.word & 0xffff),
    };
    let mut line = format!(
        "core{:4}: {} {:#018x} (0x{word})",
        c.hart, c.privilege, c.pc
    );
    for (r, v) in c.writes() {
        line += &match r {
            Reg::X(r) => format!(" x{r:<2} {v:#018x}"),
            Reg::F(r) => format!(" f{r:<2} {v:#018x}"),
            Reg::Csr(r) => format!(" c{r}_{} {v:#018x}", csr::name(r)),
        };
    }
    for a in c.accesses() {
        line += &match a.kind {
            AccessKind::Read => format!(" mem {:#018x}", a.vaddr),
            AccessKind::Write => {
                let digits = 2 * usize::from(a.size.min(16));
                format!(" mem {:#018x} 0x{:0digits$x}", a.vaddr, a.value)
            }
            _ => continue,
        };
    }
    line
}

impl EventSink for Tracer {
    fn happened(&mut self, event: &Event<'_>) {
        if let Event::Commit(c) = event {
            if self.exec {
                self.exec(c);
            }
            if self.mem {
                self.accesses(c);
            }
            if self.commit && c.retired() {
                self.log(c);
            }
        }
        if let Some(t) = event.trap().filter(|_| self.irq) {
            self.trap(t);
        }
        if let (Event::WriteBack(r), true) = (event, self.lines) {
            let rest = format_args!("write-back {:#x} {}", r.line, reason(r.kind));
            self.line("line", (r.hart, r.cycle, r.pc), rest);
        }
    }
}

/// Watches the file of a trace between slices, and completes it.
pub struct Traced;

impl Traced {
    fn of(
        machine: &mut Machine,
        f: fn(&mut Lines) -> io::Result<()>,
    ) -> nagori_session::Result<()> {
        let Some(t) = machine.event_sink::<Tracer>() else {
            return Ok(());
        };
        let done = f(&mut t.out).with_context(|| t.out.failed());
        done.map_err(Error::service)
    }
}

impl Service for Traced {
    fn after(
        &mut self,
        machine: &mut Machine,
        _: Stop,
        _: &mut Wishes,
    ) -> nagori_session::Result<()> {
        Traced::of(machine, Lines::check)
    }

    fn finish(&mut self, machine: &mut Machine) -> nagori_session::Result<()> {
        Traced::of(machine, Lines::finish)
    }
}

/// Writes the line transfers of the bus, in the format that `nagori mem run` reads.
struct BusWriter(Lines);

impl BusWatch for BusWriter {
    fn moved(&mut self, t: &BusTransfer<'_>) {
        let line = bus::Transfer {
            time: t.at.0,
            hart: t.by.hart as u32,
            pc: t.by.pc,
            reason: reason(t.by.kind).as_bytes(),
            kind: t.kind,
            offset: t.offset,
            region: t.region.unwrap_or("board").as_bytes(),
            latency: t.done.map(|d| d.0.saturating_sub(t.at.0)),
        };
        self.0.write(|out| line.write(out));
    }

    fn check(&mut self) -> io::Result<()> {
        self.0.check()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

/// Name of a reason for a transfer.
fn reason(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Load => "load",
        LineKind::Store => "store",
        LineKind::Fetch => "fetch",
        LineKind::PageWalk => "page-walk",
        LineKind::Evict => "evict",
        LineKind::Flush => "flush",
        LineKind::Probe => "probe",
        LineKind::Prefetch => "prefetch",
        LineKind::Combine => "combine",
        LineKind::Device => "device",
    }
}

/// Has a machine's bus traced to a file from the first slice on.
pub struct BusTrace {
    path: PathBuf,
    writer: Option<BusWriter>,
}

impl BusTrace {
    /// A trace to a new file, which this option names.
    pub fn create(path: &Path, option: &'static str) -> anyhow::Result<BusTrace> {
        Ok(BusTrace {
            path: path.into(),
            writer: Some(BusWriter(Lines::create(path, option)?)),
        })
    }

    fn failed(&self, e: io::Error) -> Error {
        let e = anyhow::Error::new(e);
        Error::service(e.context(cannot_write(&self.path)))
    }
}

impl Service for BusTrace {
    fn before(&mut self, machine: &mut Machine, _: &mut Wishes) -> nagori_session::Result<()> {
        match self.writer.take() {
            Some(w) => machine
                .watch_bus(Some(Box::new(w)))
                .map_err(|e| self.failed(e)),
            None => Ok(()),
        }
    }

    fn after(
        &mut self,
        machine: &mut Machine,
        _: Stop,
        _: &mut Wishes,
    ) -> nagori_session::Result<()> {
        machine.check_bus_watch().map_err(|e| self.failed(e))
    }

    fn finish(&mut self, machine: &mut Machine) -> nagori_session::Result<()> {
        machine.watch_bus(None).map_err(|e| self.failed(e))
    }
}
