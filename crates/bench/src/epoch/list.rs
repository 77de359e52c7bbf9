//! The programs of `nagori bench epoch`.

use crate::speed::programs::{Program, PROGRAMS};

/// The source of the programs that are not those of `nagori bench speed`.
pub const SOURCE: &str = include_str!("../../../../guest/epoch/epoch.c");

/// A program.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How it is compiled.
    pub program: Program,
    /// Whether the published comparison has one like it.
    pub in_figures: bool,
    /// Settings of the machine that it needs.
    pub settings: &'static [&'static str],
}

macro_rules! of {
    ($name:literal, $harts:literal, [$($def:literal),*]) => {
        Program { harts: $harts, defs: &[$($def),*], ..Program::new($name, &["epoch.c"]) }
    };
}

const OWN: &[Program] = &[
    of!("chase1", 1, ["-DKIND=1"]),
    of!("chase4", 1, ["-DKIND=1", "-DWIDTH=4"]),
    of!("chase16", 1, ["-DKIND=1", "-DWIDTH=16"]),
    of!("mixed0", 1, ["-DKIND=2", "-DWRITES=0"]),
    of!("mixed25", 1, ["-DKIND=2", "-DWRITES=25"]),
    of!("mixed50", 1, ["-DKIND=2", "-DWRITES=50"]),
    of!("mixed75", 1, ["-DKIND=2", "-DWRITES=75"]),
    of!("mixed100", 1, ["-DKIND=2", "-DWRITES=100"]),
    of!("flush", 1, ["-DKIND=3"]),
    of!("flush-sparse", 1, ["-DKIND=3", "-DWORK=100"]),
    of!("past", 1, ["-DKIND=12"]),
    of!("past-sparse", 1, ["-DKIND=12", "-DWORK=100"]),
    of!("past-fence", 1, ["-DKIND=12", "-DFENCED"]),
    of!("past-random", 1, ["-DKIND=12", "-DRANDOM"]),
    of!(
        "past-random-fence",
        1,
        ["-DKIND=12", "-DRANDOM", "-DFENCED"]
    ),
    of!("phases-short", 1, ["-DKIND=4", "-DWORK=100", "-DWIDTH=4"]),
    of!("phases-long", 1, ["-DKIND=4", "-DWORK=4000", "-DWIDTH=32"]),
    of!("locks", 4, ["-DKIND=5"]),
    of!("barriers", 4, ["-DKIND=6"]),
    of!("pipe", 2, ["-DKIND=10"]),
    of!("condvar", 4, ["-DKIND=11"]),
    of!("profile", 1, ["-DKIND=7"]),
    of!("simplex", 1, ["-DKIND=8"]),
    of!("quantum", 1, ["-DKIND=9"]),
];

/// Programs of `nagori bench speed` that are taken as well.
const SPEED: &[&str] = &[
    "integer", "mix", "sort", "random", "stream", "matrix", "bytecode", "compress",
];

/// Non-temporal stores go past the caches, in as many line fill buffers as server cores have.
const PAST_CACHES: &[&str] = &["l1d.mshrs=10", "nontemporal.all.store=\"write-combining\""];

/// All programs.
pub fn programs() -> Vec<Load> {
    let known = PROGRAMS.iter().filter(|p| SPEED.contains(&p.name));
    let load = |p: &Program| Load {
        program: *p,
        in_figures: ["profile", "simplex", "quantum"].contains(&p.name),
        settings: if p.defs.contains(&"-DKIND=12") {
            PAST_CACHES
        } else {
            &[]
        },
    };
    OWN.iter().chain(known).map(load).collect()
}
