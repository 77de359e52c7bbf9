//! Debian's archive without apt and dpkg: a suite's index is fetched from a mirror and verified by its OpenPGP
//! signature, packages and what they depend on are chosen as apt chooses them, and package files are fetched, compared
//! with the checksums of the index, and read.
//!
//! ```no_run
//! use nagori_debian::{Archive, Settings};
//! let mut archive = Archive::new("cache".as_ref(), "trixie", Settings::of_this_host())?;
//! archive.update(&mut |_| {})?;
//! let (packages, _order) = archive.solve(&["bash".into()])?;
//! for p in packages {
//!     println!("{} {}", p.name, p.version);
//! }
//! # Ok::<(), nagori_debian::Error>(())
//! ```

mod archive;
mod cleartext;
mod control;
pub mod deb;
mod error;
mod host;
mod http;
mod index;
mod keys;
mod openpgp;
mod proxy;
mod relation;
mod release;
mod resolve;
#[cfg(test)]
mod testing;
pub mod version;

pub use archive::{check_mirror, check_name, Archive, Doing, Settings};
pub use control::Record;
pub use error::Error;
pub use host::{Host, Proxies};
pub use http::sha256_of;
pub use index::{Id, Index, Package, ARCHITECTURE};
pub use openpgp::Keyring;
pub use relation::{Alternatives, Comparison, Relation};
pub use resolve::Step;
