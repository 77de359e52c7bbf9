"""The name of a result: a hash of everything on which it depends, so that equal names mean equal results."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import stat
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from .. import _nagori
from .._nagori import Error
from .._options import log
from .description import Point, Study

#: Of what goes into a name.
FORMAT = 1
#: Options that change how a result is computed, and not the result.
_WITHOUT_EFFECT = ("engine", "cache", "no-boot-cache", "jobs", "threads", "mirror", "offline")
#: What a file is known by: its bytes are not read again while these are the same.
Stamp = tuple[int, int, int, int, bool]


def canonical(value: Any) -> bytes:
    """A value as JSON of one form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    """The hash of a value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def stamp(path: str) -> Stamp:
    """What a file is known by.

    Raises:
        Error: it is not there.
    """
    try:
        s = os.stat(path)
    except OSError as e:
        raise Error(f"{path}: it cannot be read: {e.strerror}") from None
    return (s.st_size, s.st_mtime_ns, s.st_ino, s.st_dev, bool(s.st_mode & stat.S_IXUSR))


def value_of(words: Sequence[str], option: str) -> Iterator[str]:
    """The values of an option among the words of a command; those behind `--` are the program's."""
    start = f"--{option}="
    for word in words:
        if word == "--":
            return
        if word.startswith(start):
            yield word[len(start) :]


class Files:
    """Hashes of files, each of which is read once as long as it is not changed."""

    def __init__(self, base: pathlib.Path, cache: Optional[pathlib.Path] = None) -> None:
        self._base = base
        self._cache = cache
        self._known: dict[str, list[Any]] = {}
        self._new = False
        self.used: dict[str, Stamp] = {}
        """What was asked for."""
        if cache is not None:
            try:
                self._known = json.loads(cache.read_bytes())
            except (OSError, ValueError):
                pass

    def absolute(self, path: str) -> str:
        """A path of the study."""
        return os.path.join(self._base, path)

    def hash(self, path: str) -> str:
        """The hash of a file with its permission to be executed, or of all files below a directory."""
        whole = self.absolute(path)
        if whole not in self.used:
            self.used[whole] = stamp(whole)
        if os.path.isdir(whole):
            return digest([[name, self.hash(os.path.join(whole, name))] for name in sorted(os.listdir(whole))])
        known = self._known.get(whole)
        now = list(self.used[whole])
        if known is None or known[0] != now:
            sha = hashlib.sha256(b"x" if self.used[whole][4] else b"-")
            try:
                with open(whole, "rb") as f:
                    while chunk := f.read(1 << 20):
                        sha.update(chunk)
            except OSError as e:
                raise Error(f"{path}: it cannot be read: {e.strerror}") from None
            known = self._known[whole] = [now, sha.hexdigest()]
            self._new = True
        return str(known[1])

    def note(self, path: str) -> None:
        """Something depends on a file, whose content is looked at elsewhere."""
        whole = self.absolute(path)
        if os.path.exists(whole):
            self.used[whole] = stamp(whole)

    def save(self) -> None:
        """Keeps what was learnt for the next time."""
        if self._cache is None or not self._new:
            return
        beside = self._cache.with_name(f".{self._cache.name}.{os.getpid()}")
        try:
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(canonical(self._known))
            beside.rename(self._cache)
        except OSError:
            # It only saves time.
            beside.unlink(missing_ok=True)


class Keys:
    """Names of results of one study."""

    def __init__(self, study: Study, files: Files) -> None:
        self._study = study
        self.files = files
        self._resolved: dict[str, str] = {}
        self.images: dict[str, str] = {}
        """Identities of the guest's software, by the options that choose it."""

    def of(self, points: Sequence[Point]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The names of the points' results, and what each is the hash of.

        Raises:
            Error: a point is not possible; with its values.
        """
        for point, wrong in zip(points, _nagori.check([list(p.words) for p in points])):
            try:
                if wrong is not None:
                    raise Error(wrong)
                parts = self._parts(point)
            except Error as e:
                shown = ", ".join(f"{name} = {value}" for name, value in point.values.items())
                raise Error(f"the point {shown or 'of this study'} is not possible: {e}") from None
            yield digest(parts), parts

    def _parts(self, point: Point) -> dict[str, Any]:
        words, kind = point.words, self._study.kind
        if kind == "mem":
            memory = next(value_of(words, "memory"), "")
            described = {"memory": self._memory(memory, list(value_of(words, "set")))}
        elif kind == "window":
            # The machine is in the window; there may be more of them later.
            described = {}
            self.files.note(os.path.dirname(words[-1]))
        else:
            machine = next(value_of(words, "machine"), "vc707")
            model = next(value_of(words, "memory-model"), None)
            changes = list(value_of(words, "set"))
            described = {"machine": self._machine(machine, changes, model)}
        kept = (
            [w for w in words if not self._is_described(w, kind)]
            if "--" not in words
            else [
                *(w for w in words[: words.index("--")] if not self._is_described(w, kind)),
                *words[words.index("--") :],
            ]
        )
        parts = {
            "format": FORMAT,
            "model": _nagori.MODEL,
            "kind": kind,
            "words": kept,
            **described,
            "inputs": [[label, self.files.hash(path)] for label, path in inputs(words, kind, self.files)],
        }
        if kind in ("run", "crash"):
            parts["image"] = json.loads(self._image(words, kind))
        if self._study.exit_codes != (0,):
            parts["exit_codes"] = list(self._study.exit_codes)
        return parts

    @staticmethod
    def _is_described(word: str, kind: str) -> bool:
        """Whether a word only says what the description says that is hashed, or has no effect on results."""
        names = ("set", "memory" if kind == "mem" else "machine", *_WITHOUT_EFFECT)
        return any(word.startswith(f"--{name}=") or word == f"--{name}" for name in names)

    def _machine(self, name: str, changes: list[str], model: Optional[str]) -> str:
        if model is not None:
            changes = [*changes, f"memory.regions.nvmm.model={model}"]
        request = json.dumps([name, changes])
        if request not in self._resolved:
            self._describes(name)
            found = json.loads(self._in_base(lambda: _nagori.machine(name, changes)))
            values = [[v["key"], v["value"], v["unit"]] for v in found["values"]]
            memories = {
                v["key"]: self._memory(v["value"], [])
                for v in found["values"]
                if v["key"].startswith("memory.regions.") and v["key"].endswith(".model")
            }
            own = found.get("machine", pathlib.Path(name).stem)
            self._resolved[request] = digest([own, values, memories])
        return self._resolved[request]

    def _memory(self, name: str, changes: list[str]) -> str:
        request = json.dumps(["memory", name, changes])
        if request not in self._resolved:
            self._describes(name)
            found = json.loads(self._in_base(lambda: _nagori.memory(name, changes)))
            self._resolved[request] = digest([[v["key"], v["value"], v.get("unit")] for v in found["values"]])
        return self._resolved[request]

    def _describes(self, name: str) -> None:
        """A description may name others that lie beside it."""
        if "/" in name or name.endswith(".toml"):
            directory = os.path.dirname(self.files.absolute(name)) or "."
            for other in os.listdir(directory) if os.path.isdir(directory) else []:
                if other.endswith(".toml"):
                    self.files.note(os.path.join(directory, other))
        for directory in os.environ.get("NAGORI_MACHINES", "").split(":"):
            for other in os.listdir(directory) if os.path.isdir(directory) else []:
                self.files.note(os.path.join(directory, other))

    def _image(self, words: Sequence[str], kind: str) -> str:
        request = image_request(words, kind)
        name = json.dumps(request)
        if name not in self.images:
            self.images[name] = self._in_base(lambda: _nagori.image(request, log, None))
        return self.images[name]

    def _in_base(self, work: Any) -> Any:
        """Does something in the directory from which the study's paths start."""
        with inside(self._study.base):
            return work()


def image_request(words: Sequence[str], kind: str) -> list[str]:
    """The words of a command that choose the guest's software."""
    if kind == "run":
        program = words[words.index("--") + 1]
        return ["run", *(w for w in words[: words.index("--")] if _chooses_image(w)), "--", program]
    return ["crash", *(w for w in words if _chooses_image(w)), "--workload=", "--recover="]


def _chooses_image(word: str) -> bool:
    return word.startswith(("--rootfs=", "--modules=", "--cache=", "--mirror=")) or word == "--offline"


class inside:  # noqa: N801 (it is used as a function is)
    """Another working directory for a while."""

    def __init__(self, directory: PathLikes) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        self._before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.chdir(self._directory)
        except OSError as e:
            os.close(self._before)
            raise Error(f"{self._directory}: it cannot be entered: {e.strerror}") from None

    def __exit__(self, *_: object) -> None:
        os.fchdir(self._before)
        os.close(self._before)


def inputs(words: Sequence[str], kind: str, files: Files) -> Iterator[tuple[str, str]]:
    """The files of the host on which a run depends, each with what it is for the run.

    Raises:
        Error: a run could change a file of the host, which others read.
    """
    if kind == "bare":
        yield "program", words[-1]
    if kind == "window":
        yield "window", words[-1]
    if kind == "run":
        program = words[words.index("--") + 1]
        # One with a `/` that is not there is a program of the guest.
        if "/" in program and (not program.startswith("/") or os.path.exists(program)):
            yield "program", program
    for given in value_of(words, "file"):
        host, _, guest = given.rpartition(":")
        yield f"file {guest}", host
    for given in value_of(words, "stdin"):
        if given != "none":
            yield "stdin", given
    for given in value_of(words, "checker"):
        yield "checker", given
    for given in value_of(words, "trace"):
        if kind == "mem" and not given.startswith("gen:"):
            yield "trace", given
    for option in ("share", "disk"):
        for given in value_of(words, option):
            path, *how = given.split(",")
            if option == "share":
                path = path.rpartition(":")[0] or path
                if "rw" in how:
                    raise Error(f"--share={given}: what one run writes, others would read: share it without rw")
            elif not any(h == "ro" or h == "overlay=temp" for h in how):
                raise Error(f"--disk={given}: what one run writes, others would read: expected ro, or overlay=temp")
            yield f"{option} {path}", path


#: A path, or a text with one.
PathLikes = Any
