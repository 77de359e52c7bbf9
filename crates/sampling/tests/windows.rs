//! Sampled runs of real machines: what they estimate against what whole detailed runs show, with any number of threads
//! and either engine; copies of the machine have the memory that it had.

use nagori_config::{Library, Machine as Description};
use nagori_machine::{
    Engine, Machine, MachineError, Moment, Next, Pace, Part, Progress, Replica, Report, Sampling,
    Stop,
};
use nagori_sampling::{Copies, Plan, Sampled, Sampler};
use std::sync::{Arc, Mutex};

/// A program of phases, of 16 million instructions with 400 rounds: arithmetic; in every second round loads of 250 KiB,
/// line by line but one; then 1000 stores. It ends by the test device.
///
/// ```text
///         bnez a0, park                     2:  ld   t3, 0(t2)
///         li   s0, 400                          add  s2, s2, t3
///         li   s1, 0x80100000                   addi t2, t2, 128
/// round:  li   t0, 6000                         addi t0, t0, -1
///     1:  addi s2, s2, 3                        bnez t0, 2b
///         xor  s3, s3, s2                   3:  li   t0, 1000
///         mul  s4, s2, s3                       mv   t2, s1
///         addi t0, t0, -1                   4:  add  s2, s2, t0
///         bnez t0, 1b                           sd   s2, 0(t2)
///         andi t1, s0, 1                        addi t2, t2, 256
///         bnez t1, 3f                           addi t0, t0, -1
///         li   t0, 2000                         bnez t0, 4b
///         mv   t2, s1                           addi s0, s0, -1; bnez s0, round
/// ```
const PROGRAM: [u32; 36] = [
    0x08051463, 0x19000413, 0x000014b7, 0x8014849b, 0x01449493, 0x000012b7, 0x7702829b, 0x00390913,
    0x0129c9b3, 0x03390a33, 0xfff28293, 0xfe0298e3, 0x00147313, 0x02031063, 0x7d000293, 0x00048393,
    0x0003be03, 0x01c90933, 0x08038393, 0xfff28293, 0xfe0298e3, 0x3e800293, 0x00048393, 0x00590933,
    0x0123b023, 0x10038393, 0xfff28293, 0xfe0298e3, 0xfff40413, 0xfa0410e3, 0x001002b7, 0x00005337,
    0x5553031b, 0x0062a023, 0x10500073, 0xffdff06f,
];

const BASE: u64 = 0x8000_0000;

fn machine(name: &str, engine: Engine) -> Machine {
    loaded(name, engine, &PROGRAM)
}

fn loaded(name: &str, engine: Engine, program: &[u32]) -> Machine {
    let description = Description::load(&Library::default(), name, &[]).unwrap();
    let mut m = Machine::new(&description).unwrap();
    m.set_engine(engine).unwrap();
    let bytes: Vec<u8> = program.iter().flat_map(|w| w.to_le_bytes()).collect();
    m.ram().write_bytes(0, &bytes).unwrap();
    m.memory_written(BASE, bytes.len() as u64);
    m.start_at(BASE, 0, 0);
    m
}

fn to_the_end(m: &mut Machine) {
    loop {
        match m.run(1 << 24, None) {
            Stop::Slice => {}
            Stop::PowerOff(0) => break,
            other => panic!("{other:?}"),
        }
    }
}

fn truth(name: &str) -> Report {
    in_detail(machine(name, Engine::best()))
}

fn in_detail(mut m: Machine) -> Report {
    to_the_end(&mut m);
    m.report()
}

fn plan(threads: usize) -> Plan {
    Plan {
        window_length: 20_000,
        warm_up: Some(20_000),
        windows: Some(100),
        threads,
        ..Plan::default()
    }
}

fn sampled(name: &str, plan: Plan, engine: Engine) -> Sampled {
    of_machine(machine(name, engine), plan, engine)
}

fn copies(engine: Engine) -> Copies {
    Copies {
        engine,
        connect: Arc::new(|_| Ok(())),
        keep: None,
    }
}

fn of_machine(mut m: Machine, plan: Plan, engine: Engine) -> Sampled {
    Sampler::new(plan, &m, copies(engine)).begin(&mut m);
    to_the_end(&mut m);
    Sampler::end(&mut m).unwrap().unwrap()
}

/// Everything that a run has shown, to be compared bit for bit.
fn all(s: &Sampled) -> String {
    let report = serde_json::to_string(&s.report()).unwrap();
    format!("{:?} {:?} {} {report}", s.windows, s.time_ps(), s.cut)
}

#[test]
fn the_truth_is_within_the_interval() {
    let truth = truth("vc707");
    let s = sampled("vc707", plan(2), Engine::best());
    let time = s.time_ps().unwrap();
    let real = truth.elapsed_ps as f64;
    assert!(s.windows.len() >= 50, "{}", s.windows.len());
    assert!(time.holds(real), "{time:?} {real}");
    assert!((time.value / real - 1.0).abs() < 0.05, "{time:?} {real}");
    let report = s.report().unwrap();
    assert_eq!(report.instructions, truth.instructions);
    assert_eq!(report.elapsed_ps, time.value.round() as u64);
    let loads = |r: &Report| r.harts[0].events.l1d_load_misses as f64;
    let misses = s.total(loads).unwrap();
    assert!(misses.holds(loads(&truth)), "{misses:?} {}", loads(&truth));
}

#[test]
fn neither_threads_nor_engines_change_anything() {
    let one = all(&sampled("vc707", plan(1), Engine::best()));
    for threads in [2, 5] {
        assert_eq!(
            one,
            all(&sampled("vc707", plan(threads), Engine::best())),
            "{threads}"
        );
    }
    assert_eq!(one, all(&sampled("vc707", plan(3), Engine::Interpreter)));
}

/// All four harts run the program over the same data, each from its beginning to the end of the first one.
#[test]
fn several_busy_harts_are_measured_alike_by_any_threads_and_engine() {
    let mut program = PROGRAM;
    program[0] = 0x13;
    let run = |threads: usize, engine| {
        let s = of_machine(loaded("vc707", engine, &program), plan(threads), engine);
        assert!(!s.is_whole() && !s.says_too_little());
        assert_eq!(s.busy_harts(), 4);
        s
    };
    let one = run(1, Engine::best());
    assert_eq!(all(&one), all(&run(3, Engine::best())));
    assert_eq!(all(&one), all(&run(2, Engine::Interpreter)));
    let mut m = loaded("vc707", Engine::best(), &program);
    to_the_end(&mut m);
    let (real, time) = (m.report().elapsed_ps as f64, one.time_ps().unwrap());
    assert!(
        (time.value / real - 1.0).abs() < 0.1,
        "{time:?} {real}: harts that share lines and do not wait for one another"
    );
}

/// So many rounds of the program on one hart, of 40,000 instructions each.
fn rounds(n: u32) -> Vec<u32> {
    let mut program = PROGRAM.to_vec();
    program[1] = n << 20 | 0x413;
    program
}

#[test]
fn a_program_of_any_length_has_an_estimate() {
    // Everything, no window for an interval, some, and as many as any run has.
    let mut seen = [false; 4];
    for n in [18, 20, 22, 25, 30, 40, 60, 100] {
        let run = |m: Machine| {
            of_machine(
                m,
                Plan {
                    windows: None,
                    ..plan(2)
                },
                Engine::best(),
            )
        };
        let s = run(loaded("vc707", Engine::best(), &rounds(n)));
        let whole = in_detail(loaded("vc707", Engine::best(), &rounds(n)));
        let (real, time) = (whole.elapsed_ps as f64, s.time_ps().unwrap());
        let k = s.windows.len();
        assert!(!s.says_too_little(), "{n}: {k}");
        assert_eq!(s.has_no_interval(), k < 2 && !s.is_whole(), "{n}: {k}");
        assert!(
            (time.value / real - 1.0).abs() < 0.1,
            "{n}: {time:?} {real}"
        );
        assert!(
            time.half.is_none() || time.holds(real),
            "{n}: {time:?} {real}"
        );
        assert_eq!(s.report().unwrap().instructions, whole.instructions, "{n}");
        let kind = match (s.is_whole(), k) {
            (true, _) => 0,
            (_, 0..2) => 1,
            (_, 2..10) => 2,
            _ => 3,
        };
        seen[kind] = true;
    }
    assert_eq!(seen, [true; 4]);
}

/// Hart 0 reads 256 KiB line by line, 400 times, and counts in s5 the interrupts of a timer, which it sets 1000 ticks
/// of time ahead in each. It ends by the test device.
///
/// ```text
///         bnez  a0, park                    1:  lui   t0, 1
///         li    t0, -1                          mv    t2, s1
///         slli  t0, t0, 63                  2:  ld    t3, 0(t2)
///         csrs  menvcfg, t0                     add   s2, s2, t3
///         la    t0, handler                     addi  t2, t2, 64
///         csrw  mtvec, t0                       addi  t0, t0, -1
///         csrr  t1, time                        bnez  t0, 2b
///         addi  t1, t1, 1000                    addi  s0, s0, -1; bnez s0, 1b
///         csrw  stimecmp, t1                handler:
///         li    t0, 32                          addi  s5, s5, 1
///         csrw  mie, t0                         csrr  t1, time
///         csrsi mstatus, 8                      addi  t1, t1, 1000
///         li    s1, 0x80100000                  csrw  stimecmp, t1
///         li    s0, 400                         mret
/// ```
const TICKS: [u32; 37] = [
    0x06051c63, 0xfff00293, 0x03f29293, 0x30a2a073, 0x00000297, 0x07028293, 0x30529073, 0xc0102373,
    0x3e830313, 0x14d31073, 0x02000293, 0x30429073, 0x30046073, 0x801004b7, 0x02049493, 0x0204d493,
    0x19000413, 0x000012b7, 0x00048393, 0x0003be03, 0x01c90933, 0x04038393, 0xfff28293, 0xfe0298e3,
    0xfff40413, 0xfe0410e3, 0x001002b7, 0x00005337, 0x5553031b, 0x0062a023, 0x10500073, 0xffdff06f,
    0x001a8a93, 0xc0102373, 0x3e830313, 0x14d31073, 0x30200073,
];

#[test]
fn a_timer_interrupts_as_often_as_in_detail() {
    let ticks = |sample: bool| {
        let mut m = loaded("vc707", Engine::best(), &TICKS);
        if sample {
            Sampler::new(plan(2), &m, copies(Engine::best())).begin(&mut m);
        }
        to_the_end(&mut m);
        m.hart(0).unwrap().reg(21) as f64
    };
    let (real, sampled) = (ticks(false), ticks(true));
    assert!(
        real > 500.0 && (sampled / real - 1.0).abs() < 0.05,
        "{real} {sampled}"
    );
}

/// Hart 0 reads 256 KiB line by line, 200 times, and counts the times in memory; hart 1 spins until that changes. What
/// they do most lies in the same 64 bytes. Six `nop` come first.
///
/// ```text
///         li    t0, 1                           addi  s3, s3, 1
///         bltu  t0, a0, park                    sd    s3, 0(s2)
///         li    s1, 0x80100000                  addi  s0, s0, -1
///         li    s2, 0x80080000                  bnez  s0, 1b; off
///         bnez  a0, 3f                      3:  ld    t0, 0(s2)
///         li    s0, 200                         addi  s5, s5, 1
///     1:  lui   t0, 1                           beq   t0, s4, 3b
///         mv    t2, s1                          mv    s4, t0
///     2:  ld    t3, 0(t2)                       j     3b
///         addi  t2, t2, 64
///         addi  t0, t0, -1; bnez t0, 2b
/// ```
const SPINS: [u32; 37] = [
    0x00000013, 0x00000013, 0x00000013, 0x00000013, 0x00000013, 0x00000013, 0x00100293, 0x06a2e863,
    0x801004b7, 0x02049493, 0x0204d493, 0x80080937, 0x02091913, 0x02095913, 0x04051063, 0x0c800413,
    0x000012b7, 0x00048393, 0x0003be03, 0x04038393, 0xfff28293, 0xfe029ae3, 0x00198993, 0x01393023,
    0xfff40413, 0xfc041ee3, 0x001002b7, 0x00005337, 0x5553031b, 0x0062a023, 0x00093283, 0x001a8a93,
    0xff428ce3, 0x00028a13, 0xff1ff06f, 0x10500073, 0xffdff06f,
];

#[test]
fn a_hart_that_spins_has_a_pace_of_its_own() {
    let load = || loaded("vc707", Engine::best(), &SPINS);
    let s = of_machine(load(), plan(1), Engine::best());
    let (real, found) = (in_detail(load()), s.report().unwrap());
    let spun = |r: &Report| r.harts[1].instructions as f64 / r.elapsed_ps as f64;
    assert_eq!(s.busy_harts(), 2);
    let time = s.time_ps().unwrap().value / real.elapsed_ps as f64;
    assert!((time - 1.0).abs() < 0.03, "{time}");
    assert!((spun(&found) / spun(&real) - 1.0).abs() < 0.03);
}

#[test]
fn a_memory_whose_order_is_not_settled_is_sampled() {
    let mut program = PROGRAM;
    program[0] = 0x13;
    let s = of_machine(
        loaded("server", Engine::best(), &program),
        plan(1),
        Engine::best(),
    );
    assert!(s.busy_harts() == 8 && !s.says_too_little());
}

#[test]
fn a_program_that_is_too_short_is_measured_as_a_whole() {
    let long = Plan {
        warm_up: Some(1_000_000),
        ..plan(2)
    };
    let s = sampled("vc707", long, Engine::best());
    assert!(s.is_whole() && s.windows.is_empty());
    assert_eq!(s.head, Some(truth("vc707")));
}

/// Goes on functionally in equal steps, and keeps what it is given.
struct Steps {
    every: u64,
    moments: Arc<Mutex<Vec<Moment>>>,
}

impl Sampling for Steps {
    fn begins(&mut self, _: &Progress) -> Next {
        Next::Moment(self.every)
    }
    fn detail_over(&mut self, _: Part, _: &Progress) -> (Next, Pace) {
        unreachable!("nothing is in detail")
    }
    fn functional_over(&mut self, _: &Progress) -> (Next, Pace) {
        unreachable!("each part ends with a moment")
    }
    fn moment(&mut self, m: Moment, _: &Progress) -> Result<(Next, Pace), MachineError> {
        self.moments.lock().unwrap().push(m);
        Ok((Next::Moment(self.every), Pace::new([2.5], 1)))
    }
    fn ends(&mut self, _: Option<Part>, _: &Progress) {}
    fn restarts(&mut self) {}
}

fn content(m: &Machine) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    m.ram().read_bytes(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_copy_that_follows_has_the_memory_of_each_moment() {
    let moments = Arc::new(Mutex::new(Vec::new()));
    let mut m = machine("vc707", Engine::best());
    m.set_sampling(Box::new(Steps {
        every: 300_000,
        moments: moments.clone(),
    }));
    let mut replica: Option<Replica> = None;
    let mut first = None;
    let mut now = Vec::new();
    for _ in 0..20 {
        // Before the moment is handed out the run stops at the limit, and after it by itself.
        let due = moments.lock().unwrap().len();
        let limit = m.steps() + 300_000;
        while moments.lock().unwrap().len() == due {
            now = content(&m);
            let stop = m.run(10_000, Some(limit + 200_000));
            assert!(matches!(stop, Stop::Slice | Stop::Instructions), "{stop:?}");
        }
        let mut moments = moments.lock().unwrap();
        let moment = moments.last_mut().unwrap();
        first = first.or(moment.first.take().map(|f| f.checkpoint));
        let first = first.as_ref().unwrap();
        let r = replica.get_or_insert_with(|| Replica::new(first, Engine::best()).unwrap());
        // All that it has stored to itself, from the first moment and all changes since.
        let mut pages = Vec::new();
        for at in r.own_pages() {
            let mut bytes = vec![0; 4096];
            first.memory().read(at, &mut bytes).unwrap();
            pages.push((at, bytes.into()));
        }
        pages.extend(moments.iter().flat_map(|m| m.pages.iter().cloned()));
        let moment = moments.last().unwrap();
        r.go_to(moment.state.clone(), &pages).unwrap();
        let there = content(&r.machine);
        drop(moments);
        // The main machine has gone on for a part of a slice: what it has not stored to since is the same.
        let later = content(&m);
        let odd = (0..now.len()).find(|&i| now[i] == later[i] && there[i] != now[i]);
        assert_eq!(odd, None);
        // The copy goes its own way.
        r.machine.set_timed(true);
        r.machine.run(u64::MAX, Some(r.machine.steps() + 50_000));
    }
}

#[test]
fn functional_time_passes_at_its_pace() {
    let moments = Arc::new(Mutex::new(Vec::new()));
    let mut m = machine("vc707", Engine::best());
    m.set_sampling(Box::new(Steps {
        every: 1_000_000,
        moments,
    }));
    to_the_end(&mut m);
    let r = m.report();
    let cpi = r.cycles as f64 / r.instructions as f64;
    // One cycle an instruction in the first million of 16, then 2.5.
    assert!((cpi - (1.0 + 15.0 * 2.5) / 16.0).abs() < 0.01, "{cpi}");
}
