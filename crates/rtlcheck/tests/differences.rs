//! What the hardware wrote is accepted if it is what the model does, and every difference is found.

use nagori_rtlcheck::{board, table, Error};

/// An isolated read under `dram`, then the method and a statistic.
const READ: &str = "\
N
R 10 40002040 64
q 10 2 1 0 0
a 15 2 1
c 23 2 1 0
p 26 2
d 26 R
S 30 100 2 ff
G 30 100 2
G 31 2200 1
E 40
";

fn board_of(text: &str) -> Result<board::Compared, Error> {
    board::compare(text.as_bytes(), &board::reference())
}

#[test]
fn an_isolated_read() {
    let c = board_of(READ).unwrap();
    assert_eq!(
        (c.commands, c.requests, c.settings, c.values, c.responses),
        (4, 1, 1, 2, 1)
    );
    assert_eq!((c.runs, c.clocks), (1, 40));
}

#[test]
fn every_difference_is_found() {
    for (from, to) in [
        ("q 10", "q 11"),
        ("a 15 2 1", "a 16 2 1"),
        ("a 15 2 1", "a 15 3 1"),
        ("a 15 2 1", "a 15 2 0"),
        ("c 23 2 1 0", "c 23 2 1 1"),
        ("p 26 2\n", ""),
        ("p 26 2\n", "p 26 2\nf 30\n"),
        // The run ends before the precharge.
        (&READ[READ.find("d 26").unwrap_or(0)..], "E 26\n"),
    ] {
        let e = board_of(&READ.replace(from, to)).unwrap_err();
        assert!(matches!(e, Error::Command { .. }), "{from} -> {to}: {e}");
    }
    let e = board_of(&READ.replace("G 30 100 2", "G 30 100 0")).unwrap_err();
    assert!(
        matches!(
            e,
            Error::Register {
                hardware: 0,
                model: 2,
                ..
            }
        ),
        "{e}"
    );
    let e = board_of(&READ.replace("G 31 2200 1", "G 31 2200 2")).unwrap_err();
    assert!(matches!(e, Error::Register { clock: 31, .. }), "{e}");
    let e = board_of(&READ.replace("d 26", "d 27")).unwrap_err();
    assert!(
        matches!(
            e,
            Error::Response {
                hardware: 27,
                model: Some(26),
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn what_is_no_log_is_refused() {
    for text in [
        "R 10 40 64\n",
        "N\nx 1\n",
        "N\nR ten 40 64\n",
        "N\nR 10\n",
        "N\nd 5 Q\n",
        "N\nR 99999999999999 40 64\n",
        "N\nR 10 40 64\n",
    ] {
        assert!(matches!(board_of(text), Err(Error::Line { .. })), "{text}");
    }
    // Outside the memory, and more bytes than a line has.
    for text in ["N\nR 10 100000000 64\n", "N\nR 10 0 65\n"] {
        assert!(
            matches!(board_of(text), Err(Error::Refused { .. })),
            "{text}"
        );
    }
    for bits in [0, 17] {
        assert!(matches!(board::with_row_bits(bits), Err(Error::Usage(_))));
    }
}

#[test]
fn writes_that_only_the_emulator_obeys_are_refused() {
    // HOST_REQUEST, TIMED = 0, a dump: ERROR is 6. An unknown register: 1.
    for (line, error) in [
        ("240 1", 6),
        ("108 0", 6),
        ("200 2", 6),
        ("208 7", 0),
        ("ff8 1", 1),
    ] {
        let text = format!("N\nS 3 {line} ff\nG 4 10 {error}\nE 9\n");
        board_of(&text).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
}

#[test]
fn the_table() {
    let good = "\
N L 4
F 1 100 2000 4 3 1 0
L 1 104 0 1 2004
L 0 104 0 0 0
F 1 104 0 2 3 0 0
H 0 1 0
M 1 0 104
";
    let compare = |text: &str| table::compare(text.as_bytes());
    let c = compare(good).unwrap();
    assert_eq!(
        (c.lookups, c.hits, c.misses, c.writes, c.refused),
        (2, 1, 1, 2, 1)
    );
    for (from, to) in [
        ("1 2004", "1 2000"),
        ("L 0 104 0 0 0", "L 0 104 0 1 0"),
        ("2 3 0 0\n", "2 3 1 1\n"),
        ("H 0 1 0", "H 0 2 0"),
        ("M 1 0 104", "M 1 1 104"),
        ("4 3 1 0\n", "4 3 1 1\n"),
    ] {
        let e = compare(&good.replace(from, to)).unwrap_err();
        assert!(matches!(e, Error::Table { .. }), "{from} -> {to}: {e}");
    }
    assert!(matches!(compare("N Q 4\n"), Err(Error::Line { .. })));
    assert!(matches!(compare("L 0 0 0 0 0\n"), Err(Error::Line { .. })));
}
