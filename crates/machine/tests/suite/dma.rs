//! What transfers of devices cost on the bus.

use crate::common::random::op;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use nagori_memtime::Region;
use nagori_snapshot::{Bytes, Meta, Snapshot};

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});
const BOTH: [Engine; 2] = [Engine::Interpreter, EAGER];
const MAC: u64 = 0x1000_1000;
/// Where the frame is, and where it is received.
const FRAME: u64 = 0x8010_0000;
const RECEIVED: u64 = 0x8020_0000;
/// What the program reads meanwhile: lines of one set of L1D, in which the frames are not.
const DATA: u64 = 0x8040_0200;
/// A frame for everybody, without its check sequence.
const LENGTH: u64 = 1000;
const FCS: u64 = 4;
const LINES: u64 = LENGTH.div_ceil(64);

// Registers of the program, set by the host.
const AT: u8 = 5;
const MODE: u8 = 6;
const DESCRIPTORS: u8 = 7;
const SENDS: u8 = 8;
const RECEIVES: u8 = 9;
const FROM: u8 = 10;
const TO: u8 = 11;
const LEFT: u8 = 12;
const NEXT: u8 = 13;
const STEP: u8 = 14;
const TOUCHED: u8 = 15;

/// Touches a line of the frame and of where it is received, sends it in loopback, and reads lines while it is on the
/// wire.
fn program() -> Vec<u32> {
    vec![
        op(Op::Sd, 0, FROM, TOUCHED, 0),
        op(Op::Ld, 20, TO, 0, 0),
        op(Op::Sw, 0, DESCRIPTORS, FROM, 4),
        op(Op::Sw, 0, DESCRIPTORS, SENDS, 0),
        op(Op::Sw, 0, DESCRIPTORS, TO, 0x204),
        op(Op::Sw, 0, DESCRIPTORS, RECEIVES, 0x200),
        op(Op::Sw, 0, AT, MODE, 0),
        op(Op::Ld, 20, NEXT, 0, 0),
        op(Op::Add, NEXT, NEXT, STEP, 0),
        op(Op::Addi, LEFT, LEFT, 0, -1),
        op(Op::Bne, 0, LEFT, 0, -12),
        op(Op::Ld, 21, TO, 0, 0),
        op(Op::MarkStop, 0, 20, 0, 0),
        op(Op::Jal, 0, 0, 0, 0),
    ]
}

/// A machine about to run it. `sends`: whether there is a frame.
fn machine(sends: bool, touched: u64, engine: Engine) -> Machine {
    let mut m = build(&describe("soc", &[]), true);
    m.set_engine(engine).expect("an engine of this host");
    load_words(&mut m, &program());
    let mut frame = vec![0x5a; LENGTH as usize];
    frame[..6].fill(0xff);
    m.ram()
        .write_bytes(FRAME - 0x8000_0000, &frame)
        .expect("in memory");
    let owned = u64::from(sends) << 15;
    // Full duplex, loopback, check sequences, all frames, both directions.
    let values = [
        (AT, MAC),
        (MODE, 0x24a3),
        (DESCRIPTORS, MAC + 0x400),
        (SENDS, LENGTH << 16 | owned | 1 << 11),
        (RECEIVES, owned),
        (FROM, FRAME),
        (TO, RECEIVED),
        (LEFT, 400),
        (NEXT, DATA),
        (STEP, 0x1000),
        (TOUCHED, touched),
    ];
    let h = m.hart_mut(0).expect("a hart");
    for (r, v) in values {
        h.set_reg(r.into(), v);
    }
    m
}

fn proceed(m: &mut Machine, slice: u64) {
    loop {
        match m.run(slice, None) {
            Stop::Slice | Stop::Idle(_) => {}
            Stop::PowerOff(_) => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Reads and writes of lines.
fn requests(m: &Machine) -> [u64; 2] {
    let all = m.report().memory.regions;
    let dram = all[Region::Dram as usize].counters;
    [dram.reads, dram.writes]
}

#[test]
fn lines_of_frames_pass_the_bus() {
    let run = |sends| {
        let mut m = machine(sends, u64::MAX, EAGER);
        proceed(&mut m, u64::MAX);
        let networks = m.networks();
        let [(0, t)] = networks[..] else {
            panic!("{networks:?}");
        };
        let frames = u64::from(sends);
        assert_eq!((t.sent_frames, t.received_frames), (frames, frames));
        assert_eq!((t.sent_bytes, t.dropped_frames), (frames * LENGTH, 0));
        let words = [20, 21].map(|r| m.hart(0).expect("a hart").reg(r));
        (
            requests(&m),
            m.hart(0).expect("a hart").state.cycle,
            words[1],
        )
    };
    let (without, with) = (run(false), run(true));
    // The line that the program has stored to is written back, and the one that it had read is read again.
    let received = (LENGTH + FCS).div_ceil(64);
    assert_eq!(with.0[0] - without.0[0], LINES + 1);
    assert_eq!(with.0[1] - without.0[1], 1 + received);
    assert_eq!([without.2, with.2], [0, u64::MAX]);
    // They are in the way of the program's own requests, which take some 30 cycles each.
    let longer = with.1 - without.1;
    assert!((1..3000).contains(&longer), "{longer}");
}

#[test]
fn neither_engine_nor_slices_change_them() {
    let mut all = Vec::new();
    for engine in BOTH {
        for slice in [u64::MAX, 997, 40] {
            let mut m = machine(true, 1, engine);
            proceed(&mut m, slice);
            all.push((requests(&m), m.hart(0).expect("a hart").state.cycle));
        }
    }
    assert!(all.iter().all(|o| *o == all[0]), "{all:?}");
}

#[test]
fn a_snapshot_has_what_is_on_the_wire() {
    let mut m = machine(true, 1, EAGER);
    while requests(&m)[0] < 100 {
        m.run(200, None);
    }
    let mut bytes = Vec::new();
    nagori_snapshot::save(&m, &mut bytes, &Meta::new()).expect("a snapshot");
    let s = Snapshot::new(Bytes(bytes)).expect("a snapshot");
    let mut again: Machine = s.machine().expect("a machine");
    for m in [&mut m, &mut again] {
        proceed(m, 1000);
    }
    assert_eq!(m.report(), again.report());
    assert_eq!(requests(&m)[0], requests(&again)[0]);
}

#[test]
fn without_the_timing_model_they_cost_nothing() {
    let mut m = machine(true, 1, EAGER);
    m.set_timed(false);
    proceed(&mut m, u64::MAX);
    assert_eq!(requests(&m), [0, 0]);
}
