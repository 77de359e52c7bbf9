"""Axes: which values the points of a study have."""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._nagori import Error
from .expression import plain

#: Values of some names.
Values = dict[str, Any]
#: More points than this are a slip.
MOST = 10_000_000


@dataclass(frozen=True)
class Range:
    """Numbers from one to another."""

    low: float
    high: float
    steps: Optional[int] = None
    """How many, evenly; otherwise whole numbers in steps of `step`."""
    step: Optional[float] = None
    log: bool = False
    """Evenly by their logarithm."""
    whole: bool = False
    """Rounded to whole numbers."""
    unit: str = ""
    """Is put behind each of them: values become texts such as `12.5 ns`."""

    @classmethod
    def read(cls, name: str, given: Mapping[str, Any], sampled: bool) -> "Range":
        """One of a description.

        Raises:
            Error: a key is unknown or missing, or the range is none.
        """
        known = {"from", "to", "scale", "whole", "unit"} | (set() if sampled else {"steps", "step"})
        unknown(f"the range of {name}", given, known)
        for key in ("from", "to"):
            if not _number(given.get(key)):
                raise Error(f"the range of {name}: `{key}` is {given.get(key)!r}: expected a number")
        scale = given.get("scale", "linear")
        if scale not in ("linear", "log"):
            raise Error(f"the range of {name}: scale is {scale!r}: expected linear or log")
        steps, step = given.get("steps"), given.get("step")
        if steps is not None and (not isinstance(steps, int) or not 2 <= steps <= MOST):
            raise Error(f"the range of {name}: steps is {steps!r}: expected a whole number from 2")
        if steps is not None and step is not None:
            raise Error(f"the range of {name} has both steps (how many) and step (how far apart)")
        r = cls(
            given["from"],
            given["to"],
            steps,
            step,
            scale == "log",
            bool(given.get("whole", False)),
            str(given.get("unit", "")),
        )
        if not r.low <= r.high:
            raise Error(
                f"the range of {name}: from {r.low} to {r.high}: expected an end that is not below the beginning"
            )
        if r.log and r.low <= 0:
            raise Error(f"the range of {name}: a logarithmic one begins above 0, and not at {r.low}")
        if not sampled and steps is None:
            if r.log:
                raise Error(f"the range of {name}: a logarithmic one needs steps: how many values")
            if step is None and not (isinstance(r.low, int) and isinstance(r.high, int)):
                raise Error(f"the range of {name}: it needs steps (how many values) or step (how far apart)")
            if step is not None and (not _number(step) or step <= 0):
                raise Error(f"the range of {name}: step is {step!r}: expected a number above 0")
            if (r.high - r.low) / (step or 1) > MOST:
                raise Error(f"the range of {name} has more than {MOST} values")
        return r

    def at(self, share: float) -> Any:
        """The value at a share of the way, from 0 to 1."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            value: float = math.exp(low + share * (high - low))
            # Ends are exact.
            value = {0.0: self.low, 1.0: self.high}.get(share, value)
        else:
            value = self.low + share * (self.high - self.low)
        return self._shown(value)

    def _shown(self, value: float) -> Any:
        if self.whole:
            value = round(value)
        elif isinstance(value, float):
            # Sums of steps, such as 0.1 + 0.2, are meant to be the short number.
            value = float(f"{value:.12g}")
            if value.is_integer() and isinstance(self.low, int) and isinstance(self.high, int):
                value = int(value)
        return f"{plain(value)} {self.unit}" if self.unit else value

    def values(self) -> list[Any]:
        """All of them, each once."""
        if self.steps is not None:
            shares = (n / (self.steps - 1) for n in range(self.steps))
            return list(dict.fromkeys(self.at(s) for s in shares))
        step = self.step or 1
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        return list(dict.fromkeys(self._shown(self.low + n * step) for n in range(count)))


@dataclass(frozen=True)
class Axis:
    """Values of one name, or of several that go in step."""

    points: tuple[Values, ...]

    @property
    def names(self) -> list[str]:
        """The names that it gives values to."""
        return list(dict.fromkeys(name for p in self.points for name in p))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def unknown(where: str, given: Mapping[str, Any], known: Union[set[str], Sequence[str]]) -> None:
    """An error if there is a key that nobody knows."""
    for key in given:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, list(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else f": expected {', '.join(sorted(known))}"
            raise Error(f"{where}: there is no key `{key}`{hint}")


def listed(name: str, given: Any, again: bool = False) -> list[Any]:
    """The values of an axis: a list, or a range as a table. Without `again` each is there once."""
    if isinstance(given, Mapping):
        return Range.read(name, given, sampled=False).values()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise Error(f"the axis {name} is {given!r}: expected a list of values, or a range {{from = ..., to = ...}}")
    if not given:
        raise Error(f"the axis {name} has no values: expected at least one")
    seen: list[Any] = []
    for value in given:
        if not isinstance(value, (str, int, float, bool, list)):
            raise Error(f"the axis {name}: {value!r} is no text, number or switch")
        if not again and value in seen and type(value) is type(seen[seen.index(value)]):
            raise Error(f"the axis {name} has {value!r} twice")
        seen.append(value)
    return list(given)


def product(given: Mapping[str, Any]) -> list[Axis]:
    """Axes that are combined with one another, each of one name."""
    return [Axis(tuple({name: v} for v in listed(name, values))) for name, values in given.items()]


def zipped(given: Mapping[str, Any]) -> Axis:
    """One axis of several names, whose values go in step."""
    lists = {name: listed(name, values, again=True) for name, values in given.items()}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise Error(f"axes of one [[zip]] go in step, and {told} values")
    rows = zip(*lists.values())
    return Axis(tuple(dict(zip(lists, row)) for row in rows))


def points(given: Sequence[Any]) -> Axis:
    """One axis of points that are given one by one."""
    for n, p in enumerate(given):
        if not isinstance(p, Mapping) or not p:
            raise Error(f"point {n + 1} of a list is {p!r}: expected a table of values")
    axis = Axis(tuple(dict(p) for p in given))
    for n, p in enumerate(axis.points):
        missing = [name for name in axis.names if name not in p]
        if missing:
            raise Error(f"point {n + 1} of a list has no {missing[0]}, which others have")
    return axis


def sampled(given: Mapping[str, Any]) -> Axis:
    """One axis of points that are drawn from ranges: `random`, or `latin`, where each range is covered evenly.

    They depend on the seed alone, and not on the version of Python.
    """
    unknown("[sample]", given, {"method", "count", "seed", "over"})
    method, count, seed = given.get("method", "latin"), given.get("count"), given.get("seed", 1)
    over = given.get("over")
    if method not in ("random", "latin"):
        raise Error(f"[sample]: method is {method!r}: expected random or latin")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
        raise Error(f"[sample]: count is {count!r}: expected a whole number from 1")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise Error(f"[sample]: seed is {seed!r}: expected a whole number")
    if not isinstance(over, Mapping) or not over:
        raise Error("[sample]: expected ranges in [sample.over]")
    source = random.Random(seed)
    columns: dict[str, list[Any]] = {}
    for name, spec in over.items():
        if not isinstance(spec, Mapping):
            raise Error(f"[sample.over] {name} is {spec!r}: expected a range {{from = ..., to = ...}}")
        r = Range.read(name, spec, sampled=True)
        shares = [source.random() for _ in range(count)]
        if method == "latin":
            order = _shuffled(count, source)
            shares = [(n + share) / count for n, share in zip(order, shares)]
        columns[name] = [r.at(share) for share in shares]
    rows = zip(*columns.values())
    return Axis(tuple(dict(zip(columns, row)) for row in rows))


def _shuffled(count: int, source: random.Random) -> list[int]:
    """The numbers below `count` in some order."""
    numbers = list(range(count))
    for n in range(count - 1, 0, -1):
        other = int(source.random() * (n + 1))
        numbers[n], numbers[other] = numbers[other], numbers[n]
    return numbers


def combined(axes: Sequence[Axis]) -> Iterator[Values]:
    """All combinations; the last axis changes fastest."""
    total = math.prod(len(a.points) for a in axes)
    if total > MOST:
        raise Error(f"the axes have {total} combinations: at most {MOST} are possible")
    seen: set[str] = set()
    for a in axes:
        for name in a.names:
            if name in seen:
                raise Error(f"{name} is in two axes")
            seen.add(name)
    for parts in itertools.product(*(a.points for a in axes)):
        values: Values = {}
        for part in parts:
            values.update(part)
        yield values
