//! nagori-memtime.
