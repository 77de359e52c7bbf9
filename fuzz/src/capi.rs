//! The C interface as a careless caller uses it.

use nagori_capi::*;
use std::ffi::{c_char, CString};
use std::ptr::{null, null_mut};

/// A call: which, flags for null pointers, size, kind, time, address.
const RECORD: usize = 16;
/// Longest step of time, in ps.
const STEP: u64 = 1 << 34;

/// The first line is a memory's name, the next lines up to an empty one are settings, the rest
/// are calls. No status but the documented ones comes back, and never "internal error".
pub fn c_interface(data: &[u8]) {
    let end = data.windows(2).position(|w| w == b"\n\n");
    let (text, calls) = match end {
        Some(i) => (&data[..i], &data[i + 2..]),
        None => (data, &data[..0]),
    };
    // No name or setting may be a path of the host.
    if text.contains(&b'/') || text.contains(&b'\\') {
        return;
    }
    let mut lines = text
        .split(|&b| b == b'\n')
        .map(|l| CString::new(l.split(|&b| b == 0).next().unwrap_or_default()));
    let Some(Ok(name)) = lines.next() else {
        return;
    };
    if name.as_bytes().ends_with(b".toml") {
        return;
    }
    let settings: Vec<CString> = lines.map_while(Result::ok).collect();
    let list: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let mut m = null_mut();
    let mut message = [1 as c_char; 64];
    // SAFETY: strings end with a zero byte; lengths are those of the arrays.
    let status = unsafe {
        nagori_memory_create(
            name.as_ptr(),
            if list.is_empty() {
                null()
            } else {
                list.as_ptr()
            },
            list.len(),
            &mut m,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    assert_ne!(status, NAGORI_ERROR_INTERNAL, "{name:?} {settings:?}");
    assert_eq!(status == NAGORI_OK, !m.is_null());
    if status != NAGORI_OK {
        assert!(message.contains(&0), "a message without end");
        return;
    }
    let mut now = 0u64;
    for (id, c) in calls.chunks_exact(RECORD).take(64).enumerate() {
        let time = u64::from_le_bytes([c[4], c[5], c[6], c[7], 0, 0, 0, 0]);
        // Mostly near, sometimes anywhere.
        let at = if c[1] & 0x80 != 0 && c[1] & 0x40 != 0 {
            u64::from_le_bytes([c[4], c[5], c[6], c[7], c[0], c[1], c[2], c[3]])
        } else {
            now.saturating_add(time % STEP)
        };
        let address = u64::from_le_bytes([c[8], c[9], c[10], c[11], c[12], c[13], c[14], c[15]]);
        let status = call(m, c, id as u64, at, address);
        assert_ne!(status, NAGORI_ERROR_INTERNAL, "call {id}: {c:02x?}");
        if status >= 0 && at < 1 << 50 {
            now = now.max(at);
        }
    }
    // SAFETY: the handle is good, and not used again.
    unsafe { nagori_memory_destroy(m) };
}

fn call(m: *mut NagoriMemory, c: &[u8], id: u64, at: u64, address: u64) -> i32 {
    let bad = c[1] & 1 != 0;
    let mut time = 0u64;
    let place: *mut u64 = if bad { null_mut() } else { &mut time };
    let mut needed = 0usize;
    let size = usize::from(c[2]);
    let mut buffer = [0 as c_char; 256];
    let mut done = [NagoriCompletion::default(); 256];
    // SAFETY: pointers are null or good for the call, lengths those of the arrays or less.
    unsafe {
        match c[0] % 9 {
            0..=2 => nagori_memory_submit(
                m,
                at,
                id,
                address % (1 << 36) & if c[1] & 2 != 0 { u64::MAX } else { !63 },
                u32::from(c[3] % 3),
                if c[1] & 4 != 0 { u32::from(c[2]) } else { 64 },
                place,
            ),
            3 => nagori_memory_next_event(m, place),
            4 => nagori_memory_advance(m, at),
            5 => {
                let out = if bad { null_mut() } else { done.as_mut_ptr() };
                nagori_memory_drain(m, out, size, &mut needed)
            }
            6 => {
                let out = if bad { null_mut() } else { buffer.as_mut_ptr() };
                let size = if bad { 0 } else { size };
                nagori_memory_stats_json(m, at, out, size, &mut needed)
            }
            7 => {
                let out = buffer.as_mut_ptr();
                nagori_memory_message(m, out, size, null_mut())
            }
            _ => restore(m, address, c[3]),
        }
    }
}

/// Saves the memory, changes a byte of the state (or none), and restores it.
fn restore(m: *mut NagoriMemory, place: u64, change: u8) -> i32 {
    const HEAD: usize = 20;
    let mut needed = 0usize;
    // SAFETY: the handle is good, and the vector has the length asked for.
    unsafe {
        nagori_memory_save(m, null_mut(), 0, &mut needed);
        let mut state = vec![0u8; needed];
        let status = nagori_memory_save(m, state.as_mut_ptr(), needed, null_mut());
        if status != NAGORI_OK {
            return status;
        }
        state[place as usize % needed] ^= change;
        if place >> 63 == 0 {
            // With the checksum that belongs to it (FNV-1a), so that the model sees the change.
            let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
            let sum = state[HEAD..].iter().fold(0xcbf2_9ce4_8422_2325, step);
            state[12..HEAD].copy_from_slice(&sum.to_le_bytes());
        }
        let status = nagori_memory_restore(m, state.as_ptr(), state.len());
        assert!(matches!(status, NAGORI_OK | NAGORI_ERROR_SAVED), "{status}");
        status
    }
}
