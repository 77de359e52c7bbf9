"""The store of results: a directory with one file for each result, by the result's name.

    results/ab/abcd....json    a result; its bytes follow from its name, whoever has made it
    failures/ab/abcd....json   why a run has failed
    leases/                    who is making what
    hosts/*.jsonl              which process made which result, when, and how long that took
    studies/NAME.jsonl         a study, and the names of its results
    views/NAME.parquet         its results as a table

Files come into being beside their place and get their name when they are whole. Whatever ends a process at whatever
time, no half of a file has a name here; what a host that lost its power has left is known by its checksum.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pathlib
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from .. import _nagori
from .._nagori import Error
from .._options import PathLike
from .key import canonical
from .lease import Leases

#: Of the files of a store.
FORMAT = 1
_ABOUT = "store.json"


class Damaged(Error):
    """A file of the store that is not whole."""


class Full(Error):
    """The store cannot be written: the work cannot go on."""


class Store:
    """A store in a directory."""

    def __init__(self, directory: PathLike, *, create: bool = True, leases: Optional[Leases] = None) -> None:
        """Opens a store; makes it if it is not there.

        Raises:
            Error: it cannot be made, or is none, or one of another version.
        """
        self.directory = pathlib.Path(directory).absolute()
        about = self.directory / _ABOUT
        try:
            found = json.loads(about.read_text())
        except FileNotFoundError:
            found = None
        except (OSError, ValueError) as e:
            raise Error(f"{about}: it is no description of a store: {e}") from None
        if found is None:
            if not create:
                raise Error(f"{self.directory}: there is no store of results here")
            if self.directory.is_dir() and any(self.directory.iterdir()):
                raise Error(f"{self.directory}: it is no store of results, and not empty: choose another place")
            found = {"format": FORMAT, "what": "results of nagori sweep"}
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
                self._write(about, canonical(found))
            except OSError as e:
                raise Full(f"{self.directory}: no store can be made here: {e.strerror}") from None
        if found.get("format") != FORMAT:
            raise Error(
                f"{self.directory}: a store of version {found.get('format')}; this is nagori "
                f"{_nagori.VERSION}, which knows version {FORMAT}"
            )
        self.leases = leases or Leases(self.directory / "leases")
        self._log: Optional[Any] = None
        self._results = str(self.directory / "results")

    # Places.

    def path(self, key: str) -> pathlib.Path:
        """The file of a result."""
        return self.directory / "results" / key[:2] / f"{key}.json"

    def _failure(self, key: str) -> pathlib.Path:
        return self.directory / "failures" / key[:2] / f"{key}.json"

    def cache(self, name: str) -> pathlib.Path:
        """A file that only saves time."""
        return self.directory / "cache" / name

    def place(self, kind: str, name: str) -> pathlib.Path:
        """A file of another kind."""
        return self.directory / kind / name

    # Writing.

    def _write(self, path: pathlib.Path, data: bytes, replace: bool = True) -> bool:
        """Writes a file beside its place and gives it its name; false if one is there that may not be replaced."""
        beside = path.with_name(f".{socket.gethostname()}-{os.getpid()}-{path.name[:16]}")
        try:
            try:
                self._fill(beside, data)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._fill(beside, data)
            if replace:
                beside.rename(path)
                return True
            try:
                os.link(beside, path)
            except FileExistsError:
                return False
            return True
        finally:
            beside.unlink(missing_ok=True)

    @staticmethod
    def _fill(path: pathlib.Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            # A full disk of NFS is told here.
            os.close(descriptor)

    def write(self, path: pathlib.Path, data: bytes, replace: bool = True) -> bool:
        """Writes a file of the store.

        Raises:
            Full: it cannot be written.
        """
        try:
            return self._write(path, data, replace)
        except OSError as e:
            hint = ""
            if e.errno in (errno.ENOSPC, errno.EDQUOT):
                hint = "; make room and start again: what is there is kept, and the rest is run"
            raise Full(f"{path}: it cannot be written: {e.strerror}{hint}") from None

    def put(self, key: str, result: dict[str, Any]) -> bytes:
        """Keeps a result. One that is there stays; it is the same, or `Error` says that it is not."""
        data = sealed(result)
        if not self.write(self.path(key), data, replace=False):
            there = self.path(key).read_bytes()
            if there != data:
                if not _is_whole(there):
                    self.set_aside(key)
                    self.write(self.path(key), data, replace=False)
                else:
                    raise Error(
                        f"{self.path(key)}: another run of this point had another result: "
                        f"{difference(json.loads(there), json.loads(data))}"
                    )
        self._failure(key).unlink(missing_ok=True)
        return data

    def fail(self, key: str, failure: dict[str, Any]) -> None:
        """Keeps why a run has failed."""
        self.write(self._failure(key), canonical(failure))

    def forget(self, key: str) -> None:
        """Removes a failure, so that the point is run again."""
        self._failure(key).unlink(missing_ok=True)

    def set_aside(self, key: str) -> None:
        """Moves a damaged result out of the way, so that it is made again."""
        damaged = self.directory / "damaged"
        damaged.mkdir(exist_ok=True)
        try:
            self.path(key).rename(damaged / f"{key}.json")
        except FileNotFoundError:
            pass

    def note(self, key: str, **figures: Any) -> None:
        """Keeps figures of the host for a result."""
        line = canonical({"key": key, **figures}) + b"\n"
        if self._log is None:
            directory = self.directory / "hosts"
            try:
                directory.mkdir(exist_ok=True)
                name = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns():x}.jsonl"
                self._log = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            except OSError:
                # The result matters more.
                return
        try:
            os.write(self._log, line)
        except OSError:
            pass

    # Reading.

    def has(self, key: str) -> bool:
        """Whether a result is there."""
        try:
            return os.stat(f"{self._results}/{key[:2]}/{key}.json").st_size > 0
        except OSError:
            return False

    def present(self, kind: str = "results") -> set[str]:
        """Names of all results, or of all `failures`."""
        found: set[str] = set()
        try:
            directories = [d.path for d in os.scandir(self.directory / kind) if d.is_dir()]
        except FileNotFoundError:
            return found
        for directory in directories:
            found.update(e.name[:-5] for e in os.scandir(directory) if e.name.endswith(".json") and e.name[0] != ".")
        return found

    def get(self, key: str) -> Optional[dict[str, Any]]:
        """A result, if it is there.

        Raises:
            Damaged: it is there and not whole.
        """
        try:
            data = self.path(key).read_bytes()
        except FileNotFoundError:
            return None
        if not _is_whole(data):
            raise Damaged(f"{self.path(key)}: it is damaged: run the study again, and it is made again")
        result: dict[str, Any] = json.loads(data)
        return result

    def failure(self, key: str) -> Optional[dict[str, Any]]:
        """Why a run has failed, if it has."""
        try:
            failure: dict[str, Any] = json.loads(self._failure(key).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            return {"message": "the file that says why is damaged"}
        return failure

    def hosts(self) -> Iterator[dict[str, Any]]:
        """Figures of hosts: a dictionary for each run that was made."""
        for path in sorted((self.directory / "hosts").glob("*.jsonl")):
            for line in path.read_bytes().split(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    # The last line of a process that was killed.
                    continue

    # Studies.

    def studies(self) -> list[str]:
        """Names of the studies that have used this store."""
        return sorted(p.stem for p in (self.directory / "studies").glob("*.jsonl") if not p.name.startswith("."))

    def remove(self, keys: Iterable[str]) -> int:
        """Removes results; how many bytes that freed."""
        freed = 0
        for key in keys:
            path = self.path(key)
            try:
                freed += path.stat().st_size
                path.unlink()
            except FileNotFoundError:
                continue
        return freed

    def free(self) -> int:
        """Bytes that are free where the store is."""
        return shutil.disk_usage(self.directory).free


def sealed(result: dict[str, Any]) -> bytes:
    """The bytes of a result: one JSON object in one form, with its checksum."""
    body = canonical(result)
    return b'{"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'",' + body[1:] + b"\n"


#: Length of what `sealed` puts before the rest of an object.
_SEAL = len(b'{"sha256":"') + 64 + len(b'",')


def _is_whole(data: bytes) -> bool:
    body = b"{" + data[_SEAL:-1]
    return data.endswith(b"}\n") and data[11:75] == hashlib.sha256(body).hexdigest().encode()


def difference(a: Any, b: Any, where: str = "") -> str:
    """The first place at which two results differ; empty if there is none."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            if name == "sha256" and not where:
                continue
            path = f"{where}.{name}" if where else name
            if name not in a or name not in b:
                return f"{path} is in one of them only"
            found = difference(a[name], b[name], path)
            if found:
                return found
        return ""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{where} has {len(a)} and {len(b)} entries"
        for n, (x, y) in enumerate(zip(a, b)):
            found = difference(x, y, f"{where}.{n}")
            if found:
                return found
        return ""
    return "" if a == b and type(a) is type(b) else f"{where} is {a!r} and {b!r}"
