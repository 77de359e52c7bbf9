"""Live machines: they stand, run up to a point, and are looked at."""

import json
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

from . import _nagori
from ._nagori import Error
from ._options import PathLike
from ._tree import Time, Tree, table
from .run import Run

#: Machine time between two looks at the console.
_LOOK_PS = 200_000_000_000


@dataclass(frozen=True)
class Halt:
    """Why a machine stands."""

    why: str
    """`point`; `idle`: nothing can happen any more, but for input; `off`: it has ended; ..."""
    exit_code: Optional[int] = None
    """That of the guest, if it has ended itself."""
    message: Optional[str] = None
    """For people, if the rest does not say it."""


@dataclass(frozen=True)
class Label:
    """A label that a program has set by a marker."""

    value: int
    text: Optional[str]
    """The value as characters, if it is some."""
    time: Time
    hart: int
    instructions: int
    """Instructions of all harts before it."""


@dataclass(frozen=True)
class Access:
    """An access of an instruction to memory."""

    kind: str
    """`read`, `write`, `clean`, `flush` or `flush-all`."""
    vaddr: int
    paddr: int
    size: int
    value: Optional[int]
    """`None` above 64 bits."""


@dataclass(frozen=True)
class Commit:
    """An instruction that was executed, or has trapped."""

    hart: int
    cycle: int
    """Core cycle of its issue."""
    pc: int
    word: int
    """Its bits."""
    trapped: bool
    accesses: tuple[Access, ...]


class Live:
    """A machine that stands, and runs when it is told to.

    `Machine.start` and `Machine.boot` make one. It is a context manager: at its end the machine is gone.
    """

    def __init__(self, program: list[str], live: _nagori.Live) -> None:
        self._program = program
        self._live = live
        self._halt: Optional[Halt] = None
        # Where the next text is looked for in what the console has shown.
        self._found = 0

    def __enter__(self) -> "Live":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the machine."""
        self._live.close()

    def until(self, when: str) -> "Live":
        """Runs up to a point: `marker:LABEL[:N]`, `insn:N`, `time:DURATION`, `nvmm-write:N`, `fence:N` or `flush:N`.

        Instructions and time count from the machine's start, the others from now.

        Raises:
            Error: the machine has ended, or waits for ever, before that.
            KeyboardInterrupt: after Ctrl-C; the machine stands, and can go on.
        """
        self._go(when)
        halt = self.halt
        if halt is None or halt.why != "point":
            why = "nothing can happen any more"
            if halt is not None and halt.why != "idle":
                why = halt.message or f"it ended by itself ({halt.why}, exit code {halt.exit_code})"
            raise Error(f"the machine did not come to {when}: {why}")
        return self

    def until_console(self, text: str, *, within_s: float = 60.0) -> "Live":
        """Runs until the console shows a text that no call before has found; looks every 200 ms of machine time.

        Args:
            within_s: machine time after which it is an error.

        Raises:
            Error: the machine has ended, or the time is over, before that.
            KeyboardInterrupt: after Ctrl-C; the machine stands, and can go on.
        """
        now = self.time.ps
        last = now + int(within_s * 1e12)
        while True:
            console = self._live.console()[0]
            at = console.find(text.encode(), self._found)
            if at >= 0:
                self._found = at + len(text.encode())
                return self
            if now >= last:
                raise Error(f"the console has not shown {text!r} within {within_s} s of machine time")
            now = min(now + _LOOK_PS, last)
            self.until(f"time:{now} ps")

    def run(self) -> "Live":
        """Runs to the end, or until nothing could happen any more; `halt` says which.

        A system that waits at its prompt has timers, and runs on: `until_console` stops it there.
        """
        self._go(None)
        return self

    def _go(self, when: Optional[str]) -> None:
        self._halt = None
        self._halt = Halt(**json.loads(self._live.go(when)))

    @property
    def halt(self) -> Optional[Halt]:
        """Why the machine stands; `None` before it has run."""
        return self._halt

    def commits(self, instructions: int) -> list[Commit]:
        """Runs for so many instructions of all harts, at most a million, and returns what they did."""
        found = json.loads(self._live.commits(instructions))
        return [Commit(**{**c, "accesses": tuple(Access(**a) for a in c["accesses"])}) for c in found]

    def fork(self) -> "Live":
        """Another machine that goes on from here; memory is shared until it is stored to."""
        return Live(self._program, self._live.fork())

    def snapshot(self, path: PathLike) -> None:
        """Saves the machine to a file, from which `nagori resume` goes on."""
        self._ask("snapshot", path=os.path.abspath(path))

    def reg(self, hart: int, name: str) -> int:
        """A register of a hart: `pc`, or an integer register such as `a0`, `sp`, `x10`."""
        return self._live.reg(hart, name)

    def set_reg(self, hart: int, name: str, value: int) -> None:
        """Sets a register of a hart."""
        self._live.set_reg(hart, name, value)

    def csr(self, hart: int, number: int) -> int:
        """A control and status register of a hart, by number."""
        return self._live.csr(hart, number)

    def read(self, address: int, length: int, hart: Optional[int] = None) -> bytes:
        """Reads memory as harts see it, by physical addresses or by virtual ones of a hart."""
        return self._live.read(address, length, hart)

    def write(self, address: int, data: bytes, hart: Optional[int] = None) -> None:
        """Writes memory, whatever the permissions."""
        self._live.write(address, data, hart)

    @property
    def console(self) -> str:
        """What the console has shown so far."""
        return self._live.console()[0].decode(errors="replace")

    def type(self, text: str) -> None:
        """Types something at the console."""
        self._live.type_text(text.encode())

    def _ask(self, method: str, **parameters: Any) -> Tree:
        return Tree(json.loads(self._live.ask(method, json.dumps(parameters))))

    @property
    def status(self) -> Tree:
        """Time, mode, method, and where the harts are."""
        return self._ask("status")

    @property
    def time(self) -> Time:
        """Machine time."""
        return Time(1000 * int(self.status["time_ns"]))

    @property
    def instructions(self) -> int:
        """Instructions of all harts."""
        return int(self.status["instructions"])

    @property
    def method(self) -> str:
        """The delay method of NVMM, which can be set."""
        return str(self.status["method"])

    @method.setter
    def method(self, name: str) -> None:
        self.set(method=name)

    @property
    def timed(self) -> bool:
        """Whether the timing model is on, which can be set."""
        return bool(self.status["timed"])

    @timed.setter
    def timed(self, on: bool) -> None:
        self.set(timed=on)

    @property
    def parameters(self) -> Tree:
        """All parameters that can be set while a machine runs, with their meaning."""
        parameters: Tree = self._ask("parameters")["parameters"]
        return parameters

    def set(self, **values: Union[bool, int, str]) -> None:
        """Sets parameters by name, all or none: `set(method="fine", coarse_read="300 ns")`."""
        self._ask("set", values=values)

    @property
    def stats(self) -> Tree:
        """All counters since the start, or since `reset_stats`."""
        report: Tree = self._ask("statistics")["report"]
        return report

    def reset_stats(self) -> None:
        """Starts the counters anew."""
        self._ask("reset_statistics")

    @property
    def labels(self) -> list[Label]:
        """Labels that programs have set so far, in order."""
        return [
            Label(
                value=x["value"],
                text=x["text"],
                time=Time(x["time_ps"]),
                hart=x["hart"],
                instructions=x["instructions"],
            )
            for x in self.stats["labels"]
        ]

    @property
    def costs(self) -> Run:
        """What the machine has cost so far, in the form of a run."""
        return Run(self._program, self._live.result(), *self._live.console())

    def __repr__(self) -> str:
        return f"<Live machine with {' '.join(self._program)}: {self.halt.why if self.halt else 'not started'}>"

    def _repr_html_(self) -> str:
        head = ("hart", "pc", "privilege", "instructions", "cycles")
        harts = [{**h, "pc": hex(h["pc"])} for h in self.status["harts"]]
        return table([[h[name] for name in head] for h in harts], head)
