//! The device tree of a machine, from its description and the devices on its bus.

use crate::bus::Bus;
use crate::control;
use crate::device::Placement;
use crate::fdt::{flatten, hart_label, Cell, FdtError, Node, PLIC_LABEL};
use nagori_config::map;
use nagori_config::{Expose, MachineConfig};
use nagori_hart::config::Ext;

/// The loader's additions to a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BootInfo {
    /// Kernel command line.
    pub bootargs: Option<String>,
    /// First address and length of the initramfs.
    pub initrd: Option<(u64, u64)>,
}

/// NUMA node of the harts and of DRAM.
const DRAM_NUMA_NODE: u32 = 0;
/// NUMA node of NVMM, also as a `pmem-region`: without a node and the distances, the kernel does
/// not let it be used as volatile memory.
const NVMM_NUMA_NODE: u32 = 1;
/// Distances between nodes, in the kernel's unit: 10 within a node, 20 to a remote one. The kernel
/// only uses their order.
const NUMA_DISTANCES: [[u32; 3]; 4] = [
    [DRAM_NUMA_NODE, DRAM_NUMA_NODE, 10],
    [DRAM_NUMA_NODE, NVMM_NUMA_NODE, 20],
    [NVMM_NUMA_NODE, DRAM_NUMA_NODE, 20],
    [NVMM_NUMA_NODE, NVMM_NUMA_NODE, 10],
];

/// The tree as nodes.
pub fn tree(config: &MachineConfig, bus: &Bus, boot: &BootInfo) -> Node {
    let mut root = Node::new("")
        .u32("#address-cells", 2)
        .u32("#size-cells", 2)
        .compatible(&["riscv-virtio"])
        .string("model", &format!("nagori,{}", config.name));
    let mut soc = Node::new("soc")
        .u32("#address-cells", 2)
        .u32("#size-cells", 2)
        .compatible(&["simple-bus"])
        .cells("interrupt-parent", vec![Cell::Ref(PLIC_LABEL.into())])
        .flag("ranges");
    let mut plain = Vec::new();
    let mut console = None;
    for (at, device) in bus.devices() {
        let at = as_seen(config, at);
        for node in device.nodes(&at) {
            if console.is_none() && node.name.starts_with("serial@") {
                console = Some(format!("/soc/{}", node.name));
            }
            // A simple bus has only nodes with an address.
            match node.get("reg") {
                Some(_) => soc.children.push(node),
                None => plain.push(node),
            }
        }
    }
    if let Some(base) = bus.control_base() {
        soc.children.push(
            Node::at("control", base)
                .compatible(&["nagori,control"])
                .reg(&[(base, control::SIZE)]),
        );
    }
    root.children.push(chosen(boot, console));
    root.children.push(cpus(config));
    root.children.extend(counters(config));
    root.children.extend(caches(config));
    root.children.extend(memory(config));
    root.children.extend(text_store(config));
    root.children.extend(reserved(config));
    root.children.push(soc);
    root.children.extend(plain);
    root
}

/// The tree as a blob.
pub fn blob(config: &MachineConfig, bus: &Bus, boot: &BootInfo) -> Result<Vec<u8>, FdtError> {
    flatten(&tree(config, bus, boot))
}

/// A slot's device where VM 0 sees it through a constant I/O table. The firmware, which passes the table by, uses none
/// of them.
fn as_seen(config: &MachineConfig, at: Placement) -> Placement {
    let slots = map::VIRTIO..map::ENTROPY;
    let seen = config.iomap.seen_at(0, at.base, at.size);
    let base = seen.filter(|_| slots.contains(&at.base));
    Placement {
        base: base.unwrap_or(at.base),
        ..at
    }
}

fn chosen(boot: &BootInfo, console: Option<String>) -> Node {
    let mut node = Node::new("chosen");
    if let Some(path) = console {
        node = node.string("stdout-path", &path);
    }
    if let Some(args) = &boot.bootargs {
        node = node.string("bootargs", args);
    }
    if let Some((start, len)) = boot.initrd {
        node = node
            .u64("linux,initrd-start", start)
            .u64("linux,initrd-end", start + len);
    }
    node
}

/// Extensions in the form of the device tree: the advertised ones in the canonical order. The
/// machine's own extensions, which no kernel knows, are left out.
fn extensions(config: &MachineConfig) -> Vec<&'static str> {
    let shown = |e: &Ext| match e {
        Ext::Zicbom => config.advertise_zicbom,
        Ext::Xcflush | Ext::Xmark => false,
        _ => true,
    };
    let all = config.extensions().iter().filter(shown);
    all.map(Ext::name).collect()
}

fn cpus(config: &MachineConfig) -> Node {
    let extensions = extensions(config);
    let (single, multi): (Vec<&str>, Vec<&str>) = extensions.iter().partition(|e| e.len() == 1);
    let mut isa = format!("rv64{}", single.concat());
    for name in multi {
        isa.push('_');
        isa.push_str(name);
    }
    let clock = u32::try_from(config.clock_hz.nearest_hz()).unwrap_or(u32::MAX);
    let timebase = u32::try_from(config.timebase_hz.nearest_hz()).unwrap_or(u32::MAX);
    let mut cpus = Node::new("cpus")
        .u32("#address-cells", 1)
        .u32("#size-cells", 0)
        .u32("timebase-frequency", timebase);
    for hart in 0..config.harts {
        let mut cpu = Node::at("cpu", hart.into())
            .string("device_type", "cpu")
            .u32("reg", hart)
            .string("status", "okay")
            .compatible(&["riscv"])
            .string("riscv,isa", &isa)
            .string("riscv,isa-base", "rv64i")
            .strings("riscv,isa-extensions", &extensions)
            .string("mmu-type", "riscv,sv39")
            .u32("clock-frequency", clock);
        if exposed(config) != Expose::Hidden {
            cpu = cpu.u32("numa-node-id", DRAM_NUMA_NODE);
        }
        for (prefix, cache) in [("d", &config.l1d), ("i", &config.l1i)] {
            cpu = cpu
                .u32(&format!("{prefix}-cache-size"), cache.size.0 as u32)
                .u32(&format!("{prefix}-cache-sets"), cache.sets() as u32)
                .u32(&format!("{prefix}-cache-block-size"), cache.line);
        }
        if let Some((name, level)) = config.levels().first() {
            let next = Cell::Ref(cache_label(name, hart / level.shared_by.harts()));
            cpu = cpu.cells("next-level-cache", vec![next]);
        }
        for extension in ["zicbom", "zicboz", "zicbop"] {
            if extensions.contains(&extension) {
                let name = format!("riscv,{}-block-size", &extension["zi".len()..]);
                cpu = cpu.u32(&name, config.l1d.line);
            }
        }
        let intc = Node::new("interrupt-controller")
            .label(&hart_label(hart))
            .compatible(&["riscv,cpu-intc"])
            .flag("interrupt-controller")
            .u32("#interrupt-cells", 1)
            .u32("#address-cells", 0);
        cpus = cpus.child(cpu.child(intc));
    }
    cpus
}

/// Counters of a hart, as a set of their numbers.
const COUNTERS: u32 = (u32::MAX >> (32 - nagori_hart::COUNTERS)) << 3;

/// The events of hardware counters, for the firmware. (Devicetree binding `riscv,pmu`.)
fn counters(config: &MachineConfig) -> Option<Node> {
    let cells = |rows: Vec<Vec<u32>>| rows.concat().into_iter().map(Cell::Int).collect();
    let all = nagori_hart::events::sbi_events(config.levels().len());
    let events = all.iter().map(|e| vec![e.index, 0, e.code.into()]);
    let counters = all.iter().map(|e| vec![e.index, e.index, COUNTERS]);
    let code = nagori_hart::events::CODE;
    // Any number whose other bits are 0.
    let raw = vec![0, 0, u32::MAX, !code as u32, COUNTERS];
    let node = Node::new("pmu")
        .compatible(&["riscv,pmu"])
        .cells("riscv,event-to-mhpmevent", cells(events.collect()))
        .cells("riscv,event-to-mhpmcounters", cells(counters.collect()))
        .cells("riscv,raw-event-to-mhpmcounters", cells(vec![raw]));
    config.extensions().has(Ext::Zihpm).then_some(node)
}

fn cache_label(level: &str, number: u32) -> String {
    format!("{level}_{number}")
}

/// The outer cache levels.
fn caches(config: &MachineConfig) -> Vec<Node> {
    let levels = config.levels();
    let mut nodes = Vec::new();
    for (k, (name, level)) in levels.iter().enumerate() {
        let shared_by = level.shared_by.harts();
        for number in 0..config.harts.div_ceil(shared_by) {
            let mut node = Node::new(&format!("{name}-cache-{number}"))
                .label(&cache_label(name, number))
                .compatible(&["cache"])
                .u32("cache-level", level.level)
                .flag("cache-unified")
                .u32("cache-size", level.size.0 as u32)
                .u32("cache-sets", level.sets() as u32)
                .u32("cache-block-size", config.l1d.line);
            if let Some((name, next)) = levels.get(k + 1) {
                let number = number * shared_by / next.shared_by.harts();
                node = node.cells(
                    "next-level-cache",
                    vec![Cell::Ref(cache_label(name, number))],
                );
            }
            nodes.push(node);
        }
    }
    nodes
}

/// The nodes of NVMM, if there is any.
fn exposed(config: &MachineConfig) -> Expose {
    let m = &config.memory;
    if m.nvmm_base() < m.managed_end() {
        m.expose
    } else {
        Expose::Hidden
    }
}

fn memory(config: &MachineConfig) -> Vec<Node> {
    let m = &config.memory;
    let memory = |start: u64, end: u64| {
        Node::at("memory", start)
            .string("device_type", "memory")
            .reg(&[(start, end - start)])
    };
    let ram = memory(m.base, m.nvmm_base());
    let nvmm = match exposed(config) {
        Expose::Hidden => return vec![ram],
        Expose::PmemRegion => Node::at("pmem", m.nvmm_base())
            .compatible(&["pmem-region"])
            .reg(&[(m.nvmm_base(), m.managed_end() - m.nvmm_base())]),
        Expose::NumaNode => memory(m.nvmm_base(), m.managed_end()),
    };
    // The kernel learns of a node that has neither harts nor memory only from the distances.
    let map = Node::new("distance-map")
        .compatible(&["numa-distance-map-v1"])
        .cells(
            "distance-matrix",
            NUMA_DISTANCES.concat().into_iter().map(Cell::Int).collect(),
        );
    vec![
        ram.u32("numa-node-id", DRAM_NUMA_NODE),
        nvmm.u32("numa-node-id", NVMM_NUMA_NODE),
        map,
    ]
}

/// Where the texts of OFF2F programs are.
fn text_store(config: &MachineConfig) -> Option<Node> {
    let m = &config.memory;
    let node = Node::at("text-store", m.managed_end())
        .compatible(&["nagori,text-store"])
        .reg(&[(m.managed_end(), m.text_store.0)]);
    (m.text_store.0 > 0).then_some(node)
}

/// Memory that no kernel may use or map.
fn reserved(config: &MachineConfig) -> Option<Node> {
    let m = &config.memory;
    let size = m.firmware_reserve.0;
    let firmware = Node::at("mmode_resv0", m.base)
        .reg(&[(m.base, size)])
        .flag("no-map");
    let node = Node::new("reserved-memory")
        .u32("#address-cells", 2)
        .u32("#size-cells", 2)
        .flag("ranges")
        .child(firmware);
    (size > 0).then_some(node)
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
