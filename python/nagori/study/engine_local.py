"""Runs in processes of this host."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

from .._nagori import Error
from .store import Full, Store
from .work import Task

#: Tasks that a worker has at a time, so that it never waits for the next one.
_AHEAD = 2
#: How often a run may take its process down with it.
_DEATHS = 2
#: Seconds between two looks at what others are making.
_PATIENCE = 1.0

#: What is told of each task: the task, and what became of it.
Tell = Callable[[Task, dict[str, Any]], None]


class Worker:
    """A process that makes runs."""

    def __init__(self, store: Store) -> None:
        command = [sys.executable, "-m", "nagori.study.worker", str(store.directory)]
        package = str(pathlib.Path(__file__).resolve().parents[2])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.tasks: collections.deque[Task] = collections.deque()
        self._rest = b""
        self.finished = 0

    def give(self, task: Task) -> None:
        """Gives it another task."""
        self.tasks.append(task)
        try:
            self.input.write(json.dumps(task).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError:
            # Its end is told by its output.
            pass

    def answers(self) -> Optional[list[tuple[Task, dict[str, Any]]]]:
        """What it has answered; nothing if it has ended."""
        data = os.read(self.output.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            what = json.loads(line)
            task = self.tasks.popleft()
            assert what.pop("n") == task["n"]
            self.finished += 1
            found.append((task, what))
        return found

    def ended(self) -> str:
        """How it has ended."""
        code = self.process.wait()
        try:
            self.input.close()
        except BrokenPipeError:
            pass
        if code < 0:
            return f"signal {-code} ({signal.Signals(-code).name})"
        return f"exit code {code}"

    def end(self) -> None:
        """Ends it; what it has begun is given back."""
        if self.process.poll() is None:
            self.process.terminate()


def run(store: Store, tasks: Iterable[Task], jobs: int, tell: Tell, linger: Optional[float] = None) -> None:
    """Makes runs, as many at a time as there are jobs.

    Args:
        linger: seconds for which nothing but what others are making is waited for; until they are done if not given.

    Raises:
        Full: the store cannot be written.
        Error: workers do not start.
        KeyboardInterrupt: after Ctrl-C; what was under way is given back.
    """
    _Pool(store, iter(tasks), tell, linger).work(jobs)


class _Pool:
    def __init__(self, store: Store, tasks: Iterator[Task], tell: Tell, linger: Optional[float]) -> None:
        self._store, self._tasks, self._tell = store, tasks, tell
        self._linger = linger
        self._made = time.monotonic()
        self._first: collections.deque[Task] = collections.deque()
        self._busy: collections.deque[tuple[float, Task]] = collections.deque()
        self._deaths: collections.Counter[str] = collections.Counter()
        self._idle_deaths = 0
        self._workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()

    def _next(self) -> Optional[Task]:
        if self._first:
            return self._first.popleft()
        task = next(self._tasks, None)
        if task is None and self._busy and self._busy[0][0] <= time.monotonic():
            task = self._busy.popleft()[1]
        return task

    def work(self, jobs: int) -> None:
        try:
            while True:
                while len(self._workers) < jobs and (task := self._next()) is not None:
                    self._start().give(task)
                for worker in self._workers:
                    while len(worker.tasks) < _AHEAD and (task := self._next()) is not None:
                        worker.give(task)
                if not any(w.tasks for w in self._workers):
                    if not self._busy or self._linger is not None and time.monotonic() - self._made > self._linger:
                        break
                    time.sleep(max(0.0, self._busy[0][0] - time.monotonic()))
                    continue
                wait = self._busy[0][0] - time.monotonic() if self._busy else None
                for key, _ in self._selector.select(None if wait is None else max(0.01, wait)):
                    self._hear(key.data)
        finally:
            self._close()

    def _start(self) -> Worker:
        worker = Worker(self._store)
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def _hear(self, worker: Worker) -> None:
        answers = worker.answers()
        if answers is None:
            self._lost(worker)
            return
        for task, what in answers:
            if what["status"] == "stop":
                raise Full(what["message"])
            if what["status"] == "busy":
                self._busy.append((time.monotonic() + _PATIENCE, task))
            else:
                self._made = time.monotonic()
                self._tell(task, what)

    def _lost(self, worker: Worker) -> None:
        """A worker has ended: its tasks are for others, but for one that has done that before."""
        how = worker.ended()
        self._selector.unregister(worker.output)
        self._workers.remove(worker)
        worker.output.close()
        self._idle_deaths = 0 if worker.finished else self._idle_deaths + 1
        tasks = list(worker.tasks)
        if tasks:
            task = tasks[0]
            self._deaths[task["key"]] += 1
            if self._deaths[task["key"]] >= _DEATHS:
                tasks.pop(0)
                message = f"its process ended by {how}, {_DEATHS} times"
                failure = {
                    "key": task["key"],
                    "message": message,
                    "command": task["words"],
                    "at": round(time.time(), 3),
                }
                if not task.get("again"):
                    self._store.fail(task["key"], failure)
                self._tell(task, {"status": "failed", "message": message})
                self._idle_deaths = 0
        if self._idle_deaths > _DEATHS + 1:
            raise Error(f"the processes that make runs end before they have made any, by {how}")
        self._first.extendleft(reversed(tasks))

    def _close(self) -> None:
        for worker in self._workers:
            try:
                worker.input.close()
            except BrokenPipeError:
                pass
        # Those without a task end by themselves.
        for worker in self._workers:
            if worker.tasks:
                worker.end()
        for worker in self._workers:
            try:
                worker.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.output.close()
        self._selector.close()
