//! A machine for tests and fuzzing, and a debugger's reading of what is sent to it.

use super::frame::{Event, Framer};
use super::{Point, Target, GENERAL};
use std::ops::Range;

/// First address of a toy's memory.
pub const BASE: u64 = 0x8000_0000;
/// A register of one byte.
pub const SMALL: u32 = 4161;
/// Greatest number of places to stop at.
pub const MOST: usize = 8;

/// A machine that is only what a session sees of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toy {
    /// The general registers of each hart.
    pub registers: Vec<[u64; GENERAL as usize]>,
    /// Memory from [`BASE`] on.
    pub memory: Vec<u8>,
    /// Places to stop at.
    pub points: Vec<Point>,
    /// The steps of the last resumption.
    pub steps: Vec<(usize, Range<u64>)>,
    /// Number of resumptions.
    pub resumed: usize,
    /// The last monitor command, and its hart.
    pub said: Option<(usize, String)>,
}

impl Toy {
    /// A machine with a number of harts.
    pub fn new(harts: usize) -> Toy {
        Toy {
            registers: vec![[0; GENERAL as usize]; harts],
            memory: (0..=u8::MAX).cycle().take(4096).collect(),
            points: Vec::new(),
            steps: Vec::new(),
            resumed: 0,
            said: None,
        }
    }

    fn place(&self, addr: u64, len: usize) -> Option<Range<usize>> {
        let from = usize::try_from(addr.checked_sub(BASE)?).ok()?;
        let end = from.saturating_add(len).min(self.memory.len());
        (from < end).then_some(from..end)
    }
}

impl Target for Toy {
    fn harts(&self) -> usize {
        self.registers.len()
    }
    fn description(&mut self) -> String {
        "<target>#$}*</target>".into()
    }
    fn width(&self, register: u32) -> Option<usize> {
        match register {
            0..GENERAL => Some(8),
            SMALL => Some(1),
            _ => None,
        }
    }
    fn register(&mut self, hart: usize, register: u32) -> Option<u64> {
        match register {
            SMALL => Some(hart as u64),
            n => self.registers[hart].get(n as usize).copied(),
        }
    }
    fn set_register(&mut self, hart: usize, register: u32, value: u64) -> bool {
        let own = self.registers[hart].get_mut(register as usize);
        own.map(|r| *r = value).is_some()
    }
    fn peek(&self, _: usize, addr: u64, to: &mut [u8]) -> usize {
        let Some(at) = self.place(addr, to.len()) else {
            return 0;
        };
        to[..at.len()].copy_from_slice(&self.memory[at.clone()]);
        at.len()
    }
    fn poke(&mut self, _: usize, addr: u64, from: &[u8]) -> usize {
        let Some(at) = self.place(addr, from.len()) else {
            return 0;
        };
        self.memory[at.clone()].copy_from_slice(&from[..at.len()]);
        at.len()
    }
    fn point(&mut self, at: Point, add: bool) -> bool {
        match self.points.iter().position(|p| *p == at) {
            // The session asks for changes only.
            Some(_) if add => unreachable!("{at:?} is there"),
            Some(i) => drop(self.points.remove(i)),
            None if add && self.points.len() < MOST => self.points.push(at),
            None => return false,
        }
        true
    }
    fn resume(&mut self, steps: &[(usize, Range<u64>)]) {
        assert!(steps.iter().all(|(h, _)| *h < self.registers.len()));
        self.steps = steps.to_vec();
        self.resumed += 1;
    }
    fn describe(&self, hart: usize) -> String {
        format!("hart {hart}")
    }
    fn monitor(&mut self, hart: usize, command: &str) -> String {
        self.said = Some((hart, command.to_string()));
        format!("{command}\n")
    }
}

/// The packets of a session's output; acknowledgements are left out. `None` if there is anything else.
pub fn packets(output: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut framer = Framer::default();
    let mut all = Vec::new();
    let mut within = false;
    for &b in output {
        match framer.take(b) {
            Some(Event::Packet(p)) => {
                within = false;
                all.push(p);
            }
            Some(Event::Again) if !within => {}
            Some(_) => return None,
            None if within || b == b'$' => within = true,
            None if b == b'+' => {}
            None => return None,
        }
    }
    (!within).then_some(all)
}
