//! What fuzzing starts from: small inputs that are accepted, and near misses.

/// A kernel header in front of nothing.
pub fn kernel() -> Vec<u8> {
    let mut b = vec![0u8; 4096];
    b[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
    b[16..24].copy_from_slice(&8192u64.to_le_bytes());
    b[48..56].copy_from_slice(b"RISCV\0\0\0");
    b[56..60].copy_from_slice(b"RSC\x05");
    b
}

/// A static program of one segment: writes 0x5555 to the test device.
fn program() -> Vec<u8> {
    let words = [
        0x0010_0537u32,
        0x0000_55b7,
        0x5555_8593,
        0x00b5_2023,
        0x0000_006f,
    ];
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let base = 0x8000_0000u64;
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2u16, 243].map(u16::to_le_bytes).concat());
    out.extend(1u32.to_le_bytes());
    out.extend([base, 64, 0].map(u64::to_le_bytes).concat());
    out.extend(0u32.to_le_bytes());
    out.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    out.extend([1u32, 7].map(u32::to_le_bytes).concat());
    let len = code.len() as u64;
    out.extend(
        [120, base, base, len, len + 64, 4]
            .map(u64::to_le_bytes)
            .concat(),
    );
    out.extend(code);
    out
}

fn words(head: [u8; 4], words: &[u32]) -> Vec<u8> {
    let mut out = head.to_vec();
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    out
}

fn gzip_of_nothing() -> Vec<u8> {
    vec![
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
}

/// The seeds of a target, by its name.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let text = |t: &str| t.as_bytes().to_vec();
    let embedded = |name| {
        nagori_config::embedded(".", name)
            .unwrap_or_default()
            .replace('/', "-")
            .into_bytes()
    };
    match target {
        "ninep" => crate::ninep::seeds(),
        "elf_loader" => vec![program(), program()[..100].to_vec()],
        "kernel_image" => vec![kernel(), gzip_of_nothing(), text("070701"), vec![0x13; 4096]],
        "snapshot_file" => vec![crate::snapshot::sample().to_vec()],
        "snapshot_state" => vec![crate::snapshot::sample_state()],
        "machine_toml" => vec![
            embedded("vc707"),
            embedded("small"),
            text("!harts=8\n!memory.nvmm_boundary=\"512 MiB\"\nmethod = \"fine\"\n"),
            text("[memory]\nsize = \"8 GiB\"\nexpose = \"pmem-region\"\n[memory.controller]\npreset = \
                \"vc707\"\nmachines = 4\n"),
            text("[l1d]\nsize = \"32 KiB\"\nways = 8\n[dtlb]\nsectors = 4\n!advertise_zicbom=true\n"),
        ],
        "guest_words" => vec![
            // Stores to the places in registers, and on.
            words([0x82, 3, 0, 0], &[0x00b5_b023, 0x00c6_3023, 0x00d6_b023, 0x0005_b503, 0xff1f_f06f]),
            // Page tables on: satp from s6, mret.
            words([1, 1, 16, 0], &[0x180b_1073, 0x1200_0073, 0x3020_0073, 0x1050_0073]),
            words([0x80, 0, 0, 0], &[0x0000_100f, 0x0331_00f3, 0x0200_0053, 0x0000_0073]),
        ],
        "vmm" => crate::vmm::seeds(),
        "translator" => {
            // Settings: harts and mode; the code is what the words of a counter stand for, or
            // loops that load, store and jump.
            let counted = |k: u32| (0..200 + k).map(|i| (i + k).wrapping_mul(0x0101_9581)).collect();
            let copy = vec![
                0x0005_3283, 0x0055_b023, 0x0085_0513, 0x0085_8593, 0x0012_8313, 0xfe62_f6e3,
                0xfe9f_f06f,
            ];
            // Stores to itself and jumps into it, calls and returns, doubles, atomics.
            let own = vec![0x0000_0297, 0x0002_a303, 0x0062_a823, 0x0000_100f, 0x0000_0013, 0xfedf_f06f];
            let calls = vec![0x00c0_00ef, 0x0012_8293, 0xff9f_f06f, 0x0014_0413, 0x0000_8067];
            let doubles = vec![0x0220_f053, 0x1231_7153, 0x0a21_21d3, 0x7220_f243, 0xff1f_f06f];
            let atomics = vec![0x1005_32af, 0x1855_332f, 0x0055_332f, 0x0805_3eaf, 0xff1f_f06f];
            let all: Vec<Vec<u32>> = vec![copy, own, calls, doubles, atomics, counted(0), counted(1), counted(5)];
            let heads = [
                [0, 0, 0, 0x48], [0x80, 0, 0, 0x40], [0x82, 3, 8, 0x25], [0x01, 1, 0, 0x05],
                [0xc0, 2, 0, 0x06], [0x40, 0, 8, 0x46], [0xc1, 3, 16, 0x86], [0xc2, 0, 0, 0xc2],
            ];
            let mut out = Vec::new();
            for (k, words) in all.iter().enumerate() {
                for head in heads {
                    let mut data: Vec<u8> = head.to_vec();
                    data.extend([k as u8, 1, 2, 3]);
                    data.extend(words.iter().flat_map(|w| w.to_le_bytes()));
                    out.push(data);
                }
            }
            out
        }
        "virtqueue" => crate::virtio::virtqueue_seeds(),
        "off2f_files" => crate::off2f::seeds(),
        "nvmm_image" => vec![vec![], crate::nvmm::seed()],
        "disk_overlay" => vec![vec![], crate::virtio::overlay_seed()],
        "control_message" => vec![
            text(concat!(
                r#"{"jsonrpc":"2.0","id":1,"method":"set","#,
                r#""params":{"values":{"method":"fine","coarse_read":300,"timed":true}}}"#,
            )),
            text(concat!(
                r#"[{"jsonrpc":"2.0","id":"a","method":"status"},"#,
                r#"{"jsonrpc":"2.0","method":"pause","params":{}},"#,
                r#"{"jsonrpc":"2.0","id":null,"method":"schema","params":[]}]"#,
            )),
            text(r#"{"jsonrpc":"2.0","id":3,"method":"snapshot","params":{"path":"/x"}}"#),
            text(r#"{"jsonrpc":"2.0","id":3,"method":"dump_statistics","params":{"label":18446744073709551615}}"#),
        ],
        "gdb_packets" => vec![
            text(
                "\x02qSupported:multiprocess+;swbreak+;hwbreak+\n?\nqfThreadInfo\nHgp1.2\ng\n\
                 qXfer:features:read:target.xml:0,ffb\n",
            ),
            text(
                "\x00Z0,80000010,2\nvCont;c\nm80000000,40\nM80000100,2:0102\nX80000100,2:ab\n\
                 z0,80000010,2\nvCont;s:1;c\nD\n",
            ),
            text(
                "\x03Hg-1\nT0\nvCont;s:0\nvCont;r80000000,80000010:2;c\nP1=0102030405060708\np20\n\
                 Z2,80000100,8\nqRcmd,7374617473\n!\x03+-\nk\n",
            ),
        ],
        "symbol_file" => vec![
            program(),
            text("ffffffff80000000 T _start\nffffffff80000010 t inner\t[mod]\n0000000000001000 W end\n"),
        ],
        "port_list" => vec![
            text("\x010x92000000 0x40001000 4 x18\n0x92000400 0x40001400 4 x256 # buffers\nkeep 0x40001048 8\n"),
            text("\x0716 0x20 1 vm=1 r\n17 0x21 1 vm=1 w\n0 0 0x8000000000000000 vm=2\n"),
        ],
        "device_access" => vec![
            b"\x80\x03\0\0\x03\x03\x00\x01\x03\0\0\0\x03\x03\x08\x02\x02\0\0\0\x0a\x03\x20\x01\0\0\0\0".to_vec(),
            b"\0\0\0\0\x02\x06\x70\x00\x0f\0\0\0\x02\x06\x38\x00\x08\0\0\0\x42\x06\x80\x00\0\x10\x20\0".to_vec(),
        ],
        "trace_file" => {
            use nagori_memtrace::format::{Compression, Format};
            use nagori_memtrace::Times;
            let mut all: Vec<Vec<u8>> = crate::trace::seeds().into_iter().map(|s| s.1).collect();
            for c in [Compression::Gzip, Compression::Zstd] {
                all.push(crate::trace::seed(Format::Dramsim3, Times::Cycles, c));
                all.push(crate::trace::seed(Format::Nagori, Times::None, c));
            }
            all.push(text("NVMV1\n\n12 R 0x40 00ff 00 1\n13 W 80\n"));
            all
        }
        "trace_text" => {
            let formats = nagori_memtrace::Format::ALL.into_iter().filter(|f| f.is_text());
            let mut all = Vec::new();
            for (i, f) in formats.enumerate() {
                let found = crate::trace::seeds().into_iter().filter(|s| s.0 == f);
                all.extend(found.map(|s| [&[i as u8][..], &s.1].concat()));
            }
            all.push(text("\x043,r,128,64,0,500\n4,w,64,8,7,501,4096\nu,0,64,0,9\n"));
            all.push(text("\x01ST 18446744073709551615\nLD 0xffffffffffffffc0\n"));
            all
        }
        "trace_gem5" => {
            let found = crate::trace::seeds().into_iter();
            let of = |s: &(_, Vec<u8>)| s.0 == nagori_memtrace::Format::Gem5;
            // Without the word, and without the header behind it.
            let all: Vec<Vec<u8>> = found.filter(of).map(|s| s.1[4..].to_vec()).collect();
            let bare = all.iter().map(|s| s[usize::from(s[0]) + 1..].to_vec()).collect();
            [all, bare].concat()
        }
        "trace_binary" => {
            let found = crate::trace::seeds().into_iter();
            let of = |s: &(_, Vec<u8>)| s.0 == nagori_memtrace::Format::Nagori;
            found.filter(of).map(|s| s.1[8..].to_vec()).collect()
        }
        "trace_compressed" => {
            let heads = [[0, 255], [1, 255], [0, 128], [1, 128]];
            let with = |h: [u8; 2]| {
                let seeds = crate::trace::seeds().into_iter();
                seeds.map(move |s| [&h[..], &s.1].concat())
            };
            heads.into_iter().flat_map(with).collect()
        }
        "memory_toml" => {
            let presets = nagori_memcfg::EMBEDDED.iter();
            // A small cache: the tags of a whole one take long to make.
            let front = "front = \"ddr3-1600k\"";
            let small = "front = { name = \"ddr3\", set = [\"organisation.rows=256\"] }";
            let of = |p: &(&str, &str)| text(&p.1.replace(front, small));
            let mut all: Vec<Vec<u8>> = presets.map(of).collect();
            all.push(text("preset = \"ddr3-1600k\"\n[timings]\ntRCD = \"15 ns\"\n[controller]\npage = \
                \"closed\"\n!controller.channels=2\n"));
            all.push(text("kind = \"flat\"\ndescription = \"two\"\n[[part]]\nname = \"a\"\nbase = 0\nmemory = \
                \"ddr3\"\n[[part]]\nname = \"b\"\nbase = \"4 GiB\"\nmemory = { name = \"pcm\", set = \
                    [\"controller.read_queue=8\"] }\n!b.timings.tRCD=200 ns\n"));
            all
        }
        "memory_set" => [
            "ddr3\ntimings.tRCD=15 ns\ncontroller.page=closed",
            "ddr4\nvariant=2400r\ncontroller.order=age_first\ncontroller.starvation=100",
            "lpddr4\ncontroller.refresh=per_bank\ncontroller.write_high=16",
            "pcm\ncontroller.write_pause=true\ncontroller.write_done=\"device\"",
            "stt-mram\ncontroller.mapping={ order = \"row bank column rank bank_group channel\", xor = [] }",
            "reram\norganisation.ranks=2\ncontroller.channels=2",
            "board\nboard.method=extended",
            "xpoint\nxpoint.media_read=500 ns\nxpoint.line_bytes=512",
            "cxl\nmemory.controller.page=open\nlink.request=50 ns",
            "dram-cache\nfront.organisation.rows=256\ncache.ways=4\nback.controller.read_queue=4",
            "hybrid\nnvmm.timings.tRCD=200 ns",
            "ddr3-1333h\ncontroller.policy=dramsim3\ntimings.tRC=3 ns",
        ]
        .map(text)
        .into(),
        "mapping" => [
            "\0\0row bank bank_group rank column channel",
            "\x01\x01row channel rank bank bank_group column\nbank row 0\nbank_group row 3",
            "\x02\x02rank row bank channel column bank_group\nchannel row 2",
            "\0\0rrrrrrrrrrrrrrrr bbb ccccccc",
            "\0\x01rrrrrrrrrrrrrrrr cc bbb h ccccc\nbank row 1\nchannel row 0",
        ]
        .map(text)
        .into(),
        "nat_frames" => crate::net::seeds(),
        "c_interface" => {
            let mut calls = Vec::new();
            for i in 0..27u8 {
                let kind = i % 9;
                calls.extend([kind, 0, 64 + i, i % 2, 0, 8 * i, 1, 0]);
                calls.extend([0, i, 3 * i, i, 0, 0, 0, 0]);
            }
            ["ddr3\ntimings.tRCD=15 ns", "xpoint", "board", "dram-cache\nfront.organisation.rows=256", "nothing\nx=1"]
                .iter()
                .map(|t| [t.as_bytes(), b"\n\n", &calls].concat())
                .collect()
        }
        _ => vec![words([0x13, 0, 0, 0], &[0x02b5_0533, 0x1234_5678, 0xffff_ffff, 0x0000_4501])],
    }
}
