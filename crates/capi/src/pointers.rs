//! The only places where a pointer from outside is followed.

use std::ffi::{c_char, CStr};

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
pub(crate) unsafe fn text_in(p: *const c_char) -> Result<String, String> {
    if p.is_null() {
        return Err("a string is null: text that ends with a zero byte is needed".to_owned());
    }
    // SAFETY: not null; ends with a zero byte by the caller's guarantee.
    let s = unsafe { CStr::from_ptr(p) };
    match s.to_str() {
        Ok(s) => Ok(s.to_owned()),
        Err(_) => Err(format!("{:?} is not UTF-8", s.to_string_lossy())),
    }
}

/// Writes text and a zero byte; with `cut`, as much as fits (cut between
/// characters).
///
/// # Safety
/// `p` is not null and has `size` bytes; without `cut`, more than the text has.
pub(crate) unsafe fn bytes_out(text: &str, p: *mut c_char, size: usize, cut: bool) {
    if size == 0 {
        return;
    }
    let mut n = text.len();
    if cut && n >= size {
        n = size - 1;
        while !text.is_char_boundary(n) {
            n -= 1;
        }
    }
    // SAFETY: n < size bytes and the zero byte fit; the areas do not overlap,
    // as the text is the library's own.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), p.cast::<u8>(), n);
        p.add(n).write(0);
    }
}
