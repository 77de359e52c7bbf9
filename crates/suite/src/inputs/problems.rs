//! Problems for solvers.

use super::random::Random;
use std::fmt::Write as _;

/// Arcs of a flow problem for each node, beyond the path that makes it solvable.
const ARCS: u64 = 7;

/// A minimum-cost flow problem: a path that everything could take at a high price, and arcs that are cheaper.
pub fn flow(nodes: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let n = nodes.max(2);
    let amount = n;
    let mut out = format!(
        "p min {n} {}\nn 1 {amount}\nn {n} -{amount}\n",
        (n - 1) * (ARCS + 1)
    );
    for from in 1..n {
        let _ = writeln!(
            out,
            "a {from} {} 0 {amount} {}",
            from + 1,
            1000 + r.below(1000)
        );
        for _ in 0..ARCS {
            // Most arcs are short, so that paths are long.
            let reach = 1 + r.below(1 + n / 20);
            let to = match r.below(8) {
                0 => 1 + r.below(n),
                _ => (from + reach).min(n),
            };
            let to = if to == from { from + 1 } else { to };
            let _ = writeln!(
                out,
                "a {from} {to} 0 {} {}",
                1 + r.below(40),
                1 + r.below(900)
            );
        }
    }
    out.into_bytes()
}

/// A random formula of clauses with three different variables.
pub fn formula(variables: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let n = variables.max(3);
    let clauses = n * 4;
    let mut out = format!("p cnf {n} {clauses}\n");
    for _ in 0..clauses {
        let mut three = [0; 3];
        for i in 0..3 {
            three[i] = loop {
                let v = 1 + r.below(n);
                if !three[..i].contains(&v) {
                    break v;
                }
            };
        }
        for v in three {
            let sign = if r.below(2) == 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{v} ");
        }
        out.push_str("0\n");
    }
    out.into_bytes()
}

/// A transport problem: what `n` sources have goes to `n` sinks at least cost, over five ways from each source.
pub fn linear(n: u64, seed: u64) -> Vec<u8> {
    const WAYS: u64 = 5;
    let mut r = Random::new(seed);
    let mut ways: Vec<(u64, u64, u64)> = Vec::new();
    for from in 0..n {
        for k in 0..WAYS {
            // One way of each source leads to the sink with its number, so that there is a solution.
            let to = if k == 0 { from } else { r.below(n) };
            if !ways
                .iter()
                .rev()
                .take(WAYS as usize)
                .any(|w| w.0 == from && w.1 == to)
            {
                ways.push((from, to, 1 + r.below(500)));
            }
        }
    }
    let mut out = String::from("Minimize\n cost:");
    for (i, (from, to, cost)) in ways.iter().enumerate() {
        let end = if i % 8 == 7 { "\n" } else { "" };
        let _ = write!(out, " + {cost} x{from}_{to}{end}");
    }
    out.push_str("\nSubject To\n");
    for node in 0..n {
        for (name, sense, is) in [("s", "<=", 0), ("d", ">=", 1)] {
            let _ = write!(out, " {name}{node}:");
            for (from, to, _) in ways
                .iter()
                .filter(|w| node == if is == 0 { w.0 } else { w.1 })
            {
                let _ = write!(out, " + x{from}_{to}");
            }
            let _ = writeln!(out, " {sense} {}", if is == 0 { 120 } else { 100 });
        }
    }
    out.push_str("End\n");
    out.into_bytes()
}
