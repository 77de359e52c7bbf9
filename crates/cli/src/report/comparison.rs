//! The report of `nagori compare`, out of its JSON.

use super::document::{Block, Document, Table};
use crate::run_times::{drawn, Shown};
use anyhow::Context;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Series};
use nagori_terminal::tables::{duration, grouped};
use serde_json::{json, Value};

/// A row of the comparison.
struct Row<'v> {
    name: String,
    /// Its summary.
    of: &'v Value,
    /// Its runs.
    runs: Vec<&'v Value>,
}

/// The document.
///
/// # Errors
/// If this is no such JSON.
pub fn document(v: &Value) -> anyhow::Result<Document> {
    let words = v["program"]
        .as_array()
        .context("program: expected the command's words")?;
    let program: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let program = program.join(" ");
    let rows = rows(v);
    anyhow::ensure!(!rows.is_empty(), "it has no rows");
    let machine = v["runs"][0]["machine"].as_str().unwrap_or("?");
    let seeds = v["seeds"].as_array().map_or(0, Vec::len);
    let subtitle = match seeds {
        0 | 1 => format!("machine {machine}"),
        n => format!("machine {machine}, {n} runs of each row"),
    };
    let mut result: Vec<Block> = Vec::new();
    for p in v["problems"].as_array().into_iter().flatten() {
        let message = p["message"].as_str().unwrap_or_default();
        result.push(Block::Text(message.to_string()));
    }
    result.push(Block::Chart(Box::new(drawn(&program, &shown(&rows)))));
    result.push(Block::Table(table(&rows)));
    let mut about: Vec<(String, Value)> = Vec::new();
    let a = &v["about"];
    for (name, value) in [
        ("command", command(a)),
        ("program", json!(program)),
        ("nagori", a["version"].clone()),
        ("guest image", a["image"].clone()),
        ("placement", a["placement"].clone()),
        ("machine", a["machine"]["source"].clone()),
        ("seeds", json!(seeds_text(v))),
    ] {
        if !value.is_null() && value != "" {
            about.push((name.to_string(), value));
        }
    }
    Ok(
        Document::new(format!("What memory costs {program}"), subtitle)
            .with("Result", false, result)
            .with("Memory", false, memory(&rows))
            .with("Which functions wait", false, profile(&rows))
            .with("How it was made", false, vec![Block::Facts(about)])
            .with(
                "Machine of the first row, and the origin of each value",
                true,
                origins(a),
            ),
    )
}

fn command(about: &Value) -> Value {
    let words = about["command"].as_array();
    let words: Vec<String> = { words.into_iter().flatten() }
        .filter_map(Value::as_str)
        .enumerate()
        .map(|(i, w)| match i {
            // Where the command lies on that host says nothing.
            0 => w.rsplit('/').next().unwrap_or(w).to_string(),
            _ if w.is_empty() || w.contains([' ', '\'', '"', '$', '*', ';']) => {
                format!("'{}'", w.replace('\'', "'\\''"))
            }
            _ => w.to_string(),
        })
        .collect();
    if words.is_empty() {
        Value::Null
    } else {
        json!(format!("`{}`", words.join(" ").replace('`', "'")))
    }
}

fn seeds_text(v: &Value) -> String {
    let seeds: Vec<String> = v["seeds"]
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    match &seeds[..] {
        [first, .., last] => format!("{first} to {last}"),
        _ => seeds.concat(),
    }
}

/// What a run or a row varies.
fn at(v: &Value) -> Vec<(String, String)> {
    let all = v["vary"].as_object().into_iter().flatten();
    all.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_string()))
        .collect()
}

/// Its method or memory. Runs on a memory have a method as well.
fn variant(v: &Value) -> &str {
    let memory = v["memory_model"].as_str();
    memory.or(v["method"].as_str()).unwrap_or("?")
}

fn rows(v: &Value) -> Vec<Row<'_>> {
    let lists = ["methods", "memory_models"].map(|k| v[k].as_array().into_iter().flatten());
    let mut all: Vec<Row> = Vec::new();
    let mut runs = v["runs"].as_array().into_iter().flatten();
    for of in lists.into_iter().flatten() {
        let count = of["guest_time_ps"]["count"].as_u64().unwrap_or(1) as usize;
        let varied = at(of).into_iter().map(|(k, v)| format!("{k}={v}"));
        let name: Vec<String> = std::iter::once(variant(of).to_string())
            .chain(varied)
            .collect();
        all.push(Row {
            name: name.join(", "),
            of,
            // In the order of the rows.
            runs: runs.by_ref().take(count).collect(),
        });
    }
    all
}

impl Row<'_> {
    /// Mean of a figure over the runs that have it.
    fn mean(&self, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
        let all: Vec<f64> = self.runs.iter().filter_map(|r| of(&r["summary"])).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    fn waiting(&self) -> Option<f64> {
        self.mean(|s| {
            let busy = s["busy_cycles"].as_f64().filter(|b| *b > 0.0)?;
            Some(s["memory_stall_cycles"].as_f64()? / busy)
        })
    }

    fn interval(&self) -> Option<[f64; 2]> {
        let ends = &self.of["run_time"]["ci95"];
        Some([ends[0].as_f64()?, ends[1].as_f64()?])
    }
}

fn shown(rows: &[Row<'_>]) -> Vec<Shown> {
    let of = |r: &Row| Shown {
        variant: variant(r.of).to_string(),
        at: at(r.of),
        time: r.of["run_time"]["mean"].as_f64().ok_or_else(|| why(r)),
        interval: r.interval(),
        waiting: r.waiting().unwrap_or(0.0),
    };
    rows.iter().map(of).collect()
}

/// Why a row has no run time.
fn why(r: &Row<'_>) -> String {
    match r.of["not_compared"].as_str() {
        Some(why) => why.to_string(),
        None if r.of["complete"] == json!(false) => "unfinished".into(),
        None => "nothing to compare with".into(),
    }
}

fn table(rows: &[Row<'_>]) -> Table {
    let columns = [
        "",
        "guest time",
        "run time",
        "CPI",
        "waiting",
        "NVMM reads",
        "NVMM writes",
        "DRAM requests",
    ];
    let several = rows.iter().any(|r| r.runs.len() > 1);
    let real =
        |v: Option<f64>, digits: usize| v.map_or(Value::Null, |v| json!(format!("{v:.digits$}")));
    let cells = |r: &Row| {
        let time = r.of["guest_time_ps"]["mean"].as_f64();
        let run_time = match (r.of["run_time"]["mean"].as_f64(), r.interval()) {
            (None, _) => json!(why(r)),
            (Some(v), Some([low, high])) => json!(format!("{v:.3} ± {:.3}", (high - low) / 2.0)),
            (Some(v), None) => json!(format!("{v:.3}")),
        };
        let count = |of: &dyn Fn(&Value) -> Option<f64>| match r.mean(of) {
            Some(v) => json!(grouped(v.round() as u64)),
            None => Value::Null,
        };
        vec![
            json!(r.name),
            json!(time.map_or("-".into(), |t| duration(t.round() as u64))),
            run_time,
            real(r.mean(|s| s["cpi"].as_f64()), 3),
            r.waiting()
                .map_or(Value::Null, |w| json!(format!("{:.1} %", 100.0 * w))),
            count(&|s| s["nvmm"]["reads"].as_f64()),
            count(&|s| s["nvmm"]["writes"].as_f64()),
            count(&|s| Some(s["dram"]["reads"].as_f64()? + s["dram"]["writes"].as_f64()?)),
        ]
    };
    Table {
        columns: columns.map(String::from).into(),
        rows: rows.iter().map(cells).collect(),
        note: if several {
            "Means of the runs; run times with half of their 95 % interval (Student's t), compared seed \
            by seed".into()
        } else {
            "The run time of the first row is 1; waiting: share of the time that is spent waiting for memory".into()
        },
    }
}

/// Mean latencies and requests, where there are some.
fn memory(rows: &[Row<'_>]) -> Vec<Block> {
    let names: Vec<String> = rows.iter().map(|r| r.name.clone()).collect();
    let panel = |title: &str, y: Axis, kinds: &[(&str, &str, &str)]| {
        let series = kinds.iter().map(|(name, memory, key)| {
            let point = |r: &Row| {
                Some(Point::new(
                    r.name.clone(),
                    r.mean(|s| s[*memory][*key].as_f64())?,
                ))
            };
            Series::new(*name, Mark::Bars).with(rows.iter().filter_map(point))
        });
        let x = Axis {
            names: names.clone(),
            ..Axis::names("")
        };
        Panel::new(
            title,
            (x, y),
            series.filter(|s| !s.points.is_empty()).collect(),
        )
    };
    let latency = panel(
        "Mean latency of NVMM",
        Axis::new("latency", "ns"),
        &[
            ("reads", "nvmm", "read_latency_avg_ns"),
            ("writes", "nvmm", "write_latency_avg_ns"),
        ],
    );
    let requests = panel(
        "Requests to NVMM",
        Axis::new("lines", ""),
        &[("reads", "nvmm", "reads"), ("writes", "nvmm", "writes")],
    );
    let used = requests
        .series
        .iter()
        .flat_map(|s| &s.points)
        .any(|p| p.y.is_some_and(|y| y > 0.0));
    if used {
        vec![Block::Chart(Box::new(Chart {
            panels: vec![latency, requests],
            ..Chart::default()
        }))]
    } else {
        Vec::new()
    }
}

fn profile(rows: &[Row<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for r in rows {
        let all = r.of["waiting"].as_array().map_or(&[][..], Vec::as_slice);
        if all.is_empty() {
            continue;
        }
        let cells = |w: &Value| {
            let share = w["share"].as_f64().unwrap_or(0.0);
            let time = duration(w["ns"].as_u64().unwrap_or(0).saturating_mul(1000));
            let text = |k: &str| w[k].clone();
            vec![
                text("function"),
                json!(w["line"].as_str().unwrap_or_default()),
                text("space"),
                text("memory"),
                json!(time),
                json!(format!("{:.1} %", 100.0 * share)),
            ]
        };
        blocks.push(Block::Text(format!("{}:", r.name)));
        blocks.push(Block::Table(Table {
            columns: ["function", "line", "of", "memory", "waiting", "share"]
                .map(String::from)
                .into(),
            rows: all.iter().take(12).map(cells).collect(),
            note: String::new(),
        }));
    }
    blocks
}

fn origins(about: &Value) -> Vec<Block> {
    let values = about["machine"]["values"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if values.is_empty() {
        return Vec::new();
    }
    let origin = |v: &Value| match v["origin"].as_str().unwrap_or_default() {
        "override" => "set for this run".to_string(),
        "given" => "given".to_string(),
        "preset" => "controller preset".to_string(),
        "core" => "core description".to_string(),
        o => o.to_string(),
    };
    let plain = |v: &Value| match v {
        Value::String(s) => s.clone(),
        v => v.to_string(),
    };
    let cells = |v: &Value| {
        vec![
            v["key"].clone(),
            json!(plain(&v["value"])),
            v["unit"].clone(),
            json!(origin(v)),
        ]
    };
    vec![Block::Table(Table {
        columns: ["key", "value", "unit", "origin"].map(String::from).into(),
        rows: values.iter().map(cells).collect(),
        note: String::new(),
    })]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::html;

    fn result() -> Value {
        let run = |ns: u64| {
            json!({"machine": "server", "summary": {"busy_cycles": 100, "memory_stall_cycles": 40, "cpi": 2.5,
                "nvmm": {"reads": 7000, "writes": 3, "read_latency_avg_ns": ns}, "dram": {"reads": 1, "writes": 2}}})
        };
        let row = |name: &str, t: f64| {
            json!({"memory_model": name, "complete": true, "guest_time_ps": {"count": 1, "mean": t * 1e9},
                "run_time": {"count": 1, "mean": t, "ci95": null}, "vary": {"l1d.ways": "4"},
                "waiting": [{"function": "qsort", "space": "kv", "memory": "nvmm", "ns": 1000, "share": 0.25}]})
        };
        json!({"program": ["./kv", "a b"], "seeds": [], "runs": [run(100), run(300)], "methods": [],
            "memory_models": [row("ddr4", 1.0), row("pcm", 1.5)],
            "about": {"version": "0.1.0", "command": ["/x/nagori", "compare", "a b"], "image": "abc123",
                "machine": {"source": "server", "values": [
                    {"key": "harts", "value": 2, "unit": "", "origin": "override"}]}}})
    }

    #[test]
    fn a_report_has_result_profile_machine_and_command() {
        let page = html(&document(&result()).unwrap()).unwrap();
        for part in [
            "What memory costs ./kv a b",
            "pcm, l1d.ways=4",
            "1.500",
            "7 000",
            "40.0 %",
            "qsort",
            "<code>nagori compare &#39;a b&#39;</code>",
            "abc123",
            "set for this run",
            "Mean latency of NVMM",
        ] {
            let part = part.replace("&#39;", "'");
            assert!(page.contains(&part), "{part}");
        }
    }

    #[test]
    fn what_is_no_comparison_is_told() {
        assert!(document(&json!({"runs": [], "methods": []})).is_err());
        let e = super::super::document(json!({"a": 1}))
            .unwrap_err()
            .to_string();
        assert!(e.contains("nagori compare --json"), "{e}");
    }
}
