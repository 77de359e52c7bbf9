//! The cells of `nagori bench vcopy`, as rows name them and as the C source has them.

use clap::ValueEnum;
use nagori_terminal::numbers::in_units;
use serde::Serialize;

/// Bytes of a packet, or the mix of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Size {
    /// All packets have so many bytes: 8 to 2040.
    Bytes(u16),
    /// Of each 12 packets, 7 have 64 bytes, 4 have 594, one has 1518.
    Imix(Imix),
}

/// The name of the mix in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Imix {
    /// The only one.
    Imix,
}

impl Size {
    /// All that are measured by default.
    pub const ALL: [Size; 7] = [
        Size::Bytes(64),
        Size::Bytes(128),
        Size::Bytes(256),
        Size::Bytes(512),
        Size::Bytes(1024),
        Size::Bytes(1500),
        Size::Imix(Imix::Imix),
    ];

    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Size::Bytes(n) => n.to_string(),
            Size::Imix(_) => "imix".into(),
        }
    }

    fn number(self) -> u16 {
        match self {
            Size::Bytes(n) => n,
            Size::Imix(_) => 0,
        }
    }
}

/// A size of packets as an argument.
pub fn size(text: &str) -> Result<Size, String> {
    if text == "imix" {
        return Ok(Size::Imix(Imix::Imix));
    }
    let bytes = in_units::<u16>("B", 8..=2040)(text);
    bytes.map(Size::Bytes).map_err(|e| format!("{e}, or imix"))
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $value:ident),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
        #[serde(rename_all = "lowercase")]
        #[value(rename_all = "lowercase")]
        pub enum $name { $($(#[$of])* $value),* }

        impl $name {
            /// All.
            pub const ALL: &[$name] = &[$($name::$value),*];

            /// Its name in rows and tables.
            pub fn name(self) -> String {
                format!("{self:?}").to_lowercase()
            }
        }
    };
}

choice!(
    /// A virtqueue's layout.
    Ring {
        /// VIRTIO 1.2, section 2.7.
        Split,
        /// Section 2.8.
        Packed
    }
);
choice!(
    /// Stores of a copy, or of entries of the queue.
    Stores {
        /// Ordinary ones.
        Temporal,
        /// With a hint that no cache needs the line.
        Nontemporal
    }
);
choice!(
    /// Copy and entry of the queue.
    Loops {
        /// In one loop over the batch.
        One,
        /// In a loop each.
        Two
    }
);
choice!(
    /// What the consumer reads.
    Reader {
        /// Entries of the queue alone.
        Queue,
        /// The packets, too.
        Payload
    }
);
choice!(
    /// When the consumer works.
    Consumer {
        /// While the producer copies.
        Concurrent,
        /// While the producer waits, after each batch.
        After
    }
);
choice!(
    /// Where the buffers are.
    Place {
        /// DRAM.
        Dram,
        /// NVMM.
        Nvmm
    }
);

/// A cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cell {
    /// Size of a packet.
    pub packet_bytes: Size,
    /// Layout of the queue.
    pub ring: Ring,
    /// Stores of the copy.
    pub copy: Stores,
    /// Stores of the queue's entries.
    pub queue: Stores,
    /// Copy and entries.
    pub loops: Loops,
    /// What is read.
    pub reader: Reader,
    /// When.
    pub consumer: Consumer,
    /// Packets that are given to the other side together: 1 to 256.
    pub batch: u16,
    /// Where the buffers are.
    pub memory: Place,
    /// The producer's cycles are counted by phase.
    pub phases: bool,
}

impl Cell {
    /// The one that others differ from: DPDK's batch of 32, everything temporal.
    pub const BASE: Cell = Cell {
        packet_bytes: Size::Bytes(64),
        ring: Ring::Split,
        copy: Stores::Temporal,
        queue: Stores::Temporal,
        loops: Loops::One,
        reader: Reader::Queue,
        consumer: Consumer::Concurrent,
        batch: 32,
        memory: Place::Dram,
        phases: false,
    };

    /// The cell as a number, as `decode` of `guest/bench/vcopy/bare.c` reads it.
    pub fn code(&self) -> u64 {
        let flags = [
            self.ring == Ring::Packed,
            self.copy == Stores::Nontemporal,
            self.queue == Stores::Nontemporal,
            self.loops == Loops::Two,
            self.reader == Reader::Payload,
            self.consumer == Consumer::After,
            self.memory == Place::Nvmm,
            self.phases,
        ];
        let flags = flags.iter().rev().fold(0, |n, f| n << 1 | u64::from(*f));
        flags << 32 | u64::from(self.batch) << 16 | u64::from(self.packet_bytes.number())
    }

    /// Its initializer of `struct cell` in C.
    pub fn c(&self, packets: u32, warm: u32) -> String {
        let flag = |b: bool| u8::from(b);
        format!(
            "{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {packets}, {warm}}},",
            self.packet_bytes.number(),
            ["SPLIT", "PACKED"][self.ring as usize],
            flag(self.copy == Stores::Nontemporal),
            flag(self.queue == Stores::Nontemporal),
            1 + self.loops as u8,
            flag(self.reader == Reader::Payload),
            flag(self.consumer == Consumer::After),
            flag(self.memory == Place::Nvmm),
            flag(self.phases),
            self.batch,
        )
    }
}

/// What the table is made of. An empty list stands for what the default table has.
#[derive(Debug, Clone, Default)]
pub struct Axes {
    /// Sizes of packets.
    pub bytes: Vec<Size>,
    /// Rings.
    pub rings: Vec<Ring>,
    /// Copies.
    pub copies: Vec<Stores>,
    /// Stores of the queue.
    pub queues: Vec<Stores>,
    /// Loops.
    pub loops: Vec<Loops>,
    /// Readers.
    pub readers: Vec<Reader>,
    /// Consumers.
    pub consumers: Vec<Consumer>,
    /// Batches.
    pub batches: Vec<u16>,
    /// Memories.
    pub memories: Vec<Place>,
}

/// The product of the axes; those that are empty have the values of `of`.
fn product(a: &Axes, of: &Axes) -> Vec<Cell> {
    fn pick<'a, T>(a: &'a [T], of: &'a [T]) -> &'a [T] {
        if a.is_empty() {
            of
        } else {
            a
        }
    }
    let mut all = vec![Cell::BASE];
    macro_rules! by {
        ($list:ident, $field:ident) => {
            all = pick(&a.$list, &of.$list)
                .iter()
                .flat_map(|v| all.iter().map(move |c| Cell { $field: *v, ..*c }))
                .collect();
        };
    }
    by!(batches, batch);
    by!(consumers, consumer);
    by!(queues, queue);
    by!(loops, loops);
    by!(readers, reader);
    by!(copies, copy);
    by!(bytes, packet_bytes);
    by!(rings, ring);
    by!(memories, memory);
    all
}

/// The cells of a table. With all axes empty: every size, ring, copy, loop, reader and memory in
/// batches of 32; for 64 and 1024 bytes also batches of 1 to 256, a consumer after the batch,
/// non-temporal entries, and the producer's cycles by phase.
pub fn cells(a: &Axes) -> Vec<Cell> {
    let base = Axes {
        bytes: vec![Size::Bytes(64)],
        rings: vec![Ring::Split],
        copies: vec![Stores::Temporal],
        queues: vec![Stores::Temporal],
        loops: vec![Loops::One],
        readers: vec![Reader::Queue],
        consumers: vec![Consumer::Concurrent],
        batches: vec![32],
        memories: vec![Place::Dram],
    };
    let two = vec![Size::Bytes(64), Size::Bytes(1024)];
    let (rings, copies) = (Ring::ALL.to_vec(), Stores::ALL.to_vec());
    let main = Axes {
        bytes: Size::ALL.to_vec(),
        rings: rings.clone(),
        copies: copies.clone(),
        loops: Loops::ALL.to_vec(),
        readers: Reader::ALL.to_vec(),
        memories: Place::ALL.to_vec(),
        ..base.clone()
    };
    let small = Axes {
        bytes: two,
        rings,
        copies: copies.clone(),
        ..base
    };
    let batches = Axes {
        batches: vec![1, 2, 4, 8, 16, 64, 128, 256],
        ..small.clone()
    };
    let after = Axes {
        consumers: Consumer::ALL.to_vec(),
        readers: Reader::ALL.to_vec(),
        ..small.clone()
    };
    let queue = Axes {
        queues: vec![Stores::Nontemporal],
        loops: Loops::ALL.to_vec(),
        ..small.clone()
    };
    let phases = Axes {
        readers: Reader::ALL.to_vec(),
        memories: Place::ALL.to_vec(),
        ..small
    };
    let mut all = product(a, &main);
    all.extend([batches, after, queue].iter().flat_map(|of| product(a, of)));
    let phased = product(a, &phases).into_iter();
    all.extend(phased.map(|c| Cell { phases: true, ..c }));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|c| seen.insert(*c));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_has_every_cell_once() {
        let all = cells(&Axes::default());
        assert_eq!(all.len(), 7 * 32 + 64 + 16 + 16 + 32);
        let only = Axes {
            bytes: vec![Size::Bytes(1024)],
            batches: vec![8],
            memories: vec![Place::Dram],
            ..Axes::default()
        };
        let some = cells(&only);
        assert!(some
            .iter()
            .all(|c| c.batch == 8 && c.packet_bytes == Size::Bytes(1024)));
        assert!(some.iter().all(|c| c.memory == Place::Dram));
        assert!(some.iter().any(|c| c.consumer == Consumer::After));
    }

    #[test]
    fn sizes_are_read_and_bounded() {
        assert_eq!(size("1500"), Ok(Size::Bytes(1500)));
        assert_eq!(size("imix"), Ok(Size::Imix(Imix::Imix)));
        for bad in ["7", "2041", "", "-1", "64k"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        let all: Vec<String> = Size::ALL
            .iter()
            .map(|s| serde_json::to_string(s).unwrap())
            .collect();
        assert_eq!(all[6], "\"imix\"");
        assert_eq!(all[0], "64");
    }

    #[test]
    fn a_number_has_every_field() {
        assert_eq!(Cell::BASE.code(), 32 << 16 | 64);
        let c = Cell {
            ring: Ring::Packed,
            copy: Stores::Nontemporal,
            loops: Loops::Two,
            memory: Place::Nvmm,
            ..Cell::BASE
        };
        assert_eq!(c.code(), 0b0100_1011 << 32 | 32 << 16 | 64);
        // No two cells of the table have the same.
        let all = cells(&Axes::default());
        let codes: std::collections::BTreeSet<u64> = all.iter().map(Cell::code).collect();
        assert_eq!(codes.len(), all.len());
    }

    #[test]
    fn c_has_the_fields_in_their_order() {
        let c = Cell {
            ring: Ring::Packed,
            copy: Stores::Nontemporal,
            loops: Loops::Two,
            memory: Place::Nvmm,
            ..Cell::BASE
        };
        assert_eq!(
            c.c(100, 10),
            "{64, PACKED, 1, 0, 2, 0, 0, 1, 0, 32, 100, 10},"
        );
    }
}
