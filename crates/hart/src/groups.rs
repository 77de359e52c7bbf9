//! Groups of instructions that modules of the interpreter execute, checked at compile time: an
//! instruction of the table that no module executes, and one of a group that its module does not
//! implement, are compile errors.
//!
//! The interpreter's own match (`exec.rs`) has no catch-all arm, so a new instruction has to be
//! added there or to a group.

/// A pattern: floating-point arithmetic (`fp.rs`).
macro_rules! fp_ops {
    () => {
        nagori_isa::Op::FmaddS
            | nagori_isa::Op::FmsubS
            | nagori_isa::Op::FnmsubS
            | nagori_isa::Op::FnmaddS
            | nagori_isa::Op::FaddS
            | nagori_isa::Op::FsubS
            | nagori_isa::Op::FmulS
            | nagori_isa::Op::FdivS
            | nagori_isa::Op::FsqrtS
            | nagori_isa::Op::FsgnjS
            | nagori_isa::Op::FsgnjnS
            | nagori_isa::Op::FsgnjxS
            | nagori_isa::Op::FminS
            | nagori_isa::Op::FmaxS
            | nagori_isa::Op::FcvtWS
            | nagori_isa::Op::FcvtWuS
            | nagori_isa::Op::FcvtLS
            | nagori_isa::Op::FcvtLuS
            | nagori_isa::Op::FmvXW
            | nagori_isa::Op::FeqS
            | nagori_isa::Op::FltS
            | nagori_isa::Op::FleS
            | nagori_isa::Op::FclassS
            | nagori_isa::Op::FcvtSW
            | nagori_isa::Op::FcvtSWu
            | nagori_isa::Op::FcvtSL
            | nagori_isa::Op::FcvtSLu
            | nagori_isa::Op::FmvWX
            | nagori_isa::Op::FmaddD
            | nagori_isa::Op::FmsubD
            | nagori_isa::Op::FnmsubD
            | nagori_isa::Op::FnmaddD
            | nagori_isa::Op::FaddD
            | nagori_isa::Op::FsubD
            | nagori_isa::Op::FmulD
            | nagori_isa::Op::FdivD
            | nagori_isa::Op::FsqrtD
            | nagori_isa::Op::FsgnjD
            | nagori_isa::Op::FsgnjnD
            | nagori_isa::Op::FsgnjxD
            | nagori_isa::Op::FminD
            | nagori_isa::Op::FmaxD
            | nagori_isa::Op::FcvtSD
            | nagori_isa::Op::FcvtDS
            | nagori_isa::Op::FcvtWD
            | nagori_isa::Op::FcvtWuD
            | nagori_isa::Op::FcvtLD
            | nagori_isa::Op::FcvtLuD
            | nagori_isa::Op::FmvXD
            | nagori_isa::Op::FeqD
            | nagori_isa::Op::FltD
            | nagori_isa::Op::FleD
            | nagori_isa::Op::FclassD
            | nagori_isa::Op::FcvtDW
            | nagori_isa::Op::FcvtDWu
            | nagori_isa::Op::FcvtDL
            | nagori_isa::Op::FcvtDLu
            | nagori_isa::Op::FmvDX
    };
}

/// A pattern: bit manipulation (`bitmanip.rs`).
macro_rules! bit_ops {
    () => {
        nagori_isa::Op::CzeroEqz
            | nagori_isa::Op::CzeroNez
            | nagori_isa::Op::AddUw
            | nagori_isa::Op::Sh1add
            | nagori_isa::Op::Sh1addUw
            | nagori_isa::Op::Sh2add
            | nagori_isa::Op::Sh2addUw
            | nagori_isa::Op::Sh3add
            | nagori_isa::Op::Sh3addUw
            | nagori_isa::Op::SlliUw
            | nagori_isa::Op::Andn
            | nagori_isa::Op::Orn
            | nagori_isa::Op::Xnor
            | nagori_isa::Op::Clz
            | nagori_isa::Op::Clzw
            | nagori_isa::Op::Ctz
            | nagori_isa::Op::Ctzw
            | nagori_isa::Op::Cpop
            | nagori_isa::Op::Cpopw
            | nagori_isa::Op::Max
            | nagori_isa::Op::Maxu
            | nagori_isa::Op::Min
            | nagori_isa::Op::Minu
            | nagori_isa::Op::SextB
            | nagori_isa::Op::SextH
            | nagori_isa::Op::ZextH
            | nagori_isa::Op::Rol
            | nagori_isa::Op::Rolw
            | nagori_isa::Op::Ror
            | nagori_isa::Op::Rori
            | nagori_isa::Op::Roriw
            | nagori_isa::Op::Rorw
            | nagori_isa::Op::OrcB
            | nagori_isa::Op::Rev8
            | nagori_isa::Op::Bclr
            | nagori_isa::Op::Bclri
            | nagori_isa::Op::Bext
            | nagori_isa::Op::Bexti
            | nagori_isa::Op::Binv
            | nagori_isa::Op::Binvi
            | nagori_isa::Op::Bset
            | nagori_isa::Op::Bseti
    };
}

/// A pattern: division (`muldiv.rs`).
macro_rules! div_ops {
    () => {
        nagori_isa::Op::Div
            | nagori_isa::Op::Divu
            | nagori_isa::Op::Rem
            | nagori_isa::Op::Remu
            | nagori_isa::Op::Divw
            | nagori_isa::Op::Divuw
            | nagori_isa::Op::Remw
            | nagori_isa::Op::Remuw
    };
}

/// A match over the instructions of a group. It does not compile if one of them is missing, or if
/// one does not belong to the group; `else` is for the other instructions, which never get here.
macro_rules! match_group {
    ($group:ident, $op:expr, { $($($arm:ident)|+ $(if $guard:expr)? => $body:expr,)* } else $other:expr) => {{
        const _: () = {
            let mut i = 0;
            while i < nagori_isa::ALL.len() {
                let op = nagori_isa::ALL[i];
                #[allow(unreachable_patterns)] // arms with a guard are there twice
                let here = matches!(op, $($(nagori_isa::Op::$arm)|+)|*);
                assert!(here == matches!(op, $group!()), "the match and its group differ");
                i += 1;
            }
        };
        match $op {
            $($(nagori_isa::Op::$arm)|+ $(if $guard)? => $body,)*
            _ => $other,
        }
    }};
}

pub(crate) use {bit_ops, div_ops, fp_ops, match_group};
