use super::*;
use crate::index::tests::index;
use proptest::prelude::*;

fn chosen(index: &Index, wanted: &[&str]) -> Result<Vec<String>, String> {
    let wanted: Vec<String> = wanted.iter().map(|w| w.to_string()).collect();
    let found = solve(index, &wanted)?;
    let mut names: Vec<String> = found.iter().map(|id| index.name(*id).to_string()).collect();
    names.sort();
    Ok(names)
}

#[test]
fn alternatives() {
    let i = index(&[
        ("a", "1", "Depends: x | y, awk"),
        ("x", "1", ""),
        ("y", "1", ""),
        ("mawk", "1", "Provides: awk\nPriority: required"),
        ("gawk", "1", "Provides: awk"),
        ("b", "1", "Depends: a (>= 2) | y"),
        ("c", "1", "Depends: a, y\nPre-Depends: gawk"),
        ("d", "1", "Depends: awk"),
    ]);
    assert_eq!(chosen(&i, &["a"]).unwrap(), ["a", "mawk", "x"]);
    assert_eq!(chosen(&i, &["b"]).unwrap(), ["b", "y"]);
    // What is requested, or was chosen before, counts.
    assert_eq!(chosen(&i, &["a", "y"]).unwrap(), ["a", "mawk", "y"]);
    assert_eq!(chosen(&i, &["c"]).unwrap(), ["a", "c", "gawk", "x", "y"]);
    assert_eq!(
        chosen(&i, &["awk"]).unwrap_err(),
        "`awk` is not in the index"
    );
}

#[test]
fn conflicts_lead_to_others() {
    let i = index(&[
        ("a", "1", "Depends: x | y, z"),
        ("x", "1", "Conflicts: z"),
        ("y", "1", ""),
        ("z", "1", ""),
        ("b", "1", "Depends: x, z"),
        ("m1", "1", "Provides: mta\nConflicts: mta"),
        ("m2", "1", "Provides: mta\nConflicts: mta"),
        ("old", "1", "Breaks: z (<< 2)"),
        ("new", "1", "Breaks: z (<< 1)"),
    ]);
    assert_eq!(chosen(&i, &["a"]).unwrap(), ["a", "y", "z"]);
    let e = chosen(&i, &["b"]).unwrap_err();
    assert_eq!(e, "`b` needs `z`: z and x exclude one another");
    assert_eq!(chosen(&i, &["m1"]).unwrap(), ["m1"]);
    assert!(chosen(&i, &["m1", "m2"])
        .unwrap_err()
        .contains("exclude one another"));
    assert!(chosen(&i, &["old", "z"])
        .unwrap_err()
        .contains("exclude one another"));
    assert_eq!(chosen(&i, &["new", "z"]).unwrap().len(), 2);
}

#[test]
fn what_is_missing_is_said_with_who_needs_it() {
    let i = index(&[
        ("a", "1", "Depends: b"),
        ("b", "1", "Depends: c (>= 2) | nothing"),
        ("c", "1.5", ""),
        ("e", "1", "Depends: nothing"),
    ]);
    assert_eq!(
        chosen(&i, &["a"]).unwrap_err(),
        "`b` needs `c (>= 2) | nothing`, and there is c 1.5"
    );
    assert_eq!(
        chosen(&i, &["e"]).unwrap_err(),
        "`e` needs `nothing`, and it is not in the index"
    );
}

#[test]
fn each_after_what_it_needs() {
    let i = index(&[
        ("a", "1", "Depends: b\nPre-Depends: p"),
        ("b", "1", "Depends: c"),
        ("c", "1", "Depends: b"),
        ("p", "1", ""),
    ]);
    let all = solve(&i, &["a".into()]).unwrap();
    let text: Vec<String> = { order(&i, &all).unwrap().iter() }
        .map(|s| match s {
            Step::Unpack(p) => format!("+{p}"),
            Step::Configure(p) => format!("={p}"),
        })
        .collect();
    assert_eq!(text, ["+p", "=p", "+a", "+b", "+c", "=c", "=b", "=a"]);
}

/// A package by number: what it needs (groups of others), and what it excludes.
type Drawn = (Vec<Vec<usize>>, Vec<usize>);

fn drawn(packages: &[Drawn]) -> Index {
    let name = |n: &usize| format!("p{}", n % packages.len());
    let lines: Vec<(String, String)> = { packages.iter().enumerate() }
        .map(|(n, (needs, excludes))| {
            let groups: Vec<String> = { needs.iter() }
                .map(|g| g.iter().map(name).collect::<Vec<_>>().join(" | "))
                .collect();
            let excludes: Vec<String> = { excludes.iter().map(name) }
                .filter(|e| *e != format!("p{n}"))
                .collect();
            let more = format!(
                "Depends: {}\nConflicts: {}",
                groups.join(", "),
                excludes.join(", ")
            );
            (format!("p{n}"), more)
        })
        .collect();
    let list: Vec<(&str, &str, &str)> = { lines.iter() }
        .map(|(name, more)| (name.as_str(), "1", more.as_str()))
        .collect();
    index(&list)
}

/// Whether all that a set of packages needs is in it, and nothing that it excludes.
fn is_whole(index: &Index, set: &[Id]) -> bool {
    set.iter().all(|&id| {
        let needs = NEEDS.iter().flat_map(|f| index.relations(id, f).unwrap());
        let mut excludes = EXCLUDES
            .iter()
            .flat_map(|f| index.relations(id, f).unwrap());
        let has = |r: &Relation| set.iter().any(|&o| o != id && index.satisfies(o, r));
        needs
            .into_iter()
            .all(|g| g.iter().any(|r| set.iter().any(|&o| index.satisfies(o, r))))
            && !excludes.any(|g| g.iter().any(has))
    })
}

proptest! {
    /// A solution is whole; where none is found, none of all sets is one.
    #[test]
    fn solutions_are_found_if_there_are_any(
        packages in prop::collection::vec(
            (
                prop::collection::vec(prop::collection::vec(0usize..7, 1..3), 0..3),
                prop::collection::vec(0usize..7, 0..2),
            ),
            2..7,
        ),
    ) {
        let index = drawn(&packages);
        let wanted = ["p0".to_string()];
        match solve(&index, &wanted) {
            Ok(found) => {
                prop_assert!(is_whole(&index, &found));
                prop_assert!(found.contains(&index.find("p0").unwrap()));
                let steps = order(&index, &found).unwrap();
                prop_assert_eq!(steps.len(), 2 * found.len());
                for id in found {
                    let name = index.name(id);
                    let at = |s: Step| steps.iter().position(|x| *x == s);
                    prop_assert!(at(Step::Unpack(name.into())) < at(Step::Configure(name.into())));
                }
            }
            Err(why) => {
                prop_assert!(!why.is_empty());
                let ids: Vec<Id> = index.names().map(|n| index.find(n).unwrap()).collect();
                for set in 0u32..1 << ids.len() {
                    let set: Vec<Id> = { ids.iter().enumerate() }
                        .filter(|(n, _)| set >> n & 1 == 1)
                        .map(|(_, id)| *id)
                        .collect();
                    let has = set.contains(&index.find("p0").unwrap());
                    prop_assert!(!has || !is_whole(&index, &set), "{set:?}");
                }
            }
        }
    }
}
