"""Machines: what is wrong with them, their descriptions, and runs of bare-metal programs."""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import nagori as ng

COMMAND = [sys.executable, "-m", "nagori"]


def test_a_run_has_what_the_command_reports(loop: pathlib.Path) -> None:
    run = ng.Machine("vc707").bare(loop, method="extended")
    assert run.exit_code == 0 and run.ended == "off"
    assert run.output == "hi"
    command = [*COMMAND, "-q", "bare", "--method", "extended", "--stats", "json", str(loop)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr
    of_command = json.loads(done.stdout[done.stdout.index(b"{") :])
    del of_command["host"], of_command["end"], of_command["problems"]
    assert run.stats.to_dict() == of_command
    assert run.time.ps == of_command["elapsed_ps"]


def test_the_same_run_costs_the_same_in_every_thread(loop: pathlib.Path) -> None:
    board = ng.Machine("vc707")
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: board.bare(loop), range(4)))
    assert len({json.dumps(r.to_dict(), sort_keys=True) for r in runs}) == 1


def test_figures_are_a_tree_with_units(loop: pathlib.Path) -> None:
    run = ng.Machine("vc707", set={"harts": 2}).bare(loop, method="fine")
    assert run.nvmm.reads > 0 and run.nvmm["reads"] == run.nvmm.reads
    assert run.time == run.stats.elapsed == ng.Time(run.stats.elapsed_ps)
    assert run.time.us == pytest.approx(run.time.ps / 1e6)
    assert run.cpi == pytest.approx(run.cycles / run.instructions)
    assert len(run.stats.harts) == 2
    assert run.row()["nvmm_reads"] == run.nvmm.reads
    assert run.stats.flat()["harts.1.hart"] == 1
    with pytest.raises(AttributeError, match="there is no `raeds`; there are .*reads"):
        run.nvmm.raeds  # noqa: B018
    assert "<table>" in run._repr_html_() and "<table>" in run.stats._repr_html_()


def test_methods_differ(loop: pathlib.Path) -> None:
    board = ng.Machine("vc707")
    assert board.bare(loop, method="dram").time < board.bare(loop, method="extended").time


def test_an_exit_code_is_no_exception_until_asked(failing: pathlib.Path) -> None:
    run = ng.Machine("vc707").bare(failing)
    assert run.exit_code == 7
    with pytest.raises(ng.Error, match="exit code is 7"):
        run.check()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ng.Machine("vc706"), "vc707"),
        (lambda: ng.Machine("vc707", set={"harts": 0}), "harts"),
        (lambda: ng.Machine("vc707", set={"memory.sise": "2 GiB"}), "memory.sise"),
        (lambda: ng.Machine("vc707").bare("/none.elf"), "/none.elf"),
        (lambda: ng.Machine("vc707").bare("/none.elf", method="slow"), "dram, coarse, fine, extended"),
        (lambda: ng.Machine("vc707").run(["./none"], placement="ssd"), "expected dram, nvmm, heap"),
    ],
)
def test_what_is_wrong_has_the_text_of_the_command(make: object, text: str) -> None:
    with pytest.raises(ng.Error) as e:
        make()  # type: ignore[operator]
    assert text in str(e.value) and "Usage" not in str(e.value) and "\n\n" not in str(e.value)


def test_figures_that_do_not_exist_are_an_error(loop: pathlib.Path) -> None:
    run = ng.Machine("vc707").bare(loop, warm_up=10**9)
    assert run.problems[0].meaningless
    with pytest.raises(ng.Error, match="warm-up"):
        run.time  # noqa: B018
    assert "no figures" in run._repr_html_()


def test_warnings_are_logged(loop: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    board = ng.Machine("vc707", nvmm_image="/none.img")
    with caplog.at_level(logging.INFO, "nagori"), pytest.raises(ng.Error, match="/none.img"):
        board.bare(loop)


def test_a_run_is_cancelled_from_another_thread(endless: pathlib.Path) -> None:
    cancel = ng.Cancel()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(ng.Error, match="ended by signal 2"):
        ng.Machine("vc707").bare(endless, cancel=cancel)


def test_control_c_ends_a_run(endless: pathlib.Path) -> None:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ng.Machine("vc707").bare(endless)


def test_python_goes_on_while_a_machine_runs(endless: pathlib.Path) -> None:
    cancel = ng.Cancel()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(ng.Machine("vc707").bare, endless, cancel=cancel)
        # While the lock is held, this thread would not come to count.
        for _ in range(50):
            assert not run.done()
            time.sleep(0.001)
        cancel.set()
        with pytest.raises(ng.Error):
            run.result()


def test_a_description_has_origins_and_is_written_as_toml(tmp_path: pathlib.Path, loop: pathlib.Path) -> None:
    board = ng.Machine("vc707", set={"harts": 2, "memory.nvmm_boundary": "2 GiB", "method": "fine"})
    assert board.description["harts"] == ng.Value("harts", 2, board.description["harts"].unit, "override")
    assert board.description["clock_hz"].origin == "given"
    with pytest.raises(KeyError, match="did you mean memory.size"):
        board.description["mem.size"]
    file = tmp_path / "mine.toml"
    board.description.save(file)
    again = ng.Machine(file)
    assert {k: v.value for k, v in again.description.items()} == {k: v.value for k, v in board.description.items()}
    assert again.description.to_toml() == board.description.to_toml()
    assert again.bare(loop).time == board.bare(loop).time


@pytest.mark.parametrize("name", ng.machine_names())
def test_every_machine_can_be_written_as_toml(name: str, tmp_path: pathlib.Path) -> None:
    board = ng.Machine(name)
    board.description.save(tmp_path / "copy.toml")
    copy = ng.Machine(tmp_path / "copy.toml")
    assert {k: v.value for k, v in copy.description.items()} == {k: v.value for k, v in board.description.items()}


def test_the_command_is_the_same(tmp_path: pathlib.Path) -> None:
    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*COMMAND, *args], capture_output=True, text=True)

    assert run("--version").stdout == f"nagori {ng.__version__}\n"
    wrong = run("rnu")
    assert wrong.returncode == 2 and "run" in wrong.stderr
    assert json.loads(run("machine", "show", "vc707", "--json").stdout)["values"]
