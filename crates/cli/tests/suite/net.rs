//! Networks of real guests.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{image, PATIENCE};
use crate::common::*;
use predicates::str::contains;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SIZE: usize = 11 << 20;

fn noise(len: usize) -> Vec<u8> {
    let mut x = 88_172_645_463_325_252u64;
    let step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

/// What `sha256sum` says in the guest, too.
fn sha256(data: &[u8]) -> String {
    let mut tool = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum");
    tool.stdin.take().unwrap().write_all(data).unwrap();
    let out = tool.wait_with_output().unwrap();
    String::from_utf8(out.stdout)
        .unwrap()
        .trim_end()
        .to_string()
}

fn spawn(args: &[&str], script: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nagori"))
        .args(["boot", "--run", script])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a guest has printed, line by line, while it runs.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            eprintln!("{line}");
            if send.send(line.trim_end().to_string()).is_err() {
                break;
            }
        }
    });
    receive
}

/// Waits for the line that begins so; what follows.
fn expect(lines: &Receiver<String>, begin: &str) -> String {
    loop {
        let line = lines
            .recv_timeout(Duration::from_secs(900))
            .unwrap_or_else(|e| panic!("{begin}: {e}"));
        if let Some(rest) = line.strip_prefix(begin) {
            return rest.to_string();
        }
    }
}

/// Serves a file once by HTTP, then takes one.
fn serve(data: Vec<u8>) -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (s, _) = listener.accept().unwrap();
        let mut s = BufReader::new(s);
        let mut line = String::new();
        while s.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let mut s = s.into_inner();
        write!(
            s,
            "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n",
            data.len()
        )
        .unwrap();
        s.write_all(&data).unwrap();
        drop(s);
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all
    });
    (port, server)
}

#[test]
fn guest_and_host_reach_one_another() {
    if image().is_none() {
        return;
    }
    let data = noise(SIZE);
    let (port, server) = serve(data.clone());
    let refused = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = refused.local_addr().unwrap().port();
    drop(refused);
    let script = format!(
        r#"
echo "address=$(ip -4 -o addr show eth0 | sed 's/.*inet \([^ ]*\).*/\1/')"
echo "server=$(cat /etc/resolv.conf)"
ping -c 1 -W 1 10.0.2.2 >/dev/null; echo "ping=$?"
nslookup -type=a localhost | grep -q 127.0.0.1; echo "name=$?"
nc -w 5 10.0.2.2 {nobody} </dev/null 2>&1; echo "refused=$?"
wget -q -O /tmp/f http://10.0.2.2:{port}/f; echo "wget=$?"
echo "sum=$(sha256sum </tmp/f)"
nc 10.0.2.2 {port} </tmp/f; echo "nc=$?"
mkdir /tmp/w && ln /tmp/f /tmp/w/f && httpd -p 80 -h /tmp/w
echo "ready=$?"
nc -l -p 81 </dev/null; echo "over=$?"
exit 5"#
    );
    let net = "user,hostfwd=tcp::0-:80,hostfwd=tcp::0-:81";
    let mut child = spawn(&["--net", net], &script);
    let notes = lines(child.stderr.take().unwrap());
    let forwarded = || {
        let note = expect(&notes, "nagori: tcp port ");
        let (port, _) = note.split_once(" of the host").unwrap();
        port.to_string()
    };
    let (http, end) = (forwarded(), forwarded());
    let said = lines(child.stdout.take().unwrap());
    assert_eq!(expect(&said, "address="), "10.0.2.15/24");
    assert_eq!(expect(&said, "server="), "nameserver 10.0.2.3");
    assert_eq!(expect(&said, "ping="), "0");
    assert_eq!(expect(&said, "name="), "0");
    assert_eq!(expect(&said, "refused="), "1");
    assert_eq!(expect(&said, "wget="), "0");
    assert_eq!(expect(&said, "sum="), sha256(&data));
    assert_eq!(expect(&said, "nc="), "0");
    assert!(server.join().unwrap() == data);
    assert_eq!(expect(&said, "ready="), "0");
    let mut s = TcpStream::connect(http).unwrap();
    s.write_all(b"GET /f HTTP/1.0\r\n\r\n").unwrap();
    let mut all = Vec::new();
    s.read_to_end(&mut all).unwrap();
    assert!(all.ends_with(&data), "{} bytes", all.len());
    drop(TcpStream::connect(end).unwrap());
    assert_eq!(expect(&said, "over="), "0");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_program_of_run_has_the_network() {
    if image().is_none() {
        return;
    }
    let data = noise(SIZE);
    let (port, server) = serve(data.clone());
    // In Debian's root file system, from the cached boot, whose network was not connected yet.
    let script = format!(
        "set -e; exec 3<>/dev/tcp/10.0.2.2/{port}; printf 'GET /f HTTP/1.0\\r\\n\\r\\n' >&3; \
         while read -r line <&3 && [ \"$line\" != $'\\r' ]; do :; done; cat <&3 >f; \
         cat f >/dev/tcp/10.0.2.2/{port}; cat /etc/resolv.conf; sha256sum <f"
    );
    let out = nagori()
        .timeout(PATIENCE)
        .args([
            "run",
            "-q",
            "--functional",
            "--stdin",
            "none",
            "--net",
            "user",
            "--",
        ])
        .args(["bash", "-c", &script])
        .assert()
        .code(0);
    let said = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    assert_eq!(said, format!("nameserver 10.0.2.3\n{}\n", sha256(&data)));
    assert!(server.join().unwrap() == data);
}

#[test]
fn two_machines_at_one_wire() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let path = files.path("wire");
    let listen = format!("listen={}", path.display());
    let connect = format!("connect={}", path.display());
    let first = r#"
until wget -q -O /tmp/f http://10.9.0.2/f; do sleep 1; done
echo "sum=$(sha256sum </tmp/f)"
echo "mac=$(cat /sys/class/net/eth0/address)"
until nc 10.9.0.2 81 </dev/null; do sleep 1; done"#;
    let second = r#"
mkdir /tmp/w && seq 1 300000 >/tmp/w/f && httpd -p 80 -h /tmp/w
echo "sum=$(sha256sum </tmp/w/f)"
echo "mac=$(cat /sys/class/net/eth0/address)"
nc -l -p 81 </dev/null"#;
    let args = |link, address| ["--net", link, "--append", address];
    let mut a = spawn(&args(&listen, "nagori.net=10.9.0.1/24"), first);
    let notes = lines(a.stderr.take().unwrap());
    let began = std::time::Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(300), "no socket");
        thread::sleep(Duration::from_millis(20));
    }
    let mut b = spawn(&args(&connect, "nagori.net=10.9.0.2/24"), second);
    let said = [&mut a, &mut b].map(|m| lines(m.stdout.take().unwrap()));
    let sums = [0, 1].map(|i| expect(&said[i], "sum="));
    let text: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    let sum = sha256(text.as_bytes());
    assert_eq!(sums, [sum.clone(), sum]);
    let macs = [0, 1].map(|i| expect(&said[i], "mac="));
    assert_ne!(macs[0], macs[1]);
    assert_eq!(a.wait().unwrap().code(), Some(0));
    assert_eq!(b.wait().unwrap().code(), Some(0));
    drop(notes);
    assert!(!path.exists(), "the socket is taken away");
}

/// Two machines of one process, in machine time: runs are equal to the microsecond, whatever the host does.
#[test]
fn a_peer_in_machine_time() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let console = files.path("console");
    let net = format!(
        "peer,delay=25,console={},run=mkdir /tmp/w && seq 1 100000 >/tmp/w/f && httpd -p 80 -h /tmp/w && echo serving, \
            && nc -l -p 81 </dev/null",
        console.display()
    );
    let script = r#"
until wget -q -O /tmp/f http://10.9.0.2/f; do sleep 1; done
echo "sum=$(sha256sum </tmp/f)"
ping -c 3 10.9.0.2
nc 10.9.0.2 81 </dev/null
sleep 4
ping -c 1 -W 1 10.9.0.2 || echo "the other one is off"
cat /proc/uptime"#;
    let run = |engine: &str| {
        let out = nagori()
            .args([
                "boot",
                "-q",
                "--machine",
                "small",
                "--functional",
                "--engine",
                engine,
            ])
            .args([
                "--append",
                "nagori.net=10.9.0.1/24",
                "--net",
                &net,
                "--run",
                script,
            ])
            .timeout(PATIENCE)
            .assert()
            .success();
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    };
    let said = run("translator");
    let text: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    for words in [
        format!("sum={}", sha256(text.as_bytes())),
        "3 packets received".into(),
        "the other one is off".into(),
    ] {
        assert!(said.contains(&words), "{words}:\n{said}");
    }
    let other = std::fs::read_to_string(&console).unwrap();
    assert!(other.contains("serving,"), "{other}");
    assert_eq!(said, run("interpreter"));
}

/// A machine is saved in the middle of a connection. Restored, its network knows nothing of it:
/// it is broken off, and new ones work.
#[test]
fn a_snapshot_with_a_connection() {
    if image().is_none() {
        return;
    }
    let data = noise(1 << 20);
    let (port, server) = serve(data.clone());
    let old = TcpListener::bind("127.0.0.1:0").unwrap();
    let old_port = old.local_addr().unwrap().port();
    let script = format!(
        r#"
(while usleep 200000; do echo tick; done | nc 10.0.2.2 {old_port}; echo "old=$?") &
sleep 1
nagori-ctl snapshot
wait
wget -q -O /tmp/f http://10.0.2.2:{port}/f; echo "wget=$?"
echo "sum=$(sha256sum </tmp/f)"
nc 10.0.2.2 {port} </tmp/f; echo "nc=$?""#
    );
    let files = Files::new();
    let file = files.path("busy.snap");
    let file = file.to_str().unwrap();
    let take = ["--net", "user", "--snapshot", file, "--snapshot-exit"];
    let mut child = spawn(&take, &script);
    let notes = lines(child.stderr.take().unwrap());
    let said = lines(child.stdout.take().unwrap());
    let mut connection = old.accept().unwrap().0;
    let mut tick = [0; 5];
    connection.read_exact(&mut tick).unwrap();
    assert_eq!(&tick, b"tick\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop((connection, old, notes, said));
    let out = nagori()
        .timeout(Duration::from_secs(900))
        .args(["--quiet", "resume", file, "--net", "user"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let has = |line: &str| text.lines().any(|l| l.trim_end() == line);
    // busybox's `nc` does not tell a reset from an end.
    assert!(has("old=0"), "{text}");
    assert!(has("wget=0") && has("nc=0"), "{text}");
    let sum = format!("sum={}", sha256(&data));
    assert!(has(&sum), "{text}");
    assert!(server.join().unwrap() == data);
}

#[test]
fn links_that_cannot_be_made() {
    let files = Files::new();
    let nobody = format!("connect={}", files.path("nobody").display());
    for (link, problem) in [
        (&nobody[..], "must be started first"),
        ("tap=no/such", "cannot open the TAP interface"),
        ("wire", "is no link"),
    ] {
        let args = files.boot(&Program::new().exit(0));
        nagori()
            .args(args)
            .args(["--net", link])
            .assert()
            .failure()
            .stderr(contains(problem));
    }
}
