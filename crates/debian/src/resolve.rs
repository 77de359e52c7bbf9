//! Which packages are installed with given ones on an empty system, and in which order.
//!
//! The choice is that of `apt-get install --no-install-recommends`: of alternatives the first one, unless one of the
//! chosen packages is another of them. Where that leads to a conflict, others are tried.

use crate::index::{Id, Index};
use crate::relation::{Alternatives, Relation};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Choices that are tried before the search is given up.
const TRIES: usize = 20_000;
/// What has to be there for a package to work, in the order in which apt looks at it.
const NEEDS: [&str; 2] = ["Pre-Depends", "Depends"];
/// What must not be there.
const EXCLUDES: [&str; 2] = ["Conflicts", "Breaks"];

/// A step of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The package's files are put in place.
    Unpack(String),
    /// Its postinst is run.
    Configure(String),
}

/// Something that a chosen package needs.
struct Goal {
    group: Alternatives,
    by: Id,
}

/// Goals that are still to be reached, the next one first. Choices share their tails.
type Goals = Option<Rc<Node>>;

struct Node {
    goal: Rc<Goal>,
    rest: Goals,
}

/// What was chosen so far.
struct Chosen<'i> {
    index: &'i Index,
    /// In the order of the choice.
    list: Vec<Id>,
    by_name: BTreeMap<&'i str, Id>,
    /// Who of them provides a name.
    providing: BTreeMap<String, Vec<Id>>,
    /// What they exclude.
    excluded: Vec<(Relation, Id)>,
}

/// A point to which the search can return.
struct Choice {
    goal: Rc<Goal>,
    rest: Goals,
    /// Candidates that were not tried.
    left: Vec<Id>,
    chosen: usize,
}

/// The packages to install, in the order in which they were chosen; the error says what cannot be had, and who needs
/// it.
pub fn solve(index: &Index, wanted: &[String]) -> Result<Vec<Id>, String> {
    let mut chosen = Chosen::new(index);
    let mut goals: Goals = None;
    let mut roots = Vec::new();
    for name in wanted {
        let id = index.find(name).or_else(|| only_provider(index, name));
        let id = id.ok_or_else(|| format!("`{name}` is not in the index"))?;
        if !chosen.list.contains(&id) {
            chosen
                .take(id)
                .map_err(|why| format!("`{name}` cannot be installed: {why}"))?;
            roots.push(id);
        }
    }
    // apt marks all requested packages before it looks at what they need.
    for &id in roots.iter().rev() {
        goals = needs(index, id, goals)?;
    }
    let mut choices: Vec<Choice> = Vec::new();
    let mut first_failure: Option<String> = None;
    let mut tries = 0;
    while let Some(node) = goals {
        let (goal, rest) = (Rc::clone(&node.goal), node.rest.clone());
        if goal.group.iter().any(|r| chosen.has(r)) {
            goals = rest;
            continue;
        }
        let mut left: Vec<Id> = goal
            .group
            .iter()
            .flat_map(|r| index.candidates(r))
            .collect();
        // The next one is at the end.
        left.reverse();
        choices.push(Choice {
            goal,
            rest,
            left,
            chosen: chosen.list.len(),
        });
        goals = loop {
            let Some(choice) = choices.last_mut() else {
                return Err(first_failure.unwrap_or_default());
            };
            chosen.back_to(choice.chosen);
            match choice.left.pop() {
                None => {
                    let goal = Rc::clone(&choice.goal);
                    choices.pop();
                    first_failure.get_or_insert_with(|| missing(&chosen, &goal));
                }
                Some(id) => match chosen.take(id) {
                    Ok(()) => break needs(index, id, choice.rest.clone())?,
                    Err(why) => {
                        let by = index.name(choice.goal.by);
                        let text = format!("`{by}` needs `{}`: {why}", shown(&choice.goal.group));
                        if choice.left.is_empty() {
                            first_failure.get_or_insert(text);
                        }
                    }
                },
            }
            tries += 1;
            if tries > TRIES {
                let why = first_failure.unwrap_or_default();
                return Err(format!("no choice of packages goes together: {why}"));
            }
        };
    }
    Ok(chosen.list)
}

/// As apt does for a name that is not that of a package.
fn only_provider(index: &Index, name: &str) -> Option<Id> {
    let r = Relation {
        name: name.into(),
        architecture: None,
        version: None,
    };
    match index.candidates(&r)[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// The goals of a package before others.
fn needs(index: &Index, id: Id, rest: Goals) -> Result<Goals, String> {
    let mut goals = rest;
    for field in NEEDS.iter().rev() {
        for group in index.relations(id, field)?.into_iter().rev() {
            goals = Some(Rc::new(Node {
                goal: Rc::new(Goal { group, by: id }),
                rest: goals,
            }));
        }
    }
    Ok(goals)
}

fn shown(group: &Alternatives) -> String {
    let all: Vec<String> = group.iter().map(Relation::to_string).collect();
    all.join(" | ")
}

fn missing(chosen: &Chosen<'_>, goal: &Goal) -> String {
    let index = chosen.index;
    let there = goal.group.iter().find_map(|r| {
        let id = index.find(&r.name)?;
        Some(format!("there is {} {}", index.name(id), index.version(id)))
    });
    format!(
        "`{}` needs `{}`, and {}",
        index.name(goal.by),
        shown(&goal.group),
        there.unwrap_or_else(|| "it is not in the index".into())
    )
}

impl<'i> Chosen<'i> {
    fn new(index: &'i Index) -> Self {
        Chosen {
            index,
            list: Vec::new(),
            by_name: BTreeMap::new(),
            providing: BTreeMap::new(),
            excluded: Vec::new(),
        }
    }

    /// The chosen packages that a relation could mean by its name.
    fn named(&self, name: &str) -> impl Iterator<Item = Id> + '_ {
        let own = self.by_name.get(name).copied();
        own.into_iter()
            .chain(self.providing.get(name).into_iter().flatten().copied())
    }

    fn has(&self, r: &Relation) -> bool {
        self.named(&r.name).any(|id| self.index.satisfies(id, r))
    }

    /// Adds a package, unless it and one of the chosen ones exclude one another.
    fn take(&mut self, id: Id) -> Result<(), String> {
        let index = self.index;
        let name = index.name(id);
        let mut excludes = Vec::new();
        for field in EXCLUDES {
            excludes.extend(index.relations(id, field)?.into_iter().flatten());
        }
        let meant = |r: &Relation| self.named(&r.name).find(|&o| index.satisfies(o, r));
        if let Some(other) = excludes.iter().find_map(meant) {
            return Err(format!(
                "{name} and {} exclude one another",
                index.name(other)
            ));
        }
        let against = self.excluded.iter().find(|(r, _)| index.satisfies(id, r));
        if let Some((_, other)) = against {
            return Err(format!(
                "{name} and {} exclude one another",
                index.name(*other)
            ));
        }
        self.list.push(id);
        self.by_name.insert(name, id);
        for provided in index.provides(id) {
            self.providing.entry(provided).or_default().push(id);
        }
        self.excluded.extend(excludes.into_iter().map(|r| (r, id)));
        Ok(())
    }

    /// Forgets the last choices.
    fn back_to(&mut self, length: usize) {
        for id in self.list.drain(length..) {
            self.by_name.remove(self.index.name(id));
            self.providing
                .values_mut()
                .for_each(|list| list.retain(|o| *o != id));
            self.excluded.retain(|(_, o)| *o != id);
        }
    }
}

/// The order in which packages are unpacked and configured: each is configured after those that it depends on, and
/// unpacked after those that it pre-depends on are configured. Where packages need one another, the order is that of
/// names.
pub fn order(index: &Index, chosen: &[Id]) -> Result<Vec<Step>, String> {
    let mut o = Order {
        index,
        needs: BTreeMap::new(),
        unpacked: BTreeSet::new(),
        configured: BTreeSet::new(),
        steps: Vec::new(),
    };
    let mut sorted = chosen.to_vec();
    sorted.sort_by_key(|&id| index.name(id));
    for &id in &sorted {
        let mut of = [Vec::new(), Vec::new()];
        for (list, field) in of.iter_mut().zip(NEEDS) {
            for group in index.relations(id, field)? {
                let meant = |d: &&Id| group.iter().any(|r| index.satisfies(**d, r));
                list.extend(sorted.iter().filter(meant));
            }
        }
        o.needs.insert(id, of);
    }
    for id in sorted {
        o.configure(id);
    }
    Ok(o.steps)
}

struct Order<'i> {
    index: &'i Index,
    /// Pre-Depends and Depends of each.
    needs: BTreeMap<Id, [Vec<Id>; 2]>,
    /// Packages that are unpacked, or whose unpacking has begun.
    unpacked: BTreeSet<Id>,
    configured: BTreeSet<Id>,
    steps: Vec<Step>,
}

impl Order<'_> {
    fn unpack(&mut self, id: Id) {
        if !self.unpacked.insert(id) {
            return;
        }
        for d in self.needs[&id][0].clone() {
            self.configure(d);
        }
        self.steps.push(Step::Unpack(self.index.name(id).into()));
    }

    fn configure(&mut self, id: Id) {
        if !self.configured.insert(id) {
            return;
        }
        self.unpack(id);
        for d in self.needs[&id][1].clone() {
            self.configure(d);
        }
        self.steps.push(Step::Configure(self.index.name(id).into()));
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
