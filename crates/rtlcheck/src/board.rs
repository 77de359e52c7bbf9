//! The board's controller beside the model: every command at the same clock.

use crate::control::Registers;
use crate::error::{show, Error};
use nagori_config::{Library, Machine, DEFAULT_MACHINE};
use nagori_memtime::board::{Command, Op};
use nagori_memtime::{BoardParams, Completion, Controller, Kind, Ps, Request, Submit};
use std::collections::VecDeque;
use std::io::BufRead;

/// What has been compared.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Clocks of all runs together.
    pub clocks: u64,
    /// Runs: the first one, and one for each reset in flight.
    pub runs: u64,
    /// Commands and acceptances.
    pub commands: u64,
    /// Refreshes among them.
    pub refreshes: u64,
    /// Requests.
    pub requests: u64,
    /// Writes to registers.
    pub settings: u64,
    /// Values of registers.
    pub values: u64,
    /// Clocks of first beats and responses.
    pub responses: u64,
}

/// One run, from a reset to the next.
struct Run {
    memory: Controller,
    registers: Registers,
    hardware: VecDeque<Command>,
    model: VecDeque<Command>,
    compared: u64,
    next_id: u64,
    last: [u64; 2],
    done: Vec<Completion>,
}

/// The fields of a line, one after the other.
struct Fields<'a> {
    line: u64,
    text: &'a str,
    rest: std::str::SplitAsciiWhitespace<'a>,
}

impl Fields<'_> {
    fn error(&self, why: &'static str) -> Error {
        Error::Line {
            line: self.line,
            text: self.text.into(),
            why,
        }
    }

    fn number(&mut self, radix: u32) -> Result<u64, Error> {
        let word = self.rest.next();
        let number = word.and_then(|w| u64::from_str_radix(w, radix).ok());
        number.ok_or_else(|| self.error("a number is missing"))
    }

    fn clock(&mut self) -> Result<u64, Error> {
        match self.number(10)? {
            // A time in ps has to be possible.
            n if n < 1 << 40 => Ok(n),
            _ => Err(self.error("a clock below 2^40")),
        }
    }
}

impl Run {
    fn new(board: &BoardParams) -> Result<Run, Error> {
        let memory = Controller::new(board.clone());
        let mut memory = memory.map_err(|e| Error::Usage(e.to_string()))?;
        memory.set_logging(true);
        Ok(Run {
            memory,
            registers: Registers::new(),
            hardware: VecDeque::new(),
            model: VecDeque::new(),
            compared: 0,
            next_id: 0,
            last: [0; 2],
            done: Vec::new(),
        })
    }

    fn time(&self, clock: u64) -> Ps {
        self.memory.params().clock.edge(clock)
    }

    fn submit(
        &mut self,
        line: u64,
        clock: u64,
        kind: Kind,
        addr: u64,
        bytes: u32,
    ) -> Result<(), Error> {
        let r = Request {
            id: self.next_id,
            addr,
            kind,
            bytes,
        };
        self.last[kind as usize] = self.next_id;
        self.next_id += 1;
        let refused = |why: String| Error::Refused { line, why };
        match self.memory.submit(self.time(clock), r) {
            Ok(Submit::Accepted) => Ok(()),
            Ok(Submit::Busy(until)) => Err(refused(format!("the channel is full until {until}"))),
            Err(e) => Err(refused(e.to_string())),
        }
    }

    /// Compares as far as both sides are known.
    fn compare(&mut self, line: u64) -> Result<(), Error> {
        self.model.extend(self.memory.take_log());
        while let (Some(h), Some(m)) = (self.hardware.front(), self.model.front()) {
            if !same(h, m) {
                return Err(self.differs(line));
            }
            self.hardware.pop_front();
            self.model.pop_front();
            self.compared += 1;
        }
        Ok(())
    }

    fn differs(&self, line: u64) -> Error {
        Error::Command {
            line,
            number: self.compared,
            hardware: show(self.hardware.front()),
            model: show(self.model.front()),
        }
    }

    /// The run ends in front of a clock: nothing may be left over.
    fn end(&mut self, line: u64, clock: u64) -> Result<(), Error> {
        let until = self.time(clock);
        let advanced = self.memory.advance_to(until);
        advanced.map_err(|e| Error::Refused {
            line,
            why: e.to_string(),
        })?;
        self.compare(line)?;
        if self.hardware.is_empty() && self.model.is_empty() {
            Ok(())
        } else {
            Err(self.differs(line))
        }
    }

    /// The clock of the answer to the newest request of a kind.
    fn answered(&mut self, kind: Kind) -> Option<u64> {
        self.memory.drain(&mut self.done);
        let id = self.last[kind as usize];
        let found = self.done.iter().rfind(|c| c.kind == kind && c.id == id);
        let period = self.memory.params().clock;
        let clock = found.map(|c| period.edge_until(c.done_at));
        self.done.clear();
        clock
    }
}

/// The hardware does not know the model's numbers of requests.
fn same(h: &Command, m: &Command) -> bool {
    h.clock == m.clock && h.op == m.op && h.bank == m.bank && h.row == m.row
}

/// The controller of the reference board, as its description says.
pub fn reference() -> BoardParams {
    let board = Machine::load(&Library::default(), DEFAULT_MACHINE, &[]);
    board
        .expect("a shipped description")
        .config
        .controller_params()
}

/// The board with banks of so many rows, as a power of two; the board itself has 16.
pub fn with_row_bits(bits: u32) -> Result<BoardParams, Error> {
    if !(1..=16).contains(&bits) {
        return Err(Error::Usage(format!(
            "{bits} bits of a row: 1 to 16 are possible"
        )));
    }
    let mut board = reference();
    let first = board.nvmm_base >> board.mapping.bank.low;
    board.mapping.row.bits = bits;
    board.mapping.bank.low = board.mapping.row.low + bits;
    board.nvmm_base = first << board.mapping.bank.low;
    board.capacity = board.mapping.span();
    Ok(board)
}

/// Reads what the testbench wrote, and compares it with a controller as `board` describes it.
pub fn compare(mut input: impl BufRead, board: &BoardParams) -> Result<Compared, Error> {
    let mut all = Compared::default();
    let mut run: Option<Run> = None;
    let mut open_rows = [0u32; 16];
    let mut text = String::new();
    let mut line = 0;
    loop {
        text.clear();
        if input.read_line(&mut text)? == 0 {
            break;
        }
        line += 1;
        let mut f = Fields {
            line,
            text: text.trim_end(),
            rest: text.split_ascii_whitespace(),
        };
        let word = f.rest.next().unwrap_or("");
        if word == "N" {
            run = Some(Run::new(board)?);
            all.runs += 1;
            continue;
        }
        let Some(r) = run.as_mut() else {
            return Err(f.error("a run begins with N"));
        };
        match word {
            "R" | "W" => {
                let kind = if word == "R" { Kind::Read } else { Kind::Write };
                let (clock, addr, bytes) = (f.clock()?, f.number(16)?, f.number(10)?);
                let bytes = u32::try_from(bytes).map_err(|_| f.error("bytes of a line"))?;
                r.submit(line, clock, kind, addr, bytes)?;
                all.requests += 1;
            }
            "S" => {
                let (clock, offset, value) = (f.clock()?, f.number(16)?, f.number(16)?);
                let strobes = f.number(16)? as u8;
                let now = r.time(clock);
                r.registers
                    .write(&mut r.memory, now, offset, value, strobes);
                all.settings += 1;
            }
            "G" => {
                let (clock, offset, hardware) = (f.clock()?, f.number(16)?, f.number(16)?);
                let now = r.time(clock);
                let model = r.registers.read(&mut r.memory, now, offset);
                if model != hardware {
                    return Err(Error::Register {
                        line,
                        clock,
                        offset,
                        hardware,
                        model,
                    });
                }
                all.values += 1;
            }
            "d" => {
                let hardware = f.clock()?;
                let kind = match f.rest.next() {
                    Some("R") => Kind::Read,
                    Some("W") => Kind::Write,
                    _ => return Err(f.error("R or W is missing")),
                };
                let now = r.time(hardware);
                let advanced = r.memory.advance_to(now);
                advanced.map_err(|_| f.error("an earlier clock"))?;
                let model = r.answered(kind);
                if model != Some(hardware) {
                    return Err(Error::Response {
                        line,
                        hardware,
                        model,
                    });
                }
                all.responses += 1;
            }
            "E" => {
                let clock = f.clock()?;
                r.end(line, clock)?;
                all.clocks += clock;
                all.commands += r.compared;
                run = None;
                continue;
            }
            "f" | "c" | "p" | "a" | "q" => {
                let clock = f.clock()?;
                let mut c = Command {
                    clock,
                    op: Op::Refresh,
                    bank: 0,
                    row: 0,
                    seq: 0,
                };
                if word == "f" {
                    all.refreshes += 1;
                } else {
                    c.bank = (f.number(10)? % 16) as u8;
                    if word == "p" {
                        // The hardware's command names no row: it closes the open one.
                        c.row = open_rows[usize::from(c.bank)];
                    } else {
                        c.row = f.number(10)? as u32;
                    }
                }
                match word {
                    "a" => {
                        c.op = Op::Activate;
                        open_rows[usize::from(c.bank)] = c.row;
                    }
                    "p" => c.op = Op::Precharge,
                    "q" => c.op = Op::Accept,
                    "c" if f.number(10)? == 1 => c.op = Op::Write,
                    "c" => c.op = Op::Read,
                    _ => {}
                }
                r.hardware.push_back(c);
                r.compare(line)?;
            }
            _ => return Err(f.error("N, R, W, S, G, d, f, c, p, a, q or E")),
        }
    }
    if run.is_some() {
        return Err(Error::Line {
            line,
            text: "end of input".into(),
            why: "the last run has no end",
        });
    }
    Ok(all)
}
