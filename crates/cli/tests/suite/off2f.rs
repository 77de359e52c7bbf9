//! OFF2F on Debian's own kernel: texts in the store on NVMM, mapped in place.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{boot, image, made, options, value};
use crate::common::nagori;
use nagori_image::{rootfs, Base, RootfsSpec};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const GCC: &str = "riscv64-linux-gnu-gcc";
const STORE: [&str; 4] = [
    "--modules",
    "off2f",
    "--set",
    "memory.text_store=\"16 MiB\"",
];

/// Shows its own text's mapping, or waits for a line.
const SHOWS: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{
    char line[300];
    FILE *f = count > 1 ? stdin : fopen("/proc/self/smaps", "r");
    int text = 0;
    puts("runs=yes");
    fflush(stdout);
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            text = strstr(line, "/off2f:") != NULL;
        unsigned kb;
        if (text && sscanf(line, "Rss: %u", &kb) == 1)
            printf("text_rss=%u\n", kb);
    }
    return 0;
}
"#;

/// Programs in both formats, in a directory for the guest; nothing without a compiler.
fn programs(dir: &Path) -> Option<()> {
    image()?;
    let source = dir.join("shows.c");
    std::fs::write(&source, SHOWS).expect("a file");
    // A text of more than 2 MiB, which is linked so that huge pages fit.
    let huge = dir.join("huge.S");
    let code = ".globl _start\n_start:\n.rept 1200000\nnop\n.endr\nli a7, 93\nli a0, 0\necall\n";
    std::fs::write(&huge, code).expect("a file");
    let gcc = |args: &[&str], from: &Path, to: &str| {
        let run = Command::new(GCC)
            .args(args)
            .arg(from)
            .arg("-o")
            .arg(dir.join(to))
            .status();
        assert!(run.expect("the image needs it, too").success());
    };
    gcc(&["-O1", "-static"], &source, "shows");
    let page = "-Wl,-z,max-page-size=0x200000,-Ttext-segment=0x200000,-z,norelro";
    gcc(&["-nostdlib", "-static", page], &huge, "huge");
    for name in ["shows", "huge"] {
        nagori()
            .args(["-q", "off2f", "split"])
            .arg(dir.join(name))
            .assert()
            .success();
    }
    Some(())
}

#[test]
fn text_is_mapped_in_place_and_nothing_breaks() {
    let dir = tempfile::tempdir().expect("a directory");
    if programs(dir.path()).is_none() {
        return;
    }
    let script = r#"
cp /mnt/p/*.off2 /tmp; cd /tmp
./shows.off2 2>/dev/null; echo "no_store=$?"
off2f format || exit 1
./shows.off2 2>/dev/null; echo "missing=$?"
off2f put /mnt/p/shows.text && off2f put /mnt/p/huge.text || exit 2
./shows.off2 || exit 3
bench-exec huge ./huge.off2
(sleep 2; echo end) | ./shows.off2 wait >/dev/null & sleep 1
p=$(pidof shows.off2)
rmmod off2f 2>/dev/null; echo "unload_mapped=$?"
(echo x >>shows.off2) 2>/dev/null; echo "write_running=$?"
off2f format 2>/dev/null; echo "format_mapped=$?"
off2f remove shows && off2f put /mnt/p/shows.text other || exit 4
echo "places=$(off2f list | grep -c 'offset=0x10000 ')"
cmp /proc/$p/exe /mnt/p/shows && echo "exe=same"
wait
head -c 9000 shows.off2 >short.off2; chmod +x short.off2; ./short.off2 2>/dev/null; echo "short=$?"
off2f fsck; off2f stat
rmmod off2f; echo "unload=$?"
echo "oops=$(dmesg | grep -c 'Oops\|BUG\|Bad ')"
echo "told=$(dmesg | grep -c 'off2f: .*\(no text store\|not in the store\|damaged\)')"
exit 0"#;
    let share = format!("{}:p", dir.path().display());
    let lines = boot(&[&STORE[..], &["--share", &share]].concat(), script, 0);
    let number = |name: &str| value(&lines, name).parse::<u64>().expect("a number");
    // An error before the program: the shell says 126.
    for (name, expected) in [
        ("no_store", "126"),
        ("missing", "126"),
        ("short", "126"),
        ("runs", "yes"),
        ("text_rss", "0"),
        ("unload_mapped", "1"),
        ("write_running", "1"),
        ("format_mapped", "1"),
        ("exe", "same"),
        ("refused", "3"),
        ("execs", "3"),
        ("huge_pages", "1"),
        ("unload", "0"),
        ("oops", "0"),
        ("told", "3"),
        // The new text is not where the old one is still mapped.
        ("places", "0"),
    ] {
        assert_eq!(value(&lines, name), expected, "{name} in {lines:#?}");
    }
    assert!(number("small_pages") > number("faults"));
    assert!(
        lines.iter().any(|l| l == "off2f: texts=2 wrong=0"),
        "{lines:#?}"
    );
    // Each line of the text comes from NVMM, once.
    let row = lines
        .iter()
        .find(|l| l.starts_with("exec label=huge"))
        .expect("a row");
    let fetched = row.split("nvmm=").nth(1).expect("a number");
    let fetched: u64 = fetched.parse().expect("a number");
    assert!((37_500..38_000).contains(&fetched), "{row}");
}

#[test]
fn the_store_survives_a_power_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    if programs(dir.path()).is_none() {
        return;
    }
    // The second half runs after the cut, which is right behind the last `put`.
    let script = r#"
cp /mnt/p/shows.off2 /tmp
if off2f fsck; then
    /tmp/shows.off2 && off2f list | grep -c name=huge && exit 9
    exit 8
fi
nagori-ctl timing on
off2f format && off2f put /mnt/p/huge.text && off2f put /mnt/p/shows.text || exit 1
nagori-mark label 1
exit 2"#;
    let share = format!("{}:p", dir.path().display());
    let more = [
        "--set",
        "memory.track_persistence=true",
        "--power-cut-at",
        "marker:1",
        "--share",
        &share,
    ];
    let lines = boot(&[&STORE[..], &more].concat(), script, 9);
    assert!(
        lines.iter().any(|l| l == "off2f: texts=2 wrong=0"),
        "{lines:#?}"
    );
    assert_eq!(value(&lines, "text_rss"), "0");
}

#[test]
fn a_cut_within_put_leaves_the_old_text() {
    cut_within_put(|left, old| {
        // Some of the new text's 75 000 lines; an exit code of 126 is the module's. Before, without the timing model,
        // each store of 8 bytes counts: those of the directory, and of the old text.
        let within = 65_536 / 8 + old / 8 + 30_000;
        assert_eq!(left(&format!("nvmm-write:{within}")), "0,126");
    });
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_cut_around_put_leaves_the_old_text_or_the_new_one() {
    cut_within_put(|left, _| {
        assert_eq!(left("marker:1"), "0,126");
        assert_eq!(left("marker:2"), "126,0");
    });
}

/// Checks what a cut leaves: the check is given what runs with a cut at a place, and the size of the old text.
fn cut_within_put(check: impl Fn(&dyn Fn(&str) -> String, usize)) {
    let dir = tempfile::tempdir().expect("a directory");
    if programs(dir.path()).is_none() {
        return;
    }
    // The second half runs after the cut: there is one text of the name, and fsck finds nothing but what was replaced.
    let script = r#"
cp /mnt/p/shows.off2 /mnt/p/huge.off2 /tmp
if off2f list >/dev/null 2>&1; then
    off2f fsck >/tmp/found; grep record /tmp/found | grep -v 'it was replaced' && exit 4
    off2f fsck --repair >/dev/null; off2f fsck || exit 5
    [ $(off2f list | wc -l) = 1 ] || exit 6
    /tmp/shows.off2 >/dev/null 2>&1; old=$?
    /tmp/huge.off2 2>/dev/null; new=$?
    echo "left=$old,$new"
    exit 9
fi
off2f format && off2f put /mnt/p/shows.text name || exit 1
nagori-ctl timing on
nagori-mark label 1
off2f put /mnt/p/huge.text name
nagori-mark label 2
exit 2"#;
    let share = format!("{}:p", dir.path().display());
    let left = |at: &str| {
        let more = [
            "--set",
            "memory.track_persistence=true",
            "--power-cut-at",
            at,
            "--share",
            &share,
        ];
        let lines = boot(&[&STORE[..], &more].concat(), script, 9);
        value(&lines, "left").to_string()
    };
    let old = std::fs::metadata(dir.path().join("shows.text")).expect("a file");
    check(&left, old.len() as usize);
}

#[test]
fn off2f_reads_less_and_starts_large_texts_faster_than_a_disk() {
    if image().is_none() || !crate::common::tool("mke2fs") {
        return;
    }
    let out = nagori()
        .timeout(crate::common::debian::PATIENCE)
        .args([
            "-q",
            "bench",
            "off2f",
            "--sizes",
            "32,1024",
            "--methods",
            "extended",
            "--repeat",
            "1",
            "--states",
            "cold,reset",
            "--json",
        ])
        .assert()
        .code(0);
    let rows: Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 12);
    for state in ["cold", "reset"] {
        let of = |format: &str, kib: u64, key: &str| {
            let row = rows
                .iter()
                .find(|r| r["format"] == format && r["text_kib"] == kib && r["state"] == state);
            row.expect("a row")[key].as_u64().expect("a number")
        };
        let time = |format| of(format, 1024, "exec_to_exit_ns");
        assert!(time("off2f") < time("elf-disk"), "{state}");
        for kib in [32, 1024] {
            assert!(of("off2f", kib, "bytes_read") < of("elf-disk", kib, "bytes_read"));
            // Lines of 64 bytes of the text, and only what lies beside it on NVMM.
            assert!(of("off2f", kib, "nvmm_fetches") >= kib * 16);
            // Soon after a boot the kernel itself reads some NVMM.
            let others = if state == "cold" { 16 } else { 256 };
            assert!(of("elf-disk", kib, "nvmm_fetches") < others, "{state}");
        }
        let grown = |format| of(format, 1024, "bytes_read") - of(format, 32, "bytes_read");
        assert!(grown("elf-disk") >= 992 << 10 && grown("off2f") < 16 << 10);
    }
}

/// A library, and a program that ends with 7 if it has found it.
const LIBRARY: &str = r#"
int answer(void) { return 42; }
"#;
const USES: &str = r#"
int answer(void);
void _start(void)
{
    register long number __asm__("a7") = 93;
    register long code __asm__("a0") = answer() == 42 ? 7 : 1;
    __asm__ volatile("ecall" : : "r"(number), "r"(code));
}
"#;

#[test]
fn a_directory_of_off2_files_holds_elf_files() {
    let dir = tempfile::tempdir().expect("a directory");
    if programs(dir.path()).is_none() {
        return;
    }
    for (name, text) in [("library.c", LIBRARY), ("uses.c", USES)] {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    let gcc = |args: &[&str]| {
        let run = Command::new(GCC)
            .current_dir(dir.path())
            .args(args)
            .status();
        assert!(run.expect("the image needs it, too").success());
    };
    // The program names the library by its path in the guest, as the dynamic linker would find it.
    gcc(&[
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-Wl,-soname,/opt/elf/libanswer.so",
        "-o",
        "libanswer.so",
        "library.c",
    ]);
    gcc(&["-nostdlib", "-o", "uses", "uses.c", "libanswer.so"]);
    let linker = Path::new("/usr/riscv64-linux-gnu/lib/ld-linux-riscv64-lp64d.so.1");
    std::fs::copy(linker, dir.path().join("linker")).expect("the cross compiler's");
    let script = r#"
mkdir -p /opt/off2 /opt/elf; cp /mnt/p/linker /lib/ld-linux-riscv64-lp64d.so.1; cp /mnt/p/uses /tmp
off2f format || exit 1
for f in libanswer.so shows; do
    off2f split /mnt/p/$f /opt/off2 && off2f put /opt/off2/$f.text || exit 2
done
cmp /opt/off2/shows.off2 /mnt/p/shows.off2 && cmp /opt/off2/shows.text /mnt/p/shows.text && echo "split=same"
off2f join /opt/off2/shows.off2 /tmp/again && cmp /tmp/again /mnt/p/shows && echo "join=same"
off2f show /opt/off2/shows.off2 | grep -c 'text pages' | sed 's/^/shown=/'
mount -t off2f /opt/off2 /opt/elf || exit 3
echo "names=$(ls /opt/elf | tr '
' ' ')"
cmp /opt/elf/shows /mnt/p/shows && echo "file=same"
/opt/elf/shows | sed 's/^text_rss/unused/'
/tmp/uses; echo "library=$?"
off2f stat | grep '^faults=\|^copied'
cat /opt/elf/none 2>/dev/null; echo "none=$?"
(echo x >/opt/elf/shows) 2>/dev/null; echo "write=$?"
off2f remove libanswer.so
/tmp/uses 2>/dev/null; echo "removed=$?"
(sleep 2; echo end) | /opt/elf/shows wait >/dev/null & sleep 1
umount /opt/elf 2>/dev/null; echo "busy=$?"
off2f format 2>/dev/null; echo "format=$?"
rmmod off2f 2>/dev/null; echo "unload_mounted=$?"
wait
umount /opt/elf && rmmod off2f; echo "unload=$?"
echo "oops=$(dmesg | grep -c 'Oops\|BUG\|Bad ')"
exit 0"#;
    let share = format!("{}:p", dir.path().display());
    let lines = boot(&[&STORE[..], &["--share", &share]].concat(), script, 0);
    for (name, expected) in [
        ("split", "same"),
        ("join", "same"),
        ("shown", "1"),
        ("names", "libanswer.so shows"),
        ("file", "same"),
        ("runs", "yes"),
        ("library", "7"),
        ("none", "1"),
        ("write", "1"),
        ("removed", "127"),
        ("busy", "1"),
        ("format", "1"),
        ("unload_mounted", "1"),
        ("unload", "0"),
        ("oops", "0"),
    ] {
        assert_eq!(value(&lines, name).trim(), expected, "{name} in {lines:#?}");
    }
    assert_ne!(value(&lines, "faults"), "0");
}

#[test]
fn files_are_split_and_joined_by_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    if programs(dir.path()).is_none() {
        return;
    }
    let at = |name: &str| dir.path().join(name);
    nagori()
        .args(["off2f", "join"])
        .args([at("shows.off2"), at("again")])
        .assert()
        .success();
    assert_eq!(
        std::fs::read(at("again")).unwrap(),
        std::fs::read(at("shows")).unwrap()
    );
    let out = nagori()
        .args(["off2f", "show", "--json"])
        .arg(at("shows.text"))
        .assert()
        .success();
    let shown: Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    assert_eq!(shown["file"], "text");
    // Two programs' files, and what is there already.
    let mut other = nagori();
    other
        .args(["off2f", "join", "--text"])
        .args([at("huge.text"), at("shows.off2"), at("mixed")]);
    other
        .assert()
        .code(1)
        .stderr(predicates::str::contains("do not belong together"));
    assert!(!at("mixed").exists());
    nagori()
        .args(["off2f", "split"])
        .arg(at("shows"))
        .assert()
        .code(1);
    nagori()
        .args(["off2f", "show"])
        .arg(at("shows"))
        .assert()
        .code(1);
}

#[test]
fn the_whole_system_finds_libraries_in_place() {
    let spec = RootfsSpec::new(Base::System);
    let built = made(rootfs(&options(), &spec, None, &mut |p| eprintln!("{p}")));
    let Some(root) = built else { return };
    // What docs/off2f.md says; then the machine is reset, before whose new mount the usual libraries are found.
    let script = r#"
libc() { echo "$1=$(cat /proc/self/maps | sed -n 's/.* r-xp .* \(.*libc.so.6\)$/\1/p')"; }
if [ -e /etc/ld.so.conf.d/00-off2f.conf ]; then
    libc unmounted
    mount -t off2f /opt/off2 /opt/off2f && libc mounted
    off2f remove libc.so.6 && libc removed
    echo "told=$(dmesg | grep -c 'off2f: libc.so.6.off2.*not in the store')"
    exit 7
fi
off2f format || exit 1
mkdir -p /opt/off2 /opt/off2f
for l in libc.so.6 libm.so.6 libz.so.1 libexpat.so.1; do
    off2f split /usr/lib/riscv64-linux-gnu/$l /opt/off2 && off2f put /opt/off2/$l.text || exit 2
done
mount -t off2f /opt/off2 /opt/off2f || exit 3
libc before
LD_LIBRARY_PATH=/opt/off2f libc path
echo /opt/off2f >/etc/ld.so.conf.d/00-off2f.conf && ldconfig || exit 4
libc conf
echo "python=$(python3 -S -c 'print(*(l.split()[-1] for l in \
    open("/proc/self/maps") if "r-xp" in l and "/opt/off2f/" in l))')"
sync; echo b >/proc/sysrq-trigger; sleep 60"#;
    let root = root.path.to_str().expect("UTF-8");
    let lines = boot(&[&STORE[..], &["--rootfs", root]].concat(), script, 7);
    let (usual, ours) = (
        "/usr/lib/riscv64-linux-gnu/libc.so.6",
        "/opt/off2f/libc.so.6",
    );
    for (name, expected) in [
        ("before", usual),
        ("path", ours),
        ("conf", ours),
        ("unmounted", usual),
        ("mounted", ours),
        ("removed", usual),
    ] {
        assert_eq!(value(&lines, name), expected, "{name} in {lines:#?}");
    }
    assert_ne!(value(&lines, "told"), "0");
    let python = value(&lines, "python");
    for library in ["libc.so.6", "libm.so.6", "libz.so.1", "libexpat.so.1"] {
        assert!(python.contains(library), "{python}");
    }
}
