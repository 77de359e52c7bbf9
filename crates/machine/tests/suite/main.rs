//! Whole machines. One program for all files, since each one would compile the engines again.

mod ahead;
mod common;
mod contended;
mod counters;
mod debug;
mod dma;
mod engines;
// Its unit tests: those of the library would compile the engines once more, so it has none.
#[path = "../../src/epochs/counters.rs"]
#[expect(dead_code)]
mod epoch_counters;
mod epochs;
mod first;
mod hostile;
mod images;
mod iomap;
mod litmus;
mod loads;
mod markers;
mod observers;
mod parallel;
mod points;
mod power;
mod programs;
mod regions;
mod replay;
mod search;
mod snapshot_files;
mod snapshots;
mod stores;
mod time;
