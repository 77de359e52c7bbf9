//! Relations between timings, checked while the places of the values are still known.

use nagori_memtime::dram::spec::DeviceSpec;

use crate::error::Error;
use crate::tree::{dotted, Node, Value};

/// `larger` must be at least the sum of `parts`; the row applies if all of them are given. With the
/// reason.
const AT_LEAST: &[(&str, &[&str], &str)] = &[
    (
        "tRC",
        &["tRAS", "tRP"],
        "a bank cannot be faster than its parts",
    ),
    ("tRAS", &["tRCD"], "a row would close before it can be read"),
    ("tFAW", &["tRRD"], "four activations take longer than one"),
    ("tFAW", &["tRRD_S"], "four activations take longer than one"),
    ("tRRD_L", &["tRRD_S"], "the same bank group is never faster"),
    ("tCCD_L", &["tCCD_S"], "the same bank group is never faster"),
    ("tWTR_L", &["tWTR_S"], "the same bank group is never faster"),
    ("tRPab", &["tRP"], "all banks take no less than one"),
    ("tRFC", &["tRFCpb"], "all banks take no less than one"),
    (
        "tREFI",
        &["tRFC"],
        "the memory would do nothing but refresh",
    ),
    (
        "tREFI",
        &["tREFIpb"],
        "banks are refreshed more often than ranks",
    ),
    (
        "tREFIpb",
        &["tRFCpb"],
        "the memory would do nothing but refresh",
    ),
];

/// Checks names and relations of a device's timings.
pub fn check(spec: &DeviceSpec, timings: &Node, commands: &Node) -> Result<(), Error> {
    used_and_there(spec, timings, commands)?;
    let resolved = spec.resolve_timings().map_err(|e| {
        // The model names the timing in its message; so the place of that timing is used.
        let text = e.to_string();
        let named = spec
            .timings
            .iter()
            .rev()
            .find(|t| text.contains(&format!("timing {}:", t.name)));
        match named.and_then(|t| node_of(timings, &t.name).map(|n| (t, n))) {
            Some((t, n)) => n.wrong(&dotted("timings", &t.name), text),
            None => timings.wrong("timings", text),
        }
    })?;
    let get = |n: &str| resolved.iter().find(|t| t.0 == n).map(|t| t.1);
    for (larger, parts, why) in AT_LEAST {
        let (Some(whole), Some(each)) = (
            get(larger),
            parts.iter().map(|p| get(p)).collect::<Option<Vec<_>>>(),
        ) else {
            continue;
        };
        // 0 stands for a limit that is switched off.
        let sum: u64 = each.iter().map(|v| u64::from(*v)).sum();
        if whole != 0 && u64::from(whole) < sum {
            // The place of the value that was set last.
            let all = std::iter::once(*larger).chain(parts.iter().copied());
            let (name, node) = all
                .filter_map(|n| node_of(timings, n).map(|node| (n, node)))
                .fold(None, |best: Option<(&str, &Node)>, new| match best {
                    Some(b) if b.1.origin >= new.1.origin => Some(b),
                    _ => Some(new),
                })
                .unwrap_or((larger, timings));
            let sums: Vec<String> = each.iter().map(|v| v.to_string()).collect();
            return Err(node.wrong(
                &dotted("timings", name),
                format!(
                    "contradiction: {larger} = {whole} clocks is less than {} = {}: {why}",
                    parts.join(" + "),
                    sums.join(" + ")
                ),
            ));
        }
    }
    for r in &spec.refresh {
        let model = |e: nagori_memtime::Error| commands.wrong("commands.refresh", e.to_string());
        let interval = spec
            .clocks("refresh", &r.interval, &resolved)
            .map_err(model)?;
        let [row, busy] = spec.refresh_demand(r.command).map_err(model)?;
        if u64::from(interval) > u64::from(row) + u64::from(busy) {
            continue;
        }
        // The interval, unless another value was set later.
        let names = r.interval.names();
        let others = spec.timings.iter().map(|t| t.name.as_str());
        let (name, node) = names
            .iter()
            .map(|n| &**n)
            .chain(others)
            .filter_map(|n| node_of(timings, n).map(|node| (n, node)))
            .fold(None, |best: Option<(&str, &Node)>, new| match best {
                Some(b) if b.1.origin >= new.1.origin => Some(b),
                _ => Some(new),
            })
            .unwrap_or(("", timings));
        return Err(node.wrong(
            &dotted("timings", name),
            format!(
                "contradiction: {} every {} = {interval} clocks: more than {row} for one access of a row and its end, \
                    and {busy} for the refresh, are needed, else requests starve",
                r.command, r.interval
            ),
        ));
    }
    let burst = spec.organisation.burst_length.div_ceil(2);
    for name in ["tCCD", "tCCD_S", "tCCD_L"] {
        if let (Some(v), Some(n)) = (get(name), node_of(timings, name)) {
            if v < burst {
                return Err(n.wrong(
                    &dotted("timings", name),
                    format!("contradiction: {v} clocks, but a burst takes BL/2 = {burst}: bursts would overlap"),
                ));
            }
        }
    }
    Ok(())
}

fn node_of<'a>(timings: &'a Node, name: &str) -> Option<&'a Node> {
    match &timings.value {
        Value::Table(t) => t.get(name),
        _ => None,
    }
}

/// Every name in a rule must be a timing; every timing must be used.
fn used_and_there(spec: &DeviceSpec, timings: &Node, commands: &Node) -> Result<(), Error> {
    let known: Vec<&str> = spec.timings.iter().map(|t| t.name.as_str()).collect();
    let rule_node = |i: usize| match &commands.value {
        Value::Table(t) => match t.get("rules").map(|n| &n.value) {
            Some(Value::List(l)) => l.get(i),
            _ => None,
        },
        _ => None,
    };
    let mut used: Vec<&str> = vec!["BL"];
    let mut uses: Vec<(String, &nagori_memtime::dram::Expr, &Node)> = Vec::new();
    for (i, r) in spec.rules.iter().enumerate() {
        let key = format!("commands.rules.{i} ({} to {})", r.prev, r.next);
        uses.push((key, &r.latency, rule_node(i).unwrap_or(commands)));
    }
    uses.push(("commands.read_data".into(), &spec.read_data, commands));
    uses.push(("commands.write_data".into(), &spec.write_data, commands));
    for r in &spec.refresh {
        uses.push((
            format!("commands.refresh ({})", r.command),
            &r.interval,
            commands,
        ));
    }
    if let Some(p) = &spec.write_pause {
        uses.push((
            "commands.write_pause.granularity".into(),
            &p.granularity,
            commands,
        ));
        uses.push((
            "commands.write_pause.overhead".into(),
            &p.overhead,
            commands,
        ));
    }
    for (key, expr, node) in &uses {
        for name in expr.names() {
            if !known.contains(&name) {
                return Err(node.wrong(
                    key,
                    format!(
                        "`{expr}` needs the timing {name}, which is missing: add timings.{name}"
                    ),
                ));
            }
            used.push(name);
        }
    }
    for t in &spec.timings {
        used.extend(t.value.names());
    }
    for t in &spec.timings {
        if !used.contains(&t.name.as_str()) {
            let node = node_of(timings, &t.name).unwrap_or(timings);
            let mut names: Vec<&str> = used.clone();
            names.sort_unstable();
            names.dedup();
            return Err(node.wrong(
                &dotted("timings", &t.name),
                format!(
                    "unknown key: no rule uses this timing; used are {}",
                    names.join(", ")
                ),
            ));
        }
    }
    Ok(())
}
