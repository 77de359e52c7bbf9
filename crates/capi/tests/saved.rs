//! Saved memories: they continue as the original does, and no damaged one gets in.

use nagori_capi::*;
use proptest::prelude::*;
use std::ffi::{c_char, CString};
use std::ptr::{null, null_mut};

/// A memory that is destroyed at the end.
struct Handle(*mut NagoriMemory);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `create` and destroyed once.
        unsafe { nagori_memory_destroy(self.0) }
    }
}

fn create(name: &str, setting: Option<&str>) -> Handle {
    let name = CString::new(name).unwrap();
    let setting = setting.map(|s| CString::new(s).unwrap());
    let list: Vec<*const c_char> = setting.iter().map(|s| s.as_ptr()).collect();
    let mut m = null_mut();
    // SAFETY: all pointers are good for the call.
    let s = unsafe {
        nagori_memory_create(
            name.as_ptr(),
            list.as_ptr(),
            list.len(),
            &mut m,
            null_mut(),
            0,
        )
    };
    assert_eq!(s, NAGORI_OK);
    Handle(m)
}

fn save(m: &Handle) -> Vec<u8> {
    let mut needed = 0;
    // SAFETY: good pointers; the vector has the length asked for.
    unsafe {
        assert_eq!(
            nagori_memory_save(m.0, null_mut(), 0, &mut needed),
            NAGORI_ERROR_BUFFER
        );
        let mut state = vec![0x55; needed];
        let short = nagori_memory_save(m.0, state.as_mut_ptr(), needed - 1, null_mut());
        assert_eq!((short, state[0]), (NAGORI_ERROR_BUFFER, 0x55));
        assert_eq!(
            nagori_memory_save(m.0, state.as_mut_ptr(), needed, null_mut()),
            NAGORI_OK
        );
        state
    }
}

fn restore(m: &Handle, state: &[u8]) -> i32 {
    // SAFETY: good pointers.
    unsafe { nagori_memory_restore(m.0, state.as_ptr(), state.len()) }
}

fn message(m: &Handle) -> String {
    let mut text = [0u8; 400];
    // SAFETY: good pointers.
    let s = unsafe { nagori_memory_message(m.0, text.as_mut_ptr().cast(), text.len(), null_mut()) };
    assert_eq!(s, NAGORI_OK);
    let end = text.iter().position(|b| *b == 0).unwrap();
    String::from_utf8(text[..end].to_vec()).unwrap()
}

/// Plays requests; returns the time of the last one.
fn play(m: &Handle, mut t: u64, ids: std::ops::Range<u64>) -> u64 {
    for id in ids {
        let addr = id.wrapping_mul(2_654_435_761) % (1 << 24) / 64 * 64;
        let kind = if id % 3 == 2 {
            NAGORI_WRITE
        } else {
            NAGORI_READ
        };
        // SAFETY: good pointers.
        while unsafe { nagori_memory_submit(m.0, t, id, addr, kind, 64, &mut t) } != NAGORI_OK {}
    }
    t
}

/// Takes up to `most` completions.
fn drain(m: &Handle, most: usize) -> Vec<NagoriCompletion> {
    let mut c = vec![NagoriCompletion::default(); most];
    let mut n = 0;
    // SAFETY: good pointers.
    assert_eq!(
        unsafe { nagori_memory_drain(m.0, c.as_mut_ptr(), most, &mut n) },
        NAGORI_OK
    );
    c.truncate(n);
    c
}

fn statistics(m: &Handle, at: u64) -> String {
    let mut text = vec![0u8; 1 << 20];
    let (out, size) = (text.as_mut_ptr().cast(), text.len());
    // SAFETY: good pointers.
    let s = unsafe { nagori_memory_stats_json(m.0, at, out, size, null_mut()) };
    assert_eq!(s, NAGORI_OK);
    let end = text.iter().position(|b| *b == 0).unwrap();
    String::from_utf8(text[..end].to_vec()).unwrap()
}

/// Everything that can be seen of the rest of a run.
fn rest(m: &Handle, t: u64) -> (Vec<NagoriCompletion>, u64, String) {
    let t = play(m, t, 1000..2000);
    let mut end = 0;
    // SAFETY: good pointers.
    assert_eq!(unsafe { nagori_memory_flush(m.0, t, &mut end) }, NAGORI_OK);
    (drain(m, 10_000), end, statistics(m, end.max(t)))
}

const MEMORIES: [&str; 8] = [
    "ddr3",
    "ddr4",
    "pcm",
    "board",
    "xpoint",
    "xpoint-x6",
    "cxl",
    "dram-cache",
];

#[test]
fn a_restored_memory_goes_on_as_the_saved_one() {
    for name in MEMORIES {
        let m = create(name, None);
        let t = play(&m, 0, 0..1000);
        // Some completions were taken, the others must not be lost.
        assert_eq!(drain(&m, 7).len(), 7);
        let state = save(&m);
        let want = rest(&m, t);
        assert!(want.0.len() > 1000, "{name}");
        for _ in 0..2 {
            let other = create(name, None);
            play(&other, 0, 5000..5100);
            assert_eq!(
                restore(&other, &state),
                NAGORI_OK,
                "{name}: {}",
                message(&other)
            );
            assert_eq!(save(&other), state, "{name}");
            assert!(rest(&other, t) == want, "{name}");
        }
        // Back in the same memory, too.
        assert_eq!(restore(&m, &state), NAGORI_OK);
        assert!(rest(&m, t) == want, "{name}");
    }
}

#[test]
fn commands_of_the_rest_are_the_same() {
    let commands = |m: &Handle| {
        let mut all: Vec<NagoriCommand> = Vec::new();
        loop {
            let mut c = [NagoriCommand::default(); 50];
            let mut n = 0;
            // SAFETY: good pointers.
            let s = unsafe { nagori_memory_take_commands(m.0, c.as_mut_ptr(), 50, &mut n) };
            assert_eq!(s, NAGORI_OK);
            all.extend(&c[..n]);
            if n < 50 {
                return all;
            }
        }
    };
    let m = create("ddr3-1600k", None);
    assert!(commands(&m).is_empty());
    // SAFETY: good pointers.
    let log = |m: &Handle, on| unsafe { nagori_memory_set_command_log(m.0, on) };
    assert_eq!(log(&m, 1), NAGORI_OK);
    let t = play(&m, 0, 0..1000);
    let state = save(&m);
    let before = commands(&m);
    assert!(before.len() > 1000 && before.windows(2).all(|w| w[0].at <= w[1].at));
    let name = |c: &NagoriCommand| -> String {
        let text = c.name.iter().take_while(|b| **b != 0);
        text.map(|b| *b as u8 as char).collect()
    };
    assert_eq!(name(&before[0]), "ACT");
    // A clock of DDR3-1600 is 1250 ps.
    assert!(before.iter().all(|c| c.at == c.clock * 1250));
    rest(&m, t);
    let after = commands(&m);
    let other = create("ddr3-1600k", None);
    assert_eq!(log(&other, 1), NAGORI_OK);
    play(&other, 0, 0..10);
    assert_eq!(restore(&other, &state), NAGORI_OK);
    rest(&other, t);
    assert_eq!(commands(&other), after);
    assert_eq!(log(&other, 0), NAGORI_OK);
    play(&other, t + 1_000_000_000, 0..10);
    assert!(commands(&other).is_empty());
}

/// FNV-1a, as in the format.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The state with another body, and the checksum that belongs to it.
fn with_body(state: &[u8], body: &[u8]) -> Vec<u8> {
    let mut all = state[..12].to_vec();
    all.extend(checksum(body).to_le_bytes());
    all.extend(body);
    all
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let m = create("xpoint", None);
    let t = play(&m, 0, 0..1000);
    let state = save(&m);
    let refused = |state: &[u8], why: &str| {
        assert_eq!(restore(&m, state), NAGORI_ERROR_SAVED, "{why}");
        assert!(message(&m).contains(why), "{why}: {}", message(&m));
        // It is as before.
        assert!(save(&m) == *save(&m) && drain(&m, 0).is_empty());
    };
    refused(&[], "too few");
    refused(b"nagori", "too few");
    refused(&[0; 100], "not a saved memory");
    for n in [8, 11, 12, 19] {
        refused(&state[..n], "cut off");
    }
    for n in [20, 100, state.len() - 1] {
        refused(&state[..n], "damaged");
    }
    let mut old = state.clone();
    old[8] = 0;
    refused(
        &old,
        "version 0 of a saved memory, this library reads version 1",
    );
    let mut new = state.clone();
    new[11] = 1;
    refused(&new, "version 16777217");
    let mut flipped = state.clone();
    flipped[5000] ^= 1;
    refused(&flipped, "damaged");
    let text = std::str::from_utf8(&state[20..]).unwrap();
    // A model's own version is checked, too.
    let older = text.replacen("\"version\":3", "\"version\":1", 1);
    assert_ne!(older, text);
    refused(
        &with_body(&state, older.as_bytes()),
        "version 1 of a xpoint DIMM",
    );
    let late = text.replacen("\"done_at\":", "\"done_at\":18446744073709551615,\"x\":", 1);
    refused(&with_body(&state, late.as_bytes()), "");
    refused(&save(&create("ddr3-1600k", None)), "xpoint");
    let other = create("xpoint", Some("xpoint.combine_lines=32"));
    assert_eq!(restore(&other, &state), NAGORI_ERROR_SAVED);
    // SAFETY: null is what is tested.
    let s = unsafe { nagori_memory_restore(m.0, null(), 10) };
    assert_eq!(s, NAGORI_ERROR_POINTER);
    // After all that it goes on.
    assert_eq!(restore(&m, &state), NAGORI_OK);
    rest(&m, t);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Bytes and values changed at random, with a checksum that fits: either the state is refused, and
    /// the memory is as before, or the memory works.
    #[test]
    fn damaged_states_never_panic(
        memory in 0..MEMORIES.len(),
        numbers in any::<bool>(),
        at in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            "0", "1", "-1", "null", "18446744073709551615", "281474976710656", "1e30", "[]", "\"\"",
        ]),
        byte in any::<u8>(),
    ) {
        let m = create(MEMORIES[memory], None);
        let t = play(&m, 0, 0..200);
        let state = save(&m);
        let mut body = state[20..].to_vec();
        if numbers {
            // A number is replaced.
            let digit = |i: usize| body[i].is_ascii_digit();
            let starts: Vec<usize> = (1..body.len())
                .filter(|&i| digit(i) && !digit(i - 1) && b":,[".contains(&body[i - 1]))
                .collect();
            let start = starts[at.index(starts.len())];
            let end = (start..body.len()).find(|&i| !digit(i)).unwrap();
            body.splice(start..end, value.bytes());
        } else {
            let i = at.index(body.len());
            body[i] = byte;
        }
        let s = restore(&m, &with_body(&state, &body));
        prop_assert!(s == NAGORI_OK || s == NAGORI_ERROR_SAVED, "{}: {}", s, message(&m));
        if s == NAGORI_ERROR_SAVED {
            prop_assert_eq!(save(&m), state);
            rest(&m, t);
        } else {
            // Whatever it holds, calls answer.
            let mut u = 0;
            for id in 0..20 {
                // SAFETY: good pointers.
                let s = unsafe { nagori_memory_submit(m.0, t, id, id * 64, 0, 64, &mut u) };
                prop_assert!(s != NAGORI_ERROR_INTERNAL, "{}", message(&m));
            }
        }
    }
}
