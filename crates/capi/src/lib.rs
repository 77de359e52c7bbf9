//! The memory models for programs in C and in languages that can call C.
//!
//! Every function checks its pointers (null, alignment) and returns a status;
//! the handle keeps the text of the latest error. No Rust panic crosses
//! the boundary. Times are picoseconds.
//!
//! # What the caller guarantees
//! What no check can see: that a handle comes from [`nagori_memory_create`],
//! was not destroyed and is used by one thread at a time; that strings end
//! with a zero byte; that buffers are as long as stated. The `unsafe` blocks
//! rest on that, and on nothing else.

mod batch;
mod commands;
mod pointers;
mod saved;

pub use batch::{nagori_memory_submit_all, NagoriRequest};
pub use commands::*;
pub use saved::*;

use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

use nagori_memcfg::Memory;
use nagori_memtime::{Error, Kind, MemoryModel, Ps, Request, Submit};

use pointers::{handle, put, text_in, text_out};

/// Done.
pub const NAGORI_OK: i32 = 0;
/// The request was not accepted: submit it again at the time returned.
pub const NAGORI_BUSY: i32 = 1;
/// There is none: no event is pending.
pub const NAGORI_NONE: i32 = 2;
/// A pointer is null or not aligned.
pub const NAGORI_ERROR_POINTER: i32 = -1;
/// A name, setting or value is not possible.
pub const NAGORI_ERROR_ARGUMENT: i32 = -2;
/// The memory's description is not possible.
pub const NAGORI_ERROR_CONFIG: i32 = -3;
/// The request is outside the memory or has an impossible size.
pub const NAGORI_ERROR_REQUEST: i32 = -4;
/// The time is beyond what the model can represent.
pub const NAGORI_ERROR_TIME: i32 = -5;
/// The buffer is too short: the length needed is returned.
pub const NAGORI_ERROR_BUFFER: i32 = -6;
/// A defect of the library; the handle can only be destroyed.
pub const NAGORI_ERROR_INTERNAL: i32 = -7;
/// This memory has no such thing (device commands to log).
pub const NAGORI_ERROR_UNSUPPORTED: i32 = -8;
/// The saved state is damaged, of another version of the library, or of another memory.
pub const NAGORI_ERROR_SAVED: i32 = -9;

/// A request that reads.
pub const NAGORI_READ: u32 = 0;
/// A request that writes.
pub const NAGORI_WRITE: u32 = 1;

/// Changes whenever a program written for an older header would break.
pub const NAGORI_ABI_VERSION: u32 = 2;

/// A memory. Only pointers to it leave the library.
pub struct NagoriMemory {
    /// What it was made from.
    memory: Memory,
    model: Box<dyn MemoryModel + Send>,
    /// Completions fetched from the model and not yet by the caller.
    done: Vec<nagori_memtime::Completion>,
    /// How many of them the caller has.
    taken: usize,
    log: commands::Log,
    message: String,
    /// Set by a panic.
    broken: bool,
}

/// A finished request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriCompletion {
    /// The request's id.
    pub id: u64,
    /// When the memory accepted it, in ps.
    pub accepted_at: u64,
    /// When it was or will be done, in ps.
    pub done_at: u64,
    /// NAGORI_READ or NAGORI_WRITE.
    pub kind: u32,
    /// 1 if the row (or buffered line) was already open, 0 if not.
    pub row_hit: u32,
}

/// What went wrong: status and text.
type Failure = (i32, String);

fn failure(e: Error) -> Failure {
    let status = match e {
        Error::OutOfRange { .. } | Error::Size { .. } => NAGORI_ERROR_REQUEST,
        Error::TooLate(_) => NAGORI_ERROR_TIME,
        Error::Unsupported { .. } => NAGORI_ERROR_UNSUPPORTED,
        _ => NAGORI_ERROR_ARGUMENT,
    };
    (status, e.to_string())
}

/// Runs `f` on the handle, keeps the text of an error, and stops panics.
fn with(m: *mut NagoriMemory, f: impl FnOnce(&mut NagoriMemory) -> Result<i32, Failure>) -> i32 {
    // SAFETY: `handle` checks null and alignment; the rest is the caller's
    // guarantee for handles.
    let Some(m) = (unsafe { handle(m) }) else {
        return NAGORI_ERROR_POINTER;
    };
    if m.broken {
        return NAGORI_ERROR_INTERNAL;
    }
    match catch_unwind(AssertUnwindSafe(|| f(&mut *m))) {
        Ok(Ok(status)) => status,
        Ok(Err((status, text))) => {
            m.message = text;
            status
        }
        Err(_) => {
            m.broken = true;
            m.message = "internal error: the memory can only be destroyed".to_owned();
            NAGORI_ERROR_INTERNAL
        }
    }
}

fn null(what: &str) -> Failure {
    (
        NAGORI_ERROR_POINTER,
        format!("{what}: null or not aligned; a valid pointer is needed"),
    )
}

/// Version of this interface: compare it with NAGORI_ABI_VERSION.
#[no_mangle]
pub extern "C" fn nagori_abi_version() -> u32 {
    NAGORI_ABI_VERSION
}

/// Makes a memory from a preset's name ("ddr3-1600k", "board", "xpoint")
/// or the path of a description, with `settings_count` strings "key=value".
/// On success `*memory` is the handle; on an error it is null, and `message`
/// (if not null) gets the error's text, cut to `message_size` with its zero byte.
///
/// # Safety
/// `name` and the settings end with a zero byte, `settings` has
/// `settings_count` entries (or is null, with none), `message` has
/// `message_size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_create(
    name: *const c_char,
    settings: *const *const c_char,
    settings_count: usize,
    memory: *mut *mut NagoriMemory,
    message: *mut c_char,
    message_size: usize,
) -> i32 {
    // SAFETY: `put` checks null and alignment of the place for the handle.
    if !unsafe { put(memory, std::ptr::null_mut()) } {
        return NAGORI_ERROR_POINTER;
    }
    let make = || -> Result<NagoriMemory, Failure> {
        // SAFETY: strings end with a zero byte, as the caller guarantees.
        let name = unsafe { text_in(name, "name") }?;
        let mut list = Vec::new();
        for i in 0..settings_count {
            if settings.is_null() || !settings.is_aligned() {
                return Err(null("settings"));
            }
            // SAFETY: not null and aligned; it has `settings_count` entries,
            // each a string, as the caller guarantees.
            list.push(unsafe { text_in(*settings.add(i), "setting") }?);
        }
        let wrong = |e: nagori_memcfg::Error| (NAGORI_ERROR_CONFIG, e.to_string());
        let memory = Memory::load(&name, &list).map_err(wrong)?;
        Ok(NagoriMemory {
            model: memory.build().map_err(wrong)?,
            memory,
            done: Vec::new(),
            taken: 0,
            log: commands::Log::default(),
            message: String::new(),
            broken: false,
        })
    };
    let (status, text) = match catch_unwind(AssertUnwindSafe(make)) {
        Ok(Ok(m)) => {
            // SAFETY: checked above.
            unsafe { put(memory, Box::into_raw(Box::new(m))) };
            return NAGORI_OK;
        }
        Ok(Err(e)) => e,
        Err(_) => (NAGORI_ERROR_INTERNAL, "internal error".to_owned()),
    };
    if !message.is_null() {
        // SAFETY: not null, and `message_size` long by the caller's guarantee.
        unsafe { text_out(&text, message, message_size) };
    }
    status
}

/// Frees a memory; null is ignored.
///
/// # Safety
/// `memory` comes from nagori_memory_create and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_destroy(memory: *mut NagoriMemory) {
    if memory.is_null() || !memory.is_aligned() {
        return;
    }
    // SAFETY: the handle came from `Box::into_raw` and is given back once.
    let m = unsafe { Box::from_raw(memory) };
    let _ = catch_unwind(AssertUnwindSafe(move || drop(m)));
}

/// Size in bytes.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_capacity(memory: *mut NagoriMemory, bytes: *mut u64) -> i32 {
    with(memory, |m| {
        // SAFETY: `put` checks null and alignment.
        match unsafe { put(bytes, m.model.capacity()) } {
            true => Ok(NAGORI_OK),
            false => Err(null("bytes")),
        }
    })
}

/// Period in which cycles are reported, in ps, to the nearest one.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_clock(memory: *mut NagoriMemory, period: *mut u64) -> i32 {
    with(memory, |m| {
        // SAFETY: `put` checks null and alignment.
        match unsafe { put(period, m.model.clock().nearest().0) } {
            true => Ok(NAGORI_OK),
            false => Err(null("period")),
        }
    })
}

fn kind_of(kind: u32) -> Result<Kind, Failure> {
    match kind {
        NAGORI_READ => Ok(Kind::Read),
        NAGORI_WRITE => Ok(Kind::Write),
        k => Err((
            NAGORI_ERROR_ARGUMENT,
            format!("kind {k}: 0 (read) or 1 (write) are possible"),
        )),
    }
}

/// Submits a request of 1 to 64 bytes inside one 64-byte line that arrives at
/// `at` ps (a time before the latest one given is treated as that). Returns
/// NAGORI_BUSY and sets `*busy_until` if there is no room.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_submit(
    memory: *mut NagoriMemory,
    at: u64,
    id: u64,
    addr: u64,
    kind: u32,
    bytes: u32,
    busy_until: *mut u64,
) -> i32 {
    with(memory, |m| {
        let kind = kind_of(kind)?;
        // The place must be good before anything happens.
        if busy_until.is_null() || !busy_until.is_aligned() {
            return Err(null("busy_until"));
        }
        let r = Request {
            id,
            addr,
            kind,
            bytes,
        };
        match m.model.submit(Ps(at), r).map_err(failure)? {
            Submit::Accepted => Ok(NAGORI_OK),
            Submit::Busy(t) => {
                // SAFETY: `put` checks null and alignment.
                unsafe { put(busy_until, t.0) };
                Ok(NAGORI_BUSY)
            }
        }
    })
}

/// The earliest time to which advancing can have an effect, or NAGORI_NONE.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_next_event(memory: *mut NagoriMemory, at: *mut u64) -> i32 {
    with(memory, |m| {
        // A bad place is one whether it is needed or not.
        if at.is_null() || !at.is_aligned() {
            return Err(null("at"));
        }
        let Some(t) = m.model.next_event() else {
            return Ok(NAGORI_NONE);
        };
        // SAFETY: `put` checks null and alignment.
        unsafe { put(at, t.0) };
        Ok(NAGORI_OK)
    })
}

/// Processes everything before `t` ps.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_advance(memory: *mut NagoriMemory, t: u64) -> i32 {
    with(memory, |m| {
        m.model.advance_to(Ps(t)).map_err(failure)?;
        Ok(NAGORI_OK)
    })
}

/// Sends all writes taken so far to the device, including writes that a controller
/// holds back until there are more of them, and advances until they are there:
/// the end of a run. `*end` is the end of the last write in ps (its last data,
/// or its cell write), 0 if there never was one. If it does not lie after `at`, all
/// writes were over by then; some models do not know since when, and say 0.
/// Completions are to be drained afterwards as after nagori_memory_advance.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_flush(
    memory: *mut NagoriMemory,
    at: u64,
    end: *mut u64,
) -> i32 {
    with(memory, |m| {
        // The place must be good before anything happens.
        if end.is_null() || !end.is_aligned() {
            return Err(null("end"));
        }
        let t = m.model.flush(Ps(at)).map_err(failure)?;
        // SAFETY: `put` checks null and alignment.
        unsafe { put(end, t.0) };
        Ok(NAGORI_OK)
    })
}

/// Moves up to `capacity` completions into `out` and sets `*count`; what does
/// not fit stays for the next call.
///
/// # Safety
/// `out` has room for `capacity` completions.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_drain(
    memory: *mut NagoriMemory,
    out: *mut NagoriCompletion,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    with(memory, |m| {
        if capacity > 0 && (out.is_null() || !out.is_aligned()) {
            return Err(null("out"));
        }
        if count.is_null() || !count.is_aligned() {
            return Err(null("count"));
        }
        m.model.drain(&mut m.done);
        let n = capacity.min(m.done.len() - m.taken);
        for (i, c) in m.done[m.taken..m.taken + n].iter().enumerate() {
            let c = NagoriCompletion {
                id: c.id,
                accepted_at: c.accepted_at.0,
                done_at: c.done_at.0,
                kind: match c.kind {
                    Kind::Read => NAGORI_READ,
                    Kind::Write => NAGORI_WRITE,
                },
                row_hit: c.row_hit.into(),
            };
            // SAFETY: not null and aligned (checked); i < capacity, the
            // length that the caller guarantees.
            unsafe { out.add(i).write(c) };
        }
        m.taken += n;
        if m.taken == m.done.len() {
            m.done.clear();
            m.taken = 0;
        }
        // SAFETY: `put` checks null and alignment.
        unsafe { put(count, n) };
        Ok(NAGORI_OK)
    })
}

/// Statistics at `at` ps as JSON with a zero byte. `*needed` (if not null) is
/// the length with the zero byte; if `size` is less, nothing is written and
/// NAGORI_ERROR_BUFFER is returned. To ask for the length, `size` is 0 and `out` may be null.
///
/// # Safety
/// `out` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_stats_json(
    memory: *mut NagoriMemory,
    at: u64,
    out: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    with(memory, |m| {
        if at > Ps::MAX_TIME.0 {
            return Err(failure(Error::TooLate(Ps(at))));
        }
        let text = serde_json::to_string(&m.model.report(Ps(at)))
            .map_err(|e| (NAGORI_ERROR_INTERNAL, e.to_string()))?;
        // SAFETY: `give` checks the pointers; lengths are the caller's guarantee.
        unsafe { give(&text, out, size, needed) }
    })
}

/// Text of the latest error of this memory, empty without any; lengths as for
/// nagori_memory_stats_json.
///
/// # Safety
/// `out` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_message(
    memory: *mut NagoriMemory,
    out: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    // SAFETY: `handle` checks null and alignment.
    let Some(m) = (unsafe { handle(memory) }) else {
        return NAGORI_ERROR_POINTER;
    };
    // SAFETY: as for the statistics.
    unsafe { give(&m.message, out, size, needed) }.unwrap_or_else(|e| e.0)
}

/// Resets the statistics at `at` ps.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_reset_stats(memory: *mut NagoriMemory, at: u64) -> i32 {
    with(memory, |m| {
        m.model.reset_stats(Ps(at)).map_err(failure)?;
        Ok(NAGORI_OK)
    })
}

/// Text with its zero byte into a buffer, whole or not at all.
///
/// # Safety
/// `out` has `size` bytes unless it is null.
unsafe fn give(
    text: &str,
    out: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> Result<i32, Failure> {
    let bytes: Vec<u8> = text.bytes().chain([0]).collect();
    // SAFETY: lengths are the caller's guarantee.
    unsafe { give_bytes(&bytes, out.cast(), size, needed) }
}

/// Bytes into a buffer, whole or not at all.
///
/// # Safety
/// `out` has `size` bytes unless it is null.
pub(crate) unsafe fn give_bytes(
    bytes: &[u8],
    out: *mut u8,
    size: usize,
    needed: *mut usize,
) -> Result<i32, Failure> {
    if out.is_null() && size > 0 {
        return Err(null("out"));
    }
    if !needed.is_null() {
        // SAFETY: `put` checks alignment.
        if !unsafe { put(needed, bytes.len()) } {
            return Err(null("needed"));
        }
    }
    if size < bytes.len() {
        let e = format!("buffer of {size} bytes: {} are needed", bytes.len());
        return Err((NAGORI_ERROR_BUFFER, e));
    }
    // SAFETY: not null (its size is more than 0), and long enough by the caller's guarantee.
    unsafe { pointers::copy_out(bytes, out) };
    Ok(NAGORI_OK)
}
