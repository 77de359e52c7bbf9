"""Crash exploration: contents of NVMM after a power cut from which software does not recover."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Optional, Union

from . import _nagori
from ._nagori import Cancel
from ._options import Option, PathLike, log, options, settings
from ._tree import Tree, table
from .machine import Machine

#: Given the output of recovery and check, and the labels of the workload's markers: what is wrong, or `None`.
Checker = Callable[[bytes, list[str]], Optional[str]]


class Exploration:
    """What an exploration has found."""

    def __init__(self, report: str) -> None:
        self.report = Tree(json.loads(report))
        """Everything, as `nagori crash --json` has it."""

    @property
    def findings(self) -> tuple[Tree, ...]:
        """Contents from which the software does not recover: `message`, `text`, `stores` that were lost, `count`."""
        findings: tuple[Tree, ...] = self.report["findings"]
        return findings

    @property
    def warnings(self) -> tuple[Tree, ...]:
        """Mistakes that show without a crash, such as flushes of what is clean."""
        warnings: tuple[Tree, ...] = self.report["warnings"]
        return warnings

    @property
    def coverage(self) -> Tree:
        """How much of what a cut could leave was tried."""
        coverage: Tree = self.report["coverage"]
        return coverage

    def __repr__(self) -> str:
        return f"<Exploration: {len(self.findings)} findings in {self.report['recoveries']} recoveries>"

    def _repr_html_(self) -> str:
        rows = [(f["id"], f["message"], f["count"]) for f in self.findings]
        return table(rows, ("finding", "message", "contents"))


def crash(
    workload: str,
    recover: str,
    *,
    setup: Optional[str] = None,
    check: Optional[str] = None,
    checker: Optional[Checker] = None,
    machine: Union[Machine, PathLike] = "vc707",
    file: Optional[Mapping[str, str]] = None,
    oracle: Optional[Literal["prefix"]] = None,
    rootfs: Optional[PathLike] = None,
    jobs: Optional[int] = None,
    budget_states: Optional[int] = None,
    budget_time_s: Optional[float] = None,
    seed: Optional[int] = None,
    fail_fast: bool = False,
    cancel: Optional[Cancel] = None,
    more: Sequence[str] = (),
) -> Exploration:
    """Cuts the power at every point of a workload, and recovers from all that may be left, as `nagori crash` does.

    Args:
        workload: shell command during which the power is cut.
        recover: shell command that recovers.
        setup: shell command that makes the content of NVMM at the beginning.
        check: shell command that checks what was recovered.
        checker: called in this process, possibly by several threads one after the other, after each recovery that has
            succeeded; says what is wrong.
        file: files of the host, and their absolute paths in the guest.
        more: further options of `nagori crash`, such as `--order=commit`.
    """
    board = machine if isinstance(machine, Machine) else Machine(machine)
    given: dict[str, Option] = {
        "machine": board.name,
        "set": [*settings(board.set)],
        "setup": setup,
        "workload": workload,
        "recover": recover,
        "check": check,
        "file": [f"{host}:{guest}" for host, guest in (file or {}).items()],
        "oracle": oracle,
        "rootfs": rootfs,
        "jobs": jobs,
        "budget_states": budget_states,
        "budget_time": budget_time_s,
        "seed": seed,
        "fail_fast": fail_fast,
    }
    return Exploration(_nagori.crash(["crash", *options(**given), *more], checker, log, cancel))
