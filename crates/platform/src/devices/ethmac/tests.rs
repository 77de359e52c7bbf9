use super::*;
use crate::device::Wires;
use nagori_ram::GuestRam;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const BASE: u64 = 0x8000_0000;
const MAC: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];
/// 100 Mbit/s.
const BYTE: u64 = 80_000;
const IRQ: u32 = 5;

/// Both ends of a cable: what the MAC sent, with the time, and what it is to get.
#[derive(Default)]
struct Cable {
    sent: Vec<(Duration, Vec<u8>)>,
    coming: VecDeque<Frame>,
}

struct Other(Arc<Mutex<Cable>>, std::fs::File);

impl Link for Other {
    fn name(&self) -> &'static str {
        "test"
    }
    fn is_up(&self) -> bool {
        true
    }
    fn is_ready(&self) -> bool {
        true
    }
    fn send(&mut self, now: Duration, frame: Frame) {
        self.0.lock().unwrap().sent.push((now, frame.bytes));
    }
    fn run(&mut self, _: Duration) {}
    fn poll(&mut self, _: Duration) -> Result<(), Error> {
        Ok(())
    }
    fn receive(&mut self) -> Option<Frame> {
        self.0.lock().unwrap().coming.pop_front()
    }
    fn next_time(&mut self, _: Duration) -> Option<Duration> {
        None
    }
    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
    fn is_live(&self, _: Duration) -> bool {
        false
    }
    fn set_guest(&mut self, _: Guest) {}
    fn reset(&mut self) {}
}

struct Bench {
    device: RefCell<Ethmac>,
    wires: RefCell<Wires>,
    now: RefCell<u64>,
    cable: Arc<Mutex<Cable>>,
}

fn bench() -> Rc<Bench> {
    let b = Bench {
        device: RefCell::new(Ethmac::new("net0".into(), MAC, 20_000)),
        wires: RefCell::new(Wires {
            ram: Arc::new(GuestRam::new(1 << 20).unwrap()),
            ram_base: BASE,
            dma_writes: Vec::new(),
            transfers_cost: false,
            transfers: Vec::new(),
            deeds: Default::default(),
            irq_levels: 0,
            hart_lines: vec![0],
            power: None,
            iomap: None,
        }),
        now: RefCell::new(0),
        cable: Arc::default(),
    };
    let link = Other(b.cable.clone(), std::fs::File::open("/dev/null").unwrap());
    b.with(|d, cx| d.connect(cx, Box::new(link)));
    Rc::new(b)
}

impl Bench {
    fn with<R>(&self, f: impl FnOnce(&mut Ethmac, &mut DeviceCx<'_>) -> R) -> R {
        let mut wires = self.wires.borrow_mut();
        let mut cx = DeviceCx {
            now: Ps(*self.now.borrow()),
            hart: None,
            irq: Some(IRQ),
            wires: &mut wires,
        };
        f(&mut self.device.borrow_mut(), &mut cx)
    }

    fn r(&self, offset: u64) -> u32 {
        self.with(|d, cx| d.read(cx, offset, 4)).unwrap() as u32
    }

    fn w(&self, offset: u64, value: u32) {
        self.with(|d, cx| d.write(cx, offset, 4, value.into()))
            .unwrap();
    }

    /// Lets events happen until a time.
    fn until(&self, ps: u64) {
        loop {
            let next = self.device.borrow().next_event();
            match next.filter(|t| t.0 <= ps) {
                Some(t) => {
                    let now = t.0.max(*self.now.borrow());
                    *self.now.borrow_mut() = now;
                    self.with(|d, cx| d.on_time(cx));
                }
                None => break,
            }
        }
        *self.now.borrow_mut() = ps;
    }

    fn irq(&self) -> bool {
        self.wires.borrow().irq_levels >> IRQ & 1 != 0
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.wires
            .borrow()
            .ram
            .write_bytes(at - BASE, bytes)
            .unwrap();
    }

    fn get(&self, at: u64, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        self.wires
            .borrow()
            .ram
            .read_bytes(at - BASE, &mut out)
            .unwrap();
        out
    }

    fn come(&self, bytes: &[u8]) {
        self.cable
            .lock()
            .unwrap()
            .coming
            .push_back(Frame::plain(bytes.to_vec()));
        self.with(|d, cx| d.poll(cx));
    }
}

const MODER: u64 = 0;
const SOURCE: u64 = 4;
const MASK: u64 = 8;
const PACKETLEN: u64 = 0x18;
const TX_BD: u64 = 0x20;

fn bd(n: u64) -> u64 {
    0x400 + 8 * n
}

fn frame(to: [u8; 6], length: usize) -> Vec<u8> {
    let mut f: Vec<u8> = (0..length).map(|i| i as u8).collect();
    f[..6].copy_from_slice(&to);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    f[12..14].copy_from_slice(&[0x88, 0xb5]);
    f
}

#[test]
fn registers_have_their_values_after_reset_and_only_their_bits() {
    let b = bench();
    let reset = [
        0xa000, 0, 0, 0x12, 0x0c, 0x12, 0x40_0600, 0xf_003f, 0x40, 0, 0x64,
    ];
    for (i, v) in reset.into_iter().enumerate() {
        assert_eq!(b.r(4 * i as u64), v, "register {i}");
    }
    assert_eq!([b.r(0x40), b.r(0x44)], [0x0001_0203, 0x5254]);
    b.w(MASK, !0);
    assert_eq!(b.r(MASK), 0x7f);
    b.w(TX_BD, 0x81);
    assert_eq!(b.r(TX_BD), 0x40, "more than there are");
    b.w(TX_BD, 0x80);
    assert_eq!(b.r(TX_BD), 0x80);
    let wide = b.with(|d, cx| d.read(cx, 0, 8));
    assert!(wide.is_err());
}

#[test]
fn a_frame_takes_its_time_on_the_wire() {
    let b = bench();
    let f = frame([0xff; 6], 100);
    b.put(BASE + 0x1000, &f);
    b.w(MASK, 1);
    b.w(0x0c, 0x15);
    for n in 0..2 {
        b.w(bd(n) + 4, (BASE + 0x1000) as u32);
        let wrap = if n == 1 { bit::WRAP } else { 0 };
        b.w(bd(n), 100 << 16 | bit::OWNED | bit::IRQ | bit::CRC | wrap);
    }
    b.w(MODER, 0x2402 | mode::PAD);
    let one = (8 + 100 + 4) * BYTE;
    b.until(one - 1);
    assert!(!b.irq() && b.r(bd(0)) & bit::OWNED != 0);
    b.until(one);
    assert!(b.irq());
    assert_eq!(b.r(bd(0)) & (bit::OWNED | bit::SENT), 0);
    assert_eq!(b.r(SOURCE), 1);
    b.w(SOURCE, 1);
    assert!(!b.irq());
    // The gap of 0.96 us, then the next one.
    let gap = 960_000;
    b.until(2 * one + gap - 1);
    assert!(!b.irq());
    b.until(2 * one + gap);
    assert!(b.irq());
    let cable = b.cable.lock().unwrap();
    assert_eq!(cable.sent.len(), 2);
    assert_eq!(cable.sent[0], (Duration::from_nanos(one / 1000), f));
    drop(cable);
    assert_eq!(b.device.borrow().traffic().sent_bytes, 200);
}

#[test]
fn an_access_that_comes_late_sees_what_was_due_at_its_own_time() {
    // A program runs with and without events of the machine in between.
    let run = |events: bool| {
        let b = bench();
        b.put(BASE + 0x1000, &frame([0xff; 6], 60));
        for n in 0..4 {
            b.w(bd(n) + 4, (BASE + 0x1000) as u32);
            b.w(bd(n), 60 << 16 | bit::OWNED | bit::IRQ);
        }
        b.w(MODER, 0x2402);
        if events {
            b.until(100_000_000)
        } else {
            *b.now.borrow_mut() = 100_000_000
        }
        b.r(SOURCE);
        let sent = &b.cable.lock().unwrap().sent;
        sent.iter().map(|s| s.0).collect::<Vec<_>>()
    };
    assert_eq!(run(true).len(), 4);
    assert_eq!(run(true), run(false));
}

#[test]
fn short_frames_are_padded_and_wrong_sums_are_lost() {
    let b = bench();
    b.put(BASE + 0x1000, &frame([0xff; 6], 20));
    b.w(bd(0) + 4, (BASE + 0x1000) as u32);
    b.w(bd(0), 20 << 16 | bit::OWNED | bit::PAD | bit::CRC);
    b.w(MODER, 0x402);
    b.until(10_000_000);
    assert_eq!(b.cable.lock().unwrap().sent[0].1.len(), 60);
    // A sum of the driver's own: right, then wrong.
    let mut own = frame([0xff; 6], 60);
    own.extend(crc32fast::hash(&own).to_le_bytes());
    for broken in [false, true] {
        own[63] ^= u8::from(broken);
        b.put(BASE + 0x1000, &own);
        let n = 1 + u64::from(broken);
        b.w(bd(n) + 4, (BASE + 0x1000) as u32);
        b.w(bd(n), 64 << 16 | bit::OWNED);
        let now = *b.now.borrow();
        b.until(now + 10_000_000);
    }
    assert_eq!(b.cable.lock().unwrap().sent.len(), 2);
    assert_eq!(b.cable.lock().unwrap().sent[1].1, own[..60]);
    assert_eq!(b.device.borrow().traffic().dropped_frames, 1);
}

#[test]
fn received_frames_fill_buffers_in_order_until_there_are_none() {
    let b = bench();
    b.w(TX_BD, 2);
    b.w(MASK, 0x7f);
    for n in 2..4 {
        b.w(bd(n) + 4, (BASE + 0x1000 * n) as u32);
        b.w(
            bd(n),
            bit::OWNED | bit::IRQ | if n == 3 { bit::WRAP } else { 0 },
        );
    }
    b.w(MODER, 0x2401);
    for length in [60, 200, 60] {
        b.come(&frame(MAC, length));
    }
    let first = (8 + 64) * BYTE;
    b.until(first - 1);
    assert!(!b.irq());
    b.until(first);
    assert!(b.irq());
    assert_eq!(b.r(bd(2)) >> 16, 64);
    assert_eq!(b.r(bd(2)) & (bit::OWNED | bit::RECEIVED), 0);
    let mut expected = frame(MAC, 60);
    expected.extend(crc32fast::hash(&expected).to_le_bytes());
    assert_eq!(b.get(BASE + 0x2000, 64), expected);
    b.until(100_000_000);
    assert_eq!(b.r(bd(3)) >> 16, 204);
    assert_eq!(b.r(SOURCE), interrupt::RECEIVED | interrupt::BUSY);
    let t = b.device.borrow().traffic();
    assert_eq!(
        (t.received_frames, t.dropped_frames),
        (2, 1),
        "each frame is counted somewhere"
    );
}

#[test]
fn addresses_decide_who_gets_a_frame() {
    let group = [0x33, 0x33, 0, 0, 0, 0xfb];
    let bit_of = filter::hash_bit(&group);
    let mut hash = [0; 2];
    hash[(bit_of / 32) as usize] = 1u32 << (bit_of % 32);
    use Accepted::*;
    for (to, mode, expected) in [
        (MAC, 0, Yes),
        ([2, 0, 0, 0, 0, 1], 0, No),
        ([2, 0, 0, 0, 0, 1], 1 << 5, ForAll),
        ([0xff; 6], 0, Yes),
        ([0xff; 6], 1 << 3, No),
        (group, 0, Yes),
        ([0x33, 0x33, 0, 0, 0, 0xfc], 0, No),
    ] {
        assert_eq!(
            filter::accepts(&frame(to, 60), mode, &MAC, hash),
            expected,
            "{to:x?} {mode:#x}"
        );
    }
    // Linux' ether_crc of 01:00:5e:00:00:01, whose six high bits many drivers use.
    assert_eq!(
        filter::hash_bit(&[0x01, 0x00, 0x5e, 0, 0, 0x01]),
        ether_crc(&[0x01, 0x00, 0x5e, 0, 0, 1]) >> 26
    );
}

/// The sum bit by bit, as the hardware shifts it.
fn ether_crc(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        for i in 0..8 {
            let bit = crc >> 31 ^ u32::from(byte >> i & 1);
            crc = crc << 1 ^ if bit != 0 { 0x04c1_1db7 } else { 0 };
        }
    }
    crc
}

#[test]
fn too_long_frames_are_cut_and_marked() {
    let b = bench();
    b.w(PACKETLEN, 0x0040_0064);
    b.w(bd(64) + 4, (BASE + 0x1000) as u32);
    b.w(bd(64), bit::OWNED | bit::IRQ);
    b.w(MODER, 0x2401);
    b.come(&frame(MAC, 200));
    b.until(100_000_000);
    assert_eq!(b.r(bd(64)) & bit::TOO_LONG, bit::TOO_LONG);
    assert_eq!(b.r(SOURCE), interrupt::RECEIVE_ERROR);
    assert_eq!(
        b.get(BASE + 0x1000, 101)[100],
        0,
        "no byte beyond the limit"
    );
}

#[test]
fn buffers_outside_of_memory_are_errors_of_the_descriptor() {
    let b = bench();
    b.w(bd(0) + 4, 0x100);
    b.w(bd(0), 60 << 16 | bit::OWNED | bit::IRQ);
    b.w(bd(64) + 4, 0xffff_fff0);
    b.w(bd(64), bit::OWNED | bit::IRQ);
    b.w(MODER, 0x2403);
    b.come(&frame(MAC, 60));
    b.until(100_000_000);
    assert_eq!(b.r(bd(0)) & bit::UNDERRUN, bit::UNDERRUN);
    assert_eq!(b.r(bd(64)) & bit::OVERRUN, bit::OVERRUN);
    assert_eq!(
        b.r(SOURCE),
        interrupt::SEND_ERROR | interrupt::RECEIVE_ERROR
    );
    assert!(b.cable.lock().unwrap().sent.is_empty());
}

#[test]
fn the_serial_interface_finds_one_transceiver() {
    let b = bench();
    let read = |address: u32, register: u32| {
        b.w(0x30, register << 8 | address);
        b.w(0x2c, mii::READ);
        let begun = *b.now.borrow();
        // 64 bits, at a hundredth of 50 MHz.
        let takes = 64 * 0x64 * 20_000;
        b.until(begun + takes - 1);
        assert_eq!(b.r(0x3c) & mii::BUSY, mii::BUSY);
        b.until(begun + takes);
        assert_eq!(b.r(0x3c) & mii::BUSY, 0);
        b.r(0x38)
    };
    assert_eq!(read(1, 2), 0xffff);
    assert_eq!([read(0, 2), read(0, 3)], [0x2000, 0x5c90]);
    assert_eq!(read(0, 1) & 4, 0, "it latches that the link was down");
    assert_eq!(read(0, 1), 0x782d);
    assert_eq!(read(0, 5), 0x41e1);
    // 10 Mbit/s without negotiation.
    b.w(0x30, 0);
    b.w(0x34, 0x0100);
    b.w(0x2c, mii::WRITE);
    let now = *b.now.borrow();
    b.until(now + 200_000_000);
    assert_eq!(b.device.borrow().state.phy.byte_ps(), 800_000);
}

#[test]
fn loopback_and_pauses() {
    let b = bench();
    b.put(BASE + 0x1000, &frame(MAC, 60));
    b.w(bd(64) + 4, (BASE + 0x2000) as u32);
    b.w(bd(64), bit::OWNED);
    b.w(bd(0) + 4, (BASE + 0x1000) as u32);
    b.w(bd(0), 60 << 16 | bit::OWNED | bit::CRC);
    b.w(MODER, 0x2403 | mode::LOOPBACK);
    b.until(100_000_000);
    assert_eq!(b.get(BASE + 0x2000, 60), frame(MAC, 60));
    assert!(b.cable.lock().unwrap().sent.is_empty());

    // The partner asks for ten units of 512 bit times.
    b.w(MODER, 0x2403);
    b.w(0x24, 2);
    b.come(&filter::pause(&[2; 6], 10));
    let came = 100_000_000 + (8 + 64) * BYTE;
    b.until(came);
    assert_eq!(
        b.r(SOURCE) & interrupt::CONTROL_RECEIVED,
        interrupt::CONTROL_RECEIVED
    );
    b.w(bd(0), 60 << 16 | bit::OWNED | bit::CRC | bit::WRAP);
    // The next descriptor is the second one: the first has been sent.
    b.w(bd(1) + 4, (BASE + 0x1000) as u32);
    b.w(bd(1), 60 << 16 | bit::OWNED | bit::CRC | bit::WRAP);
    let ends = came + 10 * 64 * BYTE + (8 + 64) * BYTE;
    b.until(ends - 1);
    assert!(b.cable.lock().unwrap().sent.is_empty());
    b.until(ends);
    assert_eq!(b.cable.lock().unwrap().sent.len(), 1);

    // And is asked for a pause.
    b.w(bd(0), 0);
    b.w(0x24, 4);
    b.w(0x50, PAUSE_REQUEST | 7);
    b.until(ends + 100_000_000);
    let sent = b.cable.lock().unwrap().sent.last().unwrap().1.clone();
    assert_eq!(filter::paused(&sent), Some(7));
    assert_eq!(
        b.r(SOURCE) & interrupt::CONTROL_SENT,
        interrupt::CONTROL_SENT
    );
}

#[test]
fn a_saved_state_goes_on_to_the_picosecond() {
    let run = |split: Option<u64>| {
        let mut b = bench();
        b.put(BASE + 0x1000, &frame([0xff; 6], 300));
        b.w(bd(0) + 4, (BASE + 0x1000) as u32);
        b.w(bd(0), 300 << 16 | bit::OWNED | bit::CRC | bit::WRAP);
        b.w(MODER, 0x2402);
        if let Some(at) = split {
            b.until(at);
            let saved = b.device.borrow().save();
            let other = bench();
            *other.now.borrow_mut() = at;
            other.device.borrow_mut().load(&saved).unwrap();
            b = other;
        }
        b.until(100_000_000);
        let sent = &b.cable.lock().unwrap().sent;
        sent.iter().map(|s| s.0).collect::<Vec<_>>()
    };
    let whole = run(None);
    assert_eq!(whole.len(), 1);
    for at in [1, 10_000_000, 24_959_999] {
        assert_eq!(run(Some(at)), whole, "{at}");
    }
    let b = bench();
    let mut saved = b.device.borrow().save();
    saved.data["regs"] = serde_json::json!([1, 2]);
    assert!(b.device.borrow_mut().load(&saved).is_err());
}

proptest::proptest! {
    /// Whatever a driver writes, nothing panics, and every frame is counted once.
    #[test]
    fn no_driver_breaks_it(writes in proptest::collection::vec((0u64..0x300, 0u32.., 0u64..3_000_000), 1..60)) {
        let b = bench();
        let mut came = 0;
        for (at, value, later) in writes {
            b.w(at * 4, value);
            if value & 7 == 1 {
                b.come(&frame(MAC, 60 + (value >> 3 & 0x3ff) as usize));
                came += 1;
            }
            let now = *b.now.borrow();
            b.until(now + later * 100);
        }
        let t = b.device.borrow().traffic();
        proptest::prop_assert!(t.received_frames + t.dropped_frames <= came + t.sent_frames + 128 * 60);
    }
}

/// Times and addresses of what was transferred on the bus, and whether memory was written.
fn transfers(b: &Bench) -> Vec<(u64, u64, bool)> {
    let of = |t: &crate::device::DmaTransfer| (t.at.0, t.addr, t.write);
    b.wires.borrow().transfers.iter().map(of).collect()
}

#[test]
fn lines_pass_the_bus_while_their_frame_is_on_the_wire() {
    let b = bench();
    b.wires.borrow_mut().transfers_cost = true;
    let at = BASE + 0x1030;
    let f = frame([0xff; 6], 100);
    b.put(at, &f);
    b.w(bd(0) + 4, at as u32);
    b.w(bd(0), 100 << 16 | bit::OWNED | bit::CRC);
    b.w(bd(0x40) + 4, (BASE + 0x2002) as u32);
    b.w(bd(0x40), bit::OWNED);
    b.w(MODER, 0x2402 | mode::LOOPBACK | mode::RECEIVE);
    let sent = [
        (0, at),
        (16 * BYTE, BASE + 0x1040),
        (80 * BYTE, BASE + 0x1080),
    ];
    let sent = sent.map(|(t, a)| (t, a, false));
    b.until(80 * BYTE);
    assert_eq!(transfers(&b), sent);
    // With its check sequence, from the third byte of a line on.
    let begins = (8 + 104) * BYTE;
    b.until(3 * begins);
    let received = [(62, 0x2002), (104, 0x2040)];
    let received = received.map(|(n, a)| (begins + (8 + n) * BYTE, BASE + a, true));
    assert_eq!(transfers(&b)[3..], received);
    assert_eq!(b.get(BASE + 0x2002, 100), f);
}

#[test]
fn impossible_transfers_are_not_loaded() {
    let b = bench();
    b.wires.borrow_mut().transfers_cost = true;
    b.put(BASE + 0x1000, &frame([0xff; 6], 100));
    b.w(bd(0) + 4, (BASE + 0x1000) as u32);
    b.w(bd(0), 100 << 16 | bit::OWNED | bit::CRC);
    b.w(MODER, 0x2402);
    let saved = b.device.borrow().save();
    assert_eq!(saved.data["sending"]["dma"]["from"], BASE + 0x1040);
    let mut fresh = Ethmac::new("net0".into(), MAC, 20_000);
    fresh.load(&saved).unwrap();
    for from in [0, BASE + 0x1064] {
        let mut wrong = saved.clone();
        wrong.data["sending"]["dma"]["from"] = from.into();
        assert!(fresh.load(&wrong).is_err(), "{from:#x}");
    }
}

#[test]
fn frames_for_others_and_frames_without_a_place_do_not_pass_the_bus() {
    let b = bench();
    b.wires.borrow_mut().transfers_cost = true;
    b.w(MODER, 0x2401);
    b.come(&frame([0xff; 6], 100));
    b.until(1_000 * BYTE);
    b.w(bd(0x40) + 4, (BASE + 0x2000) as u32);
    b.w(bd(0x40), bit::OWNED);
    b.come(&frame([2, 0, 0, 0, 0, 7], 100));
    b.until(2_000 * BYTE);
    assert_eq!(transfers(&b), []);
    b.come(&frame([0xff; 6], 100));
    b.until(3_000 * BYTE);
    assert_eq!(transfers(&b).len(), 2);
}

/// A driver as Linux' `ethoc`: rings of descriptors, which it looks at when an interrupt comes, or some time later, or
/// when something else makes it look. What it sends and receives is numbered.
struct Driver {
    b: Rc<Bench>,
    /// Descriptors for sending: the next free one, and the first that is not done.
    next: u64,
    first: u64,
    /// The next one for receiving.
    receive: u64,
    sent: u64,
    /// The number that is to be received at the earliest, how many came, and how many numbers were left out.
    expected: u64,
    received: u64,
    missing: u64,
}

impl Driver {
    const SENDS: u64 = 8;
    const RECEIVES: u64 = 16;

    fn new() -> Driver {
        let b = bench();
        b.w(TX_BD, Self::SENDS as u32);
        for n in 0..Self::SENDS + Self::RECEIVES {
            b.w(bd(n) + 4, (BASE + 0x1000 + 0x800 * n) as u32);
        }
        for n in 0..Self::RECEIVES {
            b.w(bd(Self::SENDS + n), Self::empty(n));
        }
        b.w(MODER, 0x2403);
        b.w(MASK, 0x7f);
        Driver {
            b,
            next: 0,
            first: 0,
            receive: 0,
            sent: 0,
            expected: 0,
            received: 0,
            missing: 0,
        }
    }

    fn empty(n: u64) -> u32 {
        let wrap = if n == Self::RECEIVES - 1 {
            bit::WRAP
        } else {
            0
        };
        bit::OWNED | bit::IRQ | wrap
    }

    fn numbered(to: [u8; 6], number: u64, length: usize) -> Vec<u8> {
        let mut f = frame(to, length);
        f[14..22].copy_from_slice(&number.to_le_bytes());
        f
    }

    /// Sends a frame, if there is a descriptor.
    fn send(&mut self, length: usize) -> bool {
        if self.next - self.first == Self::SENDS {
            return false;
        }
        let n = self.next % Self::SENDS;
        let at = BASE + 0x1000 + 0x800 * n;
        self.b
            .put(at, &Self::numbered([0xff; 6], self.sent, length));
        let wrap = if n == Self::SENDS - 1 { bit::WRAP } else { 0 };
        let flags = bit::OWNED | bit::IRQ | bit::CRC | wrap;
        self.b.w(bd(n), (length as u32) << 16 | flags);
        self.next += 1;
        self.sent += 1;
        true
    }

    /// Looks at the descriptors; `acknowledged`: it has cleared the sources before, not behind.
    fn look(&mut self, acknowledged: bool) {
        let clear = || self.b.w(SOURCE, self.b.r(SOURCE));
        if acknowledged {
            clear();
        }
        while self.first < self.next && self.b.r(bd(self.first % Self::SENDS)) & bit::OWNED == 0 {
            self.first += 1;
        }
        loop {
            let n = Self::SENDS + self.receive % Self::RECEIVES;
            let status = self.b.r(bd(n));
            if status & bit::OWNED != 0 {
                break;
            }
            let length = (status >> 16) as usize;
            let bytes = self.b.get(BASE + 0x1000 + 0x800 * n, length);
            let (frame, sum) = bytes.split_at(length - FCS);
            assert_eq!(sum, crc32fast::hash(frame).to_le_bytes());
            let number = u64::from_le_bytes(frame[14..22].try_into().unwrap());
            assert!(number >= self.expected, "{number} came twice or late");
            self.missing += number - self.expected;
            self.expected = number + 1;
            self.received += 1;
            self.b.w(bd(n), Self::empty(self.receive % Self::RECEIVES));
            self.receive += 1;
        }
        if !acknowledged {
            clear();
        }
    }
}

/// SplitMix64.
fn random(state: &mut u64) -> impl FnMut(u64) -> u64 + '_ {
    move |below| {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }
}

#[test]
fn a_million_frames_are_sent_received_or_counted_whenever_the_driver_looks() {
    const EACH: u64 = 500_000;
    let mut state = 1;
    let mut below = random(&mut state);
    let mut d = Driver::new();
    let (mut came, mut checked) = (0, 0);
    while d.sent < EACH || came < EACH {
        for _ in 0..below(4) {
            if d.sent < EACH {
                d.send(60 + below(8) as usize);
            }
        }
        for _ in 0..below(4).min(EACH - came) {
            d.b.come(&Driver::numbered(MAC, came, 60 + below(8) as usize));
            came += 1;
        }
        // Up to the time of some frames; sometimes much later.
        let long = if below(64) == 0 { 40 } else { 2 };
        let now = *d.b.now.borrow();
        d.b.until(now + below(long * 80 * BYTE));
        // An interrupt may be missed, and the driver may look for another reason.
        let looks = if d.b.irq() {
            below(4) != 0
        } else {
            below(8) == 0
        };
        if looks {
            d.look(below(2) == 0);
        }
        let mut cable = d.b.cable.lock().unwrap();
        for (_, bytes) in cable.sent.drain(..) {
            let number = u64::from_le_bytes(bytes[14..22].try_into().unwrap());
            assert_eq!(number, checked);
            checked += 1;
        }
    }
    for _ in 0..1000 {
        let now = *d.b.now.borrow();
        d.b.until(now + 1000 * BYTE);
        d.look(true);
    }
    checked += d.b.cable.lock().unwrap().sent.len() as u64;
    d.missing += EACH - d.expected;
    let t = d.b.device.borrow().traffic();
    assert_eq!((checked, d.first), (EACH, EACH));
    assert_eq!((t.sent_frames, t.received_frames), (EACH, d.received));
    assert_eq!(d.received + t.dropped_frames, EACH);
    assert_eq!(d.missing, t.dropped_frames);
    // Both happened.
    assert!(t.dropped_frames > 1000 && d.received > EACH / 2, "{t:?}");
}
