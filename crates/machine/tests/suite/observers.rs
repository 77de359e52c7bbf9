//! What a receiver of events is told while harts contend for lines.

use crate::common::random::op;
use crate::common::*;
use nagori_hart::world::{AccessKind, Event};
use nagori_isa::Op;
use nagori_machine::{EventSink, Machine, Stop, Watch, WatchKind, Why};

const HARTS: usize = 4;
const ROUNDS: i32 = 50;

/// The addresses of instructions and the accesses, by hart.
#[derive(Default)]
struct Record {
    pcs: [Vec<u64>; HARTS],
    accesses: [Vec<(u64, u64, AccessKind)>; HARTS],
}

impl EventSink for Record {
    fn happened(&mut self, event: &Event<'_>) {
        if let Event::Commit(c) = event {
            self.pcs[c.hart].push(c.pc);
            for a in c.accesses() {
                self.accesses[c.hart].push((c.pc, a.vaddr, a.kind));
            }
        }
    }
}

/// Every hart adds, loads and stores in the same lines; the way through the code does not depend on
/// what the others do. Ends in `wfi`.
fn contend() -> Vec<u32> {
    vec![
        op(Op::Auipc, 6, 0, 0, 0x1000),
        op(Op::Addi, 7, 0, 0, ROUNDS),
        op(Op::AmoaddD, 5, 6, 7, 0),
        op(Op::Ld, 5, 6, 0, 64),
        op(Op::Sd, 0, 6, 7, 64),
        op(Op::LrD, 5, 6, 0, 0),
        op(Op::Sd, 0, 6, 5, 128),
        op(Op::Ld, 8, 6, 0, 192),
        op(Op::Addi, 7, 7, 0, -1),
        op(Op::Bne, 0, 7, 0, -28),
        op(Op::Wfi, 0, 0, 0, 0),
        op(Op::Jal, 0, 0, 0, -4),
    ]
}

fn recorded(timed: bool) -> (Record, Vec<u64>) {
    let settings = format!("harts={HARTS}");
    let mut m = Machine::new(&describe("vc707", &[&settings])).unwrap();
    m.set_event_sink(Some(Box::<Record>::default()));
    m.set_timed(timed);
    put_words(m.ram(), 0, &contend());
    let base = m.config().memory.base;
    m.start_at(base, 0, 0);
    while !matches!(m.run(10_000, Some(100_000)), Stop::Idle(_)) {}
    let instret = (0..HARTS)
        .map(|h| m.hart(h).unwrap().state.instret)
        .collect();
    (*m.take_event_sink().unwrap(), instret)
}

#[test]
fn each_instruction_is_told_once_whoever_has_the_bus() {
    let (timed, instret) = recorded(true);
    let (functional, _) = recorded(false);
    for (h, &retired) in instret.iter().enumerate() {
        assert_eq!(timed.pcs[h].len() as u64, retired, "hart {h}");
        assert!(retired > 8 * ROUNDS as u64);
        assert!(timed.pcs[h] == functional.pcs[h], "hart {h}");
        assert!(timed.accesses[h] == functional.accesses[h], "hart {h}");
        // An atomic is two accesses.
        assert_eq!(timed.accesses[h].len(), 7 * ROUNDS as usize);
    }
}

#[test]
fn watchpoints_see_reservations_and_conditional_stores() {
    // lr.w, sc.w, sc.w (which fails), amoadd.w, cbo.zero, to one line each.
    let words = [
        op(Op::Auipc, 6, 0, 0, 0x1000),
        op(Op::Addi, 7, 6, 0, 64),
        op(Op::Addi, 8, 6, 0, 128),
        op(Op::LrW, 5, 6, 0, 0),
        op(Op::ScW, 5, 6, 7, 0),
        op(Op::ScW, 5, 6, 7, 0),
        op(Op::AmoaddW, 5, 7, 6, 0),
        op(Op::CboZero, 0, 8, 0, 0),
        op(Op::Wfi, 0, 0, 0, 0),
        op(Op::Jal, 0, 0, 0, -4),
    ];
    let at = |k: u64| move |base: u64| base + 4 * k;
    for timed in [false, true] {
        for harts in [1, HARTS] {
            // What is watched, and behind which instructions the harts stop.
            for (offset, kind, behind) in [
                (0u64, WatchKind::Read, vec![at(3)]),
                (0, WatchKind::Write, vec![at(4)]),
                (2, WatchKind::Access, vec![at(3), at(4)]),
                (4, WatchKind::Access, vec![]),
                (64, WatchKind::Read, vec![at(6)]),
                (66, WatchKind::Write, vec![at(6)]),
                (128 + 50, WatchKind::Write, vec![at(7)]),
                (128 + 50, WatchKind::Read, vec![]),
            ] {
                // Only the first hart is looked at: the others' sc may succeed or not.
                let settings = format!("harts={harts}");
                let mut m = build(&describe("vc707", &[&settings]), timed);
                load_words(&mut m, &words);
                let base = m.config().memory.base;
                for h in 1..harts {
                    // To the wfi.
                    m.set_pc(h, base + 32);
                }
                m.add_watch(Watch {
                    addr: base + 0x1000 + offset,
                    len: 1,
                    kind,
                });
                let mut stops = Vec::new();
                loop {
                    match m.run(10_000, Some(10_000)) {
                        Stop::Debug => {
                            let s = m.debug_stop().unwrap();
                            assert!(matches!(s.why, Why::Watch { .. }));
                            stops.push(s.pc - 4);
                            m.clear_steps();
                        }
                        Stop::Slice => {}
                        _ => break,
                    }
                }
                let want: Vec<u64> = behind.iter().map(|f| f(base)).collect();
                assert_eq!(
                    stops, want,
                    "timed {timed}, {harts} harts, {offset} {kind:?}"
                );
            }
        }
    }
}
