"""Results as tables: a row for each run, with the values of its axes and its most important figures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from .. import _nagori, _tables
from .._nagori import Error
from .._options import PathLike
from .._tree import table
from ..run import Run
from .plan import Plan, Planned, command
from .store import Store

#: Units by the ends of names.
_UNITS = (
    ("_ps", "ps"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("seconds", "s"),
    ("_bytes", "B"),
    ("_cycles", "cycles"),
    ("_pj", "pJ"),
    ("_bytes_per_s", "B/s"),
    ("_hz", "Hz"),
    ("_clocks", "clocks"),
    ("cpi", "cycles/instruction"),
    ("instructions", "1"),
    ("_misses", "1"),
    ("_reads", "1"),
    ("_writes", "1"),
    ("reads", "1"),
    ("writes", "1"),
    ("_rate", "1"),
    ("_per_req", "1"),
    ("_para", "1"),
    ("_per_write", "1"),
)
#: Figures of a memory alone that are no numbers of its run.
_MEM_WITHOUT = ("memory", "trace", "format", "mode", "ignored_times", "energy", "model")


def unit(name: str) -> str:
    """The unit of a figure by its name; empty if that does not tell."""
    found = [(len(end), of) for end, of in _UNITS if name.endswith(end)]
    return max(found)[1] if found else ""


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """The most important figures of a result, flat, units in names."""
    found = result["result"]
    kind = result["kind"]
    if kind in ("run", "bare"):
        row: dict[str, Any] = {"exit_code": found["end"]["exit_code"]}
        summary = found["summary"]
        row["time_us"] = summary["guest_time_ps"] / 1e6
        row.update(_costs(summary))
        return row
    if kind == "mem":
        row = {n: v for n, v in found.items() if n not in _MEM_WITHOUT and not isinstance(v, (dict, list))}
        row["time_us"] = found["simulated_seconds"] * 1e6
        for region, energy in found.get("energy", {}).items():
            row[f"{region}_energy_pj"] = energy["total_pj"]
        # Regions whose device describes no energy are missing, and so is the sum then.
        if found.get("energy") and len(found["energy"]) == len(found["model"]["regions"]):
            row["energy_pj"] = sum(e["total_pj"] for e in found["energy"].values())
        return row
    if kind == "window":
        # The program may have ended in it.
        if found["summary"] is None:
            return {"cut": True}
        row = {"cut": False, "time_us": found["measured"]["awake_ps"] / 1e6}
        row.update(_costs(found["summary"]))
        row["cold_lines"] = found["measured"]["cold"]
        row["time_if_warm_us"] = found["measured"]["awake_if_hits_ps"] / 1e6
        return row
    row = {n: v for n, v in found.items() if not isinstance(v, (dict, list))}
    row["findings"] = len(found["findings"])
    row["warnings"] = len(found.get("warnings", []))
    return row


def _costs(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary, flat, without its time, which has a figure of its own."""
    return {n: v for n, v in _flat("", summary) if n != "guest_time_ps"}


def _flat(prefix: str, value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, v in value.items():
        whole = f"{prefix}_{name}" if prefix else name
        if isinstance(v, dict):
            yield from _flat(whole, v)
        elif not isinstance(v, list):
            yield whole, v


def every(result: dict[str, Any]) -> dict[str, Any]:
    """All numbers of a result by dotted names: each hart, cache, bank."""
    return dict(_dotted("", result["result"]))


def _dotted(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if pairs is None:
        if not isinstance(value, str):
            yield prefix, value
        return
    for name, v in pairs:
        yield from _dotted(f"{prefix}.{name}" if prefix else str(name), v)


class Results:
    """The results of a study that are there."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.store = store
        self.counts: dict[str, int] = {}
        """What became of the runs of the work that has led here, by status."""
        self._rows: Optional[list[dict[str, Any]]] = None

    @classmethod
    def stored(cls, store: PathLike, name: Optional[str] = None) -> Results:
        """Those of a store, of the study of this name, or of its only one; the study's file is not needed.

        Raises:
            Error: there is no such store, or no such study in it.
        """
        from .driver import stored

        return stored(Store(store, create=False), name)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each run whose result is there: values of the axes, figures, and `key`."""
        if self._rows is None:
            known: dict[str, Optional[dict[str, Any]]] = {}
            self._rows = []
            for r in self.plan.runs:
                if r.key not in known:
                    result = self.store.get(r.key)
                    known[r.key] = None if result is None else {**figures(result), **self._extracted(result)}
                found = known[r.key]
                if found is not None:
                    values = {n: _cell(v) for n, v in r.values.items()}
                    self._rows.append({**values, **{n: v for n, v in found.items() if n not in values}, "key": r.key})
        return self._rows

    def _extracted(self, result: dict[str, Any]) -> dict[str, Any]:
        """Figures that the program has printed."""
        found: dict[str, Any] = {}
        for name, pattern in self.plan.about["description"].get("extract", {}).items():
            match = re.search(pattern, _bytes(result["stdout"]).decode(errors="replace"), re.MULTILINE)
            try:
                found[name] = None if match is None else float(match[1])
            except ValueError:
                raise Error(f"[extract] {name}: `{match and match[1]}` is no number") from None
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @property
    def missing(self) -> list[Planned]:
        """Runs whose results are not there, failed ones among them."""
        return [r for r in self.plan.runs if not self.store.has(r.key)]

    @property
    def failures(self) -> list[tuple[Planned, str]]:
        """Runs that have failed, and why."""
        failed = self.store.present("failures")
        found = []
        for r in self.plan.runs:
            if r.key in failed and not self.store.has(r.key):
                found.append((r, (self.store.failure(r.key) or {}).get("message", "")))
        return found

    def raw(self, key: str) -> dict[str, Any]:
        """Everything of a result.

        Raises:
            Error: it is not there, or the beginning of a name is that of several.
        """
        keys = [k for k in self.plan.keys if k.startswith(key)]
        if len(keys) != 1:
            raise Error(f"{key}: {len(keys)} runs of the study have a name that begins so: expected one")
        result = self.store.get(keys[0])
        if result is None:
            raise Error(f"{key}: there is no result of this run")
        return result

    def run(self, key: str) -> Run:
        """A result as that of `Machine.run`."""
        result = self.raw(key)
        if result["kind"] not in ("run", "bare"):
            raise Error(f"{key}: a result of `nagori {result['command'][0]}` is no run of a program")
        out, err = (_bytes(result[stream]) for stream in ("stdout", "stderr"))
        return Run(result["command"], json.dumps(result["result"]), out, err)

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _tables.frame(self.rows)

    def to_polars(self) -> Any:
        """The rows as a Polars DataFrame."""
        try:
            import polars
        except ImportError as e:
            raise ImportError("a Polars DataFrame needs Polars: pip install polars") from e
        return polars.DataFrame(self.rows, infer_schema_length=None)

    def to_arrow(self) -> Any:
        """The rows as an Arrow table; fields have their unit as metadata, the table its provenance."""
        try:
            import pyarrow
        except ImportError as e:
            raise ImportError("Parquet and Arrow need pyarrow: pip install 'nagori[studies]'") from e
        names = list(dict.fromkeys(n for row in self.rows for n in row))
        columns, fields = [], []
        for name in names:
            values = [row.get(name) for row in self.rows]
            kinds = {type(v) for v in values if v is not None}
            if kinds == {int, float}:
                values = [None if v is None else float(v) for v in values]
            elif len(kinds) > 1:
                values = [None if v is None else str(v) for v in values]
            column = pyarrow.array(values)
            role = "key" if name == "key" else "axis" if name in self.plan.about["axes"] else "figure"
            columns.append(column)
            fields.append(pyarrow.field(name, column.type, metadata={"unit": unit(name), "role": role}))
        metadata = {"nagori": json.dumps(self.provenance, sort_keys=True)}
        return pyarrow.table(columns, schema=pyarrow.schema(fields, metadata=metadata))

    @property
    def provenance(self) -> dict[str, Any]:
        """From what these results are."""
        about = self.plan.about
        return {
            "study": about["description"],
            "version": _nagori.VERSION,
            "model": about["common"].get("model"),
            "runs": len(self.plan.runs),
            "results": len(self.rows),
            "images": sorted(set(about["images"].values())),
        }

    def hosts(self) -> list[dict[str, Any]]:
        """Which process made which result of these, when, and how long that took: figures of hosts, never the same."""
        keys = set(self.plan.keys)
        return [h for h in self.store.hosts() if h.get("key") in keys]

    def command(self, key: str) -> str:
        """The command that makes a run by hand, in the study's directory."""
        return next(command(r) for r in self.plan.runs if r.key.startswith(key))

    def save(self, path: PathLike) -> None:
        """Writes the rows: `.parquet`, `.csv`, `.json` or `.jsonl`."""
        import pathlib

        file = pathlib.Path(path)
        beside = file.with_name(f".{file.name}.new")
        writers = {".parquet": self._parquet, ".csv": self._csv, ".json": self._json, ".jsonl": self._jsonl}
        writer = writers.get(file.suffix)
        if writer is None:
            raise Error(f"{file}: expected a name that ends in {', '.join(writers)}")
        try:
            try:
                writer(beside)
                beside.rename(file)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as e:
            raise Error(f"{file}: it cannot be written: {e.strerror or e}") from None

    def _parquet(self, path: Any) -> None:
        arrow = self.to_arrow()
        import pyarrow.parquet

        pyarrow.parquet.write_table(arrow, path, compression="zstd")

    def _csv(self, path: Any) -> None:
        path.write_text(as_csv(self.rows), encoding="utf-8")

    def _json(self, path: Any) -> None:
        whole = {"provenance": self.provenance, "rows": self.rows}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    def _jsonl(self, path: Any) -> None:
        path.write_text("".join(json.dumps(r) + "\n" for r in self.rows), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Results: {len(self.rows)} of {len(self.plan.runs)} runs>"

    def _repr_html_(self) -> str:
        rows = self.rows[:50]
        names = list(dict.fromkeys(n for row in rows for n in row if n != "key"))
        return table([tuple(r.get(n) for n in names) for r in rows], tuple(names))


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _bytes(output: dict[str, Any]) -> bytes:
    import base64

    return base64.b64decode(output["base64"]) if "base64" in output else str(output["text"]).encode()


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as comma-separated values, names first."""
    rows = list(rows)
    names = list(dict.fromkeys(n for row in rows for n in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
