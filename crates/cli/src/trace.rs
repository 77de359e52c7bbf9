//! Traces of the harts' activity.

use crate::args::TraceKind;
use crate::output::file::Stream;
use anyhow::Context;
use nagori_hart::trap::cause;
use nagori_hart::world::{AccessEvent, AccessKind, LineKind, Observer, TrapEvent};
use nagori_isa::{decode_with, disassemble, Extensions};
use nagori_memtrace::bus;
use nagori_platform::loader::Symbols;
use nagori_platform::machine::{BusTransfer, BusWatch, Machine, Quiet, Stop};
use nagori_session::drive::{Service, Wishes};
use nagori_session::Error;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// An observer whose failures are checked between slices of guest time.
pub trait Watch: Observer + Send {
    /// The first failure since the last check.
    fn check(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
    /// Flushes buffered output.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Watch for Quiet {}

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
    let (kind, names) = match code & cause::INTERRUPT != 0 {
        true => ("interrupt", &INTERRUPTS[..]),
        false => ("exception", &EXCEPTIONS[..]),
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

/// Writes a line for each traced event. Lines start with their kind (exec, mem, irq), the cycle of
/// the hart, and the hart.
pub struct Tracer<W: Write = BufWriter<Stream>> {
    out: W,
    path: PathBuf,
    exec: bool,
    mem: bool,
    irq: bool,
    isa: Extensions,
    symbols: Symbols,
    failure: Option<io::Error>,
}

impl Tracer {
    /// A tracer that writes to a new file.
    pub fn create(
        path: &Path,
        kinds: &[TraceKind],
        isa: Extensions,
        symbols: Symbols,
    ) -> anyhow::Result<Tracer> {
        let file = Stream::create(path).context("--trace-file")?;
        Ok(Tracer::new(BufWriter::new(file), path, kinds, isa, symbols))
    }
}

impl<W: Write> Tracer<W> {
    fn new(out: W, path: &Path, kinds: &[TraceKind], isa: Extensions, symbols: Symbols) -> Self {
        Tracer {
            out,
            path: path.into(),
            exec: kinds.contains(&TraceKind::Exec),
            mem: kinds.contains(&TraceKind::Mem),
            irq: kinds.contains(&TraceKind::Irq),
            isa,
            symbols,
            failure: None,
        }
    }

    fn line(&mut self, kind: &str, hart: usize, cycle: u64, pc: u64, rest: std::fmt::Arguments) {
        if self.failure.is_some() {
            return;
        }
        let written = match self.symbols.lookup(pc) {
            Some((name, offset)) => writeln!(
                self.out,
                "{kind} {cycle:>10} h{hart} {pc:#018x} <{name}+{offset:#x}> {rest}"
            ),
            None => writeln!(self.out, "{kind} {cycle:>10} h{hart} {pc:#018x} <?> {rest}"),
        };
        self.failure = written.err();
    }
}

impl<W: Write> Observer for Tracer<W> {
    const RETIRE: bool = true;
    const ACCESS: bool = true;
    const TRAP: bool = true;

    fn retired(&mut self, hart: usize, cycle: u64, pc: u64, raw: u32, privilege: u8) {
        if !self.exec {
            return;
        }
        let priv_ = privilege_letter(privilege);
        match decode_with(self.isa, raw) {
            Some(i) if i.len == 2 => {
                let text = disassemble(&i, pc);
                let raw = raw & 0xffff;
                self.line(
                    "exec",
                    hart,
                    cycle,
                    pc,
                    format_args!("{priv_}     {raw:04x} {text}"),
                );
            }
            Some(i) => {
                let text = disassemble(&i, pc);
                self.line(
                    "exec",
                    hart,
                    cycle,
                    pc,
                    format_args!("{priv_} {raw:08x} {text}"),
                );
            }
            None => self.line(
                "exec",
                hart,
                cycle,
                pc,
                format_args!("{priv_} {raw:08x} (illegal)"),
            ),
        }
    }

    fn access(&mut self, event: &AccessEvent) {
        if self.mem {
            let &AccessEvent {
                hart,
                cycle,
                pc,
                vaddr,
                size,
                kind,
            } = event;
            let name = match kind {
                AccessKind::Read => "read",
                AccessKind::Write => "write",
                AccessKind::Flush => "flush",
                AccessKind::FlushAll => {
                    return self.line("mem ", hart, cycle, pc, format_args!("flush all"))
                }
            };
            let rest = format_args!("{name} {size} {vaddr:#018x}");
            self.line("mem ", hart, cycle, pc, rest);
        }
    }

    fn trap(&mut self, e: &TrapEvent) {
        if self.irq {
            let (from, to) = (privilege_letter(e.from), privilege_letter(e.to));
            let (name, tval) = (cause_name(e.cause), e.tval);
            self.line(
                "irq ",
                e.hart,
                e.cycle,
                e.pc,
                format_args!("{name} tval {tval:#x} from {from} to {to}"),
            );
        }
    }
}

impl<W: Write + Send> Watch for Tracer<W> {
    fn check(&mut self) -> anyhow::Result<()> {
        match self.failure.take() {
            Some(e) => {
                Err(e).with_context(|| format!("cannot write the trace to {}", self.path.display()))
            }
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.check()?;
        self.failure = self.out.flush().err();
        self.check()
    }
}

/// Writes the line transfers of the bus, in the format that `nagori mem run` reads.
struct BusWriter {
    out: BufWriter<Stream>,
    failure: Option<io::Error>,
}

impl BusWatch for BusWriter {
    fn moved(&mut self, t: &BusTransfer<'_>) {
        if self.failure.is_some() {
            return;
        }
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
        self.failure = line.write(&mut self.out).err();
    }

    fn check(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.check()?;
        self.out.flush()
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
    }
}

/// Has a machine's bus traced to a file from the first slice on.
pub struct BusTrace {
    path: PathBuf,
    writer: Option<BusWriter>,
}

impl BusTrace {
    /// A trace to a new file.
    pub fn create(path: &Path) -> anyhow::Result<BusTrace> {
        let file = Stream::create(path).context("--trace-file")?;
        let writer = BusWriter {
            out: BufWriter::new(file),
            failure: None,
        };
        Ok(BusTrace {
            path: path.into(),
            writer: Some(writer),
        })
    }

    fn failed(&self, e: io::Error) -> Error {
        let e = anyhow::Error::new(e);
        Error::service(e.context(format!("cannot write the trace to {}", self.path.display())))
    }
}

impl<O: Observer> Service<O> for BusTrace {
    fn before(&mut self, machine: &mut Machine<O>, _: &mut Wishes) -> nagori_session::Result<()> {
        match self.writer.take() {
            Some(w) => machine
                .watch_bus(Some(Box::new(w)))
                .map_err(|e| self.failed(e)),
            None => Ok(()),
        }
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        _: Stop,
        _: &mut Wishes,
    ) -> nagori_session::Result<()> {
        machine.check_bus_watch().map_err(|e| self.failed(e))
    }

    fn finish(&mut self, machine: &mut Machine<O>) -> nagori_session::Result<()> {
        machine.watch_bus(None).map_err(|e| self.failed(e))
    }
}
