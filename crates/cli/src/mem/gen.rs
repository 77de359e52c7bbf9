//! `nagori mem gen`, and patterns without a file.

use crate::mem::args::{GenArgs, PatternName};
use anyhow::{anyhow, bail, Context};
use clap::ValueEnum;
use nagori_memtrace::format::Compression;
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use nagori_memtrace::output::Writer;
use nagori_memtrace::{Source, Times};
use nagori_terminal::numbers::{count, in_units, real, seed, size};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{Exit, Messages, SIGNAL, SUCCESS};
use nagori_terminal::tables::grouped;
use nagori_values::hint;

/// Share of writes of `mixed`.
const MIXED_WRITES: f64 = 0.3;

/// Number of accesses between two checks for signals.
const SIGNAL_EVERY: u64 = 1 << 16;

fn pattern(name: PatternName, stride: u64, exponent: f64) -> Pattern {
    match name {
        PatternName::Sequential => Pattern::Sequential,
        PatternName::Random | PatternName::Mixed => Pattern::Random,
        PatternName::Strided => Pattern::Strided(stride),
        PatternName::Zipf => Pattern::Zipf(exponent),
        PatternName::PointerChase => Pattern::PointerChase,
    }
}

fn writes(name: PatternName) -> f64 {
    match name {
        PatternName::Mixed => MIXED_WRITES,
        _ => 0.0,
    }
}

/// Writes a trace.
pub fn command(a: &GenArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let spec = Spec {
        pattern: pattern(a.pattern, a.stride, a.exponent),
        count: a.count,
        base: a.base,
        span: a.span,
        bytes: a.bytes,
        writes: a.writes.unwrap_or(writes(a.pattern)),
        gap: a.gap,
        seed: a.seed,
    };
    let mut source = Generator::new(spec)?;
    let name = a.output.display().to_string();
    // A gap in a format without times would be lost silently.
    if a.gap > 0 && !a.format.has_times() {
        bail!("--gap {}: the format {} has no times", a.gap, a.format);
    }
    let times = match a.format {
        f if !f.has_times() || a.gap == 0 && f == nagori_memtrace::Format::Nagori => Times::None,
        nagori_memtrace::Format::Gem5 | nagori_memtrace::Format::Gem5Text => {
            // Their ticks are picoseconds; a gap in cycles has no length here.
            if a.gap > 0 {
                bail!("--gap {}: the format {} has no cycles", a.gap, a.format);
            }
            Times::Ticks(nagori_memtime::Ps(1))
        }
        _ => Times::Cycles,
    };
    let file = Staged::create(&a.output).context("--output")?;
    let shown = file.is_stdout();
    let mut w = Writer::new(
        name.clone(),
        file,
        a.format,
        Compression::of_name(&name),
        times,
    )?;
    let mut n = 0u64;
    while let Some(r) = source.next()? {
        w.push(&r)?;
        n += 1;
        if n.is_multiple_of(SIGNAL_EVERY) {
            if let Some(signal) = messages.signals().caught() {
                messages.note("interrupted; nothing is written");
                return Ok(Exit(SIGNAL + signal));
            }
        }
    }
    w.finish()?.finish()?;
    if !shown {
        messages.note(&format!("{} accesses in {name}", grouped(a.count)));
    }
    Ok(SUCCESS)
}

/// The keys of a pattern in a word.
const KEYS: [&str; 9] = [
    "count", "base", "span", "stride", "exponent", "writes", "bytes", "gap", "seed",
];

/// A value of a key, or the error with the key.
fn named<T>(
    wrong: &dyn Fn(String) -> anyhow::Error,
    key: &str,
    value: Result<T, String>,
) -> anyhow::Result<T> {
    value.map_err(|e| wrong(format!("{key}: {e}")))
}

/// The pattern of `gen:PATTERN[,key=value...]`, with the keys of `nagori mem gen`.
pub fn spec(text: &str) -> anyhow::Result<Spec> {
    let wrong = |what: String| anyhow!("trace gen:{text}: {what}");
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let name = PatternName::from_str(name, false).map_err(|_| {
        let known: Vec<_> = PatternName::value_variants()
            .iter()
            .filter_map(|p| p.to_possible_value())
            .map(|p| p.get_name().to_string())
            .collect();
        wrong(format!(
            "no known pattern '{name}': expected one of {}",
            known.join(", ")
        ))
    })?;
    let mut s = Spec {
        pattern: Pattern::Random,
        count: 1_000_000,
        base: 0,
        span: 256 << 20,
        bytes: 64,
        writes: writes(name),
        gap: 0,
        seed: 1,
    };
    let (mut stride, mut exponent) = (4096, 0.99);
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| wrong(format!("'{part}' is not key=value")))?;
        let bytes = || named(&wrong, key, size(value));
        match key {
            "count" => s.count = named(&wrong, key, count::<u64>(..)(value))?,
            "base" => s.base = bytes()?,
            "span" => s.span = bytes()?,
            "stride" => stride = bytes()?,
            "exponent" => exponent = named(&wrong, key, real(..)(value))?,
            "writes" => s.writes = named(&wrong, key, real(0.0..=1.0)(value))?,
            "bytes" => s.bytes = named(&wrong, key, in_units::<u32>("B", ..)(value))?,
            "gap" => s.gap = named(&wrong, key, count::<u64>(..)(value))?,
            "seed" => s.seed = named(&wrong, key, seed(value))?,
            _ => bail!(wrong(format!(
                "no known key '{key}': expected one of {}{}",
                KEYS.join(", "),
                hint(key, KEYS)
            ))),
        }
    }
    s.pattern = pattern(name, stride, exponent);
    Ok(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_in_a_word() {
        let s = spec("strided,stride=8 KiB,count=5,writes=0.5,span=1GiB,base=0x40").unwrap();
        assert_eq!(s.pattern, Pattern::Strided(8192));
        assert_eq!((s.count, s.writes, s.span, s.base), (5, 0.5, 1 << 30, 64));
        assert_eq!(spec("mixed").unwrap().writes, 0.3);
        let s = spec("random,count=1e6,bytes=32 B,gap=0x10,span=1.5GiB").unwrap();
        assert_eq!(
            (s.count, s.bytes, s.gap, s.span),
            (1_000_000, 32, 16, 3 << 29)
        );
        for (text, what) in [
            (
                "fast",
                "no known pattern 'fast': expected one of sequential, random",
            ),
            ("random,count", "'count' is not key=value"),
            (
                "random,count=x",
                "count: `x` is no number: expected a whole number",
            ),
            ("random,seed=x", "seed: `x` is no number"),
            (
                "random,writes=2",
                "writes: 2 is not possible: expected a number from 0 to 1",
            ),
            ("random,cuont=1", "did you mean `count`?"),
            ("random,size=5", "no known key 'size'"),
            (
                "random,span=5q",
                "span: `5q` is no size, `q` is none of its units",
            ),
        ] {
            let e = spec(text).unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        }
    }
}
