//! What the commands of `nagori` have in common: messages and signals, tables, files and plots that they write, and
//! options that several of them take.
#![forbid(unsafe_code)]

pub mod again;
pub mod args;
pub mod numbers;
pub mod output;
pub mod plot;
pub mod sample;
pub mod signals;
pub mod tables;
