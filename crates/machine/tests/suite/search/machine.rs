//! Random machines: as settings of the description `small`, each of which can be left out.

use crate::common::Rng;
use nagori_config::{Library, Machine as Description};

const REPLACEMENTS: [&str; 5] = ["lfsr", "random", "lru", "tree-plru", "srrip"];
const MEMORIES: [&str; 8] = [
    "ddr3-1600k",
    "ddr4",
    "lpddr4",
    "pcm",
    "reram",
    "stt-mram",
    "xpoint",
    "cxl",
];

/// The number of harts that settings ask for.
pub fn harts(settings: &[String]) -> u64 {
    let of = |s: &String| s.strip_prefix("harts=").and_then(|n| n.parse().ok());
    settings.iter().rev().find_map(of).unwrap_or(1)
}

/// The description of a machine with such settings, if there can be one.
pub fn describe(settings: &[String]) -> Option<Description> {
    Description::load(&Library::default(), "small", settings).ok()
}

/// Settings of a machine.
pub fn random(rng: &mut Rng) -> Vec<String> {
    loop {
        let all = draw(rng);
        // Some values exclude one another.
        if describe(&all).is_some() {
            return all;
        }
    }
}

fn draw(rng: &mut Rng) -> Vec<String> {
    let harts = rng.pick(&[1u64, 2, 2, 2, 3, 4, 4, 5, 8]);
    let mut all = vec![format!("harts={harts}")];
    let registers = rng.below(3) > 0;
    if registers && rng.one_in(3) {
        all.push("core=inorder2".into());
    }
    first(rng, "l1d", registers, &mut all);
    let registers_of_code = rng.one_in(3);
    first(rng, "l1i", registers_of_code, &mut all);
    let levels = levels(rng, harts, &mut all);
    if registers {
        if rng.below(3) > 0 {
            store_buffer(rng, &mut all);
        }
        if rng.one_in(2) {
            hints(rng, &levels, &mut all);
        }
    }
    for t in ["dtlb", "itlb"] {
        if rng.one_in(2) {
            all.push(format!("{t}.sectors={}", rng.pick(&[1, 2, 4, 8])));
            all.push(format!("{t}.superpage_entries={}", rng.pick(&[1, 2, 4])));
        }
    }
    memory(rng, &mut all);
    if rng.one_in(6) {
        epochs(rng, &mut all);
    }
    if rng.one_in(3) {
        let clock = rng.pick(&["100 MHz", "1 GHz", "200/3 MHz", "3200 MHz"]);
        all.push(format!("clock_hz=\"{clock}\""));
    }
    if rng.one_in(4) {
        all.push(format!("hub_cycles={}", rng.below(30)));
    }
    if rng.one_in(4) {
        all.push("count_by_privilege=true".into());
    }
    if rng.one_in(4) {
        all.push("triggers=4".into());
    }
    all.push(format!("seed={}", rng.below(1000)));
    all
}

/// What a prefetcher does, in the form of the keys of a cache, or nothing.
fn prefetcher(rng: &mut Rng, kinds: &[&str]) -> Vec<String> {
    if rng.one_in(2) {
        return Vec::new();
    }
    let (degree, more) = (1 + rng.below(4), rng.below(8));
    vec![
        format!("prefetcher=\"{}\"", rng.pick(kinds)),
        format!("degree={degree}"),
        format!("distance={}", degree + more),
        format!("prefetch_entries={}", rng.pick(&[1, 2, 8, 64])),
        format!("prefetch_confidence={}", 1 + rng.below(3)),
    ]
}

fn first(rng: &mut Rng, name: &str, registers: bool, all: &mut Vec<String>) {
    let ways = rng.pick(&[1u64, 2, 4, 4, 8]);
    let sets = 1 << rng.pick(&[0, 1, 2, 4, 6, 6]);
    all.push(format!("{name}.ways={ways}"));
    all.push(format!("{name}.size={}", 64 * ways * sets));
    all.push(format!("{name}.replacement={}", rng.pick(&REPLACEMENTS)));
    if registers {
        all.push(format!("{name}.mshrs={}", rng.pick(&[1, 2, 3, 4, 6, 10])));
    }
    let kinds: &[&str] = match name {
        "l1d" => &["next-line", "stride", "stream"],
        _ => &["next-line", "stream"],
    };
    let keys = prefetcher(rng, kinds);
    all.extend(keys.iter().map(|k| format!("{name}.{k}")));
}

/// Outer levels; their names, and whether each is inclusive.
fn levels(rng: &mut Rng, harts: u64, all: &mut Vec<String>) -> Vec<(String, bool)> {
    let n = rng.pick(&[0, 1, 1, 2, 2, 2, 3]);
    let (mut sharers, mut latency) = (1, 0);
    let mut known = Vec::new();
    for k in 0..n {
        let name = ["a", "b", "c"][k];
        sharers *= rng.pick(&[1, 1, 2, 4]);
        let shared: String = if rng.one_in(2) && k + 1 == n || sharers > harts {
            "\"all\"".into()
        } else {
            sharers.to_string()
        };
        latency += 1 + rng.below(30);
        let ways = rng.pick(&[1u64, 2, 4, 8, 16]);
        let size = (64 * ways) << rng.pick(&[0, 2, 4, 5, 6]);
        let inclusion = rng.pick(&["inclusive", "inclusive", "non-inclusive", "exclusive"]);
        let mut keys = vec![
            format!("level={}", k + 2),
            format!("shared_by={shared}"),
            format!("size={size}"),
            format!("ways={ways}"),
            format!("latency={latency}"),
            format!("inclusion=\"{inclusion}\""),
            format!("replacement=\"{}\"", rng.pick(&REPLACEMENTS)),
        ];
        if rng.one_in(2) {
            keys.push(format!("probe_latency={}", rng.below(40)));
        }
        if rng.one_in(3) {
            keys.push("write=\"through\"".into());
        }
        if rng.one_in(2) {
            keys.push(format!("mshrs={}", rng.pick(&[1, 2, 4, 6, 16])));
        }
        if rng.one_in(3) {
            let (banks, cycles) = (1 << rng.below(4), 1 + rng.below(9));
            keys.push(format!("banks={banks}"));
            keys.push(format!("bank_cycles={cycles}"));
        }
        keys.extend(prefetcher(rng, &["next-line", "stride", "stream"]));
        all.extend(keys.iter().map(|key| format!("cache.{name}.{key}")));
        known.push((name.to_string(), inclusion == "inclusive"));
    }
    known
}

fn store_buffer(rng: &mut Rng, all: &mut Vec<String>) {
    all.push(format!(
        "store_buffer.entries={}",
        rng.pick(&[1, 2, 4, 8, 8, 42])
    ));
    if rng.one_in(2) {
        all.push("store_buffer.drain=\"any\"".into());
    }
    if rng.one_in(4) {
        all.push("store_buffer.coalesce=false".into());
    }
    if rng.one_in(3) {
        all.push(format!("store_buffer.forward_cycles={}", rng.below(10)));
    }
    if rng.one_in(3) {
        all.push(format!("store_buffer.drain_cycles={}", 1 + rng.below(20)));
    }
}

fn hints(rng: &mut Rng, levels: &[(String, bool)], all: &mut Vec<String>) {
    for h in ["all", "p1", "pall", "s1"] {
        if h == "all" || rng.one_in(4) {
            all.push(format!("nontemporal.{h}.store=\"write-combining\""));
        }
        if rng.one_in(3) {
            let mut last = vec!["\"l1d\"".to_string()];
            let mut bypass = Vec::new();
            for (name, inclusive) in levels {
                match rng.below(3) {
                    0 => last.push(format!("\"{name}\"")),
                    1 if !inclusive => bypass.push(format!("\"{name}\"")),
                    _ => {}
                }
            }
            all.push(format!("nontemporal.{h}.last=[{}]", last.join(", ")));
            all.push(format!("nontemporal.{h}.bypass=[{}]", bypass.join(", ")));
        }
    }
    if rng.one_in(2) {
        all.push("nontemporal.evict=\"in-order\"".into());
    }
    if rng.one_in(3) {
        all.push("nontemporal.cached_copy=\"update\"".into());
    }
    for part in ["dram", "nvmm"] {
        if rng.one_in(3) {
            all.push(format!("nontemporal.partial_{part}=\"read-modify-write\""));
        }
    }
}

/// NVMM, or all memory, is emulated.
fn epochs(rng: &mut Rng, all: &mut Vec<String>) {
    let formulas = ["koshiba", "mesmeric", "quartz", "misses"];
    all.push(format!("epoch.variant={}", rng.pick(&formulas)));
    all.push(format!(
        "epoch.memory={}",
        rng.pick(&["all", "all", "nvmm"])
    ));
    all.push("epoch.length=\"10 us\"".into());
    for time in ["dram", "read", "write"] {
        all.push(format!("epoch.{time}=\"{} ns\"", 50 + rng.below(3000)));
    }
    all.push(format!("epoch.weight=\"{}\"", 1 + rng.below(9)));
    if rng.one_in(3) {
        all.push("epoch.shortest=\"2 us\"".into());
    }
    if rng.one_in(4) {
        all.push(format!("epoch.faults.turns={}", 1 + rng.below(3)));
        all.push(format!("epoch.faults.prefetches={}", rng.one_in(2)));
        all.push(format!("epoch.faults.reading=\"{} ns\"", rng.below(3000)));
    }
}

fn memory(rng: &mut Rng, all: &mut Vec<String>) {
    if rng.one_in(2) {
        let method = rng.pick(&["coarse", "fine", "extended"]);
        all.push(format!("method={method}"));
    }
    for region in ["dram", "nvmm"] {
        if rng.one_in(4) {
            let model = rng.pick(&MEMORIES);
            all.push(format!("memory.regions.{region}.model=\"{model}\""));
            if rng.one_in(3) {
                all.push(format!("memory.regions.{region}.controllers=2"));
                all.push(format!("memory.regions.{region}.interleave=\"64 B\""));
            }
        }
    }
    if rng.one_in(3) {
        all.push("memory.controller.refresh.enabled=false".into());
    }
    if rng.one_in(4) {
        let domain = rng.pick(&["none", "adr", "eadr"]);
        all.push("memory.track_persistence=true".into());
        all.push(format!("memory.persistence_domain={domain}"));
    }
    if rng.one_in(3) {
        for (key, most) in [
            ("read_request", 400_000),
            ("read_response", 200_000),
            ("write_request", 400_000),
            ("write_ack", 400_000),
        ] {
            all.push(format!("board.{key}_ps={}", 1000 * rng.below(most / 1000)));
        }
    }
}
