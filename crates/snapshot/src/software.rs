//! The part of a snapshot that a restart loads: firmware, kernel and other initial contents of
//! memory.
//!
//! A list in CBOR, preceded by its length (u32), and followed by the bytes of all segments.

use crate::error::SnapshotError;
use nagori_platform::loader::{EntryState, Plan, Role, Segment, Software};
use serde::{Deserialize, Serialize};

/// Longest list.
const MAX_LIST: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    segments: Vec<Entry>,
    entry: EntryState,
    timed: bool,
    tohost: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    role: Role,
    addr: u64,
    bytes: u64,
    memory_size: u64,
}

/// Serialises it; empty if there is no software.
pub(crate) fn encode(software: Option<&Software>) -> Result<Vec<u8>, SnapshotError> {
    let Some(s) = software else {
        return Ok(Vec::new());
    };
    let entries = s.plan.segments.iter().map(|s| Entry {
        role: s.role,
        addr: s.addr,
        bytes: s.bytes.len() as u64,
        memory_size: s.memory_size,
    });
    let list = List {
        segments: entries.collect(),
        entry: s.plan.entry,
        timed: s.timed,
        tohost: s.tohost,
    };
    let mut out = vec![0; 4];
    ciborium::into_writer(&list, &mut out).map_err(SnapshotError::encode)?;
    let len = u32::try_from(out.len() - 4).ok();
    let len = len.filter(|n| *n as usize <= MAX_LIST);
    let len = len.ok_or_else(|| SnapshotError::Encode("too many segments".into()))?;
    out[..4].copy_from_slice(&len.to_le_bytes());
    for s in &s.plan.segments {
        out.extend(&s.bytes);
    }
    Ok(out)
}

/// Parses it, for a machine with memory in this range.
pub(crate) fn decode(
    bytes: &[u8],
    ram_base: u64,
    ram_bytes: u64,
) -> Result<Option<Software>, SnapshotError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad = SnapshotError::Damaged("the software is not what this program writes");
    let parsed = || -> Option<Software> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        let (list, mut rest) = rest.split_at_checked(len.min(MAX_LIST))?;
        let list: List = ciborium::from_reader(list).ok()?;
        let mut segments = Vec::new();
        for e in list.segments {
            let (bytes, more) = rest.split_at_checked(usize::try_from(e.bytes).ok()?)?;
            rest = more;
            let offset = e.addr.checked_sub(ram_base)?;
            let size = e.memory_size.max(e.bytes);
            if offset.checked_add(size)? > ram_bytes {
                return None;
            }
            segments.push(Segment {
                role: e.role,
                addr: e.addr,
                bytes: bytes.to_vec(),
                memory_size: e.memory_size,
            });
        }
        let outside = |a: &u64| a.checked_sub(ram_base).is_none_or(|o| o > ram_bytes - 8);
        if !rest.is_empty() || list.tohost.as_ref().is_some_and(outside) {
            return None;
        }
        Some(Software {
            plan: Plan {
                warnings: Vec::new(),
                segments,
                entry: list.entry,
            },
            timed: list.timed,
            tohost: list.tohost,
        })
    };
    parsed().map(Some).ok_or(bad)
}
