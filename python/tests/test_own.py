"""Memories and prefetchers that are written in Python."""

import pathlib
from collections.abc import Iterable
from typing import Optional

import numpy as np
import pytest

import nagori as ng


class Queue(ng.MemoryModel):
    """One request after the other."""

    def __init__(self) -> None:
        self.free = 0
        self.calls = 0

    def access(self, at_ps: int, address: int, bytes: int, write: bool) -> int:
        self.calls += 1
        self.free = max(self.free, at_ps) + (300_000 if write else 100_000)
        return self.free


class Broken(ng.MemoryModel):
    def access(self, at_ps: int, address: int, bytes: int, write: bool) -> int:
        raise ZeroDivisionError("mine")


class Early(ng.MemoryModel):
    def access(self, at_ps: int, address: int, bytes: int, write: bool) -> int:
        return at_ps - 1


class NextLine(ng.Prefetcher):
    def access(self, hart: int, pc: int, address: int, kind: str) -> Optional[Iterable[int]]:
        return (line for line in [address + 64])


def test_times_are_those_of_the_model() -> None:
    memory = ng.Memory(Queue)
    played = memory.play([0, 64, 128, 0], [False, True, False, False], mode="dependent")
    assert (played.latency_ns == [100, 300, 100, 100]).all()
    again = memory.play([0, 64, 128, 0], [False, True, False, False], mode="dependent")
    assert (again.completed_ps == played.completed_ps).all()
    assert played.result.memory == "Queue" and played.stats.regions[0].counters.writes == 1
    at_once = memory.play(np.arange(10) * 64, times_ps=[5000] * 10)
    assert (at_once.completed_ps == 5000 + 100_000 * np.arange(1, 11)).all()
    assert "Queue" in memory._repr_html_()


def test_a_machine_has_it_behind_its_nvmm(loop: pathlib.Path) -> None:
    model = Queue()
    board = ng.Machine("vc707")
    run = board.bare(loop, memory=lambda: model)
    assert model.calls == run.nvmm.reads + run.nvmm.writes > 0
    assert run.time == board.bare(loop, memory=Queue).time
    assert run.time > board.bare(loop, memory="ddr4").time
    region = run.stats.memories[0]
    assert (region.name, region.model) == ("nvmm", "Queue")
    found = ng.compare(loop, memories=["ddr4", Queue], bare=True)
    assert found.variants == ["ddr4", "Queue"] and found.rows[1]["relative"] > 1


def test_a_prefetcher_does_what_the_same_one_of_rust_does(loop: pathlib.Path) -> None:
    one = {"l1d.degree": 1, "l1d.distance": 1, "l1d.mshrs": 2}
    rust = ng.Machine("vc707", set={**one, "l1d.prefetcher": "next-line"}).bare(loop)
    mine = ng.Machine("vc707", set=one).bare(loop, prefetchers={"l1d": NextLine})
    assert mine.stats.to_dict() == rust.stats.to_dict()
    none = ng.Machine("vc707", set=one).bare(loop)
    assert mine.time != none.time


def test_exceptions_end_the_run(loop: pathlib.Path) -> None:
    with pytest.raises(ZeroDivisionError, match="mine"):
        ng.Memory(Broken).play([0])
    board = ng.Machine("vc707")
    with pytest.raises(ZeroDivisionError, match="mine"):
        board.bare(loop, memory=Broken)
    with pytest.raises(ValueError, match="Early.access returned .* expected a later time"):
        board.bare(loop, memory=Early)
    with pytest.raises(NotImplementedError, match="MemoryModel has no access"):
        board.bare(loop, memory=ng.MemoryModel)
    with board.start(loop, memory=Broken) as m, pytest.raises(ZeroDivisionError, match="mine"):
        m.run()


def test_what_is_wrong_is_said(loop: pathlib.Path) -> None:
    board = ng.Machine("vc707")
    with pytest.raises(TypeError, match="made already"):
        board.bare(loop, memory=Queue())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="makes a nagori.MemoryModel"):
        board.bare(loop, memory=dict)  # type: ignore[arg-type]
    with pytest.raises(ng.Error, match="cache.l9"):
        board.bare(loop, prefetchers={"cache.l9": NextLine})
    with pytest.raises(TypeError, match="no description"):
        ng.Memory(Queue).description  # noqa: B018
    small = type("Small", (Queue,), {"capacity": 4096})
    with pytest.raises(ng.Error, match="memory Small: 0x1000 bytes, and region nvmm has"):
        board.bare(loop, memory=small)
    clockless = type("Clockless", (Queue,), {"clock": "5"})
    with pytest.raises(ValueError, match="Clockless.clock: '5' is not a clock"):
        ng.Memory(clockless).play([0])


def test_a_live_machine_cannot_be_copied(loop: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop, memory=Queue) as m:
        m.until("marker:1")
        with pytest.raises(ng.Error, match="memory Queue was brought along"):
            m.fork()
        with pytest.raises(ng.Error, match="memory Queue was brought along"):
            m.snapshot(tmp_path / "s")
        m.run()
        assert m.costs.nvmm.reads > 0
