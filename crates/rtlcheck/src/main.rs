//! `nagori-rtlcheck board|table LEAST` compares what a testbench writes with the model;
//! `nagori-rtlcheck trace FILE N` writes the first N requests of a recorded trace for the testbench.
#![forbid(unsafe_code)]

use nagori_memtime::Kind;
use nagori_memtrace::{input, record::Source};
use nagori_rtlcheck::{board, table, Error};
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "nagori-rtlcheck board LEAST [ROW-BITS] | table LEAST | trace FILE NUMBER";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("nagori-rtlcheck: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| {
        let n = text.parse::<u64>();
        n.map_err(|_| Error::Usage(format!("`{text}` is not a number; {USAGE}")))
    };
    let stdin = std::io::stdin().lock();
    let input = std::io::BufReader::with_capacity(1 << 20, stdin);
    let enough = |compared: u64, least: u64| match compared {
        n if n >= least => Ok(()),
        compared => Err(Error::TooLittle { compared, least }),
    };
    match words[..] {
        ["board", least, ref rows @ ..] if rows.len() < 2 => {
            let least = number(least)?;
            let bits = rows.first().map_or(Ok(16), |r| number(r))?;
            let bits = u32::try_from(bits).unwrap_or(u32::MAX);
            let c = board::compare(input, &board::with_row_bits(bits)?)?;
            enough(c.commands, least)?;
            println!(
                "{} clocks in {} runs: {} commands ({} refreshes) of {} requests at the same clock, {} responses, {} \
                    settings, {} values of registers",
                c.clocks, c.runs, c.commands, c.refreshes, c.requests, c.responses, c.settings, c.values
            );
            Ok(())
        }
        ["table", least] => {
            let least = number(least)?;
            let c = table::compare(input)?;
            enough(c.lookups, least)?;
            println!(
                "{} look-ups ({} hits, {} misses, {} without the right), {} writes of entries ({} refused) in {} runs: \
                    the same",
                c.lookups, c.hits, c.misses, c.denied, c.writes, c.refused, c.runs
            );
            Ok(())
        }
        ["trace", file, n] => trace(file, number(n)?),
        _ => Err(Error::Usage(USAGE.into())),
    }
}

/// Lines `gap kind offset`. Addresses are folded into the memory; gaps are those of the trace, up to
/// 300 clocks, as if its cycles were the controller's.
fn trace(file: &str, n: u64) -> Result<(), Error> {
    const MEMORY: u64 = 1 << 32;
    const LONGEST: u64 = 300;
    let mut reader = input::open(file.as_ref(), input::Options::default())?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut last = None;
    for _ in 0..n {
        let Some(r) = reader.next()? else { break };
        let gap = r.time.saturating_sub(last.unwrap_or(r.time)).min(LONGEST);
        last = Some(r.time);
        let kind = if r.kind == Kind::Read { 'R' } else { 'W' };
        // Spread over all banks, which are the highest bits of an offset.
        let addr = (r.addr >> 6).wrapping_mul(64) % MEMORY;
        let addr = addr ^ (addr >> 15 & 7) << 29;
        writeln!(out, "{gap} {kind} {addr:x}")?;
    }
    out.flush()?;
    Ok(())
}
