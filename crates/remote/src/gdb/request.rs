//! What packets ask for.

use super::frame::{unescape, unhex};
use super::WatchKind;
use std::ops::Range;

/// A packet that is known and whose operands cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

type Parsed<T> = Result<T, Malformed>;

/// The number of the one process.
pub const PROCESS: u64 = 1;

/// The threads that a packet is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Every one.
    All,
    /// Any one.
    Any,
    /// The one of this number, which is a hart's plus one.
    One(u64),
    /// Some of another process.
    Elsewhere,
}

/// What a thread is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run.
    Continue,
    /// Execute one instruction, and as many more as lie in a range.
    Step(Range<u64>),
}

/// The kind of a place to stop at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointKind {
    /// A breakpoint that the debugger calls software's.
    Software,
    /// One that it calls hardware's.
    Hardware,
    /// A watchpoint.
    Watch(WatchKind),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// What both sides can do; the features of the debugger.
    Supported(Vec<String>),
    /// Acknowledgements end.
    NoAcknowledgements,
    /// Whether the machine was there before the debugger.
    Attached,
    /// The reason of the last stop.
    Reason,
    /// The current thread.
    Current,
    /// The first part of the list of threads.
    Threads,
    /// The rest of the list of threads.
    MoreThreads,
    /// A description of a thread.
    About(Threads),
    /// Whether a thread is there.
    Alive(Threads),
    /// Later registers and memory are those of a thread.
    Select(Threads),
    /// Later `c` and `s` are about a thread.
    SelectToRun(Threads),
    /// A part of the target description.
    Description {
        /// The file.
        name: String,
        /// First byte.
        offset: u64,
        /// Greatest number of bytes.
        length: u64,
    },
    /// The general registers.
    Registers,
    /// Sets the general registers.
    SetRegisters(Vec<u8>),
    /// One register.
    Register(u32),
    /// Sets one register.
    SetRegister(u32, Vec<u8>),
    /// Memory.
    Read {
        /// First byte.
        addr: u64,
        /// Bytes.
        length: u64,
    },
    /// Sets memory.
    Write {
        /// First byte.
        addr: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Adds or removes a place to stop at.
    Point {
        /// What is there.
        kind: PointKind,
        /// Where.
        addr: u64,
        /// Bytes of the range, or of the instruction.
        length: u64,
        /// Whether it is added.
        add: bool,
    },
    /// Which actions there are.
    Actions,
    /// Runs: each thread does the first action that is about it.
    Resume(Vec<(Action, Threads)>),
    /// Runs the selected thread, from an address if there is one, and others.
    Run(Action, Option<u64>),
    /// A `monitor` command.
    Monitor(String),
    /// The debugger goes.
    Detach,
    /// The run is to end; whether that is answered.
    Kill {
        /// `vKill` is, `k` is not.
        answered: bool,
    },
    /// Nothing that is known here.
    Unknown,
}

/// Finds out what a packet's content asks for.
pub fn parse(packet: &[u8]) -> Parsed<Request> {
    let data = packet;
    // Only the data of `X` is no text.
    let Some((head, rest)) = data.split_first() else {
        return Ok(Request::Unknown);
    };
    if *head == b'X' {
        return write(rest, unescape);
    }
    let Ok(rest) = std::str::from_utf8(rest) else {
        return Err(Malformed);
    };
    let alone = |request| {
        if rest.is_empty() {
            Ok(request)
        } else {
            Err(Malformed)
        }
    };
    match head {
        b'?' => alone(Request::Reason),
        b'g' => alone(Request::Registers),
        b'G' => bytes(rest).map(Request::SetRegisters),
        b'p' => number(rest).map(Request::Register),
        b'P' => {
            let (n, value) = pair(rest, '=')?;
            Ok(Request::SetRegister(number(n)?, bytes(value)?))
        }
        b'm' => {
            let (addr, length) = pair(rest, ',')?;
            Ok(Request::Read {
                addr: number(addr)?,
                length: number(length)?,
            })
        }
        b'M' => write(rest.as_bytes(), unhex),
        b'Z' | b'z' => point(rest, *head == b'Z'),
        b'H' => match rest.split_at_checked(1) {
            Some(("g", t)) => threads(t).map(Request::Select),
            Some(("c", t)) => threads(t).map(Request::SelectToRun),
            _ => Err(Malformed),
        },
        b'T' => threads(rest).map(Request::Alive),
        b'c' | b's' => {
            let at = (!rest.is_empty()).then(|| number(rest)).transpose()?;
            Ok(Request::Run(action(*head), at))
        }
        b'C' | b'S' => {
            let (number_of_signal, at) = match rest.split_once(';') {
                Some((s, at)) => (s, Some(number(at)?)),
                None => (rest, None),
            };
            signal(number_of_signal)?;
            Ok(Request::Run(action(head.to_ascii_lowercase()), at))
        }
        b'D' => match rest.strip_prefix(';').map(number) {
            None => alone(Request::Detach),
            Some(Ok(PROCESS)) => Ok(Request::Detach),
            Some(_) => Err(Malformed),
        },
        // The protocol gives it no operand, and some debuggers send one.
        b'k' => Ok(Request::Kill { answered: false }),
        b'v' => extended(rest),
        b'q' => query(rest),
        b'Q' if rest == "StartNoAckMode" => Ok(Request::NoAcknowledgements),
        _ => Ok(Request::Unknown),
    }
}

fn action(letter: u8) -> Action {
    match letter {
        b's' => Action::Step(0..0),
        _ => Action::Continue,
    }
}

fn extended(rest: &str) -> Parsed<Request> {
    if rest == "Cont?" {
        return Ok(Request::Actions);
    }
    if let Some(process) = rest.strip_prefix("Kill;") {
        return match number(process)? {
            PROCESS => Ok(Request::Kill { answered: true }),
            _ => Err(Malformed),
        };
    }
    match rest.strip_prefix("Cont") {
        Some(all) if all.is_empty() || all.starts_with(';') => {
            let all = all.strip_prefix(';').ok_or(Malformed)?;
            let all: Parsed<Vec<_>> = all.split(';').map(one_action).collect();
            all.map(Request::Resume)
        }
        _ => Ok(Request::Unknown),
    }
}

fn one_action(text: &str) -> Parsed<(Action, Threads)> {
    let (what, who) = match text.split_once(':') {
        Some((what, who)) => (what, threads(who)?),
        None => (text, Threads::All),
    };
    let what = match what.split_at_checked(1).ok_or(Malformed)? {
        ("c", "") => Action::Continue,
        ("s", "") => action(b's'),
        ("C", s) => signal(s).map(|()| Action::Continue)?,
        ("S", s) => signal(s).map(|()| action(b's'))?,
        ("r", range) => {
            let (from, to) = pair(range, ',')?;
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(Malformed);
            }
            Action::Step(from..to)
        }
        // `t` is for debuggers that do not stop all threads.
        _ => return Err(Malformed),
    };
    // Which thread steps must be known.
    match (&what, who) {
        (Action::Step(_), Threads::Any) => Err(Malformed),
        _ => Ok((what, who)),
    }
}

fn query(rest: &str) -> Parsed<Request> {
    let (name, operands) = match rest.find([':', ',', ';']) {
        Some(i) => (&rest[..i], rest.get(i + 1..).unwrap_or("")),
        None => (rest, ""),
    };
    Ok(match name {
        "Supported" => Request::Supported(operands.split(';').map(String::from).collect()),
        "Attached" => Request::Attached,
        "C" if rest == name => Request::Current,
        "fThreadInfo" => Request::Threads,
        "sThreadInfo" => Request::MoreThreads,
        "ThreadExtraInfo" => Request::About(threads(operands)?),
        "Rcmd" => Request::Monitor(String::from_utf8_lossy(&bytes(operands)?).into_owned()),
        "Xfer" => match operands.strip_prefix("features:read:") {
            Some(place) => {
                let (name, range) = place.rsplit_once(':').ok_or(Malformed)?;
                let (offset, length) = pair(range, ',')?;
                Request::Description {
                    name: name.to_string(),
                    offset: number(offset)?,
                    length: number(length)?,
                }
            }
            None => Request::Unknown,
        },
        _ => Request::Unknown,
    })
}

fn point(rest: &str, add: bool) -> Parsed<Request> {
    let (kind, place) = pair(rest, ',')?;
    let (addr, length) = pair(place, ',')?;
    let (addr, length): (u64, u64) = (number(addr)?, number(length)?);
    let kind = match kind {
        "0" => PointKind::Software,
        "1" => PointKind::Hardware,
        "2" => PointKind::Watch(WatchKind::Write),
        "3" => PointKind::Watch(WatchKind::Read),
        "4" => PointKind::Watch(WatchKind::Access),
        _ => return Ok(Request::Unknown),
    };
    let fits = match kind {
        PointKind::Watch(_) => length > 0 && addr.checked_add(length - 1).is_some(),
        // Lengths of instructions.
        _ => matches!(length, 2 | 4),
    };
    if fits {
        Ok(Request::Point {
            kind,
            addr,
            length,
            add,
        })
    } else {
        Err(Malformed)
    }
}

/// `addr,length:data`.
fn write(rest: &[u8], decode: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Parsed<Request> {
    let colon = rest.iter().position(|b| *b == b':').ok_or(Malformed)?;
    let place = std::str::from_utf8(&rest[..colon]).map_err(|_| Malformed)?;
    let (addr, length) = pair(place, ',')?;
    let (addr, length): (u64, u64) = (number(addr)?, number(length)?);
    let data = decode(&rest[colon + 1..]).ok_or(Malformed)?;
    if data.len() as u64 == length {
        Ok(Request::Write { addr, data })
    } else {
        Err(Malformed)
    }
}

fn pair(text: &str, between: char) -> Parsed<(&str, &str)> {
    text.split_once(between).ok_or(Malformed)
}

fn bytes(digits: &str) -> Parsed<Vec<u8>> {
    unhex(digits.as_bytes()).ok_or(Malformed)
}

/// A number in hexadecimal digits.
fn number<T: TryFrom<u64>>(digits: &str) -> Parsed<T> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Malformed);
    }
    let n = u64::from_str_radix(digits, 16).map_err(|_| Malformed)?;
    T::try_from(n).map_err(|_| Malformed)
}

/// A signal's number, which no guest gets.
fn signal(digits: &str) -> Parsed<()> {
    number::<u8>(digits).map(drop)
}

/// A thread's number, or `-1` for all and `0` for any; `p` and a process's number may stand before it.
fn threads(text: &str) -> Parsed<Threads> {
    let one = |text: &str| match text {
        "-1" => Ok(Threads::All),
        _ => number(text).map(|n| {
            if n == 0 {
                Threads::Any
            } else {
                Threads::One(n)
            }
        }),
    };
    let Some(of_process) = text.strip_prefix('p') else {
        return one(text);
    };
    let (process, thread) = match of_process.split_once('.') {
        Some((p, t)) => (one(p)?, one(t)?),
        None => (one(of_process)?, Threads::All),
    };
    match (process, thread) {
        (Threads::All, Threads::All) => Ok(Threads::All),
        (Threads::All, _) => Err(Malformed),
        (Threads::One(PROCESS) | Threads::Any, _) => Ok(thread),
        _ => Ok(Threads::Elsewhere),
    }
}
