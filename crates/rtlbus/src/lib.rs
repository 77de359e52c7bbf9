//! Memory and devices behind a core that is simulated as RTL: two AXI4 ports, one call a clock.
//!
//! The program is loaded as by `nagori bare`; memory is the board's controller with the latencies of the
//! machine's description, devices are those of the bus. So the same description and the same program run on the
//! RTL of a core and on the model. The functions are for C and C++ ([validation/rocket](../../validation/rocket));
//! [`run::Run`] is the same for Rust.
//!
//! # What the caller guarantees
//! What no check can see: that a handle comes from [`nagori_rtl_create`], was not destroyed and is used by one
//! thread at a time; that strings end with a zero byte; that pointers to structures point to such structures. The
//! `unsafe` blocks rest on that, and on nothing else.

pub mod axi;
pub mod error;
pub mod options;
pub mod run;

use axi::{NagoriAxiMaster, NagoriAxiSlave};
use error::Error;
use options::Options;
use run::{NagoriRtlCommit, Run};
use std::ffi::{c_char, c_int, CStr};
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Exit code of a run that was stopped, or that could not go on.
pub const NAGORI_RTL_STOPPED: c_int = 124;
/// Exit code of a run that could not begin.
pub const NAGORI_RTL_USAGE: c_int = 2;

/// A run. Only pointers to it leave the library.
pub struct NagoriRtl {
    run: Run,
    /// It cannot go on: what is wrong was printed.
    failed: bool,
}

fn complain(e: &Error) {
    eprintln!("rtl: {e}");
}

/// The run behind a handle; none if it is null or not aligned.
///
/// # Safety
/// See the top of this file.
unsafe fn handle<'a>(rtl: *mut NagoriRtl) -> Option<&'a mut NagoriRtl> {
    if rtl.is_null() || !rtl.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned; live and unshared by the caller's guarantee.
    Some(unsafe { &mut *rtl })
}

/// A value of the caller; none if the pointer is null or not aligned.
///
/// # Safety
/// See the top of this file.
unsafe fn value<T: Copy>(p: *const T) -> Option<T> {
    if p.is_null() || !p.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned; a structure by the caller's guarantee.
    Some(unsafe { p.read() })
}

/// Begins a run with the arguments of a program, `argv[0]` being its name. Returns null after a message
/// to stderr if that is not possible. The memory port has beats of `width` bytes, 8 or 16.
///
/// # Safety
/// `argv` has `argc` strings, each of which ends with a zero byte.
#[no_mangle]
pub unsafe extern "C" fn nagori_rtl_create(
    argc: c_int,
    argv: *const *const c_char,
    width: c_int,
) -> *mut NagoriRtl {
    let begin = || -> Result<Run, Error> {
        let mut arguments = Vec::new();
        for i in 1..usize::try_from(argc).unwrap_or(0) {
            // SAFETY: `argv` has `argc` entries by the caller's guarantee.
            let text = unsafe { value(argv.wrapping_add(i)) }.filter(|p| !p.is_null());
            let none = || Error::Usage("an argument is null".into());
            // SAFETY: not null; it ends with a zero byte by the caller's guarantee.
            let text = unsafe { CStr::from_ptr(text.ok_or_else(none)?) };
            arguments.push(text.to_string_lossy().into_owned());
        }
        Run::new(
            &Options::parse(&arguments)?,
            u64::try_from(width).unwrap_or(0),
        )
    };
    match catch_unwind(AssertUnwindSafe(begin)) {
        Ok(Ok(run)) => Box::into_raw(Box::new(NagoriRtl { run, failed: false })),
        Ok(Err(e)) => {
            complain(&e);
            std::ptr::null_mut()
        }
        Err(_) => std::ptr::null_mut(),
    }
}

/// What the ports drive in this clock. It depends on nothing that the core drives in the same clock.
/// Returns 0 when the run is over.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_rtl_drive(
    rtl: *mut NagoriRtl,
    memory: *mut NagoriAxiSlave,
    devices: *mut NagoriAxiSlave,
) -> c_int {
    // SAFETY: `handle` checks null and alignment.
    let Some(r) = (unsafe { handle(rtl) }) else {
        return 0;
    };
    for (to, from) in [memory, devices].into_iter().zip(r.run.driven()) {
        if to.is_null() || !to.is_aligned() {
            return 0;
        }
        // SAFETY: not null, aligned; room for a structure by the caller's guarantee.
        unsafe { to.write(*from) };
    }
    (!r.failed && !r.run.is_over()).into()
}

/// The clock edge at the end of a clock, in which the core drove this.
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_rtl_clock(
    rtl: *mut NagoriRtl,
    memory: *const NagoriAxiMaster,
    devices: *const NagoriAxiMaster,
    commit: *const NagoriRtlCommit,
) {
    // SAFETY: `handle` and `value` check null and alignment.
    let all = unsafe { (handle(rtl), value(memory), value(devices), value(commit)) };
    let (Some(r), Some(m), Some(d), Some(c)) = all else {
        return;
    };
    if r.failed {
        return;
    }
    match catch_unwind(AssertUnwindSafe(|| r.run.clock(&m, &d, &c))) {
        Ok(Ok(())) => {}
        Ok(Err(e)) => {
            complain(&e);
            r.failed = true;
        }
        Err(_) => r.failed = true,
    }
}

/// Ends the run, writes its files, prints what the program wrote, frees everything, and returns the exit code.
///
/// # Safety
/// See the top of this header; `rtl` is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn nagori_rtl_finish(rtl: *mut NagoriRtl) -> c_int {
    if rtl.is_null() || !rtl.is_aligned() {
        return NAGORI_RTL_USAGE;
    }
    // SAFETY: the handle came from `Box::into_raw` and is given back once.
    let mut r = unsafe { Box::from_raw(rtl) };
    let ended = catch_unwind(AssertUnwindSafe(move || {
        // Nobody reads it any more if this fails.
        let _ = std::io::stdout().write_all(&r.run.take_output());
        match r.run.finish() {
            Ok(report) if !r.failed => report.exit.map(|code| code as c_int),
            Ok(_) => None,
            Err(e) => {
                complain(&e);
                None
            }
        }
    }));
    ended.ok().flatten().unwrap_or(NAGORI_RTL_STOPPED)
}
