//! Errors when a network is set up.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A network that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text of a forwarded port is malformed.
    #[error("`{text}` is no forward: {problem}; it would be like tcp:127.0.0.1:8080-:80 (protocol:host address:host \
        port-guest address:guest port)")]
    Forward {
        /// The text given.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// The host's side of a forwarded port cannot be opened.
    #[error("port {address} of the host cannot be forwarded: {source}")]
    Bind {
        /// Address and port of the host.
        address: SocketAddr,
        /// The host's error.
        source: io::Error,
    },
    /// The socket for the other machine cannot be created.
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// Nobody listens at a socket.
    #[error("cannot connect to {}: {source}; the machine that listens there must be started first", path.display())]
    Connect {
        /// Where.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The interface cannot be opened.
    #[error("cannot open the TAP interface `{name}`: {source}; without root it must be made before (`ip tuntap add dev \
        {name} mode tap user $USER`)")]
    Tap {
        /// Its name.
        name: String,
        /// The host's error.
        source: io::Error,
    },
    /// The host cannot be asked which sockets are ready.
    #[error("the host's sockets cannot be watched: {0}")]
    Watch(#[source] io::Error),
}
