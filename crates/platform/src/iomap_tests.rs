use super::*;
use crate::clock::Ps;
use crate::control::Fixed;
use crate::device::{DeviceCx, Wires};
use nagori_config::{Library, Machine as Description};
use nagori_ram::GuestRam;
use std::sync::Arc;

fn describe(settings: &[&str]) -> Result<Description, String> {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    Description::load(&Library::default(), "soc", &settings).map_err(|e| e.to_string())
}

#[test]
fn descriptions_that_are_no_tables_are_refused_with_the_key() {
    let constant = "iomap.kind=constant";
    let cases: [(&[&str], &str); 10] = [
        (&["iomap.kind=large"], "`iomap.kind`: unknown variant"),
        (
            &["iomap.kind=small", "iomap.entries=5"],
            "`iomap.entries`: a table of this kind cannot have 5",
        ),
        (
            &["iomap.kind=full", "iomap.entries=0"],
            "`iomap.entries`: a table of this kind cannot have 0",
        ),
        (
            &["iomap.kind=full", "iomap.hit_cycles=1001"],
            "`iomap.hit_cycles`: 1001 is outside",
        ),
        (
            &["iomap.map=['1 2 4']"],
            "`iomap.map`: only a constant table",
        ),
        (&[constant, "iomap.map=['0 2 4']"], "0x2 is not a multiple"),
        (
            &[constant, "iomap.map=['0 0 12']"],
            "`iomap.map[0]`: `0 0 12`: the size 12",
        ),
        (&[constant, "iomap.map=['keep 0 4']"], "expected an entry"),
        (
            &[constant, "iomap.map=['0 0 8', '4 8 4']"],
            "`iomap.map`: the range overlaps that of entry 0",
        ),
        (&["iomap.dma=translated"], "`iomap.dma`: there is no table"),
    ];
    for (settings, what) in cases {
        let e = describe(settings).expect_err(what);
        assert!(e.contains(what), "{settings:?}: {e}");
    }
}

/// A device with interrupt source 3, and memory at 0x1000 whose bytes are their offsets.
fn with_device<R>(table: IoMap, f: impl FnOnce(&mut DeviceCx<'_>) -> R) -> R {
    let ram = GuestRam::new(4096).unwrap();
    let bytes: Vec<u8> = (0..4096).map(|i| i as u8).collect();
    ram.write_bytes(0, &bytes).unwrap();
    let mut wires = Wires {
        ram: Arc::new(ram),
        ram_base: 0x1000,
        dma_writes: Vec::new(),
        transfers_cost: false,
        transfers: Vec::new(),
        deeds: Default::default(),
        irq_levels: 0,
        hart_lines: vec![0],
        power: None,
        iomap: Some(Box::new(table)),
    };
    f(&mut DeviceCx {
        now: Ps(0),
        hart: None,
        irq: Some(3),
        wires: &mut wires,
    })
}

#[test]
fn a_device_reaches_what_its_vm_may_and_nothing_else() {
    let description = describe(&[
        "iomap.kind=constant",
        "iomap.dma=translated",
        "iomap.dma_map=['0 0x1000 16 vm=1', '0x10 0x1080 16 vm=1 r', '0x20 0x9000 16 vm=1', '0 0x1100 16 vm=2']",
    ]);
    let mut table = IoMap::new(&description.unwrap().config).unwrap();
    table.set(Fixed::IomapDevice, 3).unwrap();
    let mut bytes = [0; 8];
    // It belongs to VM 0, which has nothing.
    with_device(table.clone(), |cx| {
        assert!(cx.dma_read(0, &mut bytes).is_err())
    });
    table.set(Fixed::IomapDeviceVm, 1).unwrap();
    with_device(table, |cx| {
        // Over the border of two entries, which are apart in memory.
        cx.dma_read(12, &mut bytes).unwrap();
        assert_eq!(bytes, [12, 13, 14, 15, 0x80, 0x81, 0x82, 0x83]);
        // Nothing is written if a part may not be.
        assert!(cx.dma_write(12, &[0xff; 8]).is_err());
        assert!(cx.wires.dma_writes.is_empty());
        cx.dma_write(4, &[0xff; 4]).unwrap();
        assert_eq!(cx.wires.dma_writes[0].addr, 0x1004);
        // An entry that leads out of memory, an address without one, and one that passes the end.
        assert!(cx.dma_read(0x20, &mut bytes).is_err());
        assert!(cx.dma_read(0x1000, &mut bytes).is_err());
        assert!(cx.dma_read(u64::MAX - 3, &mut bytes).is_err());
        cx.irq = None;
        assert!(cx.dma_read(0, &mut bytes).is_err());
    });
}
