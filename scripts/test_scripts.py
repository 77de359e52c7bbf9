#!/usr/bin/env python3
"""Tests of the scripts, as far as they need no new machine."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
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
        self.assertEqual(self.wide(self.long, "machines/x.toml"), [])
        self.assertEqual(self.wide(self.long, "docs/events.md"), [])

    def test_a_file_leaves_the_list_when_it_can(self):
        for name in self.check.STILL_WIDE:
            self.assertTrue(self.wide((SCRIPTS.parent / name).read_text(), name), name)


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

    def test_the_list_of_crates_is_kept(self):
        pair, chain = {"a": {"b"}, "b": {"a"}}, {"a": {"b"}, "b": set()}
        problem = self.check.circle_problem
        self.assertIsNone(problem("x", chain, {}))
        self.assertIsNone(problem("x", pair, {"x": 2}))
        self.assertIsNone(problem("x", pair, {"x": 3}))
        self.assertEqual(problem("x", pair, {}), "crates/x: 2 modules in a circle (at most 0): a, b")
        self.assertIn("a, b, c", problem("x", {"a": {"b"}, "b": {"c"}, "c": {"a"}}, {"x": 2}))
        self.assertIn("take it off STILL_CIRCULAR", problem("x", chain, {"x": 2}))


if __name__ == "__main__":
    unittest.main(verbosity=0)
