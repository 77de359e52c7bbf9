"""Leases: who is making which result, so that nobody else does.

A lease is a file that comes into being by `link`, which succeeds for one only, also on NFS. Its holder changes the
file's time at regular intervals; the times count the beats and have nothing to do with any clock. Whoever waits
looks whether they change while its own monotonic clock goes on, so that clocks which differ between hosts, or jump,
do no harm. A holder on this host that has ended is known to have ended at once.

A lease that has ended in one of these ways is superseded, never removed by others: the next one has the next number,
and again only one succeeds in making it.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Optional

#: Seconds between two beats of a holder.
BEAT = 10.0
#: Seconds without a beat after which a lease counts as left behind. Attributes of files on NFS may be a minute old.
EXPIRY = 90.0


def this_host() -> str:
    """This host until its next start, as far as it sees the same processes."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = socket.gethostname()
    try:
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return boot


def started(pid: int) -> Optional[str]:
    """When a process of this host was started, in ticks since the host's start; nothing if there is none."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # Its name, in parentheses, may have anything in it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


class Leases:
    """The leases that this process holds in a store, and what it knows of those of others."""

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        beat: float = BEAT,
        expiry: float = EXPIRY,
        clock: Callable[[], float] = time.monotonic,
        host: Optional[str] = None,
    ) -> None:
        """Leases in a directory. `clock` and `host` are for tests."""
        self._directory = directory
        self._beat, self._expiry, self._clock = beat, expiry, clock
        self._host = host or this_host()
        pid = os.getpid()
        self._me: dict[str, Any] = {
            "owner": uuid.uuid4().hex,
            "host": self._host,
            "name": socket.gethostname(),
            "pid": pid,
            "started": started(pid),
        }
        self._held: dict[str, pathlib.Path] = {}
        self._seen: dict[pathlib.Path, tuple[Any, float]] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def _of(self, key: str) -> list[tuple[int, pathlib.Path]]:
        """The leases of a result that are there, the newest last."""
        found = []
        try:
            names = os.listdir(self._directory / key[:2])
        except FileNotFoundError:
            return []
        for name in names:
            of, _, number = name.partition(".")
            if of == key and number.isdigit():
                found.append((int(number), self._directory / key[:2] / name))
        return sorted(found)

    def take(self, key: str) -> bool:
        """Takes the lease of a result; false if somebody else has it."""
        there = self._of(key)
        if there and not self._is_left(there[-1][1]):
            return False
        number = there[-1][0] + 1 if there else 0
        judged = {path: _inode(path) for _, path in there}
        path = self._directory / key[:2] / f"{key}.{number}"
        beside = self._directory / key[:2] / f".{self._me['owner']}"
        try:
            beside.write_text(json.dumps(self._me))
        except FileNotFoundError:
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(self._me))
        try:
            try:
                os.link(beside, path)
            except OSError:
                # An answer of NFS may be lost; the number of names tells.
                if os.stat(beside).st_nlink != 2:
                    return False
        finally:
            beside.unlink(missing_ok=True)
        # Between looking and linking others may have been released, and taken anew under an old number: then neither
        # has it, and both ask again.
        if any(p != path and judged.get(p) != _inode(p) for _, p in self._of(key)):
            path.unlink(missing_ok=True)
            return False
        for old in judged:
            old.unlink(missing_ok=True)
        with self._lock:
            self._held[key] = path
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, daemon=True, name="leases")
                self._thread.start()
        return True

    def release(self, key: str) -> None:
        """Gives it back."""
        with self._lock:
            path = self._held.pop(key, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def _keep(self) -> None:
        count = 0
        while not self._end.wait(self._beat):
            count += 1
            with self._lock:
                for path in self._held.values():
                    try:
                        os.utime(path, ns=(count, count))
                    except OSError:
                        # Superseded: the result is the same, whoever makes it.
                        pass

    def _is_left(self, path: pathlib.Path) -> bool:
        """Whether the holder of a lease has ended, or has not been heard of for long."""
        try:
            s = os.stat(path)
            holder = json.loads(path.read_text())
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            holder = {}
        if isinstance(holder, dict) and holder.get("host") == self._host:
            pid = holder.get("pid")
            if not isinstance(pid, int) or started(pid) is None or started(pid) != holder.get("started"):
                return True
        now, sign = self._clock(), (s.st_ino, s.st_mtime_ns)
        before = self._seen.get(path)
        if before is None or before[0] != sign:
            self._seen[path] = (sign, now)
            return False
        return now - before[1] > self._expiry

    def holder(self, key: str) -> str:
        """Who holds a lease, for people."""
        there = self._of(key)
        try:
            holder = json.loads(there[-1][1].read_text())
            return f"process {holder['pid']} on {holder['name']}"
        except (IndexError, OSError, ValueError, KeyError, TypeError):
            return "nobody"

    def sweep(self) -> int:
        """Removes what ended processes have left; how many leases that were."""
        removed = 0
        for directory in sorted(self._directory.glob("??")):
            for path in sorted(directory.iterdir()):
                if path.name.startswith("."):
                    continue
                if self._is_left(path):
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def close(self) -> None:
        """Gives all back."""
        self._end.set()
        for key in list(self._held):
            self.release(key)


def _inode(path: pathlib.Path) -> Optional[int]:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
