//! Ports of the host that are forwarded to the guest.

use crate::addresses::{is_guest, DNS, GATEWAY, GUEST};
use crate::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

/// What is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// A port of the host that is forwarded to a port of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// What is forwarded.
    pub protocol: Protocol,
    /// Where the host listens; port 0 is any free port.
    pub host: SocketAddr,
    /// Address and port of the guest.
    pub guest: SocketAddrV4,
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}-{}", self.protocol, self.host, self.guest)
    }
}

/// `[tcp|udp]:[host address]:host port-[guest address]:guest port`, as in QEMU, except that without
/// a host address it listens on the loopback address, not on all addresses.
impl FromStr for Forward {
    type Err = Error;

    fn from_str(text: &str) -> Result<Forward, Error> {
        parse(text).map_err(|problem| Error::Forward {
            text: text.into(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<Forward, String> {
    let (protocol, rest) = text.split_once(':').ok_or("there is no `:`")?;
    let protocol = match protocol {
        "tcp" | "" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        other => return Err(format!("the protocol is tcp or udp, not `{other}`")),
    };
    let (host, guest) = rest
        .rsplit_once('-')
        .ok_or("there is no `-` between host and guest")?;
    let (address, port) = split(host)?;
    let address = match address {
        "" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        a => a
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map_err(|_| format!("`{a}` is no address of the host"))?,
    };
    let host = SocketAddr::new(address, port);
    let (address, port) = split(guest)?;
    if port == 0 {
        return Err("the guest's port is 0".into());
    }
    let address = match address {
        "" => GUEST,
        a => a
            .parse()
            .map_err(|_| format!("`{a}` is no IPv4 address of the guest"))?,
    };
    if !is_guest(address) {
        return Err(format!(
            "{address} is not in the guest's network, or is {GATEWAY} or {DNS}"
        ));
    }
    Ok(Forward {
        protocol,
        host,
        guest: SocketAddrV4::new(address, port),
    })
}

fn split(text: &str) -> Result<(&str, u16), String> {
    let (address, port) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("`{text}` has no `:` before a port"))?;
    let port = port
        .parse()
        .map_err(|_| format!("`{port}` is no port (0 to 65535)"))?;
    Ok((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        match text.parse::<Forward>() {
            Ok(f) => f.to_string(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn forwards_are_read() {
        assert_eq!(
            shown("tcp:127.0.0.1:8080-:80"),
            "tcp:127.0.0.1:8080-10.0.2.15:80"
        );
        assert_eq!(shown("udp::0-:53"), "udp:127.0.0.1:0-10.0.2.15:53");
        assert_eq!(
            shown("tcp:0.0.0.0:1-10.0.2.20:2"),
            "tcp:0.0.0.0:1-10.0.2.20:2"
        );
        assert_eq!(shown("tcp:[::1]:1-:2"), "tcp:[::1]:1-10.0.2.15:2");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("8080", "there is no `:`"),
            ("sctp::1-:2", "the protocol is tcp or udp, not `sctp`"),
            ("tcp::1", "there is no `-` between host and guest"),
            ("tcp:1-:2", "`1` has no `:` before a port"),
            ("tcp:x:1-:2", "`x` is no address of the host"),
            ("tcp::70000-:2", "`70000` is no port (0 to 65535)"),
            ("tcp::1-:0", "the guest's port is 0"),
            (
                "tcp::1-10.0.3.1:2",
                "10.0.3.1 is not in the guest's network",
            ),
            (
                "tcp::1-10.0.2.2:2",
                "10.0.2.2 is not in the guest's network",
            ),
        ] {
            let said = shown(text);
            assert!(said.contains(problem), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_back(text in "[a-z0-9:.\\-\\[\\]]{0,40}") {
            if let Ok(f) = text.parse::<Forward>() {
                prop_assert_eq!(f.to_string().parse::<Forward>().unwrap(), f);
            }
        }
    }
}
