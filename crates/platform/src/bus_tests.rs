use super::*;
use crate::device::line;
use crate::devices::{clint::Clint, gpio::Gpio, plic, rtc::Rtc, uart::Uart};
use nagori_config::map;
use nagori_config::{Library, Machine};
use proptest::prelude::*;

const MEMORY_SIZE: u64 = 64 << 10;

fn board(harts: u32) -> Bus {
    // Only the devices matter here: the memory may be smaller than described.
    let settings = [format!("harts={harts}")];
    let config = Machine::load(&Library::default(), "small", &settings)
        .unwrap()
        .config;
    crate::assembly::build(&config, Arc::new(GuestRam::new(MEMORY_SIZE).unwrap())).unwrap()
}

fn read(bus: &mut Bus, addr: u64, size: u8, now: Ps) -> u64 {
    match bus.read(addr, size, now, 0).unwrap() {
        BusRead::Value(v) => v,
        BusRead::Control(_) => panic!("{addr:#x} is the control block"),
    }
}

fn write(bus: &mut Bus, addr: u64, size: u8, value: u64, now: Ps) {
    assert_eq!(
        bus.write(addr, size, value, now, 0).unwrap(),
        BusWrite::Done
    );
}

#[test]
fn conflicts_name_both_sides() {
    let mut bus = board(1);
    let attached = bus.devices().count();
    let e = bus.attach(
        "second",
        map::UART + 0xff,
        0x1000,
        None,
        Box::new(Uart::new()),
    );
    assert_eq!(
        e.unwrap_err().to_string(),
        "address ranges overlap: `second` at 0x100000ff..=0x100010fe and `uart` at 0x10000000..=0x100000ff; move one \
            of them"
    );
    let e = bus.attach(
        "second",
        0x2000_0000,
        0x100,
        Some(map::UART_IRQ),
        Box::new(Uart::new()),
    );
    assert_eq!(
        e.unwrap_err().to_string(),
        "interrupt source 10 is wanted by `second` but belongs to `uart`"
    );
    // A device may have more sources than that of its place.
    let e = bus.attach("pins", 0x2000_0000, 0x100, None, Box::new(Gpio::new(10)));
    assert_eq!(
        e.unwrap_err().to_string(),
        "interrupt source 10 is wanted by `pins` but belongs to `uart`"
    );
    let e = bus.attach("pins", 0x2000_0000, 0x100, None, Box::new(Gpio::new(0)));
    assert!(matches!(e, Err(MapError::IrqRange { irq: 0, .. })));
    for irq in [0, 32] {
        let e = bus.attach("x", 0x2000_0000, 0x100, Some(irq), Box::new(Uart::new()));
        assert!(matches!(e, Err(MapError::IrqRange { .. })));
    }
    for (base, size) in [(0x2000_0000, 0), (u64::MAX, 2)] {
        let e = bus.attach("x", base, size, None, Box::new(Uart::new()));
        assert!(matches!(e, Err(MapError::Extent { .. })));
    }
    let e = bus
        .attach("x", 0x8000_1000, 0x1000, None, Box::new(Uart::new()))
        .unwrap_err();
    assert!(e.to_string().contains("`memory` at 0x80000000..="), "{e}");
    assert_eq!(bus.devices().count(), attached, "nothing was attached");
}

#[test]
fn bad_accesses_are_faults() {
    let mut bus = board(1);
    for (addr, size, fault) in [
        (0, 4, BusFault::Unmapped { addr: 0, size: 4 }),
        (
            map::UART + 0x100,
            1,
            BusFault::Unmapped {
                addr: map::UART + 0x100,
                size: 1,
            },
        ),
        (
            u64::MAX - 7,
            8,
            BusFault::Unmapped {
                addr: u64::MAX - 7,
                size: 8,
            },
        ),
        (
            map::MEMORY,
            8,
            BusFault::Unmapped {
                addr: map::MEMORY,
                size: 8,
            },
        ),
        (
            map::CLINT + 2,
            4,
            BusFault::Misaligned {
                addr: map::CLINT + 2,
                size: 4,
            },
        ),
        (
            map::CLINT,
            3,
            BusFault::Misaligned {
                addr: map::CLINT,
                size: 3,
            },
        ),
        (
            map::CLINT,
            0,
            BusFault::Misaligned {
                addr: map::CLINT,
                size: 0,
            },
        ),
        (
            map::PLIC,
            8,
            BusFault::Width {
                device: "plic",
                offset: 0,
                size: 8,
            },
        ),
        (
            map::CONTROL,
            2,
            BusFault::Width {
                device: "control",
                offset: 0,
                size: 2,
            },
        ),
    ] {
        assert_eq!(bus.read(addr, size, Ps::ZERO, 0), Err(fault));
        assert_eq!(bus.write(addr, size, 0, Ps::ZERO, 0), Err(fault));
    }
}

#[test]
fn the_control_block_is_the_machines() {
    let mut bus = board(1);
    let access = crate::control::ControlAccess {
        offset: 0x108,
        size: 8,
    };
    assert_eq!(
        bus.read(map::CONTROL + 0x108, 8, Ps::ZERO, 0),
        Ok(BusRead::Control(access))
    );
    assert_eq!(
        bus.write(map::CONTROL + 0x108, 8, 1, Ps::ZERO, 0),
        Ok(BusWrite::Control(access))
    );
}

#[test]
fn the_timer_fires_at_its_tick() {
    let mut bus = board(2);
    let us = Ps::from_ns(1000);
    assert_eq!(bus.next_event(), Ps::NEVER);
    write(&mut bus, map::CLINT + 0x4008, 8, 5, Ps::ZERO);
    assert_eq!(bus.next_event(), Ps(5 * us.0));
    bus.run_events(Ps(5 * us.0 - 1));
    assert_eq!(bus.hart_lines(1), 0);
    bus.run_events(Ps(5 * us.0));
    assert_eq!((bus.hart_lines(0), bus.hart_lines(1)), (0, line::MTIP));
    assert_eq!(bus.next_event(), Ps::NEVER);
    // A hart that lags behind does not revoke another hart's interrupt.
    write(&mut bus, map::CLINT + 0x4000, 8, 90, Ps(4 * us.0));
    write(&mut bus, map::CLINT, 4, 0, Ps(4 * us.0));
    assert_eq!(bus.hart_lines(1), line::MTIP);
    write(&mut bus, map::CLINT + 0x4000, 8, u64::MAX, Ps(4 * us.0));
    write(&mut bus, map::CLINT + 0x4008, 8, u64::MAX, Ps(6 * us.0));
    assert_eq!(bus.hart_lines(1), 0);
    // Halves, as 32-bit code writes them.
    write(&mut bus, map::CLINT + 0x4004, 4, 0, Ps(6 * us.0));
    write(&mut bus, map::CLINT + 0x4000, 4, 9, Ps(6 * us.0));
    assert_eq!(bus.next_event(), Ps(9 * us.0));
    // mtime can be set; events follow it.
    write(&mut bus, map::CLINT + 0xbff8, 8, 1, Ps(7 * us.0));
    assert_eq!(read(&mut bus, map::CLINT + 0xbff8, 8, Ps(9 * us.0)), 3);
    assert_eq!(bus.next_event(), Ps(15 * us.0));
    assert_eq!(bus.get::<Clint>().unwrap().mtime(Ps(15 * us.0)), 9);
    write(&mut bus, map::CLINT + 4, 4, 1, Ps(7 * us.0));
    assert_eq!(bus.hart_lines(1), line::MSIP);
    assert_eq!(read(&mut bus, map::CLINT + 4, 4, Ps(7 * us.0)), 1);
}

#[test]
fn devices_are_where_the_core_has_a_latency_for_them() {
    let bus = board(1);
    for (addr, place) in [
        (map::CLINT + 0xbff8, DevicePlace::Clint),
        (map::PLIC + 0x1000, DevicePlace::Plic),
        (map::UART, DevicePlace::Port),
        (0x10, DevicePlace::Port),
    ] {
        assert_eq!(bus.place(addr), place, "{addr:#x}");
    }
}

#[test]
fn the_uart_interrupts_through_the_plic_until_completed() {
    let mut bus = board(1);
    let now = Ps::ZERO;
    let (claim, enable) = (map::PLIC + 0x20_1004, map::PLIC + 0x2080);
    write(&mut bus, map::PLIC + 4 * 10, 4, 1, now);
    write(&mut bus, enable, 4, 1 << 10, now);
    write(&mut bus, map::UART + 1, 1, 1, now);
    assert_eq!(bus.hart_lines(0), 0);
    bus.with(now, |u: &mut Uart, cx| u.push_input(cx, b"ab"))
        .unwrap();
    assert_eq!(bus.hart_lines(0), line::SEIP);
    assert_eq!(read(&mut bus, map::PLIC + 0x1000, 4, now), 1 << 10);
    assert_eq!(read(&mut bus, claim, 4, now), 10);
    assert_eq!(bus.hart_lines(0), 0, "claimed, the wire still high");
    assert_eq!(read(&mut bus, claim, 4, now), 0);
    assert_eq!(read(&mut bus, map::UART, 1, now), u64::from(b'a'));
    write(&mut bus, claim, 4, 10, now);
    assert_eq!(bus.hart_lines(0), line::SEIP, "one byte is left");
    assert_eq!(read(&mut bus, claim, 4, now), 10);
    assert_eq!(read(&mut bus, map::UART, 1, now), u64::from(b'b'));
    write(&mut bus, claim, 4, 10, now);
    assert_eq!(bus.hart_lines(0), 0);
}

#[test]
fn plic_priorities_thresholds_and_completion() {
    let mut bus = board(2);
    let now = Ps::ZERO;
    let context = |hart: u64, s: u64| map::PLIC + 0x20_0000 + (2 * hart + s) * 0x1000;
    let enable = |hart: u64, s: u64| map::PLIC + 0x2000 + (2 * hart + s) * 0x80;
    for (source, priority) in [(3, 2), (5, 7), (6, 7), (31, 0)] {
        write(&mut bus, map::PLIC + 4 * source, 4, priority, now);
    }
    write(&mut bus, map::PLIC + 4 * 7, 4, 0xff, now);
    assert_eq!(read(&mut bus, map::PLIC + 4 * 7, 4, now), 7, "three bits");
    write(&mut bus, enable(0, 0), 4, 0xffff_ffff, now);
    assert_eq!(
        read(&mut bus, enable(0, 0), 4, now),
        0xffff_fffe,
        "no source 0"
    );
    write(&mut bus, enable(1, 1), 4, 1 << 3, now);
    let levels = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 31;
    bus.with(now, |p: &mut plic::Plic, cx| p.irq_levels(cx, levels))
        .unwrap();
    assert_eq!(
        (bus.hart_lines(0), bus.hart_lines(1)),
        (line::MEIP, line::SEIP)
    );
    // The threshold masks the line, not the claim.
    write(&mut bus, context(1, 1), 4, 2, now);
    assert_eq!(bus.hart_lines(1), 0);
    write(&mut bus, context(1, 1), 4, 1, now);
    assert_eq!(bus.hart_lines(1), line::SEIP);
    let order: Vec<u64> = (0..4)
        .map(|_| read(&mut bus, context(0, 0) + 4, 4, now))
        .collect();
    assert_eq!(
        order,
        [5, 6, 3, 0],
        "priority, then number; 31 has priority 0"
    );
    assert_eq!(bus.hart_lines(1), 0, "taken by hart 0");
    // A context that does not have the source enabled cannot complete it.
    write(&mut bus, context(1, 1) + 4, 4, 5, now);
    assert_eq!(read(&mut bus, context(0, 0) + 4, 4, now), 0);
    write(&mut bus, context(0, 0) + 4, 4, 5, now);
    assert_eq!(read(&mut bus, context(0, 0) + 4, 4, now), 5);
    // Nonsense completions are ignored.
    for id in [0, 32, 0xffff_ffff] {
        write(&mut bus, context(0, 0) + 4, 4, id, now);
    }
    assert_eq!(read(&mut bus, context(0, 0) + 4, 4, now), 0);
    // A request stays after its wire is deasserted.
    bus.with(now, |p: &mut plic::Plic, cx| p.irq_levels(cx, 1 << 7))
        .unwrap();
    bus.with(now, |p: &mut plic::Plic, cx| p.irq_levels(cx, 0))
        .unwrap();
    assert_eq!(read(&mut bus, context(0, 0) + 4, 4, now), 7);
    write(&mut bus, context(0, 0) + 4, 4, 7, now);
    assert_eq!(read(&mut bus, context(0, 0) + 4, 4, now), 0);
}

#[test]
fn power_requests() {
    for (value, size, expected) in [
        (0x5555, 4, Some(PowerRequest::Off { code: 0 })),
        (0x5555, 2, Some(PowerRequest::Off { code: 0 })),
        (0x0007_3333, 4, Some(PowerRequest::Off { code: 7 })),
        (0x7777, 4, Some(PowerRequest::Reset)),
        (0x1234, 4, None),
    ] {
        let mut bus = board(1);
        write(&mut bus, map::SYSCON, size, value, Ps::ZERO);
        assert_eq!(bus.take_power_request(), expected);
        assert_eq!(bus.take_power_request(), None);
    }
}

#[test]
fn the_rtc_shows_the_epoch_and_machine_time() {
    let mut bus = board(1);
    let second = Ps(crate::clock::PS_PER_SECOND);
    let time = |bus: &mut Bus, now| {
        let low = read(bus, map::RTC, 4, now);
        read(bus, map::RTC + 4, 4, now) << 32 | low
    };
    let epoch = 1_790_812_800_000_000_000;
    assert_eq!(time(&mut bus, Ps::ZERO), epoch);
    assert_eq!(time(&mut bus, Ps(second.0 + 1000)), epoch + 1_000_000_001);
    // An alarm two seconds on, by interrupt.
    let alarm = epoch + 2_000_000_000;
    write(&mut bus, map::PLIC + 4 * 11, 4, 1, Ps::ZERO);
    write(&mut bus, map::PLIC + 0x2000, 4, 1 << 11, Ps::ZERO);
    write(&mut bus, map::RTC + 0x10, 4, 1, second);
    write(&mut bus, map::RTC + 0xc, 4, alarm >> 32, second);
    write(&mut bus, map::RTC + 8, 4, alarm & 0xffff_ffff, second);
    assert_eq!(read(&mut bus, map::RTC + 0x18, 4, second), 1);
    assert_eq!(bus.next_event(), Ps(2 * second.0));
    bus.run_events(Ps(2 * second.0));
    assert_eq!(bus.hart_lines(0), line::MEIP);
    assert_eq!(read(&mut bus, map::RTC + 0x18, 4, second), 0);
    // The guest sets the clock to 1970; it survives a reset.
    write(&mut bus, map::RTC + 4, 4, 0, Ps(3 * second.0));
    write(&mut bus, map::RTC, 4, 5, Ps(3 * second.0));
    bus.reset(Ps(3 * second.0));
    assert_eq!(bus.hart_lines(0), 0);
    assert_eq!(time(&mut bus, Ps(4 * second.0)), 1_000_000_005);
    // The host sets it.
    bus.with::<Rtc, _>(Ps(5 * second.0), |r, cx| r.set(cx, 100));
    assert_eq!(time(&mut bus, Ps(6 * second.0)), 101_000_000_000);
    assert!(bus.get::<Rtc>().is_some());
}

#[test]
fn the_watchdog_resets_what_does_not_restart_it() {
    let config = Machine::load(&Library::default(), "small", &["watchdog=true".into()])
        .unwrap()
        .config;
    let ram = Arc::new(GuestRam::new(MEMORY_SIZE).unwrap());
    let mut bus = crate::assembly::build(&config, ram).unwrap();
    let ms = |n: u64| Ps::from_ns(1_000_000 * n);
    const MODE: u64 = map::WATCHDOG + 0x18;
    const CONTROL: u64 = map::WATCHDOG + 0x10;
    const CONFIG: u64 = map::WATCHDOG + 0x14;
    const KEY: u64 = 0x16aa_0000;
    const RESTART: u64 = 0x0a57 << 1 | 1;
    // Without the key nothing happens.
    write(&mut bus, MODE, 4, 0x21, ms(0));
    assert_eq!(read(&mut bus, MODE, 4, ms(0)), 0);
    assert_eq!(bus.next_event(), Ps::NEVER);
    // Two seconds, restarted after one.
    write(&mut bus, MODE, 4, KEY | 0x21, ms(0));
    assert_eq!(bus.next_event(), ms(2000));
    write(&mut bus, CONTROL, 4, RESTART, ms(1000));
    assert_eq!(bus.next_event(), ms(3000));
    bus.run_events(Ps(ms(3000).0 - 1));
    assert_eq!(bus.take_power_request(), None);
    bus.run_events(ms(3000));
    assert_eq!(bus.take_power_request(), Some(PowerRequest::Reset));
    bus.reset(ms(3000));
    assert_eq!(bus.next_event(), Ps::NEVER);
    // An interrupt instead; half a second.
    write(&mut bus, map::PLIC + 4 * 12, 4, 1, ms(3000));
    write(&mut bus, map::PLIC + 0x2000, 4, 1 << 12, ms(3000));
    write(&mut bus, CONFIG, 4, KEY | 2, ms(3000));
    write(&mut bus, map::WATCHDOG, 4, 1, ms(3000));
    write(&mut bus, MODE, 4, KEY | 1, ms(3000));
    bus.run_events(ms(3500));
    assert_eq!(bus.take_power_request(), None);
    assert_eq!(bus.hart_lines(0), line::MEIP);
    write(&mut bus, map::WATCHDOG + 4, 4, 1, ms(3500));
    assert_eq!(read(&mut bus, map::WATCHDOG + 4, 4, ms(3500)), 0);
    assert_eq!(read(&mut bus, map::PLIC + 0x20_0004, 4, ms(3500)), 12);
    write(&mut bus, map::PLIC + 0x20_0004, 4, 12, ms(3500));
    assert_eq!(bus.hart_lines(0), 0);
    // At once.
    write(&mut bus, map::WATCHDOG + 8, 4, KEY | 1, ms(3600));
    assert_eq!(bus.take_power_request(), Some(PowerRequest::Reset));
}

#[test]
fn pins_interrupt_harts_each_by_its_source() {
    let config = Machine::load(&Library::default(), "small", &["devices=[\"gpio\"]".into()])
        .unwrap()
        .config;
    let ram = Arc::new(GuestRam::new(MEMORY_SIZE).unwrap());
    let mut bus = crate::assembly::build(&config, ram).unwrap();
    let pin = 15;
    let source = u64::from(map::GPIO_IRQ) + pin;
    write(&mut bus, map::PLIC + 4 * source, 4, 1, Ps(0));
    write(&mut bus, map::PLIC + 0x2000, 4, 1 << source, Ps(0));
    // Inputs and outputs, and rising edges.
    for register in [0x04, 0x08, 0x18] {
        write(&mut bus, map::VIRTIO + register, 4, 0xffff, Ps(0));
    }
    write(&mut bus, map::VIRTIO + 0x0c, 4, 0x7fff, Ps(1));
    assert_eq!(bus.hart_lines(0), 0);
    write(&mut bus, map::VIRTIO + 0x0c, 4, 0xffff, Ps(2));
    assert_eq!(bus.hart_lines(0), line::MEIP);
    assert_eq!(read(&mut bus, map::PLIC + 0x20_0004, 4, Ps(3)), source);
    write(&mut bus, map::VIRTIO + 0x1c, 4, 1 << pin, Ps(4));
    write(&mut bus, map::PLIC + 0x20_0004, 4, source, Ps(5));
    assert_eq!(bus.hart_lines(0), 0);
}

#[test]
fn a_saved_state_goes_on_the_same() {
    let mut a = board(2);
    let t = |n: u64| Ps::from_ns(1000 * n);
    write(&mut a, map::CLINT + 0x4008, 8, 50, t(1));
    write(&mut a, map::CLINT, 4, 1, t(1));
    write(&mut a, map::UART + 1, 1, 3, t(2));
    write(&mut a, map::UART, 1, b'x'.into(), t(2));
    a.with(t(3), |u: &mut Uart, cx| u.push_input(cx, b"input"))
        .unwrap();
    write(&mut a, map::PLIC + 4 * 10, 4, 3, t(3));
    let text = serde_json::to_string(&a.save()).unwrap();
    let mut b = board(2);
    b.load(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(a.next_event(), b.next_event());
    for bus in [&mut a, &mut b] {
        bus.run_events(t(60));
    }
    assert_eq!(a.hart_lines(1), line::MTIP);
    assert_eq!(
        [a.hart_lines(0), a.hart_lines(1)],
        [b.hart_lines(0), b.hart_lines(1)]
    );
    assert_eq!(read(&mut b, map::UART, 1, t(61)), u64::from(b'i'));
    assert_eq!(a.save().devices[1], b.save().devices[1]);

    let saved = a.save();
    assert!(matches!(
        board(1).load(&saved),
        Err(StateError::Content { .. })
    ));
    let mut fewer = saved.clone();
    fewer.devices.pop();
    assert!(matches!(
        b.load(&fewer),
        Err(StateError::Devices {
            found: 6,
            expected: 7
        })
    ));
    let mut swapped = saved.clone();
    swapped.devices.swap(0, 1);
    let e = b.load(&swapped).unwrap_err().to_string();
    assert_eq!(
        e,
        "state of `plic` version 1 given to `clint`, which reads version 1"
    );
}

fn anywhere() -> impl Strategy<Value = u64> {
    let bases = prop::sample::select(vec![
        map::SYSCON,
        map::RTC,
        map::CLINT,
        map::CLINT + 0x4000,
        map::CLINT + 0xbff0,
        map::CONTROL,
        map::PLIC,
        map::PLIC + 0x1000,
        map::PLIC + 0x2000,
        map::PLIC + 0x20_0000,
        map::UART,
        map::VIRTIO,
        map::VIRTIO + 0x100,
    ]);
    prop_oneof![
        9 => (bases, 0u64..0x120).prop_map(|(base, offset)| base + offset),
        1 => any::<u64>(),
    ]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..64,
        (0u64..MEMORY_SIZE).prop_map(|o| map::MEMORY + o)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No access crashes a device, time advances, and a second machine that is loaded in the middle
    /// does the same from there on.
    #[test]
    fn random_accesses(
        steps in prop::collection::vec((anywhere(), 0u8..=8, value(), any::<bool>(), 0u64..1 << 24), 1..80),
        fork in 0usize..80,
    ) {
        let mut bus = board(2);
        let mut twin: Option<Bus> = None;
        let mut now = 0;
        for (i, &(addr, size, value, is_write, dt)) in steps.iter().enumerate() {
            now += dt;
            let addr = if size.is_power_of_two() { addr & !u64::from(size - 1) } else { addr };
            if i == fork {
                bus.take_dma_writes();
                bus.take_power_request();
                let mut other = board(2);
                // Memory is saved elsewhere.
                let mut page = vec![0; MEMORY_SIZE as usize];
                bus.wires.ram.read_bytes(0, &mut page).unwrap();
                other.wires.ram.write_bytes(0, &page).unwrap();
                other.load(&bus.save()).unwrap();
                twin = Some(other);
            }
            let step = |bus: &mut Bus| {
                bus.run_events(Ps(now));
                prop_assert!(bus.next_event() > Ps(now));
                let result = if is_write {
                    bus.write(addr, size, value, Ps(now), 1).map(|_| 0)
                } else {
                    bus.read(addr, size, Ps(now), 1).map(|r| match r {
                        BusRead::Value(v) => v,
                        BusRead::Control(_) => 0,
                    })
                };
                Ok((
                    result,
                    bus.hart_lines(0),
                    bus.hart_lines(1),
                    bus.next_event(),
                    bus.take_power_request(),
                    bus.take_dma_writes(),
                ))
            };
            let first = step(&mut bus)?;
            if let (Ok(v), 1 | 2 | 4) = (first.0, size) {
                prop_assert!(v < 1 << (8 * size));
            }
            if let Some(other) = &mut twin {
                prop_assert_eq!(first, step(other)?);
            }
        }
    }
}
