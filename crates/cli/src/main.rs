//! nagori: the command.
fn main() {}
