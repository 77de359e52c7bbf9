use super::*;
use crate::clock::Ps;
use crate::device::Wires;
use nagori_ram::GuestRam;
use proptest::prelude::*;
use std::sync::Arc;

const FIRST: u32 = 13;

struct Bench {
    gpio: Gpio,
    wires: Wires,
}

impl Bench {
    fn new() -> Bench {
        let wires = Wires {
            ram: Arc::new(GuestRam::new(4096).unwrap()),
            ram_base: 0x8000_0000,
            dma_writes: Vec::new(),
            transfers_cost: false,
            transfers: Vec::new(),
            deeds: Default::default(),
            irq_levels: 0,
            hart_lines: vec![0],
            power: None,
            iomap: None,
        };
        let mut b = Bench {
            gpio: Gpio::new(FIRST),
            wires,
        };
        b.with(|d, cx| d.reset(cx));
        b
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Gpio, &mut DeviceCx<'_>) -> R) -> R {
        let mut cx = DeviceCx {
            now: Ps::ZERO,
            hart: Some(0),
            irq: None,
            wires: &mut self.wires,
        };
        f(&mut self.gpio, &mut cx)
    }

    fn get(&mut self, n: usize) -> u32 {
        self.with(|d, cx| d.read(cx, n as u64 * 4, 4).unwrap()) as u32
    }

    fn set(&mut self, n: usize, value: u32) {
        self.with(|d, cx| d.write(cx, n as u64 * 4, 4, value.into()).unwrap())
    }

    /// Pins whose sources are raised.
    fn raised(&self) -> u32 {
        self.wires.irq_levels >> FIRST
    }
}

#[test]
fn outputs_are_seen_as_inputs() {
    let mut b = Bench::new();
    b.set(reg::OUTPUT_VAL, 0xffff_fff0);
    assert_eq!(b.get(reg::OUTPUT_VAL), 0xfff0, "16 pins");
    b.set(reg::OUTPUT_EN, 0x00ff);
    assert_eq!(b.get(reg::INPUT_VAL), 0, "no input is enabled");
    b.set(reg::INPUT_EN, 0x0fff);
    assert_eq!(b.get(reg::INPUT_VAL), 0x00f0);
    b.set(reg::OUT_XOR, 0x00ff);
    assert_eq!(b.get(reg::INPUT_VAL), 0x000f);
    // Of pins that nobody drives the pull-up is seen.
    b.set(reg::PULL_UP, 0xffff);
    assert_eq!(b.get(reg::INPUT_VAL), 0x0f0f);
    b.set(reg::INPUT_VAL, 0xffff);
    assert_eq!(b.get(reg::INPUT_VAL), 0x0f0f, "read only");
    b.with(|d, cx| d.reset(cx));
    let low = |n| if n == reg::LOW_IP { ALL } else { 0 };
    for n in 0..reg::COUNT {
        assert_eq!(b.get(n), low(n), "{n}");
    }
}

#[test]
fn every_pin_interrupts_for_itself() {
    let mut b = Bench::new();
    b.set(reg::INPUT_EN, ALL);
    b.set(reg::OUTPUT_EN, ALL);
    b.wires.irq_levels |= 1 << 10;
    b.set(reg::RISE_IE, 1 << 3);
    b.set(reg::FALL_IE, 1 << 15);
    assert_eq!(b.raised(), 0);
    b.set(reg::OUTPUT_VAL, 1 << 3 | 1 << 15 | 1);
    assert_eq!(b.raised(), 1 << 3);
    // An edge is pending until it is cleared, whether it interrupts or not.
    assert_eq!(b.get(reg::RISE_IP), 1 << 3 | 1 << 15 | 1);
    b.set(reg::OUTPUT_VAL, 0);
    assert_eq!(b.raised(), 1 << 3 | 1 << 15);
    b.set(reg::RISE_IP, 1 << 3);
    assert_eq!(b.raised(), 1 << 15);
    b.set(reg::FALL_IP, ALL);
    assert_eq!(b.raised(), 0);
    assert_eq!(b.get(reg::RISE_IP), 1 << 15 | 1);
    // A level that has been and is no more stays pending; one that lasts cannot be cleared.
    b.set(reg::HIGH_IE, 1);
    assert_eq!(b.raised(), 1);
    b.set(reg::HIGH_IP, ALL);
    assert_eq!(b.raised(), 0);
    b.set(reg::HIGH_IE, 0);
    b.set(reg::LOW_IE, 1 << 7);
    b.set(reg::LOW_IP, ALL);
    assert_eq!(b.raised(), 1 << 7);
    b.set(reg::OUTPUT_VAL, 1 << 7);
    assert_eq!(b.raised(), 1 << 7);
    b.set(reg::LOW_IP, 1 << 7);
    assert_eq!(b.raised(), 0);
    assert_eq!(
        b.wires.irq_levels,
        1 << 10,
        "other sources stay as they are"
    );
}

#[test]
fn other_sizes_are_faults() {
    let mut b = Bench::new();
    for size in [1, 2, 8] {
        let fault = BusFault::Width {
            device: KIND,
            offset: 8,
            size,
        };
        assert_eq!(b.with(|d, cx| d.read(cx, 8, size)), Err(fault));
        assert_eq!(b.with(|d, cx| d.write(cx, 8, size, 1)), Err(fault));
    }
    assert_eq!(b.get(reg::OUTPUT_EN), 0);
}

#[test]
fn states_of_something_else_are_refused() {
    let mut b = Bench::new();
    let state = |regs: Vec<u32>| DeviceState::pack(KIND, VERSION, &State { regs });
    for bad in [vec![0; reg::COUNT - 1], vec![1 << PINS; reg::COUNT]] {
        let e = b.gpio.load(&state(bad)).unwrap_err();
        assert!(matches!(e, StateError::Content { .. }), "{e}");
    }
    b.gpio.load(&state(vec![ALL; reg::COUNT])).unwrap();
    assert_eq!(b.get(reg::OUT_XOR), ALL);
}

proptest! {
    #[test]
    fn any_accesses_go_on_the_same_after_a_restore(
        accesses in prop::collection::vec((0u64..0x80, any::<u32>(), any::<bool>()), 0..60),
        cut in 0usize..60,
    ) {
        let mut whole = Bench::new();
        let mut parts = Bench::new();
        for (n, &(register, value, writes)) in accesses.iter().enumerate() {
            if n == cut {
                let state = parts.gpio.save();
                parts.gpio = Gpio::new(FIRST);
                parts.gpio.load(&state).unwrap();
            }
            let both = [&mut whole, &mut parts].map(|b| {
                b.with(|d, cx| {
                    if writes {
                        d.write(cx, register * 4, 4, value.into()).map(|()| 0)
                    } else {
                        d.read(cx, register * 4, 4)
                    }
                })
            });
            prop_assert!(both[0].is_ok());
            prop_assert_eq!(both[0], both[1]);
            prop_assert_eq!(whole.wires.irq_levels, parts.wires.irq_levels);
            prop_assert_eq!(whole.wires.irq_levels & !(ALL << FIRST), 0);
        }
    }
}
