//! What `nagori bench off2f` runs in the guest: the script, and the rows that it prints.

use super::measured::{Format, Measured, Real, State, BOARD, REAL};
use nagori_memtime::Method;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Where the root file system with Debian's programs is mounted.
const ROOT: &str = "/mnt/root";
/// A program that is in every disk, and in no row.
pub const USED_UP: &str = "used-up";
/// Libraries of the real programs. The dynamic linker itself is the root file system's in every format.
const LIBRARIES: &str =
    "libc.so.6 libm.so.6 libz.so.1 libexpat.so.1 libsqlite3.so.0 libreadline.so.8 libtinfo.so.6";

/// What is measured.
pub struct Plan<'a> {
    pub programs: &'a [Measured],
    pub methods: &'a [Method],
    pub states: &'a [State],
    pub repeat: u32,
}

impl Plan<'_> {
    fn has_real(&self) -> bool {
        self.programs.iter().any(|p| p.real.is_some())
    }

    /// The number of rows that the guest prints.
    pub fn rows(&self) -> usize {
        let equal = self.states.len() * self.repeat as usize;
        self.programs.len() * self.methods.len() * Format::ALL.len() * equal
    }

    /// The script, which runs at every boot: a file on DAX says what is to be measured next.
    pub fn script(&self) -> String {
        let root = if self.has_real() {
            format!(
                "mkdir -p {ROOT}; mount -t ext4 -o ro /dev/vdb {ROOT} || fail 'no root file system'\n\
                 ln -s {ROOT}/usr/lib/ld-linux-riscv64-lp64d.so.1 /lib/\n"
            )
        } else {
            String::new()
        };
        // The kernel would fill inode tables in the background while programs are measured.
        // And it sometimes moves a program to another hart. The one that it has left keeps the program's page table
        // while it idles, and is interrupted for each page of text that is mapped from then on (docs/off2f.md).
        let mut s = format!(
            "dmesg -n 1\n\
             fail() {{ echo \"bench: $1\"; exit 1; }}\n\
             mkdir -p /mnt/disk /mnt/dax /opt/off2f\n\
             {root}\
             mount_dax() {{ mount -t ext4 -o dax=always,noinit_itable /dev/pmem0 /mnt/dax; }}\n\
             pin=; [ $(nproc) = 1 ] || pin='taskset 2'\n\
             one() {{\n    \
                 label=$1:$state libs=$2; shift 2\n    \
                 LD_LIBRARY_PATH=$libs PYTHONHOME={ROOT}/usr $pin bench-exec $warm $label \"$@\" || fail \"$label\"\n\
             }}\n\
             all() {{\n"
        );
        for p in self.programs {
            let (name, file) = (p.label(), p.file());
            let job = p.real.map_or(String::new(), |r| r.job(p.passes));
            for f in Format::ALL {
                let (dir, libs, ending) = f.places();
                s += &format!("    one {name}:{f} {libs} {dir}/{file}{ending} {job}\n");
            }
        }
        s += "}\n";
        s += &format!(
            "# The kernel reports each page of 4 KiB of DAX that is unmapped (docs/nvmm.md), 60 of them a minute. The\n\
             # reports would be measured, so they are used up before.\n\
             ready() {{\n    \
                 for _ in 1 2 3 4 5 6 7 8 9 10; do /mnt/dax/{USED_UP} >/dev/null; done\n    \
                 nagori-ctl method $1 >/dev/null || fail method\n\
             }}\n"
        );
        s += "if off2f fsck >/dev/null 2>&1; then\n    \
                  mount_dax || fail 'no DAX'\n    \
                  phase=$(cat /mnt/dax/phase)\n\
              else\n";
        s += &self.prepare();
        s += "    phase=0\nfi\n";
        s += "mount -t ext4 -o ro /dev/vda /mnt/disk || fail 'no disk'\n\
              mount -t off2f /mnt/disk/lib /opt/off2f || fail 'no libraries'\n\
              next() {\n    \
                  echo $1 >/mnt/dax/phase; umount /mnt/dax || fail umount\n    \
                  reboot -f; sleep 100\n\
              }\n";
        if self.states.contains(&State::Cold) {
            s += "if [ $phase = 0 ]; then\n    off2f list\n    state=cold\n";
            let turns: String = (0..self.repeat).map(|i| format!("{i} ")).collect();
            for m in self.methods {
                s += &format!("    ready {m}; for _ in {turns}; do all; done\n");
            }
            s += "fi\n";
        }
        if self.states.contains(&State::Reset) {
            // One restart for each start: what a program has read stays in the kernel's cache.
            let names: Vec<&str> = self.methods.iter().map(|m| m.name()).collect();
            s += &format!(
                "if [ $phase = 0 ]; then off2f list; next 1; fi\nstate=reset warm=--warm\n\
                 set -- {}\nshift $(((phase - 1) % {}))\n\
                 ready $1; bench-exec --warm none /bin/true >/dev/null; all\n\
                 [ $phase = {} ] && exit 0\nnext $((phase + 1))\n",
                names.join(" "),
                names.len(),
                names.len() * self.repeat as usize
            );
        }
        s
    }

    /// Puts everything where it is measured.
    fn prepare(&self) -> String {
        let mut s = String::from(
            "    mount -t ext4 /dev/vda /mnt/disk || fail 'no disk'\n    mkdir -p /mnt/disk/lib\n    cd /mnt/disk\n",
        );
        let chosen = |r: &Real| self.programs.iter().any(|p| p.real == Some(*r));
        for r in REAL.into_iter().filter(chosen) {
            s += &format!(
                "    cp {} {} && off2f split {} || fail 'no {}'\n",
                r.file, r.name, r.name, r.name
            );
        }
        if self.has_real() {
            s += &format!(
                "    for l in {LIBRARIES}; do\n        \
                     cp {ROOT}/usr/lib/riscv64-linux-gnu/$l lib/ && off2f split lib/$l || fail $l\n    \
                 done\n"
            );
        }
        s += "    cd /; umount /mnt/disk || fail umount\n    \
                  dd if=/dev/vda of=/dev/pmem0 bs=1M 2>/dev/null || fail 'no NVMM'\n    \
                  mount_dax || fail 'no DAX'\n    \
                  off2f format || fail 'no text store'\n    \
                  for t in /mnt/dax/*.text /mnt/dax/lib/*.text; do\n        \
                      [ ! -e $t ] || off2f put $t || fail \"put $t\"\n    \
                  done\n";
        s
    }
}

/// What the guest has printed for one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub program: String,
    pub format: Format,
    pub state: State,
    pub method: String,
    pub ns: u64,
    pub faults: u64,
    pub bytes: u64,
    pub nvmm: u64,
}

/// A line of the guest's.
pub fn start(line: &str) -> Option<Start> {
    let field = |name: &str| {
        let mut words = line.split(' ');
        words.find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let mut label = field("label")?.split(':');
    Some(Start {
        program: label.next()?.to_string(),
        format: Format::ALL.into_iter().find({
            let name = label.next()?;
            move |f| f.name() == name
        })?,
        state: State::named(label.next()?)?,
        method: field("method")?.to_string(),
        ns: number("ns")?,
        faults: number("faults")?,
        bytes: number("bytes")?,
        nvmm: number("nvmm")?,
    })
}

/// Pages of the texts in the store, by name, from what `off2f list` prints.
pub fn texts(console: &str) -> BTreeMap<String, u64> {
    let text = |line: &str| {
        let mut words = line.trim_end().strip_prefix("text name=")?.split(' ');
        let name = words.next()?.to_string();
        Some((name, words.next()?.strip_prefix("pages=")?.parse().ok()?))
    };
    console.lines().filter_map(text).collect()
}

/// Rows of equal starts, each with the figures of the start whose time is the median. `memory` is what NVMM is made of.
pub fn rows(
    plan: &Plan,
    starts: &[Start],
    texts: &BTreeMap<String, u64>,
    memory: &str,
) -> Vec<Value> {
    let mut rows = Vec::new();
    for m in plan.methods {
        for &state in plan.states {
            for p in plan.programs {
                for format in Format::ALL {
                    let same = |s: &&Start| {
                        s.program == p.label()
                            && s.format == format
                            && s.state == state
                            && s.method == m.name()
                    };
                    let mut equal: Vec<&Start> = starts.iter().filter(same).collect();
                    equal.sort_by_key(|s| s.ns);
                    let Some(median) = equal.get(equal.len().saturating_sub(1) / 2) else {
                        continue;
                    };
                    let kib = texts
                        .get(&p.file())
                        .map(|pages| pages * nagori_off2f::PAGE / 1024);
                    // The control block counts what goes to the board's controller.
                    let nvmm = (memory == BOARD).then_some(median.nvmm);
                    rows.push(json!({
                        "program": p.name,
                        "passes": p.passes,
                        "text_kib": kib,
                        "memory": memory,
                        "state": state.name(),
                        "format": format.name(),
                        "method": median.method,
                        "exec_to_exit_ns": median.ns,
                        "fastest_ns": equal.first().map(|s| s.ns),
                        "slowest_ns": equal.last().map(|s| s.ns),
                        "starts": equal.len(),
                        "page_faults": median.faults,
                        "bytes_read": median.bytes,
                        "nvmm_fetches": nvmm,
                    }));
                }
            }
        }
    }
    let found: Vec<Option<f64>> = rows.iter().map(|r| break_even(&rows, r)).collect();
    for (row, passes) in rows.iter_mut().zip(found) {
        row["break_even_passes"] = json!(passes);
    }
    rows
}

/// How many passes a program may make before its text on NVMM has cost more than the disk would have: between two
/// numbers of passes that were measured, on the line between them. Nothing for other formats, and if it is not within.
fn break_even(rows: &[Value], row: &Value) -> Option<f64> {
    if row["format"] != Format::Off2f.name() {
        return None;
    }
    let time = |r: &Value| r["exec_to_exit_ns"].as_f64();
    let same = |r: &Value| {
        ["program", "memory", "state", "method"]
            .iter()
            .all(|k| r[k] == row[k])
    };
    let mut lost: Vec<(f64, f64)> = Vec::new();
    for r in rows
        .iter()
        .filter(|r| same(r) && r["format"] == row["format"])
    {
        let disk = rows.iter().find(|d| {
            same(d) && d["format"] == Format::Disk.name() && d["passes"] == r["passes"]
        })?;
        lost.push((r["passes"].as_f64()?, time(r)? - time(disk)?));
    }
    lost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let pair = lost.windows(2).find(|w| w[0].1 <= 0.0 && w[1].1 > 0.0)?;
    let [(n, from), (m, to)] = [pair[0], pair[1]];
    Some(n + (m - n) * from / (from - to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(programs: &[Measured]) -> Plan<'_> {
        Plan {
            programs,
            methods: &[Method::Fine],
            states: &[State::Cold],
            repeat: 3,
        }
    }

    #[test]
    fn rows_are_medians() {
        let programs = [Measured {
            name: "a".into(),
            real: None,
            passes: 1,
        }];
        let p = plan(&programs);
        let line =
            |ns| format!("label=a:off2f:cold method=fine ns={ns} faults={ns} bytes=0 nvmm=9");
        let starts: Vec<Start> = [30, 10, 20]
            .iter()
            .map(|ns| start(&line(*ns)).unwrap())
            .collect();
        let texts = texts("x\ntext name=a pages=8 offset=0x10000 build_id=00 checksum=0\r\n");
        let rows = rows(&p, &starts, &texts, BOARD);
        assert_eq!(rows.len(), 1);
        for (key, value) in [
            ("exec_to_exit_ns", 20),
            ("fastest_ns", 10),
            ("slowest_ns", 30),
            ("page_faults", 20),
            ("nvmm_fetches", 9),
            ("text_kib", 32),
        ] {
            assert_eq!(rows[0][key], value, "{key}");
        }
        assert_eq!(p.rows(), 9);
        assert!(rows[0]["break_even_passes"].is_null());
        assert!(super::rows(&p, &starts, &texts, "pcm")[0]["nvmm_fetches"].is_null());
    }

    #[test]
    fn text_on_nvmm_pays_up_to_the_break_even() {
        let row = |format: &str, passes: u32, ns: u32| {
            json!({
                "program": "a", "memory": "board", "state": "cold", "method": "fine",
                "format": format, "passes": passes, "exec_to_exit_ns": ns,
            })
        };
        // From the disk 100 + 10 a pass; in place 60 + 14 a pass.
        let disk = [1, 4, 16].map(|n| row("elf-disk", n, 100 + 10 * n));
        let place = [1, 4, 16].map(|n| row("off2f", n, 60 + 14 * n));
        let rows = [&disk[..], &place[..]].concat();
        assert_eq!(break_even(&rows, &rows[3]), Some(10.0));
        assert_eq!(break_even(&rows, &rows[0]), None);
        // Not within what was measured.
        let short = [&disk[..2], &place[..2]].concat();
        assert_eq!(break_even(&short, &short[2]), None);
    }

    #[test]
    fn every_start_after_a_reset_has_a_restart_of_its_own() {
        let programs = [Measured {
            name: "sqlite3".into(),
            real: Some(REAL[1]),
            passes: 4,
        }];
        let p = Plan {
            methods: &[Method::Dram, Method::Fine],
            states: &State::ALL,
            ..plan(&programs)
        };
        assert_eq!(p.rows(), 2 * 3 * 2 * 3);
        let script = p.script();
        assert!(
            script.contains("set -- dram fine\nshift $(((phase - 1) % 2))"),
            "{script}"
        );
        assert!(script.contains("[ $phase = 6 ] && exit 0"), "{script}");
        assert!(
            script.contains("one sqlite3@4:off2f /opt/off2f /mnt/disk/sqlite3.off2 "),
            "{script}"
        );
        assert!(script.contains("where x<800)"), "{script}");
    }

    #[test]
    fn lines_that_are_no_rows() {
        for bad in [
            "",
            "label=none method=fine ns=1 faults=3 bytes=0 nvmm=9",
            "label=a:x:cold method=dram ns=1 faults=0 bytes=0 nvmm=0",
            "label=a:off2f:hot method=dram ns=1 faults=0 bytes=0 nvmm=0",
            "label=a:off2f:cold method=dram ns=- faults=0 bytes=0 nvmm=0",
        ] {
            assert!(start(bad).is_none(), "{bad}");
        }
    }
}
