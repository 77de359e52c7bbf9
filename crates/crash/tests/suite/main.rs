//! Tests of the library against tables, against other ways to the same result, and on programs in C.

mod corpus;
mod litmus;
mod model;
mod recuts;
mod reports;
mod search;
