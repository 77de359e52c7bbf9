"""The dashboard beside a machine that runs."""

import json
import pathlib
import subprocess
import sys
import time
import urllib.request

from nagori.dashboard import Machine, State


def test_a_machine_is_seen_while_it_runs(endless: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "control"
    command = [
        sys.executable,
        "-m",
        "nagori",
        "-q",
        "bare",
        "--method",
        "extended",
        "--control",
        str(path),
        str(endless),
    ]
    machine = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    page = None
    try:
        while not path.exists():
            assert machine.poll() is None
            time.sleep(0.01)
        state = State()
        for at in (1.0, 2.0, 3.0):
            status, statistics = Machine(str(path)).ask("status", "statistics")
            state.add(status, statistics["report"], at)
        seen = state.look()
        point = seen["points"][-1]
        assert seen["machine"] == "vc707" and seen["method"] == "extended" and len(seen["points"]) == 2
        assert 0 < point["ipc"] < 1 and point["speed"] > 0 and len(point["banks"]) == 8
        asked = [sys.executable, "-m", "nagori.dashboard", str(path), "--every", "0.01"]
        page = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
        assert page.stdout is not None
        address = page.stdout.readline().removeprefix("dashboard: ").strip()
        with urllib.request.urlopen(address) as answer:
            assert b"instructions per cycle" in answer.read()
        while True:
            with urllib.request.urlopen(address.replace("/?", "/data?")) as answer:
                found = json.load(answer)
            if found["points"]:
                break
        assert found["points"][0]["parts"]["nvmm"]["reads_per_us"] >= 0
    finally:
        for process in (machine, page):
            if process is not None:
                process.kill()
                process.wait()
