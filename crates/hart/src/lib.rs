//! nagori-hart.
