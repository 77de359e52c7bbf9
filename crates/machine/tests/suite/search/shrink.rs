//! Less of a machine and of a program, as long as the difference stays.

use super::program::{Item, Level, Program};
use super::Case;

/// All cases that are a step simpler, the greatest steps first.
pub fn simpler(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let machines = settings(&case.settings).into_iter().map(|settings| Case {
        settings,
        ..case.clone()
    });
    all.extend(machines);
    let with = |program: Program| Case {
        program,
        ..case.clone()
    };
    all.extend(setup(&case.program).into_iter().map(with));
    let p = &case.program;
    for k in 0..p.sections.len() {
        if p.sections.len() > 1 {
            let mut less = p.clone();
            less.sections.remove(k);
            all.push(with(less));
        }
        for items in fewer(&p.sections[k]) {
            let mut less = p.clone();
            less.sections[k] = items;
            all.push(with(less));
        }
    }
    for k in 0..p.functions.len() {
        for items in fewer(&p.functions[k]) {
            let mut less = p.clone();
            less.functions[k] = items;
            all.push(with(less));
        }
    }
    all
}

/// Settings of simpler machines: fewer harts, a table less, a key less.
pub fn settings(all: &[String]) -> Vec<Vec<String>> {
    let mut simpler = Vec::new();
    let without = |drop: &dyn Fn(&str) -> bool| -> Vec<String> {
        all.iter().filter(|s| !drop(s)).cloned().collect()
    };
    for n in 1..super::machine::harts(all) {
        let fewer = |s: &String| {
            if s.starts_with("harts=") {
                format!("harts={n}")
            } else {
                s.clone()
            }
        };
        simpler.push(all.iter().map(fewer).collect());
    }
    let table = |s: &String| {
        let key = s.split('=').next().unwrap_or(s);
        key.rsplit_once('.').map(|(t, _)| format!("{t}."))
    };
    let mut tables: Vec<String> = all.iter().filter_map(table).collect();
    tables.sort();
    tables.dedup();
    simpler.extend(tables.iter().map(|t| without(&|s| s.starts_with(t))));
    let single = all.iter().filter(|s| !s.starts_with("harts="));
    simpler.extend(single.map(|one| without(&|s| s == one)));
    simpler
}

fn setup(p: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program), differs: bool| {
        if differs {
            let mut less = p.clone();
            change(&mut less);
            all.push(less);
        }
    };
    with(&|p| p.level = Level::Machine, p.level != Level::Machine);
    with(&|p| p.timer = 0, p.timer != 0);
    with(&|p| p.pages = false, p.pages);
    with(&|p| p.aliases = 0, p.aliases != 0);
    with(&|p| p.events.clear(), !p.events.is_empty());
    with(&|p| p.gaps.clear(), !p.gaps.is_empty());
    with(&|p| drop(p.functions.pop()), !p.functions.is_empty());
    all
}

/// Lists with less in them.
fn fewer(items: &[Item]) -> Vec<Vec<Item>> {
    let mut all = Vec::new();
    let mut n = items.len();
    while n > 0 {
        for at in (0..items.len()).step_by(n) {
            let mut left = items.to_vec();
            left.drain(at..(at + n).min(items.len()));
            all.push(left);
        }
        n /= 2;
    }
    for (k, item) in items.iter().enumerate() {
        let mut put = |new: Vec<Item>| {
            let mut other = items.to_vec();
            other.splice(k..=k, new);
            all.push(other);
        };
        match item {
            Item::Loop(times, inner) => {
                put(inner.clone());
                for t in [1, times / 2, times - 1] {
                    if (1..*times).contains(&t) {
                        put(vec![Item::Loop(t, inner.clone())]);
                    }
                }
                for less in fewer(inner) {
                    put(vec![Item::Loop(*times, less)]);
                }
            }
            Item::Unless(mask, inner) => {
                put(inner.clone());
                for less in fewer(inner) {
                    put(vec![Item::Unless(*mask, less)]);
                }
            }
            Item::Locked(lock, inner) => {
                put(inner.clone());
                for less in fewer(inner) {
                    put(vec![Item::Locked(*lock, less)]);
                }
            }
            Item::Words(words) => {
                for at in 0..words.len() {
                    let mut left = words.clone();
                    left.remove(at);
                    if !left.is_empty() {
                        put(vec![Item::Words(left)]);
                    }
                }
            }
            Item::Wait(place, times) if *times > 1 => put(vec![Item::Wait(*place, times / 2)]),
            Item::CallFar(f) => put(vec![Item::Call(*f)]),
            Item::Wait(..) | Item::Reserved(..) | Item::Call(_) | Item::Patch(_) | Item::Jump => {}
        }
    }
    all
}
