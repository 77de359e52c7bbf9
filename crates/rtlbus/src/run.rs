//! A run: memory, devices and observers around the ports of a core.

use crate::axi::{Beat, Burst, Happened, NagoriAxiMaster, NagoriAxiSlave, Port, WIDEST};
use crate::error::Error;
use crate::options::Options;
use nagori_config::map;
use nagori_config::{IomapKind, Library, Machine};
use nagori_memtime::{Completion, Controller, Kind, Ps, Request, Submit};
use nagori_platform::assembly;
use nagori_platform::bus::{Bus, BusRead};
use nagori_platform::clock::{self, Clock};
use nagori_platform::device::PowerRequest;
use nagori_platform::devices::uart::Uart;
use nagori_platform::loader::{load_elf, FileData, RamRange, Role};
use nagori_ram::GuestRam;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a line, the unit of the memory controller.
const LINE: u64 = 64;
/// Clocks from an access to a device to the first beat of its answer: devices answer at once.
const DEVICE_CLOCKS: u64 = 1;
/// Bytes of a beat of the devices' port.
const DEVICE_BYTES: u64 = 8;
/// `mcause` of a store that the core's own map refuses.
const STORE_FAULT: u64 = 7;
/// A label: `slti x0, rs1, 0x4e5`, without rs1.
const LABEL: u32 = 0x4e50_2013;
/// Bits of an instruction without rs1.
const WITHOUT_RS1: u32 = !0x000f_8000;

/// What the write-back stage does in one clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriRtlCommit {
    /// Address of the instruction.
    pub pc: u64,
    /// The value written, if `writes`.
    pub value: u64,
    /// Its first operand.
    pub rs1: u64,
    /// Its second operand.
    pub rs2: u64,
    /// `mcause`, if it traps.
    pub cause: u64,
    /// `mtval`, if it traps.
    pub tval: u64,
    /// Its bits.
    pub word: u32,
    /// It retires.
    pub valid: u8,
    /// It traps instead.
    pub trap: u8,
    /// It writes an integer register in this clock.
    pub writes: u8,
    /// Its destination, 0 for none; of floating point if the instruction says so.
    pub rd: u8,
}

/// A label that the program has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Its value.
    pub value: u64,
    /// The clock in which it retired.
    pub cycle: u64,
    /// Instructions that retired before it.
    pub instructions: u64,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Clocks since reset.
    pub cycles: u64,
    /// Instructions that retired.
    pub instructions: u64,
    /// The program's exit code; none if the run was stopped.
    pub exit: Option<u32>,
    /// In order.
    pub labels: Vec<Label>,
}

/// A line on its way to the controller, or on its way back.
struct Moving {
    /// The burst on the memory port.
    number: u64,
    /// When it reaches the controller.
    at: Ps,
    /// Offset in memory.
    offset: u64,
    kind: Kind,
}

struct Output {
    path: PathBuf,
    to: BufWriter<File>,
}

impl Output {
    fn create(path: &Path) -> Result<Output, Error> {
        let file = File::create(path).map_err(|problem| Error::Write {
            path: path.into(),
            problem,
        })?;
        Ok(Output {
            path: path.into(),
            to: BufWriter::with_capacity(1 << 20, file),
        })
    }

    fn failed(&self, problem: std::io::Error) -> Error {
        let path = self.path.clone();
        Error::Write { path, problem }
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Error> {
        writeln!(self.to, "{text}").map_err(|e| self.failed(e))
    }
}

/// A run.
pub struct Run {
    cycle: u64,
    max_cycles: u64,
    ordered: bool,
    core_clock: Clock,
    latencies: nagori_config::BoardConfig,
    ram: Arc<GuestRam>,
    ram_base: u64,
    controller: Controller,
    memory: Port,
    devices: Port,
    /// What the ports drive in this clock.
    driven: [NagoriAxiSlave; 2],
    /// Lines that have not reached the controller, in the order of time.
    coming: VecDeque<Moving>,
    /// Lines that have.
    under_way: Vec<Moving>,
    done: Vec<Completion>,
    bus: Bus,
    /// The boot ROM: a jump to the program.
    rom: [u8; LINE as usize],
    /// The write burst to a device that is not complete.
    device_write: Option<Burst>,
    report: Report,
    report_to: Option<PathBuf>,
    trace: Option<Output>,
    bus_trace: Option<Output>,
}

/// `lui`, two shifts, `addi` and a jump: they reach any address below 4 GiB, and load nothing, since there is
/// a device at the address of the ROM for loads.
fn jump_to(entry: u64) -> [u8; LINE as usize] {
    const T0: u32 = 5;
    let upper = (entry.wrapping_add(0x800) as u32) & 0xffff_f000;
    let lower = (entry as u32 & 0xfff) << 20;
    let code: [u32; 5] = [
        upper | T0 << 7 | 0x37,
        0x0202_9293,
        0x0202_d293,
        lower | T0 << 15 | T0 << 7 | 0x13,
        T0 << 15 | 0x67,
    ];
    let mut rom = [0; LINE as usize];
    for (to, word) in rom.chunks_exact_mut(4).zip(code) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    rom
}

impl Run {
    /// Sets up memory and devices, and loads the program. The memory port has beats of `width` bytes, 8 or 16.
    pub fn new(o: &Options, width: u64) -> Result<Run, Error> {
        if !matches!(width, 8 | 16) {
            let text = format!("beats of {width} bytes: 8 and 16 are possible");
            return Err(Error::Usage(text));
        }
        let library = Library::installed();
        let machine = Machine::load(&library, &o.machine, &o.settings)?;
        let c = &machine.config;
        if !c.regions().is_empty() || !c.levels().is_empty() {
            let text = "a region with a memory of its own, and outer levels of caches, are not possible here";
            return Err(Error::Usage(format!("{}: {text}", o.machine)));
        }
        if c.iomap.kind != IomapKind::None {
            let text = "a table of I/O addresses is not possible here: the core does not say for whom it accesses";
            return Err(Error::Usage(format!("{}: {text}", o.machine)));
        }
        let ram_base = c.memory.base;
        let ram = Arc::new(GuestRam::new(c.memory.size.0)?);
        let file = FileData::read(Role::Program, &o.program)?;
        let range = RamRange {
            start: ram_base,
            end: c.memory.end(),
        };
        let elf = load_elf(&file, range)?;
        elf.plan.apply(&ram, ram_base)?;
        let bus = assembly::build(c, ram.clone())?;
        let output = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        let mut run = Run {
            cycle: 0,
            max_cycles: o.max_cycles,
            ordered: o.ordered,
            core_clock: Clock::new(c.core_period()),
            latencies: c.board.clone(),
            ram,
            ram_base,
            controller: Controller::new(c.controller_params())?,
            memory: Port::new(width),
            devices: Port::new(DEVICE_BYTES),
            driven: Default::default(),
            coming: VecDeque::new(),
            under_way: Vec::new(),
            done: Vec::new(),
            bus,
            rom: jump_to(elf.plan.entry.pc),
            device_write: None,
            report: Report {
                cycles: 0,
                instructions: 0,
                exit: None,
                labels: Vec::new(),
            },
            report_to: o.report.clone(),
            trace: output(&o.trace)?,
            bus_trace: output(&o.bus)?,
        };
        run.drive();
        Ok(run)
    }

    /// Whether the program has ended, or the run has lasted long enough.
    pub fn is_over(&self) -> bool {
        self.report.exit.is_some() || self.cycle >= self.max_cycles
    }

    /// What the ports drive in this clock: memory, devices.
    pub fn driven(&self) -> &[NagoriAxiSlave; 2] {
        &self.driven
    }

    /// Characters that the program has written since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        let now = self.now();
        let all = self.bus.with(now, |u: &mut Uart, _| u.take_output());
        all.unwrap_or_default()
    }

    /// The clock edge at the end of a clock, in which the core drove this.
    pub fn clock(
        &mut self,
        memory: &NagoriAxiMaster,
        devices: &NagoriAxiMaster,
        commit: &NagoriRtlCommit,
    ) -> Result<(), Error> {
        let h = self.memory.clock(self.cycle, &self.driven[0], memory);
        self.memory_side(h)?;
        let h = self.devices.clock(self.cycle, &self.driven[1], devices);
        self.device_side(h);
        self.committed(commit)?;
        if let Some(PowerRequest::Off { code }) = self.bus.take_power_request() {
            self.report.exit = Some(code);
        }
        self.cycle += 1;
        self.report.cycles = self.cycle;
        self.answers()?;
        self.drive();
        Ok(())
    }

    /// Writes what is left to be written, and returns what the run came to.
    pub fn finish(&mut self) -> Result<&Report, Error> {
        for o in [&mut self.trace, &mut self.bus_trace].into_iter().flatten() {
            o.to.flush().map_err(|e| o.failed(e))?;
        }
        if let Some(path) = &self.report_to {
            let mut o = Output::create(path)?;
            let text = serde_json::to_string(&self.report).expect("a report is JSON");
            o.line(format_args!("{text}"))?;
            o.to.flush().map_err(|e| o.failed(e))?;
        }
        Ok(&self.report)
    }

    fn now(&self) -> clock::Ps {
        self.core_clock.time_of(self.cycle)
    }

    fn drive(&mut self) {
        let data = self.memory.reading(self.cycle).map(|(_, addr)| {
            let mut bytes = [0; WIDEST];
            let half = WIDEST / 2;
            for (i, part) in bytes.chunks_exact_mut(half).enumerate() {
                let at = addr.wrapping_sub(self.ram_base) + (i * half) as u64;
                // Addresses outside memory read as zero; so does what a narrow port does not have.
                let _ = self.ram.read_bytes(at, part);
            }
            let word =
                |i: usize| u64::from_le_bytes(bytes[i..i + half].try_into().expect("8 bytes"));
            [word(0), word(half)]
        });
        let reads = !(self.ordered && self.memory.owes_responses(self.cycle));
        self.driven[0] = self
            .memory
            .drive(self.cycle, data.unwrap_or_default(), reads);
        let data = match self.devices.reading(self.cycle) {
            Some((burst, addr)) => self.read_device(burst, addr),
            None => 0,
        };
        self.driven[1] = self.devices.drive(self.cycle, [data, 0], true);
    }

    /// A beat from a device. The core fetches instructions by lines, and loads from devices by single accesses;
    /// so lines are those of the boot ROM.
    fn read_device(&mut self, burst: Burst, addr: u64) -> u64 {
        if burst.beats > 1 {
            let at = ((addr % LINE) & !(DEVICE_BYTES - 1)) as usize;
            let bytes = &self.rom[at..at + DEVICE_BYTES as usize];
            return u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        let now = self.now();
        let value = match self.bus.read(burst.addr, burst.bytes as u8, now, 0) {
            Ok(BusRead::Value(v)) => v,
            // The control block is the machine's own, and there is no machine here.
            _ => 0,
        };
        value << (8 * (burst.addr % DEVICE_BYTES))
    }

    fn device_side(&mut self, h: Happened) {
        if let Some(b) = h.read {
            self.devices.read_due(b.number, self.cycle + DEVICE_CLOCKS);
        }
        if let Some(b) = h.write {
            self.device_write = Some(b);
            self.devices.write_due(b.number, self.cycle + DEVICE_CLOCKS);
        }
        if let (Some(beat), Some(b)) = (h.beat, self.device_write) {
            let data = u64::from_le_bytes(beat.data[..8].try_into().expect("eight bytes"));
            let value = data >> (8 * (b.addr % DEVICE_BYTES));
            let now = self.now();
            // What no device takes is lost, as on a bus that always answers OKAY.
            let _ = self.bus.write(b.addr, b.bytes as u8, value, now, 0);
        }
    }

    fn memory_side(&mut self, h: Happened) -> Result<(), Error> {
        if let Some(Beat { addr, data, strobe }) = h.beat {
            for (i, byte) in data.into_iter().enumerate() {
                if strobe >> i & 1 == 1 {
                    // What lies outside memory is lost.
                    let at = addr.wrapping_sub(self.ram_base).wrapping_add(i as u64);
                    let _ = self.ram.write_bytes(at, &[byte]);
                }
            }
        }
        let now = self.now().0;
        for (burst, kind, there) in [
            (h.read, Kind::Read, self.latencies.read_request_ps),
            (h.write, Kind::Write, self.latencies.write_request_ps),
        ] {
            let Some(b) = burst else { continue };
            let m = Moving {
                number: b.number,
                at: Ps(now + there),
                offset: (b.addr & !(LINE - 1)).wrapping_sub(self.ram_base),
                kind,
            };
            let earlier = self.coming.iter().rposition(|c| c.at <= m.at);
            self.coming.insert(earlier.map_or(0, |i| i + 1), m);
        }
        Ok(())
    }

    /// Takes the controller up to the clock that begins, and lets ports know what it has done.
    fn answers(&mut self) -> Result<(), Error> {
        if self.coming.is_empty() && self.under_way.is_empty() {
            return Ok(());
        }
        let now = Ps(self.now().0);
        while let Some(mut c) = self.coming.pop_front() {
            if c.at > now {
                self.coming.push_front(c);
                break;
            }
            let request = Request {
                id: c.number,
                addr: c.offset,
                kind: c.kind,
                bytes: LINE as u32,
            };
            match self.controller.submit(c.at, request)? {
                Submit::Accepted => self.under_way.push(c),
                Submit::Busy(t) => {
                    c.at = t.max(Ps(c.at.0 + 1));
                    let earlier = self.coming.iter().rposition(|e| e.at < c.at);
                    self.coming.insert(earlier.map_or(0, |i| i + 1), c);
                }
            }
        }
        self.controller.advance_to(Ps(now.0 + 1))?;
        self.controller.drain(&mut self.done);
        for d in std::mem::take(&mut self.done) {
            let Some(i) = self.under_way.iter().position(|m| m.number == d.id) else {
                continue;
            };
            let m = self.under_way.remove(i);
            let back = match m.kind {
                Kind::Read => self.latencies.read_response_ps,
                Kind::Write => self.latencies.write_ack_ps,
            };
            let due = self.core_clock.tick_from(clock::Ps(d.done_at.0 + back));
            match m.kind {
                Kind::Read => self.memory.read_due(m.number, due),
                Kind::Write => self.memory.write_due(m.number, due),
            }
            if let Some(o) = &mut self.bus_trace {
                let direction = if m.kind == Kind::Read { 'r' } else { 'w' };
                let latency = d.done_at.0 - m.at.0;
                o.line(format_args!(
                    "{} {direction} {:#x} {latency}",
                    m.at.0, m.offset
                ))?;
            }
        }
        Ok(())
    }

    fn committed(&mut self, c: &NagoriRtlCommit) -> Result<(), Error> {
        if c.valid != 0 {
            if c.word & WITHOUT_RS1 == LABEL {
                self.report.labels.push(Label {
                    value: if c.word & !WITHOUT_RS1 == 0 { 0 } else { c.rs1 },
                    cycle: self.cycle,
                    instructions: self.report.instructions,
                });
            }
            self.report.instructions += 1;
        } else if c.trap != 0 && c.cause == STORE_FAULT && c.tval == map::SYSCON {
            // The test device is at an address that the core's own map has nothing at: it refuses the
            // store, and we take it.
            let now = self.now();
            let _ = self.bus.write(c.tval, 4, c.rs2, now, 0);
        }
        let Some(o) = &mut self.trace else {
            return Ok(());
        };
        let (cycle, pc, word) = (self.cycle, c.pc, c.word);
        match (c.valid != 0, c.trap != 0) {
            (true, _) if c.writes != 0 && c.rd != 0 => o.line(format_args!(
                "{cycle} {pc:#x} {word:08x} x{}={:#x}",
                c.rd, c.value
            )),
            (true, _) => o.line(format_args!("{cycle} {pc:#x} {word:08x}")),
            (_, true) => o.line(format_args!(
                "{cycle} {pc:#x} {word:08x} trap {:#x} {:#x}",
                c.cause, c.tval
            )),
            _ => Ok(()),
        }
    }
}
