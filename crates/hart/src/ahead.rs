//! What the front end may meet behind a wrong prediction, as instructions in blocks note it.

/// What the front end may meet behind a wrong prediction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ahead {
    /// Packets that have to come until a call or return is met, 1 to 7; 0 if none is within reach.
    pub needs: u8,
    /// The first branch on the way, if nothing is met in one of its directions.
    pub spared: Option<Spared>,
}

/// A branch behind a wrong prediction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spared {
    /// Bytes from where the wrong prediction leads to its last half.
    pub last: u8,
    /// Its direction in which nothing is met.
    pub taken: bool,
}

impl Ahead {
    pub(crate) const MOST: u64 = 7;

    /// In a byte, for instructions in blocks.
    pub(crate) fn pack(self) -> u8 {
        let spared = self
            .spared
            .map_or(0, |s| (s.last / 2 + 1) << 4 | u8::from(s.taken) << 3);
        self.needs | spared
    }

    pub(crate) fn of(byte: u8) -> Self {
        let spared = (byte >> 4).checked_sub(1).map(|half| Spared {
            last: half * 2,
            taken: byte >> 3 & 1 != 0,
        });
        Ahead {
            needs: byte & 7,
            spared,
        }
    }
}
