#!/usr/bin/env python3
"""Tests of the scripts, as far as they need no new machine."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True


def load(name):
    """A script as a module; one in another directory by its path from here."""
    module = pathlib.Path(name).stem.replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(module, str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Setup(unittest.TestCase):
    """setup.sh, with a cargo that claims a version."""

    def run_with(self, version):
        with tempfile.TemporaryDirectory() as d:
            cargo = pathlib.Path(d, "cargo")
            cargo.write_text(f"#!/bin/sh\necho '{version}'\n")
            cargo.chmod(0o755)
            path = f"{d}:{os.environ['PATH']}"
            return subprocess.run(["sh", SCRIPTS / "setup.sh"], env={**os.environ, "PATH": path},
                                  text=True, capture_output=True)

    def test_an_old_rust_is_refused(self):
        (oldest,) = re.findall(r'^rust-version = "(.*)"$', (SCRIPTS.parent / "Cargo.toml").read_text(), re.M)
        major, minor = map(int, oldest.split("."))
        for old in [f"{major}.{minor - 1}.9", f"{major}.9.0", "0.99.0"]:
            done = self.run_with(f"cargo {old} (0123456 2025-01-01)")
            self.assertEqual(done.returncode, 1, old)
            self.assertIn(f"cargo is of Rust {old}, and {oldest} or newer is needed", done.stderr)
        done = self.run_with("no version at all")
        self.assertEqual(done.returncode, 1)

    def test_this_rust_and_newer_ones_do(self):
        (oldest,) = re.findall(r'^rust-version = "(.*)"$', (SCRIPTS.parent / "Cargo.toml").read_text(), re.M)
        major, minor = map(int, oldest.split("."))
        for new in [f"{oldest}.0", f"{major}.{minor + 1}.0-nightly", f"{major}.1000.0", f"{major + 1}.0.0"]:
            done = self.run_with(f"cargo {new} (0123456 2025-01-01)")
            self.assertEqual((done.returncode, done.stderr), (0, ""), new)


class FreshMachine(unittest.TestCase):
    script = str(SCRIPTS / "fresh-machine")

    def run_it(self, *args):
        return subprocess.run([self.script, *args], text=True, capture_output=True)

    def test_help_and_wrong_arguments(self):
        done = self.run_it("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("examples:", done.stdout)
        done = self.run_it("potato")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no release `potato` here; there are bookworm, trixie", done.stderr)
        done = self.run_it("--dir", str(SCRIPTS / "machines"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("outside the repository", done.stderr)

    def test_the_mirror_is_that_of_the_host(self):
        mirror_of = load("fresh-machine").mirror_of
        self.assertEqual(mirror_of("http://s.example/debian-security/ Debian-Security main\n"
                                   "http://m.example/debian/ Debian contrib\n"
                                   "http://m.example/debian/ Debian main\n", ""),
                         "http://m.example/debian/")
        self.assertEqual(mirror_of("", "'https://a.example/tool/dists/nodistro/InRelease' a 0\n"
                                       "'http://m.example/debian-security/dists/trixie-security/InRelease' b 0\n"
                                       "'http://m.example/debian/dists/trixie/InRelease' c 0\n"),
                         "http://m.example/debian")
        self.assertIsNone(mirror_of("", ""))

    def test_one_run_for_each_machine_at_a_time(self):
        fresh = load("fresh-machine")
        with tempfile.TemporaryDirectory() as d:
            with fresh.alone(pathlib.Path(d), "trixie"), fresh.alone(pathlib.Path(d), "bookworm"):
                with self.assertRaisesRegex(fresh.Trouble, "trixie: another run uses this machine"):
                    with fresh.alone(pathlib.Path(d), "trixie"):
                        pass
            with fresh.alone(pathlib.Path(d), "trixie"):
                pass

    @unittest.skipUnless(os.geteuid() == 0, "namespaces need root")
    def test_an_interruption_leaves_neither_mounts_nor_processes(self):
        fresh = load("fresh-machine")
        with tempfile.TemporaryDirectory() as d:
            try:
                fresh.wait(fresh.isolated("true"))
            except OSError as e:
                self.skipTest(str(e))
            if fresh.wait(fresh.isolated("true")) != 0:
                self.skipTest("no namespaces here")
            pids = pathlib.Path(d, "pids")
            child = fresh.isolated("sh", "-c", f"mount -t tmpfs none /mnt && touch /mnt/here && : > {pids}; "
                                               "exec setsid sleep 1000")
            while not pids.exists() and child.poll() is None:
                time.sleep(0.01)
            below = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaises(KeyboardInterrupt):
                fresh.wait(child)
            self.assertFalse(os.path.exists("/mnt/here"))
            self.assertEqual(len(below), 1)
            for _ in range(1000):
                if not any(os.path.exists(f"/proc/{pid}") for pid in below):
                    return
                time.sleep(0.01)
            self.fail("a process is left")


class Dist(unittest.TestCase):
    """What is given away. The program itself takes minutes to build, so that another one stands for it here."""

    script = str(SCRIPTS / "dist")

    def run_it(self, *args, **env):
        return subprocess.run([self.script, *args], text=True, capture_output=True, env={**os.environ, **env})

    def test_wrong_arguments(self):
        for args in [[], ["potato"], ["deb", "wheel"]]:
            done = self.run_it(*args)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "usage: scripts/dist|one word")

    def test_packages_need_the_program(self):
        with tempfile.TemporaryDirectory() as d:
            for what in ["deb", "container"]:
                done = self.run_it(what, NAGORI_DIST=d)
                self.assertEqual(done.returncode, 1)
                self.assertIn("/nagori is missing: make dist", done.stderr)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "not on Debian")
    def test_the_package_for_debian(self):
        with tempfile.TemporaryDirectory() as d:
            shutil.copy("/bin/true", f"{d}/nagori")
            packages = []
            for _ in range(2):
                done = self.run_it("deb", NAGORI_DIST=d, SOURCE_DATE_EPOCH="1000000000")
                self.assertEqual(done.returncode, 0, done.stderr)
                (package,) = pathlib.Path(d).glob("*.deb")
                packages.append(package.read_bytes())
            self.assertEqual(*packages)
            field = subprocess.check_output(["dpkg-deb", "-f", package], text=True)
            (version,) = re.findall(r'^version = "(.*)"$', (SCRIPTS.parent / "Cargo.toml").read_text(), re.M)
            self.assertIn(f"Version: {version}\n", field)
            self.assertNotIn("Depends", field)
            files = subprocess.check_output(["dpkg-deb", "-c", package], text=True)
            self.assertRegex(files, r"-rwxr-xr-x root/root .* \./usr/bin/nagori\n")
            self.assertIn("./usr/share/doc/nagori/copyright\n", files)

    def test_the_container_has_what_is_built(self):
        built = (SCRIPTS / "dist").read_text()
        for source in re.findall(r"^COPY (\S+)", (SCRIPTS.parent / "Containerfile").read_text(), re.M):
            self.assertRegex(built, rf'cp .*{source}.* "\$dist')

    def test_the_citation_says_nothing_that_is_said_elsewhere(self):
        said = (SCRIPTS.parent / "CITATION.cff").read_text()
        cargo = (SCRIPTS.parent / "Cargo.toml").read_text()
        (here,) = re.findall(r"^license: (.*)$", said, re.M)
        self.assertEqual([here], re.findall(r'^license = "(.*)"$', cargo, re.M))
        # The schema asks for these; the version is Cargo.toml's.
        for key in ["cff-version: 1.2.0", "message: ", "title: ", "authors:"]:
            self.assertRegex(said, rf"(?m)^{key}")
        self.assertNotRegex(said, r"(?m)^version:")


class BareHost(unittest.TestCase):
    def test_wrong_arguments(self):
        for args, says in [([], "usage: "), (["/bin/true", "--users", "0"], "--users 0: a number from 1 is needed"),
                           (["/bin/true", "nowhere"], "nowhere: neither `nothing`"),
                           (["/bin/true", "--dir"], "usage: "), (["/bin/true", "--potato", "1"], "--potato: unknown")]:
            done = subprocess.run([SCRIPTS / "bare-host", *args], text=True, capture_output=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)


class Validate(unittest.TestCase):
    """The comparison with RTL, as far as it needs no RTL."""
    v = load("../validation/rocket/validate.py")

    def elf(self, directory, text, address=0x80000000):
        """An ELF file with one segment of these bytes."""
        def number(value, size):
            return value.to_bytes(size, "little")
        header = b"\x7fELF" + bytes(28) + number(64, 8) + bytes(14) + number(56, 2) + number(1, 2) + bytes(6)
        places = (120, address, address, len(text), len(text), 8)
        segment = number(1, 4) + number(4, 4) + b"".join(number(n, 8) for n in places)
        path = pathlib.Path(directory, "p.elf")
        path.write_bytes(header + segment + text)
        return path

    def test_regions_count_as_they_were_the_last_time(self):
        with tempfile.TemporaryDirectory() as d:
            elf = self.elf(d, b"one\0two\0")
            one, two = 0x80000000, 0x80000004
            labels = [(one, 10), (0, 30), (two, 31), (0, 36), (one, 40), (0, 45), (0, 99), (two, 100)]
            self.assertEqual(self.v.spans(labels, elf), {"one": (40, 45), "two": (31, 36)})
            with self.assertRaisesRegex(self.v.Failure, "0x5 is no address"):
                self.v.spans([(5, 1), (0, 2)], elf)

    def test_rows_have_the_error_of_the_model(self):
        p = {"name": "p", "kind": "micro"}
        rows = self.v.rows_of(p, (900, {"a": (0, 200), "b": (5, 105)}), (800, {"a": (7, 217), "b": (0, 95)}))
        self.assertEqual([(r["region"], r["rtl_cycles"], r["model_cycles"], r["error"]) for r in rows],
                         [("a", 200, 210, 5.0), ("b", 100, 95, -5.0)])
        rows = self.v.rows_of(p, (900, {}), (810, {}))
        self.assertEqual([(r["region"], r["error"]) for r in rows], [("run", -10.0)])
        with self.assertRaisesRegex(self.v.Failure, "regions of both sides"):
            self.v.rows_of(p, (900, {"a": (0, 1)}), (900, {}))

    def row(self, error, kind="micro", region="a"):
        return {"program": "p", "region": region, "rtl_cycles": 100, "model_cycles": 100, "error": error, "kind": kind}

    def test_only_errors_beyond_bar_and_record_fail(self):
        accepted = {("p", "known"): (-20.0, "a mechanism")}
        rows = [self.row(4.9), self.row(-5.1), self.row(3.1, "program"), self.row(-20.9, region="known"),
                self.row(21.1, region="known")]
        self.assertEqual([(r["error"], limit) for r, limit in self.v.grown(rows, accepted)],
                         [(-5.1, 5.0), (3.1, 3.0), (21.1, 21.0)])

    def test_a_mean_can_miss_its_bar(self):
        s = self.v.summary([self.row(2.5, "program"), self.row(-2.5, "program"), self.row(4)])
        self.assertEqual((s["program"]["met"], s["program"]["over"], s["micro"]["met"]), (False, 0, True))

    def test_recorded_errors_need_a_mechanism_and_keep_it(self):
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d, "accepted.csv")
            path.write_text("# why\nprogram,region,error,mechanism\np,a,9.0,queue\nother,x,7.0,replay\np,gone,8.0,m\n")
            accepted = self.v.read_accepted(path)
            rows = [self.row(8.0), self.row(6.0, region="new"), self.row(1.0, region="gone")]
            self.v.write_accepted(path, rows, accepted)
            self.assertEqual(path.read_text(), "# why\nprogram,region,error,mechanism\n"
                                               "other,x,7.0,replay\np,a,8.0,queue\np,new,6.0,\n")
            with self.assertRaisesRegex(self.v.Failure, "p, new: an accepted error needs a mechanism"):
                self.v.read_accepted(path)

    def test_requests_are_compared_in_order(self):
        rtl = [(0, "r", 0x000), (100, "r", 0x1040), (200, "w", 0x080), (300, "r", 0x20c0)]
        # One more in the model; another line in the same bank; the last one later.
        model = [(0, "r", 0x000), (50, "r", 0x5000), (100, "r", 0x1080), (200, "w", 0x080), (330, "r", 0x20c0)]
        q = self.v.compare_requests(rtl, model, 0x1000)
        self.assertEqual(q, {"rtl": 4, "model": 5, "same_bank": 4, "same_line": 3, "spacing": 30.0})
        rtl = self.v.requests(["900 r 0x40 5\n", "100 w 0x0 5\n"], self.v.RTL_REQUEST)
        model = self.v.requests(["100 h0 0x80000000 evict w 0x0 board 5\n", "900 h0 0x80000000 load r 0x40 board 5\n"],
                                self.v.MODEL_REQUEST)
        self.assertEqual((rtl, rtl), ([(100, "w", 0), (900, "r", 0x40)], model))

    def test_both_traces_are_read_and_the_parting_is_named(self):
        begin, end = 0x4e5fa013, 0x4e502013
        rtl = [f"{at} {0x80000000 + 4 * i:#x} {word:08x}" for i, (at, word) in
               enumerate([(5, begin), (6, 0x13), (7, end), (10, begin), (11, 0x13), (12, 0x13), (13, end)])]
        model = [f"exec {at:>10} h0 {0x80000000 + 4 * i:#018x} <f+{4 * i:#x}> M {word:>8} op{i}" for i, (at, word) in
                 enumerate([(0, "4e5fa013"), (1, "00000013"), (2, "4e502013"), (3, "4e5fa013"), (4, "00000013"),
                            (9, "0001"), (10, "4e502013")])]
        rtl = self.v.steps(rtl, self.v.RTL_STEP, ["a", "b"], ["b"])
        model = self.v.steps(model, self.v.MODEL_STEP, ["a", "b"], ["b"])
        self.assertEqual([len(s["b"]) for s in (rtl, model)], [3, 3])
        self.assertEqual(self.v.parting(rtl["b"], model["b"]),
                         "instruction 2 at 0x80000014 (op5): +4 cycles; before it `op4`")
        self.assertIn("no instruction", self.v.parting(rtl["b"], rtl["b"]))

    def test_a_place_in_a_document_is_renewed(self):
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d, "x.md")
            path.write_text("a\n<!-- rows -->\nold\n<!-- end of rows -->\nb\n")
            self.v.renew(path, "rows", ["new"])
            self.assertEqual(path.read_text(), "a\n<!-- rows -->\n\nnew\n\n<!-- end of rows -->\nb\n")
            with self.assertRaisesRegex(self.v.Failure, "0 places for `other`"):
                self.v.renew(path, "other", ["new"])

    def test_every_program_has_its_sources_and_its_machine(self):
        here = self.v.HERE
        programs = self.v.tomllib.loads((here / "programs.toml").read_text())["program"]
        for p in programs:
            self.assertIn(p["kind"], self.v.BARS)
            self.assertTrue((here / p.get("machine", "rocket.toml")).exists(), p["name"])
            places = (here / "programs", self.v.SPEED, self.v.LOOPS)
            for source in p["sources"]:
                self.assertTrue(any((d / source).exists() for d in places), source)
        self.v.read_accepted(here / "accepted.csv")
        self.assertEqual(len({p["name"] for p in programs}), len(programs))


class Off2fTables(unittest.TestCase):
    """off2f_tables.py, with rows as `nagori bench off2f --json` prints them."""

    def test_medians_outliers_and_the_break_even(self):
        def row(format_, passes, ns, slowest, even=None):
            return {"program": "nops-32", "passes": passes, "text_kib": 32, "memory": "board", "state": "cold",
                    "format": format_, "method": "fine", "exec_to_exit_ns": ns, "slowest_ns": slowest, "page_faults": 3,
                    "bytes_read": 2048, "nvmm_fetches": 7, "break_even_passes": even}
        rows = [row("elf-disk", 1, 40_000_000, 43_000_000), row("elf-disk", 8, 80_000_000, 99_000_000),
                row("off2f", 1, 30_000_000, 30_000_000, 4.25), row("off2f", 8, 90_000_000, 90_000_000, 4.25)]
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d, "rows.json")
            path.write_text(json.dumps(rows))
            out = subprocess.run([sys.executable, SCRIPTS / "off2f_tables.py", path],
                                 text=True, capture_output=True, check=True)
        lines = out.stdout.splitlines()
        self.assertIn("| 32 KiB, 1 x | 40.0 | - | 30.0 |", lines)
        self.assertIn("| 32 KiB, 8 x | 80.0 (99.0) | - | 90.0 |", lines)
        self.assertIn("| nops-32, cold | board | fine | 4.2 |", lines)


class Widths(unittest.TestCase):
    """check.py: lines that are too long."""
    check = load("check.py")
    long = "word " * 24 + "word"

    def wide(self, text, name="docs/x.md"):
        return [number for number, _ in self.check.wide_lines(name, text)]

    def test_lines_of_paragraphs_items_and_quotes_are_counted(self):
        self.assertEqual(self.wide(f"{self.long[:120]}\n{self.long}\n"), [2])
        self.assertEqual(self.check.wide_lines("docs/x.md", self.long), [(1, 124)])
        items = f"- {self.long}\n\n  {self.long}\n1. a\n\n   {self.long}\n> {self.long}\n"
        self.assertEqual(self.wide(items), [1, 3, 6, 7])
        # Four blanks are no code within a paragraph, nor in an item that they belong to.
        self.assertEqual(self.wide(f"a\n    {self.long}\n"), [2])
        self.assertEqual(self.wide(f"- a\n\n    {self.long}\n"), [3])

    def test_tables_code_comments_and_lone_links_may_be_long(self):
        self.assertEqual(self.wide(f"| {self.long} |\n|---|\n"), [])
        self.assertEqual(self.wide(f"```text\n{self.long}\n```\n{self.long}\n"), [4])
        self.assertEqual(self.wide(f"a\n\n    {self.long}\n    {self.long}\n\n    {self.long}\n\n{self.long}\n"), [8])
        self.assertEqual(self.wide(f"- a\n\n      {self.long}\n\n  {self.long}\n"), [5])
        self.assertEqual(self.wide(f"- a\n\nb\n\n    {self.long}\n"), [])
        self.assertEqual(self.wide(f"<!-- {self.long}\n{self.long} -->\n{self.long}\n"), [3])
        self.assertEqual(self.wide("https://a.example/" + "x" * 120 + "\n- [a link](" + "x" * 120 + ").\n"), [])

    def test_kinds_and_written_documents(self):
        self.assertEqual(self.wide(self.long, "scripts/x.py"), [1])
        self.assertEqual(self.wide("| " + self.long, "scripts/x.sh"), [1])
        for name in ["crates/x.rs", "guest/x.c", "guest/x.h", "guest/x.S", "rtl/x.sv"]:
            self.assertEqual(self.wide(f"{self.long[:120]}\n{self.long}\n", name), [2], name)
        # Columns are characters, not bytes.
        self.assertEqual(self.wide("// " + "→" * 117 + "\n// " + "→" * 118, "crates/x.rs"), [2])
        self.assertEqual(self.wide(self.long, "machines/x.toml"), [])
        self.assertEqual(self.wide(self.long, "docs/events.md"), [])
        self.assertEqual(self.wide(self.long, "guest/include/nagori_regs.h"), [])


class Riddles(unittest.TestCase):
    """check.py: sentences that only the one before explains."""
    check = load("check.py")

    def riddles(self, text, name="crates/x.rs"):
        return self.check.riddles(name, text)

    def test_sentences_of_comments_are_found(self):
        self.assertEqual(self.riddles("/// A.\nfn a() {}\n\n    /// The same of b.\nfn b() {}\n"), [(4, "The same")])
        self.assertEqual(self.riddles("//! A. Those of b.\n// c! The same.\n"), [(1, "Those of"), (2, "The same")])
        self.assertEqual(self.riddles("a(); // Those of b.\n// - The same.\n"), [(1, "Those of"), (2, "The same")])
        self.assertEqual(self.riddles("/* A.\n * The same of b. */\nint b; /* Those of c. */\n", "guest/x.c"),
                         [(2, "The same"), (3, "Those of")])
        self.assertEqual(self.riddles("/* Those of b. */\n  # The same.\n", "guest/x.S"),
                         [(1, "Those of"), (2, "The same")])
        self.assertEqual(self.riddles("# The same.\nx = 1\n", "scripts/x.py"), [(1, "The same")])

    def test_other_words_strings_and_documents_may_say_so(self):
        self.assertEqual(self.riddles("/// As `a`: those of b are the same. It is The same-named.\nfn b() {}\n"), [])
        self.assertEqual(self.riddles('f("The same", "a. Those of b", r#"// The same"#);\n'), [])
        self.assertEqual(self.riddles("// A. The samefile.\nlet c = '\"'; // \"The same\n"), [])
        self.assertEqual(self.riddles("The same.\n", "docs/x.md"), [])


class Words(unittest.TestCase):
    """check.py: the length of the map."""

    def test_the_map_has_its_length(self):
        check = load("check.py")
        self.assertIsNone(check.word_problem("word " * check.MAX_WORDS))
        self.assertIn(f"{check.MAX_WORDS + 1} words", check.word_problem("| " + "word " * check.MAX_WORDS))


class Circles(unittest.TestCase):
    """check.py: modules that depend on each other."""
    check = load("check.py")

    def uses(self, **files):
        with tempfile.TemporaryDirectory() as d:
            for name, text in files.items():
                path = pathlib.Path(d, name.replace("__", "/") + ".rs")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            uses = self.check.modules_of(pathlib.Path(d))
            return {m: "".join(sorted(used)) for m, used in uses.items() if m != "lib"}

    def test_paths_to_other_modules_are_found(self):
        self.assertEqual(self.uses(a="use crate::b::X;", b="", c="fn f() { super::a::g(crate::b::h()) }"),
                         {"a": "b", "b": "", "c": "ab"})
        self.assertEqual(self.uses(a="use crate::{b::{x, c::y}, d};", b="", c="", d=""),
                         {"a": "bd", "b": "", "c": "", "d": ""})
        # From deeper in a module its own parts are not those of the crate.
        self.assertEqual(self.uses(a__mod="use super::c;", a__b="use super::d; use super::super::b;", b="", c="", d=""),
                         {"a": "bc", "b": "", "c": "", "d": ""})

    def test_what_the_root_exports_is_its_modules(self):
        self.assertEqual(self.uses(lib="pub use b::{Y, Z as W}; mod a;", a="use crate::W;", b="use crate::N;"),
                         {"a": "b", "b": ""})

    def test_tests_comments_and_strings_do_not_count(self):
        self.assertEqual(self.uses(
            a='/// [`crate::b`]\n/* crate::b */ const A: &str = "{ crate::b";\n'
              '#[cfg(test)]\nmod tests { use crate::b; }',
            b="#[cfg(test)]\nuse crate::{a, c};\n#[cfg(test)]\nmod made;\nuse crate::c;",
            b__made="use crate::a;", c="#[cfg(test)] fn f() -> [u8; 2] { crate::a::g() }", c_tests="use crate::a;"),
            {"a": "", "b": "c", "c": ""})

    def test_circles_are_whole(self):
        uses = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
        self.assertEqual(self.check.circles(uses), [["a", "b", "c"], ["d", "e"]])
        self.assertEqual(self.check.circles({"a": {"b"}, "b": set()}), [])

    def test_a_circle_is_a_problem(self):
        problem = self.check.circle_problem
        self.assertIsNone(problem("x", {"a": {"b"}, "b": set()}))
        self.assertEqual(problem("x", {"a": {"b"}, "b": {"a"}}), "crates/x: 2 modules in a circle: a, b")

    def test_examples_are_looked_for_where_there_are_some(self):
        problem = self.check.examples_problem
        example, text = "//! ```\n//! f();\n//! ```\n", "/// ```text\n/// a -> b\n/// ```\n"
        self.assertIsNone(problem("x", example + text, True))
        self.assertIsNone(problem("x", text, False))
        self.assertIn("has to go", problem("x", "    /// ```no_run\n", False))
        self.assertIn("has no examples", problem("x", text, True))


class Programs(unittest.TestCase):
    """programs.py, and the archive in the repository."""
    p = load("programs.py")

    def test_the_archive_has_the_same_bytes_for_the_same_files(self):
        files = {"b.elf": b"2" * 1000, "a.elf": b"1", "compiler.txt": b"gcc\n"}
        packed = self.p.packed(files)
        self.assertEqual(packed, self.p.packed(dict(reversed(files.items()))))
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d, "x.tar.xz")
            path.write_bytes(packed)
            self.assertEqual(self.p.unpacked(path), files)
            self.assertEqual(sorted(self.p.write_to(d, files)), ["a", "b"])
            path.write_bytes(packed[:-20])
            with self.assertRaisesRegex(self.p.Trouble, "cannot read the compiled programs"):
                self.p.unpacked(path)
        self.assertNotEqual(self.p.digest(files), self.p.digest({**files, "a.elf": b"2"}))
        self.assertNotEqual(self.p.digest({"a": b"b"}), self.p.digest({"b": b"b"}))

    def test_the_archive_has_what_the_list_says(self):
        listed = self.p.expanded(self.p.tomllib.loads(self.p.LIST.read_text()))
        files = self.p.unpacked()
        self.assertEqual(sorted(files), sorted([f"{n}.elf" for n in listed] + [self.p.COMPILER]))
        self.assertLess(self.p.ARCHIVE.stat().st_size, 1 << 20)
        checks = {f.stem for f in (SCRIPTS.parent / "guest/bare").glob("*.c")} - {"bare"}
        self.assertEqual(checks - set(listed), set(), "a self-check is not in the list")
        self.assertIn("-march=rv64gc", self.p.speed_flags())


class Same(unittest.TestCase):
    """same: what is compared, and how."""
    s = load("same")

    def statistics(self, **more):
        memory = {"total": {"counters": {"reads": 5, "writes": 2}}}
        return {"instructions": 100, "cycles": 250, "harts": [{"l1d": 3}], "memory": memory, "marks": [],
                "host": {"ns": 1}, **more}

    def result(self, **more):
        return {"console": "ok\n", "exit_code": 0, "statistics": self.s.normal(self.statistics(**more))}

    def test_nothing_of_the_host_counts(self):
        got = self.s.normal({"a": [{"host": 1, "b": 2}], "cpu_seconds": 3, "requests_per_cpu_second": 4, "x": None})
        self.assertEqual(got, {"a": [{"b": 2}], "x": None})
        self.assertEqual(self.s.record_of(self.result()), self.s.record_of(self.result(host={"ns": 99})))

    def test_a_difference_says_what_differs(self):
        old = self.s.record_of(self.result())
        self.assertEqual({k: old[k] for k in ("instructions", "cycles", "reads", "writes")},
                         {"instructions": 100, "cycles": 250, "reads": 5, "writes": 2})
        self.assertEqual(self.s.differences(old, self.s.record_of(self.result())), [])
        got = self.s.record_of(self.result(cycles=1251, harts=[{"l1d": 4}], caches=[{"hits": 1}], memory=None))
        self.assertEqual(self.s.differences(old, got),
                         ["cycles 1,251, was 250", "reads None, was 5", "writes None, was 2", "differ: harts",
                          "gone: memory", "new: caches"])
        got = self.s.record_of({**self.result(), "console": "FAIL\n"})
        self.assertEqual(self.s.differences(old, got), ["differ: console"])
        got = self.s.record_of(self.result(elapsed_ps=7))
        self.assertEqual(self.s.differences(old, got), ["some figure of the statistics that is in no part"])

    def test_a_trace_of_the_bus_counts_where_there_is_one(self):
        old = self.s.record_of({**self.result(), "bus": "00"})
        self.assertEqual(self.s.differences(old, self.s.record_of(self.result())), [])
        got = self.s.record_of({**self.result(), "bus": "01"})
        self.assertEqual(self.s.differences(old, got), ["the trace of the bus"])

    def test_two_results_are_compared_by_their_paths(self):
        old, new = self.result(), self.result(cycles=7, harts=[{"l1d": 4, "more": 1}])
        self.assertEqual(self.s.shown(old, new), ["statistics.cycles: 250 and 7", "statistics.harts[0].l1d: 3 and 4",
                                                  "statistics.harts[0].more: null and 1"])
        many = self.s.shown(list(range(20)), list(range(1, 21)))
        self.assertEqual((len(many), many[-1]), (self.s.SHOWN + 1, f"and {20 - self.s.SHOWN} more"))

    def test_a_table_is_all_combinations(self):
        table = {"settings": {"big": ["l1d.size=65536"]}, "bare": [
            {"programs": ["a", "b"], "methods": ["dram", "fine"], "harts": [2], "with": ["", "big"],
             "ways": ["default", "snapshot"]},
            {"programs": ["a"], "harts": [2], "quick": True},
            {"programs": ["a"], "timed": False, "instructions": 9}],
            "mem": [{"memories": ["ddr4"], "traces": ["mixed,count=9"], "modes": ["paced"], "set": [["x=1"]]}]}
        rows = self.s.rows_of(table)
        self.assertEqual(len(rows), 10)
        row = rows["b on vc707, fine, 2 harts, big"]
        self.assertEqual(row["ways"], ["default", "snapshot"])
        self.assertEqual(row["arguments"], ["--machine", "vc707", "--method", "fine", "--set", "l1d.size=65536",
                                            "--set", "harts=2"])
        self.assertEqual(rows["a on vc707, functional, 9 instructions"]["arguments"][2:],
                         ["--functional", "--max-instructions", "9"])
        self.assertIn("ddr4 plays mixed,count=9, paced, x=1", rows)
        quick = self.s.rows_of(table, quick=True)
        self.assertEqual([(n, r["ways"]) for n, r in quick.items()], [("a on vc707, dram, 2 harts", ["default"])])
        for bad, what in [({"with": ["small"]}, "no settings `small`"), ({"ways": ["fast"]}, "no way `fast`")]:
            with self.assertRaisesRegex(self.s.Trouble, what):
                self.s.rows_of({"settings": {}, "bare": [{"programs": ["a"], **bad}]})

    def test_every_row_has_its_record_and_its_program(self):
        table = self.s.tomllib.loads(self.s.ROWS.read_text())
        rows, files = self.s.rows_of(table), self.s.programs.unpacked()
        self.assertEqual(sorted(rows), sorted(self.s.read_records(files)))
        self.assertEqual({r["program"] for r in rows.values() if r["kind"] == "bare"}
                         - {f.removesuffix(".elf") for f in files}, set())
        # What there is, is in some row.
        names = "\n".join(rows)
        for machine in (SCRIPTS.parent / "machines").glob("*.toml"):
            self.assertIn(f" on {machine.stem}, ", names)
        for memory in (SCRIPTS.parent / "memories").glob("*.toml"):
            described = self.s.tomllib.loads(memory.read_text())
            for variant in described.get("variants", [""] if "kind" in described else []):
                self.assertIn(f"{memory.stem}-{variant}".rstrip("-") + " plays ", names)
        used = {n for e in table["bare"] for w in e.get("with", []) for n in w.split()}
        self.assertEqual(set(table["settings"]) - used, set(), "settings that no row has")

    def test_ways_have_to_agree(self):
        class Runner:
            def result(_, row, way, first):
                return self.result(cycles=250 + (way == row.get("bad"))) | ({"bus": "00"} if way == "bus" else {})
        row = {"name": "a", "ways": ["default", "snapshot", "bus"]}
        first, wrong = self.s.all_ways(Runner(), row)
        self.assertEqual((wrong, first["bus"]), ([], "00"))
        _, wrong = self.s.all_ways(Runner(), {**row, "bad": "snapshot"})
        self.assertEqual(wrong, ["snapshot, beside default:", "statistics.cycles: 250 and 251"])
        record = self.s.record_of(first)
        self.assertEqual(self.s.check(Runner(), row, {"a": record}), (record, []))
        self.assertEqual(self.s.check(Runner(), row, {})[1], ["there is no record of this row"])

    def test_a_binary_is_asked_and_its_failure_shown(self):
        with tempfile.TemporaryDirectory() as d:
            fake = pathlib.Path(d, "nagori")
            fake.write_text("#!/bin/sh\n[ $2 = mem ] && { echo 'no memory' >&2; exit 1; }\n"
                            "while [ $1 != --stats-file ]; do shift; done\n"
                            "echo '{\"cycles\": 3, \"host\": 4}' > $2; echo hello; exit 124\n")
            fake.chmod(0o755)
            runner = self.s.Runner(fake, {"a": "a.elf"})
            row = {"kind": "bare", "program": "a", "arguments": [], "name": "a", "ways": ["default"]}
            self.assertEqual(runner.result(row), {"console": "hello\n", "exit_code": 124, "statistics": {"cycles": 3}})
            with self.assertRaisesRegex(self.s.Trouble, "exit code 1\nno memory"):
                runner.result({"kind": "mem", "arguments": [], "commands": False})
            outcome = []
            self.s.run_all([row] * 3, lambda r: self.s.check(runner, r, None), 2, lambda *o: outcome.append(o))
            self.assertEqual([(o[1]["cycles"], o[2]) for o in outcome], [(3, [])] * 3)
        with self.assertRaisesRegex(self.s.Trouble, "is no program"):
            self.s.Runner(fake, {})

    def test_help_and_wrong_arguments(self):
        def run(*arguments):
            return subprocess.run([SCRIPTS / "same", *arguments], text=True, capture_output=True)
        self.assertIn("examples:", run("--help").stdout)
        for wrong in [[], ["x", "--write", "--quick"], ["x", "--of", "1"], ["x", "--only", "("], ["x", "--jobs", "0"],
                      ["/no/such/binary"], ["x", "--only", "no such row"]]:
            self.assertEqual(run(*wrong).returncode, 2, wrong)


class Cost(unittest.TestCase):
    """cost: thresholds, and which record counts."""
    c = load("cost")

    def test_three_percent_is_the_limit(self):
        old = {"a": 1000, "b": 1000, "c": 1000, "d": 1000}
        rows = self.c.judged(old, {"a": 1030, "b": 1031, "c": 970, "d": 969, "e": 5})
        self.assertEqual([r[4] for r in rows], ["", "rise", "", "fall", "new"])
        self.assertIn("b                               1,000          1,031    +3.10 %  rise", self.c.table(rows))

    def test_a_rise_fails_and_a_fall_asks(self):
        def verdict(new, others=()):
            return self.c.verdict_of(self.c.judged({"a": 1000}, {"a": new}), others, "scripts/cost --write")
        self.assertEqual(verdict(1000), (0, ["nothing costs more"]))
        code, words = verdict(1100)
        self.assertEqual(code, 1)
        self.assertRegex(words[0], "dearer by more than 3 %: a. .*: scripts/cost --write")
        code, words = verdict(900)
        self.assertEqual(code, 0)
        self.assertRegex(words[0], "Write the record anew")
        code, words = verdict(1100, ["rustc"])
        self.assertEqual(code, 0)
        self.assertRegex(words[0], "of another rustc: these are figures")

    def test_the_record_of_the_same_compiler_and_profile_counts(self):
        made = {"rustc": "2", "profile": {}}
        records = [{"made_with": {"rustc": "1", "profile": {}}, "counts": 1}, {"made_with": made, "counts": 2}]
        self.assertEqual(self.c.chosen(records, made), (records[1], []))
        self.assertEqual(self.c.chosen(records[:1], made), (records[0], ["rustc"]))
        self.assertEqual(self.c.chosen([], made), (None, []))

    def test_writing_keeps_the_other_kind_of_build(self):
        made = {"rustc": "1", "profile": {"Cargo.toml": {}}}
        other = {"made_with": {"rustc": "1", "profile": {"Cargo.toml": {}, "incremental": False}}}
        self.assertTrue(self.c.apart(other, made))
        self.assertFalse(self.c.apart({"made_with": made}, made))
        self.assertFalse(self.c.apart({"made_with": {**other["made_with"], "rustc": "2"}}, made))

    def test_what_changes_a_profile_is_seen(self):
        of = self.c.profile_of
        plain = of("dev", {"PATH": "/bin", "CARGO_PROFILE_RELEASE_LTO": "fat"}, [{"net": {"offline": True}}])
        self.assertEqual(list(plain), ["Cargo.toml"])
        self.assertEqual(plain["Cargo.toml"]["opt-level"], "s")
        for environment, configs in [({"CARGO_PROFILE_DEV_OPT_LEVEL": "3"}, []), ({"RUSTFLAGS": "-g"}, []),
                                     ({"CARGO_INCREMENTAL": "0"}, []), ({}, [{"profile": {"dev": {"opt-level": 1}}}]),
                                     ({}, [{"build": {"rustflags": ["-g"]}}]),
                                     ({}, [{"target": {"x": {"rustflags": ["-g"]}}}])]:
            self.assertNotEqual(of("dev", environment, configs), plain)

    def test_workloads_have_their_programs_and_their_record(self):
        elfs = self.c.programs.unpacked()
        names = [w[0] for w in self.c.WORKLOADS]
        self.assertEqual(len(set(names)), len(names))
        for w in self.c.WORKLOADS:
            for a in self.c.arguments_of(w):
                self.assertTrue(not a.endswith(".elf") or a in elfs, a)
        for build, records in self.c.read_record().items():
            for r in records if build != "about" else []:
                self.assertEqual(set(r["counts"]) - set(names), {self.c.SIZE} if build == "release" else set())

    def test_help_and_wrong_arguments(self):
        def run(*arguments):
            return subprocess.run([SCRIPTS / "cost", *arguments], text=True, capture_output=True)
        self.assertIn("workloads:\n  start ", run("--help").stdout)
        for wrong in [["--write", "--only", "a"], ["--add"], ["--only", "("], ["/no/such/binary"]]:
            self.assertEqual(run(*wrong).returncode, 2, wrong)


class CheckArea(unittest.TestCase):
    """check-area, whose parts are what cargo says of the workspace."""

    area = load("check-area")

    def test_dependents_are_found_through_others(self):
        graph = {"low": set(), "middle": {"low"}, "high": {"middle"}, "beside": set()}
        self.assertEqual(self.area.dependents(graph, "low"), ["high", "low", "middle"])
        self.assertEqual(self.area.dependents(graph, "beside"), ["beside"])

    def test_a_circle_of_tests_ends(self):
        graph = {"a": {"b"}, "b": {"a"}}
        self.assertEqual(self.area.dependents(graph, "a"), ["a", "b"])

    def test_the_workspace_is_known(self):
        graph = self.area.crates()
        self.assertIn("cli", self.area.dependents(graph, "memtime"))
        self.assertNotIn("memtime", self.area.dependents(graph, "hart"))

    def test_every_step_is_about_these_crates(self):
        commands = dict(self.area.steps(["hart", "cli"]))
        for title in ("clippy", "tests"):
            self.assertEqual([c for c in commands[title] if c.startswith("nagori-")], ["nagori-hart", "nagori-cli"])

    def test_wrong_arguments(self):
        run = subprocess.run([SCRIPTS / "check-area", "nothing"], text=True, capture_output=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("there is no crate nagori-nothing; there are bench, cache, capi, cli,", run.stderr)


class SpeedGuard(unittest.TestCase):
    """speed-guard: groups, means, and what is run again."""
    g = load("speed-guard")

    def row(self, workload, seconds, method="dram", machine="vc707", misses=0, instructions=1000):
        timed = {"mode": "timed", "method": method, "cache_misses": misses} if method else {"mode": "functional"}
        return {"workload": workload, "machine": machine, "instructions": instructions, "cpu_seconds": seconds, **timed}

    def sides(self, factor):
        old = [self.row("sort", 1.0, None), self.row("sort", 2.0, misses=70), self.row("stream", 3.0, misses=70),
               self.row("sort", 4.0, "extended", misses=70), self.row("sort", 5.0, machine="server"),
               self.row("mix", 1.0, misses=1)]
        both = ({}, {})
        self.g.least(both[0], old)
        self.g.least(both[1], [{**r, "cpu_seconds": r["cpu_seconds"] * factor(r)} for r in old])
        return both

    def test_rows_belong_to_groups_and_each_has_its_mean(self):
        rows, left_out = self.g.paired(*self.sides(lambda r: 1.21 if r["workload"] == "stream" else 1.0))
        self.assertEqual(left_out, [])
        means = self.g.means(rows)
        self.assertEqual(list(means), self.g.GROUPS)
        self.assertAlmostEqual(means["misses, dram"], 1.1)
        self.assertEqual(self.g.lost(means, 0.05), ["misses, dram"])
        self.assertEqual(self.g.lost(means, 0.11), [])
        (line,) = [line for line in self.g.lines(rows, [], means) if line.startswith("stream")]
        self.assertTrue(line.endswith(" 3.000     3.630    1.210"), line)
        pieces = self.g.plan(False, [])
        self.assertEqual([p[1] for p in self.g.again(pieces, rows, ["misses, dram"])], ["sort", "stream"])
        (server,) = self.g.again(pieces, rows, ["server"])
        self.assertEqual((server[1], server[-1]), ("sort", "server"))

    def test_the_least_time_counts(self):
        best = {}
        for seconds in [3.0, 1.0, 2.0]:
            self.g.least(best, [self.row("sort", seconds)])
        self.assertEqual([r["cpu_seconds"] for r in best.values()], [1.0])

    def test_other_work_is_in_no_mean(self):
        old, new = {}, {}
        self.g.least(old, [self.row("sort", 1.0), self.row("gone", 1.0)])
        self.g.least(new, [self.row("sort", 9.0, instructions=2000), self.row("new", 1.0)])
        rows, left_out = self.g.paired(old, new)
        self.assertEqual((rows, self.g.means(rows)), ([], {}))
        self.assertEqual([(k[0], why) for k, why in left_out],
                         [("sort", "1,000 instructions, then 2,000"), ("gone", "only in the old one"),
                          ("new", "only in the new one")])

    def test_wrong_arguments(self):
        for wrong in [[], ["main", "--binaries", "a", "b"], ["main", "--only", "nothing"], ["main", "--rounds", "-1"],
                      ["--binaries", "/no/such", "/no/such"]]:
            done = subprocess.run([SCRIPTS / "speed-guard", *wrong], text=True, capture_output=True)
            self.assertEqual(done.returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main(verbosity=0)
