//! Recoveries: forks of a machine that is about to access NVMM for the first time.

use super::agent::{parts, Agent, Ended};
use super::left;
use super::record::{Reads, Recording};
use super::{disks_changed, run, seconds, Prepared, Recorded};
use crate::drive::{BoxedService, Service, Wishes};
use crate::end::End;
use crate::error::{Context, Error, Result};
use crate::session::Session;
use crate::software;
use nagori_crash::{Bytes, History, Mode, Online, Outcome, Record, Recovery, State, Subject, LINE};
use nagori_machine::{Checkpoint, Dram, Machine, Stop};
use serde_json::json;
use std::collections::HashMap;
use std::hash::Hasher;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use xxhash_rust::xxh3::Xxh3;

/// Core cycles between two looks whether NVMM was accessed.
const LOOK: u64 = 5_000;
/// Core cycles between two looks whether the commands have ended.
const SLICE: u64 = 100_000;
/// Most bytes of output in a report.
const SHOWN: usize = 2000;

/// Says what is wrong with the output of recovery and check, given the labels of the workload's markers; `None`:
/// nothing. A failure ends the search.
pub type Checker<'c> = dyn Fn(&[u8], &[String]) -> Result<Option<String>, String> + Sync + 'c;

/// Recoveries of a prepared machine.
pub struct Recovering<'p, 's, 'a> {
    prepared: &'p Prepared<'s, 'a>,
    recorded: &'p Recorded,
    from: Checkpoint,
    agent: Agent,
    /// Asked after the plan's own checks.
    checker: Option<&'p Checker<'p>>,
    /// Whether the check is `fsck`.
    fsck: bool,
    /// Whether each one boots first.
    boots: bool,
    /// Instructions that each recovery does not have to execute.
    pub spared: u64,
    /// Machines whose recoveries are over: the next ones use their code.
    spent: Mutex<Vec<Machine>>,
    executed: AtomicU64,
}

/// A line of NVMM, and its content.
type Line = (u64, Bytes);

/// Gives lines of NVMM a content.
fn put(m: &mut Machine, lines: &[Line]) -> Result<()> {
    let base = m.config().memory.base;
    for (line, bytes) in lines {
        m.ram().write_bytes(line - base, bytes)?;
        m.memory_written(*line, LINE);
    }
    Ok(())
}

/// Whether a recovery has accessed NVMM.
fn touched(m: &mut Machine) -> bool {
    m.access_sink::<Reads>().is_some_and(|r| r.touched())
}

/// Ends a run when NVMM is accessed, or after some slices.
struct Pilot {
    slices: u64,
    /// Slices before the first access.
    before: u64,
    end: Option<u64>,
}

impl Service for Pilot {
    fn after(&mut self, m: &mut Machine, _: Stop, wishes: &mut Wishes) -> Result<()> {
        self.slices += 1;
        match self.end {
            Some(end) if self.slices >= end => wishes.end(End::Quit),
            None if touched(m) => wishes.end(End::Quit),
            None => self.before = self.slices,
            _ => {}
        }
        Ok(())
    }
}

/// The script of a recovery: the commands, and their exit codes between signs.
fn script(recover: &str, check: Option<&str>) -> String {
    let sign = "printf '\\036%d\\036' $?";
    match check {
        None => format!("( {recover}\n)\n{sign}\n"),
        Some(check) => format!(
            "( {recover}\n)\nr=$?; printf '\\036%d\\036' $r; [ $r = 0 ] || exit 0\n( {check}\n)\n{sign}\n"
        ),
    }
}

impl<'p, 's, 'a> Recovering<'p, 's, 'a> {
    /// Runs the recovery up to its first access to NVMM, which is the same whatever NVMM contains.
    pub fn new(prepared: &'p Prepared<'s, 'a>, recorded: &'p Recorded) -> Result<Self> {
        let plan = &prepared.plan;
        let text = script(&plan.recover, plan.check.as_deref());
        let agent = prepared.agent(&text, plan.recovery_limit)?;
        let first = plan
            .check
            .as_deref()
            .and_then(|c| c.split_whitespace().next());
        let name = first.and_then(|f| Path::new(f).file_name()?.to_str());
        let mut all = Recovering {
            prepared,
            recorded,
            from: prepared.base.clone(),
            agent,
            checker: None,
            fsck: name.is_some_and(|n| n.starts_with("fsck") || n == "e2fsck"),
            boots: plan.from_reset,
            spared: 0,
            spent: Mutex::default(),
            executed: AtomicU64::new(0),
        };
        if !all.boots {
            all.advance()?;
        }
        Ok(all)
    }

    /// These recoveries with one more check, in this process.
    pub fn checked_by(mut self, checker: Option<&'p Checker<'p>>) -> Self {
        self.checker = checker;
        self
    }

    fn advance(&mut self) -> Result<()> {
        let session = self.prepared.session;
        let nvmm = self.prepared.nvmm();
        let mut pilot = Pilot {
            slices: 0,
            before: 0,
            end: None,
        };
        let go = |pilot: &mut Pilot| -> Result<(Machine, Agent)> {
            let mut m = self.from.fork()?;
            m.watch_accesses(Some(Reads::watching(nvmm.clone(), &[])));
            m.set_engine(session.options().engine)?;
            let mut agent = self.agent.clone().with_slice(LOOK);
            run(session, &mut m, &mut agent, Some(pilot))?;
            Ok((m, agent))
        };
        let (mut m, _) = go(&mut pilot)?;
        if !touched(&mut m) || pilot.before == 0 {
            return Ok(());
        }
        drop(m);
        let mut again = Pilot {
            slices: 0,
            before: 0,
            end: Some(pilot.before),
        };
        let (mut m, agent) = go(&mut again)?;
        // What is on a disk by now would be missing in the forks.
        if agent.ended.is_none() && !disks_changed(&mut m) {
            let began = self.from.state().instructions();
            self.spared = m.instructions() - began;
            self.from = m.checkpoint()?;
            self.agent = agent.again();
        }
        Ok(())
    }

    /// Instructions that all recoveries have executed so far.
    pub fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }

    /// Recovers from what the workload has left, without a power cut. Whether that reads anything of what the workload
    /// has stored: a search can find nothing otherwise.
    ///
    /// # Errors
    /// Recovery or check fails. They would do so whatever a cut leaves, and every cut would be a finding.
    pub fn without_cut(&self) -> Result<bool> {
        let Some(end) = self.recorded.references.last() else {
            return Ok(false);
        };
        let mut lines = end.durable.to_vec();
        lines.retain(|(line, bytes)| end.initial.get(*line) != Some(bytes));
        let stored: Vec<u64> = end.initial.to_vec().iter().map(|(line, _)| *line).collect();
        let recovery = self.one(&State {
            lines: &lines,
            watched: &stored,
        })?;
        self.executed.store(0, Ordering::Relaxed);
        let how = match recovery.outcome {
            Outcome::Ok => return Ok(!recovery.reads.is_empty()),
            Outcome::RecoverExit { code } => format!("--recover ends with exit code {code}"),
            Outcome::CheckExit { code } => format!("--check ends with exit code {code}"),
            Outcome::Fsck => "--check finds a damaged file system".into(),
            Outcome::Panic => "recovery makes the guest's kernel panic".into(),
            Outcome::Hang => "recovery does not end within --hang".into(),
            Outcome::Checker => "--checker rejects what was recovered".into(),
        };
        Err(Error::Guest(format!(
            "without a power cut, with all that the workload has left, {how}; it would with every cut:\n{}",
            recovery.text
        )))
    }

    /// A machine whose NVMM has a content, before its recovery.
    fn machine(&self, state: &State) -> Result<Machine> {
        let reads = Some(Reads::watching(self.prepared.nvmm(), state.watched));
        let spent = self.spent.lock().ok().and_then(|mut s| s.pop());
        let mut m = match spent {
            Some(spent) => self.from.fork_after(spent, reads)?,
            None => {
                let mut m = self.from.fork()?;
                m.watch_accesses(reads);
                m.set_engine(self.prepared.session.options().engine)?;
                m
            }
        };
        put(&mut m, state.lines)?;
        if self.boots {
            m.power_cut(Dram::Zero)?;
            m.set_timed(false);
            software::load(&mut m, self.prepared.session.software(), true)?;
        }
        Ok(m)
    }

    /// A machine before its recovery, whose NVMM has a content: lines that differ from the one before the workload.
    /// With the recovery's command.
    fn before(&self, lines: &[Line]) -> Result<(Machine, Agent)> {
        let mut m = self.from.fork()?;
        if self.prepared.plan.model.mode == Mode::AsBuilt {
            m.set_timed(true);
        }
        put(&mut m, lines)?;
        // Its exit code ends it: the check is not part of it.
        Ok((m, self.agent.clone().with_slice(LOOK).ends_with(1)))
    }

    /// Recovers from a content, and records what that does to NVMM. `None` if recoveries boot, or if this one fails.
    pub fn recorded(&self, lines: &[Line]) -> Result<Option<Recorded>> {
        if self.boots {
            return Ok(None);
        }
        let (mut m, mut agent) = self.before(lines)?;
        let model = &self.prepared.plan.model;
        let content: HashMap<u64, Bytes> = lines.iter().copied().collect();
        let mut below = self.prepared.reader();
        let reader = move |line| content.get(&line).copied().unwrap_or_else(|| below(line));
        let history = History::new(model.clone(), Box::new(reader));
        let online = Online::new(model.clone());
        Recording::begin(&mut m, history, online, self.prepared.plan.points);
        run(self.prepared.session, &mut m, &mut agent, None)?;
        let Some(all) = Recording::end(&mut m) else {
            return Ok(None);
        };
        let (codes, _) = parts(&agent.out);
        if codes.first() != Some(&0) {
            return Ok(None);
        }
        let mut recorded = Recorded::of(*all);
        if self.prepared.asks_machine() {
            let again = self.again(lines)?;
            left::leave(self.prepared.session, again, &mut recorded)?;
        }
        // Before its first store a cut leaves what it has begun with.
        recorded.cuts.retain(|c| !c.initial.is_empty());
        // Markers are those of the workload.
        recorded.cuts.iter_mut().for_each(|c| c.operation = 0);
        Ok(Some(recorded))
    }

    /// A machine at the beginning of a recovery, as it was recorded, with its services. It runs with the interpreter.
    pub fn again(&self, lines: &[Line]) -> Result<(Machine, Vec<BoxedService<'a>>)> {
        let (mut m, agent) = self.before(lines)?;
        let session: &Session<'a> = self.prepared.session;
        let mut services: Vec<BoxedService<'a>> = vec![Box::new(agent)];
        let devices = session.options().devices.connect(&mut m, session.caller());
        services.extend(devices?);
        Ok((m, services))
    }

    fn one(&self, state: &State) -> Result<Recovery> {
        let mut m = self.machine(state)?;
        let commands = 1 + usize::from(self.prepared.plan.check.is_some());
        let mut agent = self.agent.clone().ends_with(commands);
        agent = if self.boots {
            agent.after_boot(seconds(self.prepared.plan.limit))
        } else {
            agent.with_slice(SLICE)
        };
        run(self.prepared.session, &mut m, &mut agent, None)?;
        let (codes, own) = parts(&agent.out);
        let mut outcome = self.outcome(agent.ended.as_ref(), &codes);
        let mut checked = String::new();
        if let (Outcome::Ok, Some(file)) = (&outcome, &self.prepared.plan.checker) {
            let (ok, said) = check(file, &own, &self.recorded.labels)?;
            if !ok {
                outcome = Outcome::Checker;
                checked = said;
            }
        }
        if let (Outcome::Ok, Some(checker)) = (&outcome, self.checker) {
            if let Some(wrong) = checker(&own, &self.recorded.labels).map_err(Error::Guest)? {
                outcome = Outcome::Checker;
                checked = wrong;
            }
        }
        let mut digest = Xxh3::new();
        digest.write(&own);
        let said = match outcome {
            Outcome::Ok => String::from_utf8_lossy(&own).into_owned(),
            _ => {
                let err = String::from_utf8_lossy(&agent.err).into_owned();
                let console = String::from_utf8_lossy(&agent.console).into_owned();
                let own = String::from_utf8_lossy(&own);
                // The end of it is shown; a kernel that complains has much to say.
                format!("{console}{own}{err}{checked}")
            }
        };
        let mut unseen = Reads::default();
        let seen = m.access_sink::<Reads>().unwrap_or(&mut unseen);
        let reads = seen.take();
        let (stores, stored) = (seen.stores(), seen.stored());
        let began = self.from.state().instructions();
        let executed = m.instructions().saturating_sub(began);
        self.executed.fetch_add(executed, Ordering::Relaxed);
        if let Ok(mut spent) = self.spent.lock() {
            spent.push(m);
        }
        Ok(Recovery {
            reads,
            output: (outcome == Outcome::Ok).then(|| digest.finish()),
            outcome,
            text: end_of(&said).to_string(),
            stores,
            stored,
        })
    }

    fn outcome(&self, ended: Option<&Ended>, codes: &[i32]) -> Outcome {
        match ended {
            Some(Ended::Panic | Ended::Off) => Outcome::Panic,
            Some(Ended::Hang) | None => Outcome::Hang,
            Some(Ended::Failed(_)) => Outcome::RecoverExit { code: 127 },
            Some(Ended::Code(code)) => match codes {
                [] => Outcome::RecoverExit {
                    code: (*code).min(255) as i32,
                },
                [0] | [0, 0] => Outcome::Ok,
                [0, _] if self.fsck => Outcome::Fsck,
                [0, code, ..] => Outcome::CheckExit { code: *code },
                [code, ..] => Outcome::RecoverExit { code: *code },
            },
        }
    }
}

/// The last part of a text, from the start of a line if there is one.
fn end_of(text: &str) -> &str {
    let at = text.len().saturating_sub(SHOWN);
    let Some(from) = (at..=text.len()).find(|&i| text.is_char_boundary(i)) else {
        return text;
    };
    match text[from..].find('\n') {
        Some(n) if from > 0 => &text[from + n + 1..],
        _ => &text[from..],
    }
}

/// Asks a program of the host: whether it says yes, and what it says.
fn check(file: &Path, output: &[u8], labels: &[String]) -> Result<(bool, String)> {
    let fails = || format!("cannot run python3 {}", file.display());
    let mut child = Command::new("python3")
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(fails)?;
    let question = json!({"output": String::from_utf8_lossy(output), "labels": labels});
    if let Some(mut to) = child.stdin.take() {
        // A program that does not ask need not read.
        let _ = to.write_all(question.to_string().as_bytes());
    }
    let out = child.wait_with_output().with_context(fails)?;
    let said = [out.stdout, out.stderr].concat();
    Ok((
        out.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

impl Subject for Recovering<'_, '_, '_> {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        self.one(state).map_err(|e| e.chain())
    }

    fn record(&self, state: &State) -> Result<Option<Record>, String> {
        let recorded = self.recorded(state.lines).map_err(|e| e.chain())?;
        Ok(recorded.map(|r| Record {
            cuts: r.cuts,
            sites: r.sites,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_last_lines_are_shown() {
        assert_eq!(end_of("short"), "short");
        let long = format!("{}\nlast\n", "é".repeat(SHOWN));
        assert_eq!(end_of(&long), "last\n");
        assert!(end_of(&"é".repeat(SHOWN)).len() <= SHOWN);
    }

    #[test]
    fn exit_codes_stand_between_signs() {
        let both = b"a\x1e0\x1eb\x1e3\x1e";
        assert_eq!(parts(both), (vec![0, 3], b"ab".to_vec()));
        assert_eq!(parts(b"7"), (vec![], b"7".to_vec()));
        assert_eq!(parts(b"\x1e0\x1e"), (vec![0], vec![]));
        assert!(!script("a", None).contains("exit"));
    }
}
