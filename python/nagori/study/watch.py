"""Watching a study: progress, time left, first curves as they grow; in the terminal, or as a page of this host.

Only the store is looked at, so that it does not matter what makes the runs, or where.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import threading
import time
from typing import Any, Optional

from .._nagori import Error
from .._page import serve
from . import analysis
from .analysis import REPEATS
from .report import _FIGURES, _text, _titled
from .store import Damaged
from .table import Results, figures, unit

#: Lines of a curve in the terminal.
_LINES = 24


class State:
    """What is known of a study that runs."""

    def __init__(self, results: Results, figure: Optional[str] = None) -> None:
        self._results = results
        self._plan, self._store = results.plan, results.store
        self._rows: dict[str, dict[str, Any]] = {}
        self._seen: list[tuple[float, int]] = []
        wanted = self._plan.about["description"].get("report", {}).get("figures")
        self.figure = figure or (wanted or _FIGURES[self._plan.about["kind"]])[0]
        axes = [a for a in self._plan.about["axes"] if a not in REPEATS]
        levels = {a: len({_text(r.values.get(a)) for r in self._plan.runs}) for a in axes}
        self._x = max(axes, key=lambda a: levels[a], default=None)
        others = [a for a in axes if a != self._x and 1 < levels[a] <= 6]
        self._split = min(others, key=lambda a: levels[a], default=None)

    def look(self) -> dict[str, Any]:
        """How far it is now."""
        keys = self._plan.keys
        there, failures = self._store.present(), self._store.present("failures")
        done = [k for k in keys if k in there]
        for key in done:
            if key not in self._rows:
                try:
                    result = self._store.get(key)
                except Damaged:
                    continue
                if result is not None:
                    self._rows[key] = figures(result)
        failed = sum(k in failures and k not in there for k in keys)
        now = time.monotonic()
        self._seen = [*(s for s in self._seen if now - s[0] < 120), (now, len(done) + failed)]
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        rate = (last - first) / (end - begin) if end > begin else 0.0
        left = len(keys) - len(done) - failed
        return {
            "title": self._plan.about["title"],
            "runs": len(keys),
            "done": len(done),
            "failed": failed,
            "under_way": self._under_way(),
            "rate_per_s": rate,
            "left_s": left / rate if rate > 0 else None if left else 0.0,
            "figure": self.figure,
            "unit": unit(self.figure),
            "x": self._x,
            "curves": self._curves(),
        }

    def _under_way(self) -> int:
        return sum(1 for p in (self._store.directory / "leases").glob("[0-9a-f]*"))

    def _curves(self) -> list[dict[str, Any]]:
        """Means of the figure along an axis, a curve for each value of another one."""
        rows = [
            {**r.values, **{n: v for n, v in self._rows[r.key].items() if n not in r.values}}
            for r in self._plan.runs
            if r.key in self._rows
        ]
        if not rows or self._x is None:
            return []
        names = [n for n in (self._split, self._x) if n is not None]
        try:
            means = analysis.groups(rows, names, self.figure)
        except Error:
            return []
        curves: dict[str, list[list[Any]]] = {}
        for key, m in means.items():
            curves.setdefault(_text(key[0]) if len(key) > 1 else "", []).append([_text(key[-1]), m.value, m.count])
        return [{"name": name, "points": points} for name, points in curves.items()]


def shown(state: dict[str, Any], width: int = 80) -> str:
    """A state for the terminal."""
    total, done = state["runs"], state["done"]
    bar = max(10, width - 50)
    full = bar * done // max(total, 1)
    left = "" if state["left_s"] is None else f", {state['left_s']:.0f} s left"
    lines = [
        state["title"],
        f"[{'#' * full}{'.' * (bar - full)}] {done} of {total} runs, {state['failed']} failed, "
        f"{state['under_way']} under way",
        f"{state['rate_per_s']:.2f} runs a second{left}",
    ]
    points = [(c["name"], p) for c in state["curves"] for p in c["points"]]
    if points:
        most = max(abs(p[1]) for _, p in points) or 1.0
        names = max(len(f"{name} {p[0]}") for name, p in points[:_LINES])
        lines += ["", f"{_titled(state['figure'])}, {state['unit'] or '1'}, over {state['x']}"]
        room = max(10, width - names - 16)
        for name, p in points[:_LINES]:
            label = f"{name} {p[0]}".strip()
            lines.append(f"{label:{names}} {p[1]:12.6g} {'=' * round(room * abs(p[1]) / most)}")
        if len(points) > _LINES:
            lines.append(f"and {len(points) - _LINES} more")
    return "\n".join(lines)


def terminal(results: Results, figure: Optional[str], every: float, once: bool) -> None:
    """Shows it in the terminal until all runs are done."""
    state = State(results, figure)
    lively = sys.stdout.isatty() and not once
    while True:
        now = state.look()
        if lively:
            print("\033[H\033[J", end="")
        print(shown(now, shutil.get_terminal_size().columns), flush=True)
        if once or now["done"] + now["failed"] >= now["runs"]:
            return
        time.sleep(every)
        if not lively:
            print()


_PAGE = pathlib.Path(__file__).with_name("watch.html")


def page(results: Results, figure: Optional[str], port: int, token: Optional[str] = None) -> tuple[Any, str]:
    """A server of the page on this host, and its address."""
    state, lock = State(results, figure), threading.Lock()

    def data() -> dict[str, Any]:
        with lock:
            return state.look()

    return serve(_PAGE.read_text(encoding="utf-8"), data, port, token)
