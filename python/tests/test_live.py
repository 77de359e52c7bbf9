"""Live machines."""

import os
import pathlib
import signal
import threading

import pytest

import nagori as ng

NVMM = 0xC000_0000


def test_a_machine_stands_where_it_is_told(loop: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop) as m:
        assert m.reg(0, "pc") == 0x8000_0000 and m.halt is None
        m.until("marker:1")
        assert m.reg(0, "t0") == m.reg(0, "x5") == 1
        assert m.console == "hi"
        assert m.read(NVMM, 8) == bytes(8)
        m.until("fence:1")
        assert m.read(NVMM, 8) == (1).to_bytes(8, "little")
        assert [label.value for label in m.labels] == [1]
        m.run()
        assert m.halt == ng.Halt("off", 0)
        assert m.read(NVMM, 8) == (10).to_bytes(8, "little")
        assert [label.value for label in m.labels] == [1, 2]
        assert m.labels[0].time < m.labels[1].time


def test_markers_and_fences_do_not_change_the_time(loop: pathlib.Path) -> None:
    board = ng.Machine("vc707")
    with board.start(loop) as m:
        m.until("marker:1").until("fence:1").until("fence:7").until("marker:2").run()
        assert m.costs.summary.to_dict() == board.bare(loop).summary.to_dict()
        assert m.costs.exit_code == 0


def test_the_method_changes_on_the_way(loop: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop) as m:
        m.until("marker:1")
        m.method = "extended"
        assert m.method == "extended" and m.parameters.method["name"] == "extended"
        m.run()
        slow = m.time
        with pytest.raises(ng.Error, match="there is no method `slow`"):
            m.method = "slow"
    with ng.Machine("vc707", set={"method": "dram"}).start(loop) as m:
        assert m.run().time < slow


def test_forks_go_their_own_ways(loop: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop) as m:
        m.until("marker:1")
        with m.fork() as f:
            f.write(NVMM, (100).to_bytes(8, "little"))
            f.run()
            assert f.read(NVMM, 8) == (110).to_bytes(8, "little")
            assert f.halt == ng.Halt("off", 0)
        m.run()
        assert m.read(NVMM, 8) == (10).to_bytes(8, "little")
        assert m.costs.time == ng.Machine("vc707").bare(loop).time


def test_commits_are_what_the_harts_do(loop: pathlib.Path) -> None:
    with ng.Machine("vc707", set={"harts": 1}).start(loop) as m:
        first, second = m.commits(2)
        assert (first.pc, second.pc) == (0x8000_0000, 0x8000_0004)
        assert first.cycle < second.cycle and not first.trapped
        m.until("marker:1")
        stores = [a for c in m.commits(40) for a in c.accesses if a.kind == "write"]
        assert stores[0].paddr == NVMM and stores[0].value == 1
        with pytest.raises(ng.Error, match="expected 1 to 1000000"):
            m.commits(10**7)


def test_a_point_that_does_not_come_is_an_error(loop: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop) as m:
        with pytest.raises(ng.Error, match="did not come to marker:9: it ended by itself"):
            m.until("marker:9")
        with pytest.raises(ng.Error, match="behind the machine already"):
            m.until("insn:1")
        with pytest.raises(ng.Error, match="expected insn:N"):
            m.until("cycle:1")


def test_what_does_not_exist_is_an_error(loop: pathlib.Path) -> None:
    with ng.Machine("vc707", set={"harts": 1}).start(loop) as m:
        for wrong in (
            lambda: m.reg(1, "a0"),
            lambda: m.reg(0, "a9"),
            lambda: m.reg(0, "x32"),
            lambda: m.read(0, 8),
            lambda: m.read(NVMM, 8, hart=3),
            lambda: m.write(0, b"x"),
            lambda: m.csr(0, 0xFFF),
        ):
            with pytest.raises(ng.Error, match="there is no|has no"):
                wrong()
        assert m.csr(0, 0xF14) == 0
    with pytest.raises(ng.Error, match="closed"):
        m.reg(0, "a0")
    with pytest.raises(ng.Error, match="/none.elf"):
        ng.Machine("vc707").start("/none.elf")


def test_control_c_stops_a_machine_that_can_go_on(endless: pathlib.Path) -> None:
    with ng.Machine("vc707").start(endless) as m:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            m.run()
        there = m.instructions
        assert there > 0
        m.until(f"insn:{there + 1000}")
        assert m.instructions == there + 1000


def test_a_snapshot_is_a_file_of_the_command(loop: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with ng.Machine("vc707").start(loop) as m:
        m.until("marker:1").snapshot(tmp_path / "there.snap")
    assert (tmp_path / "there.snap").stat().st_size > 0


def test_a_machine_that_nobody_closes_does_not_hold_up_the_end(endless: pathlib.Path) -> None:
    m = ng.Machine("vc707").start(endless)
    m.until("marker:1")
    del m
