//! A toy core with fixed costs in front of the controller: a check of the
//! controller's rules against the published latencies of the board, without
//! any real core. `--sensitivity` shows what each assumption is worth.
//!
//! Per access: a fixed cost, the leaf page-table entry's line if it is not in
//! the L1 cache, then the line itself; a dirty victim is released before the
//! fetch. What Linux itself takes is a factor on the whole time.

use nagori_memtime::params::RpTest;
use nagori_memtime::{BoardParams, Clocks, Controller, Error, Kind, Method, Ps};

/// Constants of the toy. Times in ns.
#[derive(Clone, Copy)]
struct Toy {
    /// Cost of one access besides the controller.
    fixed_stride: f64,
    fixed_nbank: f64,
    /// Cost of a leaf PTE's line miss besides the controller (665 with it).
    pte: f64,
    /// Release of a dirty victim to its acknowledgement.
    ack: f64,
    /// Lead of the write-back over the fetch at the controller.
    lead: f64,
    /// Time of the benchmark per time of the model.
    stretch: f64,
    /// Where page tables lie.
    pte_base: u64,
}

const TOY: Toy = Toy {
    fixed_stride: 1390.0,
    fixed_nbank: 1170.0,
    pte: 582.0,
    ack: 471.0,
    lead: 455.0,
    stretch: 1.08,
    pte_base: 0x0400_0000,
};

/// Published averages in ns: kind, benchmark, value, method. Source: Omori and
/// Kimura, Waseda University, 2021 (the cells used for calibration).
const PUBLISHED: [(Kind, &str, u64, Method, f64); 20] = {
    use Kind::{Read, Write};
    use Method::{Coarse, Extended, Fine};
    [
        (Read, "stride", 4096, Coarse, 2702.0),
        (Read, "stride", 8192, Coarse, 2881.0),
        (Write, "stride", 4096, Coarse, 4399.0),
        (Write, "stride", 8192, Coarse, 4479.0),
        (Read, "nbank", 1, Coarse, 2598.0),
        (Read, "nbank", 2, Coarse, 2626.0),
        (Read, "nbank", 3, Coarse, 2637.0),
        (Read, "nbank", 4, Coarse, 2753.0),
        (Read, "nbank", 5, Coarse, 2887.0),
        (Read, "nbank", 6, Coarse, 2962.0),
        (Write, "nbank", 1, Coarse, 4204.0),
        (Write, "nbank", 2, Coarse, 4207.0),
        (Write, "nbank", 3, Coarse, 4223.0),
        (Write, "nbank", 4, Coarse, 4307.0),
        (Write, "nbank", 5, Coarse, 4465.0),
        (Write, "nbank", 6, Coarse, 4507.0),
        (Read, "nbank", 1, Fine, 2608.0),
        (Write, "nbank", 1, Fine, 4892.0),
        (Read, "nbank", 1, Extended, 6060.0),
        (Write, "nbank", 1, Extended, 15843.0),
    ]
};

/// 16 KiB, 4 ways, 64 sets, random replacement; line address and dirty bit.
struct L1 {
    sets: [[Option<(u64, bool)>; 4]; 64],
    lfsr: u32,
}

impl L1 {
    /// `None` on a hit; on a miss the dirty victim, if any.
    fn access(&mut self, line: u64, write: bool) -> Option<Option<u64>> {
        let set = &mut self.sets[(line % 64) as usize];
        if let Some((_, dirty)) = set.iter_mut().flatten().find(|l| l.0 == line) {
            *dirty |= write;
            return None;
        }
        let way = set.iter().position(Option::is_none).unwrap_or_else(|| {
            for _ in 0..3 {
                let x = self.lfsr;
                let b = (x ^ (x >> 2) ^ (x >> 3) ^ (x >> 5)) & 1;
                self.lfsr = (x >> 1) | (b << 15);
            }
            (self.lfsr & 3) as usize
        });
        let victim = set[way].replace((line, write));
        Some(victim.filter(|v| v.1).map(|v| v.0))
    }
}

struct Core {
    controller: Controller,
    l1: L1,
    toy: Toy,
    /// ns
    now: f64,
}

impl Core {
    fn touch(&mut self, addr: u64, write: bool, cost: f64) -> Result<(), Error> {
        let Some(victim) = self.l1.access(addr / 64, write) else {
            return Ok(());
        };
        self.now += cost;
        if let Some(line) = victim {
            self.now += self.toy.ack - self.toy.lead;
            self.memory(line * 64, Kind::Write)?;
            self.now += self.toy.lead;
        }
        self.memory(addr / 64 * 64, Kind::Read)
    }

    fn memory(&mut self, addr: u64, kind: Kind) -> Result<(), Error> {
        let at = Ps((self.now * 1000.0) as u64);
        self.now = self.controller.access(at, addr, kind, 64)?.as_ns();
        Ok(())
    }
}

fn run(
    params: &BoardParams,
    toy: Toy,
    kind: Kind,
    benchmark: &str,
    value: u64,
) -> Result<f64, Error> {
    const N: u64 = 4000;
    const WARM: u64 = 400;
    let mut core = Core {
        controller: Controller::new(params.clone())?,
        l1: L1 {
            sets: [[None; 4]; 64],
            lfsr: 0xace1,
        },
        toy,
        now: 10_000.0,
    };
    let base = params.nvmm_base;
    let (banks, step, fixed) = match benchmark {
        "stride" => (1, value, toy.fixed_stride),
        _ => (value, 8192, toy.fixed_nbank),
    };
    let mut start = 0.0;
    for i in 0..WARM + N {
        if i == WARM {
            start = core.now;
        }
        let addr = base + (i % banks) * params.bank_bytes() + i / banks * step;
        core.now += fixed;
        core.touch(toy.pte_base + (addr - base) / 4096 * 8, false, toy.pte)?;
        core.touch(addr, kind == Kind::Write, 0.0)?;
    }
    Ok((core.now - start) / N as f64 * toy.stretch)
}

fn published(kind: Kind, benchmark: &str, value: u64, method: Method) -> Option<f64> {
    let row = |p: &&(Kind, &str, u64, Method, f64)| {
        (p.0, p.1, p.2, p.3) == (kind, benchmark, value, method)
    };
    PUBLISHED.iter().find(row).map(|p| p.4)
}

const CASES: [(&str, u64); 8] = [
    ("stride", 4096),
    ("stride", 8192),
    ("nbank", 1),
    ("nbank", 2),
    ("nbank", 3),
    ("nbank", 4),
    ("nbank", 5),
    ("nbank", 6),
];

fn table(params: &BoardParams, toy: Toy) -> Result<(), Error> {
    println!("ns per access; (published, error)");
    let mut errors = Vec::new();
    for kind in [Kind::Read, Kind::Write] {
        for (benchmark, value) in CASES {
            print!("{:5} {benchmark:6} {value:4}", format!("{kind:?}"));
            for method in Method::ALL {
                let p = BoardParams {
                    method,
                    ..params.clone()
                };
                let ns = run(&p, toy, kind, benchmark, value)?;
                print!("  {method} {ns:6.0}");
                if let Some(board) = published(kind, benchmark, value, method) {
                    let e = (ns / board - 1.0) * 100.0;
                    errors.push(e.abs());
                    print!(" ({board:5.0} {e:+5.1} %)");
                }
            }
            println!();
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("mean absolute error {mean:.2} %, largest {worst:.2} %");
    Ok(())
}

fn sensitivity() -> Result<(), Error> {
    type Variant = (&'static str, fn(&mut BoardParams, &mut Toy));
    let variants: [Variant; 19] = [
        ("as it is", |_, _| {}),
        ("own bank", |p, _| p.rp_test = RpTest::OwnBank),
        ("no refresh", |p, _| p.refresh.enabled = false),
        ("interval 1560 clocks", |p, _| {
            p.refresh.interval = Clocks(1560);
        }),
        ("first tick +300 clocks", |p, _| {
            p.refresh.first_tick = Clocks(1780);
        }),
        ("first tick +900 clocks", |p, _| {
            p.refresh.first_tick = Clocks(2380);
        }),
        ("pulse never cuts tRAS", |p, _| {
            p.refresh.ras_limit = Clocks(100_000);
            p.refresh.rtp_limit = Clocks(100_000);
        }),
        ("wait 1", |p, _| p.timing.wait = Clocks(1)),
        ("wait 10", |p, _| p.timing.wait = Clocks(10)),
        ("rcd 3", |p, _| p.timing.rcd = Clocks(3)),
        ("wtp 6", |p, _| p.timing.wtp = Clocks(6)),
        ("data +10 clocks", |p, _| p.timing.data = Clocks(10)),
        ("fixed -10 %", |_, t| t.fixed_nbank *= 0.9),
        ("fixed +10 %", |_, t| t.fixed_nbank *= 1.1),
        ("fixed +20 %", |_, t| t.fixed_nbank *= 1.2),
        ("pte 482", |_, t| t.pte -= 100.0),
        ("ack and lead +100", |_, t| {
            t.ack += 100.0;
            t.lead += 100.0;
        }),
        ("fixed 1390, no stretch", |_, t| {
            t.fixed_nbank = 1390.0;
            t.stretch = 1.0;
        }),
        ("page tables in bank 1", |_, t| t.pte_base += 1 << 29),
    ];
    let cells = [
        (Kind::Read, 1, Method::Fine),
        (Kind::Write, 1, Method::Fine),
        (Kind::Write, 4, Method::Fine),
        (Kind::Read, 1, Method::Extended),
        (Kind::Read, 2, Method::Extended),
        (Kind::Write, 1, Method::Extended),
        (Kind::Write, 2, Method::Extended),
        (Kind::Write, 4, Method::Extended),
        (Kind::Write, 6, Method::Extended),
    ];
    print!("{:24}", "nbank");
    for (kind, n, method) in cells {
        print!(
            " {:>9}",
            format!("{:.1}{n}{:.3}", format!("{kind:?}"), method.name())
        );
    }
    println!();
    for (name, change) in variants {
        let (mut p, mut toy) = (BoardParams::vc707(), TOY);
        change(&mut p, &mut toy);
        print!("{name:24}");
        for (kind, n, method) in cells {
            p.method = method;
            print!(" {:9.0}", run(&p, toy, kind, "nbank", n)?);
        }
        println!();
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    table(&BoardParams::vc707(), TOY)?;
    if std::env::args().any(|a| a == "--sensitivity") {
        sensitivity()?;
    }
    Ok(())
}
