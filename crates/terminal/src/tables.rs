//! Statistics as tables and as JSON.

use comfy_table::{presets, Cell, CellAlignment, Table};
use nagori_machine::{HartEpochReport, HartReport, Label, Machine, RegionReport, Report};
use nagori_memtime::stats::{Counters, Histogram, Region};
use nagori_memtime::Ps;
use nagori_platform::devices::virtio::Traffic;
pub use nagori_session::words::{counted, duration, grouped};
use serde_json::{json, Value};
use std::fmt::Write;

/// A table without borders, with a line under its head; all columns but the first are
/// right-aligned.
pub fn table<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::NOTHING);
    t.set_header(
        head.into_iter()
            .enumerate()
            .map(|(i, s)| aligned(i, s.into())),
    );
    t
}

fn aligned(column: usize, text: String) -> Cell {
    Cell::new(text).set_alignment(match column {
        0 => CellAlignment::Left,
        _ => CellAlignment::Right,
    })
}

/// Adds a row, with numbers right-aligned.
pub fn row(t: &mut Table, cells: impl IntoIterator<Item = String>) {
    t.add_row(cells.into_iter().enumerate().map(|(i, s)| aligned(i, s)));
}

/// A table's text, without spaces around it.
pub fn text(t: &Table) -> String {
    let lines = t.to_string();
    // The first column has one space before it.
    let line = |l: &str| format!("{}\n", l.strip_prefix(' ').unwrap_or(l).trim_end());
    lines.lines().map(line).collect()
}

fn real(v: Option<f64>, digits: usize) -> String {
    match v {
        Some(v) => format!("{v:.digits$}"),
        None => "-".into(),
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Statistics of the outer cache levels.
fn caches(r: &Report) -> String {
    let mut t = table([
        "cache",
        "hits",
        "misses",
        "hit rate",
        "modified lines in",
        "modified lines out",
        "evictions",
        "back-invalidations",
    ]);
    for c in &r.caches {
        let e = &c.events;
        row(
            &mut t,
            [
                c.name.clone(),
                grouped(e.hits),
                grouped(e.misses),
                real(share(e.hits, e.hits + e.misses), 3),
                grouped(e.writes),
                grouped(e.writebacks),
                grouped(e.evictions),
                grouped(e.back_invalidations),
            ],
        );
    }
    text(&t)
}

/// MSHR and bank waits and prefetches of the caches, if there are any.
fn requests(r: &Report) -> Option<String> {
    let mut t = table([
        "cache",
        "misses that waited",
        "cycles",
        "waits for banks",
        "cycles",
        "prefetches",
        "useful",
        "late",
        "useless",
        "dropped",
    ]);
    let mut any = false;
    for c in &r.first_level {
        let e = &c.events;
        let counts = [
            e.mshr_waits,
            e.mshr_wait_cycles,
            // The banks of first-level caches are not modelled.
            0,
            0,
            e.prefetches,
            e.prefetch_useful,
            e.prefetch_late,
            e.prefetch_useless,
            e.prefetch_dropped,
        ];
        any |= counts.iter().any(|n| *n > 0);
        let cells = std::iter::once(c.name.clone()).chain(counts.map(grouped));
        row(&mut t, cells.collect::<Vec<_>>());
    }
    for c in &r.caches {
        let e = &c.events;
        let counts = [
            e.mshr_waits,
            e.mshr_wait_cycles,
            e.bank_waits,
            e.bank_wait_cycles,
            e.prefetches,
            e.prefetch_useful,
            e.prefetch_late,
            e.prefetch_useless,
            e.prefetch_dropped,
        ];
        any |= counts.iter().any(|n| *n > 0);
        let cells = std::iter::once(c.name.clone()).chain(counts.map(grouped));
        row(&mut t, cells.collect::<Vec<_>>());
    }
    any.then(|| text(&t))
}

/// What the buffers of stores and the hints have done, all harts together: the counters that are not 0.
fn stores(r: &Report) -> Option<String> {
    let all = r.stores.iter().map(|s| s.events);
    let sum = all.reduce(|a, b| a.zip(&b, |a, b| a + b))?;
    let mut t = table(["stores and hints", "count"]);
    for (name, n) in sum.named().filter(|(_, n)| *n > 0) {
        row(&mut t, [name.replace('_', " "), grouped(n)]);
    }
    Some(text(&t))
}

/// What epochs have added, by hart, where they emulate NVMM.
pub fn epochs(r: &Report) -> Option<String> {
    let e = r.epochs.as_ref()?;
    let ns = |ps: u64| format!("{:.1} ns", ps as f64 / 1000.0);
    let mut out = format!(
        "epochs: a miss is waited for {} on DRAM ({} times a hit in the last-level cache), {} on {}, {} with a \
            write-back\n",
        ns(e.dram_ps), e.weight, ns(e.read_ps), e.of, ns(e.write_ps)
    );
    let head = e.harts.iter().enumerate();
    let head = head.map(|(n, _)| format!("hart {n}"));
    let mut t = table(std::iter::once("epochs".to_string()).chain(head));
    type Figure = fn(&HartEpochReport) -> String;
    let rows: [(&str, Figure); 7] = [
        ("of full length", |h| grouped(h.counts.by_time)),
        ("ended before work was seen", |h| {
            grouped(h.counts.by_hand_over)
        }),
        ("delay asked for", |h| {
            let sign = if h.asked_ps < 0 { "-" } else { "" };
            format!("{sign}{}", duration(h.asked_ps.unsigned_abs()))
        }),
        ("cycles injected", |h| grouped(h.counts.injected_cycles)),
        ("cycles of reading counters", |h| {
            grouped(h.counts.reading_cycles)
        }),
        ("contradictions of counters", |h| {
            grouped(h.counts.contradictions)
        }),
        ("write-backs not charged", |h| {
            grouped(h.counts.excess_writebacks)
        }),
    ];
    for (name, value) in rows {
        let cells = e.harts.iter().map(value);
        row(&mut t, std::iter::once(name.to_string()).chain(cells));
    }
    out.push_str(&text(&t));
    Some(out)
}

type HartRow = (&'static str, fn(&HartReport) -> String);

const HART_ROWS: &[HartRow] = &[
    ("instructions", |h| grouped(h.instructions)),
    ("cycles", |h| grouped(h.cycles)),
    ("idle cycles", |h| grouped(h.events.idle_cycles)),
    ("CPI without idle", |h| {
        let busy = h.cycles.saturating_sub(h.events.idle_cycles);
        real(share(busy, h.instructions), 3)
    }),
    ("memory stall cycles", |h| {
        grouped(h.events.memory_stall_cycles)
    }),
    ("L1D load misses", |h| grouped(h.events.l1d_load_misses)),
    ("L1D store misses", |h| grouped(h.events.l1d_store_misses)),
    ("L1D page-walk misses", |h| {
        grouped(h.events.l1d_walk_misses)
    }),
    ("L1D upgrades", |h| grouped(h.events.l1d_upgrades)),
    ("L1D write-backs", |h| grouped(h.events.l1d_writebacks)),
    ("L1D flushes of dirty lines", |h| {
        grouped(h.events.l1d_flushes)
    }),
    ("probes of dirty lines", |h| grouped(h.events.probes)),
    ("L1I misses", |h| grouped(h.events.l1i_misses)),
    ("DTLB misses", |h| grouped(h.events.dtlb_misses)),
    ("ITLB misses", |h| grouped(h.events.itlb_misses)),
    ("mispredicts", |h| grouped(h.events.mispredicts)),
    ("exceptions", |h| grouped(h.events.exceptions)),
    ("interrupts", |h| grouped(h.events.interrupts)),
];

/// A row of memory counters: name, and value over an interval.
type MemoryRow = (&'static str, fn(&Counters, Ps) -> String);

const MEMORY_ROWS: &[MemoryRow] = &[
    ("reads", |c, _| grouped(c.reads)),
    ("writes", |c, _| grouped(c.writes)),
    ("reads per write", |c, _| real(c.reads_per_write(), 3)),
    ("bytes read", |c, _| grouped(c.read_bytes)),
    ("bytes written", |c, _| grouped(c.write_bytes)),
    ("requests per second", |c, t| {
        c.requests_per_s(t)
            .map_or("-".into(), |v| grouped(v.round() as u64))
    }),
    ("activations", |c, _| grouped(c.activations)),
    ("ACT/REQ", |c, _| real(c.act_per_req(), 3)),
    ("BANK_PARA", |c, _| real(c.bank_para(), 3)),
    ("row hits", |c, _| grouped(c.row_hits)),
    ("precharges, clean", |c, _| grouped(c.precharges_clean)),
    ("precharges, dirty", |c, _| grouped(c.precharges_dirty)),
    ("refreshes", |c, _| grouped(c.refreshes)),
];

/// All statistics for human readers, including the guest's labels and dumps.
pub fn machine(m: &Machine) -> String {
    let mut out = String::new();
    if !m.labels().is_empty() {
        out.push_str(&labels(m.labels()));
        out.push('\n');
    }
    let regions = m.regions();
    // Writing to a string does not fail.
    for (label, mark) in m.marks() {
        let _ = writeln!(out, "== mark {label} ==");
        out.push_str(&one(mark));
        out.push('\n');
    }
    if let Some(r) = &regions {
        let open = if r.open { ", one still open" } else { "" };
        let _ = writeln!(out, "== regions of interest: {}{open} ==", r.count);
        out.push_str(&one(&r.report));
        out.push('\n');
    }
    if m.labels_lost() > 0 {
        let _ = writeln!(
            out,
            "{} labels and marks more are not kept\n",
            m.labels_lost()
        );
    }
    if !m.marks().is_empty() || regions.is_some() {
        out.push_str("== end ==\n");
    }
    out.push_str(&one(&m.report()));
    let networks = networks(m);
    if !networks.is_empty() {
        out.push('\n');
        out.push_str(&network_table(&networks));
    }
    out
}

/// Network interfaces that have done anything since the machine's start, whatever was reset meanwhile.
fn networks(m: &Machine) -> Vec<(usize, Traffic)> {
    let mut all = m.networks();
    all.retain(|(_, t)| *t != Traffic::default());
    all
}

fn network_table(all: &[(usize, Traffic)]) -> String {
    let head = all.iter().map(|(slot, _)| format!("slot {slot}"));
    let mut t = table(std::iter::once("network, since the start".to_string()).chain(head));
    type Count = fn(&Traffic) -> u64;
    let rows: [(&str, Count); 5] = [
        ("frames sent", |t| t.sent_frames),
        ("bytes sent", |t| t.sent_bytes),
        ("frames received", |t| t.received_frames),
        ("bytes received", |t| t.received_bytes),
        ("frames lost", |t| t.dropped_frames),
    ];
    for (name, value) in rows {
        let cells = all.iter().map(|(_, t)| grouped(value(t)));
        row(&mut t, std::iter::once(name.to_string()).chain(cells));
    }
    text(&t)
}

/// Labels with their times.
pub fn labels(labels: &[Label]) -> String {
    let mut t = table(["label", "time", "since the last", "hart", "instructions"]);
    let mut last = 0;
    for l in labels {
        let name = l.text().unwrap_or_else(|| format!("{:#x}", l.value));
        let since = duration(l.time_ps.saturating_sub(last));
        last = l.time_ps;
        let hart = l.hart.to_string();
        row(
            &mut t,
            [
                name,
                duration(l.time_ps),
                since,
                hart,
                grouped(l.instructions),
            ],
        );
    }
    text(&t)
}

/// All statistics as one JSON object, including the guest's labels and dumps.
pub fn machine_json(m: &Machine) -> Value {
    let mut value = to_json(&m.report());
    let mark = |(label, r): &(u64, Report)| json!({"label": label, "report": to_json(r)});
    let label = |l: &Label| {
        let mut v = json!(l);
        v["text"] = json!(l.text());
        v
    };
    value["marks"] = m.marks().iter().map(mark).collect();
    value["labels"] = m.labels().iter().map(label).collect();
    value["labels_lost"] = json!(m.labels_lost());
    value["markers_refused"] = json!(m.markers_refused());
    value["power_cuts"] = json!(m.power_cuts());
    let networks = networks(m);
    if !networks.is_empty() {
        let one = |(slot, t): &(usize, Traffic)| {
            let mut v = json!(t);
            v["slot"] = json!(slot);
            v
        };
        value["networks"] = networks.iter().map(one).collect();
    }
    value["regions"] = match m.regions() {
        Some(r) => json!({"count": r.count, "open": r.open, "report": to_json(&r.report)}),
        None => Value::Null,
    };
    value
}

/// All statistics of a stretch of time.
pub fn one(r: &Report) -> String {
    let mut out = format!(
        "machine {}: {} of guest time, {} instructions, {}\n\n",
        r.machine,
        duration(r.elapsed_ps),
        grouped(r.instructions),
        nvmm(r)
    );
    if r.parallel {
        out.push_str("harts ran at the same time: not deterministic, times are approximate\n\n");
    }
    out.push_str(&harts(r));
    out.push('\n');
    if !r.caches.is_empty() {
        out.push_str(&caches(r));
        out.push('\n');
    }
    for table in [requests(r), stores(r), epochs(r)].into_iter().flatten() {
        out.push_str(&table);
        out.push('\n');
    }
    out.push_str(&memory(r));
    if !r.memories.is_empty() {
        out.push('\n');
        out.push_str(&memories(r));
    }
    if r.memory.total().requests() > 0 {
        out.push('\n');
        out.push_str(&banks(r));
        out.push('\n');
        out.push_str(&latencies(r));
    }
    out
}

fn harts(r: &Report) -> String {
    let head = r.harts.iter().map(|h| format!("hart {}", h.hart));
    let mut t = table(std::iter::once("harts".to_string()).chain(head));
    for (name, value) in HART_ROWS {
        let cells = r.harts.iter().map(value);
        row(&mut t, std::iter::once(name.to_string()).chain(cells));
    }
    text(&t)
}

/// The name of the memory of its own that NVMM has.
pub fn own_memory(r: &Report) -> Option<&str> {
    let own = r.memories.iter().find(|m| m.name == "nvmm")?;
    Some(&own.model)
}

/// What is behind NVMM: a memory of its own, or the machine's controller with a method.
pub fn nvmm(r: &Report) -> String {
    if let Some(e) = &r.epochs {
        return format!("NVMM {} by epochs ({})", e.of, e.variant.name());
    }
    match own_memory(r) {
        Some(name) => format!("NVMM {name}"),
        None => format!("method {}", r.memory.method),
    }
}

/// Figures of DRAM or NVMM, whether behind the board's controller or a memory of its own.
pub struct PartFigures {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Mean time from a read's arrival at the controller to its data, in ns.
    pub read_ns: Option<f64>,
    /// Mean time from a write's arrival at the controller to its answer, in ns.
    pub write_ns: Option<f64>,
    /// Mean time from a write's arrival to the command that hands its data to the medium's row buffer, in ns; only
    /// the board's controller counts it.
    pub medium_ns: Option<f64>,
    /// Activations per request.
    pub act_per_req: Option<f64>,
    /// Requests per change of bank; only the board's controller counts them.
    pub bank_para: Option<f64>,
    /// Its total energy in picojoules, if its memory reports energy.
    pub energy_pj: Option<f64>,
}

/// The figures of a part of memory.
pub fn part(r: &Report, which: Region) -> PartFigures {
    let name = match which {
        Region::Dram => "dram",
        Region::Nvmm => "nvmm",
    };
    let Some(own) = r.memories.iter().find(|m| m.name == name) else {
        let s = r.memory.region(which);
        let c = &s.counters;
        return PartFigures {
            reads: c.reads,
            writes: c.writes,
            read_bytes: c.read_bytes,
            write_bytes: c.write_bytes,
            read_ns: s.read_latency.mean_ns(),
            write_ns: s.write_latency.mean_ns(),
            medium_ns: s.write_to_medium.mean_ns(),
            act_per_req: c.act_per_req(),
            bank_para: c.bank_para(),
            energy_pj: None,
        };
    };
    let c = own.stats.total();
    let energy = own.stats.regions.iter().filter_map(|r| r.energy.as_ref());
    PartFigures {
        reads: c.reads,
        writes: c.writes,
        read_bytes: c.read_bytes,
        write_bytes: c.write_bytes,
        read_ns: own.stats.read_latency().mean_ns(),
        write_ns: own.stats.write_latency().mean_ns(),
        medium_ns: None,
        act_per_req: (c.requests() > 0).then(|| c.activations as f64 / c.requests() as f64),
        bank_para: None,
        energy_pj: energy.map(|e| e.total()).reduce(|a, b| a + b),
    }
}

/// Regions with a memory of their own: counters, latencies, energy, wear.
pub fn memories(r: &Report) -> String {
    let head = r
        .memories
        .iter()
        .map(|m| format!("{}: {}", m.name, m.model));
    let mut t = table(std::iter::once("memory of its own".to_string()).chain(head));
    type Value = fn(&RegionReport) -> Option<String>;
    let rows: [(&str, Value); 12] = [
        ("reads", |m| Some(grouped(m.stats.total().reads))),
        ("writes", |m| Some(grouped(m.stats.total().writes))),
        ("read latency, mean ns", |m| {
            m.stats.read_latency().mean_ns().map(|v| format!("{v:.1}"))
        }),
        ("write latency, mean ns", |m| {
            m.stats.write_latency().mean_ns().map(|v| format!("{v:.1}"))
        }),
        ("activations", |m| {
            Some(grouped(m.stats.total().activations))
        }),
        ("row hit rate", |m| {
            let rate = m.stats.total().row_hit_rate();
            rate.map(|r| format!("{:.1} %", 100.0 * r))
        }),
        ("refreshes", |m| Some(grouped(m.stats.total().refreshes))),
        ("bandwidth, MB/s", |m| {
            m.stats.bandwidth().map(|b| format!("{:.2}", b / 1e6))
        }),
        ("energy, uJ", |m| {
            let all = m.stats.regions.iter().filter_map(|r| r.energy.as_ref());
            let sum = all.map(|e| e.total()).reduce(|a, b| a + b);
            sum.map(|e| format!("{:.3}", e / 1e6))
        }),
        ("writes of cells", |m| {
            let wear = m.stats.regions.iter().filter_map(|r| r.wear.as_ref());
            wear.map(|w| w.writes).reduce(|a, b| a + b).map(grouped)
        }),
        ("most writes of a unit", |m| {
            let wear = m.stats.regions.iter().filter_map(|r| r.wear.as_ref());
            wear.map(|w| w.max_writes).max().map(grouped)
        }),
        ("lifetime at this rate, years", |m| {
            let wear = m.stats.regions.iter().filter_map(|r| r.wear.as_ref());
            let least = wear.filter_map(|w| w.lifetime_s).reduce(f64::min);
            least.map(|s| format!("{:.3}", s / (365.25 * 86_400.0)))
        }),
    ];
    for (name, value) in rows {
        let cells: Vec<Option<String>> = r.memories.iter().map(value).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|c| c.unwrap_or("-".into()));
            row(&mut t, std::iter::once(name.to_string()).chain(cells));
        }
    }
    text(&t)
}

/// The counters of the memory bus by region.
pub fn memory(r: &Report) -> String {
    let m = &r.memory;
    if m.total().requests() == 0 && !r.memories.is_empty() {
        return "memory bus: no requests to the board's controller\n".into();
    }
    if m.total().requests() == 0 {
        return "memory bus: no requests (without the timing model there are none)\n".into();
    }
    let columns = [
        m.region(Region::Dram).counters,
        m.region(Region::Nvmm).counters,
        m.total(),
    ];
    let mut t = table(["memory bus", "DRAM", "NVMM", "total"]);
    for (name, value) in MEMORY_ROWS {
        let cells = columns.iter().map(|c| value(c, m.elapsed()));
        row(&mut t, std::iter::once(name.to_string()).chain(cells));
    }
    text(&t)
}

type BankColumn = (&'static str, fn(&Counters) -> String);

const BANK_COLUMNS: &[BankColumn] = &[
    ("reads", |c| grouped(c.reads)),
    ("writes", |c| grouped(c.writes)),
    ("ACT/REQ", |c| real(c.act_per_req(), 3)),
    ("BANK_PARA", |c| real(c.bank_para(), 3)),
    ("row hits", |c| grouped(c.row_hits)),
    ("PRE clean", |c| grouped(c.precharges_clean)),
    ("PRE dirty", |c| grouped(c.precharges_dirty)),
];

/// The counters of the memory bus by bank.
fn banks(r: &Report) -> String {
    let head = BANK_COLUMNS.iter().map(|c| c.0);
    let mut t = table(std::iter::once("bank").chain(head));
    for (i, c) in r.memory.banks.iter().enumerate() {
        let cells = BANK_COLUMNS.iter().map(|(_, value)| value(c));
        row(&mut t, std::iter::once(i.to_string()).chain(cells));
    }
    text(&t)
}

/// Latencies at the controller's port: the mean, and the share in each range.
fn latencies(r: &Report) -> String {
    let mut out = String::new();
    for region in Region::ALL {
        let name = match region {
            Region::Dram => "DRAM",
            Region::Nvmm => "NVMM",
        };
        let s = r.memory.region(region);
        for (kind, h) in [
            ("read latency", &s.read_latency),
            ("write latency", &s.write_latency),
            ("write to medium", &s.write_to_medium),
        ] {
            let Some(mean) = h.mean_ns() else { continue };
            let _ = write!(out, "{name} {kind}: mean {mean:.1} ns;");
            let used = h.buckets.iter().enumerate().filter(|b| *b.1 > 0);
            for (i, &n) in used {
                let percent = 100.0 * n as f64 / h.count as f64;
                let _ = match Histogram::range_ns(i) {
                    (a, Some(b)) => write!(out, " {a}..{b} ns {percent:.1} %"),
                    (a, None) => write!(out, " {a} ns and more {percent:.1} %"),
                };
            }
            out.push('\n');
        }
    }
    out
}

/// Everything as one JSON object, derived figures included.
pub fn to_json(r: &Report) -> Value {
    let mut value = json!(r);
    value["memory"] = r.memory.to_json();
    value
}
