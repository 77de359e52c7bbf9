"""Runs the examples of the book: what its pages say that commands print is compared with what they print.

    <!-- file: walk.c -->         the next code block is this file
    <!-- run: quick -->           the next one has commands behind `$ `, each with what it prints below

`quick` takes a moment, and needs neither a guest image nor a network; `slow` is anything else. Behind that may stand
`exit=1`, the status of the block's last command; `within=5%`, by which numbers may differ: those of a guest depend on
Debian's packages; and `any`, if the page does not show what is printed.
A `...` in a line stands for anything, on a line of its own for any number of lines. Messages (`nagori: ...`) come in
any order, and those that a page does not show are left out. All blocks of a page run in one new folder, in which
`guest`, `examples`, `machines`, `memories` and `traces` are the repository's.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import time

from pages import ROOT, Wrong, blocks, joined, named

LENT = ["guest", "examples", "machines", "memories", "traces", "scripts", "docs"]
KINDS = ["quick", "slow"]
# Digits in groups of three, as tables have them.
GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?![\d])")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Block:
    """A marked block: commands with what they print."""

    def __init__(self, path, number, comment, lines):
        self.path, self.number = path, number
        words = comment.removeprefix("run:").split()
        where = f"{named(path)}:{number - 2}"
        if not words or words[0] not in KINDS:
            raise Wrong(f"{where}: `{comment}`: run: {' or '.join(KINDS)} is expected")
        self.kind, self.status, self.within, self.any = words[0], 0, 0.0, False
        for word in words[1:]:
            if found := re.fullmatch(r"exit=(\d+)", word):
                self.status = int(found[1])
            elif found := re.fullmatch(r"within=(\d+)%", word):
                self.within = int(found[1]) / 100
            elif word == "any":
                self.any = True
            else:
                raise Wrong(f"{where}: `{word}` is none of exit=N, within=N% and any")
        self.commands = []
        for offset, line in joined(lines):
            if line.startswith("$ "):
                self.commands.append((number + offset, line[2:], []))
            elif self.commands:
                self.commands[-1][2].append(line)
            else:
                raise Wrong(f"{where}: the block begins without `$ `")


def steps(path):
    """Files and marked blocks of a page, in their order."""
    for number, language, comment, lines in blocks(path):
        if comment.startswith("file:"):
            yield comment.removeprefix("file:").strip(), "\n".join(lines) + "\n"
        elif comment.startswith("run:"):
            yield None, Block(path, number, comment, lines)


def check_tutorials():
    """A newcomer's story takes at most five commands to a table and a plot."""
    problems = []
    for path in sorted((ROOT / "docs/tutorials").glob("*.md")):
        typed = [c for name, what in steps(path) if name is None for _, c, _ in what.commands]
        if len(typed) > 5:
            problems.append(f"{named(path)}: {len(typed)} commands (at most 5)")
        if not any("--plot " in c or "mem plot" in c for c in typed):
            problems.append(f"{named(path)}: no command makes a plot")
    return problems


def plain(line):
    return " ".join(GROUPED.sub(lambda m: m[0].replace(" ", ""), line).split())


def alike(shown, printed, within):
    """Whether a line is what the page shows."""
    shown, printed = plain(shown), plain(printed)
    if shown == printed:
        return True
    # Numbers stand for themselves, and are compared if the rest fits.
    pattern, numbers, at = "", [], 0
    for part in re.finditer(r"\.\.\.|" + NUMBER.pattern, shown):
        pattern += re.escape(shown[at:part.start()])
        at = part.end()
        if part[0] == "...":
            pattern += ".*?"
        else:
            pattern += f"({NUMBER.pattern})"
            numbers.append(float(part[0]))
    found = re.fullmatch(pattern + re.escape(shown[at:]), printed)
    return bool(found) and all(abs(float(seen) - said) <= within * abs(said)
                               for said, seen in zip(numbers, found.groups()))


def fits(shown, printed, within):
    """Whether all that was printed is what the page shows."""
    def is_message(line):
        return line.startswith("nagori: ")

    said = [x for x in printed if is_message(x)]
    for line in filter(is_message, shown):
        found = next((x for x in said if alike(line, x, within)), None)
        if found is None:
            return False
        said.remove(found)
    shown = [x for x in shown if not is_message(x) and x.strip()]
    printed = [x for x in printed if not is_message(x) and x.strip()]

    def from_here(i, j):
        if i == len(shown):
            return j == len(printed)
        if shown[i].strip() == "...":
            return any(from_here(i + 1, k) for k in range(j, len(printed) + 1))
        return j < len(printed) and alike(shown[i], printed[j], within) and from_here(i + 1, j + 1)

    return from_here(0, 0)


def run_page(path, nagori, kinds, report, update=False):
    """Runs the blocks of a page, and returns what is wrong."""
    todo = list(steps(path))
    if not any(name is None and what.kind in kinds for name, what in todo):
        return []
    problems, seen = [], []
    with tempfile.TemporaryDirectory(prefix="nagori-book-") as folder:
        folder = pathlib.Path(folder)
        work, path_of_commands = folder / "work", folder / "bin"
        work.mkdir()
        path_of_commands.mkdir()
        (path_of_commands / "nagori").symlink_to(pathlib.Path(nagori).resolve())
        for name in LENT:
            (work / name).symlink_to(ROOT / name)
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NAGORI_MACHINES")}
        env.update(PATH=f"{path_of_commands}:{env['PATH']}", COLUMNS="160", PWD=str(work))
        for name, what in todo:
            if name is not None:
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                (work / name).write_text(what)
                continue
            if what.kind not in kinds:
                continue
            for number, command, shown in what.commands:
                began = time.monotonic()
                done = subprocess.run(["bash", "-c", command], cwd=work, env=env, text=True, errors="replace",
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                report(f"{named(path)}:{number}: {time.monotonic() - began:.1f} s: {command[:80]}")
                printed = done.stdout.splitlines()
                last = command == what.commands[-1][1]
                expected = what.status if last else 0
                if done.returncode != expected:
                    problems.append(f"{named(path)}:{number}: `{command}`: status {done.returncode}, not {expected}; "
                                    f"it prints\n{done.stdout}")
                elif not what.any and not fits(shown, printed, what.within):
                    seen.append((number, command, printed))
                    if not update:
                        problems.append(f"{named(path)}:{number}: `{command}` prints something else:\n{done.stdout}")
        if update:
            write(path, seen)
    return problems


def write(path, seen):
    """Puts what was printed below its commands, messages left out."""
    lines = path.read_text().splitlines()
    for number, command, printed in sorted(seen, reverse=True):
        begin = number
        # The page may have been edited while its commands ran.
        there = lines[begin - 1].strip().rstrip("\\").rstrip() if begin <= len(lines) else ""
        if not there or not f"$ {command}".startswith(there):
            raise Wrong(f"{named(path)}:{number}: `{command}` is not there any more; it prints\n" + "\n".join(printed))
        while lines[begin - 1].endswith("\\"):
            begin += 1
        end = begin
        while not lines[end].startswith("$ ") and not lines[end].lstrip().startswith("```"):
            end += 1
        kept = [x for x in lines[begin:end] if x.startswith("nagori: ")]
        shown = "\n".join(x.rstrip() for x in printed if not x.startswith("nagori: ")).strip("\n").splitlines()
        lines[begin:end] = kept + shown
    path.write_text("\n".join(lines) + "\n")
