"""One run of a study: the same whatever process of whatever engine makes it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import time
from typing import Any, Optional

from .. import _nagori
from .._nagori import Error
from .._options import log
from .host import Host
from .key import FORMAT, inside
from .store import Store, difference, sealed

#: Output beyond this is kept as its length and its hash.
_OUTPUT = 1 << 16

#: A run to be made: `key`, `kind`, `words`, `base` (the study's directory), `parts` (what the key is the hash of),
#: `codes`.
Task = dict[str, Any]


class Failed(Exception):
    """A run whose figures are not those that were asked for."""


def _output(data: bytes) -> Any:
    """Output as text, or in base64 where it is none; what is long is cut, and says so."""
    kept = data[:_OUTPUT]
    try:
        text: dict[str, Any] = {"text": kept.decode()}
    except UnicodeDecodeError:
        text = {"base64": base64.b64encode(kept).decode()}
    if len(data) > _OUTPUT:
        text.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    return text


def make(task: Task) -> dict[str, Any]:
    """Makes a run: the result, as the store keeps it.

    Raises:
        Failed: it has no figures, or another exit code than those of the task.
        Error: it is not possible.
    """
    words, kind = list(task["words"]), task["kind"]
    result: dict[str, Any] = {
        "format": FORMAT,
        "key": task["key"],
        "kind": kind,
        "command": words,
        "provenance": task["parts"],
        "version": _nagori.VERSION,
    }
    if kind in ("run", "bare"):
        if kind == "run":
            text, out, err = _nagori.run(words, None, [], log, None)
        else:
            text, out, err = _nagori.bare(words, [], log, None)
        found = json.loads(text)
        _check(found, task["codes"], err or out)
        result.update(result=found, stdout=_output(out), stderr=_output(err))
        return result
    if kind == "mem":
        found = json.loads(_nagori.mem(words, log, None))
        # They are in the command, and memories that are the same by other settings have the same result.
        del found["settings"]
    elif kind == "window":
        (found,) = json.loads(_nagori.window(words, log, None))
    else:
        found = json.loads(_nagori.crash(words, None, log, None))
        found.pop("seconds", None)
    result["result"] = found
    return result


def _check(found: dict[str, Any], codes: list[int], said: bytes) -> None:
    end = found["end"]
    if end["exit_code"] not in codes:
        lines = said.decode(errors="replace").strip().splitlines()[-10:]
        why = end["message"] or f"its exit code is {end['exit_code']}"
        raise Failed("\n".join([f"it ended with {end['why']}: {why}", *lines]))
    if found["summary"] is None:
        raise Failed("; ".join(p["message"] for p in found["problems"] if p["meaningless"]))


class Maker:
    """Makes runs for a store, in this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._host = Host(store)

    def execute(self, task: Task, failed: bool = False) -> dict[str, Any]:
        """Sees to it that a result is there: what became of that.

        The `status` is `made`, `there`, `failed` (with `message`), or `busy` where somebody else is making it.

        Args:
            failed: run again what has failed before.

        Raises:
            Full: the store cannot be written.
            Changed: something is another one than when the study was planned.
        """
        store, key = self._store, task["key"]
        if store.has(key):
            return {"status": "there"}
        before = None if failed else store.failure(key)
        if before is not None:
            return {"status": "failed", "message": before["message"]}
        if not store.leases.take(key):
            return {"status": "busy"}
        try:
            # Whoever had the lease may have finished since.
            if store.has(key):
                return {"status": "there"}
            return self._make(task)
        finally:
            store.leases.release(key)

    def _make(self, task: Task) -> dict[str, Any]:
        key = task["key"]
        self._host.check(task)
        begin, cpu = time.monotonic(), time.process_time()
        message: Optional[str] = None
        try:
            with inside(task["base"]):
                result = make(task)
        except (Failed, Error) as e:
            message = str(e)
        seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
        # What has changed meanwhile may or may not have been seen.
        self._host.check(task)
        figures = {
            "seconds": round(seconds, 6),
            "cpu_seconds": round(cpu, 6),
            "at": round(time.time(), 3),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        if message is None:
            self._store.put(key, result)
            self._store.note(key, **figures)
            return {"status": "made", **figures}
        failure = {"format": FORMAT, "key": key, "message": message, "command": task["words"], **figures}
        self._store.fail(key, failure)
        return {"status": "failed", "message": message, **figures}

    def again(self, task: Task) -> str:
        """Makes a run again whose result is there: where the new one differs, or nothing."""
        there = self._store.path(task["key"]).read_bytes()
        self._host.check(task)
        try:
            with inside(task["base"]):
                made = make(task)
        except (Failed, Error) as e:
            return f"it has failed now: {e}"
        if sealed(made) == there:
            return ""
        return difference(json.loads(there), made) or "its file is damaged"
