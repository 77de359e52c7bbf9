//! Folded stacks, the input of flame graphs: a line for each stack, outermost function first, and
//! nanoseconds of waiting.

use crate::profile::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The profile's time as folded stacks: address space, privilege, functions; a function that waits
/// for NVMM is followed by the frame `[nvmm]`, one that waits for DRAM by `[dram]`.
pub fn folded(p: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, v) in p.rows() {
        let mut line = clean(&p.space_name(key.space));
        let _ = write!(line, ";{}", key.privilege_name());
        let stack = p.stack(key.frames);
        for (i, &addr) in stack.iter().enumerate().rev() {
            line.push(';');
            line.push_str(&clean(&name(p, addr, i)));
        }
        let _ = write!(line, ";[{}]", key.region.name());
        *lines.entry(line).or_default() += v.cycles;
    }
    let mut out = String::new();
    for (line, cycles) in lines.into_iter().filter(|l| l.1 > 0) {
        let _ = writeln!(out, "{line} {}", p.ns(cycles));
    }
    out
}

/// The function at index `i` of a stack, or its address. A return address is after its call.
pub(crate) fn name(p: &Profile, addr: u64, i: usize) -> String {
    let at = if i == 0 { addr } else { addr.wrapping_sub(1) };
    match p.symbols().lookup(at) {
        Some(s) => s.name.clone(),
        None => format!("{addr:#x}"),
    }
}

/// Semicolons separate frames.
fn clean(name: &str) -> String {
    name.replace([';', '\n', '\r'], ":")
}
