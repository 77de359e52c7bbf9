use super::super::bench::{entry, Bench, BASE, DATA};
use super::super::{Entropy, Net, QueueError, Share, INDIRECT_DESC};
use super::*;
use crate::device::DeviceState;
use proptest::prelude::*;

const USED: u64 = BASE + 0x2000;
const AVAIL: u64 = BASE + 0x1000;

fn bench(seed: u64) -> Bench<Entropy> {
    Bench::new(Entropy::new(seed))
}

#[test]
fn a_request_is_filled_and_answered() {
    let mut b = bench(1);
    assert_eq!([b.r(0), b.r(4), b.r(8)], [0x7472_6976, 2, 4]);
    assert_eq!(b.r(reg::QUEUE_NUM_MAX), 256);
    assert!(b.start(0));
    b.descriptor(0, 0, (DATA, 16, 1 | 2, 3));
    b.descriptor(0, 3, (DATA + 0x100, 16, 2, 0));
    b.offer(0, 0);
    b.notify(0);
    assert_eq!(b.used(0), [(0, 32)]);
    assert_ne!(b.get(DATA, 16), [0; 16]);
    assert_ne!(b.get(DATA, 16), b.get(DATA + 0x100, 16));
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 1);
    assert!(b.interrupted());
    let ranges: Vec<u64> = b.take_writes().iter().map(|r| r.addr).collect();
    assert_eq!(ranges, [DATA, DATA + 0x100, USED + 4, USED + 2]);
    b.w(reg::INTERRUPT_ACK, 1);
    assert!(!b.interrupted());
    // Nothing happens without new work.
    b.notify(0);
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 0);
    // The driver may suppress interrupts.
    b.put(AVAIL, &[1, 0]);
    b.offer(0, 3);
    b.notify(0);
    assert_eq!(b.used(0), [(0, 32), (3, 16)]);
    assert_eq!(b.r(reg::INTERRUPT_STATUS), 0);
}

#[test]
fn the_seed_decides_and_a_loaded_device_goes_on() {
    let bytes = |b: &mut Bench<Entropy>| {
        b.send(0, 0, &[(DATA, 8, true)]);
        b.get(DATA, 8)
    };
    let (mut a, mut same, mut other) = (bench(1), bench(1), bench(2));
    for b in [&mut a, &mut same, &mut other] {
        assert!(b.start(0));
    }
    let first = bytes(&mut a);
    assert_eq!(first, bytes(&mut same));
    assert_ne!(first, bytes(&mut other));
    let mut loaded = bench(9);
    assert!(loaded.start(0));
    bytes(&mut loaded);
    loaded.device.load(&a.device.save()).unwrap();
    let second = bytes(&mut a);
    assert_ne!(first, second);
    assert_eq!(second, bytes(&mut loaded));
}

#[test]
fn a_driver_that_breaks_the_rules_is_told_to_reset() {
    type Case = fn(&mut Bench<Entropy>);
    fn offer(b: &mut Bench<Entropy>, d: (u64, u32, u16, u16)) {
        b.descriptor(0, 0, d);
        b.offer(0, 0);
    }
    let cases: [Case; 7] = [
        |b| b.offer(0, 9),
        |b| (0..9).for_each(|_| b.offer(0, 0)),
        |b| offer(b, (DATA, 8, 1 | 2, 0)),
        |b| offer(b, (DATA, 16, 4, 0)),
        |b| offer(b, (0x1000, 8, 2, 0)),
        |b| offer(b, (u64::MAX - 3, 8, 2, 0)),
        |b| {
            b.descriptor(0, 1, (DATA, 8, 0, 0));
            offer(b, (DATA, 8, 1 | 2, 1));
        },
    ];
    for (i, case) in cases.iter().enumerate() {
        let mut b = bench(1);
        assert!(b.start(0));
        case(&mut b);
        b.notify(0);
        assert_eq!(b.r(reg::STATUS), 0xf | STATUS_NEEDS_RESET, "{i}");
        assert_eq!(b.r(reg::INTERRUPT_STATUS), 2);
        b.w(reg::STATUS, 0);
        assert_eq!((b.r(reg::STATUS), b.r(reg::QUEUE_READY)), (0, 0));
        assert!(!b.interrupted());
    }
}

#[test]
fn features_must_be_those_offered() {
    let mut b = bench(1);
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

#[test]
fn devices_that_are_not_connected_say_so() {
    let mut net = Bench::new(Net::new("net0".into(), 0));
    assert!(net.start(0));
    assert_eq!(net.config(0), 0x52);
    net.send(1, 0, &[(DATA, 64, false)]);
    assert_eq!(net.used(1), [(0, 0)]);
    let mut share = Bench::new(Share::new("data".into(), Default::default()));
    let tag: Vec<u8> = (0..7).map(|i| share.config(i)).collect();
    assert_eq!(tag, b"\x04\0data\0");
}

/// Answers every chain with a checksum of its readable part, as often as there is room; polls the
/// host, has a time, and a writable configuration space.
#[derive(Default)]
struct Probe {
    seen: Vec<(u64, u64)>,
    due: Option<Ps>,
    config: u8,
    resets: u32,
}

impl VirtioBackend for Probe {
    fn kind(&self) -> &'static str {
        "probe"
    }
    fn device_id(&self) -> u32 {
        42
    }
    fn features(&self) -> u64 {
        INDIRECT_DESC
    }
    fn queues(&self) -> usize {
        2
    }
    fn queue_max(&self) -> u16 {
        16
    }
    fn config(&self, _: u64) -> u8 {
        self.config
    }
    fn config_write(&mut self, port: &mut Port<'_>, _: u64, _: u8, value: u64) {
        self.config = value as u8;
        port.config_changed();
    }
    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError> {
        for _ in 0..port.queue_size(queue) {
            let Some(chain) = port.pop(queue)? else { break };
            self.seen.push((chain.readable(), chain.writable()));
            let mut bytes = vec![0; chain.readable().min(4096) as usize];
            let n = port.read(&chain, 0, &mut bytes)?;
            let sum = bytes[..n].iter().fold(0u8, |s, b| s.wrapping_add(*b));
            let mut at = 0;
            while port.write(&chain, at, &[sum])? == 1 && at < 4096 {
                at += 1;
            }
            port.complete(queue, chain.head, at as u32)?;
        }
        Ok(())
    }
    fn next_event(&self) -> Option<Ps> {
        self.due
    }
    fn on_time(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        self.due = None;
        self.notify(port, 1)
    }
    fn poll(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        self.notify(port, 0)
    }
    fn driver_reset(&mut self) {
        self.resets += 1;
    }
    fn reset(&mut self) {}
    fn save(&self) -> DeviceState {
        DeviceState::pack("probe", 1, &self.config)
    }
    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        self.config = state.unpack("probe", 1)?;
        Ok(())
    }
}

#[test]
fn chains_are_read_and_written_across_their_buffers() {
    let mut b = Bench::new(Probe::default());
    assert!(b.start(0));
    b.put(DATA, &[1, 2, 3, 4]);
    b.send(
        0,
        0,
        &[
            (DATA, 1, false),
            (DATA + 1, 0, false),
            (DATA + 2, 2, false),
            (DATA + 8, 3, true),
            (DATA + 16, 2, true),
        ],
    );
    assert_eq!(b.host(|p, _| p.seen.clone()), [(3, 5)]);
    assert_eq!(
        (b.get(DATA + 8, 4), b.get(DATA + 16, 3)),
        (vec![8, 8, 8, 0], vec![8, 8, 0])
    );
    assert_eq!(b.used(0), [(0, 5)]);
}

#[test]
fn indirect_chains_need_the_feature_and_a_sound_table() {
    let table = DATA + 0x1000;
    let two = [entry((DATA, 2, 1, 1)), entry((DATA + 8, 1, 2, 0))].concat();
    let mut b = Bench::new(Probe::default());
    b.put(DATA, &[5, 6]);
    b.put(table, &two);
    assert!(b.start(0));
    b.descriptor(0, 3, (table, 32, 4, 0));
    b.offer(0, 3);
    b.notify(0);
    assert_eq!((b.used(0), b.get(DATA + 8, 1)), (vec![(3, 1)], vec![11]));
    let nested = entry((table, 16, 4, 0));
    let endless = entry((DATA, 1, 1, 0));
    let outside = entry((DATA, 1, 1, 7));
    for (len, flags, content) in [
        (0, 4, &two),
        (31, 4, &two),
        (32, 4 | 1, &two),
        (16, 4, &nested),
        (16, 4, &endless),
        (16, 4, &outside),
    ] {
        assert!(b.start(0));
        b.put(table, content);
        b.descriptor(0, 3, (table, len, flags, 0));
        b.offer(0, 3);
        b.notify(0);
        assert!(b.is_broken(), "{len} {flags}");
    }
    b.put(table, &two);
    assert!(b.start(INDIRECT_DESC));
    b.descriptor(0, 3, (table, 32, 4, 0));
    b.offer(0, 3);
    b.notify(0);
    assert!(b.is_broken(), "not negotiated");
}

#[test]
fn time_the_host_and_the_configuration_reach_the_backend() {
    let mut b = Bench::new(Probe::default());
    assert!(b.start(0));
    assert_eq!(b.r(reg::QUEUE_NUM_MAX), 16);
    b.send(1, 0, &[(DATA, 4, true)]);
    assert_eq!(b.used(1).len(), 1);
    b.take_interrupt();
    // An event and polling find chains of which no notification told.
    b.descriptor(1, 0, (DATA, 1, 2, 0));
    b.offer(1, 0);
    b.host(|p, port| p.due = Some(port.now() + Ps(5)));
    b.settle(1);
    assert_eq!((b.used(1).len(), b.now, b.take_interrupt()), (2, Ps(5), 1));
    b.descriptor(0, 0, (DATA, 1, 2, 0));
    b.offer(0, 0);
    b.poll();
    assert_eq!((b.used(0).len(), b.take_interrupt()), (1, 1));
    // A change of the configuration counts and interrupts.
    let before = b.r(reg::CONFIG_GENERATION);
    b.w(reg::CONFIG, 7);
    assert_eq!((b.config(3), b.take_interrupt()), (7, 2));
    assert_eq!(b.r(reg::CONFIG_GENERATION), before + 1);
    // If the driver has not started, there are no queues and no interrupts.
    let resets = b.host(|p, _| p.resets);
    b.w(reg::STATUS, 0);
    b.host(|p, port| {
        port.config_changed();
        assert!(!port.is_live() && !port.has_work(0).unwrap());
        assert_eq!(port.pop(0), Ok(None));
        assert_eq!(port.complete(0, 0, 0), Ok(()));
        assert_eq!(p.resets, resets + 1);
    });
    assert!(!b.interrupted());
}

proptest! {
    /// Rings and descriptors full of random numbers, in place and overlapping.
    #[test]
    fn random_rings_never_panic(
        memory in prop::collection::vec(any::<u8>(), 0x100),
        places in prop::array::uniform3(0u64..0x8000),
        idx in 0u16..12,
        notifies in 1usize..4,
        probe: bool,
    ) {
        fn run<B: VirtioBackend>(mut b: Bench<B>, memory: &[u8], places: [u64; 3], idx: u16, notifies: usize) {
            assert!(b.start(0));
            b.w(reg::QUEUE_SEL, 0);
            b.w(reg::QUEUE_READY, 0);
            let registers = [reg::QUEUE_DESC_LOW, reg::QUEUE_AVAIL_LOW, reg::QUEUE_USED_LOW];
            for (low, place) in registers.into_iter().zip(places) {
                b.w(low, (BASE + place) as u32);
            }
            for place in places {
                b.put(BASE + place, memory);
            }
            b.put(BASE + places[1] + 2, &idx.to_le_bytes());
            b.w(reg::QUEUE_READY, 1);
            for _ in 0..notifies {
                b.notify(0);
            }
        }
        if probe {
            run(Bench::new(Probe::default()), &memory, places, idx, notifies);
        } else {
            run(bench(1), &memory, places, idx, notifies);
        }
    }
}
