#!/usr/bin/env python3
"""Prints the tables of docs/off2f.md from the rows of `nagori bench off2f --json`.

Usage: off2f_tables.py ROWS.json...

Rows of several files are put together. A cell is the median in ms; behind it, in parentheses, the slowest start, if it
took over a tenth longer.
"""

import json
import sys

FORMATS = ["elf-disk", "elf-dax", "off2f"]
METHODS = ["dram", "coarse", "fine", "extended"]


def ordered(values, known):
    return sorted(set(values), key=lambda v: (known.index(v) if v in known else len(known), str(v)))


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def ms(ns):
    return f"{ns / 1e6:.1f}" if ns < 1e9 else f"{ns / 1e6:.0f}"


def cell(row):
    if row is None:
        return "-"
    text = ms(row["exec_to_exit_ns"])
    if row["slowest_ns"] > row["exec_to_exit_ns"] * 1.1:
        text += f" ({ms(row['slowest_ns'])})"
    return text


def name(program, passes, kib, several):
    if program.startswith("nops-"):
        text = f"{kib} KiB"
    else:
        text = f"{program}, {kib} KiB"
    return f"{text}, {passes} x" if several else text


def main():
    rows = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            rows += json.load(file)
    if not rows:
        sys.exit(__doc__.strip())
    passes = {r["program"]: set() for r in rows}
    for r in rows:
        passes[r["program"]].add(r["passes"])
    nops = [r for r in rows if r["program"].startswith("nops-")]
    sizes = sorted({(r["text_kib"], r["program"]) for r in nops})
    programs = [p for _, p in sizes] + [p for p in passes if not p.startswith("nops-")]
    times(rows, passes, programs)
    counts(rows, passes, programs)
    break_even(rows, programs)


def pick(rows, **keys):
    found = [r for r in rows if all(r[k] == v for k, v in keys.items())]
    return found[0] if found else None


def times(rows, passes, programs):
    for memory in ordered([r["memory"] for r in rows], ["board"]):
        for state in ordered([r["state"] for r in rows], ["cold", "reset"]):
            here = [r for r in rows if r["memory"] == memory and r["state"] == state]
            if not here:
                continue
            methods = ordered([r["method"] for r in here], METHODS)
            columns = [(f, m) for f in FORMATS for m in methods]
            lines = []
            for program in programs:
                for n in sorted(passes[program]):
                    cells = [pick(here, program=program, passes=n, format=f, method=m) for f, m in columns]
                    if any(cells):
                        kib = next(c for c in cells if c)["text_kib"]
                        lines.append([name(program, n, kib, len(passes[program]) > 1)] + [cell(c) for c in cells])
            print(f"{memory}, {state}, ms:\n")
            table(["text"] + [f"{f}, {m}" for f, m in columns], lines)


def counts(rows, passes, programs):
    """Page faults, KiB from the disk and lines of NVMM, of cold starts with the first method."""
    here = [r for r in rows if r["state"] == "cold" and r["nvmm_fetches"] is not None]
    if not here:
        return
    method = ordered([r["method"] for r in here], METHODS)[0]
    lines = []
    for program in programs:
        n = min(passes[program])
        found = [pick(here, program=program, passes=n, format=f, method=method) for f in FORMATS]
        if all(found):
            cells = [f"{r['page_faults']}, {r['bytes_read'] // 1024}, {r['nvmm_fetches']}" for r in found]
            lines.append([name(program, n, found[0]["text_kib"], len(passes[program]) > 1)] + cells)
    print(f"cold, {method}: page faults, KiB read from the disk, lines of NVMM:\n")
    table(["text"] + FORMATS, lines)


def break_even(rows, programs):
    found = [r for r in rows if r["format"] == "off2f"]
    several = {(r["program"], r["memory"], r["method"], r["state"]) for r in found}
    lines = []
    for program in programs:
        for key in sorted(several):
            same = [r for r in found if (r["program"], r["memory"], r["method"], r["state"]) == key]
            if key[0] != program or len(same) < 2:
                continue
            at = same[0]["break_even_passes"]
            most = max(r["passes"] for r in same)
            # Without a crossing one of the two is ahead throughout.
            if at is None:
                first = min(same, key=lambda r: r["passes"])
                disk = pick(
                    rows, program=program, memory=key[1], method=key[2], state=key[3], format="elf-disk",
                    passes=first["passes"],
                )
                ahead = disk is not None and first["exec_to_exit_ns"] <= disk["exec_to_exit_ns"]
                text = f"over {most}" if ahead else f"under {first['passes']}"
            else:
                text = f"{at:.1f}"
            lines.append([f"{program}, {key[3]}", key[1], key[2], text])
    if lines:
        print("break-even, in passes:\n")
        table(["program, state", "memory", "method", "passes"], lines)


if __name__ == "__main__":
    main()
