//! Rules of every preset, made from the tables: each at t and one before;
//! legal streams against the independent checker; each rule removed in turn.

use nagori_memcfg::{Kind, Memory};
use nagori_memtime::checker::{Checker, Entry, Limits, Op};
use nagori_memtime::dram::spec::{Command, DeviceSpec, Rule, Scope};
use nagori_memtime::dram::{BankAt, Expr, Legality};

const PRESETS: &[&str] = &[
    "ddr3-1866m",
    "ddr3-1600k",
    "ddr3-1333h",
    "ddr3-1066f",
    "ddr4-2400r",
    "ddr4-3200aa",
    "lpddr4-3200",
    "pcm",
    "reram",
    "stt-mram",
];

/// The preset, with two ranks so that rules between ranks apply.
fn spec(name: &str) -> DeviceSpec {
    let m = Memory::load(name, &["organisation.ranks=2".into()]).unwrap();
    match m.kind {
        // Pauses of cell writes are not rules; tests/controller.rs covers them.
        Kind::Device { device, .. } => DeviceSpec {
            write_pause: None,
            ..*device
        },
        _ => panic!("{name} is no device"),
    }
}

fn clocks(d: &DeviceSpec, e: &Expr) -> u64 {
    let t = d.resolve_timings().unwrap();
    d.clocks("test", e, &t).unwrap().into()
}

fn label(d: &DeviceSpec, r: &Rule) -> String {
    format!(
        "{}: {} -> {} {:?} {} (window {})",
        d.name, r.prev, r.next, r.scope, r.latency, r.window
    )
}

fn at(rank: u32, group: u32, bank: u32) -> BankAt {
    BankAt { rank, group, bank }
}

/// A bank within the scope of a rule after a command to rank 0, group 0, bank 0, and one outside of
/// it if there is one.
fn places(d: &DeviceSpec, r: &Rule) -> (BankAt, Option<BankAt>) {
    let o = &d.organisation;
    let wide = r.prev.rank_wide() || r.next.rank_wide();
    let other = at(0, o.bank_groups - 1, o.banks_per_group - 1);
    match r.scope {
        Scope::Bank | Scope::BankGroup | Scope::Rank if wide => (other, Some(at(1, 0, 0))),
        Scope::Bank => (at(0, 0, 0), Some(at(0, 0, 1))),
        Scope::BankGroup if o.bank_groups > 1 => (at(0, 0, 1), Some(at(0, 1, 0))),
        Scope::BankGroup => (at(0, 0, 1), Some(at(1, 0, 0))),
        Scope::OtherBankGroup => (other, Some(at(0, 0, 1))),
        Scope::Rank => (other, Some(at(1, 0, 0))),
        Scope::OtherRank => (at(1, 0, 0), Some(at(0, 0, 0))),
        Scope::Channel => (at(1, 0, 0), None),
    }
}

/// The case of one rule: blocked one clock before, allowed at the clock, and without effect outside
/// its scope.
#[test]
fn each_rule_at_t_and_one_before() {
    let mut cases = 0;
    for name in PRESETS {
        let d = spec(name);
        for (i, r) in d.rules.iter().enumerate() {
            let mut alone = d.clone();
            for (j, other) in alone.rules.iter_mut().enumerate() {
                if j != i {
                    other.latency = Expr::clocks(0);
                }
            }
            let mut l = Legality::new(&alone).unwrap();
            let mut first = 1000;
            if r.row != Default::default() {
                l.issue(Command::Wr, at(0, 0, 0), 10);
            }
            for k in 0..u64::from(r.window) {
                // Other banks of the scope where the rule goes beyond the bank.
                let bank = match r.scope {
                    Scope::Bank | Scope::OtherRank => 0,
                    _ => k as u32 % d.organisation.banks_per_group,
                };
                l.issue(r.prev, at(0, 0, bank), first + k);
            }
            let t = first + clocks(&d, &r.latency);
            let (inside, outside) = places(&d, r);
            let earliest = l.earliest(r.next, inside);
            assert!(earliest > t - 1, "{}: allowed at {}", label(&d, r), t - 1);
            assert!(earliest <= t, "{}: blocked at {t}", label(&d, r));
            if let Some(p) = outside {
                // Rules of latency 0 allow the clock of the command itself.
                let free = l.earliest(r.next, p);
                assert!(
                    free < first + u64::from(r.window),
                    "{}: outside",
                    label(&d, r)
                );
            }
            // Without the first command of its window, or with a clean row, it does not apply.
            if r.window > 1 || r.row != Default::default() {
                let mut l = Legality::new(&alone).unwrap();
                for _ in 1..r.window.max(2) {
                    l.issue(r.prev, at(0, 0, 0), first);
                    first += 1;
                }
                let free = l.earliest(r.next, inside);
                assert!(free < first, "{}: condition", label(&d, r));
            }
            cases += 1;
        }
    }
    assert!(cases > 180, "{cases}");
}

/// A small generator, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn entry(c: Command, p: BankAt, clock: u64) -> Entry {
    let op = match c {
        Command::Act => Op::Activate,
        Command::Pre => Op::Precharge,
        Command::PreAll => Op::PrechargeAll,
        Command::Rd => Op::Read,
        Command::RdA => Op::ReadPrecharge,
        Command::Wr => Op::Write,
        Command::WrA => Op::WritePrecharge,
        Command::RefAll => Op::Refresh,
        Command::RefBank => Op::RefreshBank,
        Command::Pause => Op::Pause,
        Command::Resume => Op::Resume,
    };
    Entry {
        at: clock,
        op,
        rank: p.rank,
        group: p.group,
        bank: p.bank,
        row: None,
    }
}

/// A random stream of commands in states that allow them, each at the first clock that `rules`
/// allow or somewhat later. Stops when `each` says so.
fn stream(
    rules: &DeviceSpec,
    seed: u64,
    length: u32,
    auto: bool,
    each: &mut dyn FnMut(Command, BankAt, u64, u64) -> bool,
) {
    let mut l = Legality::new(rules).unwrap();
    let o = &rules.organisation;
    let per_rank = o.banks();
    let mut open = vec![false; (o.ranks * per_rank) as usize];
    let mut random = Random(seed);
    let mut now = 0;
    let has = |c| rules.refresh.iter().any(|r| r.command == c);
    let mut done = 0;
    while done < length {
        let rank = random.below(o.ranks.into()) as u32;
        // Few banks, so that they meet again.
        let (group, bank) = match random.below(3) {
            0 => (0, 0),
            1 => (0, random.below(o.banks_per_group.into()) as u32),
            _ => (
                random.below(o.bank_groups.into()) as u32,
                random.below(o.banks_per_group.into()) as u32,
            ),
        };
        let p = at(rank, group, bank);
        let i = (rank * per_rank + group * o.banks_per_group + bank) as usize;
        let first = (rank * per_rank) as usize;
        let banks = first..first + per_rank as usize;
        let any = open[banks.clone()].iter().any(|b| *b);
        let c = match random.below(100) {
            0..=24 if !open[i] => Command::Act,
            25..=44 if open[i] => Command::Rd,
            45..=64 if open[i] => Command::Wr,
            65..=68 if auto && open[i] => Command::RdA,
            69..=72 if auto && open[i] => Command::WrA,
            73..=84 if open[i] => Command::Pre,
            85..=87 if any => Command::PreAll,
            88..=93 if !any && has(Command::RefAll) => Command::RefAll,
            94..=97 if !open[i] && has(Command::RefBank) => Command::RefBank,
            _ => continue,
        };
        let earliest = l.earliest(c, p).max(now);
        let late = match random.below(8) {
            0 => random.below(20),
            1 => random.below(200),
            _ => 0,
        };
        let clock = earliest + late;
        // The limit of the rules, not that of the command bus.
        if !each(c, p, clock, if late == 0 { earliest } else { 0 }) {
            return;
        }
        l.issue(c, p, clock);
        now = clock + 1;
        match c {
            Command::Act => open[i] = true,
            Command::Pre | Command::RdA | Command::WrA => open[i] = false,
            Command::PreAll => open[banks].fill(false),
            _ => {}
        }
        done += 1;
    }
}

/// The first rule that a stream under `rules` breaks according to a checker of `limits`.
fn broken(rules: &DeviceSpec, limits: &DeviceSpec, seeds: u64) -> Option<String> {
    (0..seeds).find_map(|seed| {
        let mut limits_of = Limits::of(limits).unwrap();
        // Refreshes are random here.
        limits_of.refi = None;
        let o = &limits.organisation;
        let mut checker = Checker::new(limits_of, o.ranks, o.bank_groups, o.banks_per_group);
        stream(rules, seed, 1500, true, &mut |c, p, clock, _| {
            checker.command(entry(c, p, clock));
            checker.violations().is_empty()
        });
        checker.violations().first().map(|v| v.to_string())
    })
}

#[test]
fn legal_streams_pass_the_checker() {
    for name in PRESETS {
        let d = spec(name);
        assert_eq!(broken(&d, &d, 8), None, "{name}");
    }
}

/// The rules are not stricter than the definitions: one clock before the earliest clock of the
/// rules the checker objects.
#[test]
fn the_checker_objects_one_clock_before() {
    for name in PRESETS {
        let d = spec(name);
        let mut checker = Checker::of(&d).unwrap();
        let mut tried = 0;
        // tPPD is about commands; the engine applies it to the precharge that ends
        // a read or write with auto-precharge, too.
        let auto = !d.timings.iter().any(|t| t.name == "tPPD");
        stream(&d, 1, 4000, auto, &mut |c, p, clock, earliest| {
            if earliest > 0 {
                let mut early = checker.clone();
                let before = early.violations().len();
                early.command(entry(c, p, earliest - 1));
                assert!(
                    early.violations().len() > before,
                    "{name}: {c} at {p:?} is possible at {} already",
                    earliest - 1
                );
                tried += 1;
            }
            checker.command(entry(c, p, clock));
            true
        });
        assert!(tried > 2000, "{name}: {tried}");
    }
}

/// The device with one timing made so long that others cannot hide it.
fn stretched(d: &DeviceSpec, timing: &str) -> DeviceSpec {
    let mut d = d.clone();
    for t in &mut d.timings {
        if t.name == timing {
            t.value = Expr::parse(&format!("({}) + 60", t.value)).unwrap();
        }
    }
    d
}

fn without(d: &DeviceSpec, i: usize) -> DeviceSpec {
    let mut d = d.clone();
    // A table without a required rule is refused.
    d.rules[i].latency = Expr::clocks(0);
    d
}

/// Mutations: a model that lacks a rule is caught, for each rule.
#[test]
fn each_forgotten_rule_is_noticed() {
    let mut as_it_is = 0;
    let mut all = 0;
    for name in PRESETS {
        let d = spec(name);
        for (i, r) in d.rules.iter().enumerate() {
            all += 1;
            if broken(&without(&d, i), &d, 4).is_some() {
                as_it_is += 1;
                continue;
            }
            // Implied by other rules with the preset's values: with a longer
            // time of its own it is not.
            let noticed = r.latency.names().iter().any(|timing| {
                let long = stretched(&d, timing);
                long.validate().is_ok() && broken(&without(&long, i), &long, 20).is_some()
            });
            assert!(noticed, "{}: nobody notices its absence", label(&d, r));
        }
    }
    // Most are noticed with the preset's values.
    assert!(as_it_is * 100 >= all * 80, "{as_it_is} of {all}");
}
