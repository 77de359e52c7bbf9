//! nagori-isa.
