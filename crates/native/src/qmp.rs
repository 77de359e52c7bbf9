//! Virtual machines: which threads of a QEMU are its virtual CPUs, from its monitor (QMP).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{json, Value};

use crate::source::Tid;
use crate::Error;

/// How long QEMU may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest line of an answer that is read.
const LONGEST: u64 = 16 << 20;

/// A virtual CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// Its number in the guest.
    pub index: u64,
    /// The thread that runs it.
    pub thread: Tid,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its virtual CPUs, by their numbers.
    pub vcpus: Vec<Vcpu>,
    /// Whether KVM runs them. Then what they do is the guest's, kernel included; otherwise (TCG) it is QEMU's own.
    pub kvm: bool,
}

/// Asks a QEMU for its virtual CPUs.
///
/// # Errors
/// If nobody answers at the socket, or not as QMP does, or if there are no virtual CPUs with threads of their own.
pub fn machine(socket: &Path) -> Result<Machine, Error> {
    let wrong = |why: String| Error::Qmp {
        socket: socket.display().to_string(),
        why,
    };
    let stream = UnixStream::connect(socket).map_err(|e| wrong(e.to_string()))?;
    for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        set(&stream, Some(PATIENCE)).map_err(|e| wrong(e.to_string()))?;
    }
    let mut monitor = Monitor {
        lines: BufReader::new(stream),
    };
    let greeting = monitor.line().map_err(wrong)?;
    if greeting.get("QMP").is_none() {
        return Err(wrong(format!(
            "it greets with {greeting}, which is not QMP"
        )));
    }
    monitor.ask("qmp_capabilities").map_err(wrong)?;
    let answer = monitor.ask("query-cpus-fast").map_err(wrong)?;
    let cpus = answer
        .as_array()
        .ok_or_else(|| wrong(format!("query-cpus-fast answers {answer}")))?;
    let kvm = monitor.ask("query-kvm").map_err(wrong)?;
    let kvm = kvm.get("enabled").and_then(Value::as_bool);
    let kvm = kvm.ok_or_else(|| wrong("query-kvm does not say whether KVM is enabled".into()))?;
    let mut vcpus = Vec::new();
    for cpu in cpus {
        let number = |name: &str| cpu.get(name).and_then(Value::as_i64);
        let (Some(index), Some(thread)) = (number("cpu-index"), number("thread-id")) else {
            return Err(wrong(format!(
                "a CPU without cpu-index or thread-id: {cpu}"
            )));
        };
        let thread = i32::try_from(thread).ok().filter(|&t| t > 0);
        let thread = Tid(thread.ok_or_else(|| wrong(format!("a thread that cannot be: {cpu}")))?);
        vcpus.push(Vcpu {
            index: index as u64,
            thread,
        });
    }
    vcpus.sort_by_key(|v| v.index);
    let mut threads: Vec<Tid> = vcpus.iter().map(|v| v.thread).collect();
    threads.sort();
    threads.dedup();
    if vcpus.is_empty() {
        return Err(wrong("the machine has no virtual CPUs".into()));
    }
    if threads.len() != vcpus.len() {
        let why = "several virtual CPUs share a thread (TCG with one thread): there is nothing to delay one by one";
        return Err(wrong(why.into()));
    }
    Ok(Machine { vcpus, kvm })
}

struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    fn line(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        let n = std::io::Read::take(&mut self.lines, LONGEST)
            .read_line(&mut text)
            .map_err(|e| e.to_string())?;
        if n == 0 {
            return Err("it has closed the connection".into());
        }
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", text.trim()))
    }

    fn ask(&mut self, command: &str) -> Result<Value, String> {
        let text = format!("{}\n", json!({ "execute": command }));
        self.lines
            .get_mut()
            .write_all(text.as_bytes())
            .map_err(|e| e.to_string())?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                return Err(format!("{command}: {error}"));
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            // Events come whenever they like.
            if answer.get("event").is_none() {
                return Err(format!("{command}: {answer}"));
            }
        }
    }
}
