//! The messages on the agent's control port; guest/agent/protocol.h is the guest's side.

use crate::error::{Context, Error, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Greatest length of a message in bytes.
const MOST: usize = 1 << 16;
/// Label of the snapshot in which the agent waits for a job: "job wait".
pub const LABEL_READY: u64 = 0x7469_6177_2062_6f6a;
/// Label of the statistics that the agent records at the program's end: "job end".
pub const LABEL_END: u64 = 0x0064_6e65_2062_6f6a;

mod job {
    pub const FILE: u32 = 1;
    pub const DATA: u32 = 2;
    pub const ARG: u32 = 3;
    pub const ENV: u32 = 4;
    pub const CWD: u32 = 5;
    pub const MOUNT: u32 = 6;
    pub const FLAGS: u32 = 7;
    pub const EXEC: u32 = 8;
    pub const MEMORY: u32 = 9;
    pub const RUN: u32 = 10;
    pub const SIGNAL: u32 = 11;
    pub const SEED: u32 = 12;
    pub const CLOCK: u32 = 13;
}

mod says {
    pub const READY: u32 = 1;
    pub const STARTED: u32 = 2;
    pub const ENDED: u32 = 3;
    pub const FAILED: u32 = 4;
}

/// A file to be created in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Absolute path in the guest.
    pub path: String,
    /// Permissions.
    pub mode: u32,
    /// Its content.
    pub bytes: Arc<[u8]>,
}

impl Placed {
    /// A file of the host at a path in the guest, executable if it is so on the host.
    pub fn of_host(file: &Path, path: &str) -> Result<Placed> {
        let read = || -> std::io::Result<Placed> {
            let executable = std::fs::metadata(file)?.permissions().mode() & 0o111 != 0;
            Ok(Placed {
                path: path.into(),
                mode: if executable { 0o755 } else { 0o644 },
                bytes: std::fs::read(file)?.into(),
            })
        };
        read().with_context(|| format!("--file: cannot read {}", file.display()))
    }
}

/// A share to be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its tag.
    pub tag: String,
    /// Absolute path in the guest.
    pub path: String,
    /// Whether it may be written.
    pub write: bool,
}

/// A job for the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Files to be created.
    pub files: Vec<Placed>,
    /// Shares to be mounted.
    pub mounts: Vec<Mount>,
    /// Arguments, the program's name first.
    pub args: Vec<String>,
    /// The file to execute, if it is not the first argument; without `/` it is looked up in the
    /// guest.
    pub exec: Option<String>,
    /// NAME=VALUE, in addition to what the agent sets.
    pub env: Vec<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Whether the timing model is on while the program runs.
    pub timed: bool,
    /// Whether it has an input.
    pub stdin: bool,
    /// Whether network interfaces are set up first.
    pub network: bool,
    /// NUMA node of its memory.
    pub node: Option<u32>,
    /// The time of day, in seconds since 1970, if it differs from that of the boot.
    pub clock: Option<u64>,
}

fn message(to: &mut Vec<u8>, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    to.extend(kind.to_le_bytes());
    to.extend((length as u32).to_le_bytes());
    for p in parts {
        to.extend(*p);
    }
}

fn text(to: &mut Vec<u8>, kind: u32, head: &[u8], text: &str) -> Result<()> {
    // Headers and the zeros between parts need some room.
    let most = MOST - 64;
    if text.len() > most || text.contains('\0') {
        let shown: String = text.chars().take(40).collect();
        return Err(Error::Request(format!(
            "`{shown}...` cannot be handed to the guest: at most {most} bytes are \
            possible, without NUL bytes"
        )));
    }
    message(to, kind, &[head, text.as_bytes()]);
    Ok(())
}

impl Job {
    /// An error if the job contains something that does not fit into a message.
    pub fn check(&self) -> Result<()> {
        let without = |f: &Placed| Placed {
            bytes: Arc::default(),
            ..f.clone()
        };
        let small = Job {
            files: self.files.iter().map(without).collect(),
            ..self.clone()
        };
        small.encode().map(drop)
    }

    /// The messages of the job.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for m in &self.mounts {
            let mut head = u32::from(m.write).to_le_bytes().to_vec();
            head.extend(m.tag.as_bytes());
            head.push(0);
            text(&mut out, job::MOUNT, &head, &m.path)?;
        }
        for a in &self.args {
            text(&mut out, job::ARG, b"", a)?;
        }
        for e in &self.env {
            text(&mut out, job::ENV, b"", e)?;
        }
        if let Some(c) = &self.cwd {
            text(&mut out, job::CWD, b"", c)?;
        }
        if let Some(e) = &self.exec {
            text(&mut out, job::EXEC, b"", e)?;
        }
        for f in &self.files {
            text(&mut out, job::FILE, &f.mode.to_le_bytes(), &f.path)?;
            for piece in f.bytes.chunks(MOST) {
                message(&mut out, job::DATA, &[piece]);
            }
        }
        let flags = [self.timed, self.stdin, self.network];
        let flags = (0..)
            .zip(flags)
            .map(|(n, on)| u32::from(on) << n)
            .sum::<u32>();
        message(&mut out, job::FLAGS, &[&flags.to_le_bytes()]);
        if let Some(n) = self.node {
            message(&mut out, job::MEMORY, &[&n.to_le_bytes()]);
        }
        if let Some(c) = self.clock {
            message(&mut out, job::CLOCK, &[&c.to_le_bytes()]);
        }
        message(&mut out, job::RUN, &[]);
        Ok(out)
    }
}

/// The seed of a run's randomness; it precedes a job.
pub fn seed(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, job::SEED, &[&number.to_le_bytes()]);
    out
}

/// A signal for the program.
pub fn signal(number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, job::SIGNAL, &[&number.to_le_bytes()]);
    out
}

/// How a program ended, and its resource usage, as the guest's kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Ended {
    /// Whether a signal ended it.
    #[serde(skip)]
    pub by_signal: bool,
    /// Exit code, or the signal's number.
    #[serde(skip)]
    pub status: u32,
    /// Time in user mode, in microseconds.
    pub user_us: u64,
    /// Time in the kernel, in microseconds.
    pub system_us: u64,
    /// Most resident memory, in KiB.
    pub max_rss_kib: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

/// A message of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It waits for a job.
    Ready {
        /// Version of the protocol.
        version: u32,
        /// Whether it can access the control block.
        registers: bool,
    },
    /// The program has started.
    Started {
        /// Process in the guest.
        pid: u32,
    },
    /// The program has ended.
    Ended(Ended),
    /// The program could not be executed.
    Failed {
        /// The guest's errno.
        errno: u32,
        /// The operation that failed.
        text: String,
    },
}

/// Splits a stream of bytes into messages.
#[derive(Debug, Default, Clone)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Adds bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Says>> {
        const GARBLED: &str = "what came from the guest's control port is no message of the agent";
        let Some((kind, length)) = word(&self.bytes, 0).zip(word(&self.bytes, 4)) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > MOST {
            return Err(Error::Guest(GARBLED.into()));
        }
        if self.bytes.len() < 8 + length {
            return Ok(None);
        }
        let says =
            says(kind, &self.bytes[8..8 + length]).ok_or_else(|| Error::Guest(GARBLED.into()))?;
        self.bytes.drain(..8 + length);
        Ok(Some(says))
    }
}

fn word(b: &[u8], at: usize) -> Option<u32> {
    let bytes = b.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn says(kind: u32, b: &[u8]) -> Option<Says> {
    let long = |at: usize| Some(u64::from(word(b, at)?) | u64::from(word(b, at + 4)?) << 32);
    Some(match kind {
        says::READY => Says::Ready {
            version: word(b, 0)?,
            registers: word(b, 4)? != 0,
        },
        says::STARTED => Says::Started { pid: word(b, 0)? },
        says::ENDED => Says::Ended(Ended {
            by_signal: word(b, 0)? != 0,
            status: word(b, 4)?,
            user_us: long(8)?,
            system_us: long(16)?,
            max_rss_kib: long(24)?,
            minor_faults: long(32)?,
            major_faults: long(40)?,
        }),
        says::FAILED => Says::Failed {
            errno: word(b, 0)?,
            text: String::from_utf8_lossy(&b[4..]).into_owned(),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_executable_on_the_host_is_so_in_the_guest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (host, guest) in [
            (0o600, 0o644),
            (0o640, 0o644),
            (0o711, 0o755),
            (0o777, 0o755),
        ] {
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(host)).unwrap();
            let placed = Placed::of_host(file.path(), "/p").unwrap();
            assert_eq!((placed.mode, placed.path.as_str()), (guest, "/p"));
        }
        assert!(Placed::of_host(Path::new("/nonexistent"), "/p").is_err());
    }

    #[test]
    fn a_job_is_written_part_by_part() {
        let job = Job {
            files: vec![Placed {
                path: "/p".into(),
                mode: 0o755,
                bytes: vec![7; MOST + 1].into(),
            }],
            mounts: vec![Mount {
                tag: "t".into(),
                path: "/m".into(),
                write: true,
            }],
            args: vec!["a".into()],
            node: Some(1),
            clock: Some(1),
            timed: true,
            ..Job::default()
        };
        let bytes = job.encode().unwrap();
        let mut at = 0;
        let mut kinds = Vec::new();
        while at < bytes.len() {
            let length = word(&bytes, at + 4).unwrap() as usize;
            kinds.push((word(&bytes, at).unwrap(), length));
            at += 8 + length;
        }
        assert_eq!(
            kinds,
            [
                (6, 8),
                (3, 1),
                (1, 6),
                (2, MOST),
                (2, 1),
                (7, 4),
                (9, 4),
                (13, 8),
                (10, 0)
            ]
        );
        let bad = Job {
            args: vec!["a\0b".into()],
            ..Job::default()
        };
        assert!(bad.encode().unwrap_err().to_string().contains("NUL"));
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let mut all = Vec::new();
        message(&mut all, says::READY, &[&[1, 0, 0, 0, 1, 0, 0, 0]]);
        message(&mut all, says::FAILED, &[&[2, 0, 0, 0], b"no"]);
        let mut r = Reader::default();
        let mut got = Vec::new();
        for b in all {
            r.feed(&[b]);
            got.extend(r.next().unwrap());
        }
        let failed = Says::Failed {
            errno: 2,
            text: "no".into(),
        };
        let ready = Says::Ready {
            version: 1,
            registers: true,
        };
        assert_eq!(got, [ready, failed]);
        r.feed(&[9, 0, 0, 0, 0, 0, 0, 0]);
        assert!(r.next().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(bytes in prop::collection::vec(0u8..6, 0..200)) {
            let mut r = Reader::default();
            r.feed(&bytes);
            while let Ok(Some(_)) = r.next() {}
        }
    }
}
