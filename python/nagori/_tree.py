"""Results as trees, and times."""

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_UNITS = (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3))


@dataclass(frozen=True, order=True)
class Time:
    """A length of machine time."""

    ps: int
    """In picoseconds."""

    @property
    def ns(self) -> float:
        """In nanoseconds."""
        return self.ps / 1e3

    @property
    def us(self) -> float:
        """In microseconds."""
        return self.ps / 1e6

    @property
    def ms(self) -> float:
        """In milliseconds."""
        return self.ps / 1e9

    @property
    def s(self) -> float:
        """In seconds."""
        return self.ps / 1e12

    def __str__(self) -> str:
        for unit, length in _UNITS:
            if self.ps >= length:
                return f"{self.ps / length:.6g} {unit}"
        return f"{self.ps} ps"


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Tree(value)
    if isinstance(value, list):
        return tuple(_wrapped(v) for v in value)
    return value


class Tree(Mapping[str, Any]):
    """A JSON object whose fields are attributes, too. What `x_ps` counts is also there as the `Time` `x`."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._fields[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._fields:
            return self[name]
        ps = self._fields.get(name + "_ps")
        if isinstance(ps, int):
            return Time(ps)
        raise AttributeError(f"there is no `{name}`; there are {', '.join(self._fields)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return f"Tree({self._fields!r})"

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain dictionaries and lists."""
        copy: dict[str, Any] = json.loads(json.dumps(self._fields))
        return copy

    def flat(self) -> dict[str, Any]:
        """All numbers, texts and switches by dotted names."""
        return dict(_leaves("", self._fields))

    def _repr_html_(self) -> str:
        return table(self.flat().items(), ("name", "value"))


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        pairs = [(str(name), v) for name, v in value.items()]
    elif isinstance(value, list):
        pairs = [(str(n), v) for n, v in enumerate(value)]
    else:
        yield prefix, value
        return
    for name, v in pairs:
        yield from _leaves(f"{prefix}.{name}" if prefix else name, v)


def shown(value: Any) -> str:
    """A value for people."""
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}".replace(",", "\u202f")
    return str(value)


def table(rows: Any, head: tuple[str, ...]) -> str:
    """Rows as HTML."""
    cells = "".join(f"<th>{html.escape(h)}</th>" for h in head)
    text = f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for row in rows:
        cells = "".join(
            f'<td style="text-align:{"right" if isinstance(v, (int, float)) else "left"}">{html.escape(shown(v))}</td>'
            for v in row
        )
        text += f"<tr>{cells}</tr>"
    return text + "</tbody></table>"
