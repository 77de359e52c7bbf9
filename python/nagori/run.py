"""What a run has cost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from . import _tables
from ._nagori import Error
from ._tree import Time, Tree, table


@dataclass(frozen=True)
class Problem:
    """Something that makes figures incomplete or misleading."""

    what: str
    """A word for programs."""
    message: str
    """For people."""
    meaningless: bool
    """Whether the figures that were asked for do not exist."""


class Run:
    """A run that has ended: how, what it printed, and what it has cost."""

    def __init__(self, program: Sequence[str], result: str, stdout: bytes, stderr: bytes) -> None:
        self.program = tuple(program)
        """The program and its arguments."""
        self.result = Tree(json.loads(result))
        """Everything, as `nagori run --json` has it."""
        self.stdout = stdout
        """Standard output; of a bare-metal program, its console."""
        self.stderr = stderr
        """Standard error."""

    @property
    def output(self) -> str:
        """Standard output as text."""
        return self.stdout.decode(errors="replace")

    @property
    def exit_code(self) -> int:
        """The exit code that the command would have."""
        return int(self.result["end"]["exit_code"])

    @property
    def ended(self) -> str:
        """How it ended: `exit`, `off`, `timeout`, ..."""
        return str(self.result["end"]["why"])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What makes the figures incomplete or misleading."""
        return tuple(Problem(**p) for p in self.result["problems"])

    @property
    def summary(self) -> Tree:
        """The most important figures.

        Raises:
            Error: the figures that were asked for do not exist.
        """
        summary = self.result["summary"]
        if summary is None:
            raise Error("; ".join(p.message for p in self.problems if p.meaningless))
        assert isinstance(summary, Tree)
        return summary

    @property
    def time(self) -> Time:
        """Machine time."""
        return Time(self.summary["guest_time_ps"])

    @property
    def instructions(self) -> int:
        """Instructions of all harts."""
        return int(self.summary["instructions"])

    @property
    def cycles(self) -> int:
        """Cycles in which harts were not idle, summed over all harts."""
        return int(self.summary["busy_cycles"])

    @property
    def cpi(self) -> Optional[float]:
        """Cycles for each instruction; `None` without instructions."""
        cpi = self.summary["cpi"]
        return None if cpi is None else float(cpi)

    @property
    def dram(self) -> Tree:
        """What DRAM was asked for, and how long that took."""
        part: Tree = self.summary["dram"]
        return part

    @property
    def nvmm(self) -> Tree:
        """What NVMM was asked for, and how long that took."""
        part: Tree = self.summary["nvmm"]
        return part

    @property
    def stats(self) -> Tree:
        """All counters: by hart, cache, bank."""
        stats: Tree = self.result["statistics"]
        return stats

    def check(self) -> "Run":
        """This run.

        Raises:
            Error: the exit code is not 0.
        """
        if self.exit_code != 0:
            why = self.result["end"]["message"] or f"its exit code is {self.exit_code}"
            said = self.stderr.decode(errors="replace").strip()
            raise Error(f"{' '.join(self.program)}: {why}" + (f"\n{said}" if said else ""))
        return self

    def row(self) -> dict[str, Any]:
        """The most important figures as a flat row, units in names."""
        of = self.summary.flat()
        row: dict[str, Any] = {"time_us": self.time.us}
        row.update((name.replace(".", "_"), value) for name, value in of.items() if name != "guest_time_ps")
        return row

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries and lists."""
        return self.result.to_dict()

    def to_frame(self) -> Any:
        """The most important figures as a pandas DataFrame of one row."""
        return _tables.frame([self.row()])

    def to_arrow(self) -> Any:
        """The most important figures as an Arrow table of one row."""
        return _tables.arrow([self.row()])

    def __repr__(self) -> str:
        name = " ".join(self.program)
        if self.result["summary"] is None:
            return f"<Run of {name}: {self.ended}, without figures>"
        return f"<Run of {name}: {self.ended}, {self.time}, {self.instructions} instructions>"

    def _repr_html_(self) -> str:
        if self.result["summary"] is None:
            return table([(p.message,) for p in self.problems], ("no figures",))
        rows = [("program", " ".join(self.program)), ("ended", f"{self.ended}, {self.exit_code}")]
        return table([*rows, *self.row().items()], ("", str(self.result["machine"])))
