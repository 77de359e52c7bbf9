//! Debian's programs in `nagori bench epoch`: on a booted machine, with the kernel's work for them.

use super::rows::Row;
use super::{rows, Done, Emulation, Subject};
use anyhow::{ensure, Context};
use nagori_image::{Base, RootfsSpec};
use nagori_session::program::{Captured, Outcome, Program, Stdin, Why};
use nagori_session::{image, Options, Placement, Rootfs, Session};
use nagori_terminal::output::Messages;
use std::fmt::Write;
use std::path::PathBuf;

/// Packages of the root file system.
const PACKAGES: &[&str] = &["xz-utils", "sqlite3", "python3-minimal", "cpp", "jq"];

/// A program of Debian's.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// Its name in rows.
    pub name: &'static str,
    /// The command, for the guest's shell; N is the length. Files are in /data.
    command: &'static str,
    /// N for a length of a hundred percent.
    full: u32,
}

/// All of them.
pub const GUESTS: &[Guest] = &[
    Guest {
        name: "xz",
        command: "head -c ${N}000 /data/text | xz -1 -T1 -c | wc -c",
        full: 400,
    },
    Guest {
        name: "xz-threads",
        command: "head -c ${N}000 /data/text | xz -1 -T4 --block-size=8KiB -c | wc -c",
        full: 400,
    },
    Guest {
        name: "sqlite3",
        command: "sqlite3 :memory: \"create table t(a, b); create index i on t(b); \
                  with recursive c(x) as (select 1 union all select x + 1 from c where x < $N) \
                  insert into t select x, x * 7919 % 10007 from c; \
                  select sum(u.a) from t, t u where t.a = u.b;\"",
        full: 6000,
    },
    Guest {
        name: "python3",
        command: "python3 -S -E -c 'd = {}\nfor i in range('$N'): d[str(i * 7919 % 10007)] = \
            i\nprint(sum(d.values()))'",
        full: 40_000,
    },
    Guest {
        // The C compiler itself, which is in the package of its preprocessor.
        name: "cc1",
        command: "head -n $N /data/functions.c >/tmp/f.c; \
                  /usr/libexec/gcc/*/*/cc1 -quiet -O1 /tmp/f.c -o /tmp/f.s && wc -l </tmp/f.s",
        full: 100,
    },
    Guest {
        // Processes that wait for one another by pipes.
        name: "pipeline",
        command: "head -c ${N}00 /data/text | tr ' ' '\\n' | sort | uniq -c | sort -rn | head -n 3",
        full: 1000,
    },
    Guest {
        // Processes that the shell forks, and waits for.
        name: "forks",
        command: "i=0; while [ $i -lt $N ]; do (: $((i * 7))); /bin/true; i=$((i + 1)); done; echo $i",
        full: 100,
    },
    Guest {
        // Threads that take turns by locks; Python's own lock uses a condition variable.
        name: "turns",
        command: "python3 -S -E -c 'import _thread\na, b, end = [_thread.allocate_lock() for _ in range(3)]\n\
                  b.acquire(); end.acquire()\nd = list(range(100000))\ns = [0, 0]\n\
                  def turns(k, mine, other):\n for i in range('$N'):\n  mine.acquire()\n\
                  \x20 for j in range(8): s[k] += d[(i * 7919 + j * 104729) % 100000]\n  other.release()\n\
                  \ndef second():\n turns(1, b, a)\n end.release()\n\
                  \n_thread.start_new_thread(second, ())\nturns(0, a, b)\nend.acquire()\nprint(s)'",
        full: 2000,
    },
    Guest {
        name: "jq",
        command: "head -n $N /data/lines.json | jq -c '.values | add' | tail -n 1",
        full: 2000,
    },
];

/// The root file system, and files for the programs.
pub struct Debian<'a> {
    rootfs: PathBuf,
    files: tempfile::TempDir,
    messages: &'a Messages,
}

/// Text that can be compressed somewhat, from a fixed seed.
fn prose(bytes: usize) -> String {
    let words = [
        "page", "row", "bank", "line", "of", "the", "memory", "writes", "while", "a", "hart",
    ];
    let mut state = 1u64;
    let mut text = String::new();
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let n = state >> 33;
        text += words[n as usize % words.len()];
        // Writing to a string does not fail.
        let _ = match n % 7 {
            0 => writeln!(text, " {n}."),
            _ => write!(text, " "),
        };
    }
    text
}

impl<'a> Debian<'a> {
    /// Builds the root file system, if it is not cached.
    pub fn new(messages: &'a Messages) -> anyhow::Result<Debian<'a>> {
        let options = image::options(None)?;
        let mut spec = RootfsSpec::new(Base::Run);
        spec.packages = PACKAGES.iter().map(|p| p.to_string()).collect();
        let built = image::rootfs::build(&options, &spec, messages)?;
        let files = tempfile::Builder::new().prefix("nagori-epoch-").tempdir();
        let files = files.context("cannot create a directory for the programs' files")?;
        let functions = |i| {
            format!("int f{i}(int a, int b) {{ int s = {i}; for (int k = 0; k < a; k++) s += k * b ^ {i}; return s > b \
                ? s : b - {i}; }}\n")
        };
        let object = |i: u64| {
            let values: Vec<String> = (0..24u64)
                .map(|k| (i * 7919 % 10_007 + k * k).to_string())
                .collect();
            format!(
                "{{\"id\": {i}, \"name\": \"object {i}\", \"values\": [{}]}}\n",
                values.join(", ")
            )
        };
        let texts = [
            ("text", prose(1_000_000)),
            ("functions.c", (0..10_000).map(functions).collect()),
            ("lines.json", (0..10_000).map(object).collect()),
        ];
        for (name, text) in texts {
            std::fs::write(files.path().join(name), text)
                .with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Debian {
            rootfs: built.path,
            files,
            messages,
        })
    }

    /// Runs programs in all ways, as a subject that is made of a name, and of whether others may see another order of
    /// events.
    pub fn rows<'s>(
        &self,
        subject: &dyn Fn(&'s str, bool) -> Subject<'s>,
        guests: &[&'s Guest],
        scale: u32,
        emulations: &mut [Emulation],
    ) -> anyhow::Result<Vec<Vec<Row>>> {
        // Machines that have booted, by their settings.
        let mut booted: Vec<(Vec<String>, Session)> = Vec::new();
        let mut all = Vec::new();
        for g in guests {
            // What a kernel decides depends on time; what programs print does not.
            let s = subject(g.name, false);
            let found = rows(&s, emulations, |set| {
                let known = booted.iter().position(|b| b.0 == set);
                let at = match known {
                    Some(at) => at,
                    None => {
                        booted.push((set.to_vec(), self.boot(s.machine, set)?));
                        booted.len() - 1
                    }
                };
                self.run(&booted[at].1, g, scale)
            });
            all.push(found.with_context(|| format!("{} on {}", g.name, s.machine))?);
        }
        Ok(all)
    }

    /// A machine with such settings that has booted, with the programs' memory on NVMM.
    fn boot(&self, machine: &str, set: &[String]) -> anyhow::Result<Session<'a>> {
        let mut options = Options::new(machine);
        options.machine.set = set.to_vec();
        options.rootfs = Rootfs::Named(self.rootfs.display().to_string());
        options.placement = Placement::Nvmm;
        Ok(Session::boot(options, self.messages)?)
    }

    /// Runs a program.
    fn run(&self, session: &Session, guest: &Guest, scale: u32) -> anyhow::Result<Done> {
        let n = (u64::from(guest.full) * u64::from(scale) / 100).max(1);
        let file = |name: &str| (self.files.path().join(name), format!("/data/{name}"));
        let program = Program {
            args: ["sh", "-c", guest.command].map(str::to_owned).to_vec(),
            env: vec![format!("N={n}")],
            files: ["text", "functions.c", "lines.json"].map(file).to_vec(),
            stdin: Stdin::None,
            ..Program::default()
        };
        let loaded = program.load()?;
        let mut running = session.start(&loaded)?;
        let mut output = Captured::default();
        let ended = running.wait(&mut output)?;
        self.messages.signals().check()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let well = match &ended.why {
            Why::Outcome(Outcome::Ended(e)) => !e.by_signal && e.status == 0,
            _ => false,
        };
        ensure!(
            well && stderr.is_empty(),
            "{}: {:?} {stderr}",
            guest.name,
            ended.why
        );
        Ok(Done {
            report: ended.report,
            printed: output.stdout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_each_time() {
        assert_eq!(prose(1000), prose(1000));
        assert!(prose(1000).len() >= 1000);
    }
}
