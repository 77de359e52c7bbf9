//! The network's DHCP server: one guest, one address.

use super::{DNS, GATEWAY, GUEST, NETWORK_BITS};
use smoltcp::wire::{DhcpMessageType, DhcpPacket, DhcpRepr, Ipv4Address, Ipv4Cidr};

/// How long the guest may keep its address without asking again, in seconds.
const LEASE: u32 = 86_400;

/// An answer and where it goes.
pub(super) struct Answer {
    pub to: Ipv4Address,
    pub bytes: Vec<u8>,
}

/// Answers a client's message, if it needs an answer.
pub(super) fn answer(message: &[u8]) -> Option<Answer> {
    let packet = DhcpPacket::new_checked(message).ok()?;
    let asked = DhcpRepr::parse(&packet).ok()?;
    // The client has chosen another server.
    if asked.server_identifier.is_some_and(|s| s != GATEWAY) {
        return None;
    }
    let wanted = asked.requested_ip.unwrap_or(asked.client_ip);
    let kind = match asked.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if wanted == GUEST => DhcpMessageType::Ack,
        DhcpMessageType::Request => DhcpMessageType::Nak,
        DhcpMessageType::Inform => DhcpMessageType::Ack,
        _ => return None,
    };
    let granted = kind != DhcpMessageType::Nak;
    let leased = granted && asked.message_type != DhcpMessageType::Inform;
    let mask = Ipv4Cidr::new(GATEWAY, NETWORK_BITS).netmask();
    let reply = DhcpRepr {
        message_type: kind,
        transaction_id: asked.transaction_id,
        secs: 0,
        client_hardware_address: asked.client_hardware_address,
        client_ip: asked.client_ip,
        your_ip: if leased {
            GUEST
        } else {
            Ipv4Address::UNSPECIFIED
        },
        server_ip: GATEWAY,
        router: granted.then_some(GATEWAY),
        subnet_mask: granted.then_some(mask),
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: asked.broadcast,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(GATEWAY),
        parameter_request_list: None,
        dns_servers: granted.then(|| [DNS].into_iter().collect()),
        max_size: None,
        lease_duration: leased.then_some(LEASE),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply
        .emit(&mut DhcpPacket::new_unchecked(&mut bytes))
        .ok()?;
    let known = !asked.client_ip.is_unspecified() && granted;
    Some(Answer {
        to: if known {
            asked.client_ip
        } else {
            Ipv4Address::BROADCAST
        },
        bytes,
    })
}
