#!/usr/bin/env python3
"""Tests of the scripts, as far as they need no new machine."""

import importlib.machinery
import importlib.util
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
    """A script without a suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
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


if __name__ == "__main__":
    unittest.main(verbosity=0)
