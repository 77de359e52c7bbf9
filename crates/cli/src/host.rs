//! The costs of a run on the host. They are kept separate from the guest's statistics, since they
//! differ from run to run.

use nagori_machine::{Machine, Measured, Reason, TranslatorStats};
use nagori_terminal::tables::{grouped, row, table, text};
use serde_json::{json, Value};
use std::time::Instant;

/// Measures from its creation on.
pub struct Host {
    begin: Instant,
}

type Row = (&'static str, fn(&TranslatorStats) -> String);

const ROWS: &[Row] = &[
    ("blocks translated", |s| grouped(s.blocks)),
    ("instructions in them", |s| grouped(s.instructions)),
    ("bytes of code made", |s| grouped(s.bytes)),
    ("code memory used", |s| percent(s.code_bytes, s.code_limit)),
    ("times it was emptied", |s| grouped(s.emptied)),
    ("jumps linked", |s| grouped(s.links)),
    ("entries into code", |s| grouped(s.entries)),
];

type MeasuredRow = (&'static str, fn(&Measured) -> String);

const MEASURED_ROWS: &[MeasuredRow] = &[
    ("time in translated code", |m| ms(m.code_ns)),
    ("time in the interpreter", |m| ms(m.interpreter_ns())),
    ("time of translation", |m| ms(m.translate_ns)),
    ("retired in translated code", |m| {
        grouped(m.code_instructions)
    }),
    ("retired in the interpreter", |m| {
        grouped(m.interpreter_instructions())
    }),
];

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64)
}

impl Host {
    /// Starts measuring; `tiers` is whether to measure tiers, which costs time.
    pub fn start(machine: &mut Machine, tiers: bool) -> Host {
        if tiers {
            machine.measure_translators();
        }
        Host {
            begin: Instant::now(),
        }
    }

    /// A section for human readers, after the guest's statistics.
    pub fn table(&self, machine: &Machine) -> String {
        let stats = machine.translator_stats();
        let elapsed = self.begin.elapsed().as_nanos() as u64;
        let mut out = format!(
            "\nhost (differs from run to run): {}, {} elapsed\n",
            engine(&stats),
            ms(elapsed)
        );
        if stats.is_empty() {
            return out;
        }
        let head = (0..stats.len()).map(|i| format!("hart {i}"));
        let mut t = table(std::iter::once("host".to_string()).chain(head));
        let mut add = |name: &str, cells: Vec<String>| {
            row(&mut t, std::iter::once(name.to_string()).chain(cells));
        };
        for (name, value) in ROWS {
            add(name, stats.iter().map(value).collect());
        }
        let measured: Option<Vec<Measured>> = stats.iter().map(|s| s.measured).collect();
        let Some(measured) = measured else {
            let times = stats.iter().map(|s| ms(s.translate_ns)).collect();
            add("time of translation", times);
            out.push_str(&text(&t));
            return out;
        };
        for (name, value) in MEASURED_ROWS {
            add(name, measured.iter().map(value).collect());
        }
        for why in Reason::ALL {
            let name = format!("exits: {}", why.name());
            let cells = measured.iter().map(|m| grouped(m.exits[why as usize]));
            add(&name, cells.collect());
        }
        out.push_str(&text(&t));
        out
    }

    /// What [`Self::table`] shows, as JSON. Times are in nanoseconds.
    pub fn json(&self, machine: &Machine) -> Value {
        let stats = machine.translator_stats();
        let elapsed = self.begin.elapsed().as_nanos() as u64;
        let harts = stats.iter().enumerate().map(|(i, s)| {
            let mut v = json!({
                "hart": i,
                "blocks": s.blocks,
                "instructions": s.instructions,
                "bytes": s.bytes,
                "code_memory_used": s.code_bytes,
                "code_memory": s.code_limit,
                "emptied": s.emptied,
                "links": s.links,
                "entries": s.entries,
                "translate_ns": s.translate_ns,
            });
            if let Some(m) = s.measured {
                let exits = Reason::ALL.map(|r| (r.name().to_string(), json!(m.exits[r as usize])));
                v["time_ns"] = json!({
                    "translated_code": m.code_ns,
                    "interpreter": m.interpreter_ns(),
                    "translation": m.translate_ns,
                });
                v["retired"] = json!({
                    "translated_code": m.code_instructions,
                    "interpreter": m.interpreter_instructions(),
                });
                v["exits"] = Value::Object(exits.into_iter().collect());
            }
            v
        });
        json!({
            "engine": engine(&stats),
            "elapsed_ns": elapsed,
            "harts": harts.collect::<Vec<_>>(),
        })
    }
}

fn engine(stats: &[TranslatorStats]) -> &'static str {
    match stats {
        [] => "interpreter",
        _ => "translator",
    }
}
