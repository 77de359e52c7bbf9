use super::*;
use crate::config::{Library, Machine};
use nagori_ram::GuestRam;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

fn machine(settings: &[&str]) -> (MachineConfig, Bus) {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    let config = Machine::load(&Library::default(), "small", &settings)
        .unwrap()
        .config;
    let ram = Arc::new(GuestRam::new(config.memory.size.0).unwrap());
    let bus = crate::board::build(&config, ram).unwrap();
    (config, bus)
}

/// The blob as source text, and what the checker complains about.
fn dtc(blob: &[u8]) -> (String, String) {
    let mut child = Command::new("dtc")
        .args(["-I", "dtb", "-O", "dts", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(blob).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    assert!(out.status.success(), "{}", text(out.stderr));
    (text(out.stdout), text(out.stderr))
}

fn find<'a>(node: &'a Node, path: &str) -> Option<&'a Node> {
    let mut at = node;
    for name in path.split('/').filter(|n| !n.is_empty()) {
        at = at.children.iter().find(|c| c.name == name)?;
    }
    Some(at)
}

#[test]
fn the_device_tree_compiler_has_no_complaints() {
    if crate::tool("dtc").is_none() {
        return;
    }
    for settings in [
        &["harts=4"][..],
        &["memory.expose=pmem-region", "advertise_zicbom=true"],
        &["memory.expose=numa-node", "harts=2"],
    ] {
        let (config, bus) = machine(settings);
        let boot = BootInfo {
            bootargs: Some("console=ttyS0".into()),
            initrd: Some((0x8400_0000, 0x1234)),
        };
        let (dts, complaints) = dtc(&blob(&config, &bus, &boot).unwrap());
        assert_eq!(complaints, "");
        assert!(
            dts.contains("stdout-path = \"/soc/serial@10000000\""),
            "{dts}"
        );
    }
}

#[test]
fn the_tree_is_as_in_the_golden_file() {
    if crate::tool("dtc").is_none() {
        return;
    }
    let (config, bus) = machine(&[
        "harts=2",
        "memory.expose=pmem-region",
        "advertise_zicbom=true",
    ]);
    let boot = BootInfo {
        bootargs: Some("console=ttyS0".into()),
        initrd: Some((0x8400_0000, 0x1234)),
    };
    let (dts, _) = dtc(&blob(&config, &bus, &boot).unwrap());
    crate::golden("tree.dts", &dts);
}

#[test]
fn nvmm_is_in_no_node_unless_exposed() {
    let (config, bus) = machine(&[]);
    let hidden = tree(&config, &bus, &BootInfo::default());
    assert!(hidden.children.iter().all(|n| !n.name.starts_with("pmem")));
    let memory = find(&hidden, "memory@80000000").unwrap();
    let expected = Node::new("").reg(&[(0x8000_0000, 128 << 20)]);
    assert_eq!(memory.get("reg"), expected.get("reg"));

    let (config, bus) = machine(&["memory.expose=pmem-region"]);
    let shown = tree(&config, &bus, &BootInfo::default());
    let expected = Node::new("").reg(&[(0x8800_0000, 128 << 20)]);
    assert_eq!(
        find(&shown, "pmem@88000000").unwrap().get("reg"),
        expected.get("reg")
    );

    let (config, bus) = machine(&["memory.expose=pmem-region", "memory.nvmm_boundary=256 MiB"]);
    let none = tree(&config, &bus, &BootInfo::default());
    assert!(none.children.iter().all(|n| !n.name.starts_with("pmem")));
}

#[test]
fn nvmm_is_a_numa_node_by_option() {
    let (config, bus) = machine(&["memory.expose=numa-node", "harts=2"]);
    let root = tree(&config, &bus, &BootInfo::default());
    let node = |n: u32| Node::new("").u32("numa-node-id", n);
    for (path, number, range) in [
        ("memory@80000000", 0, Some((0x8000_0000, 128 << 20))),
        ("memory@88000000", 1, Some((0x8800_0000, 128 << 20))),
        ("cpus/cpu@1", 0, None),
    ] {
        let found = find(&root, path).unwrap();
        let id = found.get("numa-node-id");
        assert_eq!(id, node(number).get("numa-node-id"), "{path}");
        if let Some(range) = range {
            let expected = Node::new("").reg(&[range]);
            assert_eq!(found.get("reg"), expected.get("reg"), "{path}");
        }
    }
    let map = find(&root, "distance-map").unwrap();
    let Some(crate::fdt::Value::Cells(cells)) = map.get("distance-matrix") else {
        panic!("no distances");
    };
    assert_eq!(cells.len(), 12);

    // Without NVMM there is one node, which needs no number.
    let (config, bus) = machine(&["memory.expose=numa-node", "memory.nvmm_boundary=256 MiB"]);
    let none = tree(&config, &bus, &BootInfo::default());
    assert_eq!(
        find(&none, "memory@80000000").unwrap().get("numa-node-id"),
        None
    );
    assert!(find(&none, "distance-map").is_none());
}

#[test]
fn slots_follow_the_entropy_source() {
    let (config, bus) = machine(&["devices=[\"block\", \"share:data\", \"net\", \"console\"]"]);
    let root = tree(&config, &bus, &BootInfo::default());
    let soc = find(&root, "soc").unwrap();
    let names: Vec<&str> = soc.children.iter().map(|n| n.name.as_str()).collect();
    let slots: Vec<&str> = names
        .iter()
        .filter_map(|n| n.strip_prefix("virtio_mmio@"))
        .collect();
    assert_eq!(
        slots,
        ["10001000", "10002000", "10003000", "10004000", "10005000"]
    );
    let (_, all) =
        machine(&["devices=[\"net\",\"net\",\"net\",\"net\",\"net\",\"net\",\"net\",\"net\"]"]);
    let irqs: Vec<u32> = all.devices().filter_map(|(at, _)| at.irq).collect();
    assert_eq!(irqs, [10, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn zicbom_is_advertised_by_option() {
    for (on, setting) in [
        (false, "advertise_zicbom=false"),
        (true, "advertise_zicbom=true"),
    ] {
        let (config, bus) = machine(&[setting]);
        let root = tree(&config, &bus, &BootInfo::default());
        let cpu = find(&root, "cpus/cpu@0").unwrap();
        assert_eq!(cpu.get("riscv,cbom-block-size").is_some(), on);
        assert!(cpu.get("riscv,cboz-block-size").is_some());
        let Some(crate::fdt::Value::Strings(isa)) = cpu.get("riscv,isa") else {
            panic!()
        };
        assert!(isa[0].starts_with("rv64imafdc_zicsr"));
        assert_eq!(isa[0].contains("zicbom"), on);
    }
}

#[test]
fn dangling_and_double_labels_are_errors() {
    let dangling = Node::new("").interrupt("nobody", 3);
    let e = flatten(&dangling).unwrap_err().to_string();
    assert!(e.contains("refers to `nobody`"), "{e}");
    let twin = || Node::new("a").label("twin");
    let e = flatten(&Node::new("").child(twin()).child(twin())).unwrap_err();
    assert!(matches!(e, FdtError::Label(l) if l == "twin"));
    assert!(matches!(
        flatten(&Node::new("").string("a\0b", "")),
        Err(FdtError::Format(_))
    ));
}
