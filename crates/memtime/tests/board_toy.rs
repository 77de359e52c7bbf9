//! The controller's rules under the load of a toy core, compared with another implementation of
//! both.

#[path = "../src/described.rs"]
#[allow(dead_code)]
mod described;

#[path = "../examples/board_toy/toy.rs"]
mod toy;

use nagori_memtime::{BoardParams, Kind, Method};

/// Writes to several banks in turn under `extended`: nearly every refresh waits for rows that stay
/// open, so the refresh rules dominate the result. The figures in ns are those of an independent
/// prototype of controller and toy core.
#[test]
fn extended_writes_to_several_banks() {
    let params = BoardParams {
        method: Method::Extended,
        ..described::board()
    };
    for (banks, expected) in [(3, 8770.0), (4, 6970.0), (5, 5800.0), (6, 5150.0)] {
        let ns = toy::run(&params, toy::TOY, Kind::Write, "nbank", banks).unwrap();
        let error = ns / expected - 1.0;
        assert!(
            error.abs() < 0.03,
            "{banks} banks: {ns:.0} ns, expected {expected} ns ({:+.1} %)",
            100.0 * error
        );
    }
}
