//! The programs of guest/crash, compiled for the host: every bug of the table that matters is found, and correct
//! versions give no findings.

use crate::litmus::contents;
use nagori_crash::{
    explore, At, Budget, Bytes, Cut, Domain, FenceSet, FlushOp, Frame, History, Model, Online,
    Order, Outcome, PointKind, Recovery, Report, Resolve, Site, State, Step, StoreOrder, Subject,
    WarningKind, WarningReport, Work,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

const BASE: u64 = 0xc000_0000;
/// A file for each structure.
const FILES: [&str; 5] = ["ring.c", "hash.c", "btree.c", "alloc.c", "text.c"];
/// What text.c includes; a structure's places are in its own file or, for the text store, here.
const STORE: &str = "store.c";

/// Compiles the corpus; the directory goes when the result does.
fn compile() -> (tempfile::TempDir, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/crash");
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("crash-host");
    let status = Command::new("cc")
        .current_dir(source)
        .args([
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-DCRASH_HOST",
        ])
        .arg("host.c")
        .args(FILES)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("this test needs cc, as building does");
    assert!(status.success());
    (dir, program)
}

/// A process that recovers from the contents it is given.
struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn bytes<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> std::io::Result<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    /// The answer to a content, as the head of host.c describes it.
    fn answer(&mut self) -> std::io::Result<Recovery> {
        let outcome = match self.number()? {
            0 => Outcome::Ok,
            4 => Outcome::Hang,
            code => Outcome::CheckExit { code: code as i32 },
        };
        let output = Some(u64::from_ne_bytes(self.bytes()?));
        let (reads, length) = (self.number()?, self.number()?);
        let reads = (0..reads)
            .map(|_| Ok(BASE + u64::from(self.number()?)))
            .collect::<std::io::Result<_>>()?;
        let mut text = vec![0; length as usize];
        self.from.read_exact(&mut text)?;
        Ok(Recovery {
            reads,
            outcome,
            output,
            text: String::from_utf8_lossy(&text).into_owned(),
            stores: false,
            stored: Vec::new(),
        })
    }
}

struct Program {
    path: PathBuf,
    structure: &'static str,
    ops: u32,
    drop: u32,
    later: u32,
    idle: Mutex<Vec<Worker>>,
}

/// What the workload did.
enum Did {
    Store(u64, Vec<u8>, u64),
    Flush(u64, u64),
    Fence(u64),
    Done(u64),
    End,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex, 16).unwrap()
}

fn files() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().chain([STORE])
}

/// A place in a source file as an address.
fn pc(place: &str) -> u64 {
    let (file, line) = place.split_once(':').unwrap();
    let file = files().position(|f| f == file).unwrap() as u64;
    file << 32 | line.parse::<u64>().unwrap()
}

struct Lines;

impl Resolve for Lines {
    fn resolve(&self, _process: u64, pc: u64) -> Frame {
        let file = files().nth((pc >> 32) as usize).unwrap();
        let source = Some((file.to_owned(), pc as u32));
        Frame {
            pc,
            symbol: None,
            source,
        }
    }
}

impl Program {
    fn new(path: &Path, structure: &'static str, ops: u32, drop: u32, later: u32) -> Program {
        Program {
            path: path.to_owned(),
            structure,
            ops,
            drop,
            later,
            idle: Mutex::default(),
        }
    }

    /// Starts it, and reads what the workload does.
    fn start(&self) -> (BTreeMap<u64, Bytes>, Vec<Did>, Worker) {
        let mut child = Command::new(&self.path)
            .args([
                self.structure,
                &self.ops.to_string(),
                &self.drop.to_string(),
                &self.later.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let (mut initial, mut steps) = (BTreeMap::new(), Vec::new());
        loop {
            let mut line = String::new();
            assert!(
                from.read_line(&mut line).unwrap() > 0,
                "{} ended",
                self.structure
            );
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["I", at, content] => {
                    initial.insert(BASE + number(at), bytes(content).try_into().unwrap());
                }
                ["S", at, content, place] => {
                    steps.push(Did::Store(BASE + number(at), bytes(content), pc(place)))
                }
                ["F", at, place] => steps.push(Did::Flush(BASE + number(at), pc(place))),
                ["X", place] => steps.push(Did::Fence(pc(place))),
                ["D", place] => steps.push(Did::Done(pc(place))),
                ["E"] => break,
                _ => panic!("{line}"),
            }
        }
        steps.push(Did::End);
        (initial, steps, Worker { child, to, from })
    }
}

impl Subject for Program {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        let idle = self.idle.lock().unwrap().pop();
        let mut worker = idle.unwrap_or_else(|| self.start().2);
        let mut content = (state.lines.len() as u32).to_ne_bytes().to_vec();
        for (line, bytes) in state.lines {
            content.extend(((line - BASE) as u32).to_ne_bytes());
            content.extend(bytes);
        }
        worker.to.write_all(&content).map_err(|e| e.to_string())?;
        let recovery = worker.answer().map_err(|e| e.to_string())?;
        self.idle.lock().unwrap().push(worker);
        Ok(recovery)
    }
}

struct Recorded {
    history: History,
    cuts: Vec<Cut>,
    references: Vec<Cut>,
    warnings: Vec<nagori_crash::Warning>,
}

fn record(program: &Program, model: Model) -> Recorded {
    let (initial, steps, worker) = program.start();
    program.idle.lock().unwrap().push(worker);
    let read = move |line: u64| initial.get(&line).copied().unwrap_or([0; 64]);
    let mut online = Online::new(model.clone());
    let mut history = History::new(model, Box::new(read));
    let mut references = vec![history.uncut()];
    let mut cuts = Vec::new();
    for (time, did) in steps.iter().enumerate() {
        let at = |pc: u64, history: &mut History| {
            let site = history.site(&Site {
                pc,
                ..Site::default()
            });
            At {
                hart: 0,
                site,
                time: time as u64 * 1000,
            }
        };
        let step = match *did {
            Did::Store(paddr, ref bytes, pc) => {
                let at = at(pc, &mut history);
                Step::Store {
                    at,
                    paddr,
                    bytes,
                    order: StoreOrder::default(),
                }
            }
            Did::Flush(paddr, pc) => {
                // Behind another flush a cut leaves the same, since only a fence makes flushes count.
                if !matches!(time.checked_sub(1).map(|t| &steps[t]), Some(Did::Flush(..))) {
                    cuts.push(history.cut(PointKind::Flush));
                }
                Step::Flush {
                    at: at(pc, &mut history),
                    paddr,
                    op: FlushOp::L1,
                    to_memory: true,
                }
            }
            Did::Fence(pc) => {
                cuts.push(history.cut(PointKind::Fence));
                Step::Fence {
                    at: at(pc, &mut history),
                    pred: FenceSet::RW,
                    succ: FenceSet::RW,
                }
            }
            Did::Done(pc) => {
                cuts.push(history.cut(PointKind::Marker));
                Step::Marker {
                    at: at(pc, &mut history),
                    label: "op",
                    operation: true,
                }
            }
            Did::End => {
                cuts.push(history.cut(PointKind::Other));
                break;
            }
        };
        history.step(&step);
        online.step(&step);
        if matches!(did, Did::Done(_)) {
            references.push(history.uncut());
        }
    }
    Recorded {
        history,
        cuts,
        references,
        warnings: online.finish(),
    }
}

fn search(program: &Program, recorded: &Recorded, jobs: usize) -> Report {
    let work = Work {
        cuts: &recorded.cuts,
        references: &recorded.references,
        sites: recorded.history.sites(),
        resolve: &Lines,
        shard: None,
    };
    let mut report = explore(&work, program, &Budget::default(), jobs, &mut |_| true).unwrap();
    report.add_warnings(&recorded.warnings, recorded.history.sites(), &Lines);
    report
}

fn model(order: Order) -> Model {
    Model {
        order,
        ..Model::new(Domain::Adr)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    bug: Vec<Bug>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    structure: String,
    number: u32,
    drop: bool,
    r#move: bool,
    why: String,
}

fn table() -> Vec<Bug> {
    toml::from_str::<Table>(include_str!("../../../../guest/crash/bugs.toml"))
        .unwrap()
        .bug
}

fn structures() -> [&'static str; 5] {
    FILES.map(|f| f.strip_suffix(".c").unwrap())
}

/// The numbers of the text store's flushes and, plus 10, fences.
fn numbers_of_the_store() -> BTreeSet<u32> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/off2f");
    let text = std::fs::read_to_string(source.join(STORE)).unwrap();
    let header = std::fs::read_to_string(source.join("store.h")).unwrap();
    let mut numbers = BTreeSet::new();
    for (before, more) in [("STORE_FLUSH(", 0), ("STORE_FENCE(", 10)] {
        for part in text.split(before).skip(1) {
            let name = part.split([',', ')']).next().unwrap();
            let (_, value) = header.split_once(&format!("{name} = ")).unwrap();
            let value = value.split(',').next().unwrap();
            let number = value.parse::<u32>().unwrap() + more;
            assert!(numbers.insert(number), "{name} is there twice");
        }
    }
    numbers
}

/// Every flush and fence with a number is in the table, and the other way round.
#[test]
fn the_table_has_every_flush_and_fence() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/crash");
    let of = |structure: &str| {
        if structure == "text" {
            return numbers_of_the_store();
        }
        let text = std::fs::read_to_string(source.join(format!("{structure}.c"))).unwrap();
        let mut numbers = BTreeSet::new();
        for (before, after) in [("FLUSH(", ','), ("FENCE(", ')'), (" put(pm,", ')')] {
            for part in text.split(before).skip(1) {
                let argument = part.split(after).next().unwrap();
                let last = argument.rsplit(", ").next().unwrap();
                numbers.extend(last.parse::<u32>().ok().filter(|&n| n != 0));
            }
        }
        numbers
    };
    for structure in structures() {
        let table = table();
        let rows: Vec<u32> = table
            .iter()
            .filter(|b| b.structure == structure)
            .map(|b| b.number)
            .collect();
        let numbers: Vec<u32> = of(structure).into_iter().collect();
        assert_eq!(rows, numbers, "{structure}");
    }
    let matter = table()
        .iter()
        .map(|b| u32::from(b.drop) + u32::from(b.r#move))
        .sum::<u32>();
    assert!(matter >= 30, "{matter}");
}

#[test]
fn correct_programs_have_no_findings() {
    let (_dir, path) = compile();
    let gpf = |choice| Domain::Gpf { lines: 2, choice };
    let domains = [
        Domain::Adr,
        Domain::Eadr,
        gpf(nagori_crash::GpfChoice::Any),
        gpf(nagori_crash::GpfChoice::Address),
    ];
    for structure in structures() {
        for domain in domains {
            for order in [Order::Rvwmo, Order::Commit] {
                let program = Program::new(&path, structure, 40, 0, 0);
                let model = Model {
                    order,
                    ..Model::new(domain)
                };
                let report = search(&program, &record(&program, model), 2);
                let c = &report.coverage;
                assert_eq!(report.findings, [], "{structure} {domain:?} {order:?}");
                // Flushes of a whole node find lines that were not stored to; 12 and 13 of the ring log are needless.
                let needless = |w: &WarningReport| {
                    matches!(
                        w.kind,
                        WarningKind::FlushNeedless | WarningKind::FenceNeedless
                    )
                };
                assert!(
                    report.warnings.iter().all(needless),
                    "{structure} {:?}",
                    report.warnings
                );
                assert_eq!(
                    (c.complete, c.unstable, c.stopped),
                    (c.cuts, 0, false),
                    "{structure}"
                );
                assert!(
                    c.cuts >= 60 || domain == Domain::Eadr,
                    "{structure} {}",
                    c.cuts
                );
            }
        }
        // Without a domain no program is correct.
        let program = Program::new(&path, structure, 0, 0, 0);
        let report = search(&program, &record(&program, Model::new(Domain::None)), 2);
        assert!(!report.findings.is_empty(), "{structure}");
    }
}

#[test]
fn mistakes_are_seen_without_a_crash() {
    use WarningKind::{FenceMissing, FenceNeedless, FlushNeedless, NeverFlushed};
    let (_dir, path) = compile();
    for (structure, drop, kind, count) in [
        ("ring", 0, FlushNeedless, 1),
        ("ring", 0, FenceNeedless, 0),
        ("ring", 12, FenceNeedless, 1),
        ("ring", 12, FlushNeedless, 0),
        ("ring", 1, NeverFlushed, 2),
        ("ring", 3, NeverFlushed, 1),
        ("ring", 11, FenceMissing, 1),
        ("hash", 13, NeverFlushed, 1),
        ("hash", 16, FenceMissing, 1),
        ("btree", 19, FenceMissing, 1),
        ("alloc", 10, FenceMissing, 1),
    ] {
        let program = Program::new(&path, structure, 0, drop, 0);
        let warnings = record(&program, model(Order::Rvwmo)).warnings;
        let sites = warnings.iter().filter(|w| w.kind == kind).count();
        assert_eq!(sites, count, "{structure} {drop} {kind:?}: {warnings:?}");
    }
}

/// A report with findings and warnings, for the tests of its forms.
pub fn report() -> Report {
    let (_dir, path) = compile();
    let program = Program::new(&path, "ring", 0, 3, 0);
    search(&program, &record(&program, model(Order::Rvwmo)), 1)
}

/// A report of the same bug in a longer run, with the other order of stores.
pub fn longer_report() -> Report {
    let (_dir, path) = compile();
    let program = Program::new(&path, "ring", 25, 3, 0);
    search(&program, &record(&program, model(Order::Commit)), 2)
}

#[test]
fn every_bug_that_matters_is_found_and_no_other() {
    let (_dir, path) = compile();
    let mut wrong = Vec::new();
    for bug in table() {
        let structure = structures()
            .into_iter()
            .find(|s| **s == bug.structure)
            .unwrap();
        for (change, drop, later, matters) in [
            ("drop", bug.number, 0, bug.drop),
            ("move", 0, bug.number, bug.r#move),
        ] {
            for order in [Order::Rvwmo, Order::Commit] {
                let program = Program::new(&path, structure, 0, drop, later);
                let report = search(&program, &record(&program, model(order)), 2);
                let name = format!("{change} {} of {structure} ({order:?})", bug.number);
                if matters == report.findings.is_empty() {
                    let what = if matters { "is not found" } else { "is found" };
                    wrong.push(format!("{name} {what}: {}", bug.why));
                }
                for finding in &report.findings {
                    let store = finding
                        .stores
                        .first()
                        .unwrap_or_else(|| panic!("{name}: {finding:?}"));
                    let file = &store.frames[0].source.as_ref().unwrap().0;
                    let own = format!("{structure}.c");
                    let expected = if structure == "text" { STORE } else { &own };
                    assert_eq!(file, expected, "{name}");
                    assert!(finding.minimal, "{name}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The reports of shards, put together, are that of the whole.
#[test]
fn shards_come_to_the_whole() {
    let (_dir, path) = compile();
    let mut found = 0;
    for (structure, drop) in [("ring", 3), ("hash", 2), ("alloc", 0), ("btree", 4)] {
        let program = Program::new(&path, structure, 12, drop, 0);
        let recorded = record(&program, model(Order::Rvwmo));
        let part = |shard| {
            let work = Work {
                cuts: &recorded.cuts,
                references: &recorded.references,
                sites: recorded.history.sites(),
                resolve: &Lines,
                shard,
            };
            let mut report =
                explore(&work, &program, &Budget::default(), 1, &mut |_| true).unwrap();
            report.add_warnings(&recorded.warnings, recorded.history.sites(), &Lines);
            report
        };
        let whole = part(None);
        for all in [1, 2, 5] {
            let mut parts: Vec<Report> = (1..=all).map(|n| part(Some((n, all)))).collect();
            parts.reverse();
            let merged = nagori_crash::merge(&parts).unwrap();
            // A content that fails for two causes counts for the one that is known first.
            let ids = |r: &Report| -> (BTreeSet<String>, u64) {
                let ids = r.findings.iter().map(|f| f.id.clone());
                (ids.collect(), r.findings.iter().map(|f| f.count).sum())
            };
            let name = format!("{structure} {drop} in {all}");
            assert_eq!(ids(&merged), ids(&whole), "{name}");
            assert!(merged.recoveries >= whole.recoveries, "{name}");
            let rest = |r: &Report| Report {
                recoveries: 0,
                findings: Vec::new(),
                ..r.clone()
            };
            assert_eq!(rest(&merged), rest(&whole), "{name}");
            // Not all, one twice, others.
            assert!(nagori_crash::merge(&parts[1..]).is_err(), "{name}");
            let twice = [&parts[..], &parts[..1]].concat();
            assert!(nagori_crash::merge(&twice).is_err(), "{name}");
            if all > 1 {
                parts[0].shard = Some((1, 7));
                assert!(nagori_crash::merge(&parts).is_err(), "{name}");
            }
        }
        found += whole.findings.len();
    }
    assert!(found >= 3, "{found} findings");
}

/// All contents of all cuts, one by one: whether some fail, and how many contents there are.
fn brute(program: &Program, recorded: &Recorded) -> (bool, u64) {
    let recover = |cut: &Cut, choice: &[usize]| {
        let mut lines: BTreeMap<u64, Bytes> = cut.durable.to_vec().into_iter().collect();
        for (u, &c) in cut.undecided.iter().zip(choice) {
            lines.insert(u.line, u.candidates[c].bytes);
        }
        let lines: Vec<_> = lines.into_iter().collect();
        program
            .recover(&State {
                lines: &lines,
                watched: &[],
            })
            .unwrap()
    };
    let outputs: Vec<_> = recorded
        .references
        .iter()
        .map(|r| recover(r, &[]).output)
        .collect();
    let (mut fails, mut count) = (false, 0);
    for cut in &recorded.cuts {
        let n = cut.operation as usize;
        let allowed = &outputs[n..(n + 2).min(outputs.len())];
        for choice in contents(cut) {
            let recovery = recover(cut, &choice);
            fails |= recovery.outcome != Outcome::Ok || !allowed.contains(&recovery.output);
            count += 1;
        }
    }
    (fails, count)
}

#[test]
fn trying_everything_comes_to_the_same() {
    let (_dir, path) = compile();
    let mut tried = BTreeMap::new();
    for bug in table() {
        let structure = structures()
            .into_iter()
            .find(|s| **s == bug.structure)
            .unwrap();
        // Two entries of the ring log have too many contents to try them all.
        let ops = if structure == "ring" { 1 } else { 2 };
        let program = Program::new(&path, structure, ops, bug.number, 0);
        let recorded = record(&program, model(Order::Commit));
        if recorded.cuts.iter().map(contents_of).sum::<f64>() > 20_000.0 {
            continue;
        }
        let (fails, count) = brute(&program, &recorded);
        let report = search(&program, &recorded, 1);
        assert_eq!(
            fails,
            !report.findings.is_empty(),
            "{structure} {}",
            bug.number
        );
        assert!(fails || report.coverage.complete == report.coverage.cuts);
        assert!(
            report.recoveries < count.max(20),
            "{structure} {}",
            bug.number
        );
        let entry: &mut (u32, u32) = tried.entry(structure).or_default();
        entry.0 += 1;
        entry.1 += u32::from(fails);
    }
    for structure in structures() {
        let (all, failing) = tried.get(structure).copied().unwrap_or_default();
        assert!(
            all >= 8 && failing >= 2,
            "{structure}: {all} programs, {failing} of which fail"
        );
    }
}

fn contents_of(cut: &Cut) -> f64 {
    cut.undecided
        .iter()
        .map(|u| u.candidates.len() as f64)
        .product()
}
