//! The state of a memory as bytes.
//!
//! A mark, the version of the format, a checksum of what follows, and the state as JSON. A state is
//! restored into a new model, which replaces the old one only if all of it is good.

use serde::{Deserialize, Serialize};

use nagori_memtime::{Completion, Ps, SavedModel};

use crate::pointers::bytes_in;
use crate::{failure, give_bytes, with, Failure, NagoriMemory};
use crate::{NAGORI_ERROR_CONFIG, NAGORI_ERROR_INTERNAL, NAGORI_ERROR_SAVED, NAGORI_OK};

const MARK: &[u8; 8] = b"nagorimS";
/// Version of the format written.
const VERSION: u32 = 1;
const HEAD: usize = MARK.len() + 4 + 8;

#[derive(Serialize)]
struct State<'a> {
    done: &'a [Completion],
    model: SavedModel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restored {
    done: Vec<Completion>,
    model: SavedModel,
}

/// FNV-1a: finds damage by accident.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn wrong(text: impl Into<String>) -> Failure {
    (NAGORI_ERROR_SAVED, text.into())
}

/// The body of a saved state, if its head is good.
fn body(bytes: &[u8]) -> Result<&[u8], Failure> {
    let Some((mark, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(wrong(format!(
            "{} bytes are too few for a saved memory",
            bytes.len()
        )));
    };
    if mark != MARK {
        return Err(wrong("this is not a saved memory"));
    }
    let Some((version, rest)) = rest.split_first_chunk::<4>() else {
        return Err(wrong("the saved memory is cut off"));
    };
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(wrong(format!(
            "version {version} of a saved memory, this library reads version {VERSION}"
        )));
    }
    let Some((sum, rest)) = rest.split_first_chunk::<8>() else {
        return Err(wrong("the saved memory is cut off"));
    };
    if u64::from_le_bytes(*sum) != checksum(rest) {
        return Err(wrong("the saved memory is damaged"));
    }
    Ok(rest)
}

/// Writes the memory's whole state into `out`: requests under way, completions that were not
/// drained, buffers, wear, statistics, changed parameters; not the log of commands. `*needed` (if not
/// null) is its length; if `size` is less, nothing is written and NAGORI_ERROR_BUFFER is returned.
/// To ask for the length, `size` is 0 and `out` may be null.
///
/// # Safety
/// `out` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_save(
    memory: *mut NagoriMemory,
    out: *mut u8,
    size: usize,
    needed: *mut usize,
) -> i32 {
    with(memory, |m| {
        let state = State {
            done: &m.done[m.taken..],
            model: m.model.save(),
        };
        let body =
            serde_json::to_vec(&state).map_err(|e| (NAGORI_ERROR_INTERNAL, e.to_string()))?;
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend(MARK);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(checksum(&body).to_le_bytes());
        bytes.extend(body);
        // SAFETY: `give_bytes` checks the pointers; lengths are the caller's guarantee.
        unsafe { give_bytes(&bytes, out, size, needed) }
    })
}

/// Puts the memory into a state that nagori_memory_save wrote, of a memory that was created from the same
/// name and settings; it continues exactly as the saved one would. A log of commands stays on or
/// off, and begins empty. NAGORI_ERROR_SAVED if the state is not good: the memory is then as before.
///
/// # Safety
/// `state` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_restore(
    memory: *mut NagoriMemory,
    state: *const u8,
    size: usize,
) -> i32 {
    with(memory, |m| {
        // SAFETY: checked for null; as long as stated by the caller's guarantee.
        let bytes = unsafe { bytes_in(state, size, "state") }?;
        let restored: Restored =
            serde_json::from_slice(body(bytes)?).map_err(|e| wrong(e.to_string()))?;
        let late = |c: &Completion| c.accepted_at.max(c.done_at) > Ps::MAX_TIME;
        if restored.done.iter().any(late) {
            return Err(wrong("completions are beyond the end of time"));
        }
        let mut model = m
            .memory
            .build()
            .map_err(|e| (NAGORI_ERROR_CONFIG, e.to_string()))?;
        model
            .load(restored.model)
            .map_err(|e| wrong(e.to_string()))?;
        if m.log.on {
            model.set_command_log(true).map_err(failure)?;
        }
        m.model = model;
        m.done = restored.done;
        m.taken = 0;
        m.log.clear();
        Ok(NAGORI_OK)
    })
}
