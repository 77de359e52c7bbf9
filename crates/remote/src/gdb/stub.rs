//! A debugger's session.

use super::frame::{escape, hex, packet, Event, Framer};
use super::request::{parse, Action, Malformed, PointKind, Request, Threads, PROCESS};
use super::{Halt, Left, Point, Target, WatchKind, GENERAL, PACKET};
use std::collections::BTreeSet;
use std::ops::Range;

const SIGINT: u8 = 2;
const SIGTRAP: u8 = 5;
const SIGKILL: u8 = 9;

/// Error numbers of answers, which the protocol gives no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The packet cannot be understood.
    Malformed = 1,
    /// There is no such thread, register, memory or file.
    Nothing = 2,
    /// The machine cannot do that.
    Impossible = 3,
    /// The machine runs: only Ctrl-C, `D`, `k` and `vKill` make sense.
    Runs = 4,
}

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Refusal {
        Refusal::Malformed
    }
}

/// The content of an answer.
type Answer = Result<Vec<u8>, Refusal>;

fn text(of: impl Into<String>) -> Answer {
    Ok(of.into().into_bytes())
}

fn done() -> Answer {
    text("OK")
}

/// The place of a breakpoint or watchpoint, and how the debugger calls it.
type Placed = (PointKind, u64, u64);

/// A session, from the debugger's connection to its end.
#[derive(Debug)]
pub struct Stub {
    framer: Framer,
    output: Vec<u8>,
    /// The last packet, in case it comes damaged.
    last: Vec<u8>,
    acknowledges: bool,
    /// Threads' numbers have their process's before them.
    multiprocess: bool,
    /// Reasons of stops that the debugger knows.
    knows: [bool; 2],
    running: bool,
    /// The hart of the debugger's current thread.
    current: usize,
    /// The hart that `c` and `s` are about, if it is another one.
    to_run: Option<usize>,
    /// The last stop.
    reason: (u8, usize, String),
    points: BTreeSet<Placed>,
    left: Option<Left>,
}

impl Stub {
    /// A session that has just begun and looks at a hart first.
    pub fn new(first: usize) -> Stub {
        Stub {
            framer: Framer::default(),
            output: Vec::new(),
            last: Vec::new(),
            acknowledges: true,
            multiprocess: false,
            knows: [false; 2],
            running: false,
            current: first,
            to_run: None,
            reason: (SIGTRAP, first, String::new()),
            points: BTreeSet::new(),
            left: None,
        }
    }

    /// Whether the machine runs.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// How the session has ended, if it has.
    pub fn left(&self) -> Option<Left> {
        self.left
    }

    /// Number of bytes that have to be sent.
    pub fn unread(&self) -> usize {
        self.output.len()
    }

    /// What has to be sent to the debugger; whatever has been is taken out by the caller.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes bytes of the debugger.
    pub fn take(&mut self, bytes: &[u8], target: &mut dyn Target) {
        for &byte in bytes {
            if self.left.is_some() {
                return;
            }
            match self.framer.take(byte) {
                None => {}
                Some(Event::Packet(content)) => {
                    self.acknowledge(b'+');
                    self.request(&content, target);
                }
                Some(Event::Damaged) if self.acknowledges => self.acknowledge(b'-'),
                Some(Event::Damaged | Event::TooLong) => {
                    self.acknowledge(b'+');
                    self.answer(Err(Refusal::Malformed));
                }
                Some(Event::Again) if self.acknowledges => self.output.extend(&self.last),
                Some(Event::Again) => {}
                Some(Event::Interrupt) => self.interrupt(),
            }
        }
    }

    /// The machine does not run any more.
    pub fn halted(&mut self, why: Halt) {
        if !std::mem::take(&mut self.running) {
            return;
        }
        let process = if self.multiprocess {
            format!(";process:{PROCESS:x}")
        } else {
            String::new()
        };
        let end = |how, code: u8| format!("{how}{code:02x}{process}").into_bytes();
        match why {
            Halt::Break { hart, pc } => {
                let here = |kind| {
                    self.points
                        .range((kind, pc, 0)..=(kind, pc, u64::MAX))
                        .count()
                        > 0
                };
                let software = here(PointKind::Software);
                let (known, name) = if software {
                    (self.knows[0], "swbreak:;")
                } else {
                    (self.knows[1], "hwbreak:;")
                };
                self.stop(
                    SIGTRAP,
                    hart,
                    if known { name.into() } else { String::new() },
                );
            }
            Halt::Watch { hart, kind, addr } => {
                let name = match kind {
                    WatchKind::Read => "rwatch",
                    WatchKind::Write => "watch",
                    WatchKind::Access => "awatch",
                };
                self.stop(SIGTRAP, hart, format!("{name}:{addr:x};"));
            }
            Halt::Step { hart } => self.stop(SIGTRAP, hart, String::new()),
            Halt::Off(code) => self.send(&end('W', u8::try_from(code).unwrap_or(u8::MAX))),
            Halt::Over => self.send(&end('X', SIGKILL)),
        }
    }

    /// The debugger's thread stays where it looks: no hart has a reason to stop.
    fn interrupt(&mut self) {
        // One that comes when the machine has just stopped has been answered by that stop.
        if std::mem::take(&mut self.running) {
            self.stop(SIGINT, self.current, String::new());
        }
    }

    fn stop(&mut self, signal: u8, hart: usize, more: String) {
        self.current = hart;
        self.to_run = None;
        self.reason = (signal, hart, more);
        let reason = self.reason();
        self.send(reason.as_bytes());
    }

    fn reason(&self) -> String {
        let (signal, hart, more) = &self.reason;
        format!("T{signal:02x}thread:{};{more}", self.thread(*hart))
    }

    /// A hart's thread.
    fn thread(&self, hart: usize) -> String {
        if self.multiprocess {
            format!("p{PROCESS:x}.{:x}", hart + 1)
        } else {
            format!("{:x}", hart + 1)
        }
    }

    fn acknowledge(&mut self, how: u8) {
        if self.acknowledges {
            self.output.push(how);
        }
    }

    fn send(&mut self, content: &[u8]) {
        self.last = packet(content);
        self.output.extend(&self.last);
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Ok(content) => self.send(&content),
            Err(why) => self.send(format!("E{:02x}", why as u8).as_bytes()),
        }
    }

    fn request(&mut self, content: &[u8], target: &mut dyn Target) {
        let request = match parse(content) {
            Ok(request) => request,
            Err(e) => return self.answer(Err(e.into())),
        };
        let at_any_time = matches!(request, Request::Detach | Request::Kill { .. });
        if self.running && !at_any_time {
            return self.answer(Err(Refusal::Runs));
        }
        let answer = match request {
            Request::Kill { answered } => {
                self.left = Some(Left::Killed);
                if !answered {
                    return;
                }
                done()
            }
            Request::Detach => {
                self.left = Some(Left::Detached);
                done()
            }
            Request::Resume(actions) => match self.resume(&actions, target) {
                Ok(()) => return,
                Err(e) => Err(e),
            },
            Request::Run(action, at) => match self.run(action, at, target) {
                Ok(()) => return,
                Err(e) => Err(e),
            },
            request => self.look(request, target),
        };
        self.answer(answer);
        // The answer to this one was still to be acknowledged.
        self.acknowledges &= content != b"QStartNoAckMode";
    }

    /// Requests that are answered at once.
    fn look(&mut self, request: Request, target: &mut dyn Target) -> Answer {
        let hart = self.current;
        match request {
            Request::Supported(features) => {
                let has = |name: &str| features.iter().any(|f| f == name);
                self.multiprocess = has("multiprocess+");
                self.knows = [has("swbreak+"), has("hwbreak+")];
                text(format!(
                    "PacketSize={PACKET:x};vContSupported+;multiprocess+;QStartNoAckMode+;swbreak+;hwbreak+;\
                     qXfer:features:read+"
                ))
            }
            Request::NoAcknowledgements => done(),
            Request::Attached => text("1"),
            Request::Reason => text(self.reason()),
            Request::Current => text(format!("QC{}", self.thread(hart))),
            Request::Threads => {
                // What is listed first is shown first.
                let rest = (0..target.harts()).filter(|i| *i != hart);
                let all: Vec<String> = std::iter::once(hart)
                    .chain(rest)
                    .map(|h| self.thread(h))
                    .collect();
                text(format!("m{}", all.join(",")))
            }
            Request::MoreThreads => text("l"),
            Request::About(who) => {
                let about = target.describe(one(who, target)?);
                text(hex(&about.as_bytes()[..about.len().min(PACKET / 2)]))
            }
            Request::Alive(who) => one(who, target).and_then(|_| done()),
            Request::Select(Threads::Any) => done(),
            Request::Select(who) => {
                self.current = one(who, target)?;
                done()
            }
            Request::SelectToRun(Threads::Any | Threads::All) => {
                self.to_run = None;
                done()
            }
            Request::SelectToRun(who) => {
                self.to_run = Some(one(who, target)?);
                done()
            }
            Request::Description {
                name,
                offset,
                length,
            } => match name.as_str() {
                "target.xml" => part(target.description().as_bytes(), offset, length),
                _ => Err(Refusal::Nothing),
            },
            Request::Registers => {
                let mut all = String::new();
                for n in 0..GENERAL {
                    all += &register(target, hart, n)?;
                }
                text(all)
            }
            Request::Register(n) => text(register(target, hart, n)?),
            Request::SetRegister(n, bytes) => set_registers(target, hart, [n], &bytes),
            Request::SetRegisters(bytes) => set_registers(target, hart, 0..GENERAL, &bytes),
            Request::Read { addr, length } => {
                let most = usize::try_from(length)
                    .unwrap_or(usize::MAX)
                    .min(PACKET / 2);
                let mut bytes = vec![0; most];
                let read = target.peek(hart, addr, &mut bytes);
                if read == 0 && most > 0 {
                    Err(Refusal::Nothing)
                } else {
                    text(hex(&bytes[..read]))
                }
            }
            Request::Write { addr, data } => {
                // All of it, or nothing.
                let there = target.peek(hart, addr, &mut vec![0; data.len()]) == data.len();
                if there && target.poke(hart, addr, &data) == data.len() {
                    done()
                } else {
                    Err(Refusal::Nothing)
                }
            }
            Request::Point {
                kind,
                addr,
                length,
                add,
            } => self.point((kind, addr, length), add, target),
            Request::Actions => text("vCont;c;C;s;S;r"),
            Request::Monitor(command) => {
                let said = target.monitor(hart, &command);
                // `O` and two digits a byte.
                for piece in said.as_bytes().chunks(PACKET / 2 - 1) {
                    self.send(format!("O{}", hex(piece)).as_bytes());
                }
                done()
            }
            Request::Unknown
            | Request::Kill { .. }
            | Request::Detach
            | Request::Resume(_)
            | Request::Run(..) => text(""),
        }
    }

    /// Adds or removes a place to stop at; once more changes nothing.
    fn point(&mut self, placed: Placed, add: bool, target: &mut dyn Target) -> Answer {
        if self.points.contains(&placed) == add {
            return done();
        }
        let (kind, addr, len) = placed;
        let at = match kind {
            PointKind::Watch(kind) => Point::Watch { kind, addr, len },
            PointKind::Software | PointKind::Hardware => Point::Break { pc: addr },
        };
        let mut others = self.points.iter().filter(|p| **p != placed);
        // The machine has one breakpoint for all that the debugger has at an address.
        let shared = others.any(|(k, a, _)| {
            *a == addr && matches!(at, Point::Break { .. }) && !matches!(k, PointKind::Watch(_))
        });
        if !shared && !target.point(at, add) {
            return Err(Refusal::Impossible);
        }
        if add {
            self.points.insert(placed)
        } else {
            self.points.remove(&placed)
        };
        done()
    }

    fn resume(
        &mut self,
        actions: &[(Action, Threads)],
        target: &mut dyn Target,
    ) -> Result<(), Refusal> {
        for (_, who) in actions {
            match who {
                Threads::All | Threads::Any => {}
                _ => drop(one(*who, target)?),
            }
        }
        let mut steps = Vec::new();
        for hart in 0..target.harts() {
            let about = |who: &Threads| match who {
                Threads::One(t) => *t == hart as u64 + 1,
                _ => true,
            };
            if let Some((Action::Step(range), _)) = actions.iter().find(|(_, who)| about(who)) {
                steps.push((hart, range.clone()));
            }
        }
        self.go(&steps, target);
        Ok(())
    }

    fn run(
        &mut self,
        action: Action,
        at: Option<u64>,
        target: &mut dyn Target,
    ) -> Result<(), Refusal> {
        let hart = self.to_run.unwrap_or(self.current);
        if let Some(pc) = at {
            if !target.set_register(hart, GENERAL - 1, pc) {
                return Err(Refusal::Impossible);
            }
        }
        match action {
            Action::Step(range) => self.go(&[(hart, range)], target),
            Action::Continue => self.go(&[], target),
        }
        Ok(())
    }

    fn go(&mut self, steps: &[(usize, Range<u64>)], target: &mut dyn Target) {
        self.running = true;
        target.resume(steps);
    }
}

/// The hart of a thread that must be one.
fn one(who: Threads, target: &dyn Target) -> Result<usize, Refusal> {
    match who {
        Threads::One(t) => usize::try_from(t - 1)
            .ok()
            .filter(|h| *h < target.harts())
            .ok_or(Refusal::Nothing),
        Threads::Elsewhere => Err(Refusal::Nothing),
        Threads::All | Threads::Any => Err(Refusal::Malformed),
    }
}

/// A register in digits.
fn register(target: &mut dyn Target, hart: usize, n: u32) -> Result<String, Refusal> {
    let width = target.width(n).ok_or(Refusal::Nothing)?;
    let value = target.register(hart, n).ok_or(Refusal::Nothing)?;
    Ok(hex(value.to_le_bytes().get(..width).unwrap_or_default()))
}

/// Sets registers one after the other; if the bytes are not exactly theirs, none.
fn set_registers(
    target: &mut dyn Target,
    hart: usize,
    numbers: impl IntoIterator<Item = u32>,
    bytes: &[u8],
) -> Answer {
    let mut rest = bytes;
    let mut values = Vec::new();
    for n in numbers {
        let width = target.width(n).ok_or(Refusal::Nothing)?;
        let (own, others) = rest.split_at_checked(width).ok_or(Refusal::Malformed)?;
        let mut value = [0; 8];
        value
            .get_mut(..width)
            .ok_or(Refusal::Nothing)?
            .copy_from_slice(own);
        values.push((n, u64::from_le_bytes(value)));
        rest = others;
    }
    if !rest.is_empty() {
        return Err(Refusal::Malformed);
    }
    for (n, value) in values {
        if !target.set_register(hart, n, value) {
            return Err(Refusal::Impossible);
        }
    }
    done()
}

/// A part of a file, and whether it is the last one.
fn part(all: &[u8], offset: u64, length: u64) -> Answer {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = all.get(from..).ok_or(Refusal::Malformed)?;
    // Every byte may take two.
    let most = usize::try_from(length)
        .unwrap_or(usize::MAX)
        .min((PACKET - 1) / 2);
    let here = &rest[..rest.len().min(most)];
    let mut out = vec![if here.len() == rest.len() { b'l' } else { b'm' }];
    out.extend(escape(here));
    Ok(out)
}
