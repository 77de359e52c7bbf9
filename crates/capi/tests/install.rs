//! The library as its users get it: installed, found by pkg-config and by CMake, used from C and
//! C++ and from the adapters for other simulators.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{install, installed, library, root, run};

fn pkg_config(prefix: &Path, args: &[&str]) -> Vec<String> {
    let mut c = Command::new("pkg-config");
    c.args(args).arg("nagori-memory");
    c.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    c.env_remove("PKG_CONFIG_SYSROOT_DIR");
    let text = run(&mut c);
    text.split_whitespace().map(str::to_owned).collect()
}

const C99: [&str; 6] = [
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
    "-O1",
];
const CXX11: [&str; 6] = [
    "-std=c++11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
    "-O1",
];

/// Compiles one file with the flags of pkg-config; `shared` links with the shared library.
fn compile(prefix: &Path, source: &str, shared: bool) -> PathBuf {
    let out = prefix.join(source.replace(['/', '.'], "_") + if shared { "" } else { "_static" });
    let (compiler, flags) = if source.ends_with(".c") {
        ("cc", C99)
    } else {
        ("c++", CXX11)
    };
    let mut c = Command::new(compiler);
    c.args(flags).arg(root().join("examples").join(source));
    c.args(pkg_config(prefix, &["--cflags"]));
    if shared {
        c.args(pkg_config(prefix, &["--libs"]));
    } else {
        let all = pkg_config(prefix, &["--static", "--libs"]);
        c.arg(prefix.join("lib/libnagori_memory.a"));
        c.args(all.iter().filter(|a| *a != "-lnagori_memory"));
    }
    run(c.arg("-o").arg(&out));
    out
}

/// The program, with the installed library.
fn program(prefix: &Path, path: &Path) -> Command {
    let mut c = Command::new(path);
    c.env("LD_LIBRARY_PATH", prefix.join("lib"));
    c
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// What the example printed for 20000 requests.
fn stream_is_right(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "requests 20000");
    let json = json(lines[3]);
    assert_eq!(json["regions"][0]["counters"]["reads"], 15000);
    assert_eq!(json["regions"][0]["counters"]["writes"], 5000);
}

#[test]
fn consumers_through_pkg_config() {
    let dir = installed();
    let prefix = dir.path();
    assert_eq!(
        pkg_config(prefix, &["--modversion"])[0],
        format!("2.{}", env!("CARGO_PKG_VERSION"))
    );
    let mut printed = Vec::new();
    for shared in [true, false] {
        let stream = compile(prefix, "stream.c", shared);
        let text = run(program(prefix, &stream).args(["xpoint", "20000"]));
        stream_is_right(&text);
        printed.push(text);
        let none = run(program(prefix, &stream).args(["xpoint", "0"]));
        let lines: Vec<&str> = none.lines().take(3).collect();
        assert_eq!(lines, ["requests 0", "mean latency -", "bandwidth -"]);
        assert!(!none.contains("nan") && !none.contains("inf"), "{none}");
        let bad = program(prefix, &stream)
            .arg("no-such-memory")
            .output()
            .unwrap();
        assert_eq!(bad.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert!(errors.contains("no-such-memory"), "{errors}");
        let save = compile(prefix, "save.cc", shared);
        for (memory, log) in [
            ("ddr4", "on"),
            ("pcm", "on"),
            ("xpoint", "off"),
            ("board", "on"),
        ] {
            let text = run(program(prefix, &save).arg(memory));
            assert_eq!(text, format!("saved {memory}, log {log}, rest equal\n"));
        }
    }
    assert_eq!(printed[0], printed[1]);
}

#[test]
fn consumers_through_cmake() {
    let dir = installed();
    let (prefix, examples) = (dir.path(), root().join("examples"));
    let project = prefix.join("project");
    std::fs::create_dir(&project).unwrap();
    let text = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(consumer C CXX)\n\
         set(CMAKE_CXX_STANDARD 11)\nset(CMAKE_CXX_STANDARD_REQUIRED ON)\n\
         find_package(NagoriMemory 2 REQUIRED)\n\
         add_executable(stream {0}/stream.c)\n\
         target_link_libraries(stream PRIVATE Nagori::memory)\n\
         add_executable(save {0}/save.cc)\n\
         target_link_libraries(save PRIVATE Nagori::memory_static)\n",
        examples.display()
    );
    std::fs::write(project.join("CMakeLists.txt"), &text).unwrap();
    let configure = |project: &Path| {
        let mut c = Command::new("cmake");
        c.arg("-S")
            .arg(project)
            .arg("-B")
            .arg(project.join("build"));
        c.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        c
    };
    run(&mut configure(&project));
    run(Command::new("cmake")
        .arg("--build")
        .arg(project.join("build")));
    // CMake gives programs in its build tree the path of the library.
    let stream = run(Command::new(project.join("build/stream")).args(["xpoint", "20000"]));
    stream_is_right(&stream);
    let save = run(Command::new(project.join("build/save")).arg("ddr3"));
    assert_eq!(save, "saved ddr3, log on, rest equal\n");
    // Another interface does not fit.
    let other = prefix.join("other");
    std::fs::create_dir(&other).unwrap();
    let text = text.replace("NagoriMemory 2", "NagoriMemory 1");
    std::fs::write(other.join("CMakeLists.txt"), text).unwrap();
    assert!(!configure(&other).output().unwrap().status.success());
}

#[test]
fn adapters_for_other_simulators() {
    let dir = installed();
    let prefix = dir.path();
    let gem5 = compile(prefix, "gem5/main.cc", true);
    for memory in ["ddr4", "xpoint"] {
        let text = run(program(prefix, &gem5).arg(memory));
        let (first, stats) = text.split_once('\n').unwrap();
        let start = "answered 2000 of 2000, retries yes, drained 1, ";
        assert!(first.starts_with(start), "{first}");
        let counters = &json(stats)["regions"][0]["counters"];
        assert_eq!(
            (&counters["reads"], &counters["writes"]),
            (&1500.into(), &500.into())
        );
    }
    let zsim = compile(prefix, "zsim/main.cc", true);
    let cycles = ["ddr4", "xpoint"].map(|memory| {
        let text = run(program(prefix, &zsim).arg(memory));
        let (first, stats) = text.split_once('\n').unwrap();
        let rest = first.strip_prefix("mem-0: 1200 reads, ").unwrap();
        let cycles = rest.strip_suffix(" cycles each, 0 bad").unwrap();
        let counters = &json(stats)["regions"][0]["counters"];
        assert_eq!(
            (&counters["reads"], &counters["writes"]),
            (&1200.into(), &400.into())
        );
        cycles.parse::<u64>().unwrap()
    });
    assert!(cycles[0] > 40 && cycles[1] > 2 * cycles[0], "{cycles:?}");
    for file in ["gem5/nagori_mem.hh", "zsim/nagori_mem.h"] {
        let text = std::fs::read_to_string(root().join("examples").join(file)).unwrap();
        assert!(text.lines().count() < 150, "{file}");
    }
}

#[test]
fn header_is_c99_and_cxx11() {
    let dir = tempfile::tempdir().unwrap();
    for (compiler, flags, name) in [("cc", C99, "a.c"), ("c++", CXX11, "a.cc")] {
        let source = dir.path().join(name);
        std::fs::write(
            &source,
            "#include <nagori_memory.h>\n#include <nagori_memory.h>\n",
        )
        .unwrap();
        let include = root().join("include");
        let mut c = Command::new(compiler);
        run(c
            .args(flags)
            .arg("-fsyntax-only")
            .arg("-I")
            .arg(include)
            .arg(source));
    }
}

#[test]
fn the_library_exports_its_functions_only() {
    let so = library(".so");
    let text = run(Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(&so));
    let mut symbols: Vec<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
    symbols.sort_unstable();
    let header = std::fs::read_to_string(root().join("include/nagori_memory.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|l| !l.starts_with(['/', ' ', '#']))
        .filter_map(|l| l.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|n| n.starts_with("nagori_"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 14, "{declared:?}");
    assert_eq!(symbols, declared);
    let soname = format!("libnagori_memory.so.{}", nagori_capi::NAGORI_ABI_VERSION);
    let dynamic = run(Command::new("objdump").arg("-p").arg(&so));
    let line = dynamic
        .lines()
        .find(|l| l.contains("SONAME"))
        .unwrap_or("none");
    assert_eq!(line.split_whitespace().last(), Some(&*soname));
}

#[test]
fn packages_are_staged_below_destdir() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = Path::new("/opt/nagori-test");
    install(&mut Command::new("sh"), prefix, Some(dir.path()));
    let staged = dir.path().join("opt/nagori-test");
    let lib = staged.join("lib");
    let pc = std::fs::read_to_string(lib.join("pkgconfig/nagori-memory.pc")).unwrap();
    assert!(
        pc.starts_with("prefix=/opt/nagori-test\nlibdir=/opt/nagori-test/lib\n"),
        "{pc}"
    );
    let mut installed: Vec<String> = Vec::new();
    for folder in ["include", "lib", "lib/pkgconfig", "lib/cmake/NagoriMemory"] {
        for entry in std::fs::read_dir(staged.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read(&path).unwrap_or_default();
            let here = dir.path().to_str().unwrap().as_bytes();
            let small = text.len() < 10_000;
            assert!(
                !small || !text.windows(here.len()).any(|w| w == here),
                "{path:?}"
            );
            if !path.is_dir() {
                installed.push(path.strip_prefix(&staged).unwrap().display().to_string());
            }
        }
    }
    installed.sort();
    let real = format!("lib/libnagori_memory.so.2.{}", env!("CARGO_PKG_VERSION"));
    let expected = [
        "include/nagori_memory.h",
        "lib/cmake/NagoriMemory/NagoriMemoryConfig.cmake",
        "lib/cmake/NagoriMemory/NagoriMemoryConfigVersion.cmake",
        "lib/libnagori_memory.a",
        "lib/libnagori_memory.so",
        "lib/libnagori_memory.so.2",
        &real,
        "lib/pkgconfig/nagori-memory.pc",
    ];
    assert_eq!(installed, expected);
    assert!(!prefix.exists());
    let bad = Command::new("sh")
        .arg(root().join("../../scripts/install.sh"))
        .env("PREFIX", "relative")
        .env("SHARED", library(".so"))
        .env("STATIC", library(".a"))
        .output()
        .unwrap();
    assert!(!bad.status.success());
    assert!(String::from_utf8_lossy(&bad.stderr).contains("absolute"));
}
