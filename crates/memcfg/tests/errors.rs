//! Mistakes in a description are refused, with place and remedy.

use nagori_memcfg::{Error, Memory, Origin, Source};
use nagori_memtime::Ps;
use proptest::prelude::*;

fn file(text: &str) -> Source {
    Source {
        name: "my.toml".into(),
        dir: None,
        text: text.into(),
        variant: None,
    }
}

fn read(text: &str, set: &[&str]) -> Result<Memory, Error> {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    Memory::from_source(&file(text), &set)
}

fn refused(text: &str, set: &[&str], hints: &[&str]) {
    let e = read(text, set).expect_err(text).to_string();
    for h in hints {
        assert!(e.contains(h), "`{h}` is not in: {e}");
    }
}

/// The text of a preset with one line replaced.
fn edited(name: &str, from: &str, to: &str) -> String {
    let text = nagori_memcfg::EMBEDDED
        .iter()
        .find(|e| e.0 == name)
        .unwrap()
        .1;
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to)
}

const DDR3: &str = "preset = \"ddr3-1600k\"\n";

#[test]
fn a_file_over_a_preset_and_settings_over_both() {
    let m = read(
        &format!("{DDR3}[timings]\ntRCD = \"15 ns\"\ntRAS = \"36 ns\"\ntRC = \"51 ns\"\n[controller]\nread_queue = \
            8\n"),
        &["timings.tRAS=37 ns", "controller.page={ timeout = { clocks = 100 } }"],
    )
    .unwrap();
    let row = |k: &str| m.rows.iter().find(|r| r.key == k).unwrap();
    assert_eq!(row("timings.tRCD").origin, Origin::File);
    assert_eq!(row("timings.tRCD").source, "given in my.toml");
    assert_eq!(row("timings.tRAS").origin, Origin::Set);
    assert_eq!(row("timings.tRAS").clocks, Some(30));
    assert_eq!(row("timings.tRP").origin, Origin::Preset);
    assert_eq!(row("controller.read_queue").value, "8");
    assert_eq!(row("controller.page.timeout.clocks").origin, Origin::Set);
    // A complete file needs no preset.
    let whole = edited("ddr3", "kind = \"device\"", "kind = \"device\"");
    let m = read(&whole, &["variant=1333h"]).unwrap();
    assert_eq!(m.device().unwrap().clock.whole(), Some(Ps(1500)));
    assert!(m
        .rows
        .iter()
        .all(|r| r.origin == Origin::File || r.key.starts_with("controller.")));
}

#[test]
fn unknown_keys_with_line_and_column() {
    refused(
        &format!("{DDR3}\n  color = 3"),
        &[],
        &["my.toml:3:3", "`color`", "timings"],
    );
    refused(
        &format!("{DDR3}[timings]\ntRDC = \"15 ns\""),
        &[],
        &["my.toml:3:1", "timings.tRDC", "tRCD"],
    );
    refused(
        &format!("{DDR3}[controller]\nread_que = 8"),
        &[],
        &["my.toml:3:1", "controller.read_que", "read_queue"],
    );
    refused(
        &format!("{DDR3}[organisation]\nrank = 2"),
        &[],
        &["my.toml:3:1", "organisation.rank", "ranks"],
    );
    refused(
        &format!("{DDR3}[energy.idd]\nidd9 = \"1 mA\""),
        &[],
        &["my.toml:3:1", "energy.idd.idd9"],
    );
    refused(
        &format!("{DDR3}[commands]\nrule = []"),
        &[],
        &["my.toml:3:1", "commands.rule", "rules"],
    );
    refused(
        &format!("{DDR3}[timings]\ntRCD = {{ value = \"15 ns\", unit = \"ns\" }}"),
        &[],
        &["my.toml:3:27", "timings.tRCD.unit"],
    );
    refused(
        DDR3,
        &["controller.nonsense=1"],
        &["--set controller.nonsense=1", "unknown field"],
    );
    refused(
        DDR3,
        &["timings.tXYZ=1 ns"],
        &["--set timings.tXYZ", "no rule uses"],
    );
    let rule = edited("pcm", "row = \"dirty\", source", "rows = \"dirty\", source");
    refused(
        &rule,
        &[],
        &["my.toml:", "commands.rules.5.rows", "unknown field"],
    );
}

#[test]
fn missing_values() {
    let t = edited(
        "ddr3",
        "tWTR = { value = \"max(4 nCK, 7.5 ns)\", source = \"ac\" }\n",
        "",
    );
    refused(
        &t,
        &[],
        &["my.toml:", "needs the timing tWTR", "add timings.tWTR"],
    );
    let t = edited(
        "ddr3",
        "tCK = { value = \"1.25 ns\", source = \"bin\" }\n",
        "",
    );
    refused(&t, &[], &["timings.tCK", "missing"]);
    let t = edited(
        "ddr3",
        "banks_per_group = { value = 8, source = \"org\" }\n",
        "",
    );
    refused(&t, &[], &["organisation.banks_per_group", "missing"]);
    let t = edited("ddr3", "policy = \"frfcfs\"\n", "");
    refused(&t, &[], &["controller.", "missing"]);
    let t = edited("ddr3", "kind = \"device\"\n", "");
    refused(&t, &[], &["kind", "missing"]);
    let t = edited(
        "ddr3",
        "idd5b = { value = \"235 mA\", source = \"idd\" }\n",
        "",
    );
    refused(&t, &[], &["energy.idd.idd5b", "missing"]);
    let t = edited(
        "ddr3",
        "refresh = [\n    { command = \"REFab\", interval = \"tREFI\", source = \"refresh\" \
        },\n]\n",
        "",
    );
    refused(&t, &[], &["commands.refresh", "[]"]);
}

#[test]
fn contradictions() {
    for (set, hints) in [
        ("timings.tRC=48 ns", ["tRC = 39", "tRAS + tRP"].as_slice()),
        (
            "timings.tRP=20 ns",
            &[
                "timings.tRP",
                "tRC = 39 clocks is less than tRAS + tRP = 28 + 16",
            ],
        ),
        ("timings.tRAS=10 ns", &["tRAS = 8", "tRCD"]),
        ("timings.tFAW=3 ns", &["tFAW = 3", "tRRD"]),
        ("timings.tREFI=200 ns", &["tREFI = 160", "tRFC"]),
        ("timings.tCCD=3 nCK", &["tCCD", "BL/2 = 4"]),
        ("controller.write_low=32", &["write_low"]),
        ("controller.refresh=per_bank", &["REFpb"]),
        ("organisation.ranks=3", &["power of two"]),
    ] {
        if set.starts_with("timings.tRC=") {
            // 48 ns are 39 clocks, too: no contradiction in clocks.
            assert!(read(DDR3, &[set]).is_ok());
            refused(
                DDR3,
                &["timings.tRC=47.5 ns"],
                &["tRC = 38", "tRAS + tRP", "--set"],
            );
            continue;
        }
        refused(DDR3, &[set], hints);
    }
    refused(
        "preset = \"ddr4\"",
        &["timings.tCCD_L=4 nCK", "timings.tCCD_S=5 nCK"],
        &["tCCD_L = 4", "tCCD_S"],
    );
    refused(
        "preset = \"lpddr4\"",
        &["timings.tRPab=10 ns"],
        &["tRPab = 16", "tRP"],
    );
}

#[test]
fn wrong_types_units_and_texts() {
    refused(DDR3, &["timings.tRCD=15"], &["15 has no unit", "ns"]);
    refused(
        DDR3,
        &["timings.tRCD=15 parsec"],
        &["timings.tRCD", "not a time"],
    );
    refused(DDR3, &["timings.tRCD=tRCD"], &["timings.tRCD", "circle"]);
    refused(DDR3, &["timings.BL=4 nCK"], &["burst_length"]);
    refused(DDR3, &["timings.tCK=0 ns"], &["clock"]);
    refused(DDR3, &["energy.idd.vdd=1.35"], &["has no unit", "V, mV"]);
    refused(
        DDR3,
        &["energy.idd.idd0=55 A/m"],
        &["energy.idd.idd0", "mA"],
    );
    refused(
        DDR3,
        &["organisation.channel_width=64"],
        &["has no unit", "bit"],
    );
    refused(
        DDR3,
        &["controller.read_queue=many"],
        &["controller.read_queue", "a whole number"],
    );
    refused(
        DDR3,
        &["controller.policy=best"],
        &["no policy `best`", "frfcfs"],
    );
    refused(DDR3, &["timings"], &["key=value"]);
    refused(DDR3, &["a.b.c.d.e.f.g.h.i=1"], &["key=value"]);
    refused("kind = \"device", &[], &["my.toml:1:", "not valid TOML"]);
    refused(
        "kind = \"tape\"\ndescription = \"x\"",
        &[],
        &["my.toml:1:1", "`tape`"],
    );
    refused(
        "preset = \"ddr9\"",
        &[],
        &["my.toml:1:1", "no memory `ddr9`", "ddr3"],
    );
    refused(
        "preset = \"ddr3-9999\"",
        &[],
        &["no variant `9999`", "1600k"],
    );
    let t = edited(
        "ddr3",
        "tRTRS = { value = \"2 nCK\", source = \"ranks\" }",
        "tRTRS = { value = \"2 nCK\", source = \"rank\" }",
    );
    refused(&t, &[], &["timings.tRTRS.source", "no source `rank`"]);
    let t = edited(
        "ddr3",
        "[variant.1066f.timings]\n",
        "[variant.1066f.timings]\ntWR = { value = \"15 ns\", source = \"ac\" }\n",
    );
    assert!(read(&t, &[]).is_ok());
    refused(&t, &["variant=1066f"], &["timings.tWR", "given twice"]);
}

#[test]
fn memories_of_memories() {
    let part = |name: &str, base: &str, memory: &str| {
        format!("[[part]]\nname = \"{name}\"\nbase = {base}\nmemory = {memory}\n")
    };
    let flat =
        |parts: &[String]| format!("kind = \"flat\"\ndescription = \"x\"\n{}", parts.concat());
    let dram = part("dram", "0", "\"ddr3\"");
    let good = flat(&[
        dram.clone(),
        part(
            "nvmm",
            "\"4 GiB\"",
            "{ name = \"pcm\", set = [\"timings.tSET=1 us\"] }",
        ),
    ]);
    let m = read(&good, &[]).unwrap();
    let row = m
        .rows
        .iter()
        .find(|r| r.key == "nvmm.timings.tSET")
        .unwrap();
    assert_eq!((row.value.as_str(), row.clocks), ("1 us", Some(400)));
    let over = flat(&[dram.clone(), part("nvmm", "\"1 GiB\"", "\"pcm\"")]);
    refused(&over, &[], &["my.toml", "`part`", "end of the part before"]);
    let same = flat(&[dram.clone(), part("dram", "\"4 GiB\"", "\"pcm\"")]);
    refused(&same, &[], &["name of its own"]);
    let typo = flat(&[format!("{dram}size = 3\n")]);
    refused(&typo, &[], &["my.toml:7:1", "part.0.size", "unknown key"]);
    let none = flat(&[part("dram", "0", "\"ddr9\"")]);
    refused(&none, &[], &["my.toml:6:1", "no memory `ddr9`"]);
    refused(
        &good,
        &["nvmm.timings.tRCDD=1 ns"],
        &["timings.tRCDD", "no rule uses"],
    );
    refused(
        "preset = \"cxl\"",
        &["link.credits=0"],
        &["link", "credits", "1 to 4096"],
    );
    refused("preset = \"cxl\"", &["memory=no"], &["no memory `no`"]);
    refused(
        "preset = \"xpoint\"",
        &["xpoint.line_bytes=100"],
        &["xpoint", "line_bytes"],
    );
    refused(
        "preset = \"dram-cache\"",
        &["cache.ways=2"],
        &["cache", "one way"],
    );
}

/// An error about a setting names the setting, not the preset to which it was applied.
#[test]
fn settings_are_blamed_as_they_were_given() {
    let load = |name: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        Memory::load(name, &set).unwrap_err().to_string()
    };
    for (name, set, begin, more) in [
        (
            "hybrid",
            &["nvmm.foo=1"][..],
            "--set nvmm.foo=1: `nvmm.foo`: unknown key",
            "",
        ),
        (
            "cxl",
            &["memory.timings.no=1 ns"],
            "--set memory.timings.no=1 ns: `memory.timings.no`",
            "",
        ),
        ("hybrid", &["nvmm.=1"], "`nvmm.=1` is no setting", ""),
        (
            "dram-cache",
            &["back.controller.read_queue=0"],
            "--set back.controller.read_queue=0: `back.controller`: ",
            "4096",
        ),
        (
            "ddr3",
            &["controller.read_queue=0"],
            "--set controller.read_queue=0: ",
            "read_queue = 0: 1 ",
        ),
        (
            "ddr3",
            &["controller.order=age_first", "controller.write_low=40"],
            "--set controller.write_low=40: ",
            "write_low < write_high",
        ),
        (
            "ddr3",
            &["controller.refresh=per_bank"],
            "--set controller.refresh=per_bank: ",
            "refresh = per_bank: the device",
        ),
        (
            "board",
            &["board.capacity=5"],
            "--set board.capacity=5: ",
            "whole banks",
        ),
        (
            "dram-cache",
            &["cache.ways=3"],
            "--set cache.ways=3: `cache`: ",
            "whole sets",
        ),
        (
            "pcm-levelled",
            &["wear.start_gap.gap_interval=0"],
            "--set wear.start_gap.gap_interval=0: `wear`",
            "at least 1",
        ),
        (
            "xpoint",
            &["xpoint.media_read=300"],
            "--set xpoint.media_read=300: `xpoint.media_read`: 300 has no unit",
            "\"300 ns\"",
        ),
        (
            "xpoint",
            &["xpoint.media_read=2.5"],
            "--set xpoint.media_read=2.5: `xpoint.media_read`: 2.5 has no unit",
            "ns",
        ),
        (
            "xpoint",
            &["xpoint.media_read=true"],
            "--set xpoint.media_read=true: ",
            "a time with its unit",
        ),
    ] {
        let e = load(name, set);
        assert!(
            e.starts_with(begin) && e.contains(more),
            "{name} {set:?}: {e}"
        );
    }
    // An error about the file itself is not attributed to a setting.
    let file = "preset = \"ddr3\"\n[controller]\nwrite_low = 40\n";
    refused(
        file,
        &["controller.order=age_first"],
        &["my.toml:3:", "write_low"],
    );
}

#[test]
fn wear_that_does_not_fit() {
    let pcm = "preset = \"pcm-levelled\"\n";
    for (set, hints) in [
        ("wear.line_bytes=96", ["wear.line_bytes", "power of two"]),
        ("wear.row_bytes=32", ["wear.row_bytes", "at least a line"]),
        (
            "wear.start_gap.region_lines=134217728",
            ["region_lines", "1 to 134217727"],
        ),
        (
            "wear.start_gap.gap_interval=0",
            ["gap_interval", "at least 1"],
        ),
        ("wear.endurance.mean=0", ["endurance", "1 to"]),
        ("wear.gap=3", ["--set wear.gap", "unknown field"]),
        ("wear=true", ["wear", "invalid type"]),
    ] {
        refused(pcm, &[set], &hints);
    }
    refused(
        "preset = \"xpoint\"",
        &["wear.line_bytes=256"],
        &["either xpoint.wear or wear"],
    );
    refused(
        "preset = \"ddr3\"\n[wear]\nline_bytes = 64\n",
        &[],
        &["my.toml:2:", "wear.row_bytes", "missing"],
    );
}

/// Every device preset refuses a list of mistakes.
#[test]
fn each_preset_refuses_what_cannot_be() {
    use nagori_memtime::dram::Command;
    for name in [
        "ddr3-1600k",
        "ddr3-1333h",
        "ddr3-1066f",
        "ddr4-2400r",
        "ddr4-3200aa",
        "lpddr4-3200",
        "pcm",
        "pcm-levelled",
        "reram",
        "stt-mram",
    ] {
        let text = format!("preset = \"{name}\"\n");
        let m = read(&text, &[]).unwrap();
        let d = m.device().unwrap();
        let t = d.resolve_timings().unwrap();
        let get = |n: &str| t.iter().find(|t| t.0 == n).unwrap().1;
        // A bank faster than its parts, by one clock.
        let rc = get("tRAS") + get("tRP") - 1;
        refused(
            &text,
            &[&format!("timings.tRC={rc} nCK")],
            &["timings.tRC", "tRAS + tRP", "--set"],
        );
        for r in &d.refresh {
            let [row, busy] = d.refresh_demand(r.command).unwrap();
            assert!(row > 0 && busy > 0, "{name}");
            let timing = match r.command {
                Command::RefBank => "tREFIpb",
                _ => "tREFI",
            };
            let starving = format!("timings.{timing}={} nCK", row + busy);
            // With both kinds of refresh, other relations may object first.
            refused(
                &text,
                &[&starving],
                &["timings.tREFI", "--set timings.tREFI"],
            );
            if d.refresh.len() == 1 {
                refused(&text, &[&starving], &["starve"]);
                let enough = format!("timings.{timing}={} nCK", row + busy + 1);
                assert!(read(&text, &[&enough]).is_ok(), "{name}");
            }
        }
        refused(&text, &["energy.no=1 nJ"], &["`energy`", "per_operation"]);
        // Each timing that a rule needs, removed; and an unknown key.
        let stem = name.split('-').next().unwrap();
        let stem = if stem == "stt" { "stt-mram" } else { stem };
        let whole = nagori_memcfg::EMBEDDED
            .iter()
            .find(|e| e.0 == stem)
            .unwrap()
            .1;
        let mut missing = 0;
        for (timing, _) in &t {
            let key = format!("\n{timing} = ");
            if whole.matches(&key).count() != 1 {
                continue;
            }
            let at = whole.find(&key).unwrap() + 1;
            let end = at + whole[at..].find('\n').unwrap() + 1;
            refused(
                &format!("{}{}", &whole[..at], &whole[end..]),
                &[],
                &["my.toml", timing],
            );
            missing += 1;
        }
        assert!(missing > 5, "{name}: {missing}");
        for key in ["timings.tNO", "controller.no", "organisation.no", "no"] {
            refused(&text, &[&format!("{key}=1 ns")], &[&format!("--set {key}")]);
        }
    }
}

#[test]
fn a_file_that_contains_itself_ends() {
    let dir = std::env::temp_dir().join(format!("nagori-memcfg-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("loop.toml");
    let text = "kind = \"cxl\"\ndescription = \"x\"\nmemory = \"./loop.toml\"\n[link]\nlatency_down = \"1 \
        ns\"\nlatency_up = \"1 ns\"\nps_per_byte = 1\nheader_bytes = 1\ncredits = 1\n";
    std::fs::write(&path, text).unwrap();
    let e = Memory::load(path.to_str().unwrap(), &[]).unwrap_err();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(e.to_string().contains("deeper than"), "{e}");
}

#[test]
fn files_and_names() {
    let e = Memory::load("no-such-memory", &[]).unwrap_err().to_string();
    assert!(e.contains("lpddr4") && e.contains(".toml"), "{e}");
    let e = Memory::load("./no-such.toml", &[]).unwrap_err().to_string();
    assert!(e.contains("cannot read"), "{e}");
}

proptest! {
    #[test]
    fn any_text_does_not_panic(text in "[ -~\\n]{0,200}") {
        let _ = read(&text, &[]);
    }

    #[test]
    fn any_setting_does_not_panic(
        table in prop::sample::select(
            vec!["timings", "controller", "organisation", "commands", "energy.idd", "variant"],
        ),
        key in prop::sample::select(
            vec!["tRCD", "ranks", "rows", "page", "rules", "rules.0", "vdd", "mapping.order", "value"],
        ),
        value in "[ -~]{0,30}",
    ) {
        let _ = read(DDR3, &[&format!("{table}.{key}={value}")]);
    }

    #[test]
    fn a_cut_preset_does_not_panic(at in 0usize..6000) {
        let text = nagori_memcfg::EMBEDDED.iter().find(|e| e.0 == "ddr3").unwrap().1;
        let at = at.min(text.len());
        if text.is_char_boundary(at) {
            let _ = read(&text[..at], &[]);
        }
    }

    /// A preset with a line removed, doubled or with other digits: if it is accepted, it can be
    /// built and shown.
    #[test]
    fn a_damaged_preset_is_refused_or_works(
        preset in 0usize..nagori_memcfg::EMBEDDED.len(),
        line in 0usize..120,
        damage in 0usize..4,
        digits in "[0-9]{1,6}",
    ) {
        let text = nagori_memcfg::EMBEDDED[preset].1;
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        let line = line % lines.len();
        match damage {
            0 => { lines.remove(line); }
            1 => { let l = lines[line].clone(); lines.insert(line, l); }
            2 => {
                let l = lines[line].clone();
                let first = l.find(|c: char| c.is_ascii_digit());
                if let Some(at) = first {
                    let rest = l[at..].trim_start_matches(|c: char| c.is_ascii_digit());
                    lines[line] = format!("{}{digits}{rest}", &l[..at]);
                }
            }
            _ => { let half = lines[line].chars().count() / 2; lines[line] = lines[line].chars().take(half).collect(); }
        }
        if let Ok(m) = read(&lines.join("\n"), &[]) {
            prop_assert!(m.build().is_ok(), "{:?}", m.build().err());
            prop_assert!(!m.show().is_empty());
        }
    }
}

#[test]
fn numbers_sizes_and_times_are_read_in_every_form() {
    let value = |name: &str, set: &str, key: &str| {
        let m = Memory::load(name, &[set.to_owned()]).unwrap_or_else(|e| panic!("{set}: {e}"));
        let kind = format!("{:?}", m.kind);
        let at = kind.find(key).unwrap_or_else(|| panic!("{key} in {kind}"));
        kind[at..].split([',', ' ']).nth(1).unwrap().to_owned()
    };
    for set in ["64", "6.4e1", "64.0", "0x40"] {
        let set = format!("controller.read_queue={set}");
        assert_eq!(value("ddr3", &set, "read_queue:"), "64", "{set}");
    }
    for set in ["1073741824", "1 GiB", "1GiB", "1024 MiB"] {
        let set = format!("board.nvmm_base={set}");
        assert_eq!(value("board", &set, "nvmm_base:"), "1073741824", "{set}");
    }
    for set in ["15 ns", "0.015us", "1.5e1 ns", "15000 ps"] {
        let m = Memory::load("ddr3", &[format!("timings.tRCD={set}")]).unwrap();
        let row = m.rows.iter().find(|r| r.key == "timings.tRCD").unwrap();
        assert_eq!(row.clocks, Some(12), "{set}");
    }
    for (set, hints) in [
        (
            "controller.read_queue=\"many\"",
            &[
                "`controller.read_queue`",
                "expected a whole number from 0 to 4294967295",
            ][..],
        ),
        (
            "controller.read_queue=6.5",
            &["6.5", "expected a whole number"],
        ),
        (
            "controller.raed_queue=6",
            &["unknown field", "did you mean `read_queue`?"],
        ),
        ("controller.policy=frfcfs2", &["did you mean `frfcfs`?"]),
        ("comands.rules=3", &["did you mean `commands`?"]),
    ] {
        refused(DDR3, &[set], hints);
    }
    let board = Memory::load("board", &["board.nvmm_base=1 GB".to_owned()]);
    let e = board.unwrap_err().to_string();
    assert!(
        e.contains("`1 GB` is no size, `GB` is none of its units"),
        "{e}"
    );
    let e = Memory::load("dddr4", &[]).unwrap_err().to_string();
    assert!(
        e.contains("there is no memory `dddr4`; did you mean `ddr4`?"),
        "{e}"
    );
    let e = Memory::load("ddr3-1600", &[]).unwrap_err().to_string();
    assert!(e.contains("did you mean `1600k`?"), "{e}");
}

/// Lists of xored bits, and whole descriptions, take time in proportion to their length. The bound is
/// far above what they need, and far below what a time in proportion to the square took.
#[test]
fn long_descriptions_are_read_in_linear_time() {
    let begin = std::time::Instant::now();
    let entry = "{ field = \"bank\", with = \"row\", from_bit = 3 }, ";
    let list = format!("[{}]", entry.repeat(50_000));
    let set = read(DDR3, &[&format!("controller.mapping.xor={list}")]).unwrap();
    let lines = format!("[{}]", format!("{entry}\n").repeat(50_000));
    let text = format!("{DDR3}[controller]\npolicy = \"frfcfs\"\nmapping.xor = {lines}\n");
    let file = read(&text, &[]).unwrap();
    assert_eq!(set.kind, file.kind);
    // An error far behind has its line, and shows only the beginning of a setting.
    let bad = lines.replace(
        "]",
        "{ field = \"bank\", with = \"rwo\", from_bit = \"x\" }]",
    );
    let e = read(&text.replace(&lines, &bad), &[])
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("my.toml:50004:"), "{e}");
    let e = read(DDR3, &[&format!("controller.mapping.xor={bad}")]).unwrap_err();
    assert!(e.to_string().len() < 1000, "{e}");
    let seconds = begin.elapsed().as_secs();
    assert!(seconds < 60, "{seconds} s");
}
