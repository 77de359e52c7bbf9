"""Upkeep of a store: runs made again and compared, results that nobody needs, results of other stores."""

from __future__ import annotations

import json
import os
import pathlib
import random
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from .._nagori import Error
from .._options import PathLike
from . import plan as plans
from .engine_local import run as work
from .plan import Plan
from .store import Store, _is_whole, difference
from .work import Task

#: A file beside its place is left behind if it is older than this, in seconds.
_OLD = 3600.0


@dataclass
class Verified:
    """What came of making results again."""

    checked: int = 0
    damaged: list[str] = field(default_factory=list)
    """Names of results whose files are not whole."""
    differing: list[tuple[str, str]] = field(default_factory=list)
    """Names of results that were another one this time, and where they differ."""


def verify(
    plan: Plan,
    store: Store,
    share: float,
    jobs: int,
    seed: Optional[int] = None,
    progress: Optional[Callable[[int, int], None]] = None,
) -> Verified:
    """Makes a random share of the results again, at least one, and compares bit for bit. All files are checked."""
    found = Verified()
    there = [k for k in plan.keys if store.has(k)]
    for key in there:
        if not _is_whole(store.path(key).read_bytes()):
            found.damaged.append(key)
    whole = sorted(set(there) - set(found.damaged))
    if not whole:
        return found
    count = min(len(whole), max(1, round(share * len(whole))))
    chosen = set(random.Random(seed).sample(whole, count))

    def tell(task: Task, what: dict[str, Any]) -> None:
        found.checked += 1
        if what["message"]:
            found.differing.append((task["key"], what["message"]))
        if progress is not None:
            progress(found.checked, count)

    tasks = ({**t, "again": True} for t in plan.tasks(chosen))
    work(store, tasks, min(jobs, count), tell)
    return found


@dataclass
class Collected:
    """What nobody needs."""

    results: list[str] = field(default_factory=list)
    """Names of results, and of failures, that belong to no study as it is now."""
    files: list[pathlib.Path] = field(default_factory=list)
    """What ended processes have left."""
    size: int = 0
    """Bytes of all that."""


def collect(store: Store, dry: bool) -> Collected:
    """Finds, and removes, what no study of the store needs.

    Raises:
        Error: the plan of a study cannot be read, so that nobody knows what it needs.
    """
    needed: set[str] = set()
    for name in store.studies():
        plan = plans.load(store, name)
        if plan is None:
            raise Error(
                f"{store.place('studies', name + '.jsonl')}: it cannot be read: run the study again, or remove it"
            )
        needed.update(plan.keys)
    found = Collected()
    for kind in ("results", "failures"):
        for key in sorted(store.present(kind) - needed):
            path = store.directory / kind / key[:2] / f"{key}.json"
            found.results.append(key)
            found.size += path.stat().st_size
            if not dry:
                path.unlink(missing_ok=True)
    for directory, below, names in os.walk(store.directory):
        # Times of leases count something else.
        below[:] = [b for b in below if b != "leases"]
        for name in names:
            path = pathlib.Path(directory) / name
            left = name.startswith(".") and time.time() - path.stat().st_mtime > _OLD
            if left or path.parent.name == "damaged":
                found.files.append(path)
                found.size += path.stat().st_size
                if not dry:
                    path.unlink(missing_ok=True)
    if not dry:
        store.leases.sweep()
    return found


@dataclass
class Merged:
    """What came of taking over results."""

    new: int = 0
    same: int = 0
    differing: list[tuple[str, str]] = field(default_factory=list)
    """Names of results that both have, with other contents, and where they differ."""
    damaged: list[str] = field(default_factory=list)


def merge(store: Store, other: PathLike) -> Merged:
    """Takes over the results and studies of another store: its directory, or an archive of it. What is there stays."""
    path = pathlib.Path(other)
    if path.is_file():
        with tempfile.TemporaryDirectory(dir=store.directory, prefix=".merge-") as directory:
            _unpack(path, pathlib.Path(directory))
            return _merge(store, Store(directory, create=False))
    return _merge(store, Store(path, create=False))


def _unpack(path: pathlib.Path, into: pathlib.Path) -> None:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = pathlib.PurePosixPath(member.name)
                # Only what a store has, wherever the archive is from.
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise Error(f"{path}: it is no archive of a store: {member.name}")
                source = archive.extractfile(member)
                assert source is not None
                target = into / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
    except (tarfile.TarError, EOFError, OSError) as e:
        raise Error(f"{path}: it is no archive of a store: {e}") from None


def _merge(store: Store, other: Store) -> Merged:
    found = Merged()
    for key in sorted(other.present()):
        data = other.path(key).read_bytes()
        if not _is_whole(data):
            found.damaged.append(key)
        elif store.write(store.path(key), data, replace=False):
            found.new += 1
        else:
            there = store.path(key).read_bytes()
            if there == data:
                found.same += 1
            else:
                found.differing.append((key, difference(json.loads(there), json.loads(data)) or "its file is damaged"))
    for kind in ("studies", "hosts"):
        for path in sorted((other.directory / kind).glob("*.jsonl")):
            store.write(store.place(kind, path.name), path.read_bytes(), replace=False)
    return found


def archive(store: Store, plan: Plan, name: str, path: PathLike) -> int:
    """Packs the results of a study into a file for `merge`; how many. Equal results make equal bytes."""
    file = pathlib.Path(path)
    mode = {".gz": "w:gz", ".xz": "w:xz", ".tar": "w"}.get(file.suffix)
    if mode is None:
        raise Error(f"{file}: expected a name that ends in .tar, .tar.gz or .tar.xz")
    import gzip
    import io

    keys = sorted(k for k in plan.keys if store.has(k))
    beside = file.with_name(f".{file.name}.new")
    try:
        with open(beside, "wb") as raw:
            # A compressor would put the time into its head.
            packed: Any = gzip.GzipFile("", "wb", mtime=0, fileobj=raw) if mode == "w:gz" else raw
            with tarfile.open(fileobj=packed, mode="w:xz" if mode == "w:xz" else "w") as tar:
                names = [pathlib.Path("store.json"), pathlib.Path("studies") / f"{name}.jsonl"]
                for relative in [*names, *(store.path(k).relative_to(store.directory) for k in keys)]:
                    data = (store.directory / relative).read_bytes()
                    member = tarfile.TarInfo(str(relative))
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
            if packed is not raw:
                packed.close()
        beside.rename(file)
    except OSError as e:
        raise Error(f"{file}: it cannot be written: {e.strerror or e}") from None
    finally:
        beside.unlink(missing_ok=True)
    return len(keys)
