//! The table of I/O addresses between a hart and the devices.

use crate::common::*;
use nagori_config::{Library, Machine as Description};
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use nagori_platform::control::iomap_command as command;
use nagori_platform::control::{ControlError, Fixed};
use nagori_platform::tree;
use nagori_snapshot::{Bytes, Meta, Snapshot};

/// In supervisor mode: prints `A` through the UART at 0x9000_0000, tries to make its hart run VM 65 by the control
/// block, reads why that was rejected into a1, and stores to the UART's own address. The handler in machine mode keeps
/// the cause in s1 and the address in s2, and switches the machine off.
const PROGRAM: [u32; 35] = [
    0xfff00293, 0x3b029073, 0x01f00293, 0x3a029073, 0x00000297, 0x06028293, 0x30529073, 0x00000297,
    0x02828293, 0x34129073, 0x000022b7, 0x8002829b, 0x3002b073, 0x000012b7, 0x8002829b, 0x3002a073,
    0x30200073, 0x04100513, 0x90000337, 0x02031313, 0x02035313, 0x00a30023, 0x040003b7, 0x38a3bc23,
    0x0103b583, 0x10000337, 0x00a30023, 0x0000006f, 0x342024f3, 0x34302973, 0x000052b7, 0x55528293,
    0x00100337, 0x00532023, 0x0000006f,
];
const MAP: &str = "iomap.map=['0x90000000 0x10000000 0x1000', '0x4000000 0x4000000 0x10000']";
/// Where supervisor mode begins.
const SUPERVISOR: u64 = 0x8000_0044;
const STORE_ACCESS_FAULT: u64 = 7;
/// Value of the register ERROR.
const PRIVILEGE: u64 = 8;

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});

fn machine(kind: &str, hit_cycles: u32, timed: bool) -> Machine {
    let kind = format!("iomap.kind={kind}");
    let hit = format!("iomap.hit_cycles={hit_cycles}");
    let mut settings = vec![kind.as_str(), hit.as_str()];
    if kind.ends_with("constant") {
        settings.push(MAP);
    }
    let mut m = build(&describe("soc", &settings), timed);
    load_words(&mut m, &PROGRAM);
    m
}

fn cause_and_address(m: &Machine) -> (u64, u64) {
    let h = m.hart(0).unwrap();
    (h.reg(9), h.reg(18))
}

#[test]
fn a_supervisor_reaches_devices_where_the_table_says() {
    for timed in [false, true] {
        for engine in [Engine::Interpreter, EAGER] {
            let mut m = machine("constant", 1, timed);
            m.set_engine(engine).unwrap();
            let end = run(&mut m, 1_000_000);
            assert_eq!(end.stop, Stop::PowerOff(0));
            assert_eq!(end.console, "A");
            assert_eq!(cause_and_address(&m), (STORE_ACCESS_FAULT, 0x1000_0000));
            assert_eq!(m.parameter(Fixed::IomapHartVm), 0);
            assert_eq!(m.hart(0).unwrap().reg(11), PRIVILEGE);
            assert_eq!(m.parameter(Fixed::IomapVmHits), 3);
            assert_eq!(m.parameter(Fixed::IomapVmMisses), 1);
            assert_eq!(m.parameter(Fixed::IomapMissVm), 0);
            assert_eq!(m.parameter(Fixed::IomapMissAddr), 0x1000_0000);
            // The place of the UART.
            assert_eq!(m.parameter(Fixed::IomapHits), 1);
        }
    }
}

#[test]
fn an_empty_table_lets_nothing_pass() {
    for kind in ["full", "small"] {
        let mut m = machine(kind, 1, false);
        let end = run(&mut m, 1_000_000);
        assert_eq!(end.console, "");
        assert_eq!(cause_and_address(&m), (STORE_ACCESS_FAULT, 0x9000_0000));
    }
}

#[test]
fn a_hit_takes_its_cycles() {
    let cycles = |hit| {
        let mut m = machine("constant", hit, true);
        run(&mut m, 1_000_000).cycles[0]
    };
    let none = cycles(0);
    // Three accesses hit; what misses does not get as far as the bus.
    assert_eq!(cycles(1) - none, 3);
    assert_eq!(cycles(100) - none, 300);
}

#[test]
fn a_snapshot_keeps_the_table() {
    let mut m = machine("constant", 7, true);
    while m.hart(0).unwrap().state.pc < SUPERVISOR + 24 {
        m.run(1, Some(m.instructions() + 1));
    }
    let mut bytes = Vec::new();
    nagori_snapshot::save(&m, &mut bytes, &Meta::new()).unwrap();
    let whole = run(&mut m, 1_000_000);
    let s = Snapshot::new(Bytes(bytes)).unwrap();
    let mut again: Machine = s.machine().unwrap();
    let rest = run(&mut again, 1_000_000);
    assert_eq!(rest.cycles, whole.cycles);
    assert_eq!(again.parameter(Fixed::IomapVmHits), 3);
}

fn soc(settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    Machine::new(&Description::load(&Library::default(), "soc", &settings).unwrap()).unwrap()
}

/// Sets the registers of an entry of VM 1, and gives a command.
fn put(m: &mut Machine, from: u64, to: u64, size: u64, command: u64) -> Result<(), ControlError> {
    for (reg, value) in [
        (Fixed::IomapVm, 1),
        (Fixed::IomapFrom, from),
        (Fixed::IomapTo, to),
        (Fixed::IomapSizeLog2, size),
        (Fixed::IomapRights, 3),
    ] {
        m.set_parameter(reg, value)?;
    }
    m.set_parameter(Fixed::IomapCommand, command)
}

#[test]
fn registers_write_the_table() {
    let mut m = soc(&["iomap.kind=full", "iomap.entries=2"]);
    assert_eq!(m.parameter(Fixed::IomapKind), 2);
    assert_eq!(m.parameter(Fixed::IomapPlaces), 2);
    assert_eq!(m.parameter(Fixed::IomapMissAddr), u64::MAX);
    put(&mut m, 0x1000, 0x2000, 12, command::WRITE).unwrap();
    m.set_parameter(Fixed::IomapPlace, 1).unwrap();
    let overlap = put(&mut m, 0x1800, 0, 4, command::WRITE);
    assert_eq!(overlap, Err(ControlError::Overlap));
    let big = put(&mut m, 0, 0, 63, command::WRITE);
    assert_eq!(big, Err(ControlError::Overlap));
    assert_eq!(
        put(&mut m, 0, 4, 3, command::WRITE),
        Err(ControlError::Value)
    );
    assert_eq!(
        put(&mut m, 0, 0, 4, command::FILL),
        Err(ControlError::State)
    );
    assert_eq!(put(&mut m, 0, 0, 4, 9), Err(ControlError::Value));
    for (reg, value) in [
        (Fixed::IomapVm, 1 << 16),
        (Fixed::IomapRights, 4),
        (Fixed::IomapSizeLog2, 64),
        (Fixed::IomapHart, 1),
        (Fixed::IomapDevice, 32),
        (Fixed::IomapTable, 2),
    ] {
        assert_eq!(
            m.set_parameter(reg, value),
            Err(ControlError::Value),
            "{reg:?}"
        );
    }
    // There is none for devices.
    assert_eq!(
        m.set_parameter(Fixed::IomapTable, 1),
        Err(ControlError::State)
    );
    m.set_parameter(Fixed::IomapPlace, 0).unwrap();
    m.set_parameter(Fixed::IomapCommand, command::SHOW).unwrap();
    assert_eq!(m.parameter(Fixed::IomapFrom), 0x1000);
    m.set_parameter(Fixed::IomapCommand, command::EMPTY)
        .unwrap();
    m.set_parameter(Fixed::IomapCommand, command::SHOW).unwrap();
    assert_eq!(m.parameter(Fixed::IomapSizeLog2), 0);
    // Without a table, nothing can be set.
    let mut none = soc(&[]);
    assert_eq!(none.parameter(Fixed::IomapKind), 0);
    assert_eq!(
        none.set_parameter(Fixed::IomapVm, 1),
        Err(ControlError::State)
    );
}

#[test]
fn a_small_table_says_which_entry_it_has_replaced() {
    let mut m = soc(&[
        "iomap.kind=small",
        "iomap.entries=4",
        "iomap.replacement=fifo",
    ]);
    for n in 0..6 {
        put(&mut m, n * 16, 0, 4, command::FILL).unwrap();
        assert_eq!(m.parameter(Fixed::IomapPlace), n % 4);
    }
}

#[test]
fn a_slot_is_in_the_tree_where_vm_0_sees_it() {
    let m = soc(&[
        "iomap.kind=constant",
        "iomap.map=['0x92000000 0x10001000 0x1000', '0x93000000 0x10000000 0x1000']",
    ]);
    let tree = tree::tree(m.config(), m.bus(), &Default::default());
    let soc = tree.children.iter().find(|n| n.name == "soc").unwrap();
    let names: Vec<&str> = soc.children.iter().map(|n| n.name.as_str()).collect();
    assert!(names.contains(&"ethernet@92000000"), "{names:?}");
    assert!(names.contains(&"serial@10000000"), "{names:?}");
}
