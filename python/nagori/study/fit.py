"""Fitting: values of a machine's or a memory's description with which runs reproduce measured figures.

Bounded least squares of relative residuals. What comes out says how well the data tell the values apart: two
latencies of which only the sum matters are told, with the sum.
"""

from __future__ import annotations

import csv
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._nagori import Error
from .._options import PathLike
from .._tree import table
from . import driver
from .axes import unknown
from .description import Study
from .expression import plain

#: Steps of the difference quotients, as a share of a parameter's range. A machine's figures move by whole clocks, so
#: that small ones would show nothing but that.
_STEP = 0.1
#: A direction with less than this share of the largest effect is not determined.
_WEAK = 1e-2
#: A standard error above this share of the range says that the data hardly determine a value.
_VAGUE = 0.25
#: Targets: rows of values of axes with measured figures, or a CSV file of them.
Target = Union[PathLike, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Parameter:
    """A value that is looked for."""

    name: str
    """An option or a setting, such as `set.board.read_request_ps`, or a variable of the study."""
    low: float
    high: float
    start: float
    step: Optional[float] = None
    """Values are multiples of this, where others are not possible."""
    unit: str = ""
    """Is put behind the number."""
    change: Optional[float] = None
    """By how much it is changed to see what it does; a tenth of the range if nothing is said."""

    @classmethod
    def read(cls, name: str, given: Any) -> Parameter:
        """One of a description.

        Raises:
            Error: a key is unknown, or the bounds are none.
        """
        where = f"the parameter {name}"
        if not isinstance(given, Mapping):
            raise Error(f"{where} is {given!r}: expected {{from = ..., to = ..., start = ...}}")
        unknown(where, given, {"from", "to", "start", "step", "unit", "change"})
        numbers = {}
        for key in ("from", "to", "start", "step", "change"):
            value = given.get(key)
            if value is None and key in ("start", "step", "change"):
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
                raise Error(f"{where}: `{key}` is {value!r}: expected a number")
            numbers[key] = value
        low, high = numbers["from"], numbers["to"]
        start = numbers.get("start", (low + high) / 2)
        if not low < high or not low <= start <= high:
            raise Error(f"{where}: expected from < to, and a start between them; they are {low}, {high}, {start}")
        return cls(name, low, high, start, numbers.get("step"), str(given.get("unit", "")), numbers.get("change"))

    def rounded(self, value: float) -> float:
        """The nearest possible value."""
        if self.step:
            value = round(value / self.step) * self.step
        value = min(max(value, self.low), self.high)
        return float(f"{value:.12g}")

    def text(self, value: float) -> Any:
        """A value as a description has it."""
        number = int(value) if float(value).is_integer() else value
        return f"{plain(number)} {self.unit}" if self.unit else number


@dataclass(frozen=True)
class Fitted:
    """A value that was found."""

    parameter: Parameter
    value: float
    error: Optional[float]
    """Standard error; nothing where the data do not determine it."""
    at_bound: bool

    @property
    def text(self) -> Any:
        """As a description has it."""
        return self.parameter.text(self.value)


@dataclass
class Fit:
    """What was found, how well it reproduces what was measured, and what the data cannot tell."""

    parameters: list[Fitted]
    residuals: list[dict[str, Any]]
    """A row for each measured figure: values of axes, `measured`, `simulated`, `relative`."""
    rank: int
    """How many directions of the parameters the data determine."""
    condition: float
    """Greatest over least effect of such a direction; large numbers mean that errors of the data are amplified."""
    undetermined: list[dict[str, float]] = field(default_factory=list)
    """Directions that change nothing: what each parameter may move by with the others, in shares of its range."""
    evaluations: int = 0
    problems: list[str] = field(default_factory=list)
    """What is to be known before the values are used."""

    @property
    def values(self) -> dict[str, Any]:
        """The values by name, as a description has them."""
        return {f.parameter.name: f.text for f in self.parameters}

    @property
    def rms(self) -> float:
        """Root of the mean square of the relative residuals."""
        return float(math.sqrt(sum(r["relative"] ** 2 for r in self.residuals) / len(self.residuals)))

    @property
    def largest(self) -> float:
        """The largest relative residual."""
        return max(abs(float(r["relative"])) for r in self.residuals)

    def __str__(self) -> str:
        lines = []
        for f in self.parameters:
            error = "not determined" if f.error is None else f"+- {f.error:.3g}"
            lines.append(f"{f.parameter.name} = {f.text}  ({error}{', at its bound' if f.at_bound else ''})")
        lines.append(f"residuals: {100 * self.rms:.2f} % (root mean square), {100 * self.largest:.2f} % (largest)")
        names = [n for n in self.residuals[0] if n not in ("measured", "simulated", "relative")]
        for r in self.residuals:
            where = ", ".join(str(r[n]) for n in names)
            lines.append(
                f"  {where}: {r['measured']:.6g} measured, {r['simulated']:.6g} simulated, "
                f"{100 * r['relative']:+.2f} %"
            )
        lines.append(
            f"rank {self.rank} of {len(self.parameters)}, condition {self.condition:.3g}; "
            f"{self.evaluations} sets of values were tried"
        )
        return "\n".join([*lines, *(f"warning: {p}" for p in self.problems)])

    def _repr_html_(self) -> str:
        rows = [(f.parameter.name, str(f.text), f.error) for f in self.parameters]
        return table(rows, ("parameter", "value", "standard error"))


def read_target(target: Target, base: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a target."""
    if not isinstance(target, (str, os.PathLike)):
        return [dict(r) for r in target]
    path = base / pathlib.Path(target)
    try:
        with open(path, newline="", encoding="utf-8") as f:
            lines = [line for line in f if not line.startswith("#")]
    except OSError as e:
        raise Error(f"{path}: it cannot be read: {e.strerror}") from None
    return [dict(r) for r in csv.DictReader(lines)]


class _Problem:
    """Residuals as a function of the parameters, from 0 to 1 in their ranges."""

    def __init__(
        self, study: Study, rows: list[dict[str, Any]], figure: str, parameters: list[Parameter], how: dict[str, Any]
    ) -> None:
        self._study, self._figure, self._parameters, self._how = study, figure, parameters, how
        if not rows:
            raise Error("the target has no rows: expected values of axes with what was measured")
        if any(figure not in r for r in rows):
            raise Error(f"the target has no column `{figure}`: it has {', '.join(rows[0])}")
        self._measured = [float(r[figure]) for r in rows]
        if any(m == 0 or not math.isfinite(m) for m in self._measured):
            raise Error("a measured figure is 0 or no number: residuals are relative to it")
        self._where = [{n: v for n, v in r.items() if n != figure} for r in rows]
        names = {*study.axes, *(n for n, _ in study._derived)}
        for n in self._where[0]:
            if n not in names:
                raise Error(
                    f"the target has the column `{n}`, which is no axis of the study: {', '.join(sorted(names))}"
                )
        self._known: dict[tuple[float, ...], list[float]] = {}

    def values(self, x: Sequence[float]) -> tuple[float, ...]:
        """Possible values of the parameters."""
        return tuple(p.rounded(p.low + float(s) * (p.high - p.low)) for p, s in zip(self._parameters, x))

    def simulate(self, wanted: Sequence[tuple[float, ...]]) -> None:
        """Runs the study with several sets of values at once."""
        new = [v for v in dict.fromkeys(wanted) if v not in self._known]
        if not new:
            return
        sets = [{p.name: p.text(v) for p, v in zip(self._parameters, values)} for values in new]
        before = self._study.keys.get("points", [])
        lists = [before] if before and not isinstance(before[0], list) else list(before)
        keys = {**self._study.keys, "points": [*lists, sets], "name": f"{self._study.name}-fit"}
        done = driver.run(Study(base=self._study.base, **keys), view=False, **self._how)
        if done.failures:
            r, why = done.failures[0]
            raise Error(f"a run of the fit has failed: {r.values}: {why}")
        for values, texts in zip(new, sets):
            rows = [r for r in done.rows if all(r[n] == t for n, t in texts.items())]
            self._known[values] = [self._mean(rows, where) for where in self._where]

    def _mean(self, rows: list[dict[str, Any]], where: dict[str, Any]) -> float:
        of = [r for r in rows if all(plain(r[n]) == plain(v) or str(r[n]) == str(v) for n, v in where.items())]
        found = [r.get(self._figure) for r in of]
        if not found:
            raise Error(f"the study has no point {where}, which the target has")
        if any(not isinstance(v, (int, float)) for v in found):
            names = ", ".join(n for n, v in of[0].items() if isinstance(v, (int, float)))
            raise Error(f"the results have no figure `{self._figure}` at {where}; they have {names}")
        return sum(found) / len(found)  # type: ignore[arg-type]

    def residuals(self, x: Sequence[float]) -> list[float]:
        """Relative residuals."""
        values = self.values(x)
        self.simulate([values])
        return [s / m - 1 for s, m in zip(self._known[values], self._measured)]

    def jacobian(self, x: Sequence[float]) -> list[list[float]]:
        """Their derivatives, by differences between possible values."""
        here = self.values(x)
        moved: list[tuple[tuple[float, ...], float]] = []
        for i, p in enumerate(self._parameters):
            width = p.high - p.low
            far = p.change or max(_STEP * width, p.step or 0.0)
            to = p.rounded(here[i] + far)
            if here[i] + far > p.high:
                to = p.rounded(here[i] - far)
            there = (*here[:i], to, *here[i + 1 :])
            moved.append((there, (to - here[i]) / width))
        self.simulate([here, *(v for v, _ in moved)])
        base = self._known[here]
        columns = [
            [(s - b) / m / d for s, b, m in zip(self._known[v], base, self._measured)] if d else [0.0] * len(base)
            for v, d in moved
        ]
        return [list(row) for row in zip(*columns)]

    def rows(self, x: Sequence[float]) -> list[dict[str, Any]]:
        """What was measured beside what comes out."""
        residuals = self.residuals(x)
        simulated = self._known[self.values(x)]
        return [
            {**w, "measured": m, "simulated": s, "relative": r}
            for w, m, s, r in zip(self._where, self._measured, simulated, residuals)
        ]

    @property
    def count(self) -> int:
        """How many sets of values were tried."""
        return len(self._known)


def fit(
    study: Study,
    target: Optional[Target] = None,
    *,
    figure: Optional[str] = None,
    parameters: Optional[Mapping[str, Any]] = None,
    store: Optional[PathLike] = None,
    jobs: Optional[int] = None,
    engine: Any = None,
    evaluations: int = 30,
) -> Fit:
    """Finds values with which the runs of a study have the figures that were measured.

    What is not given is in the study's table `[fit]`: `target`, `figure`, and `[fit.parameters]` with `from`, `to`,
    `start`, `step`, `unit` by name. Runs are kept in the study's store.

    Args:
        target: rows of values of axes with the measured figure in a column of its name, or a CSV file of them.
        figure: which figure of the results, such as `time_us`.
        parameters: what is looked for, and in which bounds.
        evaluations: sets of values that are tried, at most, those of the derivatives not counted.

    Raises:
        Error: the target does not fit the study, there is less data than parameters, or a run has failed.
    """
    try:
        import numpy
        from scipy.optimize import least_squares
    except ImportError as e:
        raise ImportError("fitting needs SciPy: pip install 'nagori[fit]'") from e
    given = study.keys.get("fit", {})
    unknown("[fit]", given, {"target", "figure", "parameters"})
    target = target if target is not None else given.get("target")
    figure = figure or given.get("figure")
    if target is None or figure is None:
        raise Error("a fit needs a target (what was measured) and a figure (what it is in the results)")
    wanted = parameters if parameters is not None else given.get("parameters", {})
    looked = [Parameter.read(n, p) for n, p in wanted.items()]
    if not looked:
        raise Error("a fit needs parameters: what is looked for, and in which bounds")
    how = {"store": store or driver.place(study), "jobs": jobs, "engine": engine}
    problem = _Problem(study, read_target(target, study.base), figure, looked, how)
    if len(problem._measured) < len(looked):
        raise Error(f"{len(problem._measured)} measured figures cannot determine {len(looked)} parameters")
    start = [(p.start - p.low) / (p.high - p.low) for p in looked]
    # Within the bounds, as the method wants it.
    start = [min(max(s, 1e-6), 1 - 1e-6) for s in start]
    done = least_squares(
        lambda x: numpy.array(problem.residuals(x)),
        start,
        jac=lambda x: numpy.array(problem.jacobian(x)),
        bounds=(0, 1),
        xtol=1e-4,
        ftol=1e-6,
        gtol=1e-9,
        max_nfev=evaluations,
    )
    best = list(done.x)
    return _judged(problem, looked, best, numpy, bool(done.status == 0))


def _judged(problem: _Problem, looked: list[Parameter], best: list[float], numpy: Any, ran_out: bool) -> Fit:
    values = problem.values(best)
    rows = problem.rows(best)
    jacobian = numpy.array(problem.jacobian(best))
    _, effects, directions = numpy.linalg.svd(jacobian, full_matrices=True)
    effects = numpy.append(effects, numpy.zeros(len(looked) - len(effects)))
    largest = float(effects[0])
    strong = [bool(e > _WEAK * largest) for e in effects] if largest > 0 else [False] * len(looked)
    rank = sum(strong)
    condition = largest / float(min(e for e, s in zip(effects, strong) if s)) if rank else math.inf
    weak = [directions[i] for i in range(len(looked)) if not strong[i]]
    freedom = len(rows) - rank
    spread = sum(r["relative"] ** 2 for r in rows) / freedom if freedom > 0 else math.nan
    fitted = []
    for i, p in enumerate(looked):
        lost = any(abs(d[i]) > 0.1 for d in weak)
        variance = sum((directions[k][i] / effects[k]) ** 2 for k in range(len(looked)) if strong[k])
        error = None if lost or freedom <= 0 else math.sqrt(spread * variance) * (p.high - p.low)
        at_bound = values[i] in (p.rounded(p.low), p.rounded(p.high))
        fitted.append(Fitted(p, values[i], error, at_bound))
    undetermined = [{p.name: round(float(d[i]), 3) for i, p in enumerate(looked) if abs(d[i]) > 0.1} for d in weak]
    problems = [_told(u, looked) for u in undetermined]
    problems += [f"{f.parameter.name} is at its bound: the best value may lie beyond" for f in fitted if f.at_bound]
    problems += [
        f"the data hardly determine {f.parameter.name}: its standard error is {f.error:.3g}; measure something that it "
        "changes more, or average over seeds"
        for f in fitted
        if f.error is not None and f.error > _VAGUE * (f.parameter.high - f.parameter.low)
    ]
    if ran_out:
        problems.append("the number of evaluations was used up before the fit had settled")
    return Fit(fitted, rows, rank, condition, undetermined, problem.count, problems)


def _told(direction: dict[str, float], looked: list[Parameter]) -> str:
    """What the data cannot tell, for people."""
    names = list(direction)
    if len(names) == 1:
        return f"the data do not depend on {names[0]}: it stays where it was"
    widths = {p.name: p.high - p.low for p in looked}
    first = names[0]
    # What stays the same while the parameters move along the direction.
    moves = {n: direction[n] * widths[n] for n in names}
    rest = ", ".join(f"{n} {moves[n] / moves[first]:+.3g}" for n in names[1:])
    return (
        f"the data cannot tell {', '.join(names)} apart: the figures stay the same where {first} changes by 1 "
        f"and {rest}; "
        "fix some of them, or measure something that they change differently"
    )
