//! All that can be seen of a machine, for tests that compare runs.

use super::{outcome, Outcome};
use nagori_hart::{Csrs, HartStats};
use nagori_machine::{Machine, Stop};

/// All that can be seen of a hart.
#[derive(Debug, PartialEq)]
pub struct HartState {
    pc: u64,
    cycle: u64,
    instret: u64,
    x: Vec<u64>,
    f: Vec<u64>,
    csr: Csrs,
    stats: HartStats,
}

/// All that can be seen of a machine.
#[derive(Debug, PartialEq)]
pub struct Whole {
    pub outcome: Outcome,
    pub harts: Vec<HartState>,
    pub memory: Vec<u64>,
}

/// FNV-1a of what a part of memory holds.
fn hash(m: &Machine, at: u64, bytes: u64) -> u64 {
    let mut all = vec![0; bytes as usize];
    m.ram().read_bytes(at, &mut all).expect("in memory");
    all.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What can be seen of a machine that has stopped, with these parts of its memory: offsets and bytes.
pub fn whole(m: &mut Machine, stop: Stop, console: Vec<u8>, memory: &[(u64, u64)]) -> Whole {
    let harts = (0..m.config().harts as usize)
        .map(|i| {
            let h = m.hart(i).expect("a hart");
            HartState {
                pc: h.state.pc,
                cycle: h.state.cycle,
                instret: h.state.instret,
                x: (0..32).map(|k| h.reg(k)).collect(),
                f: (0..32).map(|k| h.freg(k)).collect(),
                csr: h.state.csr.clone(),
                stats: h.state.stats,
            }
        })
        .collect();
    let memory = memory.iter().map(|(at, n)| hash(m, *at, *n)).collect();
    Whole {
        outcome: outcome(m, stop, console),
        harts,
        memory,
    }
}

pub fn assert_same(a: &Whole, b: &Whole, name: &str) {
    assert_eq!(a.outcome, b.outcome, "{name}");
    for (i, (a, b)) in a.harts.iter().zip(&b.harts).enumerate() {
        assert_eq!(a, b, "{name}, hart {i}");
    }
    assert_eq!(a.memory, b.memory, "{name}: memory");
}

/// Where two differ: the lines of their descriptions that do, at most so many.
pub fn differences(a: &Whole, b: &Whole, most: usize) -> Vec<String> {
    let [a, b] = [a, b].map(|w| format!("{w:#?}"));
    let mut owner = String::new();
    let mut found = Vec::new();
    for (a, b) in a.lines().zip(b.lines()) {
        if a.ends_with(['{', '[', '(']) {
            owner = a.trim_end_matches(['{', '[', '(']).trim().to_string();
        }
        if a != b && found.len() < most {
            found.push(format!("{owner} {} | {}", a.trim(), b.trim()));
        }
    }
    if found.is_empty() && a != b {
        found.push("one has more than the other".into());
    }
    found
}
