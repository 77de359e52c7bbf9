//! An interface of the host's kernel. Needs the right to administer networks, and /dev/net/tun;
//! skipped without. Without `ip` (Debian package: iproute2) too, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_usernet::{Error, Frame, Link, Tap};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

const NOW: Duration = Duration::ZERO;
const HOST: Ipv4Addr = Ipv4Addr::new(10, 231, 7, 1);
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 231, 7, 2);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn ip(args: &[&str]) -> bool {
    let run = Command::new("ip").args(args).output();
    let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(
        run.is_ok() || !required,
        "ip is not installed, and NAGORI_REQUIRE_TOOLS=1"
    );
    run.is_ok_and(|o| o.status.success())
}

/// A question who has an address, or the answer.
fn arp(operation: u8, to: [u8; 6], asked: Ipv4Addr) -> Vec<u8> {
    let mut f = [to, MAC].concat();
    f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    f.extend(MAC);
    f.extend(GUEST.octets());
    f.extend(to);
    f.extend(asked.octets());
    f
}

fn until(tap: &mut Tap, what: &str, f: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let began = Instant::now();
    loop {
        tap.poll(NOW).unwrap();
        while let Some(frame) = tap.receive() {
            if f(&frame.bytes) {
                return frame.bytes;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn frames_of_the_host_s_kernel() {
    let name = format!("ngr{}", std::process::id() % 100_000);
    let mut tap = match Tap::open(&name) {
        Ok(tap) => tap,
        Err(e @ Error::Tap { .. }) => {
            assert!(e.to_string().contains("ip tuntap add"), "{e}");
            eprintln!("skipped: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    // It is down: nothing is heard, and frames are lost.
    tap.send(NOW, Frame::plain(arp(1, [0xff; 6], HOST)));
    tap.poll(NOW).unwrap();
    assert_eq!(tap.receive(), None);
    let address = format!("{HOST}/24");
    let up = ip(&["addr", "add", &address, "dev", &name]) && ip(&["link", "set", &name, "up"]);
    if !up {
        eprintln!("skipped: ip does not work");
        return;
    }
    // The kernel answers.
    tap.send(NOW, Frame::plain(arp(1, [0xff; 6], HOST)));
    let answer = until(&mut tap, "an answer", |f| {
        f.get(12..14) == Some(&[8, 6]) && f.get(21) == Some(&2)
    });
    assert_eq!(answer[28..32], HOST.octets());
    let host: [u8; 6] = answer[6..12].try_into().unwrap();
    // And sends, as it knows now who is there.
    tap.send(NOW, Frame::plain(arp(2, host, HOST)));
    let socket = UdpSocket::bind((HOST, 0)).unwrap();
    socket.send_to(b"from the host", (GUEST, 9)).unwrap();
    let frame = until(&mut tap, "the datagram", |f| f.ends_with(b"from the host"));
    assert_eq!(frame[..6], MAC);
}
