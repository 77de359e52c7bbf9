//! Targets with a whole machine.

use nagori_config::map;
use nagori_config::{Library, Machine as Description};
use nagori_machine::{Machine, Stop};
use nagori_platform::control;

const BASE: u64 = map::MEMORY;
/// Runs of a guest, and cycles and instructions of each.
const STEPS: u64 = 20;
const STEP: u64 = 1000;
/// Bytes at the beginning of an input that say how the machine is.
const HEAD: usize = 4;

/// A machine as the first bytes of an input want it.
fn machine(head: &[u8]) -> Machine {
    let settings = [
        format!("harts={}", 1 + head[0] % 3),
        format!(
            "method={}",
            ["dram", "coarse", "fine", "extended"][usize::from(head[1] % 4)]
        ),
        format!("asid_bits={}", head[2] % 17),
    ];
    let d = Description::load(&Library::default(), "small", &settings).expect("a machine");
    let mut m = Machine::new(&d).expect("a machine");
    m.set_timed(head[0] & 0x80 != 0);
    m
}

/// Lets a machine run for a while.
fn live(m: &mut Machine) {
    // Bounded in cycles and instructions: a hart that traps for ever retires nothing, and the
    // bound on cycles alone is a rough one.
    for _ in 0..STEPS {
        let before = (m.now(), m.steps());
        match m.run(STEP, Some(before.1 + STEP)) {
            Stop::PowerOff(_)
            | Stop::Slice
            | Stop::Instructions
            | Stop::Snapshot(_)
            | Stop::Debug
            | Stop::Reached => {}
            Stop::Reset => {
                m.reset();
                m.start_at(BASE, 0, 0);
            }
            Stop::Idle(_) | Stop::EndOfTime => break,
        }
        assert!(m.now() >= before.0 && m.steps() >= before.1);
    }
    m.console_output();
    m.report();
}

/// A random program: four bytes of settings, then instruction words, which also lie where traps
/// go and where page tables may be. Registers hold addresses of devices.
pub fn guest_words(data: &[u8]) {
    let Some((head, words)) = data.split_at_checked(HEAD) else {
        return;
    };
    let mut m = machine(head);
    let len = words.len().min(1 << 16);
    m.ram().write_bytes(0, &words[..len]).expect("memory");
    m.ram().write_bytes(1 << 20, &words[..len]).expect("memory");
    m.start_at(BASE, BASE + (1 << 20), 0);
    let places = [
        map::SYSCON,
        map::RTC,
        map::CLINT,
        map::CONTROL,
        map::CONTROL + 0x100,
        map::PLIC,
        map::UART,
        map::VIRTIO,
        BASE,
        BASE + (1 << 20),
        BASE + (200 << 20),
        8 << 60 | (BASE + (1 << 20)) >> 12,
    ];
    for i in 0..m.config().harts as usize {
        let h = m.hart_mut(i).expect("a hart");
        for (k, at) in places.iter().enumerate() {
            h.set_reg(11 + k, *at);
        }
    }
    live(&mut m);
}

/// One access of a script: what, where, how wide, which value.
const RECORD: usize = 8;

/// Loads and stores to devices, one after the other, by a small interpreter in the guest. A
/// record is: kind, device, offset (2 bytes), value (4 bytes).
pub fn device_access(data: &[u8]) {
    let Some((head, script)) = data.split_at_checked(HEAD) else {
        return;
    };
    let places = [
        (map::SYSCON, 0x1000),
        (map::RTC, 0x1000),
        (map::CLINT, 0x1_0000),
        (map::CONTROL, control::SIZE),
        (map::PLIC, 0x60_0000),
        (map::UART, 0x100),
        (map::VIRTIO, 0x1000),
        (BASE + (128 << 20), 128 << 20),
    ];
    let mut m = machine(head);
    // A trap skips the access that caused it: mtvec leads to the next instruction but one.
    let mut words: Vec<u32> = Vec::new();
    let handler = [
        0x3410_2ff3u32, // csrr t6, mepc
        0x004f_8f93,    // addi t6, t6, 4
        0x341f_9073,    // csrw mepc, t6
        0x3020_0073,    // mret
    ];
    for (k, w) in handler.iter().enumerate() {
        m.ram().write_u32(0x800 + 4 * k as u64, *w).expect("memory");
    }
    words.extend([
        0x0000_0297, // auipc t0, 0
        0x7ff2_8293, // addi  t0, t0, 0x7ff
        0x0012_8293, // addi  t0, t0, 1
        0x3052_9073, // csrw  mtvec, t0
    ]);
    // a1: the list of addresses and values, walked by a loop for each kind would be long: the
    // accesses are straight-line code that takes both from the list.
    let list = 1u64 << 20;
    for (k, r) in script.chunks_exact(RECORD).take(200).enumerate() {
        let (base, size) = places[usize::from(r[1]) % places.len()];
        let at = u64::from(u16::from_le_bytes([r[2], r[3]]));
        let offset = if r[0] & 0x80 != 0 {
            at * (size >> 16).max(1) % size
        } else {
            at % size.min(0x400)
        };
        let value = u64::from(u32::from_le_bytes([r[4], r[5], r[6], r[7]]));
        let value = if r[0] & 0x40 != 0 {
            BASE + value % (256 << 20)
        } else {
            value
        };
        m.ram()
            .write_u64(list + 16 * k as u64, base + offset)
            .expect("memory");
        m.ram()
            .write_u64(list + 16 * k as u64 + 8, value)
            .expect("memory");
        let width = u32::from(r[0] & 3) << 12;
        words.extend([
            0x0005_b303, // ld   t1, 0(a1)
            0x0085_b383, // ld   t2, 8(a1)
            0x0105_8593, // addi a1, a1, 16
        ]);
        words.push(match r[0] >> 2 & 3 {
            0 | 1 => 0x0073_0023 | width,                        // sb.. t2, 0(t1)
            2 => 0x0003_0e03 | width,                            // lb.. t3, 0(t1)
            _ => 0x0073_2e2f | (u32::from(r[0]) >> 4 & 1) << 12, // amoadd t3, t2, (t1)
        });
    }
    words.push(0x1050_0073); // wfi
    words.push(0xffdf_f06f); // j -4
    for (k, w) in words.iter().enumerate() {
        let at = 4 * k as u64;
        // The handler is in the way of long scripts: they begin behind it.
        let at = if at < 16 { at } else { at + 0x1000 };
        m.ram().write_u32(at, *w).expect("memory");
    }
    m.ram().write_u32(16, 0x0000_0000).expect("memory");
    // j to 0x1010
    m.ram().write_u32(16, 0x0000_106f).expect("memory");
    m.start_at(BASE, BASE + list, 0);
    live(&mut m);
}
