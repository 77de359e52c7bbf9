//! The translator. One program for all files, since each one would compile the engines again.

// Programs, worlds and generators are those of the interpreter's tests.
#[path = "../../../hart/tests/suite/common/mod.rs"]
mod common;
mod cuts;
mod diff_qemu;
mod harts;
mod hostile;
mod lockstep;
mod replacement;
mod sides;
