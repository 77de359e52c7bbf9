#!/usr/bin/env python3
"""Runs the same programs on Rocket's RTL and on the model, and compares cycles.

`make validate` builds everything and calls this; docs/validation.md says what is compared with what. Python 3.11.
"""

import argparse
import csv
import difflib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SPEED, LOOPS = ROOT / "guest/speed", ROOT / "guest/lib"
# The configurations of the package that are used, with what the frame is told of them.
ONE = ("LitexFullConfig", [])
# With a memory port of 128 bits; for the cost of three more cores.
WIDE = ("LitexFullDConfig", ["MEMORY_BYTES=16"])
FOUR = ("LitexFull4DConfig", ["MEMORY_BYTES=16", "FOUR_CORES"])
# Largest error of a row by the kind of its program, and of the mean of the programs and of the board's loops, in
# percent.
BARS = {"micro": 5.0, "program": 3.0, "board": 3.0}
MEANS = {"program": 2.0, "board": 1.0}
# An error may be so much greater than the accepted one, in percent of the RTL's cycles: layouts of other compilers.
SLACK = 1.0
# A row is explained from this error on, by the first instruction that is so many cycles off.
EXPLAINED, OFF = 5.0, 3
# Instructions of a region that are compared at most.
COMPARED = 200_000
FLAGS = ("-std=gnu11 -O2 -Wall -Wextra -march=rv64gc -mabi=lp64d -mcmodel=medany -ffreestanding -fno-builtin -fno-pic "
         "-no-pie -fno-stack-protector -fno-tree-loop-distribute-patterns -fno-tree-vectorize -nostdlib -static "
         "-Wl,--build-id=none -Wl,--no-warn-rwx-segments").split()
# Verilator: no assertions and no waveforms, which would take most of the time.
VERILATOR = ("--cc -O3 --threads 1 --x-assign fast --x-initial fast --noassert -Wno-fatal -Wno-lint -Wno-style "
             "+define+SYNTHESIS --output-split 30000 --top-module rocket_top --prefix Vrocket").split()
# Of the C++: -O2 takes longer to compile by more than the short programs run longer without it (they take a tenth
# more).
OPTIMIZED = "-O1"


class Failure(Exception):
    """Something that ends the run with a message."""


def call(command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", **kwargs)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Failure(f"{' '.join(str(c) for c in command[:2])}: exit code {done.returncode}\n{tail}")
    return done.stdout


# --- the simulator ---


def fetch(work, config):
    """The package by its version and digest, with pip; the files of a configuration are unpacked."""
    rtl = work / f"{config}.rtl"
    text = (HERE / "requirements.txt").read_text()
    version, digest = re.search(r"^(\S+==\S+) --hash=sha256:(\w+)$", text, re.M).groups()
    if (rtl / digest).exists():
        return rtl, digest

    def found():
        return next((w for w in work.glob("*.whl") if hashlib.sha256(w.read_bytes()).hexdigest() == digest), None)
    if not found():
        print(f"downloading {version}", flush=True)
        call([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
              "--disable-pip-version-check", "-r", HERE / "requirements.txt", "-d", work])
    shutil.rmtree(rtl, ignore_errors=True)
    rtl.mkdir()
    system = f"freechips.rocketchip.system.{config}"
    wanted = [f"{system}.v", f"{system}.behav_srams.v", "plusarg_reader.v", "EICG_wrapper.v", "AsyncResetReg.v"]
    with zipfile.ZipFile(found()) as z:
        for member in z.namelist():
            name = member.rsplit("/", 1)[-1]
            if name in wanted:
                (rtl / name).write_bytes(z.read(member))
    missing = [w for w in wanted if not (rtl / w).exists()]
    if missing:
        raise Failure(f"{version}: {', '.join(missing)} is not in it")
    (rtl / digest).touch()
    return rtl, digest


def build(work, library, kind):
    """Verilog to C++ to a program. The first two steps are repeated only if their inputs have changed."""
    config, defines = kind
    rtl, digest = fetch(work, config)
    options = [*VERILATOR, *(f"+define+{d}" for d in defines)]
    inputs = digest + "".join(options) + OPTIMIZED + (HERE / "rocket_top.sv").read_text()
    inputs += call(["verilator", "--version"]) + call(["g++", "--version"])
    stamp = work / f"{config}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    objects = work / f"{config}.obj"
    if not stamp.exists():
        print(f"translating {config} (a minute)", flush=True)
        for old in work.glob(f"{config}-*"):
            old.unlink()
        shutil.rmtree(objects, ignore_errors=True)
        call(["verilator", *options, "--Mdir", objects, HERE / "rocket_top.sv", *sorted(rtl.glob("*.v"))])
        call(["make", "-C", objects, f"-j{os.cpu_count()}", "-f", "Vrocket.mk", f"OPT_FAST={OPTIMIZED}",
              "OPT_SLOW=-O0", "Vrocket__ALL.a"])
        stamp.touch()
    root = pathlib.Path(re.search(r"^VERILATOR_ROOT = (.*)$", (objects / "Vrocket.mk").read_text(), re.M)[1])
    runtime = [root / "include" / f for f in ("verilated.cpp", "verilated_threads.cpp")]
    program = work / config
    call(["g++", "-std=c++17", "-O1", *(f"-D{d}" for d in defines), f"-I{objects}", f"-I{root}/include",
          f"-I{root}/include/vltstd", f"-I{ROOT}/crates/rtlbus/include", HERE / "main.cpp", *runtime,
          objects / "Vrocket__ALL.a", library, "-lpthread", "-ldl", "-lm", "-latomic", "-o", program])
    return program


def compile_program(p, work):
    def place(name):
        found = [d / name for d in (HERE / "programs", SPEED, LOOPS) if (d / name).exists()]
        return found[0]
    elf = work / f"{p['name']}.elf"
    include = [f"-I{d}" for d in (HERE / "programs", SPEED, LOOPS, ROOT / "guest/include")]
    call(["riscv64-linux-gnu-gcc", *FLAGS, f"-DSCALE={p.get('scale', 100)}", "-DHARTS=1", *include,
          SPEED / "start.S", SPEED / "start.c", *map(place, p["sources"]), "-T", SPEED / "link.ld", "-o", elf],
         cwd=HERE / "programs")
    return elf


# --- the two runs ---


def machine_of(p):
    settings = [w for s in p.get("settings", []) for w in ("--set", s)]
    return ["--machine", HERE / p.get("machine", "rocket.toml"), *settings]


def port_of(p):
    """The board's hub waits for the response to a release; the RTL's does not."""
    return ["--ordered"] if p["kind"] == "board" else []


def text_at(elf, address):
    """The text that ends with a zero byte at an address of an ELF file."""
    data = elf.read_bytes()
    offset = int.from_bytes(data[32:40], "little")
    size, count = (int.from_bytes(data[i:i + 2], "little") for i in (54, 56))
    for i in range(count):
        header = data[offset + i * size:offset + (i + 1) * size]
        kind, start, at, length = (int.from_bytes(header[a:b], "little")
                                   for a, b in ((0, 4), (8, 16), (16, 24), (32, 40)))
        if kind == 1 and at <= address < at + length:
            text = data[start + address - at:]
            return text[:text.index(0)].decode()
    raise Failure(f"{elf.name}: a label's value {address:#x} is no address in it")


def spans(labels, elf):
    """First and last cycle of each region, as it was the last time."""
    found, name, begin = {}, None, 0
    for value, cycle in labels:
        if value != 0:
            name, begin = text_at(elf, value), cycle
        elif name is not None:
            found[name], name = (begin, cycle), None
    return found


def run_rtl(rocket, p, elf, work):
    """Cycles and labels; those of the run before, if simulator, program, machine and options are the same."""
    report, bus, stamp = (work / f"{p['name']}.rtl.{end}" for end in ("json", "bus", "digest"))
    options = [str(o) for o in (*machine_of(p), *port_of(p))]
    inputs = [rocket.read_bytes(), elf.read_bytes(), (HERE / p.get("machine", "rocket.toml")).read_bytes(),
              " ".join(options).encode()]
    digest = hashlib.sha256(b"".join(hashlib.sha256(i).digest() for i in inputs)).hexdigest()
    if not (stamp.exists() and stamp.read_text() == digest and report.exists() and bus.exists()):
        stamp.unlink(missing_ok=True)
        call([rocket, *options, "--report", report, "--bus", bus, elf])
        stamp.write_text(digest)
    r = json.loads(report.read_text())
    return r["cycles"], [(l["value"], l["cycle"]) for l in r["labels"]]


def run_model(nagori, p, elf, work):
    report = work / f"{p['name']}.model.json"
    call([nagori, "-q", "bare", *machine_of(p), "--stats", "json", "--stats-file", report,
          "--trace", "bus", "--trace-file", work / f"{p['name']}.model.bus", elf])
    r = json.loads(report.read_text())
    period = 1e12 / r["machine"]["clock_hz"] if "clock_hz" in r["machine"] else period_of(p)
    return r["cycles"], [(l["value"], round(l["time_ps"] / period)) for l in r["labels"]]


def period_of(p):
    text = (HERE / p.get("machine", "rocket.toml")).read_text()
    return 1e12 / int(re.search(r"^clock_hz = ([0-9_]+)", text, re.M)[1].replace("_", ""))


# --- requests on the memory port ---

RTL_REQUEST = re.compile(r"(?P<at>\d+) (?P<kind>[rw]) (?P<offset>0x[0-9a-f]+)")
MODEL_REQUEST = re.compile(r"(?P<at>\d+) h\d+ \S+ \S+ (?P<kind>[rw]) (?P<offset>0x[0-9a-f]+)")


def requests(lines, form):
    """(time in ps, direction, offset) of the requests, in the order in which they reached the controller."""
    found = [form.match(l) for l in lines]
    return sorted((int(m["at"]), m["kind"], int(m["offset"], 16)) for m in found if m)


def between(requests, begin, end):
    return [r for r in requests if begin <= r[0] < end]


def aligned(rtl, model, key):
    """Runs (place in one, place in the other, length) of requests with equal keys, in order."""
    a, b = [key(r) for r in rtl], [key(r) for r in model]
    return difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()


def compare_requests(rtl, model, bank_bytes):
    """One by one, in order, where a request that only one side has is left out: how many agree in direction and bank,
    and how many in their line, too; and of those that do, by how much the distance to the request before differs, in
    percent of the RTL's mean distance."""
    same_bank = sum(n for _, _, n in aligned(rtl, model, lambda r: (r[1], r[2] // bank_bytes)))
    blocks = aligned(rtl, model, lambda r: r[1:])
    off = [abs((model[j + i][0] - model[j + i - 1][0]) - (rtl[k + i][0] - rtl[k + i - 1][0]))
           for k, j, n in blocks for i in range(1, n)]
    mean = (rtl[-1][0] - rtl[0][0]) / (len(rtl) - 1) if len(rtl) > 1 else 0
    return {"rtl": len(rtl), "model": len(model), "same_bank": same_bank, "same_line": sum(n for _, _, n in blocks),
            "spacing": round(100 * sum(off) / len(off) / mean, 2) if off and mean else None}


def add_requests(rows, p, labels, model_labels, elf, work):
    """Compares the requests of each region of a program."""
    period = period_of(p)
    bank_bytes = int(re.search(r"^bank = \{ low = (\d+)", (HERE / p["machine"]).read_text(), re.M)[1])
    sides = []
    for name, form, marks in (("rtl", RTL_REQUEST, labels), ("model", MODEL_REQUEST, model_labels)):
        with (work / f"{p['name']}.{name}.bus").open() as f:
            sides.append((requests(f, form), spans(marks, elf)))
    for r in rows:
        (rtl, rtl_spans), (model, model_spans) = sides
        here = [between(side, *(period * c for c in spans[r["region"]]))
                for side, spans in ((rtl, rtl_spans), (model, model_spans))]
        r["requests"] = compare_requests(*here, 1 << bank_bytes)


# --- where they part ---


def lines_of(command):
    """Lines that a program writes to the file that `{}` stands for."""
    read, write = os.pipe()
    child = subprocess.Popen([str(c).replace("{}", f"/proc/self/fd/{write}") for c in command], pass_fds=[write],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as f:
        yield from f
    child.wait()


def steps(lines, where, entries, wanted):
    """(pc, cycle, text) of the instructions of each wanted region, as it was entered the last time. `where` finds pc,
    cycle and word in a line; `entries` are the names of the regions in the order in which they are entered."""
    found, count, name = {}, 0, None
    for line in lines:
        m = where.match(line)
        if m is None:
            continue
        cycle, pc, word = int(m["cycle"]), int(m["pc"], 16), int(m["word"], 16)
        if word & 0xfff07fff == 0x4e502013:
            name = None
            if word & 0xf8000:
                name = entries[count] if count < len(entries) and entries[count] in wanted else None
                count += 1
                found[name] = []
        if name is not None and len(found[name]) < COMPARED:
            found[name].append((pc, cycle, line[m.end():].strip()))
    return found


RTL_STEP = re.compile(r"(?P<cycle>\d+) (?P<pc>0x[0-9a-f]+) (?P<word>[0-9a-f]{8})")
MODEL_STEP = re.compile(r"exec +(?P<cycle>\d+) h0 (?P<pc>0x[0-9a-f]+) <[^>]*> \w +(?P<word>[0-9a-f]{4,8})")


def parting(rtl, model):
    """The first instruction whose time since the region's begin differs by more than OFF cycles, and by how much."""
    if not rtl or not model:
        return "no trace"
    for i, ((pc, at, _), (model_pc, model_at, text)) in enumerate(zip(rtl, model)):
        if pc != model_pc:
            return f"instruction {i}: {pc:#x} on the RTL, {model_pc:#x} in the model"
        off = (model_at - model[0][1]) - (at - rtl[0][1])
        if abs(off) > OFF:
            _, before, what = model[i - 1]
            return (f"instruction {i} at {pc:#x} ({text}): {off:+d} cycles; before it `{what}`")
    return f"no instruction is more than {OFF} cycles off"


def explain(rocket, nagori, p, elf, names, entries):
    """Where both sides part, by region."""
    rtl = lines_of([rocket, *machine_of(p), *port_of(p), "--trace", "{}", elf])
    model = lines_of([nagori, "-q", "bare", *machine_of(p), "--trace", "exec", "--trace-file", "{}", elf])
    rtl, model = steps(rtl, RTL_STEP, entries, names), steps(model, MODEL_STEP, entries, names)
    return {n: parting(rtl.get(n), model.get(n)) for n in names}


# --- rows, tables, the guard ---


def rows_of(p, rtl, model):
    """Rows of a program from cycles and regions of both sides."""
    (rtl_cycles, rtl_regions), (model_cycles, model_regions) = rtl, model
    def length(span):
        return span[1] - span[0]
    if rtl_regions.keys() != model_regions.keys():
        raise Failure(f"{p['name']}: the regions of both sides are not the same")
    pairs = [(n, length(s), length(model_regions[n])) for n, s in rtl_regions.items()]
    return [{"program": p["name"], "region": n, "rtl_cycles": r, "model_cycles": m,
             "error": round(100 * (m / r - 1), 2), "kind": p["kind"]}
            for n, r, m in pairs or [("run", rtl_cycles, model_cycles)]]


def summary(rows):
    """Per kind: rows, mean and largest error, rows over the bar."""
    found = {}
    for kind, bar in BARS.items():
        errors = [abs(r["error"]) for r in rows if r["kind"] == kind]
        if errors:
            mean, over = sum(errors) / len(errors), sum(e > bar for e in errors)
            met = over == 0 and mean <= MEANS.get(kind, bar)
            found[kind] = {"rows": len(errors), "mean": mean, "largest": max(errors), "over": over, "bar": bar,
                           "mean_bar": MEANS.get(kind), "met": met}
    return found


def read_accepted(path):
    with path.open(newline="") as f:
        rows = list(csv.DictReader(l for l in f if not l.startswith("#")))
    for r in rows:
        if not r["mechanism"]:
            raise Failure(f"{path.name}: {r['program']}, {r['region']}: an accepted error needs a mechanism")
    return {(r["program"], r["region"]): (float(r["error"]), r["mechanism"]) for r in rows}


def grown(rows, accepted):
    """Rows whose error is beyond what is accepted for them: the bar, or the recorded error."""
    found = []
    for r in rows:
        limit = max(BARS[r["kind"]], abs(accepted.get((r["program"], r["region"]), (0, ""))[0]) + SLACK)
        if abs(r["error"]) > limit:
            found.append((r, limit))
    return found


def write_accepted(path, rows, accepted):
    """Records the errors beyond the bars; mechanisms stay, and a new one has to be written by hand."""
    head = [l for l in path.read_text().splitlines() if l.startswith("#")]
    with path.open("w", newline="") as f:
        f.write("".join(l + "\n" for l in head))
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["program", "region", "error", "mechanism"])
        ran = {r["program"] for r in rows}
        for (program, region), (error, mechanism) in accepted.items():
            if program not in ran:
                w.writerow([program, region, error, mechanism])
        for r in rows:
            if abs(r["error"]) > BARS[r["kind"]]:
                mechanism = accepted.get((r["program"], r["region"]), (0, ""))[1]
                w.writerow([r["program"], r["region"], r["error"], mechanism])


def request_text(q):
    return (f"requests {q['rtl']}, in the model {q['model']}; same direction and bank {q['same_bank']}, same line "
            f"{q['same_line']}; spacing {q['spacing']} % off")


def markdown(rows):
    lines = ["| program | region | RTL cycles | model cycles | error |", "|---|---|---|---|---|"]
    lines += [f"| {r['program']} | {r['region']} | {r['rtl_cycles']} | {r['model_cycles']} | {r['error']:+.1f} % |"
              for r in rows]
    return lines


def sentences(rows):
    lines = ["| kind | rows | mean error | largest | over the bar | bars | met |", "|---|---|---|---|---|---|---|"]
    for kind, s in summary(rows).items():
        mean = f", mean {s['mean_bar']:.0f} %" if s["mean_bar"] else ""
        lines.append(f"| {kind} | {s['rows']} | {s['mean']:.1f} % | {s['largest']:.1f} % | {s['over']} | "
                     f"each {s['bar']:.0f} %{mean} | {'yes' if s['met'] else 'no'} |")
    return lines


def renew(path, name, lines):
    """Replaces what stands between two comments of a document."""
    text = path.read_text()
    new, count = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
                         lambda m: m[1] + "\n" + "".join(l + "\n" for l in lines) + "\n" + m[2], text, flags=re.S)
    if count != 1:
        raise Failure(f"{path.name}: {count} places for `{name}`; one is expected")
    path.write_text(new)


def four(a, programs):
    """The cycles that four cores instead of one add to regions full of misses, on the RTL and in the model. Both
    configurations have a wider memory port than the core of the other rows, so differences are compared."""
    one, many = build(a.work, a.library, WIDE), build(a.work, a.library, FOUR)
    rows = []
    for p in programs:
        if "four" not in p:
            continue
        elf, sides = compile_program(p, a.work), []
        for run, harts in ((lambda q: run_rtl(one, q, elf, a.work), 1),
                           (lambda q: run_rtl(many, q, elf, a.work), 4),
                           (lambda q: run_model(a.nagori, q, elf, a.work), 1),
                           (lambda q: run_model(a.nagori, q, elf, a.work), 4)):
            settings = p.get("settings", []) + [f"harts={harts}", "hub_cycles=7"]
            sides.append(spans(run({**p, "settings": settings})[1], elf))
        for name, misses in p["four"].items():
            rtl_one, rtl_many, model_one, model_many = (s[name][1] - s[name][0] for s in sides)
            rtl, model = (rtl_many - rtl_one) / misses, (model_many - model_one) / misses
            rows.append((p["name"], name, misses, rtl, model))
            print(f"{p['name']:<15} {name:<28} {misses:>6} misses: {rtl:+.2f} cycles each, in the model {model:+.2f}",
                  flush=True)
    if a.document:
        lines = ["| program | region | misses | RTL, cycles each | model |", "|---|---|---|---|---|"]
        renew(a.document, "four", lines + [f"| {p} | {n} | {m} | {r:+.2f} | {o:+.2f} |" for p, n, m, r, o in rows])
    return 0


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--nagori", type=pathlib.Path, required=True, help="the nagori command")
    a.add_argument("--library", type=pathlib.Path, required=True, help="libnagori_rtlbus.a")
    a.add_argument("--work", type=pathlib.Path, default=ROOT / "build/validation", help="directory for what is built")
    a.add_argument("--quick", action="store_true", help="the quick set")
    a.add_argument("--only", action="append", help="only this program; may be repeated")
    a.add_argument("--four", action="store_true", help="what three more cores cost a miss, instead of all that")
    a.add_argument("--wide", action="store_true",
                   help="only build the core with a memory port of 128 bits, and the board's loops")
    a.add_argument("--no-explain", action="store_true", help="do not look for the instruction where the two part")
    a.add_argument("--accept", action="store_true", help="record the errors beyond the bars as accepted")
    a.add_argument("--document", type=pathlib.Path, help="renew the tables of this document")
    a = a.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    programs = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    programs = [p for p in programs if (not a.quick or p.get("quick")) and (not a.only or p["name"] in a.only)]
    accepted = read_accepted(HERE / "accepted.csv")
    if a.four:
        return four(a, programs)
    if a.wide:
        build(a.work, a.library, WIDE)
        compile_program(next(p for p in programs if p["name"] == "board-dram"), a.work)
        return 0
    rocket = build(a.work, a.library, ONE)
    rows = []
    for p in programs:
        elf = compile_program(p, a.work)
        cycles, labels = run_rtl(rocket, p, elf, a.work)
        model_cycles, model_labels = run_model(a.nagori, p, elf, a.work)
        rtl = spans(labels, elf)
        new = rows_of(p, (cycles, rtl), (model_cycles, spans(model_labels, elf)))
        if p["kind"] == "board":
            add_requests(new, p, labels, model_labels, elf, a.work)
        entries = [text_at(elf, value) for value, _ in labels if value != 0]
        over = [r["region"] for r in new if abs(r["error"]) > EXPLAINED and r["region"] in rtl]
        why = {} if a.no_explain or not over else explain(rocket, a.nagori, p, elf, over, entries)
        for r in new:
            print(f"{r['program']:<15} {r['region']:<28} {r['rtl_cycles']:>9} {r['model_cycles']:>9} "
                  f"{r['error']:>+7.2f} %", flush=True)
            if "requests" in r:
                print(f"{'':<16}{request_text(r['requests'])}")
            if r["region"] in why:
                r["parts_at"] = why[r["region"]]
                print(f"{'':<16}{r['parts_at']}")
        rows += new
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/validation.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(sentences(rows)))
    if a.document:
        renew(a.document, "summary", sentences(rows))
        renew(a.document, "rows", markdown(rows))
    if a.accept:
        write_accepted(HERE / "accepted.csv", rows, accepted)
        return 0
    bad = grown(rows, accepted)
    for r, limit in bad:
        print(f"validate: {r['program']}, {r['region']}: error {r['error']:+.2f} %, and {limit:.2f} % is accepted",
              file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as e:
        sys.exit(f"validate: {e}")
