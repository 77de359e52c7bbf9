//! Addresses of the network behind NAT.

use std::net::Ipv4Addr;

/// Address of the gateway, behind which are the host and all other networks.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Address of the name server.
pub const DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

/// Address of the guest.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// Length of the network's prefix in bits.
pub const NETWORK_BITS: u8 = 24;

/// Whether a guest may have this address.
pub(crate) fn is_guest(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    [a, b, c] == [10, 0, 2] && ![0, 2, 3, 255].contains(&d)
}
