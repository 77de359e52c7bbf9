//! Reads snapshots.

use crate::describe::{bound, differences, Meta};
use crate::error::SnapshotError;
use crate::layout::{header_sum, read_prefix, Chunk, Trailer, CHUNK, PREFIX};
use crate::memory;
use crate::plain;
use crate::software;
use crate::source::{read_part, Source};
use nagori_config::Machine as Description;
use nagori_machine::{Machine, MachineState};
use nagori_platform::loader::Software;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_128, xxh3_64};

/// The header of a snapshot: the JSON at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the program that wrote it.
    pub program: String,
    /// The versions of the parts of the state.
    pub parts: BTreeMap<String, u32>,
    /// The machine's resolved description.
    pub description: Description,
    /// Hash of all values of the description that the machine depends on.
    pub description_hash: String,
    /// Core cycles of the hart that is furthest ahead.
    pub cycle: u64,
    /// Instructions of all harts.
    pub instructions: u64,
    /// Whether the timing model was on.
    pub timed: bool,
    /// Notes of the host.
    pub meta: Meta,
}

impl Header {
    pub(crate) fn new(description: Description, state: &MachineState, meta: Meta) -> Header {
        Header {
            program: env!("CARGO_PKG_VERSION").into(),
            parts: { MachineState::PARTS.iter() }
                .map(|(name, version)| (name.to_string(), *version))
                .collect(),
            description_hash: Self::hash(&description),
            description,
            cycle: state.cycle(),
            instructions: state.instructions(),
            timed: state.timed(),
            meta,
        }
    }

    /// Hash of what a machine depends on: machines with equal hashes can continue from each other's
    /// snapshots.
    pub fn hash(description: &Description) -> String {
        let text = serde_json::to_vec(&bound(description)).unwrap_or_default();
        format!("{:032x}", xxh3_128(&text))
    }
}

/// What of a header says who wrote it, whatever else that program wrote there.
#[derive(Deserialize)]
struct Writer {
    program: String,
    parts: BTreeMap<String, u32>,
}

impl Writer {
    /// Refuses a file with parts of other versions.
    fn check(header: &[u8]) -> Result<(), SnapshotError> {
        let writer: Writer = serde_json::from_slice(header)
            .map_err(|_| SnapshotError::Damaged("the header does not say who wrote it"))?;
        let known = MachineState::PARTS.iter();
        let found = known.map(|(name, known)| (*name, writer.parts.get(*name).copied(), *known));
        let other: Vec<_> = found.filter(|(_, f, k)| *f != Some(*k)).collect();
        match other.is_empty() {
            true => Ok(()),
            false => Err(SnapshotError::Parts {
                program: writer.program,
                parts: other,
            }),
        }
    }
}

/// An open snapshot whose header, trailer and index have been checked. It is only read, so any
/// number of machines may continue from it at once.
pub struct Snapshot<S: Source = File> {
    source: S,
    header: Header,
    pub(crate) trailer: Trailer,
    /// Chunks, and the places of their frames.
    pub(crate) chunks: Vec<(Chunk, u64)>,
}

impl Snapshot<File> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        Self::new(File::open(path)?)
    }
}

impl<S: Source> Snapshot<S> {
    /// Reads and checks header, trailer and index.
    pub fn new(source: S) -> Result<Self, SnapshotError> {
        let size = source.size()?;
        let mut first = [0; PREFIX as usize];
        if size < PREFIX {
            let start = crate::layout::MAGIC.len().min(size as usize);
            read_part(&source, &mut first[..start], 0, "its start")?;
            if first[..start] != crate::layout::MAGIC[..start] || size == 0 {
                return Err(SnapshotError::NotASnapshot);
            }
            return Err(SnapshotError::Truncated("it ends in its first bytes"));
        }
        read_part(&source, &mut first, 0, "its start")?;
        let (len, sum) = read_prefix(&first)?;
        if size < PREFIX + len + Trailer::LEN {
            return Err(SnapshotError::Truncated("it ends in its header"));
        }
        let mut text = vec![0; len as usize];
        read_part(&source, &mut text, PREFIX, "its header")?;
        if header_sum(&first, &text) != sum {
            return Err(SnapshotError::Damaged("checksum of the header"));
        }
        let mut last = [0; Trailer::LEN as usize];
        read_part(&source, &mut last, size - Trailer::LEN, "its trailer")?;
        let trailer = Trailer::decode(&last, size, len, sum)?;
        Writer::check(&text)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|_| SnapshotError::Damaged("the header is not what this program writes"))?;
        let header = Header {
            description: header.description.checked()?,
            ..header
        };
        let chunks = Self::index(&source, &trailer, PREFIX + len, &header)?;
        Ok(Snapshot {
            source,
            header,
            trailer,
            chunks,
        })
    }

    fn index(
        source: &S,
        t: &Trailer,
        first: u64,
        header: &Header,
    ) -> Result<Vec<(Chunk, u64)>, SnapshotError> {
        // Not longer than the file, whose length is known.
        let mut raw = vec![0; (t.chunks * Chunk::RECORD) as usize];
        read_part(source, &mut raw, t.index_at(), "its index")?;
        if xxh3_64(&raw) != t.index_sum {
            return Err(SnapshotError::Damaged("checksum of the index"));
        }
        let bad = SnapshotError::Damaged("index of memory");
        let memory = header.description.config.memory.size.0;
        let longest = zstd::zstd_safe::compress_bound(CHUNK as usize) as u64;
        let mut chunks: Vec<(Chunk, u64)> = Vec::with_capacity(t.chunks as usize);
        let mut at = first;
        for record in raw.chunks_exact(Chunk::RECORD as usize) {
            let c = Chunk::decode(record);
            let ascends = chunks.last().is_none_or(|(p, _)| p.number < c.number);
            let base = u64::from(c.number) * CHUNK;
            let inside = (0..CHUNK / nagori_ram::PAGE)
                .rev()
                .find(|p| c.has(*p))
                .is_some_and(|p| base + (p + 1) * nagori_ram::PAGE <= memory);
            if !ascends || !inside || u64::from(c.len) > longest {
                return Err(bad);
            }
            chunks.push((c, at));
            at += u64::from(c.len);
        }
        if at != t.software_at {
            return Err(bad);
        }
        Ok(chunks)
    }

    /// The snapshot's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.trailer.file_len
    }

    /// Bytes of memory in it, before compression.
    pub fn memory_bytes(&self) -> u64 {
        self.chunks.iter().map(|(c, _)| c.bytes()).sum()
    }

    /// Describes a compressed part of the file: its place and length, its uncompressed length, its
    /// checksum, and its name.
    fn part(
        &self,
        (at, len): (u64, u64),
        bytes: u64,
        sum: u64,
        name: [&'static str; 4],
    ) -> Result<Vec<u8>, SnapshotError> {
        let [ends, checksum, compressed, length] = name;
        // Not longer than the file, whose length is known.
        let mut frame = vec![0; len as usize];
        read_part(&self.source, &mut frame, at, ends)?;
        if xxh3_64(&frame) != sum {
            return Err(SnapshotError::Damaged(checksum));
        }
        let mut plain = Vec::new();
        if !frame.is_empty() {
            let bad = |_| SnapshotError::Damaged(compressed);
            zstd::stream::Decoder::with_buffer(frame.as_slice())
                .map_err(bad)?
                .take(bytes + 1)
                .read_to_end(&mut plain)
                .map_err(bad)?;
        }
        if plain.len() as u64 == bytes {
            Ok(plain)
        } else {
            Err(SnapshotError::Damaged(length))
        }
    }

    /// The state, without memory.
    pub(crate) fn state(&self) -> Result<MachineState, SnapshotError> {
        let t = &self.trailer;
        let place = (t.state_at(), t.state_len);
        let name = [
            "its state",
            "checksum of the state",
            "the compressed state",
            "length of the state",
        ];
        plain::decode(&self.part(place, t.state_bytes, t.state_sum, name)?)
    }

    /// The software that a restart of the machine loads, if it was known when the snapshot was
    /// taken. It is given to a resumed machine by [`Machine::set_software`].
    pub fn software(&self) -> Result<Option<Software>, SnapshotError> {
        let t = &self.trailer;
        let place = (t.software_at, t.software_len);
        let name = [
            "its software",
            "checksum of the software",
            "the compressed software",
            "length of the software",
        ];
        let plain = self.part(place, t.software_bytes, t.software_sum, name)?;
        let memory = &self.header.description.config.memory;
        software::decode(&plain, memory.base, memory.size.0)
    }

    /// Reads everything and checks it, without a machine.
    pub fn verify(&self) -> Result<(), SnapshotError> {
        self.state()?;
        self.software()?;
        memory::read(&self.source, &self.chunks, None)
    }

    /// The machine as saved, with the interpreter.
    pub fn machine(&self) -> Result<Machine, SnapshotError> {
        self.build(&self.header.description)
    }

    /// A machine of the given description that continues where the saved one was. Values of
    /// [`RUNTIME_KEYS`](crate::RUNTIME_KEYS) may differ from the saved description's, and then
    /// apply from now on; where they do not differ, the values that the guest has set stay.
    pub fn machine_as(&self, description: &Description) -> Result<Machine, SnapshotError> {
        let saved = &self.header.description;
        let differences = differences(saved, description);
        if !differences.is_empty() {
            return Err(SnapshotError::OtherMachine(differences));
        }
        let mut machine = self.build(description)?;
        let (old, new) = (&saved.config, &description.config);
        let (old, new) = (old.controller_params(), new.controller_params());
        machine.change_memory(|p| {
            // Field by field: the guest may have changed another one.
            if old.method != new.method {
                p.method = new.method;
            }
            if old.rp_test != new.rp_test {
                p.rp_test = new.rp_test;
            }
            if old.timing != new.timing {
                p.timing = new.timing;
            }
            if old.delays != new.delays {
                p.delays = new.delays;
            }
            if old.refresh != new.refresh {
                p.refresh = new.refresh;
            }
        })?;
        Ok(machine)
    }

    fn build(&self, description: &Description) -> Result<Machine, SnapshotError> {
        let state = self.state()?;
        let mut machine = Machine::new(description)?;
        memory::read(&self.source, &self.chunks, Some(machine.ram()))?;
        machine.load_state(state)?;
        Ok(machine)
    }
}
