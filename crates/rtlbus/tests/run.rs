//! Runs without a core: a master in this file drives the ports.

use nagori_rtlbus::axi::{NagoriAxiMaster, NagoriAxiSlave};
use nagori_rtlbus::options::Options;
use nagori_rtlbus::run::{NagoriRtlCommit, Run};
use std::path::{Path, PathBuf};

const BASE: u64 = 0x8000_0000;
const ROM: u64 = 0x1000_0000;
const UART: u64 = 0x1000_0000;

/// A static riscv64 ELF with one segment of these bytes at `BASE`, and its entry 16 bytes from there.
fn elf(dir: &Path, bytes: &[u8]) -> PathBuf {
    let mut f = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let fields: [(u64, usize); 21] = [
        // Type, machine, version, entry, program headers, section headers, flags.
        (2, 2),
        (243, 2),
        (1, 4),
        (BASE + 16, 8),
        (64, 8),
        (0, 8),
        (5, 4),
        // Sizes and numbers of headers.
        (64, 2),
        (56, 2),
        (1, 2),
        (64, 2),
        (0, 2),
        (0, 2),
        // Loaded, readable and executable, offset, addresses, sizes, alignment.
        (1, 4),
        (5, 4),
        (120, 8),
        (BASE, 8),
        (BASE, 8),
        (bytes.len() as u64, 8),
        (bytes.len() as u64, 8),
        (8, 8),
    ];
    for (value, size) in fields {
        f.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    f.extend_from_slice(bytes);
    let path = dir.join("program.elf");
    std::fs::write(&path, f).expect("the program can be written");
    path
}

fn machine() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/rocket/rocket.toml");
    root.to_str().expect("a name in UTF-8").into()
}

fn options(dir: &Path) -> Options {
    Options {
        machine: machine(),
        program: elf(dir, &std::array::from_fn::<u8, 32, _>(|i| i as u8 + 1)),
        max_cycles: 1000,
        bus: Some(dir.join("bus.txt")),
        ..Options::default()
    }
}

fn start(dir: &Path) -> Run {
    Run::new(&options(dir), 8).expect("the run can begin")
}

const READY: NagoriAxiMaster = NagoriAxiMaster {
    ar_addr: 0,
    aw_addr: 0,
    w_data: [0; 2],
    ar_valid: 0,
    ar_id: 0,
    ar_len: 0,
    ar_size: 0,
    aw_valid: 0,
    aw_id: 0,
    aw_len: 0,
    aw_size: 0,
    w_valid: 0,
    w_strb: 0,
    w_last: 0,
    r_ready: 1,
    b_ready: 1,
};

fn read(addr: u64, len: u8, size: u8) -> NagoriAxiMaster {
    NagoriAxiMaster {
        ar_valid: 1,
        ar_addr: addr,
        ar_len: len,
        ar_size: size,
        ..READY
    }
}

fn clock(run: &mut Run, memory: NagoriAxiMaster, devices: NagoriAxiMaster) {
    run.clock(&memory, &devices, &NagoriRtlCommit::default())
        .expect("the run goes on");
}

/// Clocks from now to the first beat on a port, and all beats.
fn beats(run: &mut Run, port: usize) -> (u64, Vec<u64>) {
    let mut found = (0, Vec::new());
    for n in 0..200 {
        let s: NagoriAxiSlave = run.driven()[port];
        clock(run, READY, READY);
        if s.r_valid != 0 {
            if found.1.is_empty() {
                found.0 = n;
            }
            found.1.push(s.r_data[0]);
        }
        if s.r_last != 0 {
            return found;
        }
    }
    panic!("no answer");
}

#[test]
fn a_line_has_the_latency_of_the_description_and_the_content_of_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = start(dir.path());
    clock(&mut run, read(BASE, 7, 3), READY);
    // A clock has gone by with the address itself.
    let (clocks, data) = beats(&mut run, 0);
    assert_eq!(clocks + 1, 20);
    assert_eq!(
        data[..3],
        [
            0x0807_0605_0403_0201,
            0x100f_0e0d_0c0b_0a09,
            0x1817_1615_1413_1211
        ]
    );
    assert_eq!((data[4], data.len()), (0, 8));
    run.finish().unwrap();
    let bus = std::fs::read_to_string(dir.path().join("bus.txt")).unwrap();
    let words: Vec<&str> = bus.split_whitespace().collect();
    assert_eq!(words[..3], ["0", "r", "0x0"], "{bus}");
}

#[test]
fn a_line_that_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = start(dir.path());
    let line = BASE + 0x1000;
    let aw = NagoriAxiMaster {
        aw_valid: 1,
        aw_addr: line,
        aw_len: 7,
        aw_size: 3,
        ..READY
    };
    clock(&mut run, aw, READY);
    for i in 0..8 {
        let w = NagoriAxiMaster {
            w_valid: 1,
            w_data: [0x0101_0101_0101_0101 * (i + 1), 0],
            w_strb: if i == 3 { 0x0f } else { 0xff },
            w_last: (i == 7).into(),
            ..READY
        };
        clock(&mut run, w, READY);
    }
    clock(&mut run, read(line, 7, 3), READY);
    let (_, data) = beats(&mut run, 0);
    assert_eq!(data[0], 0x0101_0101_0101_0101);
    assert_eq!(data[3], 0x0404_0404, "the strobes count");
    assert_eq!(data[7], 0x0808_0808_0808_0808);
}

#[test]
fn with_order_a_read_waits_for_the_response_to_a_write() {
    for ordered in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let o = Options {
            ordered,
            ..options(dir.path())
        };
        let mut run = Run::new(&o, 8).unwrap();
        let aw = NagoriAxiMaster {
            aw_valid: 1,
            aw_addr: BASE,
            aw_size: 3,
            ..READY
        };
        clock(&mut run, aw, READY);
        assert_eq!(run.driven()[0].ar_ready != 0, !ordered);
        let w = NagoriAxiMaster {
            w_valid: 1,
            w_last: 1,
            w_strb: 0xff,
            ..READY
        };
        clock(&mut run, w, READY);
        let mut cycle = 2;
        while run.driven()[0].b_valid == 0 {
            assert_eq!(run.driven()[0].ar_ready != 0, !ordered);
            clock(&mut run, READY, READY);
            cycle += 1;
        }
        // 155 ns and the steps of the controller after the address, in clocks of 10 ns.
        assert_eq!(cycle, 16);
        // The hub sends the fetch on in the clock of the response.
        assert_eq!(run.driven()[0].ar_ready, 1);
        clock(&mut run, READY, READY);
        assert_eq!(run.driven()[0].ar_ready, 1);
    }
}

#[test]
fn the_boot_rom_jumps_to_the_entry() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = start(dir.path());
    clock(&mut run, READY, read(ROM, 7, 3));
    let (_, data) = beats(&mut run, 1);
    // lui t0, 0x80000; slli t0, t0, 32; srli t0, t0, 32; addi t0, t0, 16; jr t0
    assert_eq!(data[0], 0x0202_9293_8000_02b7);
    assert_eq!(data[1], 0x0102_8293_0202_d293);
    assert_eq!(data[2], 0x0002_8067);
}

#[test]
fn the_console_and_the_end_are_the_devices_of_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = start(dir.path());
    clock(&mut run, READY, read(UART + 5, 0, 0));
    let (_, data) = beats(&mut run, 1);
    assert_eq!(
        data[0] >> 40 & 0x20,
        0x20,
        "its transmitter takes characters"
    );
    for c in *b"hi" {
        let aw = NagoriAxiMaster {
            aw_valid: 1,
            aw_addr: UART,
            ..READY
        };
        clock(&mut run, READY, aw);
        let w = NagoriAxiMaster {
            w_valid: 1,
            w_last: 1,
            w_strb: 1,
            w_data: [c.into(), 0],
            ..READY
        };
        clock(&mut run, READY, w);
        for _ in 0..4 {
            clock(&mut run, READY, READY);
        }
    }
    assert_eq!(run.take_output(), b"hi");
    assert!(!run.is_over());
    let refused = NagoriRtlCommit {
        trap: 1,
        cause: 7,
        tval: 0x10_0000,
        rs2: 0x7_3333,
        ..NagoriRtlCommit::default()
    };
    run.clock(&READY, &READY, &refused).unwrap();
    assert!(run.is_over());
    assert_eq!(run.finish().unwrap().exit, Some(7));
}

#[test]
fn labels_are_kept_with_the_clock_in_which_they_retire() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = start(dir.path());
    let label = |rs1: u32, value| NagoriRtlCommit {
        valid: 1,
        word: 0x4e50_2013 | rs1 << 15,
        rs1: value,
        ..NagoriRtlCommit::default()
    };
    let other = NagoriRtlCommit {
        valid: 1,
        word: 0x13,
        ..NagoriRtlCommit::default()
    };
    for c in [label(6, 0x1234), other, other, label(0, 99)] {
        run.clock(&READY, &READY, &c).unwrap();
    }
    let report = run.finish().unwrap();
    let labels: Vec<_> = report
        .labels
        .iter()
        .map(|l| (l.value, l.cycle, l.instructions))
        .collect();
    assert_eq!(labels, [(0x1234, 0, 0), (0, 3, 3)]);
    assert_eq!(
        (report.instructions, report.cycles, report.exit),
        (4, 4, None)
    );
}

#[test]
fn what_cannot_be_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = options(dir.path());
    let refused = |o: Options| Run::new(&o, 8).err().expect("it is refused").to_string();
    let e = refused(Options {
        program: dir.path().join("none.elf"),
        ..good.clone()
    });
    assert!(e.contains("none.elf"), "{e}");
    let e = refused(Options {
        machine: "no-such".into(),
        ..good.clone()
    });
    assert!(e.contains("no-such"), "{e}");
    let e = refused(Options {
        settings: vec!["memory.regions.nvmm.model=pcm".into()],
        ..good.clone()
    });
    assert!(e.contains("not possible here"), "{e}");
    let e = refused(Options {
        trace: Some(dir.path().join("no/trace.txt")),
        ..good
    });
    assert!(e.contains("trace.txt"), "{e}");
    let e = Run::new(&options(dir.path()), 32)
        .err()
        .expect("it is refused");
    assert!(e.to_string().contains("beats of 32 bytes"), "{e}");
}
