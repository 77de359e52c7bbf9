//! Contexts: everything besides the address that decides where an access leads and whether it is
//! permitted. The filters, the table of pages and the block cache hold entries of several contexts
//! at a time; the keys that distinguish them are derived here and nowhere else.
//!
//! # Keys of filters
//!
//! ```text
//!  63                         12 or 6   5    3   2         0
//! +----------------------------------+--------+-----------+
//! | page or line, as programs name it |  tag  | alignment |
//! +----------------------------------+--------+-----------+
//! ```
//!
//! One comparison of 64 bits checks block, context and alignment, in the interpreter and in
//! translated code. All bits of the address are compared: a non-canonical address (whose upper bits
//! differ from bit 38) must miss, and in machine mode all 64 bits are significant. So only three of
//! the 64 bits are free for the context: its [tag](ContextId::tag), a short number for one of at
//! most eight contexts that a filter holds at a time. [`ContextId`] itself has room for more.
//!
//! A second stage of translation adds six contexts for each machine identifier (VU, VS, VS with
//! SUM, each with and without MXR). Their tags would be assigned on demand, and a filter that has
//! run out of tags would be emptied, as a write of `satp` does; the comparison would stay the same.
//! At present there are seven contexts, each with a fixed tag.

use crate::privilege::Privilege;
use serde::{Deserialize, Serialize};

/// Bits of a key that hold the tag.
pub(crate) const TAG: u64 = 7 << 3;

/// Identity of a context: bits 1..0 privilege, 2 SUM, 3 MXR, 4 V, 29..16 VMID. Without a
/// second stage the last two are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ContextId(u32);

impl ContextId {
    /// The context of loads and stores. Bits without effect are 0.
    #[inline(always)]
    pub const fn data(p: Privilege, sum: bool, mxr: bool) -> Self {
        let sum = sum && matches!(p, Privilege::Supervisor);
        // Without translation MXR has no effect.
        let mxr = mxr && !matches!(p, Privilege::Machine);
        Self(p as u32 | (sum as u32) << 2 | (mxr as u32) << 3)
    }

    /// The tag of instruction fetches, for which SUM and MXR have no effect: that of data accesses
    /// without them.
    #[inline(always)]
    pub const fn fetch_tag(p: Privilege) -> u64 {
        (p as u64) << 3
    }

    /// Whether addresses are not translated.
    pub const fn is_machine(self) -> bool {
        self.0 & 3 == Privilege::Machine as u32
    }

    /// Privilege.
    pub fn privilege(self) -> Privilege {
        Privilege::from_bits(u64::from(self.0) & 3)
    }

    /// The tag at its position in a key: 0 to 3 for U, S, S with SUM and M, and 4 more with MXR.
    #[inline(always)]
    pub const fn tag(self) -> u64 {
        let plain = (self.0 & 3) + (self.0 >> 2 & 1);
        ((plain | (self.0 >> 3 & 1) << 2) << 3) as u64
    }

    /// The context of a key.
    pub fn of_key(key: u64) -> Option<Self> {
        ALL.into_iter().find(|c| c.tag() == key & TAG)
    }
}

/// Every context.
const ALL: [ContextId; 7] = [
    ContextId::data(Privilege::User, false, false),
    ContextId::data(Privilege::Supervisor, false, false),
    ContextId::data(Privilege::Supervisor, true, false),
    ContextId::data(Privilege::Machine, false, false),
    ContextId::data(Privilege::User, false, true),
    ContextId::data(Privilege::Supervisor, false, true),
    ContextId::data(Privilege::Supervisor, true, true),
];

// Each context has a tag of its own, and no tag has all three bits set: otherwise the key of a
// misaligned access to the last address would be that of an empty entry.
const _: () = {
    let mut i = 0;
    while i < ALL.len() {
        assert!(ALL[i].tag() == (i as u64) << 3 && ALL[i].tag() != TAG);
        i += 1;
    }
};

/// Identity of everything that instruction fetches depend on: bits 1..0 privilege, 2 whether lines
/// are simulated, 34..3 how often translations have changed, 35 V, 49..36 VMID (both 0 without a
/// second stage). An entry found under another identity has to be looked up again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct FetchContext(u64);

impl FetchContext {
    /// Not the identity of any context in use.
    pub const NONE: Self = Self(0);

    /// The identity of a privilege without a second stage, in a mode, at a count of changes of
    /// translations. It is needed for every block.
    #[inline(always)]
    pub const fn new(p: Privilege, lines: bool, generation: u32) -> Self {
        Self(p as u64 | (lines as u64) << 2 | (generation as u64) << 3)
    }

    /// Whether lines are simulated.
    pub const fn lines(self) -> bool {
        self.0 >> 2 & 1 != 0
    }

    /// How often translations have changed.
    pub const fn generation(self) -> u32 {
        (self.0 >> 3) as u32
    }

    /// All bits, as a number.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_nothing_makes_no_context() {
        use Privilege::*;
        for p in [User, Supervisor, Machine] {
            for (sum, mxr) in [(false, false), (false, true), (true, false), (true, true)] {
                let id = ContextId::data(p, sum, mxr);
                assert!(ALL.contains(&id));
                assert_eq!(ContextId::of_key(0x1234_5000 | id.tag()), Some(id));
                assert_eq!((id.privilege(), id.is_machine()), (p, p == Machine));
            }
            let plain = ContextId::data(p, false, false);
            assert_eq!(ContextId::fetch_tag(p), plain.tag());
        }
        assert_eq!(ContextId::of_key(u64::MAX), None);
    }

    #[test]
    fn fetch_contexts_keep_their_parts_apart() {
        let f = FetchContext::new(Privilege::Machine, true, u32::MAX);
        assert_eq!((f.generation(), f.lines()), (u32::MAX, true));
        assert_eq!(f.bits() >> 35, 0, "of a second stage");
        let f = FetchContext::new(Privilege::Machine, false, 5);
        assert_eq!((f.generation(), f.lines()), (5, false));
        assert_eq!(f.bits(), 5 << 3 | 3);
    }
}
