//! The keys that this program trusts by itself: those by which Debian's archive signs Debian 12, 13 and what follows,
//! from Debian's package debian-archive-keyring 2023.3+deb12u2.

use crate::openpgp::Keyring;

const KEYS: [&[u8]; 4] = [
    include_bytes!("../keys/trixie-automatic.pgp"),
    include_bytes!("../keys/trixie-stable.pgp"),
    include_bytes!("../keys/bookworm-automatic.pgp"),
    include_bytes!("../keys/bookworm-stable.pgp"),
];

/// A keyring with these keys.
pub fn embedded() -> Keyring {
    let mut ring = Keyring::default();
    for key in KEYS {
        ring.add(key).expect("a test reads them");
    }
    ring
}
