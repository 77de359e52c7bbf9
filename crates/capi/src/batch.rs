//! Many requests in one call.

use crate::pointers::{place, put, slice_in};
use crate::{
    failure, kind_of, null, with, NagoriMemory, NAGORI_BUSY, NAGORI_ERROR_ARGUMENT, NAGORI_OK,
};
use nagori_memtime::{Ps, Request, Submit};

/// A request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriRequest {
    /// When it arrives, in ps.
    pub at: u64,
    /// Its id, which its completion has, too.
    pub id: u64,
    /// Its first byte.
    pub addr: u64,
    /// NAGORI_READ or NAGORI_WRITE.
    pub kind: u32,
    /// Bytes: 1 to 64 inside one 64-byte line.
    pub bytes: u32,
}

/// Submits requests in their order, as nagori_memory_submit does one by one. `*count` is
/// set to how many were accepted; if `accepted_at` is not null, it gets the time of acceptance of each.
///
/// With `wait` 0 it ends before the first request for which there is no room, with NAGORI_BUSY and
/// `*busy_until`. With `wait` 1 each request waits for room, and later ones arrive no earlier than it is accepted.
///
/// If a request is refused, those before it stay accepted, and it is number `*count` (from 0).
///
/// # Safety
/// `requests` has `size` requests, and `accepted_at`, if not null, room for `size` times. See also the top of this
/// header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_submit_all(
    memory: *mut NagoriMemory,
    requests: *const NagoriRequest,
    size: usize,
    wait: u32,
    accepted_at: *mut u64,
    count: *mut usize,
    busy_until: *mut u64,
) -> i32 {
    with(memory, |m| {
        // SAFETY: `slice_in` checks null, alignment and length; the rest is the caller's guarantee.
        let requests = unsafe { slice_in(requests, size, "requests") }?;
        if !accepted_at.is_null() && !accepted_at.is_aligned() {
            return Err(null("accepted_at"));
        }
        place(count, "count")?;
        place(busy_until, "busy_until")?;
        if wait > 1 {
            return Err((
                NAGORI_ERROR_ARGUMENT,
                format!("wait {wait}: 0 or 1 are possible"),
            ));
        }
        // SAFETY: `put` checks null and alignment.
        unsafe { put(count, 0) };
        for (i, r) in requests.iter().enumerate() {
            let request = |e: (i32, String)| (e.0, format!("request {i}: {}", e.1));
            let one = Request {
                id: r.id,
                addr: r.addr,
                kind: kind_of(r.kind).map_err(request)?,
                bytes: r.bytes,
            };
            let at = Ps(r.at);
            let accepted = match wait {
                0 => match m.model.submit(at, one) {
                    Ok(Submit::Accepted) => Ok(at),
                    Ok(Submit::Busy(until)) => {
                        // SAFETY: `put` checks null and alignment.
                        unsafe { put(busy_until, until.0) };
                        return Ok(NAGORI_BUSY);
                    }
                    Err(e) => Err(e),
                },
                _ => m.model.submit_waiting(at, one),
            };
            let accepted = accepted.map_err(|e| request(failure(e)))?;
            if !accepted_at.is_null() {
                // SAFETY: not null and aligned (checked); i < size, the length that the caller guarantees.
                unsafe { accepted_at.add(i).write(accepted.0) };
            }
            // SAFETY: `put` checks null and alignment.
            unsafe { put(count, i + 1) };
        }
        Ok(NAGORI_OK)
    })
}
