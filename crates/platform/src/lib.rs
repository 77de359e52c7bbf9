//! nagori-platform.
