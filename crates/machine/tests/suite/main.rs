//! Whole machines. One program for all files, since each one would compile the engines again.

mod ahead;
mod common;
mod contended;
mod counters;
mod debug;
mod dma;
mod engines;
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
mod snapshots;
mod stores;
mod time;
