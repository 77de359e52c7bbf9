//! Accesses that guest memory cannot refuse.

/// Guest memory is as large as the controllers' capacity, and no hart runs after the end of time.
/// An access that costs nothing would be a wrong result that goes unnoticed.
pub(super) fn refused(e: nagori_memtime::Error) -> ! {
    panic!("a line of guest memory is refused: {e}")
}
