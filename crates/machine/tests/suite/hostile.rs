//! Malicious guests on whole machines: whatever they do to devices, page tables and queues, the
//! host neither panics nor hangs, and time advances.
//!
//! `NAGORI_HOSTILE` sets the number of machines of each test (default 150).

use crate::common::random::*;
use crate::common::*;
use nagori_config::map;
use nagori_isa::{Op, OPS};
use nagori_machine::{Machine, Stop};
use nagori_platform::control;

/// No block of instructions is longer.
const BLOCK: u64 = 64;
/// Instructions of a machine's life.
const LIFE: u64 = 40_000;

fn count() -> u64 {
    env("NAGORI_HOSTILE", 150)
}

/// Lets a machine live for about as many instructions, through its restarts.
fn live(m: &mut Machine, rng: &mut Rng, instructions: u64) {
    let end = m.steps() + instructions;
    let mut calls = 0;
    // Harts that trap for ever retire nothing, but their time passes.
    let start = m.now();
    while m.steps() < end && m.now().saturating_sub(start).0 < 20_000 * 8 * instructions {
        calls += 1;
        assert!(calls < 10_000, "nothing moves on");
        let before = (m.now(), m.steps());
        // A bound on cycles alone is a rough one: a single hart runs on to the next grid line.
        let limit = before.1 + 1 + rng.below(5000);
        match m.run(1 + rng.below(5000), Some(limit)) {
            // A finished guest that is run on is no reason to panic, either.
            Stop::PowerOff(_) => {}
            Stop::Reset => {
                m.reset();
                m.start_at(CODE, 1, 2);
            }
            Stop::Idle(t) if t.0 > before.0 .0.saturating_add(1 << 40) => return,
            Stop::EndOfTime => return,
            Stop::Reached => unreachable!("no point is set"),
            Stop::Idle(_) | Stop::Slice | Stop::Instructions | Stop::Snapshot(_) | Stop::Debug => {}
        }
        assert!(m.now() >= before.0, "time ran backwards");
        // Blocks of instructions are finished.
        assert!(m.steps() < limit + BLOCK, "the limit was not kept");
        if rng.one_in(8) {
            m.console_input(&rng.bits().to_le_bytes());
        }
        if rng.one_in(4) {
            m.console_output();
        }
        if rng.one_in(64) {
            m.reset_stats();
        }
        if rng.one_in(16) {
            let report = m.report();
            assert!(report
                .harts
                .iter()
                .all(|h| h.events.idle_cycles <= h.cycles));
        }
    }
}

#[test]
fn random_words_with_device_addresses_in_registers() {
    for seed in 0..count() {
        let mut rng = Rng::new(seed);
        let mut word = |rng: &mut Rng| match rng.below(8) {
            0 => rng.bits() as u32,
            _ => {
                let row = &OPS[rng.below(OPS.len() as u64) as usize];
                row.match_ | rng.bits() as u32 & !row.mask
            }
        };
        let mut m = machine(&mut rng, &mut word);
        live(&mut m, &mut rng, LIFE);
    }
}

#[test]
fn loads_stores_and_atomics_all_over_the_devices() {
    const KINDS: [Op; 8] = [
        Op::Lb,
        Op::Lh,
        Op::Lw,
        Op::Ld,
        Op::Lbu,
        Op::Lwu,
        Op::Lhu,
        Op::Flw,
    ];
    const STORES: [Op; 4] = [Op::Sb, Op::Sh, Op::Sw, Op::Sd];
    for seed in 0..count() {
        let mut rng = Rng::new(!seed);
        // t0 to s1 and a0 to t6 hold addresses and values.
        let mut word = |rng: &mut Rng| {
            let r = |rng: &mut Rng| 9 + rng.below(22) as u8;
            let (a, b, c) = (r(rng), r(rng), r(rng));
            let offset = rng.below(64) as i32 * 4 - 16;
            match rng.below(16) {
                0..=5 => op(rng.pick(&STORES), 0, a, b, offset),
                6..=10 => op(rng.pick(&KINDS), c, a, 0, offset),
                11 => op(Op::AmoaddW, c, a, b, 0),
                12 => op(Op::Addi, a, a, 0, rng.below(512) as i32 - 256),
                13 => op(rng.pick(&[Op::Xor, Op::Add, Op::And, Op::Sll]), a, b, c, 0),
                14 => op(Op::Addi, c, 0, 0, rng.below(128) as i32),
                _ if rng.one_in(16) => op(Op::Wfi, 0, 0, 0, 0),
                _ => op(rng.pick(&[Op::LrW, Op::LrD]), c, a, 0, 0),
            }
        };
        let mut m = machine(&mut rng, &mut word);
        live(&mut m, &mut rng, LIFE);
    }
}

/// Writes to the device's registers, in a plausible order or in any,
/// and where the driver's ring is.
fn virtio_script(rng: &mut Rng) -> (Vec<(u64, u32)>, u64) {
    const STATUS: u64 = 0x70;
    let mut script = vec![(STATUS, 0), (STATUS, 1), (STATUS, 3)];
    script.extend([(0x24, 1), (0x20, 1), (STATUS, 11), (0x30, 0)]);
    let size = rng.pick(&[1u32, 2, 4, 8, 16, 64, 3, 0, 1 << 16]);
    script.push((0x38, size));
    let mut ring = 0;
    for low in [0x80u64, 0x90, 0xa0] {
        let at = match rng.below(16) {
            0 => value(rng),
            1 => BASE + MEMORY - rng.below(64) * 2,
            _ => BASE + 0x20_0000 + rng.below(0x1000) * 16,
        };
        script.extend([(low, at as u32), (low + 4, (at >> 32) as u32)]);
        if low == 0x90 {
            ring = at;
        }
    }
    script.extend([(0x44, 1), (STATUS, 15), (0x50, 0)]);
    for _ in 0..rng.below(12).saturating_sub(4) {
        let register = rng.pick(&[
            0x50, 0x50, 0x44, 0x64, STATUS, 0x38, 0x30, 0xfc, 0x100, 0x14,
        ]);
        let at = rng.below(script.len() as u64 + 1) as usize;
        script.insert(at.max(3), (register, value(rng) as u32));
    }
    (script, ring)
}

#[test]
fn virtio_queues_of_any_shape() {
    let mut answered = 0;
    for seed in 0..count() * 2 {
        let mut rng = Rng::new(seed ^ 0x5555_0000);
        let (script, ring) = virtio_script(&mut rng);
        // a0: device, a1: pairs of offset and value, up to offset -1; stores one after the other.
        let program = [
            op(Op::Ld, 12, 11, 0, 0),
            op(Op::Ld, 13, 11, 0, 8),
            op(Op::Addi, 11, 11, 0, 16),
            op(Op::Blt, 0, 12, 0, 16),
            op(Op::Add, 14, 12, 10, 0),
            op(Op::Sw, 0, 14, 13, 0),
            op(Op::Jal, 0, 0, 0, -24),
            op(Op::Jal, 0, 0, 0, 0),
        ];
        let mut m = build(&describe("small", &[]), rng.one_in(2));
        load_words(&mut m, &program);
        let list = 0x10_0000;
        let mut words: Vec<u64> = script.iter().flat_map(|(o, v)| [*o, *v as u64]).collect();
        words.push(u64::MAX);
        for (k, w) in words.iter().enumerate() {
            m.ram().write_u64(list + 8 * k as u64, *w).expect("memory");
        }
        // Descriptors, rings, indices: some sense, some nonsense.
        for at in (0x20_0000u64..0x22_0000).step_by(16) {
            let word = match rng.below(4) {
                0 => rng.bits(),
                1 => 0,
                _ => BASE + 0x40_0000 + rng.below(1 << 20),
            };
            let length = rng.pick(&[0u64, 1, 16, 4096, 0xffff_ffff]);
            let flags = rng.below(8) | rng.below(4) << 16;
            m.ram().write_u64(at, word).expect("memory");
            m.ram()
                .write_u64(at + 8, length | flags << 32)
                .expect("memory");
        }
        // Mostly an index that is not too far ahead, and heads that may exist.
        if let (true, Some(at)) = (rng.below(4) > 0, ring.checked_sub(BASE)) {
            let word = rng.below(9) << 16 | rng.below(4) << 32 | rng.below(9) << 48;
            // A ring outside memory stays as it is.
            let _ = m.ram().write_u64(at & !1, word);
        }
        let h = m.hart_mut(0).expect("a hart");
        h.set_reg(10, map::ENTROPY);
        h.set_reg(11, BASE + list);
        live(&mut m, &mut rng, 5000);
        // How far the device is in its stream of random words.
        let state = serde_json::to_value(m.bus().save()).expect("a state");
        let entropy = state["devices"]
            .as_array()
            .and_then(|d| d.iter().find(|d| d["kind"] == "virtio-mmio"))
            .expect("the entropy source");
        answered += u64::from(entropy["data"]["backend"]["data"]["words"] != 0);
    }
    // The scripts are not so wild that nothing ever works.
    assert!(answered * 20 > count(), "{answered} of {}", count() * 2);
}

#[test]
fn control_registers_take_any_value_or_refuse_it() {
    for seed in 0..count() {
        let mut rng = Rng::new(seed << 32);
        let timed = rng.one_in(2);
        let mut m = build(&describe("small", &[]), timed);
        // Settings are written again and again between loads and stores to DRAM and NVMM.
        let program = [
            op(Op::Ld, 12, 11, 0, 0),
            op(Op::Ld, 13, 11, 0, 8),
            op(Op::Addi, 11, 11, 0, 16),
            op(Op::Add, 14, 12, 10, 0),
            op(Op::Sd, 0, 14, 13, 0),
            op(Op::Ld, 14, 14, 0, 0),
            op(Op::Ld, 14, 20, 0, 0),
            op(Op::Sd, 0, 21, 14, 0),
            op(Op::Ld, 14, 22, 0, 0),
            op(Op::Add, 20, 20, 23, 0),
            op(Op::Add, 21, 21, 23, 0),
            op(Op::Add, 22, 22, 23, 0),
            op(Op::Bne, 0, 11, 24, -48),
            op(Op::Jal, 0, 0, 0, 0),
        ];
        load_words(&mut m, &program);
        const SETTINGS: u64 = 300;
        let list = 0x10_0000;
        for k in 0..SETTINGS {
            let offset = match rng.below(8) {
                0 => rng.below(control::SIZE / 8) * 8,
                1 => 0x200,
                _ => 0x100 + rng.below(0x1c) * 8,
            };
            let value = match rng.below(5) {
                0 => rng.bits(),
                1 => BASE + rng.below(9) * (32 << 20),
                2 => rng.below(4096),
                _ => rng.below(8),
            };
            for (at, v) in [(0, offset), (8, value)] {
                m.ram().write_u64(list + 16 * k + at, v).expect("memory");
            }
        }
        m.memory_written(BASE, 0x20_0000);
        let h = m.hart_mut(0).expect("a hart");
        for (r, v) in [
            (10, map::CONTROL),
            (11, BASE + list),
            (20, BASE + (40 << 20)),
            (21, BASE + (140 << 20)),
            (22, BASE + (200 << 20)),
            (23, 64 * (1 + rng.below(200))),
            (24, BASE + list + 16 * SETTINGS),
        ] {
            h.set_reg(r, v);
        }
        let mut slices = 0;
        while m.hart(0).expect("a hart").state.pc != BASE + 52 {
            slices += 1;
            // A hold of 2^32 clocks may be what was asked for; the guest only waits.
            assert!(slices < 5000, "seed {seed}: the program does not get on");
            assert_eq!(
                m.run(1_000_000_000_000, Some(m.steps() + 5000)),
                Stop::Instructions
            );
        }
        // All of it can be told, with the marks.
        serde_json::to_string(&m.report()).expect("a report");
        assert!(m.marks().len() <= SETTINGS as usize);
    }
}
