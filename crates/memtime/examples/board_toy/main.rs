//! A toy core with fixed costs before the controller: a check of the controller's rules against the
//! published latencies of the board, without any real core. `--sensitivity` shows the effect of
//! each assumption.
//!
//! Per access: a fixed cost, the leaf page-table entry's line if it is not in the L1 cache, then
//! the line itself; a dirty victim is released before the fetch. Linux's own share is a factor on
//! the whole time.

#[path = "../../src/described.rs"]
#[allow(dead_code)]
mod described;

mod toy;

use nagori_memtime::params::RpTest;
use nagori_memtime::{BoardParams, Clocks, Error, Kind, Method};
use toy::{run, Toy, TOY};

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
        let (mut p, mut toy) = (described::board::<BoardParams>(), TOY);
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
    table(&described::board::<BoardParams>(), TOY)?;
    if std::env::args().any(|a| a == "--sensitivity") {
        sensitivity()?;
    }
    Ok(())
}
