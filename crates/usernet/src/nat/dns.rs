//! The network's name server: it answers the host's own names; all other queries go to the host's
//! servers.

use super::GATEWAY;
use crate::hosts::Hosts;
use smoltcp::wire::{DnsOpcode, DnsPacket, DnsQuestion};
use std::net::IpAddr;

/// Length of a message's header in bytes.
const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const SERVER_FAILURE: u16 = 2;
/// Time to live, in seconds, of an answer from the host's file.
const TTL: u32 = 60;

/// What to do with a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send this answer.
    Answer(Vec<u8>),
    /// Ask the host's servers.
    Ask,
    /// Nothing: it is not a query.
    Drop,
}

/// Examines a message to the name server.
pub(super) fn look(query: &[u8], hosts: &Hosts) -> Verdict {
    let Ok(packet) = DnsPacket::new_checked(query) else {
        return Verdict::Drop;
    };
    if flags(query) & RESPONSE != 0 {
        return Verdict::Drop;
    }
    if packet.opcode() != DnsOpcode::Query || packet.question_count() != 1 {
        return Verdict::Ask;
    }
    let Ok((rest, question)) = DnsQuestion::parse(packet.payload()) else {
        return Verdict::Ask;
    };
    let mut name = String::new();
    for label in packet.parse_name(question.name) {
        match label.ok().and_then(|l| std::str::from_utf8(l).ok()) {
            Some(label) => {
                name.push_str(label);
                name.push('.');
            }
            None => return Verdict::Ask,
        }
    }
    let Some(addresses) = hosts.find(&name) else {
        return Verdict::Ask;
    };
    let asked = u16::from(question.type_);
    let question = &packet.payload()[..packet.payload().len() - rest.len()];
    let local = name.eq_ignore_ascii_case("localhost.");
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|a| match (seen(*a, local)?, asked) {
            (IpAddr::V4(a), TYPE_A) => Some(a.octets().to_vec()),
            (IpAddr::V6(a), TYPE_AAAA) => Some(a.octets().to_vec()),
            _ => None,
        })
        .collect();
    let mut answer = header(query, AUTHORITATIVE, records.len() as u16);
    answer.extend_from_slice(question);
    for data in records {
        // The name of the question, its type, class IN.
        answer.extend_from_slice(&[0xc0, HEADER as u8]);
        answer.extend_from_slice(&asked.to_be_bytes());
        answer.extend_from_slice(&[0, 1]);
        answer.extend_from_slice(&TTL.to_be_bytes());
        answer.extend_from_slice(&(data.len() as u16).to_be_bytes());
        answer.extend_from_slice(&data);
    }
    Verdict::Answer(answer)
}

/// The host's loopback is reached through the gateway, except for `localhost`, which is the guest's
/// own.
fn seen(address: IpAddr, local: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) if a.is_loopback() && !local => Some(GATEWAY.into()),
        IpAddr::V6(a) if a.is_loopback() && !local => None,
        a => Some(a),
    }
}

fn flags(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[2], message[3]])
}

fn header(query: &[u8], more: u16, answers: u16) -> Vec<u8> {
    let flags = RESPONSE | RECURSION_AVAILABLE | flags(query) & RECURSION_DESIRED | more;
    let mut bytes = query[..2].to_vec();
    for word in [flags, 1, answers, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// The answer if no server could be asked.
pub(super) fn failure(query: &[u8]) -> Option<Vec<u8>> {
    if query.len() < HEADER || flags(query) & RESPONSE != 0 {
        return None;
    }
    let question = match DnsQuestion::parse(&query[HEADER..]) {
        Ok((rest, _)) => &query[HEADER..query.len() - rest.len()],
        Err(_) => &[],
    };
    let mut answer = header(query, SERVER_FAILURE, 0);
    if question.is_empty() {
        answer[4..6].fill(0);
    }
    answer.extend_from_slice(question);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut q = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            q.push(label.len() as u8);
            q.extend_from_slice(label.as_bytes());
        }
        q.push(0);
        q.extend_from_slice(&kind.to_be_bytes());
        q.extend_from_slice(&[0, 1]);
        q
    }

    fn addresses(name: &str, kind: u16) -> Option<Vec<Vec<u8>>> {
        let hosts = Hosts::parse("127.0.1.1 me\n::1 me\n10.7.7.7 other.lan\n");
        let q = query(name, kind);
        let answer = match look(&q, &hosts) {
            Verdict::Answer(a) => a,
            Verdict::Ask => return None,
            Verdict::Drop => panic!("a query was dropped"),
        };
        assert_eq!(answer[..2], q[..2]);
        assert_eq!(flags(&answer) & 0xf, 0);
        assert_eq!(answer[HEADER..q.len()], q[HEADER..]);
        let mut rest = &answer[q.len()..];
        let mut found = Vec::new();
        while !rest.is_empty() {
            assert_eq!(rest[2..4], kind.to_be_bytes());
            let end = 12 + usize::from(rest[11]);
            found.push(rest[12..end].to_vec());
            rest = &rest[end..];
        }
        assert_eq!(usize::from(answer[7]), found.len());
        Some(found)
    }

    #[test]
    fn the_host_s_names() {
        assert_eq!(addresses("localhost", 1), Some(vec![vec![127, 0, 0, 1]]));
        assert_eq!(addresses("LOCALHOST", 28).unwrap()[0].len(), 16);
        assert_eq!(addresses("me", 1), Some(vec![vec![10, 0, 2, 2]]));
        assert_eq!(addresses("me", 28), Some(vec![]));
        assert_eq!(addresses("Other.lan", 1), Some(vec![vec![10, 7, 7, 7]]));
        assert_eq!(addresses("other.lan", 15), Some(vec![]));
        assert_eq!(addresses("elsewhere.lan", 1), None);
    }

    #[test]
    fn failures_keep_the_question() {
        let q = query("elsewhere.lan", 1);
        let f = failure(&q).unwrap();
        assert_eq!(flags(&f), 0x8182);
        assert_eq!(f[HEADER..], q[HEADER..]);
        assert_eq!(failure(&f), None);
        assert_eq!(failure(&q[..11]), None);
        assert_eq!(failure(&q[..20]).unwrap().len(), HEADER);
    }

    proptest! {
        #[test]
        fn any_message_does_not_panic(m in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = look(&m, &Hosts::default());
            let _ = failure(&m);
        }
    }
}
