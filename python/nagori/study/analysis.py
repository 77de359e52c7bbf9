"""What results say: which parameter matters and by how much, what stands out, and what is better in no respect."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .._nagori import Error
from .description import WINDOW

Row = Mapping[str, Any]
#: An axis with more values than this is looked at by ranks, and not value by value.
LEVELS = 12
#: Names of axes whose values only repeat a run.
REPEATS = ("seed", WINDOW)
#: Quantiles of Student's t at 97.5 %, by degrees of freedom.
_T = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
_NORMAL = 1.959964
#: Standard deviations for a median of absolute deviations, of a normal distribution.
_MAD = 1.4826


@dataclass(frozen=True)
class Mean:
    """A mean of runs that differ in what repeats them only."""

    value: float
    count: int
    low: Optional[float] = None
    """Ends of the 95 % interval; nothing for a single run."""
    high: Optional[float] = None


def mean(values: Sequence[float]) -> Mean:
    """Their mean with its 95 % confidence interval (Student's t)."""
    m, n = statistics.fmean(values), len(values)
    if n < 2:
        return Mean(m, n)
    df = n - 1
    t = _T[df - 1] if df <= len(_T) else _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * df)
    half = t * statistics.stdev(values) / math.sqrt(n)
    return Mean(m, n, m - half, m + half)


def numbers(rows: Sequence[Row], figure: str) -> list[tuple[Row, float]]:
    """The rows in which a figure is a number.

    Raises:
        Error: it is a number in none of them.
    """
    found = [(r, float(r[figure])) for r in rows if _is_number(r.get(figure))]
    if not found:
        names = sorted({n for r in rows for n, v in r.items() if _is_number(v)})
        raise Error(f"there is no figure `{figure}` in the results; there are {', '.join(names) or 'none'}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def groups(rows: Sequence[Row], names: Sequence[str], figure: str) -> dict[tuple[Hashable, ...], Mean]:
    """Means of a figure by the values of some axes, in the order in which they first occur."""
    values: dict[tuple[Hashable, ...], list[float]] = defaultdict(list)
    for row, value in numbers(rows, figure):
        values[tuple(row.get(n) for n in names)].append(value)
    return {key: mean(v) for key, v in values.items()}


@dataclass(frozen=True)
class Effect:
    """What an axis, or two together, do to a figure."""

    axes: tuple[str, ...]
    share: float
    """Of the figure's variance: what follows from the axis alone, or from the two beyond what follows from each."""
    least: float
    """Mean over all runs with the value for which it is least; of two axes, the largest fall below their sum."""
    most: float
    at: tuple[Any, ...] = ()
    """The values for which it is least and most."""
    by_ranks: bool = False
    """Whether the axis has so many values that the share is the square of the rank correlation."""


@dataclass
class Effects:
    """Which axes matter for a figure, those that matter most first."""

    figure: str
    mean: float
    deviation: float
    """Standard deviation over all runs."""
    main: list[Effect] = field(default_factory=list)
    interactions: list[Effect] = field(default_factory=list)
    balanced: bool = True
    """Whether all combinations were run equally often. Where they were not, shares of axes that go together overlap."""


def effects(rows: Sequence[Row], axes: Sequence[str], figure: str) -> Effects:
    """Main effects and interactions of pairs: the analysis of variance of the runs that are there."""
    data = numbers(rows, figure)
    values = [v for _, v in data]
    total_mean = statistics.fmean(values)
    total = sum((v - total_mean) ** 2 for v in values)
    found = Effects(figure, total_mean, statistics.pstdev(values))
    few = [a for a in axes if 1 < len({r.get(a) for r, _ in data}) <= LEVELS]
    many = [a for a in axes if len({r.get(a) for r, _ in data}) > LEVELS]
    if total == 0:
        return found
    by: dict[str, dict[Any, Mean]] = {}
    for a in few:
        by[a] = {k[0]: m for k, m in groups([r for r, _ in data], [a], figure).items()}
        between = sum(m.count * (m.value - total_mean) ** 2 for m in by[a].values())
        low, high = min(by[a], key=lambda k: by[a][k].value), max(by[a], key=lambda k: by[a][k].value)
        found.main.append(Effect((a,), between / total, by[a][low].value, by[a][high].value, (low, high)))
    for a in many:
        pairs = [(x, v) for r, v in data if (x := leading(r.get(a))) is not None]
        if len(pairs) < 3:
            continue
        pairs.sort()
        fifth = max(1, len(pairs) // 5)
        low_mean = statistics.fmean(v for _, v in pairs[:fifth])
        high_mean = statistics.fmean(v for _, v in pairs[-fifth:])
        share = _ranked([x for x, _ in pairs], [y for _, y in pairs]) ** 2
        ends = (pairs[0][0], pairs[-1][0])
        found.main.append(Effect((a,), share, low_mean, high_mean, ends, by_ranks=True))
    for n, a in enumerate(few):
        for b in few[n + 1 :]:
            both = groups([r for r, _ in data], [a, b], figure)
            found.balanced &= len({m.count for m in both.values()}) == 1 and len(both) == len(by[a]) * len(by[b])
            beyond = {k: m.value - by[a][k[0]].value - by[b][k[1]].value + total_mean for k, m in both.items()}
            share = sum(both[k].count * d * d for k, d in beyond.items()) / total
            found.interactions.append(Effect((a, b), share, min(beyond.values()), max(beyond.values())))
    found.main.sort(key=lambda e: -e.share)
    found.interactions.sort(key=lambda e: -e.share)
    return found


def leading(value: Any) -> Optional[float]:
    """The number of a value, or at the beginning of its text, as in `12.5 ns`."""
    if _is_number(value):
        return float(value)
    if isinstance(value, str):
        try:
            number = float(value.split()[0])
        except (ValueError, IndexError):
            return None
        return number if math.isfinite(number) else None
    return None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for n in order[at : end + 1]:
            ranks[n] = (at + end) / 2
        at = end + 1
    return ranks


def _ranked(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 where one of them is constant."""
    a, b = _ranks(x), _ranks(y)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(a, b)


@dataclass(frozen=True)
class Outlier:
    """A run that is far from what the others let expect."""

    key: str
    figure: str
    value: float
    expected: float
    deviations: float
    """How many standard deviations it is away."""


def outliers(rows: Sequence[Row], axes: Sequence[str], figure: str, beyond: float = 5.0) -> list[Outlier]:
    """Runs far from the others: from those that only repeat them, else from the sum of the axes' effects."""
    data = numbers(rows, figure)
    if len(data) < 8:
        return []
    repeats = [a for a in axes if a in REPEATS and len({r.get(a) for r, _ in data}) > 1]
    residuals: list[tuple[Row, float, float]] = []
    if repeats:
        others = [a for a in axes if a not in repeats]
        by: dict[tuple[Any, ...], list[tuple[Row, float]]] = defaultdict(list)
        for r, v in data:
            by[tuple(r.get(a) for a in others)].append((r, v))
        for members in by.values():
            middle = statistics.median(v for _, v in members)
            residuals += [(r, v, middle) for r, v in members]
    else:
        total = statistics.fmean(v for _, v in data)
        few = [a for a in axes if 1 < len({r.get(a) for r, _ in data}) <= LEVELS]
        means = {a: {k[0]: m.value for k, m in groups(rows, [a], figure).items()} for a in few}
        residuals = [(r, v, total + sum(means[a][r.get(a)] - total for a in few)) for r, v in data]
    scale = _MAD * statistics.median(abs(v - e) for _, v, e in residuals)
    if scale == 0:
        return []
    found = [
        Outlier(str(r["key"]), figure, v, e, (v - e) / scale) for r, v, e in residuals if abs(v - e) > beyond * scale
    ]
    return sorted(found, key=lambda o: -abs(o.deviations))


def pareto(rows: Sequence[Row], objectives: Mapping[str, str]) -> list[Row]:
    """The rows that are better in no respect than none of the others: nothing is gained without a loss elsewhere.

    Args:
        objectives: `min` or `max` by figure.
    """
    for name, how in objectives.items():
        if how not in ("min", "max"):
            raise Error(f"{name} = {how!r}: expected min or max")
        numbers(rows, name)
    signs = [(name, 1 if how == "min" else -1) for name, how in objectives.items()]
    candidates = [r for r in rows if all(_is_number(r.get(n)) for n in objectives)]
    points = sorted(((tuple(s * float(r[n]) for n, s in signs), i) for i, r in enumerate(candidates)))
    front: list[tuple[tuple[float, ...], int]] = []
    for point, i in points:
        if not any(all(a <= b for a, b in zip(other, point)) and other != point for other, _ in front):
            front.append((point, i))
    return [candidates[i] for _, i in front]
