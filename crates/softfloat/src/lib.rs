//! nagori-softfloat.
