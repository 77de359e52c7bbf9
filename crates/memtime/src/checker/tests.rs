use super::*;

/// DDR3-1600K in clocks, written out by hand.
fn limits() -> Limits {
    Limits {
        rcd: 11,
        rp: 11,
        rp_all: 11,
        ras: 28,
        rc: 39,
        rrd: [5, 5],
        faw: Some(24),
        ccd: [4, 4],
        wtr: [6, 6],
        rtp: 6,
        wr: 12,
        cell_write: 0,
        pause: None,
        read_data: 11,
        write_data: 8,
        write_data_late: 8,
        burst: 4,
        read_to_write_gap: 2,
        rank_gap: 2,
        ppd: None,
        rfc: Some(208),
        rfc_bank: None,
        refi: Some(6240),
    }
}

fn entry(at: u64, op: Op, rank: u32, bank: u32, row: u64) -> Entry {
    Entry {
        at,
        op,
        rank,
        group: 0,
        bank,
        row: matches!(op, Op::Activate | Op::Read | Op::Write).then_some(row),
    }
}

/// The rules broken by a log of (clock, command, rank, bank, row).
fn broken(log: &[(u64, Op, u32, u32, u64)]) -> Vec<&'static str> {
    let log: Vec<Entry> = log
        .iter()
        .map(|&(at, op, rank, bank, row)| entry(at, op, rank, bank, row))
        .collect();
    let checker = Checker::new(limits(), 2, 1, 8);
    checker.check(&log).iter().map(|v| v.rule).collect()
}

/// Limits from the data sheet: allowed at t, broken at t - 1, by this rule alone.
/// Clock, command and the rest of a log entry, as `entry` takes them.
type Step = (u64, Op, u32, u32, u64);

#[test]
fn each_rule_at_t_and_one_before() {
    use Op::*;
    let act = |at, bank| (at, Activate, 0, bank, 7);
    let cases: &[(&str, &[Step], Step)] = &[
        ("tRCD", &[act(0, 0)], (11, Read, 0, 0, 7)),
        ("tRCD", &[act(0, 0)], (11, Write, 0, 0, 7)),
        ("tRAS", &[act(0, 0)], (28, Precharge, 0, 0, 0)),
        (
            "tRP",
            &[act(0, 0), (40, Precharge, 0, 0, 0)],
            (51, Activate, 0, 0, 8),
        ),
        ("tRRD (same group)", &[act(0, 0)], (5, Activate, 0, 1, 0)),
        (
            "tFAW",
            &[act(0, 0), act(5, 1), act(10, 2), act(15, 3)],
            (24, Activate, 0, 4, 0),
        ),
        (
            "tRTP",
            &[act(0, 0), (30, Read, 0, 0, 7)],
            (36, Precharge, 0, 0, 0),
        ),
        (
            "tWR",
            &[act(0, 0), (30, Write, 0, 0, 7)],
            (54, Precharge, 0, 0, 0),
        ),
        (
            "tWR",
            &[act(0, 0), (30, Write, 0, 0, 7)],
            (54, PrechargeAll, 0, 0, 0),
        ),
        (
            "tWTR (same group)",
            &[act(0, 0), (30, Write, 0, 0, 7)],
            (48, Read, 0, 0, 7),
        ),
        (
            "read to write turnaround",
            &[act(0, 0), (30, Read, 0, 0, 7)],
            (39, Write, 0, 0, 7),
        ),
        (
            "tRP",
            &[act(0, 0), (40, Precharge, 0, 0, 0)],
            (51, Refresh, 0, 0, 0),
        ),
        ("tRFC", &[(5, Refresh, 0, 0, 0)], (213, Activate, 0, 0, 0)),
        ("tRFC", &[(5, Refresh, 0, 0, 0)], (213, Refresh, 0, 0, 0)),
        (
            "tRP",
            &[act(0, 0), (11, ReadPrecharge, 0, 0, 7)],
            (39, Activate, 0, 0, 0),
        ),
        (
            "tRP",
            &[act(0, 0), (30, WritePrecharge, 0, 0, 7)],
            (65, Activate, 0, 0, 0),
        ),
    ];
    for (rule, before, next) in cases {
        let mut log = before.to_vec();
        log.push(*next);
        assert_eq!(broken(&log), [""; 0], "{rule}: {next:?}");
        log.last_mut().unwrap().0 -= 1;
        let found = broken(&log);
        assert!(found.contains(rule), "{rule}: {next:?}: {found:?}");
        assert!(found.iter().all(|f| f == rule || *f == "tRC"), "{found:?}");
    }
}

#[test]
fn ranks_share_the_data_bus() {
    use Op::*;
    let open = [(0, Activate, 0, 0, 7), (5, Activate, 1, 0, 7)];
    for (first, second, t) in [
        (Read, Read, 36),
        (Write, Write, 36),
        (Read, Write, 39),
        (Write, Read, 33),
    ] {
        let log = |t| [&open[..], &[(30, first, 0, 0, 7), (t, second, 1, 0, 7)]].concat();
        assert_eq!(broken(&log(t)), [""; 0]);
        assert_eq!(broken(&log(t - 1)), ["tRTRS"]);
    }
}

#[test]
fn states_and_places() {
    use Op::*;
    for (log, rule) in [
        (&[(0, Read, 0, 0, 0)][..], "column command to a closed bank"),
        (
            &[(0, Activate, 0, 0, 1), (50, Activate, 0, 0, 2)],
            "ACT to a bank with an open row",
        ),
        (
            &[(0, Activate, 0, 0, 1), (50, Read, 0, 0, 2)],
            "column command to another row than the open one",
        ),
        (
            &[(0, Activate, 0, 0, 1), (50, Refresh, 0, 0, 0)],
            "refresh with an open row",
        ),
        (
            &[(0, Activate, 0, 0, 1), (0, Activate, 1, 0, 1)],
            "one command a clock",
        ),
        (
            &[(0, Activate, 2, 0, 1)],
            "a rank, group or bank that is not there",
        ),
        (
            &[(9 * 6240 + 1, Refresh, 0, 0, 0)],
            "tREFI: refresh overdue",
        ),
    ] {
        assert_eq!(broken(log), [rule]);
    }
    assert_eq!(broken(&[(9 * 6240, Refresh, 0, 0, 0)]), [""; 0]);
    let late = Checker::new(limits(), 2, 1, 8).finish(9 * 6240 + 1);
    assert_eq!(late.len(), 2);
    assert!(late[0].to_string().contains("overdue"));
    assert!(Checker::new(limits(), 2, 1, 8).finish(9 * 6240).is_empty());
}

#[test]
fn violations_say_what_and_when() {
    let log = [
        entry(0, Op::Activate, 0, 0, 1),
        entry(10, Op::Read, 0, 0, 1),
    ];
    let found = Checker::new(limits(), 1, 1, 8).check(&log);
    assert_eq!(
        found[0].to_string(),
        "command 1: Read rank 0 group 0 bank 0 at clock 10: tRCD allows it from clock 11"
    );
}

#[test]
fn a_missing_value_is_named() {
    let e = Limits::new(&|n| (n != "tRCD").then_some(5), 4).unwrap_err();
    assert_eq!(e, Missing("tRCD"));
    assert!(e.to_string().contains("tRCD"));
}
