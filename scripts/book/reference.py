"""Reference pages that the command itself writes: docs/reference/."""

import json
import re
import subprocess

import commands
from pages import ROOT, Wrong

FOLDER = ROOT / "docs/reference"
NOTE = "<!-- Written by scripts/book; `make reference` renews it. -->\n"


def output(nagori, *arguments):
    done = subprocess.run([nagori, *arguments], capture_output=True, text=True, env=commands.environment())
    if done.returncode:
        raise Wrong(f"nagori {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def cell(text):
    return str(text).replace("|", "\\|")


def commands_page(nagori):
    """All commands, each with one line."""
    text = NOTE + "# Commands\n\n" + \
        "`nagori COMMAND --help` has the options, with examples, exit codes and durations;\n" \
        "in the book each command has a page of that help.\n\n" + \
        "| command | what it does |\n|---|---|\n"
    for command in commands.walk(nagori):
        about = commands.subcommands(nagori, command[:-1])[command[-1]]
        text += f"| `nagori {' '.join(command)}` | {cell(about)} |\n"
    return text


def machines_page(nagori):
    """All machines side by side."""
    text = NOTE + "# Machines\n\n" + \
        "`nagori machine show NAME` prints every value with its unit, source and origin;\n" \
        "[machine.md](../machine.md) says what the keys mean, " \
        "[choosing.md](../explanation/choosing.md) which machine to take.\n" \
        "`board` is the reference board's controller, with its delay methods.\n\n"
    columns = {"harts": "harts", "clock": "clock_hz", "core": "core", "L1D": "l1d.size", "L2": "cache.l2.size",
               "last level": "cache.llc.size", "memory": "memory.size", "NVMM from": "memory.nvmm_boundary",
               "DRAM is": "memory.regions.dram.model", "NVMM is": "memory.regions.nvmm.model"}
    text += f"| machine | {' | '.join(columns)} | what |\n|{'---|' * (len(columns) + 2)}\n"
    for name in machine_names(nagori):
        values = {}
        for line in output(nagori, "machine", "show", name).splitlines():
            if found := re.match(r"(\S+)\s+(.*?)\s+\[([^]]*)\]$", line):
                values[found[1]] = found[2].strip()
        values["clock_hz"] = f"{int(values['clock_hz'].split()[0]) // 1_000_000} MHz"
        if values["memory.size"] == values["memory.nvmm_boundary"]:
            values["memory.nvmm_boundary"] = values["memory.regions.nvmm.model"] = "-"
        for key in columns.values():
            values.setdefault(key, "board" if key.startswith("memory.regions") else "-")
        text += f"| `{name}` | {' | '.join(cell(values[key]) for key in columns.values())} | " \
                f"{cell(values['description'])} |\n"
    return text


# Reads of the table of memories: each after the one before, and as many as the memory takes.
CHASE = ["--trace", "gen:random,count=2000,span=64 MiB", "--mode", "dependent"]
READS = ["--trace", "gen:random,count=20000,span=64 MiB"]
STREAM = ["--trace", "gen:sequential,count=20000"]
WRITES = ["--trace", "gen:random,count=20000,span=64 MiB,writes=1"]


def memories_page(nagori):
    text = NOTE + "# Memories\n\n" + \
        "What each preset does with 20,000 accesses of 64 bytes (`nagori mem run`), with its default policies.\n" \
        "The read latency is that of random reads each of which waits for the one before;\n" \
        "bandwidths are those of as many as the memory takes, of writes until they are in the device.\n" \
        "They are in the first 64 MiB, which in `hybrid` is its DRAM.\n" \
        "`nagori mem show NAME` prints every value with its source; [devices.md](../devices.md) compares these;\n" \
        "[choosing.md](../explanation/choosing.md) says which to take.\n\n" + \
        "| preset | what | read, ns | random reads, GB/s | stream, GB/s | random writes, GB/s |\n" \
        "|---|---|---|---|---|---|\n"

    def played(name, trace):
        return json.loads(output(nagori, "-q", "mem", "run", "--memory", name, *trace, "--json"))

    for name in memory_names():
        about = json.loads(output(nagori, "mem", "show", name, "--json"))["description"]
        latency = played(name, CHASE)["read_latency_avg_ns"]
        rates = [played(name, trace)["bandwidth_bytes_per_s"] / 1e9 for trace in (READS, STREAM, WRITES)]
        text += f"| `{name}` | {cell(about)} | {latency:.0f} | " + " | ".join(f"{r:.2f}" for r in rates) + " |\n"
    return text


def written(nagori):
    """The pages that lie in the repository."""
    return {"commands.md": commands_page(nagori), "machines.md": machines_page(nagori),
            "memories.md": memories_page(nagori)}


def renew(nagori):
    FOLDER.mkdir(exist_ok=True)
    for name, text in written(nagori).items():
        (FOLDER / name).write_text(text)


def check(nagori):
    """What is stale."""
    problems = []
    for name, text in written(nagori).items():
        path = FOLDER / name
        if not path.is_file() or path.read_text() != text:
            problems.append(f"docs/reference/{name} is not what `nagori` says: `make reference` renews it")
    return problems


def machine_names(nagori):
    return [line.split()[0] for line in output(nagori, "machine", "list").splitlines() if line.strip()]


def memory_names():
    # The other file there says what policies there are.
    return sorted(p.stem for p in (ROOT / "memories").glob("*.toml") if p.stem != "policies")


def shown_pages(nagori):
    """Every machine and memory with all values, as pages of the book: {name: text}."""
    kinds = [("machine", name) for name in machine_names(nagori)] + [("mem", name) for name in memory_names()]
    return {f"{kind}-show-{name}": f"# nagori {kind} show {name}\n\n```text\n{output(nagori, kind, 'show', name)}```\n"
            for kind, name in kinds}


def command_pages(nagori):
    """Every command with its help, as pages of the book: {name: text}."""
    found = {}
    for command in commands.walk(nagori):
        name = " ".join(["nagori", *command])
        text = commands.help_of(nagori, command).rstrip()
        below = commands.subcommands(nagori, command)
        found["-".join(command)] = f"# {name}\n\n```text\n{text}\n```\n" + "".join(
            f"\n- [{name} {b}]({'-'.join([*command, b])}.md)" for b in below) + "\n"
    return found
