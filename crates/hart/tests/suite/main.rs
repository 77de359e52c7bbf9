//! The hart. One program for all files, since each one would compile the hart again.

mod common;
mod diff_qemu;
mod edges;
mod extensions;
mod harts;
mod levels;
mod loads;
mod modes;
mod observe;
mod robust;
mod svadu;
mod timing;
mod triggers;
mod zacas;
