//! Packages that dpkg installs in the machine, scripts of the user, and services that systemd starts from them.
//!
//! Needs what `nagori image build` needs, and ssh; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{image, tools_required, PATIENCE};
use crate::common::*;
use predicates::prelude::*;
use predicates::str::contains;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Builds a root file system; its image.
fn build(arguments: &[&str]) -> PathBuf {
    let out = nagori()
        .timeout(4 * PATIENCE)
        .args(["--quiet", "image", "build"])
        .args(arguments)
        .assert()
        .code(0);
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    PathBuf::from(text.trim())
}

fn clean(image: &Path) {
    let fsck = Command::new("/sbin/e2fsck").arg("-fn").arg(image).output();
    let fsck = fsck.expect("e2fsck");
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
}

/// A booted system with forwarded ports, which ssh reaches.
struct Served {
    child: Child,
    key: PathBuf,
    hosts: PathBuf,
    ports: Vec<u16>,
}

impl Served {
    /// The first of the guest's ports is that of ssh.
    fn boot(image: &Path, files: &Files, key: &Path, guest: &[u16]) -> Served {
        let forwards: String = guest
            .iter()
            .map(|p| format!(",hostfwd=tcp:127.0.0.1:0-:{p}"))
            .collect();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nagori"))
            .args(["boot", "--append", "quiet", "--rootfs"])
            .arg(image)
            .args(["--net", &format!("user{forwards}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nagori");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut ports = Vec::new();
        let mut line = String::new();
        while said.read_line(&mut line).is_ok_and(|n| n > 0) {
            let line = std::mem::take(&mut line);
            eprint!("{line}");
            if let Some((_, rest)) = line.split_once("port 127.0.0.1:") {
                let port = rest.split(' ').next().and_then(|p| p.parse().ok());
                ports.push(port.unwrap_or_else(|| panic!("no port in: {line}")));
            }
            if ports.len() == guest.len() {
                break;
            }
        }
        assert_eq!(ports.len(), guest.len(), "the machine did not start");
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        Served {
            child,
            key: key.into(),
            hosts: files.path("known_hosts"),
            ports,
        }
    }

    fn ssh(&self, command: &str) -> std::process::Output {
        Command::new("ssh")
            .args([
                "-F",
                "none",
                "-T",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=60",
            ])
            .args([
                "-o",
                "StrictHostKeyChecking=accept-new",
                "-o",
                "IdentitiesOnly=yes",
            ])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", self.hosts.display()))
            .arg("-i")
            .arg(&self.key)
            .args(["-p", &self.ports[0].to_string(), "root@127.0.0.1", command])
            .output()
            .expect("ssh")
    }

    /// What a command says once ssh gets in.
    fn says(&mut self, command: &str) -> String {
        let start = Instant::now();
        loop {
            let out = self.ssh(command);
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            if out.status.success() {
                return text;
            }
            let why = String::from_utf8_lossy(&out.stderr).into_owned();
            // ssh's own failures; the machine may not be ready.
            assert_eq!(out.status.code(), Some(255), "{text}{why}");
            assert!(start.elapsed() < PATIENCE, "{why}");
            assert!(
                self.child.try_wait().expect("a child").is_none(),
                "it ended: {why}"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// The answer to an HTTP request to the second port.
    fn page(&self) -> String {
        let mut s = TcpStream::connect(("127.0.0.1", self.ports[1])).expect("a connection");
        s.set_read_timeout(Some(PATIENCE)).expect("a socket");
        s.write_all(b"GET / HTTP/1.0\r\nHost: nagori\r\n\r\n")
            .expect("sent");
        let mut text = String::new();
        s.read_to_string(&mut text).expect("an answer");
        text
    }

    fn off(mut self) {
        // The connection may go before the status comes.
        let _ = self.ssh("systemctl poweroff");
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A key pair for ssh, of which the public part goes into the image.
fn key(files: &Files) -> Option<PathBuf> {
    let key = files.path("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(&key)
        .status();
    match made {
        Ok(s) => assert!(s.success(), "ssh-keygen: {s}"),
        Err(e) => {
            assert!(!tools_required(), "ssh-keygen: {e}");
            eprintln!("skipped: ssh-keygen: {e}");
            return None;
        }
    }
    let dir = files.path("provided");
    std::fs::create_dir(&dir).unwrap();
    std::fs::copy(files.path("key.pub"), dir.join("key.pub")).unwrap();
    Some(key)
}

const AUTHORIZE: &str = "#!/bin/sh -e
mkdir -p -m 700 ~/.ssh
cp \"$NAGORI_FILES/key.pub\" ~/.ssh/authorized_keys
chmod 600 ~/.ssh/authorized_keys
";

#[test]
#[ignore = "takes minutes: make validate-services"]
fn ssh_redis_and_nginx() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let Some(key) = key(&files) else { return };
    let script = files.write("authorize.sh", AUTHORIZE.as_bytes());
    let image = build(&[
        "--base",
        "system",
        "--packages",
        "openssh-server,redis-server,nginx",
        "--provision",
        script.to_str().unwrap(),
        "--files",
        files.path("provided").to_str().unwrap(),
    ]);
    clean(&image);
    let mut served = Served::boot(&image, &files, &key, &[22, 80]);
    let text = served.says(
        "systemctl is-system-running --wait; systemctl --failed --no-legend --no-pager; \
         redis-cli ping; id -un redis; stat -c '%U %a' /var/lib/redis; \
         systemctl is-enabled ssh redis-server nginx; dpkg --audit; ls /usr/sbin/policy-rc.d; \
         ls /etc/ssh/ssh_host_*_key | wc -l; ip -o addr show lo | head -n 1",
    );
    for line in [
        "running\n",
        "PONG\n",
        "redis\n",
        "redis 750\n",
        "enabled\nenabled\nenabled\n",
        "\n3\n",
        "127.0.0.1/8",
    ] {
        assert!(text.contains(line), "{line} not in:\n{text}");
    }
    assert!(!text.contains("policy-rc.d"), "{text}");
    let page = served.page();
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("Welcome to nginx"),
        "{page}"
    );
    served.off();
    let dir = image.parent().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

/// Minutes; `make validate-services` runs it.
#[test]
#[ignore = "takes minutes: make validate-services"]
fn dropbear_and_postgresql() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let Some(key) = key(&files) else { return };
    let script = files.write("authorize.sh", AUTHORIZE.as_bytes());
    let image = build(&[
        "--base",
        "system",
        "--packages",
        "dropbear,postgresql",
        "--provision",
        script.to_str().unwrap(),
        "--files",
        files.path("provided").to_str().unwrap(),
    ]);
    clean(&image);
    let mut served = Served::boot(&image, &files, &key, &[22]);
    let text = served.says(
        "systemctl is-system-running --wait; systemctl --failed --no-legend --no-pager; dpkg --audit; \
         systemctl is-active dropbear; su postgres -c \"psql -Atc 'select 6*7'\"",
    );
    assert_eq!(text, "running\nactive\n42\n");
    served.off();
    std::fs::remove_dir_all(image.parent().unwrap()).unwrap();
}

/// Scripts on the small base: what they see, the same bytes twice, and what is said when one fails.
#[test]
fn scripts_that_finish_an_image() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let provided = files.path("provided");
    std::fs::create_dir(&provided).unwrap();
    std::fs::write(provided.join("greeting"), "hello\n").unwrap();
    let first = files.write(
        "first.sh",
        b"[ $(id -u) = 0 ] && cp $NAGORI_FILES/greeting /etc/greeting\n\
          head -c 16 /dev/urandom >/etc/random; date >/etc/made; sleep 1000 &\n",
    );
    let second = files.write(
        "second.py",
        b"#!/usr/bin/python3\nopen('/etc/second', 'w').write(open('/etc/greeting').read())\n",
    );
    let path = |p: &Path| p.to_str().unwrap().to_string();
    let (first, second, provided) = (path(&first), path(&second), path(&provided));
    let arguments = [
        "--provision",
        &first,
        "--provision",
        &second,
        "--files",
        &provided,
        "--free",
        "64",
    ];
    let image = build(&arguments);
    clean(&image);
    let read = |name: &str| {
        let out = Command::new("/sbin/debugfs")
            .args(["-R", &format!("cat {name}")])
            .arg(&image)
            .output()
            .expect("debugfs");
        out.stdout
    };
    assert_eq!(read("/etc/second"), b"hello\n");
    assert_eq!(read("/etc/random").len(), 16);

    // Built again, it is the same, bit for bit.
    let dir = image.parent().unwrap();
    let old = std::fs::read(&image).unwrap();
    assert_eq!(build(&arguments), image, "found in the cache");
    std::fs::remove_dir_all(dir).unwrap();
    assert_eq!(build(&arguments), image);
    assert!(
        std::fs::read(&image).unwrap() == old,
        "another image of the same inputs"
    );
    std::fs::remove_dir_all(dir).unwrap();

    let failing = files.write("failing.sh", b"#!/bin/sh\necho on the way\nexit 7\n");
    nagori()
        .timeout(PATIENCE)
        .args(["image", "build", "--provision", failing.to_str().unwrap()])
        .assert()
        .code(1)
        .stderr(
            contains("the provisioning script failing.sh failed (exit status 7)")
                .and(contains("on the way")),
        );
    nagori()
        .timeout(PATIENCE)
        .args(["image", "build", "--provision", "/none/script"])
        .assert()
        .code(1)
        .stderr(contains("/none/script"));
}
