#!/usr/bin/env python3
"""Writes the board's tables into README.md and docs/accuracy.md.

Reads what `nagori bench board --json` prints from standard input, and what `nagori image build --json` prints from
the file that is named: the image is a part of the result. `make docs` runs all three. Everything else in these files
stays as it is.
"""

import csv
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "crates/bench/data/board_latency_calibration.csv"
METHODS = ["dram", "coarse", "fine", "extended"]
CASES = [("stride", 4096), ("stride", 8192)] + [("nbank", n) for n in range(1, 7)]
# Rows of the short table, with the names it has for them.
SHORT = {("stride", 4096): "stride 4096", ("stride", 8192): "stride 8192",
         ("nbank", 1): "1 bank", ("nbank", 6): "6 banks in turn"}

measured = {(r["op"], r["benchmark"], r["value"], r["method"]): r["latency_ns"]
            for r in json.load(sys.stdin)}
with DATA.open() as f:
    published = {(r["op"], r["benchmark"], int(r["value"]), r["method"]): float(r["latency_ns"])
                 for r in csv.DictReader(line for line in f if not line.startswith("#"))}
errors = {k: 100 * (measured[k] / v - 1) for k, v in published.items()}
mean = sum(map(abs, errors.values())) / len(errors)
largest = max(map(abs, errors.values()))


def image():
    """What the image that was measured is made of, without parentheses."""
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    manifest = json.loads(pathlib.Path(sys.argv[1]).read_text())["manifest"]
    parts = [f"{p['name'].split('-')[0]} {p['version']}" for p in manifest["packages"][:3]]
    first, *rest = [re.sub(r"[()]", "", part) for part in parts + [manifest["compiler"]]]
    # A line of a document has at most 120 columns.
    return f"image: {first},\n" + ", ".join(rest)


def short(op, case):
    cells = []
    for m in METHODS:
        k = (op, *case, m)
        cells.append(f"{measured[k]:.0f}" + (f" ({published[k]:.0f})" if k in published else ""))
    return f"| {op}, {SHORT[case]} | " + " | ".join(cells) + " |"


def long(op, case):
    cells = []
    for m in METHODS:
        k = (op, *case, m)
        cells.append(f" {measured[k]:.0f} ")
        if m != "dram":
            known = k in published
            cells += [f" {published[k]:.0f} ", f" {errors[k]:+.1f} % "] if known else ["  ", "  "]
    return f"| {op} | {case[0]} | {case[1]} |" + "|".join(cells) + "|"


def rewrite(path, header, rows, sentence, by):
    """Replaces the rows of the table with this header, and one sentence."""
    text = path.read_text()
    table = re.compile(rf"(^{re.escape(header)}\n\|[-|]+\|\n)(?:\|.*\n)+", re.M)
    text, tables = table.subn(lambda m: m[1] + "".join(r + "\n" for r in rows), text)
    text, sentences = re.subn(sentence, by, text)
    if (tables, sentences) != (1, 1):
        sys.exit(f"{path}: {tables} tables `{header}`, {sentences} sentences `{sentence}`; "
                 "one of each is expected")
    path.write_text(text)


summary = f"mean absolute error {mean:.1f} %, largest {largest:.1f} % ({image()})"
pattern = r"mean absolute error [0-9.]+ %, largest [0-9.]+ %(?: \([^)]*\))?"
rewrite(ROOT / "README.md", "| benchmark | dram | coarse | fine | extended |",
        [short(op, c) for op in ("read", "write") for c in SHORT], pattern, summary)
rewrite(ROOT / "docs/accuracy.md",
        "| op | benchmark | value | dram | coarse | published | error | fine | published | error |"
        " extended | published | error |",
        [long(op, c) for op in ("read", "write") for c in CASES], pattern, summary)
print(f"{len(errors)} cells: {summary}")
