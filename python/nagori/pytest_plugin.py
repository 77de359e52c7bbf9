"""pytest-nagori: what programs cost, kept in tests.

A test runs a program with the fixture `nagori`, and compares its costs with a file:

    def test_insert(nagori, assert_cost):
        run = nagori.run(["./kv", "1000"], placement="nvmm", method="extended")
        assert_cost(run, "kv.toml")

Runs are repeatable to the cycle, so costs are compared exactly, unless a tolerance is given. `pytest --nagori-update`
writes the file.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import sys
from typing import Any, Optional, Union

import pytest

from .live import Live
from .machine import Machine
from .run import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Number = Union[int, float]

_HEAD = "# Costs, which pytest-nagori compares; `pytest --nagori-update` writes them. Lines may be left out.\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nagori")
    update = "write the files of costs instead of comparing with them"
    group.addoption("--nagori-update", action="store_true", help=update)
    group.addoption("--nagori-machine", default="vc707", metavar="NAME|PATH", help="machine of the fixture [vc707]")


def costs(run: Run) -> dict[str, Number]:
    """What of a run is kept."""
    return {
        "guest_time_ps": run.time.ps,
        "busy_cycles": run.cycles,
        "instructions": run.instructions,
        "dram_reads": run.dram["reads"],
        "dram_writes": run.dram["writes"],
        "nvmm_reads": run.nvmm["reads"],
        "nvmm_writes": run.nvmm["writes"],
    }


def _read(file: pathlib.Path) -> dict[str, dict[str, Number]]:
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _write(file: pathlib.Path, name: str, now: dict[str, Number]) -> None:
    """Replaces one table of the file; several processes may do so at a time."""
    with open(file, "a+", encoding="utf-8") as open_file:
        fcntl.flock(open_file, fcntl.LOCK_EX)
        tables = {**_read(file), name: now}
        text = _HEAD
        for table, values in sorted(tables.items()):
            text += f'\n["{table}"]\n' + "".join(f"{key} = {value}\n" for key, value in values.items())
        open_file.truncate(0)
        open_file.write(text)


class Costs:
    """Compares the costs of runs with files beside the test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._beside = request.path.parent
        self._update = bool(request.config.getoption("--nagori-update"))
        self._name = request.node.name

    def __call__(
        self,
        run: Run,
        file: Union[str, os.PathLike[str]],
        *,
        name: Optional[str] = None,
        tolerance: float = 0.0,
    ) -> None:
        """Fails if a recorded cost of the run is another one now.

        Args:
            run: the run; its exit code has to be 0.
            file: the file of costs, beside the test.
            name: the table in the file; the test's name if none is given.
            tolerance: greatest relative difference, such as 0.02.
        """
        __tracebackhide__ = True
        run.check()
        path, table, now = self._beside / file, name or self._name, costs(run)
        if self._update:
            _write(path, table, now)
            return
        known = _read(path).get(table)
        if known is None:
            pytest.fail(f"{path} has no costs of `{table}`: pytest --nagori-update writes them")
        unknown = sorted(known.keys() - now.keys())
        if unknown:
            pytest.fail(f"{path}, `{table}`: there is no cost {unknown[0]}; there are {', '.join(now)}")
        wrong = [
            f"  {key}: {then} recorded, {now[key]} now ({_change(then, now[key])})"
            for key, then in known.items()
            if abs(now[key] - then) > tolerance * abs(then)
        ]
        if wrong:
            within = f" by more than {tolerance:.1%}" if tolerance else ""
            text = "\n".join([*wrong, "(pytest --nagori-update writes them anew)"])
            pytest.fail(f"costs of `{table}` differ from {path}{within}:\n{text}")


def _change(then: Number, now: Number) -> str:
    return f"{(now - then) / then:+.2%}" if then else "new"


class Nagori:
    """The fixture `nagori`: the machine of the command line, or another one."""

    def __init__(self, machine: str) -> None:
        self._machine = machine

    def machine(self, machine: Optional[str] = None, **options: Any) -> Machine:
        """A machine; its keywords are those of `nagori.Machine`."""
        return Machine(machine or self._machine, **options)

    def run(self, program: list[str], **options: Any) -> Run:
        """Runs a program in Debian; keywords are those of `Machine.run`."""
        return self.machine().run(program, **options)

    def bare(self, elf: Union[str, os.PathLike[str]], **options: Any) -> Run:
        """Runs a bare-metal program; keywords are those of `Machine.bare`."""
        return self.machine().bare(elf, **options)

    def start(self, elf: Union[str, os.PathLike[str]], **options: Any) -> Live:
        """A live machine with a bare-metal program; keywords are those of `Machine.start`."""
        return self.machine().start(elf, **options)


@pytest.fixture
def nagori(request: pytest.FixtureRequest) -> Nagori:
    """Runs programs on modelled machines."""
    return Nagori(str(request.config.getoption("--nagori-machine")))


@pytest.fixture
def assert_cost(request: pytest.FixtureRequest) -> Costs:
    """Compares what a run has cost with a file beside the test."""
    return Costs(request)
