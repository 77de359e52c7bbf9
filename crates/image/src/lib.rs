//! nagori-image.
