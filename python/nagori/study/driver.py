"""Sees to it that the results of a study are there."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Callable
from typing import Any, Optional

from .._nagori import Error
from .._options import PathLike
from . import plan as plans
from .description import Study
from .host import share
from .plan import Plan
from .store import Store
from .table import Results
from .work import Task

#: What is told of each run: how many are done, how many there are, the task, and what became of it.
Progress = Callable[[int, int, Task, dict[str, Any]], None]


def place(study: Study) -> pathlib.Path:
    """The store of a study, if no other one is wanted: beside it, with its name."""
    return study.base / f"{study.name}.results"


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class Open:
    """What is to be done of a study."""

    def __init__(self, plan: Plan, store: Store, failed: bool, chosen: Optional[set[str]] = None) -> None:
        there = store.present()
        failures = store.present("failures")
        keys = [k for k in plan.keys if chosen is None or k in chosen]
        self.all = len(keys)
        self.there = sum(k in there for k in keys)
        missing = [k for k in keys if k not in there]
        # What the power has taken from a file shows in its length.
        for key in [k for k in keys if k in there and not store.has(k)]:
            store.set_aside(key)
            missing.append(key)
        self.failed = [k for k in missing if k in failures]
        # What has failed is run again alone, and only if that is wanted.
        self.todo = set(self.failed) if failed else set(missing) - set(self.failed)


def run(
    study: Study,
    store: Optional[PathLike] = None,
    *,
    jobs: Optional[int] = None,
    failed: bool = False,
    only: Optional[set[str]] = None,
    engine: Any = None,
    progress: Optional[Progress] = None,
    view: bool = True,
) -> Results:
    """Makes the runs of a study whose results are not there yet.

    Args:
        store: directory of the results; beside the study if none is given.
        jobs: runs at a time; one for each processor.
        failed: makes the runs again that have failed, and only these.
        only: names of the results that are wanted, of all.
        engine: what makes the runs, such as `nagori.study.engine_dask.Dask(...)`; processes of this host if none is
            given.
        progress: is told of each run.
        view: writes the table `views/NAME.parquet` in the store, where pyarrow is installed.

    Raises:
        Error: a point is not possible, or the store cannot be written. Runs that fail are no exception: see
            `Results.failures`.
        KeyboardInterrupt: after Ctrl-C; all that was made is in the store.
    """
    if jobs is not None and jobs < 1:
        raise Error(f"jobs: {jobs}: expected at least 1")
    opened = Store(store or place(study))
    plan = plans.make(study, opened)
    todo = Open(plan, opened, failed, only)
    counts: collections.Counter[str] = collections.Counter(there=todo.there)
    results = Results(plan, opened)
    done = todo.there

    def tell(task: Task, what: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        counts[what["status"]] += 1
        if progress is not None:
            progress(done, todo.all, task, what)

    if todo.todo:
        if failed:
            for key in todo.todo:
                opened.forget(key)
        tasks = plan.tasks(todo.todo)
        try:
            if engine is not None:
                share(opened, plan.about["images"])
                engine.run(opened, tasks, tell)
            else:
                from .engine_local import run as work

                work(opened, tasks, min(jobs or processors(), len(todo.todo)), tell)
        finally:
            opened.leases.close()
    results.counts = dict(counts)
    if not failed:
        results.counts["failed"] = counts["failed"] + len(todo.failed)
    if view:
        write_view(results, study.name)
    return results


def write_view(results: Results, name: str) -> Optional[pathlib.Path]:
    """The table of a study in its store, if pyarrow is installed: written anew if there are other results than
    before."""
    from .key import digest

    store = results.store
    path = store.place("views", f"{name}.parquet")
    there = store.present()
    mark = digest([sorted(k for k in results.plan.keys if k in there), results.plan.about["study"]])
    marked = store.cache(f"view-{name}")
    try:
        if marked.read_text() == mark and path.exists():
            return path
    except OSError:
        pass
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None:
        return None
    if not results.rows:
        return None
    path.parent.mkdir(exist_ok=True)
    results.save(path)
    store.write(marked, mark.encode())
    return path


def results(study: Study, store: Optional[PathLike] = None) -> Results:
    """The results of a study that are there; nothing is run.

    Raises:
        Error: there is no store.
    """
    opened = Store(store or place(study), create=False)
    return Results(plans.make(study, opened), opened)


def stored(store: Store, name: Optional[str]) -> Results:
    """The results of a study that a store knows by name, or of its only one.

    Raises:
        Error: it knows none of this name, or several where none is given.
    """
    known = store.studies()
    if name is None:
        if len(known) != 1:
            raise Error(f"{store.directory} has the studies {', '.join(known) or '(none)'}: say which")
        name = known[0]
    plan = plans.load(store, name)
    if plan is None:
        raise Error(f"{store.directory} has no study {name}; it has {', '.join(known) or 'none'}")
    return Results(plan, store)
