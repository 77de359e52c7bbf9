//! Files of a mirror: fetched by HTTP or read from a directory, begun transfers are continued, and failed ones tried
//! again.

use crate::error::{Error, IoContext};
use crate::host::Proxies;
use crate::proxy::{self, Answer};
use crate::release::Listed;
use ring::digest::{Context, SHA256};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::{Agent, Proxy, ProxyProtocol};

/// How often a transfer is tried.
const TRIES: u32 = 4;
/// After how long without an answer or a byte a transfer is taken for broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Waited before the second try; twice as long before each further one.
const PAUSE: Duration = Duration::from_millis(500);
/// Most bytes of a file whose size is not known beforehand.
const UNKNOWN: u64 = 16 << 20;
/// Bytes between two reports of progress.
const REPORT: u64 = 1 << 20;

/// Where a mirror's files are.
pub(crate) enum Source {
    Http {
        base: String,
        agent: Agent,
        /// A proxy that is asked for whole addresses.
        proxy: Option<Proxy>,
    },
    Directory(PathBuf),
}

/// Why a try has failed.
enum Failure {
    /// Trying again may help.
    Broken(String),
    /// It does not.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Final(e)
    }
}

impl Source {
    /// The mirror at `uri`.
    pub fn new(uri: &str, proxies: &Proxies) -> Result<Source, Error> {
        let bad = |why: &str| Error::BadMirror {
            uri: uri.to_string(),
            why: why.to_string(),
        };
        if uri.bytes().any(|b| !b.is_ascii_graphic()) {
            return Err(bad("blanks and control characters are not allowed"));
        }
        let base = uri.trim_end_matches('/').to_string();
        match uri.split_once(':') {
            Some(("http" | "https", rest)) if rest.starts_with("//") && rest.len() > 2 => {
                let proxy = proxies.of(uri).map(|p| {
                    let made = p.map(|p| Proxy::new(&p)).transpose();
                    made.map_err(|e| bad(&format!("its proxy: {e}")))
                });
                let proxy = proxy.transpose()?.unwrap_or_else(Proxy::try_from_env);
                let by = |p: &Proxy| {
                    let plain = uri.starts_with("http:") && p.protocol() == ProxyProtocol::Http;
                    let uri = uri.parse().ok();
                    plain && !uri.is_some_and(|u| p.is_no_proxy(&u))
                };
                let (plain, tunnel) = match proxy {
                    Some(p) if by(&p) => (Some(p), None),
                    other => (None, other),
                };
                let agent = Agent::config_builder()
                    .http_status_as_error(false)
                    .timeout_connect(Some(PATIENCE))
                    .timeout_recv_response(Some(PATIENCE))
                    .timeout_per_read(Some(PATIENCE))
                    .user_agent(concat!("nagori/", env!("CARGO_PKG_VERSION")))
                    .accept_encoding("identity")
                    .proxy(tunnel)
                    .build();
                Ok(Source::Http {
                    base,
                    agent: agent.into(),
                    proxy: plain,
                })
            }
            Some(("file" | "copy", rest)) if rest.starts_with('/') => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                Ok(Source::Directory(PathBuf::from(path)))
            }
            _ => Err(bad(
                "give an address with its scheme: http://host/debian, https://host/debian or file:/srv/debian",
            )),
        }
    }

    /// The address of a file.
    pub fn address(&self, path: &str) -> String {
        match self {
            // Epochs and `~` in names of files would do no harm, `+` would in some queries, and none is one.
            Source::Http { base, .. } => format!("{base}/{path}"),
            Source::Directory(dir) => dir.join(path).display().to_string(),
        }
    }

    /// Fetches a small file.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        if let Source::Directory(dir) = self {
            let file = dir.join(path);
            return fs::read(&file).context("read", file);
        }
        self.tried(path, || {
            let mut bytes = Vec::new();
            let (mut reader, _) = self.open(path, 0)?;
            let read = reader.by_ref().take(UNKNOWN).read_to_end(&mut bytes);
            read.map_err(|e| Failure::Broken(e.to_string()))?;
            Ok(bytes)
        })
    }

    /// Fetches a file whose size and checksum are known to `to`. `done` is told how many bytes are there.
    pub fn file(
        &self,
        path: &str,
        listed: &Listed,
        to: &Path,
        done: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let part = partial(to);
        self.tried(path, || self.continue_into(path, listed, &part, done))?;
        fs::rename(&part, to).context("move a file to", to)
    }

    /// Appends what is missing to `part`, and compares the whole with its checksum.
    fn continue_into(
        &self,
        path: &str,
        listed: &Listed,
        part: &Path,
        done: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut have = fs::metadata(part).map_or(0, |m| m.len());
        if have > listed.size {
            have = 0;
        }
        let continued = have > 0;
        if have < listed.size || listed.size == 0 {
            let (mut reader, start) = self.open(path, have)?;
            let mut file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(part)
                .context("create", part)?;
            file.set_len(start).context("shorten", part)?;
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(start))
                .context("read", part)?;
            have = start;
            let mut buffer = vec![0; 1 << 16];
            let mut told = have;
            loop {
                let n = reader
                    .read(&mut buffer)
                    .map_err(|e| Failure::Broken(e.to_string()))?;
                if n == 0 {
                    break;
                }
                have += n as u64;
                if have > listed.size {
                    break;
                }
                file.write_all(&buffer[..n]).context("write", part)?;
                if have - told >= REPORT {
                    told = have;
                    done(have);
                }
            }
            if have < listed.size {
                return Err(Failure::Broken(format!(
                    "it ended after {have} of {} bytes",
                    listed.size
                )));
            }
        }
        let found = if have > listed.size {
            format!("it has more than {} bytes", listed.size)
        } else {
            sha256_of(part)?
        };
        if found == listed.sha256 {
            return Ok(());
        }
        fs::remove_file(part).context("remove", part)?;
        // The beginning may have been of another file.
        if continued {
            return Err(Failure::Broken(
                "what was fetched before does not fit".into(),
            ));
        }
        Err(Failure::Final(Error::Hash {
            what: self.address(path),
            expected: listed.sha256.clone(),
            found,
        }))
    }

    /// A reader of the file from about `from` on, and from where exactly.
    fn open(&self, path: &str, from: u64) -> Result<(Box<dyn Read>, u64), Failure> {
        let (base, agent, proxy) = match self {
            Source::Directory(dir) => {
                let file = dir.join(path);
                let f = File::open(&file).context("open", file)?;
                return Ok((Box::new(f), 0));
            }
            Source::Http { base, agent, proxy } => (base, agent, proxy),
        };
        let url = format!("{base}/{path}");
        let answer = match proxy {
            Some(proxy) => proxy::get(proxy, &url, from, PATIENCE)
                .map_err(|e| Failure::Broken(e.to_string()))?,
            None => {
                let mut request = agent.get(&url);
                if from > 0 {
                    request = request.header("Range", format!("bytes={from}-"));
                }
                let response = request.call().map_err(|e| Failure::Broken(e.to_string()))?;
                let status = response.status().as_u16();
                let body = response.into_body().into_with_config().limit(u64::MAX);
                Answer {
                    status,
                    body: Box::new(body.reader()),
                }
            }
        };
        match answer.status {
            200 => Ok((answer.body, 0)),
            206 if from > 0 => Ok((answer.body, from)),
            // What is there is not a part of it.
            416 if from > 0 => self.open(path, 0),
            429 | 500..=599 => Err(Failure::Broken(format!(
                "the server answers {}",
                answer.status
            ))),
            status => Err(Failure::Final(Error::Status { url, status })),
        }
    }

    fn tried<T>(
        &self,
        path: &str,
        mut once: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let mut pause = PAUSE;
        let mut last = String::new();
        for n in 0..TRIES {
            if n > 0 {
                std::thread::sleep(pause);
                pause *= 2;
            }
            match once() {
                Ok(found) => return Ok(found),
                Err(Failure::Final(e)) => return Err(e),
                Err(Failure::Broken(why)) => last = why,
            }
        }
        Err(Error::Network {
            url: self.address(path),
            why: format!("{last} ({TRIES} times)"),
        })
    }
}

/// Where a file is while it is being fetched.
fn partial(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String, Error> {
    let mut f = File::open(path).context("open", path)?;
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match f.read(&mut buffer).context("read", path)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
    }
    let digest = hash.finish();
    Ok(digest.as_ref().iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
