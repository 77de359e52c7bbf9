//! The command as its users run it. One program for all files: each one would be linked with everything again, and
//! `cargo test` runs programs one after the other, on one core wherever a file has a single long test.

mod common;

mod bare;
mod bench_io;
mod bench_mem;
mod board;
mod boot;
mod bus;
mod cli;
mod compare;
mod control;
mod counters;
mod crash;
mod disasm;
mod disk;
mod enclave;
mod epoch;
mod gdb;
mod guests;
mod iomap;
mod linux;
mod mem;
mod mem_files;
mod mem_record;
mod mem_threads;
mod mem_words;
mod native;
mod net;
mod nvmm;
mod nvmm_image;
mod off2f;
mod outputs;
mod power;
mod profile;
mod rootfs;
mod run;
mod sampling;
mod services;
mod share;
mod signals;
mod snapshot;
mod speed;
mod suite;
mod vcopy;
mod vmm;
