//! Folded stacks: a line for each stack, outermost first, and nanoseconds of waiting, as flame graphs
//! are made from.

use crate::profile::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The profile's time as folded stacks: address space, privilege, functions; a function that waits for
/// NVMM ends with the frame `[nvmm]`, one that waits for DRAM with `[dram]`.
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

/// The function at place `i` of a stack, or its address. A return address is behind its call.
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
