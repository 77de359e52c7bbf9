//! Lines in order: those that follow others of the same hart, in the last streams. They meet rows that are open, and blocks that the
//! memory has buffered.

use serde::{Deserialize, Serialize};

/// Streams of a hart that are told apart.
const STREAMS: usize = 16;
/// Lines of a block that slow memories read and buffer as one (256 bytes), which is also how far the next line of a stream may be away.
const BLOCK: u64 = 4;
/// Lines that have followed one another where a stream goes on in another block.
const RUN: u32 = BLOCK as u32;

/// A stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    /// Its last line, with one added; zero if there is none.
    line: u64,
    /// The core cycle of that.
    at: u64,
    /// Lines that have followed one another, up to [`RUN`].
    run: u32,
}

/// The last streams of a hart: of lines read, or of lines written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Streams {
    last: [Stream; STREAMS],
}

impl Streams {
    /// A line at an offset is moved at a cycle, and stands for so many around it. Returns 1 if it comes in order, else 0.
    #[inline]
    pub fn order(&mut self, offset: u64, lines: u32, cycle: u64) -> usize {
        let (line, near) = (offset / 64, BLOCK * u64::from(lines));
        let block = |line: u64| line / near;
        let of = |s: &Stream| s.line != 0 && (s.line - 1).abs_diff(line) <= near;
        let known = self.last.iter().position(of);
        // Otherwise the stream that was asked for longest ago ends.
        let age = |i: &usize| (self.last[*i].line != 0, self.last[*i].at);
        let oldest = || (0..STREAMS).min_by_key(age);
        let Some(i) = known.or_else(oldest) else {
            return 0;
        };
        let s = &mut self.last[i];
        let goes_on = known.is_some() && (s.run >= RUN || block(s.line - 1) == block(line));
        *s = Stream {
            line: line + 1,
            at: cycle,
            run: if known.is_some() {
                RUN.min(s.run + 1)
            } else {
                0
            },
        };
        usize::from(goes_on)
    }

    /// Whether a machine can have come to this.
    pub fn is_possible(&self) -> bool {
        let far = 1 << 62;
        let possible = |s: &Stream| s.line.max(s.at) < far && s.run <= RUN;
        self.last.iter().all(possible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart() {
        let mut s = Streams::default();
        let mut random = 0;
        for i in 0..100u64 {
            for stream in 0..STREAMS as u64 {
                let order = s.order((stream * 1000 + i) * 64, 1, i * 100 + stream);
                random += 1 - order;
            }
        }
        // The first line of each, and that of its second block.
        assert_eq!(random, 2 * STREAMS);
        assert!(s.is_possible());
    }

    #[test]
    fn what_is_not_near_is_not_in_order() {
        let mut s = Streams::default();
        let mut order = |line: u64, lines| s.order(line * 64, lines, line);
        assert_eq!(order(100, 1), 0, "nothing was before");
        assert_eq!(order(103, 1), 1, "the same block");
        assert_eq!(order(101, 1), 1, "downwards");
        assert_eq!(order(104, 1), 0, "another block");
        assert_eq!(order(200, 1), 0);
        assert_eq!(order(223, 8), 1, "a sample");
    }

    #[test]
    fn a_stream_that_goes_on_is_kept_among_random_lines() {
        let mut s = Streams::default();
        let mut missed = 0;
        for i in 0..1000u64 {
            missed += 1 - s.order(i * 64, 1, i * 10);
            s.order((1 << 30) + i * 12345 * 64, 1, i * 10 + 5);
        }
        assert_eq!(missed, 2, "the first ones of two blocks");
    }
}
