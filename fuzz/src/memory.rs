//! Targets that describe memories, and use what was accepted.

use nagori_memcfg::{Kind as Described, Memory, Source};
use nagori_memtime::dram::params::{Mapping, Xor};
use nagori_memtime::dram::Controller;
use nagori_memtime::{Completion, Error, Kind, MemoryModel, Ps, Request, Submit};
use std::path::PathBuf;

/// Requests that a model that was accepted serves.
const REQUESTS: u64 = 40;
/// Steps of time for them: more would be a model that does not come forward.
const STEPS: u64 = 200_000;

/// Requests to any places, all at once; all of them complete, with times in order.
pub fn serve(model: &mut dyn MemoryModel) {
    let capacity = model.capacity();
    assert!(capacity >= 64 && model.clock().as_ps() >= 1.0);
    let mut at = Ps::ZERO;
    let mut done: Vec<Completion> = Vec::new();
    let mut steps = 0;
    let mut step = || {
        steps += 1;
        assert!(steps < STEPS, "the model does not come forward");
    };
    for id in 0..REQUESTS {
        let place = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % (capacity / 64);
        let r = Request {
            id,
            addr: 64
                * if id % 4 == 0 {
                    id % (capacity / 64)
                } else {
                    place
                },
            kind: if id % 3 == 0 { Kind::Write } else { Kind::Read },
            bytes: 64,
        };
        loop {
            step();
            match model.submit(at, r) {
                Ok(Submit::Accepted) => break,
                Ok(Submit::Busy(t)) => {
                    assert!(t > at, "busy until {t}, asked at {at}");
                    at = t;
                }
                // A flat memory may have holes.
                Err(Error::OutOfRange { .. }) => break,
                Err(Error::TooLate(_)) => return,
                Err(e) => panic!("a request inside the memory: {e}"),
            }
        }
        model.drain(&mut done);
    }
    while let Some(t) = model.next_event() {
        step();
        match model.advance_to(t) {
            Ok(()) => at = at.max(t),
            Err(Error::TooLate(_)) => return,
            Err(e) => panic!("time goes on: {e}"),
        }
    }
    model.drain(&mut done);
    done.sort_by_key(|c| c.id);
    assert!(
        done.windows(2).all(|w| w[0].id < w[1].id),
        "completed twice"
    );
    assert!(done.iter().all(|c| c.done_at >= c.accepted_at));
    let s = model.report(at);
    let counted = s.total();
    assert_eq!(done.len() as u64, counted.reads + counted.writes);
}

/// Whether a text could make the parser read files of the host: an absolute path begins behind
/// a quotation mark or a space, and letters can be written as numbers.
fn names_files(text: &str) -> bool {
    let mut before = ' ';
    for c in text.chars() {
        if c == '/' && !(before.is_alphanumeric() || matches!(before, ')' | '/')) {
            return true;
        }
        before = c;
    }
    text.contains("\\u") || text.contains("\\U") || text.contains("\\x") || text.contains("..")
}

fn accepted(memory: &Memory) {
    assert!(!memory.show().is_empty());
    assert!(memory.to_json().is_object());
    let mut model = memory.build().expect("an accepted memory has a model");
    serve(model.as_mut());
}

/// A description; lines that begin with `!` are settings (`--set`).
pub fn memory_toml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // Comments may hold addresses of anything.
    let code: String = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| format!("{l}\n"))
        .collect();
    if names_files(&code) {
        return;
    }
    let (settings, rest): (Vec<&str>, Vec<&str>) = code.lines().partition(|l| l.starts_with('!'));
    let settings: Vec<String> = settings.iter().map(|l| l[1..].to_owned()).collect();
    let source = Source {
        name: "fuzz.toml".into(),
        dir: Some(PathBuf::from("no-such-directory")),
        text: rest.join("\n"),
        variant: None,
    };
    match Memory::from_source(&source, &settings) {
        Ok(m) => accepted(&m),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

/// The name of a preset, then settings, a line each.
pub fn memory_set(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if names_files(&text) {
        return;
    }
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default();
    // Nothing else than a preset: a path would be one of the host.
    if name.contains('/') || name.ends_with(".toml") {
        return;
    }
    let settings: Vec<String> = lines.map(String::from).collect();
    match Memory::load(name, &settings) {
        Ok(m) => accepted(&m),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

/// An address mapping: a byte for the device, one for the channels, the order, and lines
/// `field with bit` of what is XORed. What is accepted reaches every place by one address.
pub fn mapping(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(2) else {
        return;
    };
    let name = ["ddr3", "ddr4", "lpddr4", "pcm", "stt-mram"][usize::from(head[0]) % 5];
    let memory = Memory::load(name, &[]).expect("a preset");
    let Described::Device { device, controller } = memory.kind else {
        panic!("{name} is a device");
    };
    let text = String::from_utf8_lossy(rest);
    let mut lines = text.lines();
    let order = lines.next().unwrap_or_default().to_owned();
    let xor = lines
        .filter_map(|l| {
            let mut words = l.split(' ');
            Some(Xor {
                field: words.next()?.to_owned(),
                with: words.next()?.to_owned(),
                from_bit: words.next()?.parse().ok()?,
            })
        })
        .collect();
    let mut params = *controller;
    params.channels = 1 << (head[1] % 4);
    params.mapping = Mapping { order, xor };
    let access = device.organisation.access_bytes();
    let Ok(mut model) = Controller::new(*device, params) else {
        return;
    };
    let capacity = model.capacity();
    assert!(capacity.is_power_of_two());
    // A mapping moves and XORs bits, so it is a bijection if single bits have independent places.
    let mut basis: Vec<u128> = Vec::new();
    for bit in access.ilog2()..capacity.ilog2() {
        let p = model.place(1 << bit);
        let fields = [p.channel, p.rank, p.bank_group, p.bank];
        let low = fields.iter().fold(0u64, |all, &f| all << 16 | u64::from(f));
        let high = u64::from(p.row) << 32 | u64::from(p.column);
        let mut v = u128::from(high) << 64 | u128::from(low);
        for b in &basis {
            v = v.min(v ^ b);
        }
        assert!(v != 0, "two addresses for one place: bit {bit}");
        basis.push(v);
        basis.sort_unstable_by(|a, b| b.cmp(a));
    }
    serve(&mut model);
}
