//! What results say: ranks, regressions, pairs in the wrong order.

mod rank;
mod regression;
mod table;

pub use rank::{kendall, spearman, wrong_pairs};
pub use regression::{Fit, Regression};
pub use table::{Row, Table};
