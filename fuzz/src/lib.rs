//! What is fuzzed: each function takes any bytes, and must return.
//!
//! The functions are called by the libFuzzer targets (`fuzz_targets/`) and by the runner for stable toolchains
//! (`src/bin/smoke.rs`).
#![deny(unsafe_code)]

// Calls the library as C does.
#[allow(unsafe_code)]
mod capi;
mod guest;
mod iomap;
mod memory;
mod net;
mod ninep;
mod nvmm;
mod off2f;
mod remote;
mod seeds;
mod snapshot;
mod trace;
mod translator;
mod virtio;
mod vmm;

pub use capi::c_interface;
pub use guest::{device_access, guest_words};
pub use iomap::port_list;
pub use memory::{mapping, memory_set, memory_toml};
pub use net::nat_frames;
pub use ninep::ninep;
pub use nvmm::nvmm_image;
pub use off2f::off2f_files;
pub use remote::{control_message, gdb_packets, symbol_file};
pub use seeds::seeds;
pub use snapshot::{snapshot_file, snapshot_state};
pub use trace::{trace_binary, trace_compressed, trace_file, trace_gem5, trace_text};
pub use translator::translator;
pub use virtio::{disk_overlay, virtqueue};
pub use vmm::vmm;

use nagori_config::{Library, Machine as Description, Source};
use nagori_isa::{decode as decode_word, encode};
use nagori_platform::assembly;
use nagori_platform::bus::Bus;
use nagori_platform::loader::{
    check_firmware, check_initramfs, load_elf, parse_kernel, plan_linux, FileData, LinuxFiles,
    RamRange,
};
use nagori_platform::tree::{self, BootInfo};
use nagori_ram::GuestRam;

/// A target: its name, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("elf_loader", elf_loader),
    ("kernel_image", kernel_image),
    ("machine_toml", machine_toml),
    ("guest_words", guest_words),
    ("translator", translator),
    ("device_access", device_access),
    ("virtqueue", virtqueue),
    ("disk_overlay", disk_overlay),
    ("nvmm_image", nvmm_image),
    ("off2f_files", off2f_files),
    ("decode", decode),
    ("trace_file", trace_file),
    ("trace_text", trace_text),
    ("trace_gem5", trace_gem5),
    ("trace_binary", trace_binary),
    ("trace_compressed", trace_compressed),
    ("memory_toml", memory_toml),
    ("memory_set", memory_set),
    ("mapping", mapping),
    ("c_interface", c_interface),
    ("ninep", ninep),
    ("snapshot_file", snapshot_file),
    ("snapshot_state", snapshot_state),
    ("nat_frames", nat_frames),
    ("control_message", control_message),
    ("gdb_packets", gdb_packets),
    ("symbol_file", symbol_file),
    ("port_list", port_list),
    ("vmm", vmm),
];

const RAM: RamRange = RamRange {
    start: 0x8000_0000,
    end: 0x8000_0000 + (64 << 20),
};

fn file(bytes: &[u8]) -> FileData {
    FileData {
        path: "fuzz".into(),
        bytes: bytes.to_vec(),
    }
}

/// A bare-metal program: it is refused, or lies in memory, in order, and its symbols answer.
pub fn elf_loader(data: &[u8]) {
    let Ok(elf) = load_elf(&file(data), RAM) else {
        return;
    };
    let mut end = RAM.start;
    for s in &elf.plan.segments {
        assert!(s.addr >= end && s.memory_size >= s.bytes.len() as u64);
        end = s.addr + s.memory_size;
        assert!(end <= RAM.end);
    }
    assert!(elf.plan.entry.pc >= RAM.start && elf.plan.entry.pc < RAM.end);
    for at in [0, elf.plan.entry.pc, end, u64::MAX] {
        let _ = elf.symbols.lookup(at);
    }
    let mut plan = elf.plan;
    let _ = plan.add_tree(RAM, vec![0; 5000]);
}

/// A kernel, a firmware, an initramfs, and all of them together.
pub fn kernel_image(data: &[u8]) {
    let whole = file(data);
    let _ = check_firmware(&whole);
    let _ = check_initramfs(&whole);
    if let Ok(k) = parse_kernel(&whole, None, RAM) {
        // What is accepted is placed or refused for its size, not half placed.
        let files = LinuxFiles {
            firmware: Some(file(&[0x13; 4096])),
            kernel: whole,
            kernel_at: None,
            initramfs: Some(file(b"070701")),
            bootargs: None,
            boot_hart: 0,
            reserved: 0,
        };
        drop(k);
        if let Ok(plan) = plan_linux(&files, RAM, |_| Ok(vec![0; 4096])) {
            let sorted = plan
                .segments
                .windows(2)
                .all(|w| w[0].addr + w[0].memory_size <= w[1].addr);
            assert!(sorted, "{:x?}", plan.entry);
        }
    }
    // The bytes as firmware and initial root file system.
    let files = LinuxFiles {
        firmware: Some(file(data)),
        kernel: file(&seeds::kernel()),
        kernel_at: None,
        initramfs: Some(file(data)),
        bootargs: Some(String::from_utf8_lossy(data).replace('\0', " ")),
        boot_hart: 3,
        reserved: 2 << 20,
    };
    let _ = plan_linux(&files, RAM, |boot| {
        assert!(boot.bootargs.is_some());
        Ok(vec![0; 4096])
    });
}

/// A machine description, whole or as settings on top of one; what is accepted has a bus and a
/// device tree.
pub fn machine_toml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let library = Library::default();
    let source = |text: &str| Source {
        name: "fuzz.toml".into(),
        dir: None,
        text: text.into(),
    };
    // Lines that begin with `!` are settings, as of --set.
    let settings: Vec<String> = text
        .lines()
        .filter_map(|l| l.strip_prefix('!').map(String::from))
        .collect();
    let rest: String = text
        .lines()
        .filter(|l| !l.starts_with('!'))
        .map(|l| format!("{l}\n"))
        .collect();
    // No description may name files of the host.
    if text.contains('/') {
        return;
    }
    let Ok(d) = Description::from_source(&library, &source(&rest), &settings) else {
        return;
    };
    let _ = (d.show(), d.to_json().to_string());
    let bus = bus(&d);
    let boot = BootInfo {
        bootargs: Some("console=ttyS0".into()),
        initrd: Some((RAM.start, 4096)),
    };
    let blob = tree::blob(&d.config, &bus, &boot).expect("an accepted machine has a tree");
    assert_eq!(blob[..4], [0xd0, 0x0d, 0xfe, 0xed]);
    nagori_memtime::Controller::new(d.config.controller_params())
        .expect("an accepted machine has a controller");
    d.hart().expect("an accepted machine has a core");
}

/// A bus with all devices of a description.
fn bus(d: &Description) -> Bus {
    let ram = GuestRam::new(4096).expect("a page");
    assembly::build(&d.config, ram.into()).expect("an accepted machine has a bus")
}

/// Instruction words: what decodes is encoded to the same word, and can be printed.
pub fn decode(data: &[u8]) {
    for four in data.chunks_exact(4) {
        let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let Some(inst) = decode_word(word) else {
            continue;
        };
        assert!(matches!(inst.len, 2 | 4));
        assert!(!nagori_isa::disassemble(&inst, 0x8000_0000).is_empty());
        if inst.len == 4 {
            if let Some(again) = encode(&inst) {
                assert_eq!(
                    decode_word(again),
                    Some(nagori_isa::Inst { raw: again, ..inst })
                );
            }
        }
    }
}
