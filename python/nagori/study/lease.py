"""Leases: who is making which result, so that nobody else does.

A lease is a name of a file that comes into being by `link`, which succeeds for one only, also on NFS.
Its holder changes the file's time at regular intervals; the times count the beats and have nothing to do with any
clock. Whoever waits looks whether they change while its own monotonic clock goes on, so that clocks which differ
between hosts, or jump, do no harm. A holder on this host that has ended is known to have ended at once.

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
        self._directory = str(directory)
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
        self._held: dict[str, str] = {}
        self._seen: dict[str, tuple[Any, float]] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def _of(self, key: str) -> list[tuple[int, str]]:
        """The leases of a result that are there, the newest last."""
        found = []
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        for name in names:
            if name.startswith(key):
                of, _, number = name.partition(".")
                if of == key and number.isdigit():
                    found.append((int(number), f"{self._directory}/{name}"))
        return sorted(found)

    def _link(self, path: str) -> bool:
        """Gives this process's file another name; false if the name is taken."""
        mine = f"{self._directory}/.{self._me['owner']}"
        try:
            os.link(mine, path)
            return True
        except FileNotFoundError:
            os.makedirs(self._directory, exist_ok=True)
            with open(mine, "w", encoding="utf-8") as f:
                json.dump(self._me, f)
        except FileExistsError:
            # An answer of NFS may have been lost; whose file it is tells.
            return os.path.samefile(mine, path)
        try:
            os.link(mine, path)
        except FileExistsError:
            return False
        return True

    def take(self, key: str) -> bool:
        """Takes the lease of a result; false if somebody else has it."""
        if key in self._held:
            return False
        there = self._of(key)
        if there and not self._is_left(there[-1][1]):
            return False
        judged = {path: _inode(path) for _, path in there}
        path = f"{self._directory}/{key}.{there[-1][0] + 1 if there else 0}"
        if not self._link(path):
            return False
        # Between looking and linking others may have been released, and taken anew under an old number: then neither
        # has it, and both ask again.
        if any(p != path and judged.get(p) != _inode(p) for _, p in self._of(key)):
            _remove(path)
            return False
        for old in judged:
            _remove(old)
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
            _remove(path)

    def _keep(self) -> None:
        count = 0
        while not self._end.wait(self._beat):
            count += 1
            try:
                # All names are of one file.
                os.utime(f"{self._directory}/.{self._me['owner']}", ns=(count, count))
            except OSError:
                # Superseded: the result is the same, whoever makes it.
                pass

    def _is_left(self, path: str) -> bool:
        """Whether the holder of a lease has ended, or has not been heard of for long."""
        try:
            s = os.stat(path)
            with open(path, encoding="utf-8") as f:
                holder = json.load(f)
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
            with open(there[-1][1], encoding="utf-8") as f:
                holder = json.load(f)
            return f"process {holder['pid']} on {holder['name']}"
        except (IndexError, OSError, ValueError, KeyError, TypeError):
            return "nobody"

    def sweep(self) -> int:
        """Removes what ended processes have left; how many leases that were."""
        removed = 0
        for name in sorted(os.listdir(self._directory)) if os.path.isdir(self._directory) else []:
            path = f"{self._directory}/{name}"
            if self._is_left(path):
                _remove(path)
                removed += name[0] != "."
        return removed

    def close(self) -> None:
        """Gives all back."""
        self._end.set()
        for key in list(self._held):
            self.release(key)
        _remove(f"{self._directory}/.{self._me['owner']}")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _inode(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
