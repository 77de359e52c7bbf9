use super::super::Entropy;
use super::*;
use crate::clock::Ps;
use crate::device::Wires;
use nagori_ram::GuestRam;
use proptest::prelude::*;
use std::sync::Arc;

const BASE: u64 = 0x8000_0000;
const DESC: u64 = BASE + 0x1000;
const AVAIL: u64 = BASE + 0x2000;
const USED: u64 = BASE + 0x3000;
const DATA: u64 = BASE + 0x4000;

struct Bench {
    device: VirtioMmio<Entropy>,
    wires: Wires,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let ram = Arc::new(GuestRam::new(0x8000).unwrap());
        let wires = Wires {
            ram,
            ram_base: BASE,
            dma_writes: Vec::new(),
            irq_levels: 0,
            hart_lines: vec![0],
            power: None,
        };
        Bench {
            device: VirtioMmio::new(Entropy::new(seed)),
            wires,
        }
    }

    fn r(&mut self, offset: u64) -> u32 {
        let mut cx = DeviceCx {
            now: Ps::ZERO,
            hart: None,
            irq: Some(1),
            wires: &mut self.wires,
        };
        self.device.read(&mut cx, offset, 4).unwrap() as u32
    }

    fn w(&mut self, offset: u64, value: u32) {
        let mut cx = DeviceCx {
            now: Ps::ZERO,
            hart: None,
            irq: Some(1),
            wires: &mut self.wires,
        };
        self.device.write(&mut cx, offset, 4, value.into()).unwrap();
    }

    /// The driver's side of the initialisation.
    fn start(&mut self) {
        for status in [1, 3] {
            self.w(reg::STATUS, status);
        }
        self.w(reg::DRIVER_FEATURES_SEL, 1);
        self.w(reg::DRIVER_FEATURES, 1);
        self.w(reg::STATUS, 3 | STATUS_FEATURES_OK);
        assert_eq!(self.r(reg::STATUS), 3 | STATUS_FEATURES_OK);
        self.w(reg::QUEUE_NUM, 8);
        for (low, high, addr) in [
            (reg::QUEUE_DESC_LOW, reg::QUEUE_DESC_HIGH, DESC),
            (reg::QUEUE_AVAIL_LOW, reg::QUEUE_AVAIL_HIGH, AVAIL),
            (reg::QUEUE_USED_LOW, reg::QUEUE_USED_HIGH, USED),
        ] {
            self.w(low, addr as u32);
            self.w(high, (addr >> 32) as u32);
        }
        self.w(reg::QUEUE_READY, 1);
        self.w(reg::STATUS, 0xf);
    }

    fn put(&self, addr: u64, bytes: &[u8]) {
        self.wires.ram.write_bytes(addr - BASE, bytes).unwrap();
    }

    fn get<const N: usize>(&self, addr: u64) -> [u8; N] {
        let mut b = [0; N];
        self.wires.ram.read_bytes(addr - BASE, &mut b).unwrap();
        b
    }

    fn descriptor(&self, index: u64, addr: u64, len: u32, flags: u16, next: u16) {
        let mut d = addr.to_le_bytes().to_vec();
        d.extend(len.to_le_bytes());
        d.extend(flags.to_le_bytes());
        d.extend(next.to_le_bytes());
        self.put(DESC + 16 * index, &d);
    }

    fn offer(&self, slot: u64, head: u16, idx: u16) {
        self.put(AVAIL + 4 + 2 * slot, &head.to_le_bytes());
        self.put(AVAIL + 2, &idx.to_le_bytes());
    }
}

#[test]
fn a_request_is_filled_and_answered() {
    let mut b = Bench::new(1);
    assert_eq!([b.r(0), b.r(4), b.r(8)], [0x7472_6976, 2, 4]);
    assert_eq!(b.r(reg::QUEUE_NUM_MAX), 256);
    b.start();
    b.descriptor(0, DATA, 16, 1 | 2, 3);
    b.descriptor(3, DATA + 0x100, 16, 2, 0);
    b.offer(0, 0, 1);
    b.w(reg::QUEUE_NOTIFY, 0);
    assert_eq!(b.get::<2>(USED + 2), [1, 0]);
    assert_eq!(b.get::<8>(USED + 4), [0, 0, 0, 0, 32, 0, 0, 0]);
    assert_ne!(b.get::<16>(DATA), [0; 16]);
    assert_ne!(b.get::<16>(DATA), b.get::<16>(DATA + 0x100));
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 1);
    assert_eq!(b.wires.irq_levels, 1 << 1);
    let ranges: Vec<u64> = b.wires.dma_writes.iter().map(|r| r.addr).collect();
    assert_eq!(ranges, [DATA, DATA + 0x100, USED + 4, USED + 2]);
    b.w(reg::INTERRUPT_ACK, 1);
    assert_eq!(b.wires.irq_levels, 0);
    // Without new work nothing happens.
    b.w(reg::QUEUE_NOTIFY, 0);
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 0);
    // The driver may ask for silence.
    b.put(AVAIL, &[1, 0]);
    b.offer(1, 3, 2);
    b.w(reg::QUEUE_NOTIFY, 0);
    assert_eq!(b.get::<2>(USED + 2), [2, 0]);
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 0);
}

#[test]
fn the_seed_decides_and_a_loaded_device_goes_on() {
    let bytes = |b: &mut Bench, n: u16| {
        b.descriptor(0, DATA, 8, 2, 0);
        b.offer((u64::from(n) - 1) % 8, 0, n);
        b.w(reg::QUEUE_NOTIFY, 0);
        b.get::<8>(DATA)
    };
    let (mut a, mut same, mut other) = (Bench::new(1), Bench::new(1), Bench::new(2));
    for b in [&mut a, &mut same, &mut other] {
        b.start();
    }
    let first = bytes(&mut a, 1);
    assert_eq!(first, bytes(&mut same, 1));
    assert_ne!(first, bytes(&mut other, 1));
    let mut loaded = Bench::new(9);
    loaded.put(AVAIL, &a.get::<64>(AVAIL));
    loaded.device.load(&a.device.save()).unwrap();
    let second = bytes(&mut a, 2);
    assert_ne!(first, second);
    assert_eq!(second, bytes(&mut loaded, 2));
}

#[test]
fn a_driver_that_breaks_the_rules_is_told_to_reset() {
    let cases: [fn(&Bench); 6] = [
        |b| b.offer(0, 9, 1),
        |b| b.offer(0, 0, 9),
        |b| {
            b.descriptor(0, DATA, 8, 1 | 2, 0);
            b.offer(0, 0, 1);
        },
        |b| {
            b.descriptor(0, DATA, 8, 4, 0);
            b.offer(0, 0, 1);
        },
        |b| {
            b.descriptor(0, 0x1000, 8, 2, 0);
            b.offer(0, 0, 1);
        },
        |b| {
            b.descriptor(0, u64::MAX - 3, 8, 2, 0);
            b.offer(0, 0, 1);
        },
    ];
    for case in cases {
        let mut b = Bench::new(1);
        b.start();
        case(&b);
        b.w(reg::QUEUE_NOTIFY, 0);
        assert_eq!(b.r(reg::STATUS), 0xf | STATUS_NEEDS_RESET);
        assert_eq!(b.r(reg::INTERRUPT_STATUS), 2);
        b.w(reg::STATUS, 0);
        assert_eq!(
            (b.r(reg::STATUS), b.r(reg::QUEUE_READY), b.wires.irq_levels),
            (0, 0, 0)
        );
    }
}

#[test]
fn features_must_be_those_offered() {
    let mut b = Bench::new(1);
    b.w(reg::STATUS, 3 | STATUS_FEATURES_OK);
    assert_eq!(b.r(reg::STATUS), 3, "VERSION_1 is missing");
    b.w(reg::DRIVER_FEATURES, 1);
    b.w(reg::DRIVER_FEATURES_SEL, 1);
    b.w(reg::DRIVER_FEATURES, 1);
    b.w(reg::STATUS, 3 | STATUS_FEATURES_OK);
    assert_eq!(b.r(reg::STATUS), 3, "feature 0 was not offered");
    b.w(reg::QUEUE_SEL, 1);
    assert_eq!(b.r(reg::QUEUE_NUM_MAX), 0, "there is one queue");
    b.w(reg::QUEUE_NUM, 8);
    b.w(reg::QUEUE_READY, 1);
    assert_eq!(b.r(reg::QUEUE_READY), 0);
}

proptest! {
    /// Rings and descriptors full of random numbers, in place and overlapping.
    #[test]
    fn random_rings_never_panic(
        memory in prop::collection::vec(any::<u8>(), 0x100),
        places in prop::array::uniform3(0u64..0x8000),
        idx in 0u16..12,
        notifies in 1usize..4,
    ) {
        let mut b = Bench::new(1);
        b.start();
        b.w(reg::QUEUE_READY, 0);
        for (low, place) in [reg::QUEUE_DESC_LOW, reg::QUEUE_AVAIL_LOW, reg::QUEUE_USED_LOW].into_iter().zip(places) {
            b.w(low, (BASE + place) as u32);
        }
        for place in places.iter().filter(|p| **p + 0x100 < 0x8000) {
            b.put(BASE + place, &memory);
        }
        if places[1] + 4 < 0x8000 {
            b.put(BASE + places[1] + 2, &idx.to_le_bytes());
        }
        b.w(reg::QUEUE_READY, 1);
        for _ in 0..notifies {
            b.w(reg::QUEUE_NOTIFY, 0);
        }
    }
}
