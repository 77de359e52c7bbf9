//! Every preset can be resolved, and has the values that its sources give.

use nagori_memcfg::{Kind, Memory, Origin, EMBEDDED};

fn load(name: &str) -> Memory {
    Memory::load(name, &[]).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn clocks(m: &Memory, name: &str) -> u64 {
    let key = format!("timings.{name}");
    let row = m.rows.iter().find(|r| r.key == key);
    row.and_then(|r| r.clocks)
        .unwrap_or_else(|| panic!("{} has no {name}", m.name))
}

/// All presets with all variants.
const ALL: &[&str] = &[
    "board",
    "cxl",
    "dram-cache",
    "hybrid",
    "xpoint",
    "xpoint-x6",
    "ddr3-1866m",
    "ddr3-1600k",
    "ddr3-1333h",
    "ddr3-1066f",
    "ddr4-2400r",
    "ddr4-3200aa",
    "lpddr4-3200",
    "pcm-isscc2012",
    "pcm-levelled",
    "reram-isscc2012",
    "stt-mram-emd4e001g",
];

#[test]
fn every_preset_resolves_and_every_value_has_a_source_and_an_origin() {
    for (name, _) in EMBEDDED {
        assert!(
            ALL.iter().any(|a| a.starts_with(name)),
            "{name} is not tested"
        );
        load(name);
    }
    for name in ALL {
        let m = load(name);
        assert_eq!(&m.name, name);
        assert!(m.rows.len() > 20, "{name}");
        assert!(m.build().unwrap().capacity() >= 512 << 20, "{name}");
        for r in &m.rows {
            assert_eq!(r.origin, Origin::Preset, "{name}: {}", r.key);
            let data = [
                "organisation.",
                "link.",
                "cache.",
                "xpoint.",
                "dram.timings.",
                "back.timings.",
                "timings.",
                "commands.",
                "energy.",
                "wear.",
                "board.",
            ]
            .iter()
            .any(|p| r.key.starts_with(p));
            if data && r.value != "[]" {
                let given = r.source.starts_with("given in");
                assert!(
                    !given && r.source.len() > 10,
                    "{name}: {} has no source",
                    r.key
                );
            }
            let timed = r.key.starts_with("timings.") || r.key.starts_with("commands.rules");
            assert!(
                !timed || (r.clocks.is_some() && !r.unit.is_empty()),
                "{name}: {}",
                r.key
            );
        }
        let text = m.show();
        assert_eq!(text.lines().count(), m.rows.len() + 1, "{name}");
    }
}

/// Values in clocks according to the tables of JEDEC and of other simulators.
#[test]
fn clocks_of_the_speed_bins() {
    let check = |name: &str, want: &[(&str, u64)]| {
        let m = load(name);
        for (timing, c) in want {
            assert_eq!(clocks(&m, timing), *c, "{name}: {timing}");
        }
    };
    check(
        "ddr3-1600k",
        &[
            ("CL", 11),
            ("CWL", 8),
            ("tRCD", 11),
            ("tRP", 11),
            ("tRAS", 28),
            ("tRC", 39),
            ("tRRD", 5),
            ("tFAW", 24),
            ("tWTR", 6),
            ("tRTP", 6),
            ("tWR", 12),
            ("tCCD", 4),
            ("tRFC", 208),
            ("tREFI", 6240),
        ],
    );
    check(
        "ddr3-1333h",
        &[
            ("CL", 9),
            ("CWL", 7),
            ("tRCD", 9),
            ("tRP", 9),
            ("tRAS", 24),
            ("tRC", 33),
            ("tRRD", 4),
            ("tFAW", 20),
            ("tWTR", 5),
            ("tRTP", 5),
            ("tWR", 10),
            ("tRFC", 174),
            ("tREFI", 5200),
        ],
    );
    check(
        "ddr3-1066f",
        &[
            ("CL", 7),
            ("CWL", 6),
            ("tRCD", 7),
            ("tRP", 7),
            ("tRAS", 20),
            ("tRC", 27),
            ("tRRD", 4),
            ("tFAW", 20),
            ("tWTR", 4),
            ("tRTP", 4),
            ("tWR", 8),
            ("tRFC", 139),
            ("tREFI", 4160),
        ],
    );
    check(
        "ddr4-2400r",
        &[
            ("CL", 16),
            ("CWL", 12),
            ("tRCD", 16),
            ("tRP", 16),
            ("tRAS", 39),
            ("tRC", 55),
            ("tRRD_S", 4),
            ("tRRD_L", 6),
            ("tFAW", 26),
            ("tCCD_S", 4),
            ("tCCD_L", 6),
            ("tWTR_S", 3),
            ("tWTR_L", 9),
            ("tRTP", 9),
            ("tWR", 18),
            ("tRFC", 421),
        ],
    );
    check(
        "ddr4-3200aa",
        &[
            ("CL", 22),
            ("CWL", 16),
            ("tRCD", 22),
            ("tRP", 22),
            ("tRAS", 52),
            ("tRC", 74),
            ("tRRD_S", 4),
            ("tRRD_L", 8),
            ("tFAW", 34),
            ("tCCD_S", 4),
            ("tCCD_L", 8),
            ("tWTR_S", 4),
            ("tWTR_L", 12),
            ("tRTP", 12),
            ("tWR", 24),
            ("tRFC", 560),
            ("tREFI", 12480),
        ],
    );
    check(
        "lpddr4-3200",
        &[
            ("CL", 28),
            ("CWL", 14),
            ("tRCD", 29),
            ("tRP", 29),
            ("tRPab", 34),
            ("tRAS", 68),
            ("tRC", 97),
            ("tRRD", 16),
            ("tFAW", 64),
            ("tCCD", 8),
            ("tWTR", 16),
            ("tRTP", 12),
            ("tWR", 29),
            ("tRFC", 288),
            ("tRFCpb", 144),
            ("tREFIpb", 781),
        ],
    );
    check("pcm", &[("tRCD", 48), ("tWP", 60), ("tRP", 1), ("tWR", 0)]);
    check("reram", &[("tRCD", 10), ("tWP", 7)]);
    check(
        "stt-mram",
        &[("tRCD", 90), ("tRAS", 96), ("tFAW", 160), ("CL", 10)],
    );
}

#[test]
fn capacities() {
    for (name, bytes) in [
        ("ddr3", 4u64 << 30),
        ("ddr4", 16 << 30),
        ("lpddr4", 1 << 30),
        ("pcm", 8 << 30),
        ("reram", 1 << 30),
        ("stt-mram", 512 << 20),
    ] {
        let m = load(name);
        let o = m.device().unwrap().organisation;
        assert_eq!(o.channel_bytes(), bytes, "{name}");
        assert_eq!(o.access_bytes(), 64, "{name}: one line a burst");
    }
}

#[test]
fn settings_reach_the_parts() {
    let m = Memory::load(
        "hybrid",
        &[
            "nvmm.timings.tSET=300 ns".into(),
            "dram.variant=1333h".into(),
        ],
    )
    .unwrap();
    let row = |k: &str| m.rows.iter().find(|r| r.key == k).unwrap();
    assert_eq!(row("nvmm.timings.tSET").origin, Origin::Set);
    assert_eq!(row("nvmm.timings.tWP").clocks, Some(120));
    assert_eq!(row("dram.timings.tCK").value, "1.5 ns");
    assert_eq!(m.build().unwrap().capacity(), 12 << 30);
}

#[test]
fn wear_of_presets_and_of_any_memory() {
    use nagori_memtime::{Kind as Dir, Ps, Request, Submit};
    let writes = |m: &Memory| {
        let mut model = m.build().unwrap();
        let mut at = Ps::ZERO;
        for id in 0..1000 {
            let r = Request {
                id,
                addr: id % 4 * 64,
                kind: Dir::Write,
                bytes: 64,
            };
            while let Submit::Busy(t) = model.submit(at, r).unwrap() {
                at = t;
            }
        }
        while let Some(t) = model.next_event() {
            model.advance_to(t).unwrap();
        }
        model.report(Ps::ZERO)
    };
    let m = load("pcm-levelled");
    // 128 regions of 2^20 places.
    assert_eq!(m.build().unwrap().capacity(), (8 << 30) - 128 * 64);
    let s = writes(&m);
    let w = s.regions[0].wear.clone().unwrap();
    // Permuted, the four lines lie in four regions: two moves in each.
    assert_eq!((w.writes, w.levelling_writes), (1000 + 8, 8));
    assert_eq!(w.map.max.len(), 512);
    assert!(w.lifetime_s.unwrap() > 0.0);
    // Over anything, by settings alone.
    let settings: Vec<String> = [
        "wear.line_bytes=64",
        "wear.row_bytes=4096",
        "wear.endurance={ distribution = \"constant\", writes = 1000 }",
        "wear.start_gap={ region_lines = 1023, gap_interval = 10 }",
    ]
    .map(String::from)
    .into();
    for name in ["ddr3", "cxl", "hybrid", "dram-cache", "board", "reram"] {
        let m = Memory::load(name, &settings).unwrap_or_else(|e| panic!("{name}: {e}"));
        let row = m.rows.iter().find(|r| r.key == "wear.row_bytes").unwrap();
        assert_eq!((row.origin, row.unit.as_str()), (Origin::Set, "byte"));
        let s = writes(&m);
        let w = s.regions.iter().find_map(|r| r.wear.as_ref()).unwrap();
        assert_eq!((w.writes, w.levelling_writes), (1100, 100), "{name}");
    }
    // Of a part alone.
    for (name, part) in [
        ("hybrid", "nvmm"),
        ("dram-cache", "back"),
        ("cxl", "memory"),
    ] {
        let of_part: Vec<_> = settings.iter().map(|s| format!("{part}.{s}")).collect();
        let m = Memory::load(name, &of_part).unwrap();
        let s = m.build().unwrap().report(Ps::ZERO);
        let worn = s.regions.iter().find(|r| r.wear.is_some()).unwrap();
        assert!(name != "hybrid" || worn.name == "nvmm", "{}", worn.name);
    }
    // And off.
    let off = Memory::load(
        "pcm-levelled",
        &["wear=false".into(), "energy=false".into()],
    )
    .unwrap();
    let s = writes(&off);
    assert!(s.regions[0].wear.is_none() && s.regions[0].energy.is_none());
}

#[test]
fn policies_are_those_of_the_engine() {
    use nagori_memtime::dram::ControllerParams;
    for (name, want) in [
        ("frfcfs", ControllerParams::frfcfs()),
        ("ramulator2", ControllerParams::ramulator2()),
        ("dramsim3", ControllerParams::dramsim3()),
    ] {
        let m = Memory::load("ddr4", &[format!("controller.policy={name}")]).unwrap();
        let Kind::Device { controller, .. } = m.kind else {
            panic!("no device");
        };
        assert_eq!(*controller, want, "{name}");
    }
}

/// The policy is listed by name, and with each value that comes from it.
#[test]
fn values_of_a_policy_name_it() {
    for (name, key, policy) in [
        ("ddr3", "controller.read_queue", "frfcfs"),
        ("hybrid", "nvmm.controller.write_low", "frfcfs"),
    ] {
        let m = load(name);
        let row = |k: &str| m.rows.iter().find(|r| r.key == k).unwrap();
        let own = format!("{}.policy", key.rsplit_once('.').unwrap().0);
        assert_eq!(row(&own).value, policy);
        assert_eq!(row(key).source, format!("policy {policy}"));
    }
    let set = [
        "controller.policy=ramulator2".to_owned(),
        "controller.order=age_first".to_owned(),
    ];
    let m = Memory::load("ddr3", &set).unwrap();
    let row = |k: &str| m.rows.iter().find(|r| r.key == k).unwrap();
    assert_eq!(row("controller.policy").origin, Origin::Set);
    assert_eq!(row("controller.back_delay").source, "policy ramulator2");
    assert_ne!(row("controller.order").source, "policy ramulator2");
    assert_eq!(row("controller.order").origin, Origin::Set);
    assert!(row("controller.region").source.contains("ddr3.toml"));
}
