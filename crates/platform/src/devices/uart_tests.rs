use super::*;
use crate::clock::Ps;
use crate::device::Wires;
use nagori_ram::GuestRam;
use std::sync::Arc;

const IRQ: u32 = 10;

struct Bench {
    uart: Uart,
    wires: Wires,
}

impl Bench {
    fn new() -> Bench {
        let ram = Arc::new(GuestRam::new(4096).unwrap());
        let wires = Wires {
            ram,
            ram_base: 0,
            dma_writes: Vec::new(),
            transfers_cost: false,
            transfers: Vec::new(),
            deeds: Default::default(),
            irq_levels: 0,
            hart_lines: vec![0],
            power: None,
            iomap: None,
        };
        Bench {
            uart: Uart::new(),
            wires,
        }
    }

    fn cx(wires: &mut Wires) -> DeviceCx<'_> {
        DeviceCx {
            now: Ps::ZERO,
            hart: Some(0),
            irq: Some(IRQ),
            wires,
        }
    }

    fn r(&mut self, offset: u64) -> u8 {
        self.uart
            .read(&mut Self::cx(&mut self.wires), offset, 1)
            .unwrap() as u8
    }

    fn w(&mut self, offset: u64, value: u8) {
        self.uart
            .write(&mut Self::cx(&mut self.wires), offset, 1, value.into())
            .unwrap();
    }

    fn input(&mut self, bytes: &[u8]) {
        self.uart.push_input(&mut Self::cx(&mut self.wires), bytes);
    }

    fn irq(&self) -> bool {
        self.wires.irq_levels & 1 << IRQ != 0
    }
}

#[test]
fn output_reaches_the_host_at_once() {
    let mut b = Bench::new();
    for &c in b"hi\n" {
        assert_eq!(b.r(5) & 0x60, 0x60, "the transmitter is always empty");
        b.w(0, c);
    }
    assert_eq!(b.uart.take_output(), b"hi\n");
    assert!(!b.uart.has_output());
}

#[test]
fn the_empty_interrupt_comes_when_enabled_and_after_every_byte() {
    let mut b = Bench::new();
    b.w(0, b'x');
    assert!(!b.irq());
    assert_eq!(b.r(2), 1);
    // Enabling it while the register is empty raises it.
    b.w(1, 2);
    assert!(b.irq());
    assert_eq!(b.r(2), 2);
    assert!(!b.irq(), "reading IIR has cleared it");
    assert_eq!(b.r(2), 1);
    b.w(0, b'y');
    assert!(b.irq());
    b.w(1, 0);
    assert!(!b.irq());
    // Off and on again, as in the kernel's test for broken chips.
    b.w(1, 2);
    assert_eq!(b.r(2), 2);
    b.w(1, 2);
    assert_eq!(b.r(2), 1, "it was on already");
}

#[test]
fn the_receiver_has_priority_over_the_transmitter() {
    let mut b = Bench::new();
    b.w(1, 3);
    b.input(b"a");
    assert_eq!(b.r(2), 4);
    assert_eq!(b.r(2), 4, "reading IIR does not clear it");
    assert_eq!(b.r(5) & 1, 1);
    assert_eq!(b.r(0), b'a');
    assert_eq!(b.r(5) & 1, 0);
    assert_eq!(b.r(2), 2);
    assert!(!b.irq());
    assert_eq!(b.r(0), 0, "empty");
}

#[test]
fn fifo_levels_and_timeout() {
    let mut b = Bench::new();
    b.w(2, 0x81);
    b.w(1, 1);
    b.input(&[7; 7]);
    assert_eq!(b.r(2), 0xcc, "below the level of 8: timeout");
    b.input(&[8; 20]);
    assert_eq!(b.r(2), 0xc4);
    assert_eq!(b.uart.state.rx.len(), 16);
    assert_eq!(b.uart.input_pending(), 27);
    let mut got = Vec::new();
    while b.r(5) & 1 != 0 {
        got.push(b.r(0));
    }
    assert_eq!(got, [vec![7; 7], vec![8; 20]].concat());
    assert!(!b.irq());
    b.input(b"x");
    b.w(2, 0x03);
    assert_eq!(b.r(5) & 1, 0, "the FIFO was cleared");
    b.w(2, 0);
    assert_eq!(b.r(2) & 0xc0, 0);
}

#[test]
fn divisor_scratch_and_loopback() {
    let mut b = Bench::new();
    b.w(3, 0x83);
    b.w(0, 0x12);
    b.w(1, 0x34);
    assert_eq!((b.r(0), b.r(1)), (0x12, 0x34));
    b.w(3, 0x03);
    assert_eq!((b.r(0), b.r(1), b.r(3)), (0, 0, 3));
    b.w(7, 0x5a);
    assert_eq!(b.r(7), 0x5a);
    assert_eq!(b.r(6), 0xb0, "carrier, ready, clear to send");
    b.w(4, 0x1a);
    assert_eq!(b.r(6) & 0xf0, 0x90, "the kernel's loopback test");
    b.w(0, b'l');
    assert!(!b.uart.has_output());
    assert_eq!(b.r(0), b'l');
    b.w(0, 1);
    b.w(0, 2);
    b.w(1, 4);
    assert_eq!(b.r(2), 6, "overrun");
    assert_eq!(b.r(5) & 2, 2);
    assert_eq!(b.r(5) & 2, 0, "reading it clears it");
    assert_eq!(b.r(0), 1);
}

#[test]
fn reset_keeps_what_is_on_the_line() {
    let mut b = Bench::new();
    b.w(1, 3);
    b.w(0, b'o');
    b.input(b"in");
    b.uart.reset(&mut Bench::cx(&mut b.wires));
    assert_eq!(b.r(1), 0);
    assert!(!b.irq());
    assert_eq!(b.uart.take_output(), b"o");
    assert_eq!(b.uart.input_pending(), 1, "the byte in the FIFO is lost");
}

#[test]
fn double_words_are_faults() {
    let mut b = Bench::new();
    let e = b.uart.read(&mut Bench::cx(&mut b.wires), 0, 8).unwrap_err();
    assert_eq!(
        e.to_string(),
        "uart16550a has no access of 8 bytes at offset 0x0"
    );
    assert_eq!(b.uart.read(&mut Bench::cx(&mut b.wires), 4, 4), Ok(0));
}

/// A patient line, with the FIFO set up as drivers do.
fn patient(input: &[u8]) -> Bench {
    let mut b = Bench::new();
    b.uart.set_patient(true);
    b.input(input);
    b.w(2, 0x01);
    b
}

#[test]
fn a_patient_line_waits_for_the_receive_interrupt() {
    let mut b = patient(b"0123456789abcdefgh");
    assert_eq!(b.r(5) & 1, 0);
    // A driver that starts clears the FIFO, reads remaining data, and sends its banner.
    b.w(2, 0x07);
    assert_eq!(b.r(0), 0);
    for _ in 0..100 {
        assert_eq!(b.r(5) & 0x61, 0x60);
        b.w(0, b'x');
    }
    b.w(1, 1);
    assert!(b.irq());
    assert_eq!((b.uart.state.rx.len(), b.r(0)), (16, b'0'));
    // Data that a driver discards unread is delivered again; while it has no interrupts enabled,
    // nothing is delivered.
    b.w(1, 0);
    b.w(2, 0x03);
    assert_eq!(b.r(5) & 1, 0);
    b.w(1, 1);
    let got: Vec<u8> = std::iter::from_fn(|| (b.r(5) & 1 != 0).then(|| b.r(0))).collect();
    assert_eq!(got, b"123456789abcdefgh");
}

#[test]
fn a_patient_line_feeds_a_guest_that_polls() {
    let mut b = patient(b"ab\ncd");
    let line = |b: &mut Bench| {
        let mut got = Vec::new();
        while got.last() != Some(&b'\n') {
            let polls = (0..20).take_while(|_| b.r(5) & 1 == 0).count();
            assert!(polls < 20, "nothing comes");
            let byte = b.r(0);
            // The echo.
            assert_ne!(b.r(5) & 0x20, 0);
            b.w(0, byte);
            got.push(byte);
        }
        got
    };
    assert_eq!(line(&mut b), b"ab\n");
    // Firmware that prints much in between and then hands over to a driver does not lose any input.
    for _ in 0..100 {
        assert_eq!(b.r(5) & 0x61, 0x60);
        b.w(0, b'x');
    }
    assert_eq!(b.uart.state.rx.len(), 0);
    b.w(2, 0x07);
    b.w(1, 1);
    assert_eq!((b.r(0), b.r(0), b.r(5) & 1), (b'c', b'd', 0));
    // The other input path of the guest gets the remaining data.
    b.w(1, 0);
    b.input(b"xyz");
    assert_eq!(b.uart.take_input(2), b"xy");
    assert_eq!(b.uart.input_pending(), 1);
}

#[test]
fn looped_bytes_are_not_sent_again() {
    let mut b = patient(b"i");
    b.w(4, 0x10);
    b.w(0, b'l');
    b.w(2, 0x03);
    b.w(4, 0);
    b.w(1, 1);
    assert_eq!((b.r(0), b.r(5) & 1), (b'i', 0));
}
