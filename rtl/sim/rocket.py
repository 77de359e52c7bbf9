#!/usr/bin/env python3
"""Rocket's RTL with the hardware of rtl/ behind it, beside Rocket's RTL with the model behind it.

rocket.py OUT CHECK: the board's loops under every method. `validate.py --wide` has to have built Rocket
(build/validation). The controller's commands are compared with the model's (CHECK is nagori-rtlcheck), and the
cycles of each loop with those of the same program on the same RTL with the model; fails if a command
differs, or a loop by more than LIMIT.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT, CHECK = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
BUILT = ROOT / "build/validation"
OBJECTS, BESIDE = BUILT / "LitexFullDConfig.obj", BUILT / "LitexFullDConfig"
MACHINE = ROOT / "validation/rocket/rocket-board.toml"
PROGRAM = BUILT / "board-dram.elf"
LIMIT = 3.0  # percent
# Name, arguments of ours, the model's method.
RUNS = [("dram", ["--method", "0"], "dram"), ("coarse", ["--method", "1"], "coarse"),
        ("fine", ["--method", "2"], "fine"), ("extended", ["--method", "3"], "extended"),
        ("coarse by nvmm_axi_delay", ["--front"], "coarse")]


def build():
    for needed in (OBJECTS / "Vrocket__ALL.a", BESIDE, MACHINE, PROGRAM):
        if not needed.exists():
            sys.exit(f"rocket.py: {needed} is missing; make rtl-rocket builds Rocket and its programs")
    root = re.search(r"^VERILATOR_ROOT = (.*)$", (OBJECTS / "Vrocket.mk").read_text(), re.M)[1]
    include = pathlib.Path(root) / "include"
    program = OUT / "rocket"
    subprocess.run([
        "g++", "-std=c++17", "-O1", f"-I{OBJECTS}", f"-I{OUT}/rocket.obj", f"-I{include}", f"-I{include}/vltstd",
        ROOT / "rtl/sim/rocket.cpp", include / "verilated.cpp", include / "verilated_threads.cpp",
        OBJECTS / "Vrocket__ALL.a", OUT / "rocket.obj/Vbench_top__ALL.a", "-lpthread", "-ldl", "-latomic",
        "-o", program], check=True)
    return program


def hardware(program, arguments):
    """Commands go to the checker; the cycles of the regions come back."""
    ours = subprocess.Popen([program, *arguments, PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check = subprocess.Popen([CHECK, "board", "10000", "15"], stdin=ours.stdout, stdout=subprocess.PIPE, text=True)
    ours.stdout.close()
    text = ours.stderr.read().decode(errors="replace")
    said = check.communicate()[0].strip()
    if ours.wait() or check.returncode:
        sys.exit(f"rocket.py: {' '.join(arguments)}: {text[-500:]}")
    return [int(n) for n in re.findall(r"^region (\d+)$", text, re.M)], said


def model(method):
    report = OUT / f"rocket-{method}.json"
    subprocess.run([BESIDE, "--machine", MACHINE, "--set", f"method={method}", "--report", report, PROGRAM],
                   check=True, stdout=subprocess.DEVNULL)
    regions, began = [], 0
    for label in json.loads(report.read_text())["labels"]:
        if label["value"]:
            began = label["cycle"]
        else:
            regions.append(label["cycle"] - began)
    return regions


def main():
    program = build()
    worst = 0.0
    print("| method | loops | equal to the cycle | mean difference | worst |\n|---|---|---|---|---|")
    notes = []
    for name, arguments, method in RUNS:
        ours, said = hardware(program, arguments)
        beside = model(method)
        if len(ours) != len(beside) or not ours:
            sys.exit(f"rocket.py: {name}: {len(ours)} loops, and {len(beside)} with the model")
        errors = [100 * (a - b) / b for a, b in zip(ours, beside)]
        equal = sum(a == b for a, b in zip(ours, beside))
        largest = max(errors, key=abs)
        worst = max(worst, abs(largest))
        mean = sum(map(abs, errors)) / len(errors)
        print(f"| {name} | {len(ours)} | {equal} | {mean:.3f} % | {largest:+.2f} % |", flush=True)
        notes.append(f"{name}: {said}")
    print("\n".join(["", *notes]))
    if worst > LIMIT:
        sys.exit(f"rocket.py: {worst:.2f} % is more than {LIMIT} %")


main()
