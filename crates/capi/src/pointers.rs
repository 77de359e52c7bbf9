//! The only places where a pointer from outside is followed.

use std::ffi::{c_char, CStr};

use crate::{null, Failure, NAGORI_ERROR_ARGUMENT};

/// The value behind a handle; `None` if the pointer is null or not aligned.
///
/// # Safety
/// Otherwise it points to a live value that nothing else uses meanwhile.
pub(crate) unsafe fn handle<'a, T>(p: *mut T) -> Option<&'a mut T> {
    if p.is_null() || !p.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned; live and unshared by the caller's guarantee.
    Some(unsafe { &mut *p })
}

/// Writes a value; `false` if the pointer is null or not aligned.
///
/// # Safety
/// Otherwise it points to room for one value.
pub(crate) unsafe fn put<T: Copy>(p: *mut T, v: T) -> bool {
    if p.is_null() || !p.is_aligned() {
        return false;
    }
    // SAFETY: not null, aligned; room for one value by the caller's guarantee.
    unsafe { p.write(v) };
    true
}

/// A string that ends with a zero byte.
///
/// # Safety
/// If not null, it has such an end.
pub(crate) unsafe fn text_in(p: *const c_char, what: &str) -> Result<String, Failure> {
    if p.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; ends with a zero byte by the caller's guarantee.
    let s = unsafe { CStr::from_ptr(p) };
    match s.to_str() {
        Ok(s) => Ok(s.to_owned()),
        Err(_) => Err((
            NAGORI_ERROR_ARGUMENT,
            format!("{what}: {:?} is not UTF-8", s.to_string_lossy()),
        )),
    }
}

/// Bytes that are given by address and length; none if the length is 0.
///
/// # Safety
/// If not null, `p` has `size` bytes that nobody changes meanwhile.
pub(crate) unsafe fn bytes_in<'a>(
    p: *const u8,
    size: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    if p.is_null() {
        return Err(null(what));
    }
    if size > isize::MAX as usize {
        let e = format!("{what}: {size} bytes cannot be in memory");
        return Err((NAGORI_ERROR_ARGUMENT, e));
    }
    // SAFETY: not null, of a possible length, and as long as stated by the caller's guarantee.
    Ok(unsafe { std::slice::from_raw_parts(p, size) })
}

/// Values that are given by address and number; the address may be null if there are none.
///
/// # Safety
/// Otherwise `p` has `count` values that nobody changes meanwhile.
pub(crate) unsafe fn slice_in<'a, T>(
    p: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if p.is_null() || !p.is_aligned() {
        return Err(null(what));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        let e = format!("{what}: {count} of them cannot be in memory");
        return Err((NAGORI_ERROR_ARGUMENT, e));
    }
    // SAFETY: not null, aligned, of a possible length, and as long as stated by the caller's guarantee.
    Ok(unsafe { std::slice::from_raw_parts(p, count) })
}

/// An error if a place for a value is none.
pub(crate) fn place<T>(p: *mut T, what: &str) -> Result<(), Failure> {
    if p.is_null() || !p.is_aligned() {
        Err(null(what))
    } else {
        Ok(())
    }
}

/// Writes text and a zero byte, or as much as fits (cut between characters).
///
/// # Safety
/// `p` is not null and has `size` bytes.
pub(crate) unsafe fn text_out(text: &str, p: *mut c_char, size: usize) {
    if size == 0 {
        return;
    }
    let mut n = text.len().min(size - 1);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    // SAFETY: n < size bytes and the zero byte fit.
    unsafe {
        copy_out(&text.as_bytes()[..n], p.cast());
        p.add(n).write(0);
    }
}

/// Writes bytes.
///
/// # Safety
/// `p` is not null and has room for them.
pub(crate) unsafe fn copy_out(bytes: &[u8], p: *mut u8) {
    // SAFETY: they fit; the areas do not overlap, as the bytes are the library's own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len()) };
}
