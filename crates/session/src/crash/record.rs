//! What observers record: what a workload does to NVMM, and what a recovery reads of it.

use super::left;
use super::stack::Hart;
use nagori_config::map;
use nagori_config::SlotKind;
use nagori_crash::{
    At, Cut, FenceSet, FlushOp, History, Mode, Online, PointKind, Sink, Site, Step, StoreOrder,
    LINE,
};
use nagori_hart::debug::lookup;
use nagori_hart::world::{AccessKind, Commit, DeviceDeed, DeviceEvent, Event, Marker, MemAccess};
use nagori_isa::Op;
use nagori_machine::{AccessSink, EventSink, Label, Machine, Watching};
use nagori_platform::clock::Clock;
use nagori_ram::{GuestRam, PAGE};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Offset of a virtio transport's register that notifies a queue.
const NOTIFY: u64 = 0x50;
/// Queues of a console with ports in which a driver sends: of port 0, of control messages, then of port 1 and so on.
const CONTROL_QUEUE: u16 = 3;
/// Cause of a trap: an environment call from user mode.
const USER_CALL: u64 = 8;

/// At which steps the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points {
    /// Before each fence.
    pub fences: bool,
    /// Before each flush.
    pub flushes: bool,
    /// At each marker.
    pub markers: bool,
}

/// How often NVMM was stored to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stores {
    /// By instructions of user mode.
    pub programs: u64,
    /// By instructions of the kernel, and of what lies below it.
    pub kernel: u64,
    /// By devices, in one piece each.
    pub devices: u64,
}

impl Stores {
    /// By all.
    pub fn sum(&self) -> u64 {
        self.programs + self.kernel + self.devices
    }
}

impl Default for Points {
    fn default() -> Points {
        Points {
            fences: true,
            flushes: true,
            markers: true,
        }
    }
}

/// What is known of a hart beside its registers.
#[derive(Debug, Clone)]
struct Known {
    hart: Hart,
    /// Whether something was done to NVMM since the last fence of the hart that orders everything.
    active: bool,
    /// A trap that the program did not ask for is being handled: an interrupt or a fault.
    aside: bool,
    /// Whether that handler has itself done something to NVMM.
    aside_active: bool,
    /// The instruction that has retired last.
    last: Option<(u64, Op)>,
}

/// A device that sends something to the outside.
#[derive(Debug, Clone)]
struct Sender {
    sink: Sink,
    /// The register whose writes tell it to.
    register: u64,
    /// Queues with numbers up to this one do not count.
    own: u16,
    /// Who has told it last, and whether it was a handler that the program did not ask for.
    told: Option<(At, bool)>,
}

/// Records what harts do to NVMM.
pub(super) struct Recording {
    ram: Arc<GuestRam>,
    ram_base: u64,
    nvmm: Range<u64>,
    clock: Clock,
    known: Vec<Known>,
    /// Whether a flush of the first-level cache brings a line to memory.
    to_memory: bool,
    /// Under which hints stores are combined.
    combining: [bool; 4],
    /// Cuts are kept whatever the history says that they leave: the machine says it later.
    keeps_all: bool,
    points: Points,
    /// Devices that send something to the outside, by the address of their registers.
    senders: HashMap<u64, Sender>,
    /// The model's stream.
    pub history: History,
    /// Checks without a crash.
    pub online: Online,
    /// Cuts, in order, without those that leave what an earlier one leaves.
    pub cuts: Vec<Cut>,
    /// Contents at the beginning and at each marker of an operation.
    pub references: Vec<Cut>,
    seen: HashSet<(u64, u32)>,
    last_stores: Option<u64>,
    operation: u32,
    /// Points at which the power could have been cut.
    pub met: u64,
    /// Steps so far.
    pub steps: u64,
    /// Who stored to NVMM, and how often.
    pub stores: Stores,
    /// By step: instructions of all harts that had retired before that of the step.
    pub instructions: Vec<u64>,
    /// Instructions of all harts that have retired, as the machine counts them.
    pub retired: u64,
    /// What an environment call adds to that.
    calls_retire: u64,
    /// Labels of markers, in order.
    pub labels: Vec<String>,
}

impl Recording {
    /// Begins to record what a machine does.
    pub fn begin(machine: &mut Machine, history: History, online: Online, points: Points) {
        let config = machine.config().clone();
        let m = &config.memory;
        let sender = |sink, register, own| Sender {
            sink,
            register,
            own,
            told: None,
        };
        let mut senders = HashMap::new();
        senders.insert(map::UART, sender(Sink::Console, map::UART, 0));
        for (n, slot) in config.devices.iter().enumerate() {
            let base = map::VIRTIO + n as u64 * map::VIRTIO_STRIDE;
            let (sink, own) = match slot.kind {
                SlotKind::Console => (Sink::Console, CONTROL_QUEUE),
                SlotKind::Net => (Sink::Network, 0),
                SlotKind::Block | SlotKind::Share => (Sink::Disk, 0),
                _ => continue,
            };
            senders.insert(base, sender(sink, base + NOTIFY, own));
        }
        let harts = 0..config.harts as usize;
        let mut recording = Recording {
            ram: machine.ram().clone(),
            ram_base: m.base,
            nvmm: m.nvmm_base()..m.end(),
            clock: Clock::new(config.core_period()),
            known: harts
                .map(|n| Known {
                    hart: Hart::of(machine, n),
                    active: false,
                    aside: false,
                    aside_active: false,
                    last: None,
                })
                .collect(),
            to_memory: config.cache.is_empty(),
            combining: left::combining(&config),
            keeps_all: history.model().mode == Mode::AsBuilt && left::holds_stores(&config),
            points,
            senders,
            history,
            online,
            cuts: Vec::new(),
            references: Vec::new(),
            seen: HashSet::new(),
            last_stores: None,
            operation: 0,
            met: 0,
            steps: 0,
            stores: Stores::default(),
            instructions: Vec::new(),
            retired: machine.instructions(),
            calls_retire: { machine.hart(0) }
                .map_or(0, |h| u64::from(h.config().timing.trap_retires)),
            labels: Vec::new(),
        };
        recording.cut(PointKind::Other);
        let first = recording.history.uncut();
        recording.references.push(first);
        machine.set_event_sink(Some(Box::new(recording)));
    }

    /// Ends it.
    pub fn end(machine: &mut Machine) -> Option<Box<Recording>> {
        machine.report_reached();
        let mut all = machine.take_event_sink::<Recording>()?;
        all.cut(PointKind::Other);
        // What the last operation left has a next one only in what was done after it.
        let last = all.history.uncut();
        all.references.push(last);
        Some(all)
    }

    /// The instruction's bits.
    fn word(&self, hart: usize, c: &Commit) -> u32 {
        let satp = match c.privilege {
            3 => 0,
            _ => self.known[hart].hart.satp,
        };
        let half = |va: u64| {
            let pa = lookup(&self.ram, self.ram_base, satp, va)?.physical;
            self.ram.read_u16(pa.checked_sub(self.ram_base)?)
        };
        let low = half(c.pc).unwrap_or(0);
        let high = half(c.pc.wrapping_add(2)).unwrap_or(0);
        u32::from(low) | u32::from(high) << 16
    }

    /// Whether the machine combines this store outside of the caches: the instruction before it, on the same page, is
    /// such a hint of Zihintntl.
    fn combines(&self, hart: usize, c: &Commit) -> bool {
        let Some((pc, op)) = self.known[hart].last else {
            return false;
        };
        let hint = match op {
            Op::NtlP1 => 0,
            Op::NtlPall => 1,
            Op::NtlS1 => 2,
            Op::NtlAll => 3,
            _ => return false,
        };
        // Compressed ones have two bytes.
        self.combining[hint] && pc / PAGE == c.pc / PAGE && matches!(c.pc.wrapping_sub(pc), 2 | 4)
    }

    fn at(&mut self, hart: usize, c: &Commit) -> At {
        let known = &mut self.known[hart].hart;
        let site = Site {
            pc: c.pc,
            process: known.satp,
            stack: known.stack(c.privilege),
        };
        At {
            hart: hart as u16,
            site: self.history.site(&site),
            time: self.clock.time_of(c.cycle).0,
        }
    }

    fn step(&mut self, step: &Step) {
        self.history.step(step);
        self.online.step(step);
        self.steps += 1;
        self.instructions.push(self.retired);
    }

    /// A power cut before the next step, if it may leave something that none before did.
    fn cut(&mut self, kind: PointKind) {
        let stores = self.history.stores();
        if self.last_stores == Some(stores) {
            return;
        }
        self.last_stores = Some(stores);
        self.met += 1;
        let cut = self.history.cut(kind);
        if self.seen.insert((cut.hash, self.operation)) || self.keeps_all {
            self.cuts.push(cut);
        }
    }

    fn did(&mut self, hart: usize) {
        let known = &mut self.known[hart];
        known.active = true;
        known.aside_active |= known.aside;
    }

    fn store(&mut self, hart: usize, c: &Commit, a: &MemAccess) {
        let at = self.at(hart, c);
        let order = if c.op.is_some_and(is_atomic) {
            let word = self.word(hart, c);
            StoreOrder {
                acquire: word >> 26 & 1 != 0,
                release: word >> 25 & 1 != 0,
                atomic: true,
                combined: false,
            }
        } else {
            StoreOrder {
                combined: c.op != Some(Op::CboZero) && self.combines(hart, c),
                ..StoreOrder::default()
            }
        };
        let mut bytes = [0; LINE as usize];
        bytes[..16].copy_from_slice(&a.value.to_le_bytes());
        let bytes = &bytes[..usize::from(a.size).min(LINE as usize)];
        let paddr = a.paddr;
        match c.privilege {
            0 => self.stores.programs += 1,
            _ => self.stores.kernel += 1,
        }
        self.step(&Step::Store {
            at,
            paddr,
            bytes,
            order,
        });
        self.did(hart);
    }

    fn access(&mut self, hart: usize, c: &Commit, a: &MemAccess) {
        let op = match a.kind {
            AccessKind::Write if self.nvmm.contains(&a.paddr) => return self.store(hart, c, a),
            AccessKind::Write if a.paddr < self.ram_base => return self.device(hart, c, a),
            AccessKind::Read if self.nvmm.contains(&a.paddr) => {
                // Only atomics order by what they read.
                if c.op.is_some_and(is_atomic) {
                    let at = self.at(hart, c);
                    self.step(&Step::Load { at, paddr: a.paddr });
                }
                return;
            }
            AccessKind::Read | AccessKind::Write => return,
            AccessKind::FlushAll => {
                if self.points.flushes {
                    self.cut(PointKind::Flush);
                }
                let at = self.at(hart, c);
                let to_memory = self.to_memory;
                self.step(&Step::FlushAll { at, to_memory });
                return self.did(hart);
            }
            _ if !self.nvmm.contains(&a.paddr) => return,
            AccessKind::Clean => FlushOp::Clean,
            AccessKind::Flush => match c.op {
                Some(Op::CboInval) => FlushOp::Inval,
                Some(Op::CboFlush) => FlushOp::Flush,
                _ => FlushOp::L1,
            },
        };
        if self.points.flushes {
            self.cut(PointKind::Flush);
        }
        let at = self.at(hart, c);
        self.step(&Step::Flush {
            at,
            paddr: a.paddr,
            op,
            to_memory: op != FlushOp::L1 || self.to_memory,
        });
        self.did(hart);
    }

    /// A write to a device may tell it to send something.
    fn device(&mut self, hart: usize, c: &Commit, a: &MemAccess) {
        let to = |s: &Sender| s.register == a.paddr;
        let Some((&base, _)) = self.senders.iter().find(|(_, s)| to(s)) else {
            return;
        };
        let at = self.at(hart, c);
        let known = &self.known[hart];
        let told = Some((at, known.aside && !known.aside_active));
        if let Some(sender) = self.senders.get_mut(&base) {
            sender.told = told;
        }
    }

    /// What a device has done.
    fn deed(&mut self, d: &DeviceEvent) {
        let reads = |paddr: u64, len: u64| {
            paddr < self.nvmm.end && self.nvmm.start < paddr.saturating_add(len)
        };
        if let DeviceDeed::Wrote { paddr, len } = d.did {
            if reads(paddr, len) {
                self.wrote(paddr, len);
            }
            return;
        }
        let Some(sender) = self.senders.get(&d.device) else {
            return;
        };
        let Some((told, aside)) = sender.told else {
            return;
        };
        let at = At {
            time: d.time_ps,
            ..told
        };
        let sink = sender.sink;
        match d.did {
            DeviceDeed::Read { paddr, len } if reads(paddr, len) => self.step(&Step::DeviceRead {
                at,
                sink,
                paddr,
                len,
            }),
            // A handler that comes here by chance sends what it sends for other reasons.
            DeviceDeed::Sends { queue } if (queue > sender.own || sender.own == 0) && !aside => {
                self.step(&Step::Output { at, sink });
            }
            _ => {}
        }
    }

    /// A device has written to memory. The power may fail before that.
    fn wrote(&mut self, paddr: u64, len: u64) {
        let first = paddr.max(self.nvmm.start);
        let end = paddr.saturating_add(len).min(self.nvmm.end);
        let mut bytes = vec![0; (end - first) as usize];
        // What a device has written is in memory.
        if self
            .ram
            .read_bytes(first - self.ram_base, &mut bytes)
            .is_ok()
        {
            self.cut(PointKind::Other);
            self.stores.devices += 1;
            self.step(&Step::DeviceWrite {
                paddr: first,
                bytes: &bytes,
            });
        }
    }

    fn fence(&mut self, hart: usize, c: &Commit) {
        let known = &self.known[hart];
        // That an interrupt comes here, with a fence, is chance.
        if !known.active || known.aside && !known.aside_active {
            return;
        }
        if self.points.fences {
            self.cut(PointKind::Fence);
        }
        let word = self.word(hart, c);
        let (pred, succ) = (
            FenceSet((word >> 24) as u8 & 15),
            FenceSet((word >> 20) as u8 & 15),
        );
        let at = self.at(hart, c);
        self.step(&Step::Fence { at, pred, succ });
        if pred.has(FenceSet::RW) && succ.has(FenceSet::RW) {
            self.known[hart].active = false;
        }
    }

    fn marker(&mut self, hart: usize, c: &Commit, marker: Marker) {
        let operation = marker == Marker::Label;
        let word = self.word(hart, c);
        let value = self.known[hart].hart.x[(word >> 15 & 31) as usize];
        let label = Label {
            value,
            time_ps: 0,
            hart,
            instructions: 0,
        };
        let label = label.text().unwrap_or_else(|| format!("{value:#x}"));
        if self.points.markers {
            self.cut(PointKind::Marker);
        }
        let at = self.at(hart, c);
        self.step(&Step::Marker {
            at,
            label: &label,
            operation,
        });
        if operation {
            self.operation += 1;
            self.last_stores = None;
            let done = self.history.uncut();
            self.references.push(done);
            self.labels.push(label);
        }
    }

    fn commit(&mut self, c: &Commit) {
        let hart = c.hart;
        if c.privilege == 0 {
            let known = &mut self.known[hart];
            known.aside = false;
            known.aside_active = false;
        }
        self.known[hart].hart.commit(c);
        if let Some(t) = &c.trap {
            self.known[hart].last = None;
            if matches!(c.op, Some(Op::Ecall | Op::Ebreak)) {
                self.retired += self.calls_retire;
            }
            return self.trapped(hart, t.from, t.cause);
        }
        for a in c.accesses() {
            self.access(hart, c, &a);
        }
        match c.op {
            Some(Op::Fence) => self.fence(hart, c),
            Some(op) => {
                if let Some(marker) = Marker::of(op) {
                    self.marker(hart, c, marker);
                }
            }
            None => {}
        }
        self.known[hart].last = c.op.map(|op| (c.pc, op));
        self.retired += 1;
    }

    fn trapped(&mut self, hart: usize, from: u8, cause: u64) {
        if from == 0 {
            self.known[hart].aside = cause != USER_CALL;
        }
    }
}

/// Whether an instruction reads and writes at once.
fn is_atomic(op: Op) -> bool {
    use nagori_isa::Format;
    matches!(
        op.info().format,
        Format::Amo | Format::Cas | Format::CasPair
    )
}

impl EventSink for Recording {
    fn wants_words(&self) -> bool {
        false
    }

    fn wants_devices(&self) -> bool {
        true
    }

    fn wants_reached(&self) -> bool {
        true
    }

    fn happened(&mut self, event: &Event<'_>) {
        let r = self;
        match event {
            Event::Commit(c) => r.commit(c),
            Event::Trap(t) => r.trapped(t.hart, t.from, t.cause),
            Event::WriteBack(line) => {
                if r.nvmm.contains(&line.line) {
                    r.step(&Step::WriteBack { paddr: line.line });
                }
            }
            Event::Device(d) => r.deed(d),
            Event::Reached(c) => {
                if r.nvmm.contains(&c.line) {
                    let (line, bytes) = (c.line, &c.bytes);
                    r.step(&Step::Reached { line, bytes });
                }
            }
        }
    }
}

/// What a recovery does to NVMM: which of some lines are read before they are overwritten.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// For each line the bytes that have been overwritten, a bit each, and whether it was read before that.
    watched: HashMap<u64, (u64, bool)>,
    order: Vec<u64>,
    touched: bool,
    stored: bool,
    /// Watched lines to which it was.
    lines: BTreeSet<u64>,
}

impl Reads {
    /// Watches lines of NVMM.
    pub fn watching(nvmm: Range<u64>, lines: &[u64]) -> Watching {
        let sink = Box::new(Reads::of(lines));
        Watching { range: nvmm, sink }
    }

    fn of(lines: &[u64]) -> Reads {
        Reads {
            watched: lines.iter().map(|l| (*l, (0, false))).collect(),
            ..Reads::default()
        }
    }

    /// Whether NVMM has been accessed at all.
    pub fn touched(&self) -> bool {
        self.touched
    }

    /// Whether it has been stored to.
    pub fn stores(&self) -> bool {
        self.stored
    }

    /// The watched lines to which it has, by ascending address.
    pub fn stored(&self) -> Vec<u64> {
        self.lines.iter().copied().collect()
    }

    /// The lines that were read, by the time of the first read.
    pub fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.order)
    }
}

impl AccessSink for Reads {
    fn accessed(&mut self, kind: AccessKind, first: u64, size: u8) {
        self.touched = true;
        self.stored |= kind == AccessKind::Write;
        let end = first + u64::from(size.max(1));
        let mut line = first & !(LINE - 1);
        while line < end {
            if let Some((done, read)) = self.watched.get_mut(&line) {
                let from = first.max(line) - line;
                let to = end.min(line + LINE) - line;
                let mask = (u64::MAX >> (LINE - (to - from))) << from;
                match kind {
                    AccessKind::Read if !*read && *done & mask != mask => {
                        *read = true;
                        self.order.push(line);
                    }
                    AccessKind::Write => {
                        if *done == 0 {
                            self.lines.insert(line);
                        }
                        *done |= mask;
                    }
                    _ => {}
                }
            }
            line += LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_unless_all_of_that_was_overwritten() {
        let mut r = Reads::of(&[0x1000, 0x1040, 0x1080]);
        assert!(!r.touched());
        r.accessed(AccessKind::Read, 0x1100, 1);
        assert!(r.touched() && !r.stores());
        r.accessed(AccessKind::Write, 0x1040, 8);
        r.accessed(AccessKind::Read, 0x1040, 8);
        r.accessed(AccessKind::Write, 0x1084, 4);
        r.accessed(AccessKind::Read, 0x1080, 8);
        // Of two lines, the one of which nothing was overwritten.
        r.accessed(AccessKind::Read, 0x103c, 8);
        r.accessed(AccessKind::Read, 0x1044, 8);
        assert_eq!(r.take(), [0x1080, 0x1000, 0x1040]);
        assert!(r.stores());
        assert_eq!(r.stored(), [0x1040, 0x1080]);
    }
}
