"""A page that shows a machine while it runs: `python -m nagori.dashboard SOCKET`, where the machine has `--control
SOCKET`.

Time, instructions per cycle, misses, requests by bank, latencies, power, and what has switched the delay method.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import socket
import sys
import threading
import time
from collections import deque
from typing import Any, NoReturn, Optional

from ._nagori import Error
from ._page import serve

#: Points that are kept.
_KEPT = 600
#: Counters of a hart that are summed up, by what they are called on the page.
_MISSES = {
    "L1D": ("l1d_load_misses", "l1d_store_misses"),
    "L1I": ("l1i_misses",),
    "DTLB": ("dtlb_misses",),
    "ITLB": ("itlb_misses",),
}


class Gone(Exception):
    """The machine does not answer any more."""


class Machine:
    """A machine's control socket, which is held for no longer than a question."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, *methods: str) -> list[Any]:
        """Answers to methods without parameters.

        Raises:
            Gone: nobody answers.
        """
        lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m}) for n, m in enumerate(methods)]
        answers: dict[int, Any] = {}
        try:
            # A client that stays makes the machine look for it more often.
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(30)
                s.connect(self._path)
                s.sendall(("\n".join(lines) + "\n").encode())
                with s.makefile("rb") as f:
                    while len(answers) < len(methods):
                        line = f.readline()
                        if not line:
                            raise Gone(f"{self._path}: the machine has ended")
                        answer = json.loads(line)
                        answers[answer["id"]] = answer.get("result")
        except (OSError, ValueError) as e:
            raise Gone(f"{self._path}: nobody answers: {e}") from None
        return [answers[n] for n in range(len(methods))]


class State:
    """What was seen of a machine."""

    def __init__(self) -> None:
        self._points: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._before: Optional[dict[str, Any]] = None
        self._at = 0.0
        self._lock = threading.Lock()
        self._now: dict[str, Any] = {}
        self._ended = ""

    def add(self, status: dict[str, Any], report: dict[str, Any], at: float) -> None:
        """Adds what a machine has answered at a time of this host."""
        with self._lock:
            before, self._before = self._before, report
            seconds, self._at = at - self._at, at
            self._now = {
                "machine": report["machine"],
                "time_ns": status["time_ns"],
                "instructions": status["instructions"],
                "timed": status["timed"],
                "method": status["method"],
                "state": status["state"],
                "changes": report["memory"].get("changes", [])[-50:],
            }
            # Statistics may have been started anew.
            if before is not None and report["elapsed_ps"] > before["elapsed_ps"]:
                self._points.append(_difference(before, report, seconds, status["time_ns"]))

    def end(self, why: str) -> None:
        """Nothing more comes."""
        with self._lock:
            self._ended = why

    def look(self) -> dict[str, Any]:
        """All of it, for the page."""
        with self._lock:
            return {**self._now, "points": list(self._points), "ended": self._ended}


def _sum(report: dict[str, Any], *names: str) -> int:
    return sum(int(h.get(n, 0)) for h in report["harts"] for n in names)


def _difference(a: dict[str, Any], b: dict[str, Any], seconds: float, now_ns: int) -> dict[str, Any]:
    """What has happened between two reports."""

    def more(*names: str) -> int:
        return _sum(b, *names) - _sum(a, *names)

    instructions = more("instructions")
    cycles = more("cycles") - more("idle_cycles")
    ps = b["elapsed_ps"] - a["elapsed_ps"]
    point: dict[str, Any] = {
        "time_ms": now_ns / 1e6,
        "speed": instructions / seconds / 1e6 if seconds > 0 else None,
        "ipc": instructions / cycles if cycles > 0 else None,
        "misses": {n: 1000 * more(*of) / instructions if instructions else None for n, of in _MISSES.items()},
        "parts": {},
    }
    old, new = a["memory"], b["memory"]
    for part in ("dram", "nvmm"):
        point["parts"][part] = _part(old.get(part) or {}, new.get(part) or {}, ps)
    banks, were = new.get("banks") or [], old.get("banks") or []
    if len(banks) == len(were):
        point["banks"] = [n["reads"] + n["writes"] - o["reads"] - o["writes"] for n, o in zip(banks, were)]
    return point


def _part(old: dict[str, Any], new: dict[str, Any], ps: int) -> dict[str, Any]:
    """Requests, latencies and power of a part of the memory."""
    a, b = old.get("counters", {}), new.get("counters", {})
    found: dict[str, Any] = {
        "reads_per_us": (b.get("reads", 0) - a.get("reads", 0)) / ps * 1e6,
        "writes_per_us": (b.get("writes", 0) - a.get("writes", 0)) / ps * 1e6,
    }
    for name in ("read_latency", "write_latency"):
        x, y = old.get(name), new.get(name)
        if x and y:
            count = y["count"] - x["count"]
            found[f"{name}_ns"] = (y["sum"] - x["sum"]) / count / 1e3 if count else None
            found[f"{name}_buckets"] = [n - o for n, o in zip(y["buckets"], x["buckets"])]
    energy = _energy(new) - _energy(old)
    # A picojoule in a picosecond is a watt.
    found["power_w"] = energy / ps if energy else None
    found["wear"] = new.get("wear")
    return found


def _energy(part: dict[str, Any]) -> float:
    energy = part.get("energy")
    if isinstance(energy, dict):
        return float(sum(v for v in energy.values() if isinstance(v, (int, float))))
    return float(energy or 0)


_PAGE = pathlib.Path(__file__).with_name("dashboard.html")


def watch(path: str, state: State, every: float) -> None:
    """Looks at a machine until it has ended."""
    machine = Machine(path)
    while True:
        try:
            status, statistics = machine.ask("status", "statistics")
        except Gone as e:
            state.end(str(e))
            return
        state.add(status, statistics["report"], time.monotonic())
        time.sleep(every)


def main() -> NoReturn:
    """Does what the command line says."""
    p = argparse.ArgumentParser(prog="python -m nagori.dashboard", description=__doc__, allow_abbrev=False)
    p.add_argument("socket", metavar="SOCKET", help="the machine's control socket")
    p.add_argument("--port", type=int, default=0, metavar="PORT", help="of the page [default: any that is free]")
    p.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look [default: 1]")
    a = p.parse_args()
    state = State()
    try:
        Machine(a.socket).ask("status")
        server, address = serve(_PAGE.read_text(encoding="utf-8"), state.look, a.port)
    except (Gone, Error) as e:
        sys.exit(f"error: {e}")
    print(f"dashboard: {address}", flush=True)
    threading.Thread(target=watch, args=(a.socket, state, a.every), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    main()
