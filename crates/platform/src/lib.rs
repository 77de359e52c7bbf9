//! A Nagori machine: its description, bus, devices, device tree and loading.
//!
//! * [`config`]: machine descriptions in TOML, resolved and checked.
//! * [`bus`], [`device`], [`devices`], [`map`]: what sits at which address.
//! * [`control`]: registers through which guests set delays and read statistics.
//! * [`fdt`], [`tree`]: the device tree, generated from what is attached.
//! * [`loader`]: firmware, kernels and bare-metal programs.
//! * [`clock`]: machine time.

//pub mod board;
pub mod bus;
pub mod clock;
pub mod config;
pub mod control;
pub mod device;
pub mod devices;
pub mod fdt;
//pub mod loader;
pub mod map;
//pub mod tree;
