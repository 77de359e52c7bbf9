#!/usr/bin/env python3
"""Tests of the book's tools, without the command."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import commands  # noqa: E402
import examples  # noqa: E402
import pages  # noqa: E402

# A command with one below it, which takes two options and an alias.
FAKE = """#!/bin/sh
case "$*" in
--help)
    printf 'It.\\n\\nCommands:\\n  go    Goes\\n        far\\n  help  Print this\\n\\n'
    printf 'Options:\\n  -q, --quiet\\n' ;;
'go --help') printf 'Goes.\\n\\nOptions:\\n      --far <N>\\n          [alias: --distant]\\n  -h, --help\\n' ;;
'go --far 7') echo 'nagori: on the way'; echo 'went  1 234.5 ns'; echo done; exit 3 ;;
*) exit 2 ;;
esac
"""


class Compared(unittest.TestCase):
    def test_lines(self):
        alike = examples.alike
        self.assertTrue(alike("a   1 000 b", "a 1000 b", 0))
        self.assertTrue(alike("took ... s, 7 runs", "took 12.5 s, 7 runs", 0))
        self.assertFalse(alike("took ... s, 7 runs", "took 12.5 s, 8 runs", 0))
        self.assertTrue(alike("x 100 y -2.0", "x 104 y -2.05", 0.05))
        self.assertFalse(alike("x 100 y", "x 106 y", 0.05))
        self.assertFalse(alike("x 100 y", "x 100 z", 0.05))
        # Another number of digits is another number, not another text.
        self.assertTrue(alike("9.9 ms", "10.1 ms", 0.05))

    def test_outputs(self):
        fits = examples.fits
        self.assertTrue(fits(["a", "...", "z"], ["a", "b", "c", "z"], 0))
        self.assertTrue(fits(["a", "...", "z"], ["a", "z"], 0))
        self.assertFalse(fits(["a", "z"], ["a", "b", "z"], 0))
        self.assertFalse(fits(["a", "b"], ["a"], 0))
        # Messages in any order, and only those that are shown.
        self.assertTrue(fits(["nagori: x", "a"], ["nagori: y", "a", "nagori: x"], 0))
        self.assertFalse(fits(["nagori: z", "a"], ["nagori: y", "a"], 0))


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=pages.ROOT / "docs")
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name, "page.md")
        self.nagori = pathlib.Path(self.folder.name, "nagori")
        self.nagori.write_text(FAKE)
        self.nagori.chmod(0o755)

    def run_page(self, text, update=False):
        self.page.write_text(text)
        return examples.run_page(self.page, self.nagori, examples.KINDS, lambda _: None, update)

    def test_an_example_is_run_with_its_files(self):
        text = "<!-- file: a.txt -->\n```text\nhello\n```\n\n<!-- run: quick -->\n```console\n$ cat a.txt\nhello\n```\n"
        self.assertEqual(self.run_page(text), [])
        (problem,) = self.run_page(text.replace("$ cat a.txt\nhello", "$ cat a.txt\nhullo"))
        self.assertIn("page.md:8: `cat a.txt` prints something else:\nhello", problem)

    def test_numbers_and_status(self):
        text = ("<!-- run: slow exit=3 within=5% -->\n"
                "```console\n$ nagori go \\\n    --far 7\nwent 1 200 ns\ndone\n```\n")
        self.assertEqual(self.run_page(text), [])
        self.assertEqual(len(self.run_page(text.replace("within=5%", "within=1%"))), 1)
        (problem,) = self.run_page(text.replace("exit=3 ", ""))
        self.assertIn("status 3, not 0", problem)

    def test_an_update_writes_what_is_printed(self):
        text = "<!-- run: slow exit=3 -->\n```console\n$ nagori go \\\n    --far 7\nold\n```\n\nafter\n"
        self.assertEqual(self.run_page(text, update=True), [])
        self.assertEqual(self.page.read_text(), text.replace("old", "went  1 234.5 ns\ndone"))
        self.assertEqual(self.run_page(self.page.read_text()), [])

    def test_wrong_marks_are_errors(self):
        for mark in ["run: soon", "run: quick exit=x", "run:"]:
            with self.assertRaises(pages.Wrong):
                self.run_page(f"<!-- {mark} -->\n```console\n$ true\n```\n")

    def test_commands_of_a_page(self):
        self.page.write_text("Text:\n\n    nagori go --far 7      # a comment\n"
                             "    nagori go \\\n        --far '1 2' | wc\n"
                             "\n```sh\ntime nagori -q go --near; nagori stay\n```\n"
                             "\n```toml\nnagori go --not-looked-at\n```\n")
        found = list(pages.nagori_commands(self.page))
        self.assertEqual(found, [(3, ["go", "--far", "7"]), (4, ["go", "--far", "1 2"]),
                                 (8, ["-q", "go", "--near"]), (8, ["stay"])])
        said = [commands.problem(str(self.nagori), words) for _, words in found]
        self.assertEqual(said, [None, None, "`nagori go` has no option `--near`",
                                "`nagori` has no command `stay`"])
        self.assertIsNone(commands.problem(str(self.nagori), ["go", "--distant", "3", "--", "x", "--whatever"]))
        self.assertEqual(commands.subcommands(str(self.nagori)), {"go": "Goes far"})

    def test_the_contents_name_every_page_once(self):
        problems = pages.check_contents()
        self.page.write_text("# New\n")
        more = set(pages.check_contents()) - set(problems)
        self.assertEqual(len(more), 1)
        self.assertTrue(re.search(r"page\.md is not listed", more.pop()))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-q"])
