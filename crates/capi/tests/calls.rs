//! Each function called as C would, with good and with bad arguments.

use nagori_capi::*;
use std::ffi::{c_char, CStr, CString};
use std::ptr::{null, null_mut};

fn create(name: &str, settings: &[&str]) -> Result<*mut NagoriMemory, (i32, String)> {
    let name = CString::new(name).unwrap();
    let owned: Vec<CString> = settings.iter().map(|s| CString::new(*s).unwrap()).collect();
    let list: Vec<*const c_char> = owned.iter().map(|s| s.as_ptr()).collect();
    let mut m = null_mut();
    let mut text = [0 as c_char; 200];
    // SAFETY: all pointers are good for the call.
    let s = unsafe {
        nagori_memory_create(
            name.as_ptr(),
            list.as_ptr(),
            list.len(),
            &mut m,
            text.as_mut_ptr(),
            text.len(),
        )
    };
    if s == NAGORI_OK {
        return Ok(m);
    }
    assert!(m.is_null());
    // SAFETY: the library ends the text.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Err((s, text.to_str().unwrap().to_owned()))
}

fn message(m: *mut NagoriMemory) -> String {
    let mut text = [0 as c_char; 400];
    // SAFETY: good pointers.
    unsafe {
        let s = nagori_memory_message(m, text.as_mut_ptr(), text.len(), null_mut());
        assert_eq!(s, NAGORI_OK);
        CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned()
    }
}

#[test]
fn names_and_settings() {
    let e = create("no-such-memory", &[]).unwrap_err();
    assert_eq!(e.0, NAGORI_ERROR_CONFIG);
    assert!(e.1.contains("no-such-memory"), "{}", e.1);
    for bad in [
        "nothing",
        "xpoint.media_raed=3 ns",
        "xpoint.media_read=3",
        "xpoint.line_bytes=100",
    ] {
        let e = create("xpoint", &[bad]).unwrap_err();
        assert_eq!(e.0, NAGORI_ERROR_CONFIG, "{bad}");
        let key = bad.split(['=', '.']).next().unwrap();
        assert!(e.1.contains(key), "{bad}: {}", e.1);
    }
    let m = create("xpoint", &["xpoint.media_read=500 ns"]).unwrap();
    // SAFETY: good pointers, destroyed once.
    unsafe {
        let mut until = 0;
        assert_eq!(
            nagori_memory_submit(m, 0, 7, 0, NAGORI_READ, 64, &mut until),
            NAGORI_OK
        );
        let mut c = [NagoriCompletion::default(); 2];
        let mut n = 9;
        assert_eq!(nagori_memory_drain(m, c.as_mut_ptr(), 2, &mut n), NAGORI_OK);
        assert_eq!((n, c[0].id, c[0].kind), (1, 7, NAGORI_READ));
        assert_eq!(c[0].done_at, (3 + 67 + 500 + 80 + 100) * 1000);
        nagori_memory_destroy(m);
    }
}

#[test]
fn bad_pointers_and_arguments() {
    let m = create("xpoint", &[]).unwrap();
    // SAFETY: null and misaligned pointers are what is tested; the others are good.
    unsafe {
        let p = NAGORI_ERROR_POINTER;
        let name = CString::new("xpoint").unwrap();
        let mut h = null_mut();
        assert_eq!(
            nagori_memory_create(name.as_ptr(), null(), 0, null_mut(), null_mut(), 0),
            p
        );
        assert_eq!(
            nagori_memory_create(null(), null(), 0, &mut h, null_mut(), 0),
            p
        );
        let missing = [null::<c_char>()];
        assert_eq!(
            nagori_memory_create(name.as_ptr(), missing.as_ptr(), 1, &mut h, null_mut(), 0),
            p
        );
        assert_eq!(
            nagori_memory_create(name.as_ptr(), null(), 1, &mut h, null_mut(), 0),
            p
        );
        let bytes = [0xffu8 as c_char, 0];
        assert_eq!(
            nagori_memory_create(bytes.as_ptr(), null(), 0, &mut h, null_mut(), 0),
            NAGORI_ERROR_ARGUMENT
        );
        assert!(h.is_null());
        let (mut u, mut n) = (0u64, 0usize);
        let odd = (&mut u as *mut u64)
            .cast::<u8>()
            .wrapping_add(1)
            .cast::<u64>();
        for bad in [null_mut(), (m as usize + 1) as *mut NagoriMemory] {
            assert_eq!(nagori_memory_capacity(bad, &mut u), p);
            assert_eq!(nagori_memory_clock(bad, &mut u), p);
            assert_eq!(nagori_memory_submit(bad, 0, 0, 0, 0, 64, &mut u), p);
            assert_eq!(nagori_memory_next_event(bad, &mut u), p);
            assert_eq!(nagori_memory_advance(bad, 0), p);
            assert_eq!(nagori_memory_flush(bad, 0, &mut u), p);
            assert_eq!(nagori_memory_drain(bad, null_mut(), 0, &mut n), p);
            assert_eq!(nagori_memory_stats_json(bad, 0, null_mut(), 0, &mut n), p);
            assert_eq!(nagori_memory_message(bad, null_mut(), 0, &mut n), p);
            assert_eq!(nagori_memory_reset_stats(bad, 0), p);
            assert_eq!(nagori_memory_set_command_log(bad, 1), p);
            assert_eq!(nagori_memory_take_commands(bad, null_mut(), 0, &mut n), p);
            assert_eq!(nagori_memory_save(bad, null_mut(), 0, &mut n), p);
            assert_eq!(nagori_memory_restore(bad, bytes.as_ptr().cast(), 2), p);
            nagori_memory_destroy(bad);
        }
        for bad in [null_mut(), odd] {
            assert_eq!(nagori_memory_capacity(m, bad), p);
            assert_eq!(nagori_memory_clock(m, bad), p);
            assert_eq!(nagori_memory_submit(m, 0, 0, 0, 0, 64, bad), p);
            assert_eq!(nagori_memory_flush(m, 0, bad), p);
            // Also where no event is pending.
            assert_eq!(nagori_memory_next_event(m, bad), p);
            let count = bad.cast::<usize>();
            assert_eq!(nagori_memory_drain(m, null_mut(), 0, count), p);
            assert_eq!(nagori_memory_take_commands(m, null_mut(), 0, count), p);
        }
        for size in [1, 1 << 20] {
            assert_eq!(nagori_memory_stats_json(m, 0, null_mut(), size, &mut n), p);
            assert_eq!(nagori_memory_message(m, null_mut(), size, &mut n), p);
            assert_eq!(nagori_memory_save(m, null_mut(), size, &mut n), p);
        }
        let odd = odd.cast::<usize>();
        assert_eq!(nagori_memory_stats_json(m, 0, null_mut(), 0, odd), p);
        assert_eq!(nagori_memory_message(m, null_mut(), 0, odd), p);
        assert_eq!(nagori_memory_save(m, null_mut(), 0, odd), p);
        assert_eq!(nagori_memory_restore(m, null(), 0), p);
        let commands = (&mut u as *mut u64).cast::<NagoriCommand>();
        let misplaced = commands.cast::<u8>().wrapping_add(1).cast();
        assert_eq!(nagori_memory_take_commands(m, null_mut(), 1, &mut n), p);
        assert_eq!(nagori_memory_take_commands(m, misplaced, 1, &mut n), p);
        let misplaced = commands.cast::<u8>().wrapping_add(1).cast();
        assert_eq!(nagori_memory_drain(m, misplaced, 1, &mut n), p);
        assert_eq!(nagori_memory_set_command_log(m, 2), NAGORI_ERROR_ARGUMENT);
        assert_eq!(
            nagori_memory_set_command_log(m, 1),
            NAGORI_ERROR_UNSUPPORTED
        );
        assert!(message(m).contains("commands"), "{}", message(m));
        assert_eq!(nagori_memory_reset_stats(m, u64::MAX), NAGORI_ERROR_TIME);
        assert_eq!(nagori_memory_drain(m, null_mut(), 1, &mut n), p);
        assert_eq!(nagori_memory_drain(m, null_mut(), 0, null_mut()), p);
        assert!(message(m).contains("count"));
        let submit = |at, addr, kind, bytes| {
            let mut u = 0;
            nagori_memory_submit(m, at, 0, addr, kind, bytes, &mut u)
        };
        assert_eq!(submit(0, 0, 2, 64), NAGORI_ERROR_ARGUMENT);
        assert!(message(m).contains("kind 2"));
        assert_eq!(submit(0, 1 << 37, 0, 64), NAGORI_ERROR_REQUEST);
        assert_eq!(submit(0, 1, 0, 64), NAGORI_ERROR_REQUEST);
        assert_eq!(submit(u64::MAX, 0, 0, 64), NAGORI_ERROR_TIME);
        assert_eq!(nagori_memory_advance(m, u64::MAX), NAGORI_ERROR_TIME);
        assert_eq!(nagori_memory_flush(m, u64::MAX, &mut u), NAGORI_ERROR_TIME);
        assert_eq!(
            nagori_memory_stats_json(m, u64::MAX, null_mut(), 0, &mut n),
            NAGORI_ERROR_TIME
        );
        // None of this reached the memory.
        assert_eq!(nagori_memory_next_event(m, &mut u), NAGORI_NONE);
        nagori_memory_destroy(m);
        nagori_memory_destroy(null_mut());
    }
}

#[test]
fn busy_pieces_and_statistics() {
    let m = create("xpoint", &[]).unwrap();
    // SAFETY: good pointers, destroyed once.
    unsafe {
        let (mut n, mut u) = (0, 0);
        let taken = (0..100)
            .take_while(|i| {
                nagori_memory_submit(m, 0, *i, i * 4096, NAGORI_READ, 64, &mut u) == NAGORI_OK
            })
            .count();
        assert_eq!(taken, 48);
        assert!(u > 0);
        assert_eq!(nagori_memory_advance(m, u), NAGORI_OK);
        assert_eq!(
            nagori_memory_submit(m, u, 99, 0, NAGORI_READ, 64, &mut u),
            NAGORI_OK
        );
        // Completions in pieces, none lost.
        let mut c = [NagoriCompletion::default(); 20];
        let mut ids = Vec::new();
        for want in [20, 20, 9, 0] {
            assert_eq!(
                nagori_memory_drain(m, c.as_mut_ptr(), 20, &mut n),
                NAGORI_OK
            );
            assert_eq!(n, want);
            ids.extend(c[..n].iter().map(|c| c.id));
        }
        assert_eq!(ids, (0..48).chain([99]).collect::<Vec<_>>());
        let mut needed = 0;
        let s = nagori_memory_stats_json(m, 0, null_mut(), 0, &mut needed);
        assert_eq!(s, NAGORI_ERROR_BUFFER);
        let mut text = vec![0x55 as c_char; needed];
        let s = nagori_memory_stats_json(m, 0, text.as_mut_ptr(), needed - 1, null_mut());
        assert_eq!((s, text[0]), (NAGORI_ERROR_BUFFER, 0x55));
        let s = nagori_memory_stats_json(m, 0, text.as_mut_ptr(), needed, null_mut());
        assert_eq!(s, NAGORI_OK);
        let text = CStr::from_ptr(text.as_ptr()).to_str().unwrap();
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(json["regions"][0]["counters"]["reads"], 49);
        assert_eq!(nagori_memory_reset_stats(m, 0), NAGORI_OK);
        nagori_memory_destroy(m);
    }
}

#[test]
fn a_flush_sends_what_was_posted() {
    let m = create("ddr3-1600k", &["controller.refresh=off"]).unwrap();
    // SAFETY: good pointers, destroyed once.
    unsafe {
        let (mut u, mut end) = (0, 7);
        assert_eq!(nagori_memory_flush(m, 0, &mut end), NAGORI_OK);
        assert_eq!(end, 0, "no write yet");
        for i in 0..8 {
            let s = nagori_memory_submit(m, 0, i, i * 64, NAGORI_WRITE, 64, &mut u);
            assert_eq!(s, NAGORI_OK);
        }
        assert_eq!(nagori_memory_flush(m, 0, &mut end), NAGORI_OK);
        // tRCD, a burst every tCCD, CWL and BL/2.
        assert_eq!(end, (11 + 7 * 4 + 8 + 4) * 1250);
        assert_eq!(nagori_memory_next_event(m, &mut u), NAGORI_NONE);
        nagori_memory_destroy(m);
    }
}

#[test]
fn version() {
    assert_eq!(nagori_abi_version(), NAGORI_ABI_VERSION);
}

/// Requests to random lines, two a nanosecond, and what a memory answers one by one.
fn stream(count: u64) -> Vec<NagoriRequest> {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        state >> 33
    };
    let one = |i| NagoriRequest {
        at: i * 500,
        id: i,
        addr: next() % (1 << 20) * 64,
        kind: u32::from(next() % 3 == 0),
        bytes: 64,
    };
    (0..count).map(one).collect()
}

fn finish(m: *mut NagoriMemory) -> Vec<NagoriCompletion> {
    let mut all = Vec::new();
    // SAFETY: good pointers, destroyed once.
    unsafe {
        let (mut at, mut n) = (0, 0);
        while nagori_memory_next_event(m, &mut at) == NAGORI_OK {
            assert_eq!(nagori_memory_advance(m, at), NAGORI_OK);
        }
        let mut c = [NagoriCompletion::default(); 64];
        loop {
            assert_eq!(
                nagori_memory_drain(m, c.as_mut_ptr(), 64, &mut n),
                NAGORI_OK
            );
            all.extend(&c[..n]);
            if n < 64 {
                break;
            }
        }
        nagori_memory_destroy(m);
    }
    all
}

#[test]
fn requests_at_once_are_those_one_by_one() {
    let requests = stream(2000);
    for name in ["ddr4", "pcm", "xpoint"] {
        // One by one, each waiting for room.
        let m = create(name, &[]).unwrap();
        let mut single = Vec::new();
        // SAFETY: good pointers.
        unsafe {
            let mut at = 0;
            for r in &requests {
                at = at.max(r.at);
                let mut until = 0;
                while nagori_memory_submit(m, at, r.id, r.addr, r.kind, r.bytes, &mut until)
                    == NAGORI_BUSY
                {
                    at = until;
                }
                single.push(at);
            }
        }
        let single = (single, finish(m));
        for (wait, size) in [(1, 2000), (1, 7), (0, 33)] {
            let m = create(name, &[]).unwrap();
            let mut mine = requests.clone();
            let mut accepted = vec![0; mine.len()];
            let (mut done, mut busy) = (0, 0);
            while done < mine.len() {
                let rest = &mine[done..];
                let rest = &rest[..rest.len().min(size)];
                let mut n = 9;
                // SAFETY: good pointers, and as many as stated.
                let status = unsafe {
                    nagori_memory_submit_all(
                        m,
                        rest.as_ptr(),
                        rest.len(),
                        wait,
                        accepted[done..].as_mut_ptr(),
                        &mut n,
                        &mut busy,
                    )
                };
                done += n;
                if status == NAGORI_BUSY {
                    assert_eq!(wait, 0);
                    mine[done].at = busy;
                } else {
                    assert_eq!((status, n), (NAGORI_OK, rest.len()));
                }
            }
            // A time before the latest one counts as that.
            let latest = accepted.iter().scan(0, |l, t| {
                *l = (*l).max(*t);
                Some(*l)
            });
            let latest: Vec<u64> = latest.collect();
            assert!(latest == single.0, "{name}, {wait}, {size}");
            assert!(finish(m) == single.1, "{name}, {wait}, {size}");
        }
    }
}

#[test]
fn a_request_that_is_refused_ends_the_batch() {
    let m = create("ddr4", &[]).unwrap();
    let mut requests = stream(5);
    requests[3].bytes = 65;
    let (mut n, mut busy) = (9, 0);
    // SAFETY: null and misaligned pointers are what is tested; the others are good.
    unsafe {
        let mut all = |r: &[NagoriRequest], size, wait| {
            nagori_memory_submit_all(m, r.as_ptr(), size, wait, null_mut(), &mut n, &mut busy)
        };
        assert_eq!(all(&requests, 5, 2), NAGORI_ERROR_ARGUMENT);
        assert_eq!(all(&requests, 5, 0), NAGORI_ERROR_REQUEST);
        assert_eq!(n, 3);
        let mut text = [0 as c_char; 200];
        nagori_memory_message(m, text.as_mut_ptr(), 200, null_mut());
        let text = std::ffi::CStr::from_ptr(text.as_ptr()).to_string_lossy();
        assert!(text.starts_with("request 3: "), "{text}");
        let p = NAGORI_ERROR_POINTER;
        let good = requests.as_ptr();
        let time = &mut busy as *mut u64;
        for (r, size, times, count, busy) in [
            (null(), 1, null_mut(), &mut n as *mut usize, time),
            (good, 1, time.wrapping_byte_add(1), &mut n, time),
            (good, 1, null_mut(), null_mut(), time),
            (good, 1, null_mut(), &mut n, null_mut()),
            (good.wrapping_byte_add(1), 1, null_mut(), &mut n, time),
        ] {
            assert_eq!(
                nagori_memory_submit_all(m, r, size, 0, times, count, busy),
                p
            );
        }
        assert_eq!(
            nagori_memory_submit_all(m, null(), 0, 0, null_mut(), &mut n, time),
            NAGORI_OK
        );
        nagori_memory_destroy(m);
    }
}

/// Requests anywhere in 64 bits are accepted if they are in one line of the memory, and refused
/// otherwise; none becomes another one.
#[test]
fn requests_at_the_ends_of_memory_and_of_addresses() {
    for name in [
        "board",
        "cxl",
        "ddr4",
        "dram-cache",
        "hybrid",
        "pcm-levelled",
        "xpoint",
        "xpoint-x6",
    ] {
        let m = create(name, &[]).unwrap();
        // SAFETY: good pointers, destroyed once.
        unsafe {
            let (mut capacity, mut until, mut id) = (0u64, 0u64, 0u64);
            assert_eq!(nagori_memory_capacity(m, &mut capacity), NAGORI_OK);
            let near =
                |at: u64| (0..130).flat_map(move |d| [at.wrapping_sub(d), at.wrapping_add(d)]);
            let ends = [0, capacity, 1 << 63, u64::MAX].into_iter().flat_map(near);
            for addr in ends.collect::<std::collections::BTreeSet<_>>() {
                for bytes in [0, 1, 2, 63, 64, 65, 1 << 20, u32::MAX] {
                    let inside = (1..=64).contains(&bytes)
                        && addr % 64 + u64::from(bytes) <= 64
                        && addr < capacity;
                    let at = id * 1_000_000;
                    let s = nagori_memory_submit(m, at, id, addr, NAGORI_READ, bytes, &mut until);
                    let right = if inside {
                        s == NAGORI_OK
                    } else {
                        s == NAGORI_ERROR_REQUEST
                    };
                    assert!(right, "{name} {addr:#x} {bytes}: {s} {}", message(m));
                    id += 1;
                }
            }
            nagori_memory_destroy(m);
        }
    }
}
