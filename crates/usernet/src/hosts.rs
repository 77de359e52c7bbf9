//! The host's own names and name servers.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const PORT: u16 = 53;

/// Names with fixed addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// By name in lower case.
    names: BTreeMap<String, Vec<IpAddr>>,
}

impl Default for Hosts {
    /// `localhost` alone.
    fn default() -> Hosts {
        Hosts::parse("")
    }
}

impl Hosts {
    /// Parses the text of a hosts file. Malformed lines are skipped, as usual.
    pub fn parse(text: &str) -> Hosts {
        let mut names: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
                continue;
            };
            for name in words {
                let all = names.entry(name.to_ascii_lowercase()).or_default();
                if !all.contains(&address) {
                    all.push(address);
                }
            }
        }
        let localhost = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        names.insert("localhost".into(), localhost.into());
        Hosts { names }
    }

    /// Reads the host's file; without one, only `localhost` is known.
    pub fn of_host() -> Hosts {
        Hosts::parse(&fs::read_to_string("/etc/hosts").unwrap_or_default())
    }

    /// The addresses of a name.
    pub fn find(&self, name: &str) -> Option<&[IpAddr]> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.names.get(&name).map(Vec::as_slice)
    }
}

/// Name servers in the text of a resolver configuration, in its order.
pub(crate) fn servers(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            return None;
        }
        let address: IpAddr = words.next()?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    text.lines().filter_map(address).collect()
}

/// The host's name servers; none if it has none.
pub(crate) fn servers_of_host() -> Vec<SocketAddr> {
    servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_files() {
        let h = Hosts::parse(
            "127.0.0.1 localhost\n# no\n10.1.1.1\tBuild build.lan # here\nx y\n::2 build\n127.0.0.9 localhost",
        );
        let found = |n| {
            h.find(n)
                .map(|a| a.iter().map(ToString::to_string).collect())
        };
        assert_eq!(
            found("BUILD."),
            Some(vec!["10.1.1.1".to_string(), "::2".into()])
        );
        assert_eq!(
            found("localhost"),
            Some(vec!["127.0.0.1".to_string(), "::1".into()])
        );
        assert_eq!(found("y"), None::<Vec<String>>);
    }

    #[test]
    fn resolver_configuration() {
        let text = "search lan\nnameserver 10.9.9.9\n#nameserver 1.1.1.1\nnameserver fe80::1%2\nnameserver ::1\n";
        let found: Vec<String> = servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.9.9.9:53", "[::1]:53"]);
    }
}
