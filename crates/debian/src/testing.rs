//! What tests share: a key that they sign with, and a web server.

use crate::release::Listed;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use ring::digest::{digest, SHA512};
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// When the test key was made.
pub const CREATED: u32 = 1_700_000_000;

pub struct Signer {
    pub pair: Ed25519KeyPair,
    pub body: Vec<u8>,
    pub lifetime: u32,
    pub flags: u8,
}

fn mpi(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let bytes = &bytes[zeros..];
    let bits = bytes
        .first()
        .map_or(0, |b| bytes.len() * 8 - b.leading_zeros() as usize);
    [&(bits as u16).to_be_bytes()[..], bytes].concat()
}

pub fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0xc0 | tag, 255];
    p.extend((body.len() as u32).to_be_bytes());
    p.extend(body);
    p
}

pub fn subpacket(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[body.len() as u8 + 1, kind], body].concat()
}

impl Signer {
    pub fn new(seed: u8) -> Signer {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let mut body = vec![4];
        body.extend(CREATED.to_be_bytes());
        body.extend([22, 9, 0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1]);
        body.extend(mpi(&[&[0x40], pair.public_key().as_ref()].concat()));
        Signer {
            pair,
            body,
            lifetime: 0,
            flags: 3,
        }
    }

    pub fn hashed_key(&self) -> Vec<u8> {
        let mut data = vec![0x99];
        data.extend((self.body.len() as u16).to_be_bytes());
        data.extend(&self.body);
        data
    }

    pub fn fingerprint(&self) -> Vec<u8> {
        let hash = digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &self.hashed_key());
        hash.as_ref().to_vec()
    }

    /// The body of a signature packet.
    pub fn sign(&self, kind: u8, time: u32, more: &[u8], data: &[u8]) -> Vec<u8> {
        let issuer = subpacket(33, &[&[4], &self.fingerprint()[..]].concat());
        let subpackets = [&subpacket(2, &time.to_be_bytes())[..], &issuer, more].concat();
        let mut hashed = vec![4, kind, 22, 10];
        hashed.extend((subpackets.len() as u16).to_be_bytes());
        hashed.extend(&subpackets);
        let mut whole = [data, &hashed].concat();
        whole.extend([4, 0xff]);
        whole.extend((hashed.len() as u32).to_be_bytes());
        let hash = digest(&SHA512, &whole);
        let signature = self.pair.sign(hash.as_ref());
        let mut body = hashed;
        body.extend([0, 0]);
        body.extend(&hash.as_ref()[..2]);
        body.extend(mpi(&signature.as_ref()[..32]));
        body.extend(mpi(&signature.as_ref()[32..]));
        body
    }

    pub fn self_signature(&self) -> Vec<u8> {
        let user = [&[0xb4, 0, 0, 0, 4], &b"test"[..]].concat();
        let data = [&self.hashed_key()[..], &user].concat();
        let more = [
            subpacket(27, &[self.flags]),
            subpacket(9, &self.lifetime.to_be_bytes()),
        ]
        .concat();
        self.sign(0x13, CREATED, &more, &data)
    }

    /// The key with its self-signature.
    pub fn certificate(&self) -> Vec<u8> {
        [
            packet(6, &self.body),
            packet(13, b"test"),
            packet(2, &self.self_signature()),
        ]
        .concat()
    }

    /// A text signed in the clear.
    pub fn clear(&self, text: &str, time: u32) -> String {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let body = self.sign(1, time, &[], lines.join("\r\n").as_bytes());
        let escaped: Vec<String> = { lines.iter() }
            .map(|l| {
                if l.starts_with('-') {
                    format!("- {l}")
                } else {
                    l.to_string()
                }
            })
            .collect();
        format!(
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}\n-----BEGIN PGP SIGNATURE-----\n\n{}\n-----END PGP \
                SIGNATURE-----\n",
            escaped.join("\n"),
            STANDARD.encode(packet(2, &body))
        )
    }
}

pub fn listed(content: &[u8]) -> Listed {
    let hash = digest(&ring::digest::SHA256, content);
    Listed {
        size: content.len() as u64,
        sha256: hash.as_ref().iter().map(|b| format!("{b:02x}")).collect(),
    }
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// After how many bytes a connection is closed, and how often.
    broken: (usize, u32),
    /// The range that each request has asked for.
    ranges: Vec<String>,
}

/// A web server with a few files, which ends with the test's process.
pub struct Server {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Server {
    pub fn new(files: &[(&str, &[u8])]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let server = Server {
            state: Arc::clone(&state),
            port,
        };
        for (path, content) in files {
            server.put(path, content);
        }
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &state);
            }
        });
        server
    }

    pub fn put(&self, path: &str, content: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(path.into(), content.into());
    }

    pub fn remove(&self, path: &str) {
        self.state.lock().unwrap().files.remove(path);
    }

    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn break_after(&self, bytes: usize, times: u32) {
        self.state.lock().unwrap().broken = (bytes, times);
    }

    pub fn ranges(&self) -> Vec<String> {
        self.state.lock().unwrap().ranges.clone()
    }
}

/// Answers one request, and closes the connection.
fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_string();
    let mut range = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: ") {
            range = value.to_string();
        }
    }
    let mut state = state.lock().unwrap();
    state.ranges.push(range.clone());
    let Some(content) = state.files.get(&path).cloned() else {
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let from = range
        .trim_start_matches("bytes=")
        .trim_end_matches('-')
        .parse()
        .unwrap_or(0);
    let head = "Connection: close\r\n\r\n";
    if from > content.len() {
        let text = format!("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n{head}");
        return stream.write_all(text.as_bytes());
    }
    let status = if range.is_empty() {
        "200 OK"
    } else {
        "206 Partial Content"
    };
    let rest = &content[from..];
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{head}",
        rest.len()
    );
    stream.write_all(text.as_bytes())?;
    let end = match state.broken {
        (bytes, times @ 1..) if bytes < rest.len() => {
            state.broken.1 = times - 1;
            bytes
        }
        _ => rest.len(),
    };
    stream.write_all(&rest[..end])
}

/// What images are made of.
pub const SETS: [&str; 2] = [
    "base-files base-passwd bash bzip2 coreutils dash debianutils diffutils findutils grep gzip hostname libc-bin \
     libgcc-s1 libgomp1 libstdc++6 python3-minimal sed sqlite3 tar xz-utils",
    "apt bsdutils daxctl dbus e2fsprogs init-system-helpers iproute2 kmod libpam-modules libpam-runtime login mount \
     ncurses-base ncurses-bin ndctl numactl passwd perl-base procps systemd systemd-sysv udev util-linux \
     openssh-server",
];

/// This host's apt, with an index of packages and nothing installed.
pub struct Apt {
    conf: std::path::PathBuf,
}

impl Apt {
    pub fn new(dir: &std::path::Path, packages: &str) -> Apt {
        let repository = dir.join("repository");
        std::fs::create_dir_all(&repository).unwrap();
        std::fs::write(repository.join("Packages"), packages).unwrap();
        let d = dir.join("apt");
        for sub in ["lists/partial", "archives/partial", "parts"] {
            std::fs::create_dir_all(d.join(sub)).unwrap();
        }
        std::fs::write(d.join("status"), "").unwrap();
        let source = format!(
            "deb [trusted=yes arch=riscv64] file:{} ./\n",
            repository.display()
        );
        std::fs::write(d.join("sources.list"), source).unwrap();
        let d = d.display();
        let text = format!(
            "#clear APT::Architectures;\n#clear APT::Update;\n\
             APT::Architecture \"riscv64\";\nAPT::Architectures {{ \"riscv64\"; }};\n\
             APT::Sandbox::User \"root\";\nAPT::Default-Release \"\";\nAcquire::Languages \"none\";\n\
             Dir::State \"{d}\";\nDir::State::lists \"{d}/lists\";\nDir::State::status \"{d}/status\";\n\
             Dir::Cache \"{d}\";\nDir::Etc::sourcelist \"{d}/sources.list\";\nDir::Etc::sourceparts \"{d}/parts\";\n\
             Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"{d}/parts\";\n"
        );
        let conf = dir.join("apt.conf");
        std::fs::write(&conf, text).unwrap();
        let apt = Apt { conf };
        apt.run(&["update", "--quiet=2"])
            .expect("apt reads the index");
        apt
    }

    fn run(&self, arguments: &[&str]) -> Option<String> {
        let mut c = std::process::Command::new("apt-get");
        c.env("LC_ALL", "C")
            .arg("-c")
            .arg(&self.conf)
            .args(arguments);
        let out = c.output().unwrap();
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Names and versions of what it would install; `None` if it refuses.
    pub fn install(&self, wanted: &[String]) -> Option<Vec<String>> {
        let mut arguments = vec!["install", "--simulate", "--no-install-recommends", "--yes"];
        arguments.extend(wanted.iter().map(String::as_str));
        let text = self.run(&arguments)?;
        let chosen = text.lines().filter_map(|l| {
            let (name, rest) = l.strip_prefix("Inst ")?.split_once(' ')?;
            let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
            Some(format!("{name} {version}"))
        });
        let mut chosen: Vec<String> = chosen.collect();
        chosen.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
        Some(chosen)
    }
}
