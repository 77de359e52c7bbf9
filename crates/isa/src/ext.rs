//! Extensions of the instruction set, and sets of them: the capabilities of a hart.

use std::fmt;

macro_rules! extensions {
    ($($(#[$doc:meta])* $ext:ident $name:literal [$($needs:ident)*];)*) => {
        /// An extension that instructions or CSRs belong to, in the canonical order of names.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        #[repr(u8)]
        pub enum Ext {
            $($(#[$doc])* $ext,)*
        }

        impl Ext {
            /// Every extension, in the order of names.
            pub const ALL: &'static [Ext] = &[$(Ext::$ext,)*];

            /// The name in lower case, as in device trees and compiler options.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Ext::$ext => $name,)*
                }
            }

            /// Extensions that this one requires.
            pub const fn needs(self) -> &'static [Ext] {
                match self {
                    $(Ext::$ext => &[$(Ext::$needs,)*],)*
                }
            }
        }
    };
}

extensions! {
    /// Base integer instruction set RV64I.
    I "i" [];
    /// Integer multiplication and division.
    M "m" [I];
    /// Atomic instructions (LR/SC and AMO).
    A "a" [I];
    /// Single-precision floating point.
    F "f" [I Zicsr];
    /// Double-precision floating point.
    D "d" [F];
    /// Compressed instructions. They have no rows of their own: each stands for a row of another.
    C "c" [I];
    /// CSR access.
    Zicsr "zicsr" [I];
    /// Instruction-fetch fence.
    Zifencei "zifencei" [I];
    /// Counters `cycle`, `time` and `instret`.
    Zicntr "zicntr" [Zicsr];
    /// Counters `hpmcounter3` to `hpmcounter31`.
    Zihpm "zihpm" [Zicsr];
    /// Cache-block management.
    Zicbom "zicbom" [I];
    /// Cache-block zero.
    Zicboz "zicboz" [I];
    /// Cache-block prefetch hints.
    Zicbop "zicbop" [I];
    /// Pause hint.
    Zihintpause "zihintpause" [I];
    /// Non-temporal locality hints.
    Zihintntl "zihintntl" [I];
    /// Conditional operations: a register or zero.
    Zicond "zicond" [I];
    /// Atomic compare and swap.
    Zacas "zacas" [A];
    /// Bit manipulation: address generation.
    Zba "zba" [I];
    /// Bit manipulation: basic.
    Zbb "zbb" [I];
    /// Bit manipulation: single bits.
    Zbs "zbs" [I];
    /// Overflow interrupts of hardware counters, and counting by privilege.
    Sscofpmf "sscofpmf" [Zihpm];
    /// Timer of supervisor mode, `stimecmp`.
    Sstc "sstc" [Zicsr];
    /// Hardware that sets the A and D bits of page-table entries, where `menvcfg.ADUE` says so.
    Svadu "svadu" [Zicsr];
    /// Privileged architecture (machine, supervisor and user mode).
    Priv "priv" [Zicsr];
    /// Vendor extension: write back and invalidate lines of the L1 data cache.
    Xcflush "xcflush" [I];
    /// Vendor extension: markers, hints by which a program tells the machine something.
    Xmark "xmark" [I];
}

impl Ext {
    /// The extension of a name in lower case.
    pub fn from_name(name: &str) -> Option<Ext> {
        Ext::ALL.iter().copied().find(|e| e.name() == name)
    }

    /// Whether its instructions are hints: a hart without it runs them as instructions of the base
    /// set that have no effect. The instructions of every other extension are illegal without it.
    pub const fn is_hint(self) -> bool {
        matches!(
            self,
            Ext::Zicbop | Ext::Zihintpause | Ext::Zihintntl | Ext::Xmark
        )
    }
}

/// A set of extensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Extensions(u32);

impl Extensions {
    /// No extension.
    pub const NONE: Extensions = Extensions(0);
    /// Every extension.
    pub const ALL: Extensions = Extensions((1 << Ext::ALL.len()) - 1);

    /// Whether the set has an extension.
    #[inline]
    pub const fn has(self, ext: Ext) -> bool {
        self.0 >> ext as u8 & 1 != 0
    }

    /// The set with one more extension.
    #[must_use]
    pub const fn with(self, ext: Ext) -> Extensions {
        Extensions(self.0 | 1 << ext as u8)
    }

    /// The set without an extension and those that require it.
    #[must_use]
    pub fn without(self, ext: Ext) -> Extensions {
        let rest = Extensions(self.0 & !(1 << ext as u8));
        match rest.unmet() {
            Some((dependent, _)) => rest.without(dependent),
            None => rest,
        }
    }

    /// The extensions, in the order of names.
    pub fn iter(self) -> impl Iterator<Item = Ext> {
        Ext::ALL.iter().copied().filter(move |e| self.has(*e))
    }

    /// An extension of the set, and one that it requires but that is not in the set.
    pub fn unmet(self) -> Option<(Ext, Ext)> {
        self.iter().find_map(|e| {
            let lacks = e.needs().iter().copied().find(|n| !self.has(*n));
            lacks.map(|n| (e, n))
        })
    }

    /// Bits that are 0 in the address of every instruction (IALIGN - 1 in bytes).
    #[inline]
    pub const fn pc_low(self) -> u64 {
        if self.has(Ext::C) {
            1
        } else {
            3
        }
    }

    /// The register `misa` of RV64 with machine, supervisor and user mode.
    pub fn misa(self) -> u64 {
        const MXL_64: u64 = 2 << 62;
        let bit = |letter: u8| 1 << (letter - b'a');
        let single = self.iter().map(|e| e.name().as_bytes());
        let single = single.filter(|n| n.len() == 1).map(|n| bit(n[0]));
        single.fold(MXL_64 | bit(b's') | bit(b'u'), |m, b| m | b)
    }
}

impl FromIterator<Ext> for Extensions {
    fn from_iter<T: IntoIterator<Item = Ext>>(list: T) -> Extensions {
        list.into_iter()
            .fold(Extensions::NONE, |set, e| set.with(e))
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Ext::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        for &e in Ext::ALL {
            assert_eq!(Ext::from_name(e.name()), Some(e));
        }
        assert_eq!(Ext::from_name("I"), None);
        assert_eq!(Ext::from_name(""), None);
    }

    #[test]
    fn whoever_needs_an_extension_goes_with_it() {
        let set = Extensions::ALL.without(Ext::F);
        assert!(!set.has(Ext::F) && !set.has(Ext::D) && set.has(Ext::C));
        assert_eq!(set.unmet(), None);
        assert_eq!(Extensions::ALL.without(Ext::I), Extensions::NONE);
        let broken = Extensions::from_iter([Ext::I, Ext::Zicsr, Ext::D]);
        assert_eq!(broken.unmet(), Some((Ext::D, Ext::F)));
    }

    #[test]
    fn misa_has_a_bit_for_each_letter() {
        let letters = |set: Extensions| -> String {
            let bits = (0..26u8).filter(|b| set.misa() >> b & 1 != 0);
            bits.map(|b| char::from(b'a' + b)).collect()
        };
        assert_eq!(letters(Extensions::ALL), "acdfimsu");
        assert_eq!(letters(Extensions::ALL.without(Ext::F)), "acimsu");
        assert_eq!(Extensions::ALL.misa() >> 62, 2);
    }
}
