//! Requests of guests that concern all harts.

use nagori_hart::world::Marker;

/// A request of a guest that concerns all harts: carried out between instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Turns the timing model on or off.
    Timed(bool),
    /// Statistics start anew.
    ResetStats,
    /// The statistics so far are recorded under a label.
    Mark(u64),
    /// A marker of a hart, with its value.
    Marker(usize, Marker, u64),
}
