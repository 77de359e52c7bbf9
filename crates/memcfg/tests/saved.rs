//! Saved models: a loaded one continues exactly as the saved one, and a damaged one is refused, or
//! harmless.

use nagori_memcfg::{Memory, Source, EMBEDDED};
use nagori_memtime::{Completion, Kind, MemoryModel, ModelStats, Ps, Request, SavedModel, Submit};
use proptest::prelude::*;
use serde_json::Value;

type Model = Box<dyn MemoryModel + Send>;

/// A description: name, text (none for a built-in one), settings.
type Described = (String, Option<String>, Vec<String>);

/// Every built-in description with all variants, and more of each kind: levelled wear, memories in
/// memories, policies with state.
fn descriptions() -> Vec<Described> {
    let mut all = Vec::new();
    let mut add = |name: &str, text: Option<&str>, set: &[&str]| {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        all.push((name.to_owned(), text.map(str::to_owned), set));
    };
    for (name, text) in EMBEDDED {
        let doc: toml_edit::DocumentMut = text.parse().unwrap();
        let variants = doc.get("variants").and_then(|v| v.as_array());
        add(name, None, &[]);
        for v in variants.into_iter().flatten() {
            add(&format!("{name}-{}", v.as_str().unwrap()), None, &[]);
        }
    }
    let levelled = "preset = \"pcm\"\n[wear]\nline_bytes = 256\nrow_bytes = 4096\n\
        endurance = { distribution = \"constant\", writes = 100 }\n\
        start_gap = { region_lines = 64, gap_interval = 3, permute = 5 }\n";
    add("levelled.toml", Some(levelled), &[]);
    let cached = |tags: &str, block: u32, ways: u32| {
        format!(
            "kind = \"cache\"\ndescription = \"d\"\n\
             front = {{ name = \"ddr3-1600k\", set = [\"organisation.rows=64\"] }}\n\
             back = \"xpoint\"\n[cache]\nblock_bytes = {block}\nways = {ways}\n\
             tags = {tags}\ntransactions = 5\n"
        )
    };
    add(
        "ways.toml",
        Some(&cached("{ sram = { latency = \"4 ns\" } }", 256, 4)),
        &[],
    );
    add("direct.toml", Some(&cached("\"with_data\"", 64, 1)), &[]);
    let flat = "kind = \"flat\"\ndescription = \"d\"\n\
        [[part]]\nname = \"near\"\nbase = \"0 GiB\"\n\
        memory = { name = \"cxl\", set = [\"link.credits=6\", \"memory.controller.front_delay=3\"] }\n\
        [[part]]\nname = \"far\"\nbase = \"1024 GiB\"\nmemory = \"xpoint\"\n";
    add("flat.toml", Some(flat), &[]);
    let ways = "kind = \"interleaved\"\ndescription = \"d\"\nmemory = \"ddr3-1600k\"\n\
        [interleave]\nways = 3\ngranularity = \"256 B\"\n";
    add("three.toml", Some(ways), &[]);
    add(
        "ddr4",
        None,
        &[
            "controller.page={adaptive={initial=100,min=10,max=500}}",
            "controller.write_done=data",
            "controller.refresh_postpone=4",
        ],
    );
    add(
        "ddr3",
        None,
        &["controller.policy=dramsim3", "controller.channels=2"],
    );
    add("ddr4", None, &["controller.policy=ramulator2"]);
    add(
        "ddr4",
        None,
        &[
            "controller.starvation=100",
            "controller.merge_reads=true",
            "controller.back_delay=7",
        ],
    );
    add(
        "lpddr4",
        None,
        &[
            "controller.refresh=per_bank",
            "controller.page={timeout={clocks=30}}",
        ],
    );
    add(
        "pcm",
        None,
        &["controller.write_pause=true", "controller.front_delay=2"],
    );
    all
}

fn build((name, text, settings): &Described) -> Model {
    let memory = match text {
        None => Memory::load(name, settings),
        Some(text) => {
            let source = Source {
                name: name.clone(),
                dir: None,
                text: text.clone(),
                variant: None,
            };
            Memory::from_source(&source, settings)
        }
    };
    memory.unwrap().build().unwrap()
}

/// An access: line, whether it writes, its bytes, and the time since the one before.
type Step = (u64, bool, u32, u64);

fn steps(n: usize) -> impl Strategy<Value = Vec<Step>> {
    let line = prop_oneof![3 => 0u64..12, 2 => 0u64..400, 2 => any::<u64>()];
    let gap = prop_oneof![6 => 0u64..3000, 2 => 0u64..60_000, 1 => 0u64..20_000_000];
    let step = (
        line,
        any::<bool>(),
        prop_oneof![3 => Just(64u32), 1 => 1u32..=64],
        gap,
    );
    prop::collection::vec(step, 0..n)
}

/// Plays requests and records everything that can be observed.
#[derive(Clone, Default)]
struct Player {
    at: Ps,
    id: u64,
    done: Vec<Completion>,
    events: Vec<Option<Ps>>,
    busy: Vec<Ps>,
}

impl Player {
    /// `false` if the model gives an error.
    fn play(&mut self, m: &mut Model, steps: &[Step]) -> bool {
        for &(line, write, bytes, gap) in steps {
            self.at += Ps(gap);
            let capacity = m.capacity();
            let mut addr = line % (capacity / 64) * 64 + u64::from(64 - bytes);
            if write {
                addr &= !63;
            }
            self.id += 1;
            let r = Request {
                id: self.id,
                addr,
                kind: if write { Kind::Write } else { Kind::Read },
                bytes,
            };
            for tries in 0.. {
                match m.submit(self.at, r) {
                    Ok(Submit::Accepted) => break,
                    Ok(Submit::Busy(t)) => {
                        self.busy.push(t);
                        self.at = t.max(self.at);
                    }
                    // A hole of the map; or any error of a damaged state.
                    Err(_) => break,
                }
                if tries > 300 {
                    return false;
                }
            }
            self.events.push(m.next_event());
            if gap % 3 == 0 {
                m.drain(&mut self.done);
            }
        }
        m.drain(&mut self.done);
        true
    }

    fn finish(&mut self, m: &mut Model) -> (ModelStats, Ps, ModelStats) {
        let report = m.report(self.at + Ps(100_000));
        let end = m.flush(self.at).unwrap();
        m.drain(&mut self.done);
        (report, end, m.report(end + Ps(1_000_000)))
    }
}

fn plain(m: &Model) -> Value {
    serde_json::to_value(m.save()).unwrap()
}

/// As the C library holds a state. One way of reading text is enough: each compiles every type of a state once more.
fn from_json(text: &[u8]) -> Option<SavedModel> {
    serde_json::from_slice(text).ok()
}

/// As snapshots hold it.
fn bytes(state: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(state, &mut bytes).unwrap();
    bytes
}

fn from_cbor(bytes: &[u8]) -> Option<SavedModel> {
    ciborium::from_reader(bytes).ok()
}

/// Another value of a parameter; it may be an impossible one.
fn other(value: &str) -> String {
    match value {
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        v => match v.strip_suffix(" ns").map(|n| n.parse::<u64>()) {
            Some(Ok(n)) => format!("{} ns", n + 5),
            _ => match v.parse::<u64>() {
                Ok(n) => (n + 1).to_string(),
                Err(_) => v.to_owned(),
            },
        },
    }
}

/// Changes a parameter, if that value is possible.
fn change(m: &mut Model, at: Ps, which: usize) -> String {
    let all = m.parameters();
    let Some((key, value)) = all.get(which % all.len().max(1)) else {
        return String::new();
    };
    let result = m.set_parameter(at, key, &other(value));
    format!("{key} {value} {result:?}")
}

fn goes_on(
    d: &Described,
    before: &[Step],
    after: &[Step],
    json: bool,
) -> Result<(), TestCaseError> {
    let mut a = build(d);
    let mut pa = Player::default();
    let (first, second) = before.split_at(before.len() / 2);
    pa.play(&mut a, first);
    change(&mut a, pa.at, before.len() * 7);
    pa.play(&mut a, second);
    let saved = a.save();
    let mut b = build(d);
    let again = if json {
        from_json(&serde_json::to_vec(&saved).unwrap())
    } else {
        from_cbor(&bytes(&saved))
    };
    b.load(again.expect("a state"))
        .unwrap_or_else(|e| panic!("{}: {e}", d.0));
    let mut pb = pa.clone();
    prop_assert_eq!(plain(&a), plain(&b), "{}: state", d.0);
    prop_assert_eq!(a.next_event(), b.next_event(), "{}", d.0);
    prop_assert_eq!(a.report(pa.at), b.report(pa.at), "{}", d.0);
    let (first, second) = after.split_at(after.len() / 2);
    pa.play(&mut a, first);
    pb.play(&mut b, first);
    prop_assert_eq!(a.parameters(), b.parameters(), "{}", d.0);
    let unfinished = [&a, &b].map(|m| m.unfinished_writes(pa.at + Ps(20_000)));
    prop_assert_eq!(&unfinished[0], &unfinished[1], "{}", d.0);
    let which = after.len() * 5 + before.len();
    let changed = [change(&mut a, pa.at, which), change(&mut b, pb.at, which)];
    prop_assert_eq!(&changed[0], &changed[1], "{}", d.0);
    pa.play(&mut a, second);
    pb.play(&mut b, second);
    prop_assert_eq!(&pa.events, &pb.events, "{}: events", d.0);
    prop_assert_eq!(&pa.busy, &pb.busy, "{}: busy", d.0);
    prop_assert_eq!(&pa.done, &pb.done, "{}: completions", d.0);
    prop_assert_eq!(plain(&a), plain(&b), "{}: later state", d.0);
    prop_assert_eq!(pa.finish(&mut a), pb.finish(&mut b), "{}: reports", d.0);
    prop_assert_eq!(pa.done, pb.done, "{}: completions to the end", d.0);
    prop_assert_eq!(plain(&a), plain(&b), "{}: state at the end", d.0);
    Ok(())
}

/// Paths of all values that are no objects or lists.
fn leaves(v: &Value, path: String, into: &mut Vec<String>) {
    match v {
        Value::Array(a) => {
            for (i, v) in a.iter().enumerate() {
                leaves(v, format!("{path}/{i}"), into);
            }
            if !a.is_empty() {
                into.push(path);
            }
        }
        Value::Object(m) => m.iter().for_each(|(k, v)| {
            leaves(
                v,
                format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")),
                into,
            );
        }),
        _ => into.push(path),
    }
}

/// Another value of the same type.
fn damage(v: &mut Value, how: u64) {
    match v {
        Value::Number(n) => {
            let n = n.as_u64().unwrap_or(0);
            *v = match how % 7 {
                0 => n.wrapping_add(1),
                1 => n.wrapping_sub(1),
                2 => 0,
                3 => u64::MAX,
                4 => 1 << 62,
                5 => n ^ 1 << (how / 7 % 64),
                _ => u64::from(u32::MAX),
            }
            .into();
        }
        Value::Bool(b) => *b = !*b,
        Value::Null => *v = (how % 3).into(),
        Value::String(s) => {
            *v = if how.is_multiple_of(2) {
                "write".into()
            } else {
                format!("{s}1").into()
            }
        }
        Value::Array(a) => match how % 3 {
            0 => drop(a.pop()),
            1 => a.push(a[0].clone()),
            _ => a.reverse(),
        },
        Value::Object(_) => {}
    }
}

/// Whatever was loaded can be driven on without a panic.
fn drive_on(m: &mut Model, player: &Player, after: &[Step]) {
    let mut p = player.clone();
    if !p.play(m, after) {
        return;
    }
    let _ = m.report(p.at + Ps(1_000_000));
    for _ in 0..200 {
        let Some(t) = m.next_event().filter(|t| *t < p.at + Ps(1 << 34)) else {
            break;
        };
        if m.advance_to(t).is_err() {
            break;
        }
    }
    m.drain(&mut p.done);
    let _ = m.save();
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: cases.and_then(|c| c.parse().ok()).unwrap_or(default),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn a_loaded_model_goes_on_as_the_saved_one(
        before in steps(120),
        after in steps(80),
        json: bool,
    ) {
        for d in descriptions() {
            goes_on(&d, &before, &after, json)?;
        }
    }
}

/// Models with small states, one of each kind.
fn small() -> Vec<Described> {
    let all = descriptions().into_iter();
    let few = ["board", "ddr4", "lpddr4", "cxl", "pcm", "xpoint"];
    all.filter(|d| few.contains(&&*d.0) || d.1.is_some())
        .collect()
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn damaged_states_do_no_harm(
        before in steps(60),
        after in steps(40),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 12),
    ) {
        for d in small() {
            let mut a = build(&d);
            let mut p = Player::default();
            p.play(&mut a, &before);
            let whole = plain(&a);
            let mut paths = Vec::new();
            leaves(&whole, String::new(), &mut paths);
            let mut bytes = bytes(&a.save());
            for (which, how) in &damages {
                let mut v = whole.clone();
                let path = which.get(&paths);
                damage(v.pointer_mut(path).unwrap(), *how);
                if let Some(s) = from_json(&serde_json::to_vec(&v).unwrap()) {
                    let mut m = build(&d);
                    if m.load(s).is_ok() {
                        drive_on(&mut m, &p, &after);
                    }
                }
                let at = which.index(bytes.len());
                let old = std::mem::replace(&mut bytes[at], *how as u8);
                if let Some(s) = from_cbor(&bytes) {
                    let mut m = build(&d);
                    if m.load(s).is_ok() {
                        drive_on(&mut m, &p, &after);
                    }
                }
                bytes[at] = old;
            }
        }
    }
}

#[test]
fn foreign_states_are_refused() {
    let model = |name: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        Memory::load(name, &set).unwrap().build().unwrap()
    };
    for (own, set, other, text) in [
        ("ddr3", &["timings.tRCD=20 ns"][..], "ddr3", Some("other")),
        ("ddr3", &["organisation.rows=1024"], "ddr3", Some("other")),
        ("ddr3", &["controller.read_queue=16"], "ddr3", Some("other")),
        ("board", &[], "ddr3", Some("general controller")),
        (
            "xpoint",
            &["xpoint.combine_lines=32"],
            "xpoint",
            Some("other"),
        ),
        ("xpoint", &["xpoint.path=70 ns"], "xpoint", None),
        ("cxl", &["link.credits=100"], "cxl", Some("other")),
        (
            "cxl",
            &["memory.controller.channels=2"],
            "cxl",
            Some("other"),
        ),
        (
            "hybrid",
            &["nvmm.organisation.rows=1024"],
            "hybrid",
            Some("other"),
        ),
        ("board", &["board.machines=4"], "board", Some("other")),
    ] {
        let result = model(own, set).load(model(other, &[]).save());
        match (result, text) {
            (Ok(()), None) => {}
            (Err(e), Some(t)) => assert!(e.to_string().contains(t), "{own}: {e}"),
            (r, _) => panic!("{own} {set:?} from {other}: {r:?}"),
        }
    }
    let mut s = serde_json::to_value(model("xpoint", &[]).save()).unwrap();
    s["xpoint"]["version"] = 99.into();
    let e = model("xpoint", &[]).load(from_cbor(&bytes(&s)).unwrap());
    assert!(
        e.unwrap_err().to_string().contains("version 99"),
        "the version is named"
    );
}

/// Every listed parameter accepts its current value; a change is recorded, and a parameter that is
/// not listed is refused with a list.
#[test]
fn listed_parameters_can_change() {
    for d in descriptions() {
        let mut m = build(&d);
        let all = m.parameters();
        assert!(!all.is_empty(), "{}", d.0);
        let at = Ps::from_ns(1000);
        let mut changes = 0;
        let mut changed = build(&d);
        for (key, value) in &all {
            m.set_parameter(at, key, value)
                .unwrap_or_else(|e| panic!("{} {key} = {value}: {e}", d.0));
            assert_eq!(m.parameters(), all, "{} {key}", d.0);
            let m = &mut changed;
            if m.set_parameter(at, key, &other(value)).is_ok() && other(value) != *value {
                changes += 1;
                let after = m.parameters();
                let (_, new) = after.iter().find(|p| p.0 == *key).unwrap();
                assert_eq!(*new, other(value), "{} {key}", d.0);
                let name = key.rsplit('.').next().unwrap();
                let recorded = m.report(at).changes;
                let mut recorded = recorded.iter().map(|c| &c.what);
                assert!(recorded.any(|w| w.ends_with(name)), "{} {key}", d.0);
                m.set_parameter(at, key, value).unwrap();
            }
        }
        assert!(changes > 3, "{}: {changes}", d.0);
        let e = m.set_parameter(at, "nothing", "1").unwrap_err().to_string();
        let first = all[0].0.split('.').next().unwrap();
        let names = [
            "rp_test",
            "write_low",
            "path",
            "back.key",
            "near",
            "dram",
            first,
        ];
        assert!(names.iter().any(|n| e.contains(n)), "{}: {e}", d.0);
    }
}
