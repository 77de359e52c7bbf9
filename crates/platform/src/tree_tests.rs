use super::*;
use crate::fdt::Value;
use nagori_config::{Library, Machine};
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
    let bus = crate::assembly::build(&config, ram).unwrap();
    (config, bus)
}

/// Converts a tree from one form to another with dtc; returns dtc's output and warnings.
fn convert(input: &[u8], from: &str, to: &str) -> (Vec<u8>, String) {
    let mut child = Command::new("dtc")
        .args(["-I", from, "-O", to, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let out = child.wait_with_output().unwrap();
    let complaints = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{complaints}");
    (out.stdout, complaints)
}

/// The blob as source text, and dtc's warnings.
fn dtc(blob: &[u8]) -> (String, String) {
    let (text, complaints) = convert(blob, "dtb", "dts");
    (String::from_utf8(text).unwrap(), complaints)
}

/// The tree given by source text of any version of dtc, written by the installed version. It
/// contains every byte of every property, so equal texts mean equal trees.
fn rewritten(source: &str) -> String {
    let (blob, _) = convert(source.as_bytes(), "dts", "dtb");
    dtc(&blob).0
}

fn find<'a>(node: &'a Node, path: &str) -> Option<&'a Node> {
    let mut at = node;
    for name in path.split('/').filter(|n| !n.is_empty()) {
        at = at.children.iter().find(|c| c.name == name)?;
    }
    Some(at)
}

const L2: &str = "cache.l2={ level = 2, shared_by = 2, size = \"64 KiB\", ways = 8, latency = 12 }";
const LLC: &str =
    "cache.llc={ level = 3, shared_by = \"all\", size = \"320 KiB\", ways = 20, latency = 40 }";

#[test]
fn caches_are_nodes_that_harts_lead_to() {
    if crate::tool("dtc").is_none() {
        return;
    }
    let (config, bus) = machine(&["harts=3", LLC, L2]);
    let (dts, _) = dtc(&blob(&config, &bus, &BootInfo::default()).unwrap());
    let value = |node: &str, key: &str| {
        let body = dts.split(&format!("{node} {{")).nth(1).expect(node);
        let line = body.lines().find(|l| l.trim().starts_with(key));
        let line = line.unwrap_or_else(|| panic!("{node} has no {key}: {dts}"));
        line.trim().to_owned()
    };
    let next = |node: &str| {
        value(node, "next-level-cache")
            .split(" = ")
            .nth(1)
            .map(str::to_owned)
    };
    let handle = |node: &str| {
        value(node, "phandle")
            .split(" = ")
            .nth(1)
            .map(str::to_owned)
    };
    assert_eq!(next("cpu@0"), handle("l2-cache-0"));
    assert_eq!(next("cpu@1"), handle("l2-cache-0"));
    assert_eq!(next("cpu@2"), handle("l2-cache-1"));
    for l2 in ["l2-cache-0", "l2-cache-1"] {
        assert_eq!(next(l2), handle("llc-cache-0"));
        assert_eq!(value(l2, "cache-size"), "cache-size = <0x10000>;");
    }
    assert_eq!(value("llc-cache-0", "cache-level"), "cache-level = <0x03>;");
    assert_eq!(value("llc-cache-0", "cache-sets"), "cache-sets = <0x100>;");
    assert!(!dts.contains("l2-cache-2") && !dts.contains("llc-cache-1"));
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
        &["harts=4", L2, LLC],
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
    // Versions of dtc write the same tree differently.
    nagori_golden::golden_as(crate::kept("tree.dts"), &dts, rewritten);
}

#[test]
fn trees_are_compared_and_not_their_text() {
    if crate::tool("dtc").is_none() {
        return;
    }
    let wrap = |body: &str| rewritten(&format!("/dts-v1/;\n/ {{ {body} }};"));
    let tree = wrap("a = <0x02 0x61626300>; n { s = \"x\", \"y\"; e; };");
    for same in [
        "a = <2 0x61626300>; n { s = \"x\\0y\"; e; };",
        "a = <0x2>, <0x61626300>;\nn { s = [78 00 79 00]; e = []; };",
    ] {
        assert_eq!(wrap(same), tree);
    }
    for other in [
        "a = <0x03 0x61626300>; n { s = \"x\", \"y\"; e; };",
        "a = <0x02 0x61626301>; n { s = \"x\", \"y\"; e; };",
        "a = <0x02>; n { s = \"x\", \"y\"; e; };",
        "a = <0x02 0x61626300>; n { s = \"x\", \"z\"; e; };",
        "a = <0x02 0x61626300>; n { s = \"x y\"; e; };",
        "a = <0x02 0x61626300>; n { s = \"x\", \"y\"; };",
        "a = <0x02 0x61626300>; m { s = \"x\", \"y\"; e; };",
        "a = <0x02 0x61626300>; n { s = \"x\", \"y\"; e; m { }; };",
    ] {
        assert_ne!(wrap(other), tree, "{other}");
    }
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
fn the_text_store_is_taken_from_what_kernels_manage() {
    let range = |root: &Node, path: &str| find(root, path).map(|n| n.get("reg").cloned());
    let reg = |start: u64, len: u64| Some(Node::new("").reg(&[(start, len)]).get("reg").cloned());
    let (store, all) = (16 << 20, 128 << 20);
    for (expose, path) in [
        ("pmem-region", "pmem@88000000"),
        ("numa-node", "memory@88000000"),
    ] {
        let expose = format!("memory.expose={expose}");
        let (config, bus) = machine(&[&expose, "memory.text_store=16 MiB"]);
        let root = tree(&config, &bus, &BootInfo::default());
        assert_eq!(range(&root, path), reg(0x8800_0000, all - store), "{path}");
        assert_eq!(range(&root, "text-store@8f000000"), reg(0x8f00_0000, store));
        // All of NVMM.
        let (config, bus) = machine(&[&expose, "memory.text_store=128 MiB"]);
        let root = tree(&config, &bus, &BootInfo::default());
        assert_eq!(range(&root, path), None);
        assert_eq!(range(&root, "text-store@88000000"), reg(0x8800_0000, all));
    }
    let (config, bus) = machine(&[]);
    let root = tree(&config, &bus, &BootInfo::default());
    assert!(!root
        .children
        .iter()
        .any(|n| n.name.starts_with("text-store")));
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
fn slots_are_where_qemu_has_them() {
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
        ["10009000", "10001000", "10002000", "10003000", "10004000"]
    );
    let irqs = |bus: &Bus| -> Vec<u32> { bus.devices().filter_map(|(at, _)| at.irq).collect() };
    assert_eq!(irqs(&bus), [10, 11, 9, 1, 2, 3, 4]);
    let (_, all) =
        machine(&["devices=[\"net\",\"net\",\"net\",\"net\",\"net\",\"net\",\"net\",\"net\"]"]);
    assert_eq!(irqs(&all), [10, 11, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
    // Where the description names it, it has that slot.
    let (config, bus) = machine(&["devices=[\"block\", \"entropy\", \"net\"]"]);
    assert_eq!(irqs(&bus), [10, 11, 1, 2, 3]);
    let at = bus.devices().find(|(at, _)| at.irq == Some(2)).unwrap();
    assert_eq!((at.0.base, at.1.kind()), (0x1000_2000, "virtio-rng"));
    assert!(tree(&config, &bus, &BootInfo::default()) != root);
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
fn the_tree_names_what_decodes() {
    let named = |settings: &[&str]| -> (Vec<String>, String) {
        let (config, bus) = machine(settings);
        let root = tree(&config, &bus, &BootInfo::default());
        let cpu = find(&root, "cpus/cpu@0").unwrap();
        let strings = |name| match cpu.get(name) {
            Some(crate::fdt::Value::Strings(s)) => s.clone(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(
            cpu.get("riscv,cboz-block-size").is_some(),
            config.has(Ext::Zicboz)
        );
        (
            strings("riscv,isa-extensions"),
            strings("riscv,isa").remove(0),
        )
    };
    let list = Ext::ALL
        .iter()
        .filter(|e| !matches!(e, Ext::Priv | Ext::Xmark));
    let list: Vec<String> = list.map(|e| format!("{:?}", e.name())).collect();
    let (all, _) = named(&[
        "advertise_zicbom=true",
        &format!("isa=[{}]", list.join(",")),
    ]);
    for &e in Ext::ALL {
        let vendor = matches!(e, Ext::Priv | Ext::Xcflush | Ext::Xmark);
        assert_eq!(all.iter().any(|n| n == e.name()), !vendor, "{}", e.name());
    }
    // Whatever order the description has.
    let (few, text) = named(&["isa=[\"zicsr\",\"a\",\"m\",\"i\"]"]);
    assert_eq!(few, ["i", "m", "a", "zicsr"]);
    assert_eq!(text, "rv64ima_zicsr");
}

#[test]
fn pins_and_flashes_are_what_drivers_expect() {
    let (config, bus) = machine(&["devices=[\"spi\", \"gpio\", \"spi\"]"]);
    let root = tree(&config, &bus, &BootInfo::default());
    let (_, complaints) = dtc(&flatten(&root).unwrap());
    assert_eq!(complaints, "");
    let cells = |node: &Node, name: &str| match node.get(name) {
        Some(Value::Cells(cells)) => cells.clone(),
        other => panic!("{}: {name} is {other:?}", node.name),
    };
    // One interrupt for each pin, and as many pins.
    let gpio = find(&root, "soc/gpio@10002000").unwrap();
    let sources: Vec<_> = (13..29).map(Cell::Int).collect();
    assert_eq!(cells(gpio, "interrupts"), sources);
    assert_eq!(cells(gpio, "ngpios"), [Cell::Int(16)]);
    for base in ["10001000", "10003000"] {
        let spi = find(&root, &format!("soc/spi@{base}")).unwrap();
        let clock = format!("clock-spi-{base}");
        assert_eq!(cells(spi, "clocks"), [Cell::Ref(clock.clone())]);
        let clock = find(&root, &clock).unwrap();
        let hz = config.clock_hz.nearest_hz() as u32;
        assert_eq!(cells(clock, "clock-frequency"), [Cell::Int(hz)]);
        let flash = find(spi, "flash@0").unwrap();
        assert_eq!(cells(flash, "reg"), [Cell::Int(0)]);
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
