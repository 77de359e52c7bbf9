//! The table of small programs, `tests/litmus.toml`.

use nagori_crash::{
    At, Cut, Domain, FenceSet, FlushOp, GpfChoice, History, Mode, Model, Order, PointKind, SiteId,
    Step, StoreBuffer, StoreOrder, Undecided,
};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    test: Vec<Litmus>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Litmus {
    name: String,
    program: String,
    show: String,
    domain: Option<String>,
    mode: Option<Mode>,
    #[serde(default)]
    flush_waits: bool,
    #[serde(default)]
    store_buffer: StoreBuffer,
    both: Option<String>,
    rvwmo: Option<String>,
    commit: Option<String>,
}

const BASE: u64 = 0xc000_0000;

fn address(name: &str) -> u64 {
    let line = ["x", "y", "z"]
        .iter()
        .position(|l| name.starts_with(l))
        .unwrap();
    let word: u64 = if name.len() > 1 {
        name[1..].parse().unwrap()
    } else {
        0
    };
    BASE + line as u64 * 64 + word * 8
}

fn domain(name: &str) -> Domain {
    match name.split_once(':') {
        None if name == "none" => Domain::None,
        None if name == "adr" => Domain::Adr,
        None if name == "eadr" => Domain::Eadr,
        Some((kind, lines)) => Domain::Gpf {
            lines: lines.parse().unwrap(),
            choice: match kind {
                "gpf-address" => GpfChoice::Address,
                "gpf-any" => GpfChoice::Any,
                _ => panic!("{kind}"),
            },
        },
        _ => panic!("{name}"),
    }
}

fn set(text: &str) -> FenceSet {
    let bit = |c, set: FenceSet| if text.contains(c) { set.0 } else { 0 };
    FenceSet(
        bit('w', FenceSet::W)
            | bit('r', FenceSet::R)
            | bit('o', FenceSet::O)
            | bit('i', FenceSet::I),
    )
}

fn run(history: &mut History, instruction: &str) {
    let (hart, text) = match instruction.split_once(':') {
        Some((hart, text)) => (hart.parse().unwrap(), text),
        None => (0, instruction),
    };
    let at = At {
        hart,
        site: SiteId(0),
        time: 0,
    };
    let (op, operand) = text.split_once(' ').unwrap_or((text, ""));
    let value = |text: &str| -> (u64, [u8; 8]) {
        let (name, value) = text.split_once('=').unwrap();
        (address(name), value.parse::<u64>().unwrap().to_le_bytes())
    };
    let flush = |op, to_memory| Step::Flush {
        at,
        paddr: address(operand),
        op,
        to_memory,
    };
    let bytes;
    let mut line: nagori_crash::Bytes;
    let step = match op {
        "clean" => flush(FlushOp::Clean, true),
        "flush" => flush(FlushOp::Flush, true),
        "inval" => flush(FlushOp::Inval, true),
        "l1" => flush(FlushOp::L1, true),
        "l1-" => flush(FlushOp::L1, false),
        "flushall" => Step::FlushAll {
            at,
            to_memory: true,
        },
        "ld" => Step::Load {
            at,
            paddr: address(operand),
        },
        "wb" => Step::WriteBack {
            paddr: address(operand),
        },
        "fence" => {
            let (pred, succ) = operand.split_once(',').unwrap();
            Step::Fence {
                at,
                pred: set(pred),
                succ: set(succ),
            }
        }
        "reached" => {
            let (paddr, value) = value(operand);
            line = [0; 64];
            let offset = (paddr - nagori_crash::line_of(paddr)) as usize;
            line[offset..offset + 8].copy_from_slice(&value);
            Step::Reached {
                line: nagori_crash::line_of(paddr),
                bytes: &line,
            }
        }
        "dma" => {
            let (paddr, value) = value(operand);
            bytes = value;
            Step::DeviceWrite {
                paddr,
                bytes: &bytes,
            }
        }
        _ => {
            let (store, amo) = text.split_once('.').unwrap_or((text, ""));
            let order = StoreOrder {
                acquire: amo.contains("aq"),
                release: amo.contains("rl"),
                atomic: !amo.is_empty() && amo != "nt",
                combined: amo == "nt",
            };
            let (paddr, value) = value(store);
            bytes = value;
            Step::Store {
                at,
                paddr,
                bytes: &bytes,
                order,
            }
        }
    };
    history.step(&step);
}

/// Every content that the cut may leave, as a function from addresses to bytes.
pub fn contents(cut: &Cut) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for u in &cut.undecided {
        let count = u.candidates.len();
        all = all
            .into_iter()
            .flat_map(|c: Vec<usize>| {
                (0..count).map(move |i| c.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    let old = |u: &Undecided, c: usize| u.newest != c;
    all.retain(|c| {
        let count = cut
            .undecided
            .iter()
            .zip(c)
            .filter(|(u, &c)| old(u, c))
            .count();
        cut.max_old.is_none_or(|m| count <= m)
    });
    all
}

fn shown(cut: &Cut, choice: &[usize], show: &str) -> String {
    let word = |name: &str| {
        let paddr = address(name);
        let line = nagori_crash::line_of(paddr);
        let bytes = match cut.undecided.iter().position(|u| u.line == line) {
            Some(i) => cut.undecided[i].candidates[choice[i]].bytes,
            None => cut.durable.get(line).copied().unwrap_or([0; 64]),
        };
        let offset = (paddr - line) as usize;
        u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap()).to_string()
    };
    show.split(' ').map(word).collect()
}

#[test]
fn every_small_program_leaves_what_was_enumerated_by_hand() {
    let table: Table = toml::from_str(include_str!("../litmus.toml")).unwrap();
    assert!(table.test.len() >= 30);
    let mut wrong = Vec::new();
    for test in &table.test {
        for order in [Order::Rvwmo, Order::Commit] {
            let own = if order == Order::Rvwmo {
                &test.rvwmo
            } else {
                &test.commit
            };
            let right = test.both.as_ref().or(own.as_ref()).expect(&test.name);
            assert!(test.both.is_none() || own.is_none(), "{}", test.name);
            let right: BTreeSet<String> = right.split(' ').map(String::from).collect();
            let mut model = Model::new(domain(test.domain.as_deref().unwrap_or("adr")));
            model.order = order;
            model.mode = test.mode.unwrap_or_default();
            model.flush_waits = test.flush_waits;
            model.store_buffer = test.store_buffer;
            let mut history = History::new(model, Box::new(|_| [0; 64]));
            for instruction in test.program.split("; ") {
                run(&mut history, instruction);
            }
            let cut = history.cut(PointKind::Other);
            let ours: BTreeSet<String> = contents(&cut)
                .iter()
                .map(|c| shown(&cut, c, &test.show))
                .collect();
            if ours != right {
                wrong.push(format!(
                    "{} ({order:?}): {ours:?} instead of {right:?}",
                    test.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
