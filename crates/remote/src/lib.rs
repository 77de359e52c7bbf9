//! What a running machine says to clients outside: the control socket, and GDB's protocol ([`gdb`]).
//!
//! The control socket has JSON-RPC 2.0, one message per line, on a Unix socket. [`rpc`] is the envelope, [`api`] the
//! requests and results, [`server`] and [`client`] the two ends; [`place`] is the socket itself. Nothing here knows a
//! machine: the caller that runs one answers [`api::Command`]s.
#![forbid(unsafe_code)]

pub mod api;
pub mod client;
pub mod gdb;
pub mod place;
pub mod rpc;
pub mod server;

/// Longest message in bytes, its end of line included; longer ones are refused and skipped.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Errors of either end of a socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is something else at the socket's path.
    #[error("{path} exists and is no socket: give another path")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// Another machine listens there.
    #[error("another machine listens at {path}: give another path, or end that machine")]
    InUse {
        /// The path.
        path: String,
    },
    /// An error of the host.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The other end closed the connection before it answered.
    #[error("the machine ended before it answered")]
    Closed,
    /// What was received is not an answer.
    #[error("what came is no JSON-RPC response: {0}")]
    Response(String),
    /// The machine refused.
    #[error("{}", .0.message)]
    Refused(rpc::RpcError),
}
