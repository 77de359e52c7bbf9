//! Tests of the front end's predictions and its clock.

use super::*;
use crate::hart::Hart;
use crate::predict::waits_for_half;
use crate::rocket;

fn predictor() -> Predictor {
    Predictor::new(rocket::predictor())
}

/// A branch of 32 bits at a pc, whose packet has seen an empty history, with nothing that waits; packet and time by the
/// pc.
fn site(pc: u64) -> Site {
    Site {
        last: pc + 2,
        behind: pc + 4,
        seen: 0,
        within: false,
        bit: None,
        blind: false,
        front: pc >> 2,
        before: 1,
        now: pc >> 2,
        waiting: 0,
    }
}

#[test]
fn a_loop_is_learnt_and_its_end_missed() {
    let mut p = predictor();
    for _ in 0..20 {
        branch(&mut p, 0x100, true);
    }
    assert_eq!(branch(&mut p, 0x100, true), Outcome::Right);
    assert_eq!(branch(&mut p, 0x100, false), Outcome::Wrong(Led::To(0x80)));
}

/// A branch to 0x80 in a packet that is not the first of its block.
fn branch(p: &mut Predictor, pc: u64, taken: bool) -> Outcome {
    let seen = p.history;
    p.branch(&Site { seen, ..site(pc) }, 0x80, taken)
}

/// Branches of 16 bits in both halves of the packet at 0x100, none of which jumps to it.
fn pair(p: &mut Predictor, taken: [bool; 2]) -> [Option<Outcome>; 2] {
    let first = Site {
        last: 0x100,
        behind: 0x102,
        seen: p.history,
        ..site(0x100)
    };
    let one = p.branch(&first, 0x80, taken[0]);
    if taken[0] {
        return [Some(one), None];
    }
    let jumped = one != Outcome::Right;
    let second = Site {
        last: 0x102,
        behind: 0x104,
        seen: if jumped { p.near } else { p.sees(0x102, 0x102) },
        within: !jumped,
        bit: (!jumped).then_some(p.passed & BIT != 0),
        blind: jumped,
        ..first
    };
    [Some(one), Some(p.branch(&second, 0x40, taken[1]))]
}

#[test]
fn two_branches_of_a_packet_have_one_bit_and_move_the_history_once() {
    let right = Some(Outcome::Right);
    let mut p = predictor();
    p.history = 0b1010;
    assert_eq!(pair(&mut p, [false, false]), [right, right]);
    assert_eq!((p.near, p.history), (0b1010, 0b101), "once");
    p.history = 0b1010;
    // The second one is taken, and gets the entry.
    let wrong = Some(Outcome::Wrong(Led::To(0x104)));
    assert_eq!(pair(&mut p, [false, true]), [right, wrong]);
    assert_eq!((p.near, p.history), (0b1000_0101, 0b1000_0101));
    p.history = 0b1010;
    // So the bit is its own, though the first branch reads it, too.
    assert_eq!(pair(&mut p, [false, true]), [right, right]);
    assert_eq!((p.near, p.history), (0b1010, 0b1000_0101));
    p.history = 0b1010;
    let led = Some(Outcome::Wrong(Led::To(0x40)));
    assert_eq!(pair(&mut p, [true, false]), [led, None]);
    p.history = 0b1010;
    // Now the first one has the entry. It is predicted wrong, and the second one found in a packet of its own.
    let led = Some(Outcome::Wrong(Led::To(0x80)));
    assert_eq!(pair(&mut p, [false, false]), [led, right]);
}

#[test]
fn the_packet_behind_that_of_a_branch_is_known_in_any_block() {
    let mut p = predictor();
    let state = |p: &mut Predictor, landed| {
        (p.near, p.history, p.passed, p.landed) = (1, 2, 3 << SEEN_SHIFT, landed)
    };
    state(&mut p, 0);
    // In a block that begins with a first half: its own packet, and the others.
    assert_eq!([0x100, 0x104, 0x108].map(|at| p.sees(0x100, at)), [1, 2, 2]);
    // With a second half that nothing has jumped to.
    assert_eq!([0x102, 0x104, 0x108].map(|at| p.sees(0x102, at)), [3, 1, 2]);
    state(&mut p, 1);
    assert_eq!([0x102, 0x104, 0x108].map(|at| p.sees(0x102, at)), [1, 2, 2]);
    // Cut blocks hand on what they would have known.
    for (landed, begin, to, near, passed) in [
        (0, 0x100, 0x102, 2, 1),
        (0, 0x100, 0x104, 2, 3),
        (0, 0x100, 0x106, 2, 2),
        (0, 0x102, 0x104, 1, 3),
        (0, 0x102, 0x106, 2, 1),
        (0, 0x102, 0x108, 2, 3),
        (1, 0x102, 0x104, 2, 3),
        (1, 0x102, 0x106, 2, 2),
    ] {
        state(&mut p, landed);
        p.falls_through(begin, to);
        assert_eq!(
            (p.near, p.passed >> SEEN_SHIFT),
            (near, passed),
            "{landed} {begin:#x} {to:#x}"
        );
        assert_eq!(p.landed != 0, landed != 0 && to & 2 == 0);
    }
}

#[test]
fn the_index_is_hashed_from_packet_and_history() {
    let h = Hash::new(rocket::predictor());
    assert_eq!(h.steps(), (0xdd, 5, 7, 6));
    for (pc, index) in [
        (0, 0),
        (3, 0),
        (4, 1),
        (0x7fc, 511),
        (0x800, 1),
        (0x1804, 2),
        (0x2000, 0),
    ] {
        assert_eq!(h.of_pc(pc), index, "{pc:#x}");
    }
    assert_eq!(h.of_pc(0x1804), h.of_pc(0x1000) ^ h.of_pc(0x804));
    // 0xdd * 0x80 = 0x6e80: bits 7 to 5 are 4; the newest outcome alone decides the highest bit.
    for (history, index) in [(0, 0), (0x80, 4 << 6), (1, 6 << 6), (0xff, 1 << 6)] {
        assert_eq!(h.of_history(history), index, "{history:#x}");
    }
    assert_eq!(h.advance(0b1000_0001, true), 0b1100_0000);
    assert_eq!(h.advance(0b1000_0001, false), 0b0100_0000);
}

#[test]
fn the_packet_behind_a_branch_does_not_see_it() {
    let mut p = predictor();
    p.history = 0b1010;
    p.near = p.history;
    // Not taken and predicted so: a packet right behind sees the history of before.
    assert_eq!(branch(&mut p, 0x100, false), Outcome::Right);
    assert_eq!((p.near, p.history), (0b1010, 0b101));
    let next = Site {
        seen: p.near,
        ..site(0x104)
    };
    assert_eq!(p.branch(&next, 0x80, true), Outcome::Wrong(Led::To(0x108)));
    // Behind a misprediction all packets see the same, and what was not seen is lost.
    assert_eq!((p.near, p.history), (0b1000_0101, 0b1000_0101));
    // A jump gives it time.
    branch(&mut p, 0x200, false);
    p.jump(&site(0x208), 0x400, false);
    assert_eq!(p.near, p.history);
}

#[test]
fn jumps_are_found_again_until_their_entries_are_replaced() {
    let mut p = predictor();
    for outcome in [Outcome::Late, Outcome::Right] {
        // The tree has room for four in each of its quarters.
        for i in 0..16 {
            assert_eq!(p.jump(&site(0x1000 + i * 4), 0x40, false), outcome);
        }
    }
    for i in 0..28 {
        p.jump(&site(0x9000 + i * 4), 0, false);
    }
    assert_eq!(p.jump(&site(0x1000), 0x40, false), Outcome::Late);
}

#[test]
fn a_packet_has_one_entry() {
    let mut p = predictor();
    let half = |pc: u64| Site {
        last: pc,
        behind: pc + 2,
        ..site(pc)
    };
    assert_eq!(p.jump(&half(0x100), 0x40, false), Outcome::Late);
    assert_eq!(
        p.jump(&half(0x102), 0x80, false),
        Outcome::Late,
        "the other half"
    );
    assert_eq!(
        p.jump(&half(0x102), 0x80, false),
        Outcome::Late,
        "has no entry"
    );
    assert_eq!(p.jump(&half(0x100), 0x40, false), Outcome::Right);
    // A wrong prediction takes the entry over.
    assert_eq!(
        p.indirect(&half(0x102), 0x80, false),
        Outcome::Wrong(Led::Nowhere)
    );
    assert_eq!(p.indirect(&half(0x102), 0x80, false), Outcome::Right);
    assert_eq!(p.jump(&half(0x100), 0x40, false), Outcome::Late);
    // A second half that was jumped to is not found.
    let blind = Site {
        blind: true,
        ..half(0x102)
    };
    assert_eq!(p.jump(&blind, 0x80, false), Outcome::Late);
}

#[test]
fn the_decoder_makes_no_entry_while_packets_wait() {
    for (waiting, then) in [(0, Outcome::Right), (1, Outcome::Right), (2, Outcome::Late)] {
        let mut p = predictor();
        let s = Site {
            waiting,
            ..site(0x100)
        };
        assert_eq!(p.jump(&s, 0x40, false), Outcome::Late);
        assert_eq!(p.jump(&s, 0x40, false), then, "{waiting} wait");
    }
}

/// Calls with some packets between them, and a return far behind.
fn call(p: &mut Predictor, pc: u64) {
    p.jump(&site(pc), 0x40, true);
}

#[test]
fn returns_nest_six_deep() {
    let mut p = predictor();
    let ret = site(0x8000);
    for i in 0..7 {
        call(&mut p, 0x2000 + i * 8);
    }
    assert_eq!(
        p.ret(&ret, 0x2034, 1),
        Outcome::Late,
        "the decoder finds it"
    );
    for i in (1..6).rev() {
        assert_eq!(p.ret(&ret, 0x2004 + i * 8, 1), Outcome::Right);
    }
    // The stack is empty: the target of the entry, which is where the first return went to.
    assert_eq!(p.ret(&ret, 0x2034, 1), Outcome::Right);
    assert_eq!(p.ret(&ret, 0x2004, 1), Outcome::Wrong(Led::To(0x2034)));
    assert_eq!(p.ret(&ret, 0x2004, 1), Outcome::Right);
}

#[test]
fn a_return_in_the_packet_behind_its_call_comes_too_early() {
    for (packets, outcome) in [(1, Outcome::Wrong(Led::To(0x9999))), (2, Outcome::Right)] {
        let mut p = predictor();
        let ret = Site {
            front: 0x2000 / 4 + packets,
            ..site(0x8000)
        };
        p.btb.enter(None, ret.last, 0x9999);
        call(&mut p, 0x2000);
        assert_eq!(p.ret(&ret, 0x2004, 1), outcome, "{packets} packets behind");
    }
}

fn hart(cycle: u64, front: u64) -> Hart {
    let mut h = Hart::new(0, rocket::hart()).expect("configuration");
    h.state.cycle = cycle;
    h.state.predictor.front = front;
    h
}

#[test]
fn packets_that_wait_hide_a_bubble() {
    // The packet is there at 100 less those that wait; the queue holds 3 of them.
    for (ahead, wait, front) in [(0, 1, 101), (1, 0, 100), (3, 0, 98), (50, 0, 98)] {
        let mut h = hart(100, 0);
        let s = Site {
            front: 100 - ahead,
            before: 0,
            now: 100,
            ..site(0)
        };
        h.predicted(Outcome::Late, &s, true);
        assert_eq!(
            (h.state.cycle - 100, h.state.predictor.front),
            (wait, front),
            "{ahead} ahead"
        );
    }
    let mut h = hart(100, 0);
    let s = Site {
        front: 90,
        before: 2,
        now: 100,
        ..site(0)
    };
    h.predicted(Outcome::Wrong(Led::Nowhere), &s, true);
    assert_eq!(
        (h.state.cycle, h.state.predictor.front),
        (103, 101),
        "fetched anew"
    );
}

#[test]
fn a_second_half_is_a_packet_of_its_own() {
    // Cycles of the first instruction, where it is in two packets: by the length of the jump and
    // the packets that wait.
    for (len, ahead, cycles) in [(2, 0, 1), (2, 1, 0), (4, 0, 1), (4, 1, 1), (4, 3, 1)] {
        let mut h = hart(100, 100 - ahead);
        h.state.predictor.lands(0x102, len);
        h.await_packet();
        assert_eq!(h.state.cycle - 100, cycles, "{len} bytes, {ahead} ahead");
    }
    let mut h = hart(100, 100);
    h.state.predictor.lands(0x104, 4);
    assert_eq!(
        (h.state.predictor.front, h.state.predictor.landed),
        (100, 0),
        "a first half"
    );
    h.state.predictor.lands(0x102, 4);
    h.state.predictor.falls_through(0x102, 0x106);
    h.await_packet();
    assert_eq!(h.state.cycle, 101, "only the front end is late");
}

#[test]
fn the_queue_hides_part_of_a_miss() {
    let t = rocket::timing();
    for (ahead, hidden) in [(0, 0), (5, 5), (8, 8), (30, 8)] {
        let mut h = hart(100, 98 - ahead);
        h.state.predictor.misses(100, 2, &t);
        assert_eq!(h.state.predictor.hidden(&t), hidden as u32);
        h.state.predictor.arrives(140, 2);
        assert_eq!(
            (h.state.predictor.front, h.state.predictor.hidden(&t)),
            (138, 0)
        );
    }
    // A jump that waited for the decoder and then misses pays only for the miss.
    let mut h = hart(100, 0);
    let s = Site {
        front: 100,
        before: 0,
        now: 100,
        ..site(0)
    };
    h.predicted(Outcome::Late, &s, true);
    h.state.predictor.misses(101, 0, &t);
    assert_eq!(h.state.predictor.hidden(&t), 1);
}

#[test]
fn saved_states_are_checked() {
    let p = predictor();
    assert!(p.fits(&p, 0));
    let changed = |f: fn(&mut Predictor)| {
        let mut q = p.clone();
        f(&mut q);
        q.fits(&p, 100)
    };
    assert!(changed(|q| q.front = 102));
    assert!(!changed(|q| q.front = 103), "a packet far in the future");
    // The block that is about to begin waits two cycles for its half.
    assert!(changed(|q| (q.front, q.landed) = (104, waits_for_half(2))));
    assert!(!changed(|q| (q.front, q.landed) = (105, waits_for_half(2))));
    assert!(!changed(|q| q.landed = 2));
    assert!(!changed(|q| q.near = 256));
    assert!(!changed(|q| q.passed = 256 << SEEN_SHIFT));
    assert!(!changed(|q| q.hash.hashed = 4));
    assert!(!changed(|q| q.hidden = Some(1 << 16)));
}

#[test]
fn where_nothing_is_behind_an_instruction_an_entry_is_given_up() {
    let mut h = hart(100, 100);
    let p = &mut h.state.predictor;
    for last in [0x100, 0x200, 0x300] {
        p.btb.enter(None, last, 0x40);
    }
    let found = |p: &mut Predictor| [0x100, 0x200, 0x300].map(|last| p.btb.find(last).is_some());
    // The entry of its packet is given up.
    p.nothing_behind(0x202);
    assert_eq!(found(p), [true, false, true]);
    // The first entry is given up, since there is none of its packet.
    p.nothing_behind(0x400);
    assert_eq!(found(p), [false, false, true]);
}

#[test]
fn a_jump_that_the_decoder_finds_has_two_entries_if_its_target_misses() {
    let entries = |p: &Predictor| p.btb.entries.iter().filter(|e| e.last == 0x102).count();
    for (target, count) in [(0x140, 2), (0x180, 1)] {
        let mut p = predictor();
        assert_eq!(p.jump(&site(0x100), 0x140, false), Outcome::Late);
        assert_eq!(entries(&p), 1);
        p.misses(100, 0, &rocket::timing());
        assert!(p.has_missed());
        p.nothing_at(target);
        p.arrives(120, 0);
        assert_eq!(entries(&p), count);
        // Whatever misses later has another reason.
        p.nothing_at(0x140);
        assert_eq!(entries(&p), count);
    }
    // Both are found by its address then, and are lost.
    let mut p = predictor();
    p.jump(&site(0x100), 0x140, false);
    p.misses(100, 0, &rocket::timing());
    p.nothing_at(0x140);
    p.arrives(120, 0);
    assert_eq!(p.jump(&site(0x100), 0x140, false), Outcome::Late);
    assert_eq!(p.jump(&site(0x100), 0x140, false), Outcome::Right);
}

#[test]
fn what_nothing_needs_has_been_asked_for_before() {
    let t = rocket::timing();
    let mut h = hart(100, 100);
    h.state.predictor.misses(100, 2, &t);
    let (line, void) = (0, false);
    h.state.predictor.astray = Some(Astray { line, void });
    assert_eq!(h.state.predictor.hidden(&t), t.mispredict + 1);
    h.state.predictor.gives_up();
    assert!(h.state.predictor.astray.is_none());
}
