"""Studies as data: what is run, and over which values."""

from __future__ import annotations

import difflib
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .. import _nagori
from .._nagori import Error
from .._options import PathLike
from .axes import Axis, Values, combined, points, product, sampled, unknown, zipped
from .expression import Expression, Template, plain

#: What a study can run, and the words of its command.
KINDS = {"run": "run", "bare": "bare", "mem": "mem run", "crash": "crash", "window": "window run"}
#: Number of a window of a sampled run: the axis that a study of windows has by itself.
WINDOW = "sampled_window"
#: Beginning of the names that are settings of the machine's, or the memory's, description.
SET = "set."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
#: Names of options here, and those of the command.
_CALLED = {"memory": {"run": "memory-model"}, "timeout_s": {"run": "timeout"}}
#: With these a run depends on more than its description, or writes where other runs look.
_REFUSED = {
    "net": "runs with a network differ from one another",
    "host-timeout": "where a run ends would depend on the host; `timeout` counts guest time",
    "nvmm-image": "runs would change it for one another",
    "json": "results are kept in the store",
    "output": "results are kept in the store",
    "report": "`nagori sweep report` makes one",
    "html": "`nagori sweep report` makes one",
    "bbv": "only a single run can write it",
    "budget-time": "what is tried would depend on the host; `budget_states` counts",
    "commands": "only a single run can write it",
    "dashboard": "`nagori sweep watch --page` shows a study",
    "fail-fast": "what is tried would depend on the host",
    "junit": "results are kept in the store",
    "sarif": "results are kept in the store",
    "trace-bus": "only a single run can write it",
    "parallel": "runs would differ from one another",
    "perf-map": "only a single run can write it",
    "profile": "only a single run can write it",
    "signature": "only a single run can write it",
    "snapshot": "only a single run can write it",
    "stats": "results have all figures",
    "stats-file": "results are kept in the store",
    "trace-file": "only a single run can write it",
    "report-file": "`nagori sweep report` makes one",
    "findings": "results are kept in the store",
    "gdb": "nobody would be there",
    "control": "nobody would be there",
    "help": "it is no setting of a run",
    "version": "it is no setting of a run",
    "quiet": "it is no setting of a run",
}
_KEYS = {
    "name",
    "title",
    "kind",
    "program",
    "programs",
    "options",
    "set",
    "axes",
    "zip",
    "points",
    "sample",
    "variables",
    "derive",
    "where",
    "exit_codes",
    "extract",
    "report",
    "fit",
}
#: What the program of a kind is called in [programs.NAME], and what it is.
_PROGRAMS = {"run": ("run", "[words]"), "bare": ("elf", "a file"), "window": ("windows", "a directory")}


@dataclass(frozen=True)
class Point:
    """One run of a study."""

    values: Values
    """Of the axes and derived ones, by name."""
    words: tuple[str, ...]
    """The command's words, without `nagori`; paths are relative to the study's directory."""


@dataclass
class _Kind:
    """What the command of a kind knows."""

    name: str
    options: list[str] = field(default_factory=list)

    def option(self, name: str) -> Optional[str]:
        """The command's name of an option; nothing if it is none."""
        wanted = _CALLED.get(name, {}).get(self.name, name.replace("_", "-"))
        return wanted if wanted in self.options else None


class Study:
    """What is run, over which values: a file `study.toml`, or keywords of the same names.

    >>> study = ng.Study(kind="bare", program="walk.elf", axes={"method": ["dram", "extended"], "set.harts": [1, 2]})
    >>> study.run().to_frame()
    """

    def __init__(self, file: Optional[PathLike] = None, *, base: Optional[PathLike] = None, **given: Any) -> None:
        """Reads and checks a study; nothing is run.

        Args:
            file: a TOML file. Relative paths in it are relative to its directory.
            base: that directory, where there is no file.
            given: keys of the file, which replace those of the file.

        Raises:
            Error: what is wrong, where, and what would be right.
        """
        self.file = None if file is None else pathlib.Path(file)
        keys: dict[str, Any] = {}
        if self.file is not None:
            keys = _read(self.file)
        # As TOML would have it, so that the origin of a description makes no difference.
        keys.update(json.loads(json.dumps(given)))
        where = str(self.file or "the study")
        self.base = pathlib.Path(base or (self.file.parent if self.file else ".")).resolve()
        """The directory from which paths of the study start."""
        self.keys = keys
        """The description."""
        try:
            self._take(keys)
        except Error as e:
            raise Error(f"{where}: {e}") from None

    def _take(self, keys: dict[str, Any]) -> None:
        unknown("a study", keys, _KEYS)
        stem = self.file.stem if self.file else "study"
        self.name = keys.get("name", self.file.resolve().parent.name if stem == "study" and self.file else stem)
        """Its name in the store."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise Error(f"name is {self.name!r}: expected letters, digits, and -_. within")
        self.title = str(keys.get("title", self.name))
        kind = keys.get("kind", "run")
        if kind not in KINDS:
            raise Error(f"kind is {kind!r}: expected {', '.join(KINDS)}{_near(kind, KINDS)}")
        self.kind: str = kind
        self._kind = _Kind(kind, _nagori.option_names(KINDS[kind]))
        for name, pattern in _table(keys, "extract").items():
            _pattern(name, pattern)
        self.exit_codes: tuple[int, ...] = tuple(keys.get("exit_codes", (0,)))
        self.programs = _tables(keys, "programs")
        for name, p in self.programs.items():
            if kind not in _PROGRAMS:
                raise Error(f"[programs.{name}]: kind = {kind!r} has no program; its options say what is run")
            key, what = _PROGRAMS[kind]
            unknown(f"[programs.{name}]", p, {key, "options"})
            if key not in p:
                raise Error(f"[programs.{name}]: expected {key} = {what}, for kind = {kind!r}")
        self._axes = self._read_axes(keys)
        self._derived: list[tuple[str, Union[Template, Expression, Any]]] = [
            (name, _derivation(name, text)) for name, text in _table(keys, "derive").items()
        ]
        where = keys.get("where", [])
        self._where = [Expression(c) for c in ([where] if isinstance(where, str) else where)]
        self._variables: Values = dict(_table(keys, "variables"))
        self._fixed: dict[str, Any] = {}
        if "program" in keys:
            self._fixed["program"] = keys["program"]
        self._fixed.update(_table(keys, "options"))
        self._fixed.update((SET + key, value) for key, value in _table(keys, "set").items())
        self._check_names()

    def _read_axes(self, keys: Mapping[str, Any]) -> list[Axis]:
        axes = product(_table(keys, "axes"))
        zips = keys.get("zip", [])
        axes += [zipped(z) for z in ([zips] if isinstance(zips, Mapping) else zips)]
        if "points" in keys:
            # One list, or several, each of which is an axis.
            given = keys["points"]
            several = isinstance(given, list) and given and all(isinstance(g, list) for g in given)
            axes += [points(g) for g in (given if several else [given])]
        if "sample" in keys:
            axes.append(sampled(_table(keys, "sample")))
        named = {name for a in axes for name in a.names} | set(_table(keys, "derive"))
        several = bool(self.programs) and "program" not in named and "program" not in keys
        if self.kind == "window" and WINDOW not in named and (several or "program" in keys):
            axes.insert(0, self._windows(list(self.programs) if several else [keys["program"]], several))
        elif several:
            axes.insert(0, Axis(tuple({"program": name} for name in self.programs)))
        return axes

    def _directory(self, program: Any) -> str:
        """The directory with the windows of a program."""
        if not isinstance(program, str):
            raise Error('there is no program: program = "a directory that --windows-to has written"')
        found = self.programs[program]["windows"] if program in self.programs else program
        return str(found)

    def _windows(self, programs: Sequence[Any], named: bool) -> Axis:
        """All windows that were written of programs."""
        found: list[Values] = []
        for program in programs:
            directory = self.base / self._directory(program)
            files = sorted(directory.glob("window-*.snap"))
            if not files:
                raise Error(f"{directory}: there are no windows in it: expected what --windows-to has written")
            numbers = [int(f.stem.removeprefix("window-")) for f in files]
            found += [{**({"program": program} if named else {}), WINDOW: n} for n in numbers]
        return Axis(tuple(found))

    @property
    def axes(self) -> list[str]:
        """Names of the values in which points differ, in order."""
        return list(dict.fromkeys(name for a in self._axes for name in a.names))

    def levels(self, name: str) -> list[Any]:
        """The values that an axis has, each once."""
        values = [p[name] for a in self._axes for p in a.points if name in p]
        return list(dict.fromkeys(json.dumps(v) if isinstance(v, list) else v for v in values))

    def _is_setting(self, name: str) -> bool:
        """Whether a value goes to the command by itself."""
        if name == WINDOW:
            return self.kind == "window"
        return name == "program" or name.startswith(SET) or self._kind.option(name) is not None

    def _check_names(self) -> None:
        """Every name is known: it is an option or a setting, or something uses it."""
        derived = [name for name, _ in self._derived]
        given = [*self.axes, *derived, *self._variables]
        used: set[str] = set().union(*(c.names for c in self._where))
        for _, how in self._derived:
            if isinstance(how, (Template, Expression)):
                used |= how.names
        texts: list[Any] = [*self._fixed.values(), *(a.points for a in self._axes), *self.programs.values()]
        for text in _strings(texts):
            used |= Template(text).names
        known = {*given, *self._fixed}
        for name in sorted(used):
            if name not in known:
                raise Error(f"there is no value `{name}`, which a text or an expression uses{_near(name, known)}")
        for name in self._fixed:
            if not self._is_setting(name):
                raise Error(f"[options]: `nagori {KINDS[self.kind]}` has no option `{name}`{self._hint(name)}")
        for name in given:
            self._refuse(name)
            if name not in used and not self._is_setting(name):
                raise Error(
                    f"the value `{name}` has no effect: `nagori {KINDS[self.kind]}` has no such option, and no "
                    f"{{{name}}} is in a text, a condition or a derived value{self._hint(name)}"
                )
        for name in self._fixed:
            self._refuse(name)
        for name in self.axes:
            if name in self._variables:
                raise Error(f"{name} is an axis, and in [variables]")

    def _refuse(self, name: str) -> None:
        option = self._kind.option(name)
        # A memory's trace is what it plays, a machine's what it writes.
        if option == "trace" and self.kind != "mem":
            raise Error(f"{name}: only a single run can write it")
        if option in _REFUSED:
            raise Error(f"{name}: {_REFUSED[option]}")

    def _hint(self, name: str) -> str:
        names = [*(o.replace("-", "_") for o in self._kind.options if o not in _REFUSED), "program"]
        return _near(name, names)

    def points(self) -> Iterator[Point]:
        """All runs, in order; the last axis changes fastest.

        Raises:
            Error: a value cannot be derived, or points are the same run.
        """
        for values in combined(self._axes):
            all_values = {**self._fixed, **self._variables, **values}
            for name, how in self._derived:
                value = how.value(all_values) if isinstance(how, (Template, Expression)) else how
                all_values[name] = values[name] = value
            if all(c.value(all_values) for c in self._where):
                yield Point(values, self._words(all_values))

    def _words(self, values: Values) -> tuple[str, ...]:
        program: Any = values.get("program")
        options: dict[str, Any] = {}
        if isinstance(program, str) and program in self.programs:
            entry = self.programs[program]
            program = entry[_PROGRAMS[self.kind][0]]
            options.update(entry.get("options", {}))
        options.update((n, v) for n, v in values.items() if n not in self._variables and n != "program")
        words = KINDS[self.kind].split(" ")
        settings = []
        for name, value in options.items():
            value = _filled(value, values)
            if name == WINDOW:
                continue
            if name.startswith(SET):
                settings.append(f"--set={name[len(SET) :]}={_setting(value)}")
                continue
            option = self._kind.option(name)
            if option is not None:
                words += _option(name, option, value)
        words += sorted(settings)
        if self.kind == "run":
            if "stdin" not in options:
                words.append("--stdin=none")
            argv = [program] if isinstance(program, str) else program
            if not argv:
                raise Error('there is no program: program = ["./prog", "argument"], or [programs.NAME]')
            return (*words, "--", *(plain(_filled(w, values)) for w in argv))
        if self.kind == "bare":
            if not isinstance(program, str):
                raise Error('there is no program: program = "file.elf", or [programs.NAME]')
            words.append(plain(_filled(program, values)))
        elif self.kind == "window":
            directory = plain(_filled(self._directory(program), values))
            if WINDOW not in values:
                raise Error(f"there is no axis {WINDOW}: name programs in [programs.NAME], or give its numbers")
            words.append(f"{directory}/window-{int(values[WINDOW]):06}.snap")
        elif program is not None:
            raise Error(f"kind = {self.kind!r} has no program; its options say what is run")
        return tuple(words)

    def __repr__(self) -> str:
        return f"<Study {self.name}: {self.kind} over {', '.join(self.axes) or 'nothing'}>"

    def run(self, store: Optional[PathLike] = None, **options: Any) -> Any:
        """Runs what is not there yet, and returns the results: see `nagori.study.driver.run`."""
        from .driver import run

        return run(self, store, **options)

    def results(self, store: Optional[PathLike] = None) -> Any:
        """The results that are there: see `nagori.study.table.Results`."""
        from .driver import results

        return results(self, store)


def _pattern(name: str, text: Any) -> None:
    """Checks what finds a figure in a program's output."""
    try:
        groups = re.compile(text).groups
    except (re.error, TypeError) as e:
        raise Error(f"[extract] {name}: {text!r} is no regular expression: {e}") from None
    if groups != 1:
        raise Error(f"[extract] {name}: {text!r} has {groups} groups: expected one, around the number")


def _read(file: pathlib.Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef,import-not-found,unused-ignore]
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise Error(f"{file}: it cannot be read: {e}") from None
    try:
        keys: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise Error(f"{file}: it is no TOML: {e}") from None
    return keys


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _table(keys: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table of a description; settings may be nested, as TOML writes `memory.size`, and names are then joined."""
    table = keys.get(name, {})
    if not isinstance(table, Mapping):
        raise Error(f"{name} is {table!r}: expected a table")
    if name in ("axes", "set", "options", "derive"):
        return dict(_flat("", table, name == "axes"))
    return dict(table)


def _flat(prefix: str, table: Mapping[str, Any], ranges: bool) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        whole = f"{prefix}{name}"
        nested = isinstance(value, Mapping) and not (ranges and "from" in value) and name not in ("file", "env")
        if nested:
            yield from _flat(f"{whole}.", value, ranges)
        else:
            yield whole, value


def _tables(keys: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    tables = _table(keys, name)
    for key, value in tables.items():
        if not isinstance(value, Mapping):
            raise Error(f"[{name}] {key} is {value!r}: expected a table [{name}.{key}]")
    return tables


def _derivation(name: str, text: Any) -> Union[Template, Expression, Any]:
    if not isinstance(text, str):
        return text
    try:
        return Template(text) if "{" in text else Expression(text)
    except Error as e:
        raise Error(f"[derive] {name}: {e}") from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from _strings(v)
    elif isinstance(value, Sequence):
        for v in value:
            yield from _strings(v)


def _filled(value: Any, values: Values) -> Any:
    if isinstance(value, str):
        return Template(value).value(values) if "{" in value or "}" in value else value
    if isinstance(value, list):
        return [_filled(v, values) for v in value]
    if isinstance(value, Mapping):
        return {k: _filled(v, values) for k, v in value.items()}
    return value


def _setting(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def _option(name: str, option: str, value: Any) -> list[str]:
    """The words of an option."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{option}"]
    if isinstance(value, Mapping):
        if name not in ("file", "env"):
            raise Error(f"{name} is a table: expected a value")
        sign = ":" if name == "file" else "="
        return [f"--{option}={k}{sign}{plain(v)}" for k, v in value.items()]
    if isinstance(value, list):
        return [f"--{option}={plain(v)}" for v in value]
    return [f"--{option}={plain(value)}"]


def find(path: PathLike) -> pathlib.Path:
    """The file of a study: itself, or `study.toml` of a directory."""
    file = pathlib.Path(path)
    if file.is_dir():
        file = file / "study.toml"
    if not file.exists():
        raise Error(
            f"{os.fspath(path)}: there is no such study: expected a TOML file, or a directory with a study.toml"
        )
    return file
