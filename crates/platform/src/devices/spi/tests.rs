use super::flash::{ID, PAGE, SIZE};
use super::*;
use crate::device::Wires;
use nagori_memtime::Period;
use nagori_ram::GuestRam;
use proptest::prelude::*;
use std::sync::Arc;

const IRQ: u32 = 2;
const HZ: u32 = 50_000_000;
/// Picoseconds of a cycle.
const CYCLE: u64 = 20_000;
const AUTO: u32 = 0;

struct Bench {
    spi: Spi,
    wires: Wires,
    now: u64,
}

fn spi() -> Spi {
    Spi::new(Clock::new(Period::of_hz(HZ.into(), 1).unwrap()), HZ)
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
            spi: spi(),
            wires,
            now: 0,
        };
        b.with(|d, cx| d.reset(cx));
        b
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Spi, &mut DeviceCx<'_>) -> R) -> R {
        let mut cx = DeviceCx {
            now: Ps(self.now),
            hart: Some(0),
            irq: Some(IRQ),
            wires: &mut self.wires,
        };
        f(&mut self.spi, &mut cx)
    }

    fn get(&mut self, n: usize) -> u32 {
        self.with(|d, cx| d.read(cx, n as u64 * 4, 4).unwrap()) as u32
    }

    fn set(&mut self, n: usize, value: u32) {
        self.with(|d, cx| d.write(cx, n as u64 * 4, 4, value.into()).unwrap())
    }

    /// Runs all events until a time.
    fn run(&mut self, until: u64) {
        while let Some(at) = self.spi.next_event().filter(|t| t.0 <= until) {
            self.now = at.0;
            self.with(|d, cx| d.on_time(cx));
            assert_ne!(self.spi.next_event(), Some(at), "time stands still");
        }
        self.now = self.now.max(until);
    }

    /// Runs until nothing happens any more.
    fn idle(&mut self) {
        while let Some(at) = self.spi.next_event() {
            self.run(at.0);
        }
    }

    fn raised(&self) -> bool {
        self.wires.irq_levels != 0
    }

    /// Sends bytes while the flash is selected; the bytes that came back.
    fn command(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.set(reg::CSMODE, chip_select::HOLD);
        let mut back = Vec::new();
        for part in bytes.chunks(FIFO) {
            part.iter().for_each(|b| self.set(reg::TXDATA, (*b).into()));
            self.idle();
            part.iter()
                .for_each(|_| back.push(self.get(reg::RXDATA) as u8));
        }
        self.set(reg::CSMODE, AUTO);
        assert_eq!(self.get(reg::RXDATA), NO_DATA);
        back
    }

    fn status(&mut self) -> u8 {
        self.command(&[0x05, 0])[1]
    }

    fn wait(&mut self) {
        for _ in 0..100 {
            if self.status() & 1 == 0 {
                return;
            }
            self.now += 500_000_000_000;
        }
        panic!("the flash stays busy");
    }

    /// A command behind a write enable, and its end.
    fn change(&mut self, bytes: &[u8]) {
        self.command(&[0x06]);
        assert_eq!(self.status(), 2);
        self.command(bytes);
        assert_eq!(self.status(), 3);
        self.wait();
        assert_eq!(self.status(), 0);
    }

    fn contents(&mut self, at: u32, len: usize) -> Vec<u8> {
        let mut bytes = with_address(0x03, at);
        bytes.resize(4 + len, 0);
        self.command(&bytes).split_off(4)
    }
}

fn with_address(opcode: u8, at: u32) -> Vec<u8> {
    let mut bytes = at.to_be_bytes().to_vec();
    bytes[0] = opcode;
    bytes
}

fn program(at: u32, data: &[u8]) -> Vec<u8> {
    [with_address(0x02, at), data.to_vec()].concat()
}

#[test]
fn registers_are_those_of_the_manual() {
    let mut b = Bench::new();
    for (n, value, allowed) in REGISTERS {
        assert_eq!(b.get(n), value, "{n}");
        if n != reg::FMT {
            b.set(n, u32::MAX);
            assert_eq!(b.get(n), allowed, "{n}");
        }
    }
    b.set(reg::FMT, 0x0007_000d);
    assert_eq!(b.get(reg::FMT), 0x0007_000d);
    b.set(reg::FMT, 0x0009_0000);
    assert_eq!(b.get(reg::FMT), 0x0007_000d, "no frames of 9 bits");
    b.with(|d, cx| d.reset(cx));
    for (n, value, _) in REGISTERS {
        assert_eq!(b.get(n), value, "{n}");
    }
    // Registers of memory-mapped flash, and none.
    for n in [0x60 / 4, 0x64 / 4, 0x800 / 4] {
        b.set(n, u32::MAX);
        assert_eq!(b.get(n), 0);
    }
    for size in [1, 2, 8] {
        let fault = BusFault::Width {
            device: KIND,
            offset: 0x48,
            size,
        };
        assert_eq!(b.with(|d, cx| d.read(cx, 0x48, size)), Err(fault));
        assert_eq!(b.with(|d, cx| d.write(cx, 0x48, size, 6)), Err(fault));
    }
    assert_eq!(b.spi.next_event(), None);
}

#[test]
fn a_byte_takes_its_time_on_the_wire() {
    for (divider, lines, protocol) in [(3, 1, 0), (0, 1, 0), (24, 1, 3), (0xfff, 2, 1), (1, 4, 2)] {
        let mut b = Bench::new();
        b.set(reg::SCKDIV, divider);
        b.set(reg::FMT, 0x0008_0000 | protocol);
        b.set(reg::CSMODE, chip_select::HOLD);
        b.now = 3 * CYCLE;
        b.set(reg::TXDATA, 0x05);
        b.set(reg::TXDATA, 0);
        let sck = 2 * (u64::from(divider) + 1) * CYCLE;
        // One period between chip select and the first bit.
        let first = b.now + sck + 8 / lines * sck;
        b.run(first - 1);
        assert_eq!(b.get(reg::RXDATA), NO_DATA, "{divider}");
        b.run(first);
        assert_eq!(b.get(reg::RXDATA) & NO_DATA, 0, "{divider}");
        // The next one follows at once.
        let second = first + 8 / lines * sck;
        b.run(second - 1);
        assert_eq!(b.get(reg::RXDATA), NO_DATA, "{divider}");
        b.run(second);
        assert_eq!(b.get(reg::RXDATA) & NO_DATA, 0, "{divider}");
        assert_eq!(b.spi.next_event(), None);
    }
}

#[test]
fn delays_are_periods() {
    let mut b = Bench::new();
    b.set(reg::SCKDIV, 0);
    b.set(reg::DELAY0, 5 << 16 | 3);
    b.set(reg::DELAY1, 9 << 16 | 7);
    let sck = 2 * CYCLE;
    b.set(reg::CSMODE, chip_select::HOLD);
    b.set(reg::TXDATA, 0);
    b.set(reg::TXDATA, 0);
    b.run((3 + 8 + 9) * sck);
    let end = b.spi.frame.as_ref().map(|f| f.ends * CYCLE);
    assert_eq!(end, Some((3 + 8 + 9 + 8) * sck));
    // A change of the mode while the frame is on the wire counts from its end on.
    b.set(reg::CSMODE, AUTO);
    b.set(reg::TXDATA, 0);
    b.idle();
    assert_eq!(b.now, (3 + 8 + 9 + 8 + 5 + 7 + 3 + 8) * sck);
    // In this mode each frame is selected for itself.
    b.set(reg::TXDATA, 0);
    let begun = b.now + (5 + 7) * sck;
    b.idle();
    assert_eq!(b.now, begun + (3 + 8) * sck);
}

#[test]
fn fifos_say_when_they_are_full_and_when_empty() {
    let mut b = Bench::new();
    b.set(reg::IE, interrupt::SEND);
    assert!(!b.raised(), "no level is below the mark 0");
    b.set(reg::TXMARK, 1);
    assert!(b.raised());
    b.set(reg::CSMODE, chip_select::HOLD);
    // One is on the wire, eight wait, the last one is lost.
    for n in 0..10 {
        assert_eq!(b.get(reg::TXDATA), if n < 9 { 0 } else { NO_DATA }, "{n}");
        b.set(reg::TXDATA, 0x9f);
    }
    assert!(!b.raised());
    assert_eq!(b.get(reg::IP), 0);
    b.set(reg::RXMARK, 2);
    b.set(reg::IE, interrupt::RECEIVE);
    let byte = 8 * 8 * CYCLE;
    b.run(8 * CYCLE + 3 * byte - 1);
    assert!(!b.raised());
    b.run(8 * CYCLE + 3 * byte);
    assert!(b.raised());
    assert_eq!(b.get(reg::IP), interrupt::RECEIVE);
    b.get(reg::RXDATA);
    assert!(!b.raised());
    // Nine bytes arrive in all: there is room for the eight that remain.
    b.idle();
    for n in 0..8 {
        assert_eq!(b.get(reg::RXDATA) & NO_DATA, 0, "{n}");
    }
    assert_eq!(b.get(reg::RXDATA), NO_DATA);
    // Of nine that nobody reads, the last one is lost; in the other direction nothing is kept.
    for _ in 0..9 {
        b.set(reg::TXDATA, 1);
    }
    b.idle();
    assert_eq!(b.spi.received.len(), FIFO);
    b.spi.received.clear();
    b.set(reg::FMT, 0x0008_0000 | format::SENDS);
    b.set(reg::TXDATA, 1);
    b.idle();
    assert_eq!(b.get(reg::RXDATA), NO_DATA);
    assert_eq!(b.get(reg::IP), interrupt::SEND);
}

#[test]
fn the_flash_says_what_it_is() {
    let mut b = Bench::new();
    let id = b.command(&[0x9f, 0, 0, 0, 0]);
    assert_eq!(id, [0xff, ID[0], ID[1], ID[2], 0xff]);
    // The parameters: three bytes of address, one that means nothing.
    let mut bytes = vec![0x5a, 0, 0, 0, 0];
    bytes.resize(5 + 53, 0);
    let table = b.command(&bytes).split_off(5);
    assert_eq!(table[..4], *b"SFDP");
    let word = |n: usize| u32::from_le_bytes(table[n..n + 4].try_into().unwrap());
    let basic = word(12) as usize & 0xff_ffff;
    assert_eq!((table[8], table[15], table[11]), (0, 0xff, 9));
    assert_eq!(word(basic + 4), SIZE * 8 - 1);
    assert_eq!(table[52], 0xff, "nothing behind the table");
    assert_eq!(basic + 4 * 9, 52);
    // The types of erasing that it lists are commands that erase so much.
    for n in 0..3 {
        let [log2, opcode] = [0, 1].map(|k| table[basic + 28 + 2 * n + k]);
        let size = 1u32 << log2;
        let mut b = Bench::new();
        b.change(&program(size - 1, &[1]));
        b.change(&program(size, &[2]));
        b.change(&program(2 * size - 1, &[3]));
        b.change(&program(2 * size, &[4]));
        b.change(&with_address(opcode, size + 5));
        let left = [size - 1, size, 2 * size - 1, 2 * size].map(|at| b.contents(at, 1)[0]);
        assert_eq!(left, [1, 0xff, 0xff, 4], "{opcode:#x}");
    }
}

#[test]
fn programming_clears_bits_and_wraps_in_its_page() {
    let mut b = Bench::new();
    assert_eq!(b.contents(0x1230, 3), [0xff; 3]);
    let all: Vec<u8> = (0..PAGE as u32).map(|n| n as u8 ^ 0x5a).collect();
    b.change(&program(0x1200, &all));
    assert_eq!(b.contents(0x1200, PAGE), all);
    b.change(&program(0x1202, &[0xf0]));
    assert_eq!(b.contents(0x1202, 1), [0x58 & 0xf0]);
    // Behind the end of the page comes its beginning; of more than a page, the last bytes count.
    b.change(&program(0x22fe, &[1, 2, 3]));
    assert_eq!(b.contents(0x22fe, 3), [1, 2, 0xff]);
    assert_eq!(b.contents(0x2200, 2), [3, 0xff]);
    let mut long = vec![0; 2];
    long.extend(&all);
    b.change(&program(0x3300, &long));
    assert_eq!(b.contents(0x3302, 254), all[..254]);
    assert_eq!(b.contents(0x3300, 2), all[254..]);
    // Reading goes on at the beginning of the chip; with a dummy byte it is the same.
    b.change(&program(0, &[7]));
    assert_eq!(b.contents(SIZE - 1, 2), [0xff, 7]);
    let fast = b.command(&[0x0b, 0, 0x12, 0, 0, 0, 0]);
    assert_eq!(fast[5..], all[..2]);
    // All of it.
    assert_eq!(b.spi.flash.save().pages(), 4);
    b.change(&[0xc7]);
    assert_eq!(b.contents(0, 2), [0xff; 2]);
    assert_eq!(b.spi.flash.save().pages(), 0);
    b.change(&program(0, &[0xff]));
    assert_eq!(b.spi.flash.save().pages(), 0, "blank pages are not kept");
}

#[test]
fn nothing_changes_without_permission() {
    let mut b = Bench::new();
    b.change(&program(0, &[0x55]));
    // Not enabled; disabled again; too short, too long; not in whole bytes.
    b.command(&program(0, &[0]));
    b.command(&[0x06]);
    b.command(&[0x04]);
    b.command(&program(0, &[0]));
    b.command(&[0x06]);
    b.command(&with_address(0x02, 0));
    b.command(&[0x20, 0, 0]);
    b.command(&[0x20, 0, 0, 0, 0]);
    b.command(&[0xc7, 0]);
    assert_eq!(b.status(), 2);
    b.set(reg::CSMODE, chip_select::HOLD);
    for n in with_address(0x20, 0) {
        b.set(reg::TXDATA, n.into());
    }
    b.idle();
    b.set(reg::FMT, 0x0003_0000);
    b.set(reg::TXDATA, 0);
    b.idle();
    b.set(reg::CSMODE, AUTO);
    b.set(reg::FMT, 0x0008_0000);
    b.spi.received.clear();
    assert_eq!(b.status(), 2);
    // Unknown commands, and every byte for itself.
    b.command(&[0x38, 0, 0, 0]);
    for n in program(0, &[0]) {
        b.set(reg::TXDATA, n.into());
        b.idle();
    }
    b.spi.received.clear();
    assert_eq!(b.status(), 2);
    // Without chip select, or with another one.
    for (n, value) in [(reg::CSMODE, chip_select::OFF), (reg::CSID, 1)] {
        b.with(|d, cx| d.set(cx.now, n, value));
        b.set(reg::TXDATA, 0x04);
        b.idle();
        assert_eq!(b.get(reg::RXDATA), 0xff);
        b.set(n, 0);
    }
    assert_eq!(b.status(), 2);
    assert_eq!(b.contents(0, 1), [0x55]);
}

#[test]
fn software_can_select_by_the_pin() {
    let mut b = Bench::new();
    b.set(reg::CSMODE, chip_select::OFF);
    b.set(reg::CSDEF, 0);
    for n in [0x9f, 0, 0] {
        b.set(reg::TXDATA, n);
    }
    b.idle();
    assert_eq!([0; 3].map(|_| b.get(reg::RXDATA)), [0xff, 0xef, 0x40]);
    b.set(reg::CSDEF, 1);
    b.set(reg::TXDATA, 0);
    b.idle();
    assert_eq!(b.get(reg::RXDATA), 0xff);
    // In the middle of a byte the command is lost.
    b.set(reg::CSDEF, 0);
    b.set(reg::TXDATA, 0x06);
    b.set(reg::CSDEF, 1);
    b.idle();
    b.get(reg::RXDATA);
    assert_eq!(b.status(), 0);
}

#[test]
fn the_lowest_bit_may_come_first() {
    let mut b = Bench::new();
    b.set(reg::FMT, 0x0008_0000 | format::LITTLE);
    let back = b.command(&[0x9fu8.reverse_bits(), 0, 0]);
    assert_eq!(back[1..], [0xefu8, 0x40].map(u8::reverse_bits));
}

#[test]
fn operations_take_their_time() {
    let us = 1_000_000;
    for (bytes, takes) in [
        (program(0, &[0]), 400 * us),
        (with_address(0x20, 0), 45_000 * us),
        (with_address(0x52, 0), 120_000 * us),
        (with_address(0xd8, 0), 150_000 * us),
        (vec![0x60], 40_000_000 * us),
    ] {
        // The status is that at the beginning of its byte: behind chip select and the opcode.
        let ahead = (1 + 8) * 8 * CYCLE;
        for (before, command, expected) in [
            (ahead + CYCLE, 0x05, 3),
            (ahead, 0x05, 0),
            // Other commands are ignored while it is busy when they begin.
            (8 * CYCLE + CYCLE, 0x9f, 0xff),
            (8 * CYCLE, 0x9f, ID[0]),
        ] {
            let mut b = Bench::new();
            b.command(&[0x06]);
            b.command(&bytes);
            // The flash is deselected a period of SCK behind the last bit.
            let ends = b.now + 8 * CYCLE + takes;
            b.now = ends - before;
            assert_eq!(b.command(&[command, 0])[1], expected, "{bytes:?}");
        }
    }
}

#[test]
fn contents_survive_a_reset() {
    let mut b = Bench::new();
    b.change(&program(0x4_0000, b"keep"));
    b.command(&[0x06]);
    b.command(&program(0x5_0000, b"ended"));
    b.set(reg::TXDATA, 1);
    b.set(reg::SCKDIV, 0);
    b.with(|d, cx| d.reset(cx));
    assert_eq!(b.spi.next_event(), None);
    assert_eq!(b.get(reg::SCKDIV), 3);
    assert_eq!(b.status(), 0);
    assert_eq!(b.contents(0x4_0000, 4), b"keep");
    assert_eq!(b.contents(0x5_0000, 5), b"ended");
}

#[test]
fn states_of_something_else_are_refused() {
    let mut b = Bench::new();
    b.change(&program(0, &[1]));
    b.set(reg::CSMODE, chip_select::HOLD);
    b.set(reg::TXDATA, 0x02);
    b.idle();
    b.set(reg::TXDATA, 0);
    let good = b.spi.save();
    spi().load(&good).unwrap();
    let huge = serde_json::json!(u32::MAX);
    for (path, value) in [
        ("/regs/0", huge.clone()),
        ("/regs/1", huge.clone()),
        ("/regs", serde_json::json!([0])),
        ("/send", serde_json::json!(vec![0; 9])),
        ("/received", serde_json::json!(vec![0; 9])),
        ("/frame/format", huge.clone()),
        ("/frame/period", huge.clone()),
        ("/flash/pages/0/0", serde_json::json!(SIZE / PAGE as u32)),
        ("/flash/pages/0/1", serde_json::json!("AAAA")),
        ("/flash/pages/0/1", serde_json::json!("?")),
        ("/flash/transfer/command", serde_json::json!(99)),
        ("/flash/transfer/address", huge.clone()),
        ("/flash/transfer/bits", serde_json::json!(0)),
        ("/flash/transfer/bits", serde_json::json!(u64::MAX)),
    ] {
        let mut bad = good.clone();
        *bad.data.pointer_mut(path).unwrap() = value;
        let e = spi().load(&bad).unwrap_err();
        assert!(matches!(e, StateError::Content { .. }), "{path}: {e}");
    }
}

proptest! {
    /// Any writes, with opcodes of the flash among them: no panic, no event that stays, and the same after a restore
    /// at any place.
    #[test]
    fn any_accesses_go_on_the_same_after_a_restore(
        accesses in prop::collection::vec(
            (
                prop_oneof![0usize..0x22, Just(reg::TXDATA), Just(reg::CSMODE), Just(reg::CSDEF)],
                prop_oneof![
                    any::<u32>(),
                    prop::sample::select(vec![0u32, 2, 3, 5, 6, 0x9f, 0x20, 0x5a, 0xc7, 0x0008_0000]),
                ],
                any::<bool>(),
                0u64..3_000_000,
            ),
            0..120,
        ),
        cut in 0usize..120,
    ) {
        let mut whole = Bench::new();
        let mut parts = Bench::new();
        for (n, &(register, value, writes, wait)) in accesses.iter().enumerate() {
            if n == cut {
                let state = parts.spi.save();
                parts.spi = spi();
                parts.spi.load(&state).unwrap();
                prop_assert_eq!(parts.spi.save(), state);
            }
            let seen = [&mut whole, &mut parts].map(|b| {
                b.run(b.now + wait);
                let value = if writes {
                        b.set(register, value);
                        0
                    } else { b.get(register) };
                (value, b.wires.irq_levels)
            });
            prop_assert_eq!(seen[0], seen[1]);
            prop_assert_eq!(whole.spi.next_event(), parts.spi.next_event());
        }
        whole.idle();
        parts.idle();
        prop_assert_eq!(whole.spi.save(), parts.spi.save());
    }
}
