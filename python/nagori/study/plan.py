"""The runs of a study with the names of their results. It is kept in the store: as long as nothing on which it
depends has changed, a study is not looked at again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from .. import _nagori
from .._nagori import Error
from .._options import log
from .axes import Values
from .description import Study
from .key import Files, Keys, digest, inside, stamp
from .store import Store
from .work import Task

#: Of the file.
FORMAT = 1
#: Points that are checked at once.
_AT_A_TIME = 1000


@dataclass(frozen=True)
class Planned:
    """A run of a study."""

    key: str
    """Name of its result."""
    values: Values
    """Of the axes and derived ones."""
    words: list[str]
    """The command's words, without `nagori`."""
    parts: dict[str, Any]
    """What the name is the hash of, but for what all runs of the study share."""


class Plan:
    """All runs of a study, in order."""

    def __init__(self, about: dict[str, Any], runs: list[Planned]) -> None:
        self.about = about
        self.runs = runs

    @property
    def keys(self) -> list[str]:
        """Names of the results, each once, in order."""
        return list(dict.fromkeys(r.key for r in self.runs))

    def tasks(self, keys: Optional[set[str]] = None) -> Iterator[Task]:
        """The work that has these names, or all of it, each once."""
        seen: set[str] = set()
        for n, r in enumerate(self.runs):
            if r.key in seen or keys is not None and r.key not in keys:
                continue
            seen.add(r.key)
            yield {
                "n": n,
                "key": r.key,
                "kind": self.about["kind"],
                "words": r.words,
                "base": self.about["base"],
                "parts": {**self.about["common"], **r.parts},
                "codes": self.about["codes"],
            }


def make(study: Study, store: Optional[Store]) -> Plan:
    """The plan of a study: that of the store if it still holds, else a new one, which is kept there.

    Every point is checked.

    Raises:
        Error: a point is not possible.
    """
    if store is not None:
        kept = load(store, study.name)
        if kept is not None and _holds(kept.about, study):
            return kept
    files = Files(study.base, store.cache("files.json") if store else None)
    keys = Keys(study, files)
    runs: list[Planned] = []
    common: dict[str, Any] = {}
    points = study.points()
    while some := list(itertools.islice(points, _AT_A_TIME)):
        for point, (key, parts) in zip(some, keys.of(some)):
            # What all have in common is kept once.
            for name in ("format", "model", "kind"):
                common[name] = parts.pop(name)
            runs.append(Planned(key, point.values, list(point.words), parts))
    if not runs:
        raise Error(f"{study.name}: no point is left: the conditions of `where` exclude all of them")
    about = {
        "format": FORMAT,
        "study": digest([study.keys, str(study.base)]),
        "description": study.keys,
        "title": study.title,
        "file": str(study.file.resolve()) if study.file else None,
        "base": str(study.base),
        "kind": study.kind,
        "codes": list(study.exit_codes),
        "axes": study.axes,
        "common": common,
        "files": files.used,
        "images": keys.images,
        "version": _nagori.VERSION,
        "runs": len(runs),
    }
    plan = Plan(about, runs)
    if store is not None:
        files.save()
        save(plan, store, study.name)
    return plan


def _holds(about: dict[str, Any], study: Study) -> bool:
    if about["study"] != digest([study.keys, str(study.base)]) or about["common"].get("model") != _nagori.MODEL:
        return False
    try:
        if any(list(stamp(path)) != known for path, known in about["files"].items()):
            return False
        with inside(study.base):
            return all(_nagori.image(json.loads(r), log, None) == known for r, known in about["images"].items())
    except Error:
        return False


def save(plan: Plan, store: Store, name: str) -> None:
    """Keeps a plan."""
    # The order of values is that of the axes.
    lines = [json.dumps(plan.about)]
    lines += [json.dumps([r.key, r.values, r.words, r.parts]) for r in plan.runs]
    store.write(store.place("studies", f"{name}.jsonl"), ("\n".join(lines) + "\n").encode())


def load(store: Store, name: str) -> Optional[Plan]:
    """The plan that was kept, whether or not it still holds."""
    try:
        with open(store.place("studies", f"{name}.jsonl"), "rb") as f:
            about = json.loads(f.readline())
            if about.get("format") != FORMAT:
                return None
            runs = [Planned(*json.loads(line)) for line in f]
    except (OSError, ValueError, TypeError):
        return None
    return Plan(about, runs) if len(runs) == about["runs"] else None


def command(planned: Planned) -> str:
    """A run by hand."""
    import shlex

    return shlex.join(["nagori", *planned.words])
