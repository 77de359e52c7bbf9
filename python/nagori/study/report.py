"""Reports of studies: a document for `nagori report`, and a notebook to go on from."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Optional

from .._nagori import Error
from .._options import PathLike
from . import analysis
from .analysis import LEVELS, REPEATS, Row
from .plan import command
from .table import Results, unit

Block = dict[str, Any]
#: Rows of a table, at most; the rest is in the export.
_ROWS = 200
_KEYS = ("figures", "x", "series", "pareto")
#: What is looked at if the study does not say.
_FIGURES = {
    "run": ("time_us", "cpi", "nvmm_reads", "nvmm_writes"),
    "bare": ("time_us", "cpi", "nvmm_reads", "nvmm_writes"),
    "mem": ("time_us", "bandwidth_bytes_per_s", "read_latency_avg_ns", "write_latency_avg_ns"),
    "crash": ("findings", "recoveries"),
    "window": ("time_us", "cpi", "nvmm_reads", "nvmm_writes"),
}


class _Report:
    def __init__(self, results: Results, title: str) -> None:
        self._results, self._title = results, title
        self._rows = results.rows
        if not self._rows:
            raise Error("there are no results yet: run the study first")
        about = results.plan.about
        values = [r.values for r in results.plan.runs]
        self._axes = [
            a for a in dict.fromkeys(n for v in values for n in v) if len({_text(v.get(a)) for v in values}) > 1
        ]
        derived = [n for n in self._axes if n not in about["axes"]]
        # A derived value goes with its axes, and tells nothing of its own.
        self._axes = [a for a in self._axes if a not in derived] or self._axes
        wanted = about["description"].get("report", {})
        for key in wanted:
            if key not in _KEYS:
                raise Error(f"[report]: there is no key `{key}`: expected {', '.join(_KEYS)}")
        known = {n for row in self._rows for n, v in row.items() if isinstance(v, (int, float))}
        figures = wanted.get("figures")
        for name in figures or ():
            analysis.numbers(self._rows, name)
        self._figures: list[str] = list(
            figures or [f for f in _FIGURES[about["kind"]] if f in known and self._varies(f)]
        )
        self._figures = self._figures or ["time_us" if "time_us" in known else sorted(known)[0]]
        self._wanted = wanted

    def _varies(self, figure: str) -> bool:
        return len({r.get(figure) for r in self._rows}) > 1

    def document(self) -> dict[str, Any]:
        """The document."""
        about = self._results.plan.about
        sections: list[dict[str, Any]] = [{"title": "Study", "blocks": self._summary()}]
        for figure in self._figures:
            sections.append({"title": _titled(figure), "blocks": self._figure(figure)})
        fronts = self._fronts()
        if fronts:
            sections.append({"title": "Pareto fronts", "blocks": fronts})
        odd = self._outliers()
        if odd:
            sections.append({"title": "Outliers", "blocks": odd})
        if self._results.failures:
            sections.append({"title": "What failed", "blocks": self._failures()})
        sections.append({"title": "All runs", "folded": True, "blocks": [self._table()]})
        sections.append({"title": "Provenance", "folded": True, "blocks": self._provenance()})
        return {
            "format": "nagori-document",
            "title": self._title,
            "subtitle": f"{len(self._rows)} of {len(self._results.plan.runs)} runs of `nagori {about['kind']}`",
            "sections": sections,
        }

    def _summary(self) -> list[Block]:
        rows: list[list[Any]] = []
        for axis in self._axes:
            levels = list(dict.fromkeys(_text(r.get(axis)) for r in self._rows))
            shown = ", ".join(levels[:LEVELS]) + (f", ... ({len(levels)})" if len(levels) > LEVELS else "")
            rows.append([axis, len(levels), shown])
        blocks: list[Block] = []
        if rows:
            blocks.append({"table": {"columns": ["axis", "values", "which"], "rows": rows}})
        failed, missing = len(self._results.failures), len(self._results.missing)
        if missing:
            blocks.append(
                {
                    "text": f"{missing} runs have no result; {failed} of them have failed. What follows "
                    f"is of the "
                    "others, and shares of axes may change when they are there."
                }
            )
        return blocks or [{"text": "A single run."}]

    def _others(self, x: str) -> list[str]:
        return [a for a in self._axes if a != x and a not in REPEATS]

    def _x(self) -> Optional[str]:
        """The axis that plots have along x: one of numbers, if there is one."""
        if "x" in self._wanted:
            return str(self._wanted["x"])
        plain = [a for a in self._axes if a not in REPEATS]
        numeric = [a for a in plain if all(analysis.leading(r.get(a)) is not None for r in self._rows)]
        return max(numeric or plain, key=lambda a: len({_text(r.get(a)) for r in self._rows}), default=None)

    def _figure(self, figure: str) -> list[Block]:
        blocks: list[Block] = []
        x = self._x()
        if x is not None:
            blocks += self._chart(figure, x)
        found = analysis.effects(self._rows, [a for a in self._axes if a not in REPEATS], figure)
        if found.main:
            rows = [
                [e.axes[0], round(100 * e.share, 1), _number(e.least), _text(e.at[0]), _number(e.most), _text(e.at[1])]
                for e in found.main
            ]
            note = "Share of the variance of all runs; means over all other axes."
            if any(e.by_ranks for e in found.main):
                note += f" Of axes with more than {LEVELS} values: the squared rank correlation, and the means "
                f"of the " "fifths at both ends."
            if not found.balanced:
                note += " Not all combinations were run equally often, so that shares overlap."
            columns = ["axis", "share, %", f"least, {unit(figure) or '1'}", "at", f"most, {unit(figure) or '1'}", "at "]
            blocks.append({"text": "Which axis matters, and by how much:"})
            blocks.append({"table": {"columns": columns, "rows": rows, "note": note}})
        rows = [
            ["  x  ".join(e.axes), round(100 * e.share, 1), _number(e.least), _number(e.most)]
            for e in found.interactions
            if e.share >= 0.001
        ]
        if rows:
            blocks.append({"text": "Interactions of two axes: what is beyond the sum of their effects:"})
            blocks.append(
                {"table": {"columns": ["axes", "share, %", "furthest below", "furthest above"], "rows": rows}}
            )
        return blocks or [{"text": f"{_titled(figure)} is {_number(self._rows[0].get(figure))} in all runs."}]

    def _chart(self, figure: str, x: str) -> list[Block]:
        split = self._wanted.get("series")
        others = [split] if split is not None else self._others(x)
        # More lines than can be told apart are means over the axes that matter least.
        while len(others) > 1 and self._lines(others) > 8:
            shares = {e.axes[0]: e.share for e in analysis.effects(self._rows, others, figure).main}
            others.remove(min(others, key=lambda a: shares.get(a, 0.0)))
        if others and self._lines(others) > 12:
            others = []
        means = analysis.groups(self._rows, [*others, x], figure)
        numeric = all(analysis.leading(k[-1]) is not None for k in means)
        if numeric and len({k[-1] for k in means}) * max(1, self._lines(others)) >= len(means) > 0 and len(means) > 60:
            mark = "points"
        else:
            mark = "line" if numeric else "points"
        series: dict[tuple[Any, ...], list[list[Any]]] = {}
        for key, m in means.items():
            at = analysis.leading(key[-1]) if numeric else _text(key[-1])
            point = [at, m.value] if m.low is None else [at, m.value, m.low, m.high]
            series.setdefault(key[:-1], []).append(point)
        lines = [
            {
                "name": ", ".join(_text(v) for v in key) or _titled(figure),
                "mark": mark,
                "points": sorted(points) if numeric else points,
            }
            for key, points in series.items()
        ]
        units = {str(k[-1]).split()[-1] for k in means if isinstance(k[-1], str) and len(str(k[-1]).split()) > 1}
        axis: dict[str, Any] = {"title": x, "scale": "linear" if numeric else "names"}
        if numeric and len(units) == 1:
            axis["unit"] = units.pop()
        values = sorted({p[0] for line in lines for p in line["points"]}) if numeric else []
        if len(values) > 3 and values[0] > 0 and values[-1] / values[0] > 50:
            axis["scale"] = "log"
        panel = {"x": axis, "y": {"title": _titled(figure), "unit": unit(figure)}, "series": lines}
        told = "" if not others else f"Lines are values of {', '.join(others)}. "
        left = [a for a in self._others(x) if a not in others]
        told += f"Points are means over {', '.join(left)}. " if left else ""
        if any(len(p) > 2 for line in lines for p in line["points"]):
            told += "Bars are 95 % confidence intervals (Student's t)."
        blocks: list[Block] = [{"chart": {"panels": [panel]}}]
        return [*blocks, {"text": told.strip()}] if told else blocks

    def _lines(self, axes: Sequence[str]) -> int:
        return len({tuple(_text(r.get(a)) for a in axes) for r in self._rows})

    def _fronts(self) -> list[Block]:
        known = {n for row in self._rows for n in row}
        wanted = self._wanted.get("pareto")
        if wanted is None:
            pairs = [("time_us", n) for n in ("energy_pj", "nvmm_writes")]
            wanted = [{a: "min", b: "min"} for a, b in pairs if a in known and b in known and self._varies(b)][:1]
        blocks: list[Block] = []
        for objectives in wanted:
            front = analysis.pareto(self._rows, objectives)
            names = list(objectives)
            rows = [
                [*(_text(r.get(a)) for a in self._axes), *(_number(r.get(n)) for n in names)] for r in front[:_ROWS]
            ]
            if len(names) == 2:
                keys = {r["key"] for r in front}
                other = [
                    [r[names[0]], r[names[1]]]
                    for r in self._rows
                    if r["key"] not in keys and r.get(names[1]) is not None
                ]
                best = [[r[names[0]], r[names[1]]] for r in front]
                series: list[Block] = [{"name": "front", "mark": "points", "points": best}]
                if other:
                    series.append({"name": "other runs", "mark": "points", "points": other[:2000], "dashed": True})
                axes = {k: {"title": _titled(n), "unit": unit(n), "zero": False} for k, n in zip("xy", names)}
                blocks.append({"chart": {"panels": [{**axes, "series": series}]}})
            told = ", ".join(f"{n} ({how})" for n, how in objectives.items())
            blocks.append(
                {
                    "table": {
                        "columns": [*self._axes, *names],
                        "rows": rows,
                        "note": f"Nothing is gained in one of {told} without a loss in another.",
                    }
                }
            )
        return blocks

    def _outliers(self) -> list[Block]:
        blocks: list[Block] = []
        runs = {r.key: r for r in self._results.plan.runs}
        for figure in self._figures:
            for o in analysis.outliers(self._rows, self._axes, figure)[:10]:
                values = ", ".join(f"{n} = {_text(v)}" for n, v in runs[o.key].values.items())
                blocks.append(
                    {
                        "text": f"{_titled(figure)} is {_number(o.value)} where {_number(o.expected)} was to be "
                        f"expected ({o.deviations:+.1f} standard deviations): {values}"
                    }
                )
                blocks.append({"code": command(runs[o.key])})
        return blocks

    def _failures(self) -> list[Block]:
        blocks: list[Block] = []
        for r, message in self._results.failures[:_ROWS]:
            values = ", ".join(f"{n} = {_text(v)}" for n, v in r.values.items())
            blocks.append({"text": values or "the only run"})
            blocks.append({"code": f"{command(r)}\n{message}"})
        return blocks

    def _table(self) -> Block:
        columns = [*self._axes, *self._figures]
        rows = [
            [*(_text(r.get(a)) for a in self._axes), *(_number(r.get(f)) for f in self._figures)] for r in self._rows
        ]
        note = f"The first {_ROWS} of {len(rows)}; `nagori sweep export` writes all." if len(rows) > _ROWS else ""
        return {"table": {"columns": columns, "rows": rows[:_ROWS], **({"note": note} if note else {})}}

    def _provenance(self) -> list[Block]:
        p = self._results.provenance
        about = self._results.plan.about
        facts = [["version", p["version"]], ["model", str(p["model"])], ["runs", str(p["runs"])]]
        facts += [["image", text] for text in p["images"]]
        facts += [["input", f"{path}"] for path in about["files"]]
        hosts = self._results.hosts()
        if hosts:
            seconds = sum(h.get("seconds", 0.0) for h in hosts)
            names = sorted({str(h.get("host")) for h in hosts})
            facts.append(["made on", ", ".join(names)])
            facts.append(["time of hosts", f"{seconds:.1f} s"])
        return [{"facts": facts}, {"code": json.dumps(about["description"], indent=2)}]


def _titled(figure: str) -> str:
    u = unit(figure)
    name = figure
    if u and name.lower().endswith(f"_{u.lower()}"):
        name = name[: -len(u) - 1]
    return name.replace("_", " ")


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else "-" if value is None else str(value)


def _number(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def document(results: Results, title: str) -> dict[str, Any]:
    """The document of a study's results, as `nagori report` takes it (docs/report.md)."""
    return _Report(results, title).document()


def write(results: Results, title: str, path: PathLike) -> None:
    """Writes a page (`.html`), or the document that it is made from (`.json`)."""
    file = pathlib.Path(path)
    text = json.dumps(document(results, title), indent=1)
    try:
        if file.suffix == ".json":
            file.write_text(text + "\n", encoding="utf-8")
            return
        made = file.with_name(f".{file.name}.json")
        try:
            made.write_text(text, encoding="utf-8")
            command = [sys.executable, "-m", "nagori", "-q", "report", str(made), "--output", str(file)]
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            made.unlink(missing_ok=True)
    except OSError as e:
        raise Error(f"{file}: it cannot be written: {e.strerror}") from None
    if done.returncode != 0:
        raise Error(f"{file}: {done.stderr.strip().removeprefix('error: ')}")


_NOTEBOOK = '''"""{title}: what its results say. `marimo edit {file}`."""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import altair as alt
    import marimo as mo

    import nagori as ng

    results = ng.Results.stored({store!r}, {name!r})
    frame = results.to_frame()
    return alt, frame, mo, results


@app.cell
def _(frame, mo):
    mo.ui.table(frame)
    return


@app.cell
def _(alt, frame):
    axes = {axes!r}
    figure = {figure!r}
    chart = alt.Chart(frame).mark_line(point=True).encode(x=alt.X({x!r}), y=alt.Y(figure, type="quantitative"))
    if len(axes) > 1:
        chart = chart.encode(color=alt.Color(axes[1] if axes[1] != {x!r} else axes[0], type="nominal"))
    chart
    return


@app.cell
def _(mo, results):
    from nagori.study import analysis

    found = analysis.effects(results.rows, {axes!r}, {figure!r})
    mo.ui.table([{{"axis": e.axes[0], "share": e.share, "least": e.least, "most": e.most}} for e in found.main])
    return


if __name__ == "__main__":
    app.run()
'''


def notebook(results: Results, title: str, name: str, path: PathLike) -> None:
    """Writes a marimo notebook with the results, a chart and the effects, to go on from."""
    made = _Report(results, title)
    x = made._x() or "key"
    axes = [a for a in made._axes if a not in REPEATS] or ["key"]
    figure = made._figures[0]
    # Altair takes what is behind a colon for a type, and dots and brackets for paths.
    text = _NOTEBOOK.format(
        title=title,
        file=pathlib.Path(path).name,
        store=str(results.store.directory),
        name=name,
        axes=axes,
        figure=figure,
        x=x.replace(".", "\\."),
    )
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        raise Error(f"{path}: it cannot be written: {e.strerror}") from None


__all__ = ["Row", "document", "notebook", "write"]
