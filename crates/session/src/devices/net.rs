//! `--net`: the connection of a network interface.

use crate::caller::Caller;
use crate::devices::PeerSpec;
use crate::drive::{plug, Outside, Peer, SHORTEST_DELAY};
use crate::error::{Context, Result};
use nagori_machine::Machine;
use nagori_platform::devices::ethmac::Ethmac;
use nagori_platform::devices::virtio::Net;
use nagori_usernet::{Config, Forward, Link, Nat, Tap, Wire};
use nagori_values::TIME;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The other end of the cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cable {
    /// A private network for the guest, with NAT.
    User {
        /// Ports of the host that are forwarded to the guest.
        forwards: Vec<Forward>,
        /// Whether the guest cannot reach anything outside.
        restrict: bool,
    },
    /// An interface of the host.
    Tap(String),
    /// Another machine, which connects.
    Listen(PathBuf),
    /// Another machine, which listens.
    Connect(PathBuf),
    /// A second machine in this process, in machine time.
    Peer(PeerSpec),
}

/// A network interface for the guest, parsed from `user[,hostfwd=FORWARD][,restrict]`, `tap=NAME`,
/// `listen=PATH`, `connect=PATH` or `peer[,machine=NAME][,delay=MICROSECONDS][,console=FILE][,run=COMMAND]`, each
/// optionally with `,mac=ADDRESS`. A command is the last part, and may have commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetSpec {
    cable: Cable,
    mac: Option<[u8; 6]>,
}

impl FromStr for NetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<NetSpec, String> {
        let (text, command) = if text.starts_with("peer") {
            match text.split_once(",run=") {
                Some((before, command)) => (before, Some(command)),
                None => (text, None),
            }
        } else {
            (text, None)
        };
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let path = |p: &str| {
            if p.is_empty() {
                Err(format!("`{first}` names no socket"))
            } else {
                Ok(PathBuf::from(p))
            }
        };
        let mut cable = match first.split_once('=') {
            None if first == "user" => Cable::User {
                forwards: Vec::new(),
                restrict: false,
            },
            None if first == "peer" => Cable::Peer(PeerSpec {
                run: command.map(Into::into),
                ..PeerSpec::default()
            }),
            Some(("tap", name)) if !name.is_empty() => Cable::Tap(name.into()),
            Some(("listen", p)) => Cable::Listen(path(p)?),
            Some(("connect", p)) => Cable::Connect(path(p)?),
            _ => {
                return Err(format!(
                "`{first}` is no link: expected user, tap=NAME, listen=PATH, connect=PATH or peer"
            ))
            }
        };
        let mut mac = None;
        for part in parts {
            match (part.split_once('='), &mut cable) {
                (Some(("mac", m)), _) => mac = Some(parse_mac(m)?),
                (Some(("hostfwd", f)), Cable::User { forwards, .. }) => {
                    let forward: Forward = f.parse().map_err(|e| format!("{e}"))?;
                    forwards.push(forward);
                }
                (Some(("machine", m)), Cable::Peer(p)) if !m.is_empty() => p.machine = m.into(),
                (Some(("delay", d)), Cable::Peer(p)) => p.delay = parse_delay(d)?,
                (Some(("console", f)), Cable::Peer(p)) if !f.is_empty() => p.console = Some(f.into()),
                (None, Cable::User { restrict, .. }) if part == "restrict" => *restrict = true,
                _ => {
                    return Err(format!(
                        "`{part}` does not go with `{first}`: user takes hostfwd=FORWARD and restrict, peer takes \
                            machine=NAME, delay=MICROSECONDS, console=FILE and, as the last, run=COMMAND, every link \
                            mac=ADDRESS"
                    ))
                }
            }
        }
        Ok(NetSpec { cable, mac })
    }
}

/// A time, in microseconds without unit, from [`SHORTEST_DELAY`] to a second.
fn parse_delay(text: &str) -> Result<Duration, String> {
    const US: u64 = 1_000_000;
    let ps = TIME.read(text, Some(US));
    let delay = ps.map(|ps| Duration::from_nanos(ps / 1000)).ok();
    delay
        .filter(|d| (SHORTEST_DELAY..=Duration::from_secs(1)).contains(d))
        .ok_or_else(|| format!("`{text}` is no delay: expected microseconds from 1 to 1000000, or a time with its \
            unit, such as \"2 ms\""))
}

/// Six bytes in hexadecimal; a unicast address.
fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|b| match b.len() {
            2 => u8::from_str_radix(b, 16).ok(),
            _ => None,
        })
        .collect();
    match bytes.and_then(|b| <[u8; 6]>::try_from(b).ok()) {
        Some(mac) if mac[0] & 1 == 0 => Ok(mac),
        Some(_) => Err(format!(
            "`{text}` is an address of many interfaces, not of one"
        )),
        None => Err(format!(
            "`{text}` is no Ethernet address: expected six bytes, such as 52:54:00:00:00:01"
        )),
    }
}

/// Connects the interface of a slot; returns the machine at the other end, if it is to run with this one.
pub fn connect<'a>(
    machine: &mut Machine,
    slot: usize,
    arg: &NetSpec,
    outside: &mut Outside,
    caller: &'a dyn Caller,
) -> Result<Option<Peer<'a>>> {
    let mut mac = arg.mac;
    let link: Box<dyn Link> = match &arg.cable {
        Cable::User { forwards, restrict } => {
            let nat = Nat::new(Config {
                forwards: forwards.clone(),
                restrict: *restrict,
                ..Config::of_host()
            })?;
            for f in nat.forwards() {
                caller.note(&format!(
                    "{} port {} of the host leads to {} in the guest",
                    f.protocol, f.host, f.guest
                ));
            }
            Box::new(nat)
        }
        Cable::Tap(name) => Box::new(Tap::open(name)?),
        Cable::Listen(path) => Box::new(Wire::listen(path)?),
        Cable::Connect(path) => {
            // Both machines may have the same description, so their addresses have to differ.
            if mac.is_none() {
                let own = machine
                    .virtio::<Net, _>(slot, |n, _| n.mac())
                    .or_else(|| machine.in_slot::<Ethmac, _>(slot, |n, _| n.mac()));
                mac = own.map(|mut m| {
                    m[5] ^= 1;
                    m
                });
            }
            Box::new(Wire::connect(path)?)
        }
        Cable::Peer(peer) => {
            if let Some(mac) = mac {
                set_mac(machine, slot, mac);
            }
            return peer.connect(machine, slot, caller).map(Some);
        }
    };
    let fd = link.wait_fd().try_clone_to_owned();
    outside.watch(slot, fd.context("the network cannot be watched")?);
    if let Some(mac) = mac {
        set_mac(machine, slot, mac);
    }
    plug(machine, slot, link)?;
    Ok(None)
}

/// Gives the interface of a slot another address, as firmware does.
fn set_mac(machine: &mut Machine, slot: usize, mac: [u8; 6]) {
    if machine
        .virtio::<Net, _>(slot, |n, _| n.set_mac(mac))
        .is_none()
    {
        machine.in_slot::<Ethmac, _>(slot, |n, _| n.set_mac(mac));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NetSpec, String> {
        text.parse()
    }

    #[test]
    fn links_are_read() {
        let arg = parse("user,hostfwd=tcp:127.0.0.1:8080-:80,restrict,hostfwd=udp::5-:6").unwrap();
        let Cable::User { forwards, restrict } = arg.cable else {
            panic!("another link");
        };
        let shown: Vec<String> = forwards.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "tcp:127.0.0.1:8080-10.0.2.15:80",
                "udp:127.0.0.1:5-10.0.2.15:6"
            ]
        );
        assert!(restrict);
        let arg = parse("tap=tap0,mac=52:54:00:a0:00:01").unwrap();
        assert_eq!(arg.cable, Cable::Tap("tap0".into()));
        assert_eq!(arg.mac, Some([0x52, 0x54, 0, 0xa0, 0, 1]));
        assert_eq!(
            parse("listen=a/b").unwrap().cable,
            Cable::Listen("a/b".into())
        );
        assert_eq!(
            parse("connect=c").unwrap().cable,
            Cable::Connect("c".into())
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("", "`` is no link"),
            ("none", "`none` is no link"),
            ("tap=", "`tap=` is no link"),
            ("listen=", "names no socket"),
            ("user,hostfwd=tcp:1", "is no forward"),
            ("user,fast", "`fast` does not go with `user`"),
            ("tap=x,restrict", "`restrict` does not go with `tap=x`"),
            ("user,mac=1:2:3:4:5:6", "is no Ethernet address"),
            ("user,mac=01:00:00:00:00:00", "of many interfaces"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(problem), "{text}: {said}");
        }
    }
}
