use super::*;
use nagori_memtime::Method;
use proptest::prelude::*;

fn source(text: &str) -> Source {
    Source {
        name: "test.toml".into(),
        dir: None,
        text: text.into(),
    }
}

fn load(text: &str) -> Result<Machine, ConfigError> {
    Machine::from_source(&Library::default(), &source(text), &[])
}

fn error(text: &str) -> String {
    load(text).unwrap_err().to_string()
}

#[test]
fn shipped_machines_are_sound() {
    let library = Library::default();
    for name in library.machines() {
        let m = Machine::load(&library, &name, &[]).unwrap();
        assert_eq!(m.config.name, name);
    }
    let board = Machine::load(&library, DEFAULT_MACHINE, &[])
        .unwrap()
        .config;
    assert_eq!(board.memory.nvmm_base(), 0xc000_0000);
    assert_eq!(board.memory.end(), 0x1_8000_0000);
    assert_eq!(board.l1d.sets(), 64);
    // The memory alone that is called `board` has the same values.
    let alone = nagori_memcfg::Memory::load("board", &[]).unwrap();
    assert_eq!(
        alone.kind,
        nagori_memcfg::Kind::Board(Box::new(board.controller_params()))
    );
}

#[test]
fn unknown_keys_are_errors_with_their_place() {
    assert!(error("name = \"x\"\n\n[memory]\n  siez = 1\n")
        .starts_with("test.toml:4:3: `memory.siez`: unknown field `siez`"));
    assert!(error("name = \"x\"\nfoo = 1\n").starts_with("test.toml:2:1: `foo`: unknown field"));
    assert!(error("name = \"x\"\n[memory.controller]\nrdc = 1\n")
        .starts_with("test.toml:3:1: `memory.controller.rdc`: unknown field"));
}

#[test]
fn wrong_types_and_values_are_errors_with_their_place() {
    for (text, expected) in [
        ("name = \"x\"\nharts = \"four\"", "test.toml:2:1: `harts`: invalid type: string \"four\", expected a whole \
            number from 1 to 16"),
        ("name = \"x\"\nharts = 2.5", "`harts`: invalid type: floating point `2.5`, expected a whole number from 1 to \
            16"),
        ("name = \"x\"\nhars = 2", "`hars`: unknown field `hars`, expected one of"),
        ("name = \"x\"\nhars = 2", "did you mean `harts`?"),
        ("name = \"x\"\nmethod = \"drma\"", "did you mean `dram`?"),
        ("name = \"x\"\n[block]\nbyte_ps = \"slow\"", "`block.byte_ps`: invalid type: string \"slow\", expected a \
            whole number from 0 to 1000000000"),
        ("name = \"x\"\nharts = 17", "test.toml:2:1: `harts`: 17 is outside 1 to 16"),
        ("name = \"x\"\ntriggers = 17", "test.toml:2:1: `triggers`: 17 is outside 0 to 16"),
        ("name = \"x\"\nharts = -1", "test.toml:2:1: `harts`: invalid value: integer `-1`, expected a whole number \
            from 1 to 16"),
        ("name = \"x\"\nclock_hz = 0", "test.toml:2:1: `clock_hz`: 0 Hz is not possible: expected 1 Hz to 1 THz"),
        ("name = \"x\"\nclock_hz = \"2000 GHz\"", "test.toml:2:1: `clock_hz`: 2000000000000 Hz is not possible"),
        ("name = \"x\"\nclock_hz = \"fast\"", "test.toml:2:1: `clock_hz`: `fast` is no frequency: expected a number of \
            Hz"),
        ("name = \"x\"\nclock_hz = 1.5", "test.toml:2:1: `clock_hz`: invalid type: floating point"),
        ("name = \"x\"\ntimebase_hz = \"151/3 MHz\"", "test.toml:2:1: `timebase_hz`: 151000000/3 Hz is faster than the \
            core clock of 50000000 Hz"),
        ("name = \"x\"\n[memory.controller]\nclock = 5", "test.toml:3:1: `memory.controller.clock`: invalid type: \
            integer `5`, expected a period or a frequency with its unit"),
        ("name = \"x\"\n[memory.controller]\nclock = \"20 GHz\"", "test.toml:3:1: `memory.controller.clock`: 50 ps is \
            not possible: expected a period of 100 ps"),
        ("name = \"x\"\n[memory.controller.delays]\ntras = \"3001 ns\"", "test.toml:3:1: \
            `memory.controller.delays.tras`: 3001 ns is no whole number of clocks of 5 ns: the nearest that are one \
            are 3000 ns and 3005 ns"),
        ("name = \"x\"\n[memory.controller]\nclock = \"0.9375 ns\"", "`memory.controller.delays.coarse_read`: 1000 ns \
            is no whole number of clocks of 937.5 ps: the nearest that are one are 999375 ps and 1000313 ps"),
        ("name = \"x\"\n[memory]\nsize = \"4 GB\"", "test.toml:3:1: `memory.size`: `4 GB` is no size"),
        ("name = \"x\"\n[memory]\nnvmm_boundary = \"1 MiB\"", "test.toml:3:1: `memory.nvmm_boundary`: 1 MiB is not \
            possible: expected a multiple of the bank size 512 MiB"),
        ("name = \"x\"\nmemory = 3", "test.toml:2:1: `memory`: invalid type"),
        ("name = \"x\"\n[memory]\nsize = \"2 GiB\"", "`memory.controller.mapping.bank`: bits 29 to 31 make 8 banks of \
            512 MiB, but memory.size is 2 GiB in 8 banks of 256 MiB"),
        ("name = \"x\"\nmethod = \"slow\"", "test.toml:2:1: `method`: unknown variant `slow`, expected one of"),
        ("name = \"x\"\nisa = [\"i\", \"m\", \"a\", \"f\", \"d\", \"c\", \"zicsr\", \"v\"]", "test.toml:2:1: `isa[7]`: \
            unknown extension `v`: known are i, m, a, f, d, c, zicsr, "),
        ("name = \"x\"\nisa = [\"i\", \"zicsr\", \"priv\"]", "test.toml:2:1: `isa[2]`: unknown extension `priv`"),
        ("name = \"x\"\nisa = [\"i\", \"m\"]", "test.toml:2:1: `isa`: `zicsr` is missing: a hart always has i, zicsr"),
        ("name = \"x\"\nisa = [\"i\", \"zicsr\", \"d\"]", "test.toml:2:1: `isa[2]`: `d` cannot be without `f`: add \
            that, or take `d` out"),
        ("name = \"x\"\nisa = [\"i\", \"zicsr\", \"i\"]", "test.toml:2:1: `isa[2]`: `i` is listed twice"),
        ("name = \"x\"\nadvertise_zicbom = true\nisa = [\"i\", \"zicsr\"]", "`advertise_zicbom`: the list `isa` has no \
            zicbom"),
        ("name = \"x\"\n[l1d]\nsize = \"64 KiB\"", "test.toml:3:1: `l1d.size`: 64 KiB in 4 ways"),
        ("name = \"x\"\n[memory.controller.delays]\ntrp = \"1 \
            year\"", "test.toml:3:1: `memory.controller.delays.trp`: "),
        ("name = \"x\"\n[memory.controller.timing]\nrp = 0", "test.toml:3:1: `memory.controller.timing.rp`: 0 is not \
            possible: expected 1 to"),
        ("name = \"x\"\ndevices = [\"net\", \"disk\"]", "test.toml:2:1: `devices[1]`: `disk` is no device: expected \
            one of block, net, ethmac, share, console"),
        ("name = \"x\"\ndevices = [\"net:a\", \"share:a\"]", "test.toml:2:1: `devices[1]`: there is another device \
            `a`: give it another name, such as share:NAME"),
        ("name = \"x\"\ndevices = [\"gpio\", \"gpio\"]", "test.toml:2:1: `devices`: 2 GPIO controllers: there are \
            interrupt sources for the pins of one"),
        ("name = \"x\"\n[block]\nbyte_ps = 2000000000", "test.toml:3:1: `block.byte_ps`: 2000000000 is outside 0 to \
            1000000000"),
        ("name = \"x\"\n[memory]\ntext_store = \"1 MiB\"", "test.toml:3:1: `memory.text_store`: 1 MiB is not possible: \
            expected a multiple of 2 MiB"),
        ("name = \"x\"\n[memory]\ntext_store = \"8 GiB\"", "test.toml:3:1: `memory.text_store`: 8 GiB is not possible: \
            expected a multiple of 2 MiB, not more than the 3 GiB of NVMM"),
        ("harts = 1", "`name`: `` is no name"),
        ("name = ", "test.toml:1:8: not valid TOML"),
        ("name = \"x\"\ncore = \"nano\"", "there is no core description `nano`; known are: inorder2, rocket"),
        ("name = \"x\"\n[memory.controller]\npreset = \"ddr9\"", "test.toml:3:1: `memory.controller.preset`: there is \
            no controller preset `ddr9`; known are: vc707"),
    ] {
        let e = error(text);
        assert!(e.contains(expected), "{text}\n gave {e}\n not  {expected}");
    }
}

#[test]
fn origins_and_overrides() {
    let text = "name = \"x\"\n[memory.controller.timing]\nrcd = 9\n";
    let settings = [
        "harts=2".to_string(),
        "method = fine".into(),
        "memory.expose=\"pmem-region\"".into(),
    ];
    let m = Machine::from_source(&Library::default(), &source(text), &settings).unwrap();
    assert_eq!(m.config.harts, 2);
    assert_eq!(m.config.method, Method::Fine);
    assert_eq!(m.config.memory.controller.timing.rcd.0, 9);
    for (key, origin) in [
        ("name", Origin::Given),
        ("harts", Origin::Override),
        ("memory.expose", Origin::Override),
        ("memory.controller.timing.rcd", Origin::Given),
        ("memory.controller.timing.rp", Origin::Preset),
        ("memory.size", Origin::Default),
        ("core.timing.amo_latency", Origin::Core),
    ] {
        assert_eq!(m.origin(key), origin, "{key}");
    }
    for bad in ["harts", "=3", "memory..size=3", "harts=", "name.x=3"] {
        let e = Machine::from_source(&Library::default(), &source(text), &[bad.to_string()]);
        assert!(matches!(e, Err(ConfigError::Override(_))), "{bad}");
    }
    let e =
        Machine::from_source(&Library::default(), &source(text), &["hats=3".into()]).unwrap_err();
    assert!(e.to_string().contains("unknown field `hats`"), "{e}");
}

#[test]
fn an_unknown_machine_names_the_known_ones() {
    let e = Machine::load(&Library::default(), "vc770", &[])
        .unwrap_err()
        .to_string();
    assert!(
        e.contains(
            "there is no machine `vc770`; did you mean `vc707`?; known are: peer, server, server-caches, \
                server-prefetch, small, soc, vc707"
        ),
        "{e}"
    );
    let e = Machine::load(&Library::default(), "./nowhere.toml", &[])
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("cannot read ./nowhere.toml: "), "{e}");
}

#[test]
fn directories_come_before_what_is_built_in() {
    let dir = std::env::temp_dir().join(format!("nagori-config-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("cores")).unwrap();
    std::fs::write(
        dir.join("small.toml"),
        "name = \"small\"\nharts = 3\ncore = \"./cores/tiny.toml\"\n",
    )
    .unwrap();
    let tiny =
        "name = \"tiny\"\ndescription = \"\"\nsource = \"\"\n[timing]\namo_latency = { value = 3 \
        }\n[predictor]\n";
    std::fs::write(dir.join("cores/tiny.toml"), tiny).unwrap();
    let m = Machine::load(&Library::new(vec![dir.clone()]), "small", &[]);
    std::fs::remove_dir_all(&dir).unwrap();
    let m = m.unwrap();
    assert_eq!((m.config.harts, m.core.name.as_str()), (3, "tiny"));
    assert_eq!(
        m.core.timing_values(),
        serde_json::json!({ "amo_latency": 3 })
    );
}

fn golden(name: &str, actual: &str) {
    nagori_golden::golden(
        format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR")),
        actual,
    );
}

#[test]
fn show_is_as_in_the_golden_files() {
    let m = Machine::load(&Library::default(), "small", &["seed=7".into()]).unwrap();
    golden("small.txt", &m.show());
    let json = serde_json::to_string_pretty(&m.to_json()).unwrap() + "\n";
    golden("small.json", &json);
    golden(
        "schema.json",
        &(serde_json::to_string_pretty(&schema()).unwrap() + "\n"),
    );
}

#[test]
fn every_number_has_a_unit_or_is_a_count() {
    let counts = [
        "harts",
        "pmp_entries",
        "triggers",
        "seed",
        "memory.banks",
        "memory.controller.machines",
    ];
    let small = Machine::load(&Library::default(), "small", &[]).unwrap();
    for row in small
        .rows()
        .iter()
        .filter(|r| r.value.is_number() && r.unit.is_empty())
    {
        let count = counts.contains(&row.key.as_str())
            || ["l1", "dtlb.", "itlb.", "core.predictor."]
                .iter()
                .any(|p| row.key.starts_with(p));
        assert!(count, "{} has no unit", row.key);
    }
}

#[test]
fn depth_is_limited() {
    let deep = "a.".repeat(100_000) + "b";
    for text in [
        format!("x = {}", "[".repeat(100_000)),
        format!("x = {}", "{ a = ".repeat(100_000)),
        format!("{deep} = 1"),
    ] {
        assert!(load(&text).is_err());
    }
    let e = Machine::from_source(
        &Library::default(),
        &source("name = \"x\""),
        &[format!("{deep}=1")],
    );
    assert!(matches!(e, Err(ConfigError::Override(_))));
}

#[test]
fn levels_of_caches() {
    let text = "name = \"x\"\n[[cache]]\nname = \"llc\"\nlevel = 3\nshared_by = \"all\"\nsize = \"20 MiB\"\n\
                ways = 20\nlatency = 44\n[[cache]]\nname = \"l2\"\nlevel = 2\nshared_by = 1\n\
                size = \"256 KiB\"\nways = 8\nlatency = 12\ninclusion = \"non-inclusive\"\n\
                replacement = \"tree-plru\"\n";
    let with = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        Machine::from_source(&Library::default(), &source(text), &settings)
    };
    let m = with(&[]).unwrap();
    let levels = m.config.levels();
    let [("l2", l2), ("llc", llc)] = levels[..] else {
        panic!("{levels:?}")
    };
    assert_eq!((l2.sets(), llc.sets()), (512, 16384));
    assert_eq!(
        (l2.inclusion, llc.inclusion),
        (Inclusion::NonInclusive, Inclusion::Inclusive)
    );
    let shown = m.show();
    assert!(
        shown.contains("cache.llc.latency") && shown.contains("44 core cycles"),
        "{shown}"
    );
    // The shown values of a machine are a description of it.
    let json = serde_json::to_value(&m.config).unwrap();
    let again: MachineConfig = serde_json::from_value(json).unwrap();
    assert_eq!(again, m.config);
    let larger = with(&["cache.llc.size=40 MiB", "cache.l2.latency=14"]).unwrap();
    let sizes: Vec<u64> = larger
        .config
        .levels()
        .iter()
        .map(|(_, l)| l.size.0)
        .collect();
    assert_eq!(sizes, [256 << 10, 40 << 20]);
    for (setting, problem) in [
        (
            "cache.llc.level=4",
            "`cache.llc.level`: 4 does not follow 2",
        ),
        (
            "cache.llc.level=2",
            "`cache.llc.level`: 2 does not follow 2",
        ),
        (
            "cache.llc.size=21 MiB",
            "`cache.llc.size`: 21 MiB in 20 ways: expected 20 times a power of two",
        ),
        (
            "cache.llc.ways=65",
            "`cache.llc.ways`: 65 is outside 1 to 64",
        ),
        (
            "cache.llc.replacement=tree-plru",
            "`cache.llc.ways`: 20 is not possible with this replacement",
        ),
        (
            "cache.llc.latency=11",
            "`cache.llc.latency`: 11 is outside 12 to 10000",
        ),
        (
            "cache.l2.shared_by=17",
            "`cache.l2.shared_by`: 17 is outside 1 to 16",
        ),
        ("cache.l2.shared_by=some", "`cache.l2.shared_by`"),
        ("cache.l2.mshr=3", "`cache.l2.mshr`: unknown field"),
        ("cache.l2.mshrs=0", "`cache.l2.mshrs`: 0 is outside 1 to 64"),
        (
            "cache.l2.banks=3",
            "`cache.l2.banks`: 3 is not possible: expected a power of two from 1 to 64",
        ),
        (
            "cache.l2.banks=2",
            "2 banks make no difference while bank_cycles is 0",
        ),
        (
            "cache.l2.bank_cycles=1001",
            "`cache.l2.bank_cycles`: 1001 is outside 0 to 1000",
        ),
        ("cache.l2.prefetcher=often", "`cache.l2.prefetcher`"),
        (
            "cache.l2.degree=17",
            "`cache.l2.degree`: 17 is outside 1 to 16",
        ),
        (
            "cache.l2.distance=64",
            "`cache.l2.distance`: 64 is outside 1 to 63",
        ),
        (
            "cache.l2.prefetch_entries=0",
            "`cache.l2.prefetch_entries`: 0 is outside 1 to 1024",
        ),
        (
            "cache.l2.prefetch_confidence=16",
            "`cache.l2.prefetch_confidence`: 16 is outside 1 to 15",
        ),
        ("cache.l4.level=4", "missing field"),
        (
            "cache.l2.level=1",
            "`cache.l2.level`: first-level caches are `l1d` and `l1i`, which have these keys, too",
        ),
        ("l1d.mshrs=65", "`l1d.mshrs`: 65 is outside 1 to 64"),
        ("l1i.degree=0", "`l1i.degree`: 0 is outside 1 to 16"),
        ("l1d.distance=0", "`l1d.distance`: 0 is outside 1 to 63"),
        (
            "l1i.prefetcher=stride",
            "expected none, next-line or stream",
        ),
        ("l1d.banks=2", "`l1d.banks`: unknown field"),
        (
            "store_buffer.entries=4",
            "`store_buffer.entries`: a store buffer requests lines with line fill buffers",
        ),
        ("store_buffer.entries=129", "129 is outside 0 to 128"),
        ("store_buffer.drain_cycles=0", "0 is outside 1 to 1000"),
        (
            "nontemporal.all.store=write-combining",
            "`nontemporal.all.store`: stores are combined in line fill buffers",
        ),
        (
            "nontemporal.p1.last=[\"l9\"]",
            "`l9` is no cache of this machine",
        ),
        (
            "nontemporal.p1.bypass=[\"l1d\"]",
            "`l1d` holds what its core accesses",
        ),
    ] {
        let e = with(&[setting]).unwrap_err().to_string();
        assert!(e.contains(problem), "{setting}: {e}");
    }
    let table = ["cache.l2.prefetcher=stride", "cache.l2.prefetch_entries=24"];
    let e = with(&table).unwrap_err().to_string();
    assert!(e.contains("24 is not possible with this prefetcher"), "{e}");
    let short = ["cache.l2.degree=4", "cache.l2.distance=3"];
    let e = with(&short).unwrap_err().to_string();
    assert!(e.contains("3 is outside 4 to 63"), "{e}");
    let ahead = [
        "cache.l2.degree=4",
        "cache.l2.banks=4",
        "cache.l2.bank_cycles=3",
    ];
    let ahead = with(&ahead).unwrap();
    assert_eq!(ahead.config.cache["l2"].prefetch().distance, 4);
    assert!(ahead.show().contains("3 core cycles (60 ns)"));
    let first = ["l1d.prefetcher=stride", "l1d.degree=2", "l1i.mshrs=2"];
    let first = with(&first).unwrap().config;
    let (data, code) = (first.l1d.prefetch(), first.l1i.prefetch());
    assert_eq!((data.prefetcher, data.distance), (Prefetcher::Stride, 2));
    assert_eq!(code.prefetcher, Prefetcher::None);
    assert_eq!(first.l1i.mshrs, Some(2));
    let two = ["cache.l2.shared_by=2", "cache.llc.shared_by=3"];
    let e = with(&two).unwrap_err().to_string();
    assert!(e.contains("3 is no multiple of 2"), "{e}");
    for (text, problem) in [
        (
            "name = \"x\"\n[[cache]]\nlevel = 2",
            "a level without a name",
        ),
        ("name = \"x\"\ncache = [1]", "expected tables"),
        (
            "name = \"x\"\n[[cache]]\nname = \"a\"\n[[cache]]\nname = \"a\"",
            "or that of two",
        ),
    ] {
        let e = load(text).unwrap_err().to_string();
        assert!(e.contains(problem), "{text}: {e}");
    }
}

proptest! {
    #[test]
    fn any_text_does_not_panic(text in ".*") {
        let _ = load(&text);
    }

    #[test]
    fn any_value_anywhere_does_not_panic(
        key in "(harts|memory|memory\\.size|memory\\.controller\\.[a-z_]+|l1d\\.ways|isa|core|clock_hz|\
            board\\.[a-z_]+)",
        value in "(-?[0-9]{1,20}|\"[a-z0-9 ]*\"|true|\\[1, 2\\]|\\{ a = 1 \\}|[0-9]\\.[0-9])",
    ) {
        let _ = Machine::from_source(&Library::default(), &source("name = \"x\""), &[format!("{key}={value}")]);
    }
}

#[test]
fn the_core_description_has_the_names_of_the_core_model() {
    let board = Machine::load(&Library::default(), DEFAULT_MACHINE, &[]).unwrap();
    let hart = board.hart().unwrap();
    // What only other cores have is left out of the file.
    let timing = serde_json::to_value(hart.timing).unwrap();
    let values = board.core.timing_values();
    let known = |(name, value): (&String, _)| timing.get(name) == Some(value);
    assert!(values.as_object().unwrap().iter().all(known));
    let predictor = serde_json::to_value(hart.predictor).unwrap();
    assert_eq!(predictor, board.core.predictor_values());
    let explained = |v: &CoreValue| !v.source.is_empty() && !v.note.is_empty();
    assert!(board.core.timing.values().all(explained));
}
