//! Reports in the forms that CI systems read.

use super::{Finding, Frame, Left, Report, WarningReport};
use crate::cut::PointKind;
use crate::online::WarningKind;
use crate::step::Sink;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// The value of an attribute in XML; characters that XML cannot have become question marks.
fn xml(text: &str) -> String {
    // As they are, they would become spaces.
    xml_text(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

/// Text between elements of XML, where not every reader knows characters by number. Characters that XML cannot have
/// become question marks.
fn xml_text(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => result.push_str("&amp;"),
            '<' => result.push_str("&lt;"),
            '>' => result.push_str("&gt;"),
            '"' => result.push_str("&quot;"),
            '\n' | '\t' => result.push(c),
            '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => result.push(c),
            _ => result.push('?'),
        }
    }
    result
}

fn place(frame: &Frame) -> String {
    let symbol = frame
        .symbol
        .as_ref()
        .map(|s| format!("{}+{:#x}", s.name, s.offset));
    let name = symbol.unwrap_or_else(|| format!("{:#x}", frame.pc));
    match &frame.source {
        Some((file, line)) => format!("{name} ({file}:{line})"),
        None => name,
    }
}

fn stack(frames: &[Frame]) -> String {
    frames
        .iter()
        .map(|f| format!("    {}\n", place(f)))
        .collect()
}

fn kind(kind: PointKind) -> &'static str {
    match kind {
        PointKind::Fence => "fence",
        PointKind::Flush => "flush",
        PointKind::Marker => "marker",
        PointKind::Other => "point",
    }
}

fn details(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.message);
    for store in &finding.stores {
        let how = if store.change == super::Change::Lost {
            "lost"
        } else {
            "kept"
        };
        let _ = writeln!(
            text,
            "{how}: store to {:#x}, hart {}, step {}",
            store.paddr, store.hart, store.step
        );
        text.push_str(&stack(&store.frames));
    }
    if let Some(first) = &finding.recut {
        let _ = writeln!(text, "first power cut after step {}:", first.step);
        text.push_str(&stack(&first.frames));
        text.push_str("second one, during recovery, ");
    } else {
        text.push_str("power cut ");
    }
    let _ = writeln!(text, "after step {}:", finding.step);
    text.push_str(&stack(&finding.cut_frames));
    text.push_str(&finding.text);
    text
}

/// The report as JUnit XML: a test case for each place at which the power was cut, with the finding first seen there,
/// if there is one, one for each further finding, and one for the mistakes seen without a crash. Elements and
/// attributes are those that the schemas of Jenkins and Surefire have; durations are 0, since a report does not depend
/// on the host.
pub fn junit(report: &Report) -> String {
    let mut places: BTreeMap<(Option<u32>, &str), (u64, u64)> = BTreeMap::new();
    for cut in &report.cuts {
        let (all, complete) = places.entry((cut.site, kind(cut.kind))).or_default();
        *all += 1;
        *complete += u64::from(cut.complete);
    }
    let first = || report.findings.iter().filter(|f| f.recut.is_none());
    for finding in first() {
        places
            .entry((finding.cut_site, kind(finding.kind)))
            .or_default();
    }
    let mut cases = Cases::default();
    for ((site, kind), (all, complete)) in &places {
        let here: Vec<&Finding> = first()
            .filter(|f| f.cut_site == *site && super::files::kind(f.kind) == *kind)
            .collect();
        let name = match (site, here.first().and_then(|f| f.cut_frames.first())) {
            (_, Some(frame)) => format!("{kind} after {}", place(frame)),
            (Some(site), None) => format!("{kind} after place {site}"),
            (None, None) => format!("{kind} at the beginning"),
        };
        cases.add(&name, &here, &format!("{complete} of {all} cuts complete"));
    }
    if let Some(r) = &report.recuts {
        // Places of recoveries have numbers of their own.
        let mut again: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
        for finding in report.findings.iter().filter(|f| f.recut.is_some()) {
            let place = finding.cut_frames.first().map(place).unwrap_or_default();
            let name = format!("{} during recovery after {place}", kind(finding.kind));
            again.entry(name).or_default().push(finding);
        }
        if again.is_empty() {
            again.insert("during recovery".into(), Vec::new());
        }
        let said = format!(
            "{} of {} recoveries cut, {} of {} cuts complete",
            r.recorded, r.storing, r.complete, r.cuts
        );
        for (name, here) in &again {
            cases.add(name, here, &said);
        }
    }
    let warnings = report.warnings.iter().filter(|w| !needless(w.kind));
    let said: String = warnings
        .map(|w| format!("{}, {} times:\n{}", said(w), w.count, stack(&w.frames)))
        .collect();
    if !said.is_empty() {
        cases.add("without a crash", &[], &said);
    }
    if let (Some(_), Some(why)) = (report.signal, report.ended_early()) {
        cases.error("whole search", &why, &not_covered(report));
    }
    if !report.notes.is_empty() {
        cases.add("notes", &[], &report.notes.join("\n"));
    }
    let Cases {
        body,
        count,
        failed,
        errors,
    } = cases;
    let c = &report.coverage;
    let counts = format!("tests=\"{count}\" failures=\"{failed}\" errors=\"{errors}\" time=\"0\"");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"nagori crash\" {counts}>\n  \
         <testsuite name=\"nagori crash\" {counts} skipped=\"0\">\n    <properties>\n      \
         <property name=\"cuts\" value=\"{}\"/>\n      <property name=\"complete\" value=\"{}\"/>\n      \
         <property name=\"recoveries\" value=\"{}\"/>\n      <property name=\"stopped\" value=\"{}\"/>\n    \
         </properties>\n\
         {body}  </testsuite>\n</testsuites>\n",
        c.cuts, c.complete, report.recoveries, c.stopped
    )
}

/// Test cases of JUnit XML.
#[derive(Default)]
struct Cases {
    body: String,
    count: usize,
    failed: usize,
    errors: usize,
}

impl Cases {
    /// A case, which fails with the first finding; readers know one failure of a case only, so each further finding has
    /// a case of its own.
    fn add(&mut self, name: &str, findings: &[&Finding], said: &str) {
        let first = findings.first().copied();
        self.one(name, first, said);
        for finding in findings.iter().skip(1) {
            let name = format!("{name}, finding {}", finding.id);
            self.one(&name, Some(finding), said);
        }
    }

    /// A case that has no result.
    fn error(&mut self, name: &str, why: &str, said: &str) {
        self.begin(name);
        self.errors += 1;
        let _ = writeln!(
            self.body,
            "      <error type=\"stopped\" message=\"{}\">{}</error>\n    </testcase>",
            xml(why),
            xml_text(said)
        );
    }

    fn begin(&mut self, name: &str) {
        self.count += 1;
        let _ = writeln!(
            self.body,
            "    <testcase classname=\"nagori.crash\" name=\"{}\" time=\"0\">",
            xml(name)
        );
    }

    fn one(&mut self, name: &str, finding: Option<&Finding>, said: &str) {
        self.begin(name);
        if let Some(finding) = finding {
            self.failed += 1;
            let _ = writeln!(
                self.body,
                "      <failure type=\"{}\" message=\"{}\">{}</failure>",
                xml(&finding.id),
                xml(&finding.message),
                xml_text(&details(finding))
            );
        }
        let _ = writeln!(
            self.body,
            "      <system-out>{}</system-out>\n    </testcase>",
            xml_text(said)
        );
    }
}

/// What of the cuts is missing, in words.
fn not_covered(report: &Report) -> String {
    let c = &report.coverage;
    format!("{} of {} cuts complete", c.complete, c.cuts)
}

/// Costs time only.
fn needless(kind: WarningKind) -> bool {
    matches!(
        kind,
        WarningKind::FlushNeedless | WarningKind::FenceNeedless
    )
}

fn rule(kind: WarningKind) -> &'static str {
    match kind {
        WarningKind::NeverFlushed => "never-flushed",
        WarningKind::FenceMissing => "fence-missing",
        WarningKind::OutputTooEarly => "output-too-early",
        WarningKind::FlushNeedless => "flush-needless",
        WarningKind::FenceNeedless => "fence-needless",
    }
}

/// What is wrong, in words.
fn said(w: &WarningReport) -> String {
    let sink = match w.sink {
        Some(Sink::Console) => " (console)",
        Some(Sink::Disk) => " (disk)",
        Some(Sink::Network) => " (network)",
        None => "",
    };
    format!("{}{sink}", words(w.kind))
}

fn words(kind: WarningKind) -> &'static str {
    match kind {
        WarningKind::NeverFlushed => "A store to NVMM is never flushed",
        WarningKind::FenceMissing => "No fence waits for a flush",
        WarningKind::OutputTooEarly => "Something left the machine before this store was durable",
        WarningKind::FlushNeedless => {
            "A flush of a line to which nothing was stored since the last one"
        }
        WarningKind::FenceNeedless => {
            "A fence with nothing to wait for, as far as NVMM is concerned"
        }
    }
}

const CRASH_RULES: [(&str, &str); 2] = [
    (
        "recovery-fails",
        "Recovery from a content that a power cut may leave fails",
    ),
    (
        "wrong-prefix",
        "After a power cut the output is neither that of before the operation nor that of after it",
    ),
];

/// The base of relative paths, as code scanning knows it.
const BASE: &str = "%SRCROOT%";

/// A path without `.` and `..`, as far as it can be told without the file system.
fn plain(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if result.file_name().is_some() => {
                result.pop();
            }
            part => result.push(part),
        }
    }
    result
}

/// The path of a source file below one of these directories.
pub fn below(file: &str, roots: &[PathBuf]) -> Option<String> {
    let file = plain(Path::new(file));
    let inner = roots
        .iter()
        .find_map(|r| file.strip_prefix(plain(r)).ok())?;
    Some(inner.to_string_lossy().into_owned()).filter(|i| !i.is_empty())
}

fn location(frame: &Frame, roots: &[PathBuf]) -> Value {
    let mut location = json!({
        "logicalLocations": [{
            "fullyQualifiedName": frame.symbol.as_ref().map_or_else(|| format!("{:#x}", frame.pc), |s| s.name.clone()),
            "kind": "function",
        }],
    });
    if let Some((file, line)) = &frame.source {
        let artifact = match below(file, roots) {
            Some(inner) => json!({ "uri": uri(&inner), "uriBaseId": BASE }),
            None => json!({ "uri": uri(file) }),
        };
        location["physicalLocation"] = json!({
            "artifactLocation": artifact,
            "region": { "startLine": (*line).max(1) },
        });
    }
    location
}

/// A path as a reference in a URI.
fn uri(path: &str) -> String {
    let mut result = String::new();
    if path.starts_with('/') {
        result.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~+".contains(&byte) {
            result.push(byte as char);
        } else {
            let _ = write!(result, "%{byte:02X}");
        }
    }
    result
}

fn result(
    (rule, level, message): (&str, &str, &str),
    frames: &[Frame],
    id: Option<&str>,
    roots: &[PathBuf],
) -> Value {
    let mut value = json!({
        "ruleId": rule,
        "level": level,
        "message": { "text": message },
        "locations": frames.first().map(|f| vec![location(f, roots)]).unwrap_or_default(),
    });
    if frames.len() > 1 {
        let frames: Vec<Value> = frames
            .iter()
            .map(|f| json!({ "location": location(f, roots) }))
            .collect();
        value["stacks"] = json!([{ "frames": frames }]);
    }
    if let Some(id) = id {
        value["partialFingerprints"] = json!({ "nagoriCause/v1": id });
    }
    value
}

/// How the search went, as SARIF has it.
fn invocation(report: &Report) -> Value {
    let said = |level: &str, text: &str| json!({ "level": level, "message": { "text": text } });
    let mut told: Vec<Value> = report.notes.iter().map(|n| said("note", n)).collect();
    if let Some(why) = report.ended_early() {
        let level = if report.signal.is_some() {
            "error"
        } else {
            "warning"
        };
        told.push(said(level, &format!("{why}: {}", not_covered(report))));
    }
    let mut value = json!({ "executionSuccessful": report.signal.is_none() });
    if let Some(n) = report.signal {
        value["exitSignalNumber"] = json!(n);
    }
    if !told.is_empty() {
        value["toolExecutionNotifications"] = json!(told);
    }
    value
}

/// The report as SARIF 2.1.0. Paths of sources below one of `roots`, which name the same directory, are relative to it.
pub fn sarif(report: &Report, roots: &[PathBuf]) -> Value {
    let mut results = Vec::new();
    for f in &report.findings {
        let frames = f.stores.first().map_or(&f.cut_frames, |s| &s.frames);
        let rule = CRASH_RULES[usize::from(f.prefix)].0;
        let mut value = result((rule, "error", &f.message), frames, Some(&f.id), roots);
        let others = f.stores.iter().skip(1).filter_map(|s| s.frames.first());
        let others = others.chain(f.cut_frames.first());
        let related: Vec<Value> = others.map(|f| location(f, roots)).collect();
        value["relatedLocations"] = json!(related);
        value["occurrenceCount"] = json!(f.count.max(1));
        results.push(value);
    }
    for w in &report.warnings {
        let level = if needless(w.kind) { "note" } else { "warning" };
        let mut value = result((rule(w.kind), level, &said(w)), &w.frames, None, roots);
        value["occurrenceCount"] = json!(w.count.max(1));
        results.push(value);
    }
    let kinds = [
        WarningKind::NeverFlushed,
        WarningKind::FenceMissing,
        WarningKind::OutputTooEarly,
        WarningKind::FlushNeedless,
        WarningKind::FenceNeedless,
    ];
    let warnings = kinds.iter().map(|k| (rule(*k), words(*k)));
    let rules: Vec<Value> = CRASH_RULES
        .into_iter()
        .chain(warnings)
        .map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }))
        .collect();
    let left = report
        .cuts
        .iter()
        .filter(|c| c.left.contains(&Left::Budget))
        .count();
    let mut log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "nagori crash",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "invocations": [invocation(report)],
            "properties": { "cuts": report.coverage.cuts, "complete": report.coverage.complete, "notTried": left },
            "results": results,
        }],
    });
    if let Some(root) = roots.first() {
        let mut root = plain(root).to_string_lossy().into_owned();
        if !root.ends_with('/') {
            root.push('/');
        }
        log["runs"][0]["originalUriBaseIds"] = json!({ BASE: { "uri": uri(&root) } });
    }
    log
}
