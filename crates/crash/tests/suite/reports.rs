//! Reports in their forms.

use crate::corpus;
use nagori_crash::{junit, sarif, Frame, Report, Symbol, WarningKind};
use serde_json::Value;
use std::collections::BTreeSet;

/// Whether this is well-formed XML, as far as we write it; returns the names of its elements in order.
fn elements(text: &str) -> Vec<String> {
    let body = text
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "{rest}");
        for part in rest[..start].split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "#10;", "#9;"]
                    .iter()
                    .any(|e| part.starts_with(e)),
                "{part}"
            );
        }
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<'), "{tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else {
            let name = tag.split([' ', '/']).next().unwrap().to_owned();
            names.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty());
    assert!(text.chars().all(|c| c == '\n' || c >= ' '));
    names
}

/// The report with texts and names that no format likes.
fn hostile(mut report: Report) -> Report {
    let frame = Frame {
        pc: 1,
        symbol: Some(Symbol {
            name: "operator<<\"&]]>\u{1}\u{fffe}\n".into(),
            offset: 2,
        }),
        source: Some(("a b/ä%.c".into(), 0)),
    };
    for f in &mut report.findings {
        f.text = "\u{0}\u{1b}[31m</failure>".into();
        f.message = "<&>\"'".into();
        f.stores
            .iter_mut()
            .for_each(|s| s.frames.insert(0, frame.clone()));
        f.cut_frames.insert(0, frame.clone());
    }
    report
        .warnings
        .iter_mut()
        .for_each(|w| w.frames.insert(0, frame.clone()));
    report
}

#[test]
fn junit_has_a_case_for_each_place_and_the_findings() {
    let report = corpus::report();
    for report in [report.clone(), hostile(report)] {
        let text = junit(&report);
        let names = elements(&text);
        let count = |name: &str| names.iter().filter(|n| *n == name).count();
        assert_eq!(count("failure"), report.findings.len());
        assert!(count("testcase") > 3);
        assert!(text.contains(&format!("tests=\"{}\"", count("testcase"))));
        assert!(report.findings.iter().all(|f| text.contains(&f.id)));
    }
}

/// What another program reads in it.
#[test]
fn junit_is_read_by_others() {
    use quick_junit::TestCaseStatus;
    let one = corpus::report();
    let mut more = hostile(one.clone());
    // Two findings at one place, and one of a second cut.
    let mut second = one.findings[0].clone();
    second.id = "000000000000".into();
    let mut third = second.clone();
    third.id = "111111111111".into();
    third.recut = Some(nagori_crash::Recut {
        step: 1,
        kind: third.kind,
        operation: 0,
        frames: third.cut_frames.clone(),
        content: Vec::new(),
    });
    more.findings.extend([second, third]);
    more.recuts = Some(Default::default());
    let mut none = one.clone();
    none.findings.clear();
    none.warnings.clear();
    none.recuts = Some(Default::default());
    for report in [one, more, none] {
        let read = quick_junit::Report::deserialize_from_str(&junit(&report)).expect("JUnit XML");
        assert_eq!(read.test_suites.len(), 1);
        let suite = &read.test_suites[0];
        assert_eq!((suite.tests, suite.errors), (suite.test_cases.len(), 0));
        assert_eq!(suite.failures, report.findings.len());
        assert_eq!(read.tests, suite.tests);
        let mut names = BTreeSet::new();
        let mut failed = BTreeSet::new();
        for case in &suite.test_cases {
            assert!(
                names.insert(case.name.as_str().to_owned()),
                "{:?} is there twice",
                case.name
            );
            if let TestCaseStatus::NonSuccess {
                message,
                ty,
                description,
                ..
            } = &case.status
            {
                failed.insert(ty.as_ref().expect("an id").as_str().to_owned());
                assert!(message.is_some() && description.is_some());
            }
        }
        let ids: BTreeSet<String> = report.findings.iter().map(|f| f.id.clone()).collect();
        assert_eq!(failed, ids);
        let has = |name: &str| names.iter().any(|n| n.contains(name));
        assert_eq!(has("during recovery"), report.recuts.is_some());
        assert_eq!(has("without a crash"), !report.warnings.is_empty());
    }
}

#[test]
fn sarif_has_what_the_standard_asks_for() {
    let report = corpus::report();
    assert!(report
        .warnings
        .iter()
        .any(|w| w.kind == WarningKind::NeverFlushed));
    for report in [report.clone(), hostile(report)] {
        let log = sarif(&report, &[]);
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert!(run["tool"]["driver"]["name"].is_string());
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let rules: BTreeSet<&str> = rules.iter().map(|r| r["id"].as_str().unwrap()).collect();
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), report.findings.len() + report.warnings.len());
        for result in results {
            assert!(rules.contains(result["ruleId"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
            assert!(result["occurrenceCount"].as_u64().unwrap() >= 1);
            let place = &result["locations"][0]["physicalLocation"];
            assert!(
                place["region"]["startLine"].as_u64().unwrap() >= 1,
                "{result}"
            );
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.bytes().all(|b| b.is_ascii_graphic()), "{uri}");
        }
        let first = &results[0];
        assert_eq!(
            first["partialFingerprints"]["nagoriCause/v1"],
            Value::from(report.findings[0].id.clone())
        );
    }
}

#[test]
fn json_is_read_back_and_has_a_schema() {
    let report = corpus::report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    let schema = Report::schema();
    let value: Value = serde_json::from_str(&text).unwrap();
    let described: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let written: BTreeSet<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(described, written);
    for (name, property) in schema["definitions"]["Finding"]["properties"]
        .as_object()
        .unwrap()
    {
        let said = property["description"].as_str();
        assert!(said.is_some_and(|d| !d.is_empty()), "{name}: {property}");
    }
}

/// The identity of a cause depends neither on what else the workload does nor on the order of the search.
#[test]
fn identities_are_stable() {
    let report = corpus::report();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(
        report.findings[0].id,
        corpus::longer_report().findings[0].id
    );
}

/// Paths below the top of the sources are relative to it, whatever way it is named; others stay as they are.
#[test]
fn sarif_has_paths_below_the_source_root() {
    let mut report = corpus::report();
    let sources = ["/src/a/../b/x y.c", "/src/b/./z.c", "/srcs/b/x.c", "b/x.c"];
    report.findings[0].stores[0].frames = { sources.iter() }
        .map(|source| Frame {
            source: Some((source.to_string(), 3)),
            ..Frame::default()
        })
        .collect();
    let places = |roots: &[&str]| -> Vec<(String, bool)> {
        let roots: Vec<std::path::PathBuf> = roots.iter().map(Into::into).collect();
        let log = sarif(&report, &roots);
        let frames = &log["runs"][0]["results"][0]["stacks"][0]["frames"];
        let place = |f: &Value| {
            let artifact = f["location"]["physicalLocation"]["artifactLocation"].clone();
            let base = artifact["uriBaseId"].as_str();
            assert!(base.is_none_or(|b| b == "%SRCROOT%"), "{artifact}");
            assert_eq!(
                log["runs"][0]["originalUriBaseIds"].is_null(),
                roots.is_empty()
            );
            (
                artifact["uri"].as_str().unwrap().to_string(),
                base.is_some(),
            )
        };
        frames.as_array().unwrap().iter().map(place).collect()
    };
    let of = |uri: &str, relative| (uri.to_string(), relative);
    let absolute = of("file:///src/a/../b/x%20y.c", false);
    assert_eq!(places(&[])[0], absolute);
    assert_eq!(places(&["/sr"])[0], absolute);
    for roots in [&["/src"][..], &["/src/"], &["/elsewhere", "/src/./b/.."]] {
        let want = [
            of("b/x%20y.c", true),
            of("b/z.c", true),
            of("file:///srcs/b/x.c", false),
            of("b/x.c", false),
        ];
        assert_eq!(places(roots), want);
    }
}

/// A search that a signal has ended is not one that has found nothing.
#[test]
fn a_signal_is_seen_in_each_form() {
    let mut report = corpus::report();
    report.findings.clear();
    report.notes = vec!["a note".into()];
    assert_eq!(
        sarif(&report, &[])["runs"][0]["invocations"][0]["executionSuccessful"],
        true
    );
    report.signal = Some(2);
    report.coverage.stopped = true;
    let text = junit(&report);
    elements(&text);
    let read = quick_junit::Report::deserialize_from_str(&text).expect("JUnit XML");
    assert_eq!((read.errors, read.test_suites[0].errors), (1, 1));
    assert!(
        text.contains("ended by signal 2") && text.contains("a note"),
        "{text}"
    );
    let log = sarif(&report, &[]);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(invocation["exitSignalNumber"], 2);
    let told = invocation["toolExecutionNotifications"].to_string();
    assert!(
        told.contains("ended by signal 2") && told.contains("a note"),
        "{told}"
    );
    // A shard that has come to its end does not hide one that has not.
    let part = |n: u32, signal| Report {
        shard: Some((n, 2)),
        signal,
        ..report.clone()
    };
    let merged = nagori_crash::merge(&[part(1, None), part(2, Some(15))]).unwrap();
    assert_eq!(merged.signal, Some(15));
}
