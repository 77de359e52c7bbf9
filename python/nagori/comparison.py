"""A program under several methods and memories, with several seeds."""

import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Optional, Union

from . import _tables
from ._nagori import Cancel
from ._options import PathLike
from ._tree import table
from .machine import Machine
from .own import AnyMemory
from .run import Run

_METHODS = ("dram", "coarse", "fine", "extended")


class Comparison:
    """Runs of a program, and what they have cost beside one another.

    `relative` is the time over that of the first variant with the same seed.
    """

    def __init__(self, runs: dict[tuple[str, Optional[int]], Run]) -> None:
        self.runs = runs
        """By variant and seed, in the order in which they were asked for."""

    @property
    def variants(self) -> list[str]:
        """Methods and memories, in order."""
        return list(dict.fromkeys(variant for variant, _ in self.runs))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each run."""
        first = self.variants[0]
        return [
            {
                "variant": variant,
                "seed": seed,
                "relative": run.time.ps / self.runs[first, seed].time.ps,
                **run.row(),
            }
            for (variant, seed), run in self.runs.items()
        ]

    def summary(self) -> list[dict[str, Any]]:
        """A row for each variant: means over the seeds, and how far the relative times are apart."""
        rows = []
        for variant in self.variants:
            of = [r for r in self.rows if r["variant"] == variant]
            relative = [r["relative"] for r in of]
            rows.append(
                {
                    "variant": variant,
                    "runs": len(of),
                    "time_us": statistics.fmean(r["time_us"] for r in of),
                    "relative": statistics.fmean(relative),
                    "relative_stdev": statistics.stdev(relative) if len(of) > 1 else None,
                    "relative_min": min(relative),
                    "relative_max": max(relative),
                    "cpi": statistics.fmean(r["cpi"] for r in of),
                    "nvmm_reads": statistics.fmean(r["nvmm_reads"] for r in of),
                    "nvmm_writes": statistics.fmean(r["nvmm_writes"] for r in of),
                }
            )
        return rows

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _tables.frame(self.rows)

    def to_arrow(self) -> Any:
        """The rows as an Arrow table."""
        return _tables.arrow(self.rows)

    def plot(self) -> Any:
        """Relative times as an Altair chart: bars are means, points are runs."""
        try:
            import altair
        except ImportError as e:
            raise ImportError("a plot needs Altair: pip install altair") from e
        data = altair.Data(values=self.rows)
        x = altair.X("variant:N", sort=self.variants, title=None)
        title = f"time, relative to {self.variants[0]}"
        bars = altair.Chart(data).mark_bar().encode(x=x, y=altair.Y("mean(relative):Q", title=title))
        points = altair.Chart(data).mark_circle(color="black")
        points = points.encode(x=x, y="relative:Q", tooltip=["seed:N", "time_us:Q"])
        return bars + points

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.variants)}: {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        rows = self.summary()
        return table([tuple(r.values()) for r in rows], tuple(rows[0]))


def compare(
    program: Union[PathLike, Sequence[PathLike]],
    *,
    machine: Union[Machine, PathLike] = "vc707",
    methods: Optional[Sequence[str]] = None,
    memories: Optional[Sequence[AnyMemory]] = None,
    repeats: int = 1,
    seed: Optional[int] = None,
    jobs: Optional[int] = None,
    bare: bool = False,
    **options: Any,
) -> Comparison:
    """Runs a program under each method and with each memory behind NVMM, several machines at a time.

    Args:
        program: the program and its arguments; with `bare` the file of a bare-metal program.
        methods: delay methods; all of them if neither these nor memories are given.
        memories: memories behind NVMM; also classes of `MemoryModel`.
        repeats: runs of each, with consecutive seeds.
        seed: the first seed; 1 if there are repeats, else none.
        jobs: machines at a time; one for each core of the host.
        options: those of `Machine.run`, or of `Machine.bare`; `placement` is `nvmm` unless it is given.

    Raises:
        Error: a run has failed; the others are ended.
    """
    board = machine if isinstance(machine, Machine) else Machine(machine)
    if repeats < 1:
        raise ValueError(f"repeats: {repeats}: expected at least 1")
    if methods is None:
        methods = () if memories else _METHODS
    seeds: list[Optional[int]] = [seed]
    if repeats > 1:
        first = 1 if seed is None else seed
        seeds = list(range(first, first + repeats))
    if bare and (repeats > 1 or seed is not None):
        raise ValueError("a bare-metal program has no seeds")
    cancel = Cancel()
    if not bare:
        options.setdefault("placement", "nvmm")

    def work(**variant: Any) -> Callable[[], Run]:
        if bare:
            assert not isinstance(program, (list, tuple))
            elf: Any = program
            return lambda: board.bare(elf, cancel=cancel, **variant, **options)
        argv: Any = [program] if isinstance(program, (str, os.PathLike)) else program
        return lambda: board.run(argv, cancel=cancel, **variant, **options)

    by_seed = [{} if s is None else {"seed": s} for s in seeds]
    wanted = {
        (getattr(value, "__name__", str(value)), s): work(**{kind: value}, **with_seed)
        for kind, values in (("method", methods), ("memory", memories or ()))
        for value in values
        for s, with_seed in zip(seeds, by_seed)
    }
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        begun = {key: pool.submit(run) for key, run in wanted.items()}
        try:
            wait(begun.values(), return_when=FIRST_EXCEPTION)
            failed = [f for f in begun.values() if f.done() and f.exception()]
            if failed:
                failed[0].result()
        except BaseException:
            cancel.set()
            for future in begun.values():
                future.cancel()
            raise
        return Comparison({key: future.result().check() for key, future in begun.items()})
