//! Basic-block vectors, in the format of SimPoint: a line for each interval, `T:BLOCK:INSTRUCTIONS :BLOCK:...`.

use nagori_hart::world::{Commit, Event};
use nagori_isa::{Format, Op};
use nagori_machine::{
    EventSink, Machine, MachineError, Moment, Next, Pace, Part, Progress, Sampling,
};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is counted, and where it goes.
struct Counter {
    to: Box<dyn Write + Send>,
    /// Instructions of all harts in an interval.
    length: u64,
    on: bool,
    /// Numbers of blocks by their first address, from 1 on.
    blocks: HashMap<u64, u32>,
    /// By hart: its block, and the address behind its last instruction, if no jump or trap followed.
    at: Vec<(u32, u64)>,
    counts: BTreeMap<u32, u64>,
    counted: u64,
    intervals: u64,
    failed: Option<io::Error>,
}

impl Counter {
    fn count(&mut self, c: &Commit) {
        if self.at.len() <= c.hart {
            self.at.resize(c.hart + 1, (0, u64::MAX));
        }
        let (mut block, next) = self.at[c.hart];
        if next != c.pc {
            let number = self.blocks.len() as u32 + 1;
            block = *self.blocks.entry(c.pc).or_insert(number);
        }
        let length = if c.word & 3 == 3 { 4 } else { 2 };
        let ends = c.op.is_none_or(ends_block) || c.trap.is_some();
        let behind = if ends {
            u64::MAX
        } else {
            c.pc.wrapping_add(length)
        };
        self.at[c.hart] = (block, behind);
        if c.trap.is_some() {
            return;
        }
        *self.counts.entry(block).or_default() += 1;
        self.counted += 1;
        if self.counted == self.length {
            self.write();
        }
    }

    fn write(&mut self) {
        let mut line = String::from("T");
        for (block, n) in std::mem::take(&mut self.counts) {
            line.push_str(&format!(":{block}:{n} "));
        }
        line.push('\n');
        self.counted = 0;
        self.intervals += 1;
        if let Err(e) = self.to.write_all(line.as_bytes()) {
            self.failed.get_or_insert(e);
        }
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Counter>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Counter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts while what is timed goes on.
struct Switch(Shared);

impl EventSink for Shared {
    fn happened(&mut self, event: &Event<'_>) {
        if let Event::Commit(c) = event {
            let mut counter = self.lock();
            if counter.on {
                counter.count(c);
            }
        }
    }
}

impl Sampling for Switch {
    fn begins(&mut self, _: &Progress) -> Next {
        self.0.lock().on = true;
        Next::Functional(u64::MAX)
    }
    fn detail_over(&mut self, _: Part, _: &Progress) -> (Next, Pace) {
        (Next::Functional(u64::MAX), Pace::default())
    }
    fn functional_over(&mut self, _: &Progress) -> (Next, Pace) {
        (Next::Functional(u64::MAX), Pace::default())
    }
    fn moment(&mut self, _: Moment, _: &Progress) -> Result<(Next, Pace), MachineError> {
        Ok((Next::Functional(u64::MAX), Pace::default()))
    }
    fn ends(&mut self, _: Option<Part>, _: &Progress) {
        self.0.lock().on = false;
    }
    fn restarts(&mut self) {
        let mut c = self.0.lock();
        (c.counted, c.on) = (0, false);
        c.counts.clear();
    }
}

/// Whether what follows belongs to another block.
fn ends_block(op: Op) -> bool {
    use Op::{Ebreak, Ecall, Jal, Jalr, Mret, Sret, Wfi};
    matches!(op, Ebreak | Ecall | Jal | Jalr | Mret | Sret | Wfi) || op.info().format == Format::B
}

/// Basic-block vectors of a run.
pub struct Vectors(Shared);

impl Vectors {
    /// Of what would be timed, in intervals of so many instructions. The run is functional, by the interpreter.
    pub fn begin(m: &mut Machine, to: Box<dyn Write + Send>, length: u64) -> Vectors {
        let shared = Shared(Arc::new(Mutex::new(Counter {
            to,
            length: length.max(1),
            on: false,
            blocks: HashMap::new(),
            at: Vec::new(),
            counts: BTreeMap::new(),
            counted: 0,
            intervals: 0,
            failed: None,
        })));
        m.set_event_sink(Some(Box::new(shared.clone())));
        m.set_sampling(Box::new(Switch(shared.clone())));
        Vectors(shared)
    }

    /// The run is over: writes the last interval, which is shorter. Returns how many there are.
    pub fn end(self, m: &mut Machine) -> io::Result<u64> {
        m.set_event_sink(None);
        // Nothing of it can fail.
        let _ = m.end_sampling();
        let mut c = self.0.lock();
        if c.counted > 0 {
            c.write();
        }
        match c.failed.take() {
            Some(e) => Err(e),
            None => c.to.flush().map(|()| c.intervals),
        }
    }
}
