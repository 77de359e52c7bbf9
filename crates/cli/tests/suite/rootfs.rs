//! Debian's packages as the root file system, and NVMM for programs in it, as a user has them.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{boot, made, options, PATIENCE};
use crate::common::*;
use nagori_image::{rootfs, Base, RootfsSpec};
use predicates::prelude::*;
use predicates::str::contains;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// False, with a word, where the host cannot build images.
fn image(base: Base) -> bool {
    let spec = RootfsSpec::new(base);
    made(rootfs(&options(), &spec, None, &mut |p| eprintln!("{p}"))).is_some()
}

/// Boots, answers each text on the console with another, and gives back all output. getty throws
/// away what was typed before it asks.
fn session(args: &[&str], answers: &[(&str, &str)]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nagori"))
        .args(["--quiet", "boot", "--append", "quiet"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nagori");
    let mut input = child.stdin.take().expect("piped");
    let mut output = child.stdout.take().expect("piped");
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n) = output.read(&mut bytes) {
            if n == 0 || sender.send(bytes[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let (mut all, mut seen, mut answers) = (Vec::new(), 0, answers.iter());
    let mut next = answers.next();
    while let Some(left) = PATIENCE.checked_sub(start.elapsed()) {
        let Ok(more) = receiver.recv_timeout(left) else {
            break;
        };
        all.extend(more);
        let text = String::from_utf8_lossy(&all[seen..]).into_owned();
        if let Some((question, answer)) = next {
            if text.contains(question) {
                seen = all.len();
                input
                    .write_all(answer.as_bytes())
                    .expect("the machine runs");
                next = answers.next();
            }
        }
    }
    let text = String::from_utf8_lossy(&all).replace('\r', "");
    if child.try_wait().expect("a child").is_none() && start.elapsed() >= PATIENCE {
        let _ = child.kill();
    }
    let status = child.wait().expect("a child");
    drop(input);
    reader.join().expect("the reader");
    assert!(status.success(), "{status}:\n{text}");
    text
}

/// Programs in the small root file system, with malloc in DRAM, on NVMM, and by size: the same
/// results, and traffic to NVMM where it should be.
#[test]
fn programs_with_malloc_on_nvmm() {
    if !image(Base::Run) {
        return;
    }
    // NVMM is in no node of the device tree: all accesses to it are those of the allocator.
    let script = r#"
[ "$(dpkg --verify | grep -c missing)" = 0 ] || exit 1
seq 1 4000 >/tmp/in
export NAGORI_MALLOC_STATS=1
for m in dram nvmm size:4096; do
    export NAGORI_MALLOC=$m LD_PRELOAD=/usr/local/lib/libnagori-malloc.so
    echo "mode=$m"
    malloc-check
    sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all
        select x+1 from c where x<1000) insert into t select x, hex(x*x) from c;
        select sum(a), count(distinct b) from t'
    python3 -S -c 'd = {i: str(i) * 5 for i in range(2000)}; print(len(d), sum(map(len, d.values())))'
    # Every part of a pipe is a process with a claim of its own.
    echo "subshell=$( (echo a; echo b) | cat | wc -l)"
    xz -0 -c /tmp/in | xz -dc | cmp - /tmp/in && echo xz=same
    unset LD_PRELOAD
done 2>&1
export LD_PRELOAD=/usr/local/lib/libnagori-malloc.so
NAGORI_MALLOC=much /usr/bin/true 2>&1
NAGORI_MALLOC=nvmm NAGORI_MALLOC_DEVICE=/dev/none /usr/bin/true 2>&1
NAGORI_MALLOC=dram nagori-ctl timing on
NAGORI_MALLOC=nvmm NAGORI_MALLOC_STATS=0 sqlite3 :memory: 'select 6*7'
NAGORI_MALLOC=dram nagori-ctl timing off
exit 3"#;
    let files = Files::new();
    let stats = files.path("stats.json");
    let path = stats.to_str().expect("UTF-8");
    let text = boot(&["--rootfs", "run", "--stats-file", path], script, 3).join("\n");
    let parts: Vec<&str> = text.split("mode=").collect();
    assert_eq!(parts.len(), 4, "{text}");
    for part in &parts[1..] {
        for line in [
            "malloc-check: ok 11364176208",
            "500500|1000",
            "2000 34450",
            "subshell=2",
            "xz=same",
        ] {
            assert!(part.contains(line), "{line} not in:\n{text}");
        }
    }
    // What the library says of itself.
    let reports = |part: &str, what: &str| part.lines().filter(|l| l.contains(what)).count();
    assert!(reports(parts[1], "nagori-malloc: dram: nvmm=0 ") >= 3);
    assert!(reports(parts[2], "nagori-malloc: /dev/mem: nvmm=") >= 3);
    assert_eq!(reports(parts[2], "nvmm=0 "), 0, "{text}");
    assert!(reports(parts[3], "nagori-malloc: /dev/mem: nvmm=") >= 3);
    assert!(text.contains("NAGORI_MALLOC=much: give dram, nvmm or size:BYTES"));
    assert!(
        text.contains("cannot open /dev/none: No such file"),
        "{text}"
    );
    // The timed part.
    let text = std::fs::read(&stats).expect("statistics");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let nvmm = &json["memory"]["nvmm"]["counters"];
    assert!(nvmm["reads"].as_u64() > Some(100), "{nvmm}");
}

/// systemd comes up, root logs in on the console, and NVMM is what the option says.
#[test]
fn a_login_and_nvmm_as_pmem() {
    if !image(Base::System) {
        return;
    }
    let script = "echo state=$(systemctl is-system-running --wait); \
        systemctl --failed --no-legend --no-pager; \
        echo target=$(systemctl is-active multi-user.target); \
        mkfs.ext4 -q -b 4096 -O bigalloc -C 2M /dev/pmem0; \
        mkdir -p /pmem; mount -o dax=always /dev/pmem0 /pmem; nvmm-check /pmem/x; \
        umount /pmem; ndctl create-namespace -f -e namespace0.0 --mode=devdax >/dev/null; \
        nvmm-check /dev/dax0.0; NAGORI_MALLOC_STATS=1 \
        LD_PRELOAD=/usr/local/lib/libnagori-malloc.so sqlite3 :memory: 'select 6*7'; \
        echo offline > /sys/devices/system/memory/auto_online_blocks; \
        daxctl reconfigure-device -m system-ram dax0.0 >/dev/null; numactl -H | grep '^node 1'; \
        echo bugs=$(dmesg | grep -c BUG); poweroff\n";
    let text = session(
        &["--rootfs", "--nvmm", "pmem-region"],
        &[("nagori login: ", "root\n"), ("root@nagori:~# ", script)],
    );
    for line in [
        "state=running",
        "target=active",
        "nvmm-check: ok bytes=4194304 map=sync",
        "nvmm-check: ok bytes=4194304 map=device",
        "nagori-malloc: /dev/dax0.0: nvmm=",
        "node 1 cpus:\n",
        "bugs=0",
    ] {
        assert!(text.contains(line), "{line} not in:\n{text}");
    }
    let size = text.lines().find_map(|l| l.strip_prefix("node 1 size: "));
    let megabytes = size.and_then(|s| s.split(' ').next()?.parse::<u64>().ok());
    // All of NVMM but the namespace's label and page descriptors.
    assert!(
        megabytes > Some(700),
        "node 1 has {megabytes:?} MB:\n{text}"
    );
}

/// Boots to a login prompt with this input, up to a limit of instructions; stdout and stderr.
fn logged_in(input: &str, limit: &str, code: i32) -> (String, String) {
    let done = nagori()
        .args(["boot", "--rootfs", "--append", "quiet"])
        .args(["--max-instructions", limit])
        .write_stdin(input.to_owned())
        .timeout(PATIENCE)
        .assert()
        .code(code);
    let done = done.get_output();
    let text = |b: &[u8]| String::from_utf8_lossy(b).replace('\r', "");
    (text(&done.stdout), text(&done.stderr))
}

/// Input from a file: it waits for the prompts, and its end does not start getty again and again.
#[test]
fn a_script_logs_in() {
    if !image(Base::System) {
        return;
    }
    // Without a command to power off, the machine waits at the next login prompt.
    let (text, said) = logged_in("root\necho six=$((2*3))\n", "5500000000", 124);
    assert!(text.contains("six=6\n"), "{text}");
    assert!(text.matches("nagori login: ").count() <= 3, "{text}");
    assert_eq!(said.matches("ended at a login prompt").count(), 1, "{said}");
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_script_powers_off() {
    if !image(Base::System) {
        return;
    }
    let (text, _) = logged_in("root\necho six=$((2*3))\npoweroff\n", "7000000000", 0);
    assert!(text.contains("six=6\n"), "{text}");
}

/// NVMM as memory of a node without processors, with the kernel's own means.
#[test]
fn nvmm_as_a_numa_node() {
    if !image(Base::System) {
        return;
    }
    let script = "numactl -H; numactl -m 1 malloc-check; \
        NAGORI_MALLOC_STATS=1 NAGORI_MALLOC_DEVICE=node:1 \
        LD_PRELOAD=/usr/local/lib/libnagori-malloc.so sqlite3 :memory: 'select 6*7' 2>&1";
    let text = boot(&["--rootfs", "system", "--nvmm", "numa-node"], script, 0).join("\n");
    for line in [
        "available: 2 nodes (0-1)",
        "\nnode 0 cpus: 0 1 2 3\n",
        "node 1 cpus:\n",
        "malloc-check: ok",
        "nagori-malloc: NUMA node 1: nvmm=",
    ] {
        assert!(text.contains(line), "{line} not in:\n{text}");
    }
}

#[test]
fn root_file_systems_are_listed_shown_and_verified() {
    if !image(Base::Run) {
        return;
    }
    let list = nagori().args(["image", "list"]).assert().code(0);
    let list = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert!(list.lines().any(|l| l.contains("  run  ")), "{list}");
    nagori()
        .args(["image", "show", "run"])
        .assert()
        .code(0)
        .stdout(contains("libstdc++6").and(contains("lib/libnagori-malloc.so")));
    nagori()
        .args(["image", "verify", "run"])
        .assert()
        .code(0)
        .stdout(contains("  good\n"));
    nagori()
        .args(["image", "show", "walk"])
        .assert()
        .code(1)
        .stderr(contains("no root file system `walk`"));
    nagori()
        .args(["boot", "--rootfs", "./none.ext4"])
        .assert()
        .code(1)
        .stderr(contains("neither `run` nor `system`"));
}

#[test]
fn packages_that_do_not_exist_are_named() {
    if !image(Base::Run) {
        return;
    }
    for (packages, named) in [
        ("hello,nosuchpkg", "package `nosuchpkg` of Debian"),
        (
            "nosuch1,hello,nosuch2",
            "package `nosuch1 nosuch2` of Debian",
        ),
    ] {
        nagori()
            .args(["image", "build", "--base", "run", "--packages", packages])
            .assert()
            .failure()
            .stderr(contains(named).and(contains("is not in the index")));
    }
}
