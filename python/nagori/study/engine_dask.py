"""Runs on a Dask cluster: one that is there, or processes of this host with Dask's dashboard.

Workers may come and go. Every result goes into the store as soon as it is there, by the process that has made it, so
that neither a worker nor the driver takes more with it than the runs under way.
"""

from __future__ import annotations

import collections
import logging
import os
import threading
import time
from collections.abc import Iterable
from typing import Any, Optional

from .._nagori import Error
from .engine_local import Tell, Worker
from .store import Full, Store
from .work import Task

#: Seconds of work that go to a worker at a time, so that the scheduler's own work does not matter.
_BATCH_S = 0.5
#: Runs that go to a worker at a time, at most.
_BATCH = 64
#: Batches on their way for each thread of the cluster.
_AHEAD = 2
#: Seconds between two looks at what others are making.
_PATIENCE = 1.0
#: How often a run may take its process down with it.
_DEATHS = 2


class Dask:
    """A Dask cluster."""

    def __init__(self, address: str, workers: Optional[int] = None, note: Any = None) -> None:
        """One at an address such as `tcp://host:8786`, or `local`: worker processes of this host.

        Args:
            workers: how many processes, for `local`.
            note: is told where the dashboard is.
        """
        try:
            import distributed
        except ImportError as e:
            raise ImportError("--dask needs Dask: pip install 'nagori[dask]'") from e
        self._distributed: Any = distributed
        self._address, self._workers = address, workers
        self._note = note or (lambda _: None)

    def run(self, store: Store, tasks: Iterable[Task], tell: Tell) -> None:
        """Makes runs."""
        d = self._distributed
        cluster = None
        if self._address == "local":
            cluster = d.LocalCluster(
                n_workers=self._workers or os.cpu_count() or 1,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        try:
            client = d.Client(cluster if cluster is not None else self._address, timeout=20)
        except (OSError, ValueError) as e:
            raise Error(f"--dask {self._address}: no scheduler answers there: {e}") from None
        try:
            self._note(f"Dask's dashboard: {client.dashboard_link}")
            _Driver(d, client, store, tell).work(tasks)
        finally:
            client.close()
            if cluster is not None:
                cluster.close()


class _Driver:
    def __init__(self, distributed: Any, client: Any, store: Store, tell: Tell) -> None:
        self._d, self._client, self._store, self._tell = distributed, client, store, tell
        self._seconds = 0.0
        self._made = 0
        self._busy: collections.deque[tuple[float, Task]] = collections.deque()
        self._alone: collections.deque[Task] = collections.deque()
        self._under_way: dict[Any, list[Task]] = {}

    def _batch(self, tasks: Any) -> list[Task]:
        """The next runs for one worker."""
        if self._alone:
            return [self._alone.popleft()]
        mean = self._seconds / self._made if self._made else _BATCH_S
        most = max(1, min(_BATCH, int(_BATCH_S / max(mean, 1e-6))))
        batch = []
        for task in tasks:
            batch.append(task)
            if len(batch) == most:
                break
        while not batch and self._busy and self._busy[0][0] <= time.monotonic():
            batch.append(self._busy.popleft()[1])
        return batch

    def work(self, given: Iterable[Task]) -> None:
        tasks = iter(given)
        finished = self._d.as_completed()
        while True:
            wanted = _AHEAD * max(1, sum(self._client.nthreads().values()))
            while len(self._under_way) < wanted and (batch := self._batch(tasks)):
                future = self._client.submit(work, str(self._store.directory), batch, pure=False)
                self._under_way[future] = batch
                finished.add(future)
            if not self._under_way:
                if not self._busy:
                    return
                time.sleep(max(0.0, self._busy[0][0] - time.monotonic()))
                continue
            self._hear(next(finished))

    def _hear(self, future: Any) -> None:
        batch = self._under_way.pop(future)
        if future.status != "finished":
            self._lost(future, batch)
            return
        for task, what in zip(batch, future.result()):
            if what["status"] == "stop":
                raise Full(what["message"])
            if what["status"] == "busy":
                self._busy.append((time.monotonic() + _PATIENCE, task))
                continue
            if "seconds" in what:
                self._seconds += what["seconds"]
                self._made += 1
            self._tell(task, what)

    def _lost(self, future: Any, batch: list[Task]) -> None:
        """The scheduler has given a batch up: its workers have ended too often."""
        error = future.exception()
        if len(batch) > 1:
            # Which of them it was shows when each is alone.
            self._alone.extend(batch)
            return
        if isinstance(error, ImportError):
            raise Error(f"a worker of the cluster lacks the package nagori, or has another version of it: {error}")
        message = f"{type(error).__name__}: {error}"
        self._store.fail(batch[0]["key"], {"key": batch[0]["key"], "message": message, "command": batch[0]["words"]})
        self._tell(batch[0], {"status": "failed", "message": message})


def work(directory: str, batch: list[Task]) -> list[dict[str, Any]]:
    """Makes runs, in a process that this thread of a worker keeps for that: they need a directory of their own, and
    what ends them does not end the worker."""
    import distributed

    here: Any = distributed.get_worker()
    kept: dict[tuple[int, str], Worker] = here.__dict__.setdefault("nagori_processes", {})
    place = (threading.get_ident(), directory)
    found = []
    for task in batch:
        for death in range(_DEATHS):
            if place not in kept:
                kept[place] = Worker(Store(directory, create=False))
            what = _one(kept[place], task)
            if what is not None:
                break
            how = kept.pop(place).ended()
            what = {"status": "failed", "message": f"its process ended by {how}, {death + 1} times"}
            if death + 1 == _DEATHS:
                failure = {"key": task["key"], "command": task["words"], **what}
                Store(directory, create=False).fail(task["key"], failure)
        assert what is not None
        found.append(what)
    return found


def _one(process: Worker, task: Task) -> Optional[dict[str, Any]]:
    """What became of a task; nothing if the process has ended."""
    process.give(task)
    while True:
        answers = process.answers()
        if answers is None:
            return None
        if answers:
            return answers[0][1]
