//! The translator and the interpreter in lock step on random code.

use nagori_config::map;
use nagori_config::{Library, Machine as Description};
use nagori_isa::OPS;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};

const BASE: u64 = map::MEMORY;
/// Bytes at the beginning of an input that say how the machine is.
const HEAD: usize = 8;
/// Where the parts lie, from the start of memory.
const SKIP: u64 = 0x400;
const TABLES: u64 = 0x1000;
const TABLE_PAGES: u64 = 8;
const CODE: u64 = 0x1_0000;
/// Code that is read from an input.
const CODE_BYTES: usize = 0x4000;
/// The part of memory that is compared.
const COMPARED: u64 = 0x4_0000;
/// Longest run, in turns and in steps of the guest.
const TURNS: u64 = 60;
const STEPS: u64 = 20_000;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len() as u64) as usize]
    }
}

/// An address of the kinds that programs stumble over.
fn address(rng: &mut Rng) -> u64 {
    match rng.below(12) {
        0..=4 => BASE + CODE + rng.below(CODE_BYTES as u64),
        5 => BASE + TABLES + rng.below(TABLE_PAGES << 12),
        6 => 0u64.wrapping_sub(1 + rng.below(0x3000)),
        7 => BASE + (256 << 20) - rng.below(16),
        8 => rng.pick(&[map::CONTROL, map::CLINT, map::UART, map::PLIC, map::SYSCON]),
        9 => rng.below(1 << 39) | rng.pick(&[0, 0xffff_ff80_0000_0000]),
        10 => BASE + (200 << 20) + rng.below(4096),
        _ => rng.bits(),
    }
}

fn pte(rng: &mut Rng) -> u64 {
    let page = match rng.below(4) {
        0 => BASE + TABLES + 4096 * rng.below(TABLE_PAGES),
        1 => return rng.bits(),
        _ => BASE + 4096 * rng.below(COMPARED >> 12),
    };
    let any = rng.bits() & 0x3ff;
    page >> 12 << 10 | rng.pick(&[1, 0xdf, 0xcf, 0xd7, any])
}

/// The word itself, or one that the table has: then few inputs are illegal.
fn instruction(w: u32, by_table: bool) -> u32 {
    if !by_table || w & 7 == 7 {
        return w;
    }
    let row = &OPS[(w >> 3) as usize % OPS.len()];
    let fields = w.wrapping_mul(0x9e37_79b1).rotate_left(13);
    // Small immediates and few registers in half of the cases, so that things meet.
    let fields = if w & 4 == 0 {
        fields & 0xf1f7_ffff
    } else {
        fields
    };
    row.match_ | fields & !row.mask
}

/// A machine before the program of an input. What lies in memory and in registers follows
/// from the input alone.
fn machine(head: &[u8], words: &[u8], engine: Engine) -> Machine {
    let method = ["dram", "coarse", "fine", "extended"][usize::from(head[1] & 3)];
    let settings = [
        format!("harts={}", 1 + head[0] % 3),
        format!("method={method}"),
        format!("asid_bits={}", head[2] % 17),
    ];
    let d = Description::load(&Library::default(), "small", &settings).expect("a machine");
    let mut m = Machine::new(&d).expect("a machine");
    m.set_timed(head[0] & 0x80 != 0);
    m.set_engine(engine).expect("memory for code");
    let mut rng = Rng(u64::from_le_bytes([
        head[4], head[5], head[6], head[7], head[1], head[2], head[3], 0,
    ]));
    let by_table = head[0] & 0x40 != 0;
    let (mode, paged) = ([3u64, 1, 0, 0][usize::from(head[3] & 3)], head[3] & 4 != 0);
    let ram = m.ram().clone();
    let put = |at: u64, w: u32| ram.write_u32(at, w).expect("in memory");
    for (k, w) in words[..words.len().min(CODE_BYTES)].chunks(4).enumerate() {
        let mut word = [0; 4];
        word[..w.len()].copy_from_slice(w);
        let w = instruction(u32::from_le_bytes(word), by_table);
        put(CODE + 4 * k as u64, w);
        // The code is there twice, so that jumps find some there.
        put(CODE + CODE_BYTES as u64 + 4 * k as u64, w);
    }
    for k in 0..TABLE_PAGES * 512 {
        ram.write_u64(TABLES + 8 * k, pte(&mut rng))
            .expect("in memory");
    }
    // Memory at its own address, as one superpage or by way of 4 KiB pages, for S or for U.
    let user = if mode == 0 { 0xdf } else { 0xcf };
    let table = |k: u64| (BASE + TABLES + 4096 * k) >> 12 << 10 | 1;
    if rng.one_in(2) {
        let giga = BASE >> 12 << 10 | user;
        ram.write_u64(TABLES + 8 * (BASE >> 30), giga)
            .expect("in memory");
    } else {
        let entries = [(8 * (BASE >> 30), table(1)), (4096, table(2))];
        for (at, v) in entries {
            ram.write_u64(TABLES + at, v).expect("in memory");
        }
        for k in 0..COMPARED >> 12 {
            if !rng.one_in(8) {
                let flags = if rng.one_in(6) {
                    rng.bits() & 0xff
                } else {
                    user
                };
                let at = TABLES + 2 * 4096 + 8 * k;
                ram.write_u64(at, (BASE + 4096 * k) >> 12 << 10 | flags)
                    .expect("in memory");
            }
        }
    }
    // The handler goes on behind the instruction that trapped, within the first megabyte.
    let skip = [
        0x3402_92f3u32, // csrrw t0, mscratch, t0
        0x3410_22f3,    // csrr  t0, mepc
        0x0042_8293,    // addi  t0, t0, 4
        0x02c2_9293,    // slli  t0, t0, 44
        0x02c2_d293,    // srli  t0, t0, 44
        0x1403_1373,    // csrrw t1, sscratch, t1
        0x0010_0313,    // li    t1, 1
        0x01f3_1313,    // slli  t1, t1, 31
        0x0062_e2b3,    // or    t0, t0, t1
        0x1403_1373,    // csrrw t1, sscratch, t1
        0x3412_9073,    // csrw  mepc, t0
        0x3402_92f3,    // csrrw t0, mscratch, t0
        0x3020_0073,    // mret
    ];
    for (k, w) in skip.iter().enumerate() {
        put(SKIP + 4 * k as u64, *w);
    }
    let numbers = [
        0x305, 0x105, 0x302, 0x303, 0x304, 0x30a, 0x10a, 0x306, 0x3b0, 0x3b1, 0x3a0, 0x180, 0x300,
        0x341,
    ];
    for (k, c) in numbers.iter().enumerate() {
        put(4 * k as u64, c << 20 | (10 + k as u32) << 15 | 0x1073);
    }
    put(4 * numbers.len() as u64, 0x3020_0073);
    m.memory_written(BASE, COMPARED);
    m.start_at(BASE, 0, 0);
    for i in 0..m.config().harts as usize {
        let h = m.hart_mut(i).expect("a hart");
        let handler = |rng: &mut Rng| {
            if rng.one_in(8) {
                address(rng)
            } else {
                BASE + SKIP
            }
        };
        let open = |rng: &mut Rng| {
            if rng.one_in(4) {
                address(rng) >> 2
            } else {
                u64::MAX
            }
        };
        let values = [
            handler(&mut rng),
            handler(&mut rng),
            rng.bits() & rng.bits() & rng.bits(),
            rng.bits(),
            rng.bits() & rng.bits(),
            rng.bits(),
            rng.bits(),
            rng.bits(),
            open(&mut rng),
            open(&mut rng),
            rng.pick(&[0x1f, 0x1f, 0x1f1f, 0x1f1b, 0x1f0f, 0x1f9f]),
            if paged { 8 << 60 } else { 0 } | rng.below(16) << 44 | (BASE + TABLES) >> 12,
            rng.bits() & !(3 << 11) | mode << 11 | 1 << 13,
            if rng.one_in(8) {
                address(&mut rng)
            } else {
                BASE + CODE
            },
        ];
        for (k, v) in values.into_iter().enumerate() {
            h.set_reg(10 + k, v);
        }
        for r in (1..10).chain(24..32) {
            let v = match rng.below(3) {
                0 => rng.below(64),
                1 => rng.bits(),
                _ => address(&mut rng) & !7,
            };
            h.set_reg(r, v);
        }
        for r in 0..32 {
            let v = rng.pick(&[
                rng_double(head[4]),
                0xffff_ffff_3f80_0000,
                1.5f64.to_bits(),
                0x7ff8_0000_0000_0000,
                1,
            ]);
            h.set_freg(r, v.wrapping_add(rng.below(3) << 50));
        }
    }
    m
}

fn rng_double(b: u8) -> u64 {
    (f64::from(b) / 7.0).to_bits()
}

fn memory(m: &Machine) -> Vec<u8> {
    let mut v = vec![0; COMPARED as usize];
    m.ram().read_bytes(0, &mut v).expect("in memory");
    v
}

/// Registers, counters and mode of all harts are the same.
fn compare(a: &Machine, b: &Machine, turn: u64) {
    for i in 0..a.config().harts as usize {
        let (x, y) = (a.hart(i).expect("a hart"), b.hart(i).expect("a hart"));
        let at = format!("hart {i}, turn {turn}");
        let (s, t) = (&x.state, &y.state);
        assert_eq!(
            (s.pc, s.cycle, s.instret),
            (t.pc, t.cycle, t.instret),
            "{at}"
        );
        assert_eq!(
            (s.privilege, s.waiting, s.stats),
            (t.privilege, t.waiting, t.stats),
            "{at}"
        );
        assert_eq!(s.csr, t.csr, "{at}");
        for r in 0..32 {
            assert_eq!(x.reg(r), y.reg(r), "{at}: x{r}");
            assert_eq!(x.freg(r), y.freg(r), "{at}: f{r}");
        }
    }
}

/// Eight bytes of settings, then words of code. They are run in M, S or U mode, with paging or
/// without, timed or not, in slices of random length; now and then the mode or the engine of
/// the second machine changes.
pub fn translator(data: &[u8]) {
    let Some((head, words)) = data.split_at_checked(HEAD) else {
        return;
    };
    let threshold = [0, 0, 1, 8][usize::from(head[3] >> 3 & 3)];
    let tiny = Engine::Translator(TranslatorOptions {
        code_bytes: TranslatorOptions::LEAST_BYTES,
        threshold,
    });
    let mut a = machine(head, words, Engine::Interpreter);
    let mut b = machine(head, words, tiny);
    let mut rng = Rng(u64::from(head[7]) << 8 | u64::from(head[6]));
    let longest = [30, 300, 3000, 3000][usize::from(head[3] >> 5 & 3)];
    for turn in 0..TURNS {
        let cycles = 1 + rng.below(longest);
        let most = a.steps() + 1 + rng.below(2 * longest);
        let stops = [a.run(cycles, Some(most)), b.run(cycles, Some(most))];
        assert_eq!(stops[0], stops[1], "turn {turn}");
        compare(&a, &b, turn);
        match stops[0] {
            Stop::Slice | Stop::Instructions | Stop::Snapshot(_) | Stop::Debug | Stop::Reached => {}
            Stop::Reset => {
                for m in [&mut a, &mut b] {
                    m.reset();
                    m.start_at(BASE + CODE, 0, 0);
                }
            }
            Stop::PowerOff(_) | Stop::Idle(_) | Stop::EndOfTime => break,
        }
        if a.steps() > STEPS {
            break;
        }
        if rng.one_in(20) {
            let timed = !a.timed();
            a.set_timed(timed);
            b.set_timed(timed);
        }
        if head[3] & 0x80 != 0 && rng.one_in(4) {
            let engine = rng.pick(&[Engine::Interpreter, tiny]);
            b.set_engine(engine).expect("memory for code");
        }
    }
    assert_eq!(a.report(), b.report());
    assert_eq!(a.console_output(), b.console_output());
    assert!(memory(&a) == memory(&b), "memory differs");
}
