//! Networks for a guest, most of which need no root privileges.
//!
//! Everything here is a [`Link`]: it takes Ethernet frames from a guest and has frames for it. The
//! crate knows nothing of machines: frames are bytes, and the caller gives the time.
//!
//! - [`Nat`]: a private network for the guest behind address translation, with DHCP, DNS and
//!   forwarded ports. The guest's TCP connections end here (in smoltcp's stack) and continue as
//!   ordinary sockets of the host.
//! - [`Wire`]: a Unix socket that joins two machines.
//! - [`PairEnd`]: joins two machines of this process, in their own time.
//! - [`Tap`]: an interface of the host's kernel.
//!
//! Nothing that a guest sends causes a panic, and every queue and table is bounded.
#![forbid(unsafe_code)]

mod addresses;
mod error;
mod forward;
mod hosts;
mod link;
mod nat;
mod offload;
mod pair;
mod tap;
mod wire;

pub use error::Error;
pub use forward::{Forward, Protocol};
pub use hosts::Hosts;
pub use link::{Frame, Guest, Link, Offload, Partial, MAX_FRAME};
pub use nat::{Config, Nat, DNS, GATEWAY, GUEST, NETWORK_BITS};
pub use offload::{finish, NotFinished};
pub use pair::{pair, PairEnd};
pub use tap::Tap;
pub use wire::Wire;
