//! Numbers of single precision in registers of double precision.

pub(crate) const BOX: u64 = 0xffff_ffff_0000_0000;
pub(crate) const NAN32: u32 = 0x7fc0_0000;

#[inline(always)]
pub(crate) fn unbox(v: u64) -> u32 {
    if v >= BOX {
        v as u32
    } else {
        NAN32
    }
}
