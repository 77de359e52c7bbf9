//! What an observer is told: each instruction once, and each access that has happened.

use crate::common::bare::{BASE, MEMORY, TRAP};
use crate::common::{bytes, i, n, r, rm, s};
use nagori_hart::flat::Flat;
use nagori_hart::lines::Coherence;
use nagori_hart::trap::status;
use nagori_hart::world::AccessKind::{self, Flush, FlushAll, Read, Write};
use nagori_hart::world::{
    AccessEvent, Bus, BusFault, LineRequest, MemPort, Observer, Requester, World,
};
use nagori_hart::{CodeCache, Hart, HartConfig};
use nagori_isa::Op;
use nagori_ram::GuestRam;

const DATA: u64 = BASE + 0x2000;
/// More cycles than any program here takes.
const WHOLE: u64 = 50_000;

/// Flat memory that writes down what it is told.
struct Witness {
    flat: Flat,
    /// Cycle, address, bits.
    retired: Vec<(u64, u64, u32)>,
    accesses: Vec<AccessEvent>,
    /// Rounds of the loop at the end, which are not written down.
    loops: u64,
}

impl Bus for Witness {
    fn ram(&self) -> &GuestRam {
        self.flat.ram()
    }
    fn ram_base(&self) -> u64 {
        self.flat.ram_base()
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        self.flat.mmio_read(by, paddr, size)
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        v: u64,
    ) -> Result<(), BusFault> {
        self.flat.mmio_write(by, paddr, size, v)
    }
    fn time(&self, cycle: u64) -> u64 {
        self.flat.time(cycle)
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.flat.cycle_of_time(time)
    }
}

impl MemPort for Witness {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.write_line(req)
    }
}

impl Observer for Witness {
    const RETIRE: bool = true;
    const ACCESS: bool = true;
    fn retired(&mut self, _: usize, cycle: u64, pc: u64, raw: u32, _: u8) {
        if pc == TRAP {
            self.loops += 1;
        } else {
            self.retired.push((cycle, pc, raw));
        }
    }
    fn access(&mut self, event: &AccessEvent) {
        let last = self.retired.last();
        assert_eq!(last.map(|r| r.1), Some(event.pc), "behind its instruction");
        self.accesses.push(*event);
    }
}

impl World for Witness {
    fn coherence(&mut self) -> &mut Coherence {
        self.flat.coherence()
    }
}

/// Runs words to the first trap, `slice` cycles at a time, of which only the first `bus` may use the
/// memory bus.
fn run(words: &[u32], timed: bool, slice: u64, bus: u64) -> (Hart, Witness) {
    let config = HartConfig::rocket();
    let mut w = Witness {
        flat: Flat::new(BASE, MEMORY, 1, &config).expect("memory"),
        retired: Vec::new(),
        accesses: Vec::new(),
        loops: 0,
    };
    let mut h = Hart::new(0, config).expect("configuration");
    h.set_timed(timed);
    h.csr.mtvec = TRAP;
    h.csr.mstatus |= status::FS;
    h.pc = BASE;
    h.set_reg(6, DATA);
    h.set_reg(7, 3);
    let put = |at: u64, words: &[u32]| {
        let at = at - BASE;
        w.flat.ram().write_bytes(at, &bytes(words)).expect("room");
    };
    put(BASE, words);
    put(TRAP, &[i(Op::Jal, 0, 0, 0)]);
    let mut code = CodeCache::default();
    while h.pc != TRAP {
        let now = h.cycle;
        h.run_ahead(
            &mut code,
            &mut w,
            now + slice,
            now + bus,
            &mut nagori_hart::engine::NoEngine,
        );
    }
    (h, w)
}

fn accesses(words: &[u32], timed: bool) -> Vec<(u64, u8, AccessKind)> {
    let (_, w) = run(words, timed, WHOLE, WHOLE);
    w.accesses
        .iter()
        .map(|a| (a.vaddr, a.size, a.kind))
        .collect()
}

#[test]
fn every_kind_of_access_is_told() {
    for timed in [false, true] {
        let one = |word: u32| accesses(&[word, n(Op::Ecall)], timed);
        assert_eq!(one(i(Op::Lhu, 5, 6, 2)), [(DATA + 2, 2, Read)]);
        assert_eq!(one(i(Op::Fld, 5, 6, 8)), [(DATA + 8, 8, Read)]);
        assert_eq!(one(s(Op::Sb, 5, 6, 1)), [(DATA + 1, 1, Write)]);
        let amo = rm(Op::AmoaddW, 5, 6, 7, 0);
        assert_eq!(one(amo), [(DATA, 4, Read), (DATA, 4, Write)]);
        assert_eq!(one(rm(Op::LrD, 5, 6, 0, 0)), [(DATA, 8, Read)]);
        let fails = rm(Op::ScW, 5, 6, 7, 0);
        assert_eq!(one(fails), [], "no reservation, no store");
        let pair = [rm(Op::LrW, 5, 6, 0, 0), fails, n(Op::Ecall)];
        assert_eq!(accesses(&pair, timed), [(DATA, 4, Read), (DATA, 4, Write)]);
        let zero = [i(Op::Addi, 6, 6, 70), r(Op::CboZero, 0, 6, 0), n(Op::Ecall)];
        assert_eq!(accesses(&zero, timed), [(DATA + 64, 64, Write)]);
        for op in [Op::CboClean, Op::CboFlush, Op::CboInval, Op::CflushDL1] {
            assert_eq!(one(r(op, 0, 6, 0)), [(DATA, 64, Flush)], "{op:?}");
        }
        assert_eq!(one(r(Op::CflushDL1, 0, 0, 0)), [(0, 64, FlushAll)]);
        // What faults has not happened: no memory, and misaligned.
        for word in [
            i(Op::Ld, 5, 0, 0),
            s(Op::Sd, 5, 0, 0),
            i(Op::Lw, 5, 6, 1),
            rm(Op::LrD, 5, 0, 0, 0),
            rm(Op::AmoaddD, 5, 7, 7, 0),
            r(Op::CboZero, 0, 0, 0),
            r(Op::CboFlush, 0, 7, 0),
        ] {
            assert_eq!(one(word), [], "{word:#x}");
        }
    }
}

#[test]
fn what_is_tried_again_is_told_once() {
    // Loads, stores and atomics over many lines, in a loop; an illegal instruction at the end.
    let words = [
        i(Op::Addi, 7, 0, 60),
        i(Op::Ld, 5, 6, 0),
        s(Op::Sd, 7, 6, 1024),
        rm(Op::AmoaddD, 5, 6, 7, 0),
        rm(Op::LrW, 5, 6, 0, 0),
        rm(Op::ScW, 5, 6, 7, 0),
        r(Op::CboFlush, 0, 6, 0),
        i(Op::Addi, 6, 6, 320),
        i(Op::Addi, 7, 7, -1),
        s(Op::Bne, 0, 7, -32),
        0,
    ];
    let whole = run(&words, true, WHOLE, WHOLE);
    let pcs = |w: &Witness| -> Vec<(u64, u32)> { w.retired.iter().map(|r| (r.1, r.2)).collect() };
    let told = |w: &Witness| -> Vec<(u64, u64, AccessKind)> {
        w.accesses.iter().map(|a| (a.pc, a.vaddr, a.kind)).collect()
    };
    assert_eq!(whole.1.retired.len(), 1 + 60 * 9 + 1);
    assert_eq!(whole.1.accesses.len(), 60 * 7);
    for (slice, bus) in [(3, 1), (40, 2), (7, 7), (200, 10)] {
        let (h, w) = run(&words, true, slice, bus);
        // The last one, illegal, does not retire.
        assert_eq!(w.retired.len() as u64 + w.loops, h.instret + 1);
        assert_eq!(pcs(&w), pcs(&whole.1));
        assert_eq!(told(&w), told(&whole.1));
        assert!(w.retired.is_sorted_by_key(|r| r.0), "in the order of time");
    }
}
