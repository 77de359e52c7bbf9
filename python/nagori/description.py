"""Descriptions of machines and memories."""

import difflib
import json
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from . import _nagori
from ._options import PathLike
from ._tree import table


@dataclass(frozen=True)
class Value:
    """A value of a description."""

    key: str
    value: Any
    unit: str
    """Empty for pure numbers and texts."""
    origin: str
    """Of a machine: `override`, `given`, `preset`, `core` or `default`; of a memory as `nagori mem show` has it."""


class Description(Mapping[str, Value]):
    """The values of a machine or a memory by key, complete and checked."""

    def __init__(self, source: str, values: list[Value], toml: Optional[str]) -> None:
        self.source = source
        """The file, or the name, that it comes from."""
        self._values = {v.key: v for v in values}
        self._toml = toml

    @classmethod
    def of_machine(cls, name: str, changes: list[str]) -> "Description":
        """That of a machine, with changes of the form `key=value`."""
        found = json.loads(_nagori.machine(name, changes))
        values = [Value(v["key"], v["value"], v["unit"] or "", v["origin"]) for v in found["values"]]
        return cls(found["source"], values, _nagori.machine_toml(name, changes))

    @classmethod
    def of_memory(cls, name: str, changes: list[str]) -> "Description":
        """That of a memory, with changes of the form `key=value`."""
        found = json.loads(_nagori.memory(name, changes))
        values = [Value(v["key"], v["value"], v.get("unit") or "", v["origin"]) for v in found["values"]]
        return cls(found["memory"], values, None)

    def __getitem__(self, key: str) -> Value:
        try:
            return self._values[key]
        except KeyError:
            near = difflib.get_close_matches(key, self._values, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise KeyError(f"{self.source} has no value {key}{hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_toml(self) -> str:
        """All of it as TOML, from which the same machine is made without any change."""
        if self._toml is None:
            raise TypeError("only descriptions of machines can be written as TOML")
        return self._toml

    def save(self, path: PathLike) -> None:
        """Writes it to a file, whose path names the machine."""
        pathlib.Path(path).write_text(self.to_toml(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Description of {self.source}: {len(self)} values>"

    def _repr_html_(self) -> str:
        rows = [(v.key, str(v.value), v.unit, v.origin) for v in self.values()]
        return table(rows, ("key", "value", "unit", "origin"))


def machine_names() -> list[str]:
    """Names of the machines that can be named."""
    return _nagori.machine_names()

