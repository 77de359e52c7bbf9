//! Floating-point instructions: NaN boxing, rounding modes, flags; the
//! arithmetic is `nagori_softfloat`.

use crate::groups::{fp_ops, match_group};
use crate::hart::Hart;
use crate::nanbox::{unbox, BOX};
use crate::preop::PreOp;
use crate::trap::status;
use nagori_softfloat::*;

const SIGN32: u32 = 1 << 31;
const SIGN64: u64 = 1 << 63;

#[inline(always)]
fn boxed(v: u32) -> u64 {
    BOX | v as u64
}

impl Hart {
    /// Whether floating point is on.
    #[inline(always)]
    pub(crate) fn fp_on(&self) -> bool {
        self.state.csr.mstatus & status::FS != 0
    }

    /// Executes a computational FP instruction. `None`: illegal (unit off, reserved rounding mode).
    #[inline(always)]
    pub(crate) fn fp_op(&mut self, p: &PreOp) -> Option<()> {
        if !self.fp_on() {
            return None;
        }
        let d = (p.rd & 31) as usize;
        let (a, b, c) = (
            self.state.f[(p.rs1 & 31) as usize],
            self.state.f[(p.rs2 & 31) as usize],
            self.state.f[(p.rs3 & 31) as usize],
        );
        let xa = self.state.x[(p.rs1 & 31) as usize];
        let xd = (p.rd & 63) as usize;
        let mut fl = Flags(self.state.csr.fflags);
        macro_rules! rm {
            () => {
                match Round::from_bits(if p.rm == 7 { self.state.csr.frm } else { p.rm }) {
                    Some(r) => r,
                    None => return None,
                }
            };
        }
        macro_rules! s2 {
            ($f:ident) => {
                self.state.f[d] = boxed($f(unbox(a), unbox(b), rm!(), &mut fl))
            };
        }
        macro_rules! d2 {
            ($f:ident) => {
                self.state.f[d] = $f(a, b, rm!(), &mut fl)
            };
        }
        macro_rules! s3 {
            ($na:expr, $nc:expr) => {
                self.state.f[d] = boxed(fma_f32(
                    unbox(a) ^ $na,
                    unbox(b),
                    unbox(c) ^ $nc,
                    rm!(),
                    &mut fl,
                ))
            };
        }
        macro_rules! d3 {
            ($na:expr, $nc:expr) => {
                self.state.f[d] = fma_f64(a ^ $na, b, c ^ $nc, rm!(), &mut fl)
            };
        }
        macro_rules! to_x {
            ($v:expr) => {{
                let v = $v;
                self.state.x[xd] = v as u64
            }};
        }
        match_group!(fp_ops, p.op, {
            FaddS => s2!(add_f32),
            FsubS => s2!(sub_f32),
            FmulS => s2!(mul_f32),
            FdivS => s2!(div_f32),
            FsqrtS => self.state.f[d] = boxed(sqrt_f32(unbox(a), rm!(), &mut fl)),
            FmaddS => s3!(0, 0),
            FmsubS => s3!(0, SIGN32),
            FnmsubS => s3!(SIGN32, 0),
            FnmaddS => s3!(SIGN32, SIGN32),
            FaddD => d2!(add_f64),
            FsubD => d2!(sub_f64),
            FmulD => d2!(mul_f64),
            FdivD => d2!(div_f64),
            FsqrtD => self.state.f[d] = sqrt_f64(a, rm!(), &mut fl),
            FmaddD => d3!(0, 0),
            FmsubD => d3!(0, SIGN64),
            FnmsubD => d3!(SIGN64, 0),
            FnmaddD => d3!(SIGN64, SIGN64),
            FsgnjS => self.state.f[d] = boxed(unbox(a) & !SIGN32 | unbox(b) & SIGN32),
            FsgnjnS => self.state.f[d] = boxed(unbox(a) & !SIGN32 | !unbox(b) & SIGN32),
            FsgnjxS => self.state.f[d] = boxed(unbox(a) ^ unbox(b) & SIGN32),
            FsgnjD => self.state.f[d] = a & !SIGN64 | b & SIGN64,
            FsgnjnD => self.state.f[d] = a & !SIGN64 | !b & SIGN64,
            FsgnjxD => self.state.f[d] = a ^ b & SIGN64,
            FminS => self.state.f[d] = boxed(min_f32(unbox(a), unbox(b), &mut fl)),
            FmaxS => self.state.f[d] = boxed(max_f32(unbox(a), unbox(b), &mut fl)),
            FminD => self.state.f[d] = min_f64(a, b, &mut fl),
            FmaxD => self.state.f[d] = max_f64(a, b, &mut fl),
            FeqS => to_x!(eq_f32(unbox(a), unbox(b), &mut fl)),
            FltS => to_x!(lt_f32(unbox(a), unbox(b), &mut fl)),
            FleS => to_x!(le_f32(unbox(a), unbox(b), &mut fl)),
            FeqD => to_x!(eq_f64(a, b, &mut fl)),
            FltD => to_x!(lt_f64(a, b, &mut fl)),
            FleD => to_x!(le_f64(a, b, &mut fl)),
            FclassS => to_x!(classify_f32(unbox(a))),
            FclassD => to_x!(classify_f64(a)),
            FcvtWS => to_x!(f32_to_i32(unbox(a), rm!(), &mut fl) as i64),
            FcvtWuS => to_x!(f32_to_u32(unbox(a), rm!(), &mut fl) as i32 as i64),
            FcvtLS => to_x!(f32_to_i64(unbox(a), rm!(), &mut fl)),
            FcvtLuS => to_x!(f32_to_u64(unbox(a), rm!(), &mut fl)),
            FcvtWD => to_x!(f64_to_i32(a, rm!(), &mut fl) as i64),
            FcvtWuD => to_x!(f64_to_u32(a, rm!(), &mut fl) as i32 as i64),
            FcvtLD => to_x!(f64_to_i64(a, rm!(), &mut fl)),
            FcvtLuD => to_x!(f64_to_u64(a, rm!(), &mut fl)),
            FcvtSW => self.state.f[d] = boxed(i32_to_f32(xa as i32, rm!(), &mut fl)),
            FcvtSWu => self.state.f[d] = boxed(u32_to_f32(xa as u32, rm!(), &mut fl)),
            FcvtSL => self.state.f[d] = boxed(i64_to_f32(xa as i64, rm!(), &mut fl)),
            FcvtSLu => self.state.f[d] = boxed(u64_to_f32(xa, rm!(), &mut fl)),
            FcvtDW => {
                rm!();
                self.state.f[d] = i32_to_f64(xa as i32, Round::Rne, &mut fl)
            },
            FcvtDWu => {
                rm!();
                self.state.f[d] = u32_to_f64(xa as u32, Round::Rne, &mut fl)
            },
            FcvtDL => self.state.f[d] = i64_to_f64(xa as i64, rm!(), &mut fl),
            FcvtDLu => self.state.f[d] = u64_to_f64(xa, rm!(), &mut fl),
            FcvtSD => self.state.f[d] = boxed(f64_to_f32(a, rm!(), &mut fl)),
            FcvtDS => {
                rm!();
                self.state.f[d] = f32_to_f64(unbox(a), &mut fl)
            },
            FmvXW => to_x!(a as u32 as i32 as i64),
            FmvXD => to_x!(a),
            FmvWX => self.state.f[d] = boxed(xa as u32),
            FmvDX => self.state.f[d] = xa,
        } else return None);
        self.state.csr.fflags = fl.0;
        self.fp_dirty();
        Some(())
    }
}
