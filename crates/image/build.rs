//! Compiles the guest's programs of `guest/` for riscv64 and packs them into one file that the crate carries, so that
//! whoever uses the command needs no compiler.
//!
//! The compiler is `riscv64-linux-gnu-gcc`, or what NAGORI_RISCV_CC names; `tar` and `xz` pack.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs};

/// rv64gc, the baseline of Debian's own programs; no path of the host gets into the program.
const FLAGS: [&str; 12] = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-march=rv64gc",
    "-mabi=lp64d",
    "-s",
    "-Wl,--build-id=none",
    "-Iinclude",
    "-Ilib",
];

/// A program or library.
struct Job {
    /// Where it is in the packed file: `all/` is for every guest, below /bin or /usr/local/bin; `root/` for root file
    /// systems with libraries, below /usr/local.
    to: String,
    arguments: Vec<String>,
}

fn job(to: impl Into<String>, flags: &[&str], sources: &[String]) -> Job {
    let flags = flags.iter().map(|f| f.to_string());
    Job {
        to: to.into(),
        arguments: flags.chain(sources.iter().cloned()).collect(),
    }
}

/// The C files of a directory of `guest/`, sorted.
fn sources(guest: &Path, dir: &str) -> Vec<String> {
    let list = fs::read_dir(guest.join(dir)).unwrap_or_else(|e| panic!("guest/{dir}: {e}"));
    let names = list.map(|e| e.expect("a name").file_name());
    let mut files: Vec<String> = names
        .map(|n| format!("{dir}/{}", n.to_string_lossy()))
        .filter(|n| n.ends_with(".c"))
        .collect();
    files.sort();
    files
}

fn jobs(guest: &Path) -> Vec<Job> {
    let these = |dir: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|n| format!("{dir}/{n}.c")).collect()
    };
    let library = sources(guest, "lib");
    let mut all = Vec::new();
    for main in sources(guest, "bench")
        .into_iter()
        .chain(sources(guest, "agent"))
    {
        let name = main
            .rsplit('/')
            .next()
            .expect("a name")
            .trim_end_matches(".c");
        let parts = [&[main.clone()][..], &library].concat();
        all.push(job(format!("all/{name}"), &["-static", "-Iagent"], &parts));
    }
    all.push(job(
        "all/off2f",
        &["-static"],
        &these("off2f", &["off2f", "files", "store"]),
    ));
    // Otherwise the compiler merges malloc and memset into calloc, removes code that it considers to have no effect,
    // and makes of a copying loop a call of the very function in which it is.
    let shared = ["-fno-builtin", "-shared", "-fPIC", "-fvisibility=hidden"];
    all.push(job(
        "root/lib/libnagori-malloc.so",
        &[&shared[..], &["-Imalloc"]].concat(),
        &these("malloc", &["nagori-malloc", "heap", "nvmm"]),
    ));
    all.push(job(
        "root/bin/malloc-check",
        &["-fno-builtin", "-Imalloc"],
        &these("malloc", &["check"]),
    ));
    all.push(job(
        "root/lib/libnagori-persist.so",
        &shared,
        &these("persist", &["nagori-persist"]),
    ));
    all.push(job(
        "root/bin/persist-check",
        &[],
        &these("persist", &["check"]),
    ));
    // Programs on which crash exploration is tried.
    all.push(job(
        "root/bin/crash-corpus",
        &["-static"],
        &these("crash", &["main", "ring", "hash", "btree", "alloc"]),
    ));
    all
}

fn main() {
    let guest =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../guest");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=NAGORI_RISCV_CC");
    for dir in [
        "agent", "bench", "crash", "include", "init", "kernel", "lib", "malloc", "off2f", "persist",
    ] {
        println!("cargo:rerun-if-changed=../../guest/{dir}");
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let programs = out.join("programs");
    if programs.exists() {
        fs::remove_dir_all(&programs).expect("the folder can be removed");
    }
    for sub in ["all", "root/bin", "root/lib"] {
        fs::create_dir_all(programs.join(sub)).expect("a folder can be made");
    }
    let compiler = env::var("NAGORI_RISCV_CC").unwrap_or_else(|_| "riscv64-linux-gnu-gcc".into());
    let version = Command::new(&compiler).arg("-dumpfullversion").output();
    let version = version.unwrap_or_else(|e| {
        panic!(
            "{compiler}: {e}; it compiles the guest's programs. On Debian and Ubuntu: \
             apt-get install gcc-riscv64-linux-gnu libc6-dev-riscv64-cross; elsewhere, NAGORI_RISCV_CC names a compiler"
        )
    });
    let version = String::from_utf8_lossy(&version.stdout).trim().to_string();
    let queue = Mutex::new(jobs(&guest));
    let threads = env::var("NUM_JOBS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let job = queue.lock().expect("no other thread has failed").pop();
                let Some(job) = job else { break };
                compile(&compiler, &guest, &job, &programs);
            });
        }
    });
    let packed = out.join("programs.tar.xz");
    // Owners, times and the order are fixed, so that equal programs are equal files.
    let mut tar = Command::new("tar");
    tar.env("XZ_OPT", "-9e").args([
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.args(["--format=ustar", "--mode=755", "-cJf"])
        .arg(&packed)
        .arg("-C")
        .arg(&programs)
        .args(["all", "root"]);
    let done = tar.status().unwrap_or_else(|e| panic!("tar: {e}"));
    assert!(
        done.success(),
        "tar and xz could not pack the guest's programs (packages tar and xz-utils)"
    );
    let name = Path::new(&compiler)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    println!("cargo:rustc-env=NAGORI_GUEST_COMPILER={name} {version}");
}

fn compile(compiler: &str, guest: &Path, job: &Job, programs: &Path) {
    let mut c = Command::new(compiler);
    c.current_dir(guest)
        .env("LC_ALL", "C")
        .args(FLAGS)
        .arg("-o")
        .arg(programs.join(&job.to));
    let out = c
        .args(&job.arguments)
        .output()
        .unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(
        out.status.success(),
        "the guest program {} does not compile:\n{}",
        job.to,
        String::from_utf8_lossy(&out.stderr)
    );
}
