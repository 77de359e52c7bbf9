"""Studies that run: what is made once, what ends it, and what it says."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import nagori as ng
from conftest import build
from nagori.study import driver, plan
from nagori.study.host import Changed
from nagori.study.store import Store
from nagori.study.work import Maker

SWEEP = [sys.executable, "-m", "nagori.sweep"]


@pytest.fixture
def here(tmp_path: pathlib.Path, loop: pathlib.Path, failing: pathlib.Path, endless: pathlib.Path) -> pathlib.Path:
    for name, elf in (("loop", loop), ("failing", failing), ("endless", endless)):
        shutil.copy(elf, tmp_path / f"{name}.elf")
    return tmp_path


def study(here: pathlib.Path, **keys: Any) -> ng.Study:
    given = {"kind": "bare", "program": "loop.elf", "axes": {"method": ["dram", "extended"]}, **keys}
    return ng.Study(base=here, **given)


def sweep(here: pathlib.Path, *args: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run([*SWEEP, *args], cwd=here, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def contents(store: Store) -> dict[str, bytes]:
    return {k: store.path(k).read_bytes() for k in store.present()}


def test_results_are_those_of_single_runs_and_made_once(here: pathlib.Path) -> None:
    s = study(here, axes={"method": ["dram", "extended"], "set.harts": [1, 2]})
    done = s.run(jobs=2)
    assert done.counts == {"there": 0, "made": 4, "failed": 0} and len(done) == 4
    row = done.rows[-1]
    alone = ng.Machine("vc707", set={"harts": 2}).bare(here / "loop.elf", method="extended")
    assert (row["method"], row["set.harts"], row["time_us"]) == ("extended", 2, alone.time.us)
    assert done.run(row["key"]).to_dict() == alone.to_dict() and done.run(row["key"]).output == "hi"
    before = contents(done.store)
    again = s.run(jobs=1)
    assert again.counts == {"there": 4, "failed": 0} and contents(done.store) == before
    # Another order of work, another number of processes, another place: equal bytes.
    elsewhere = s.run(here / "elsewhere", jobs=1)
    assert contents(elsewhere.store) == before
    assert [h["host"] for h in done.hosts()] and "seconds" not in json.dumps(done.raw(row["key"])["provenance"])


def test_what_can_change_a_result_changes_its_name(here: pathlib.Path, loop: pathlib.Path) -> None:
    store = Store(here / "s")

    def keys(**more: Any) -> list[str]:
        return plan.make(study(here, **more), store).keys

    first = keys()
    assert keys() == first and len(set(first)) == 2
    tras = "memory.controller.delays.tras"
    assert keys(set={tras: "300 ns"}) != first
    # Other ways to say the same, and what has no effect on results.
    assert keys(set={tras: "300 ns"}) == keys(set={tras: "300000 ps"})
    assert keys(options={"engine": "interpreter"}) == first
    assert keys(options={"warm_up": 1}) != first
    shutil.copy(here / "loop.elf", here / "copy.elf")
    assert keys(program="./loop.elf") != first
    os.utime(here / "loop.elf")
    assert keys() == first
    with open(here / "loop.elf", "ab") as f:
        f.write(b"\0")
    assert keys() != first
    # A description that a machine's file names lies beside it.
    ng.Machine("vc707").description.save(here / "mine.toml")
    mine = keys(options={"machine": "mine.toml"})
    text = (here / "mine.toml").read_text()
    (here / "mine.toml").write_text(text.replace("clock_hz = 50000000", "clock_hz = 100000000"))
    assert keys(options={"machine": "mine.toml"}) != mine


def test_windows_of_a_sampled_run_are_runs_of_a_study(here: pathlib.Path) -> None:
    nagori = [sys.executable, "-m", "nagori", "-q"]
    lengths = ["--window-length=2000", "--warm-up=1000", "--windows=20"]
    sampled = ["bare", "--timing=sampled", *lengths, "--windows-to=windows", "--method=extended"]
    subprocess.run([*nagori, *sampled, build(here, rounds=3000)], cwd=here, check=True, capture_output=True)
    windows = sorted((here / "windows").iterdir())
    assert len(windows) > 20
    s = ng.Study(base=here, kind="window", program="windows")
    done = s.run(jobs=2)
    assert done.counts == {"there": 0, "made": len(windows), "failed": 0}, done.failures
    by_hand = subprocess.run([*nagori, "window", "run", "--json=-", *windows[:3]], capture_output=True, check=True)
    assert [done.raw(r["key"])["result"] for r in done.rows[:3]] == json.loads(by_hand.stdout)
    whole = [r for r in done.rows if not r["cut"]]
    assert len(whole) > 15 and all(r["instructions"] >= 2000 and r["time_us"] > 0 for r in whole)
    # One that was written since is one more run.
    shutil.copy(windows[0], here / f"windows/window-{len(windows):06}.snap")
    (here / "w.toml").write_text('kind = "window"\nprogram = "windows"\n')
    sweep(here, "run", "w.toml", "--store", str(done.store.directory))
    assert len(ng.Study(here / "w.toml").results(done.store.directory)) == len(windows) + 1
    sweep(here, "report", "w.toml", "--store", str(done.store.directory), "--output", "w.html")
    assert f"{len(windows) + 1}" in (here / "w.html").read_text()
    named = ng.Study(base=here, kind="window", programs={"a": {"windows": "windows"}})
    assert named.axes == ["program", "sampled_window"] and len(list(named.points())) == len(windows) + 1
    with pytest.raises(ng.Error, match="there are no windows in it"):
        ng.Study(base=here, kind="window", program="nothing")


def test_a_program_that_changes_meanwhile_is_noticed(here: pathlib.Path) -> None:
    store = Store(here / "s")
    first, second = plan.make(study(here), store).tasks()
    maker = Maker(store)
    assert maker.execute(first)["status"] == "made"
    with open(here / "loop.elf", "ab") as f:
        f.write(b"\0")
    with pytest.raises(Changed, match=r"loop.elf \(program\) has changed"):
        maker.execute(second)
    with pytest.raises(Changed, match="another version"):
        maker.execute({**second, "parts": {**second["parts"], "model": "0"}})
    assert len(store.present()) == 1 and not store.present("failures")


def test_impossible_points_are_found_before_the_first_run(here: pathlib.Path) -> None:
    s = study(here, axes={"set.memory.controller.delays.tras": ["300 ns", "301 ns"]})
    with pytest.raises(ng.Error, match="tras = 301 ns is not possible: .*whole number of clocks"):
        s.run()
    assert not Store(driver.place(s)).present()
    with pytest.raises(ng.Error, match="method = slow is not possible: .*dram, coarse"):
        study(here, axes={"method": ["slow"]}).run()
    with pytest.raises(ng.Error, match="none.elf: it cannot be read"):
        study(here, program="none.elf").run()
    with pytest.raises(ng.Error, match="no point is left"):
        study(here, where=["method == 'fine'"]).run()


def test_failures_are_kept_and_made_again_alone(here: pathlib.Path) -> None:
    s = study(here, program="{p}.elf", axes={"p": ["loop", "failing"], "method": ["dram"]}, name="f")
    done = s.run(jobs=2)
    assert done.counts == {"there": 0, "made": 1, "failed": 1}
    [(failed, why)] = done.failures
    assert failed.values["p"] == "failing" and "exit code is 7" in why
    assert s.run().counts == {"there": 1, "failed": 1}
    # Mended: its name is another one now, for its bytes are.
    again = s.run(failed=True)
    assert again.counts == {"there": 1, "failed": 1} and len(again.failures) == 1
    allowed = study(here, program="failing.elf", exit_codes=[0, 7]).run(here / "f.results")
    assert allowed.counts["made"] == 2 and allowed.rows[0]["exit_code"] == 7


def test_other_kinds(here: pathlib.Path) -> None:
    s = ng.Study(
        base=here,
        kind="mem",
        options={"trace": "gen:random,count=2000"},
        axes={"memory": ["ddr4", "pcm"], "set.controller.page": ["open", "closed"]},
    )
    rows = s.run().rows
    assert len(rows) == 4 and len({r["read_latency_avg_ns"] for r in rows}) == 4
    assert all("cpu" not in name for name in rows[0])


def test_a_worker_that_is_killed_costs_nothing(here: pathlib.Path) -> None:
    # The program takes hours, so the process is there to be killed; then the next one is.
    (here / "study.toml").write_text(
        'kind = "bare"\nprogram = "{p}.elf"\nname = "k"\n[axes]\np = ["endless", "loop"]\n'
    )
    process = subprocess.Popen([*SWEEP, "run", "study.toml", "-j", "1"], cwd=here, stderr=subprocess.PIPE, text=True)
    killed: set[int] = set()
    while process.poll() is None:
        for lease in (here / "k.results" / "leases").glob("[0-9a-f]*"):
            pid = holder(lease)
            if pid in children(process.pid) - killed and len(killed) < 2:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.001)
    assert process.returncode == 1 and len(killed) == 2
    assert process.stderr is not None and "its process ended by signal 9" in process.stderr.read()
    store = Store(here / "k.results")
    assert len(store.present()) == 1 and len(store.present("failures")) == 1


def holder(lease: pathlib.Path) -> int:
    try:
        return int(json.loads(lease.read_text())["pid"])
    except (OSError, ValueError):
        return 0


def children(pid: int) -> set[int]:
    try:
        return set(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return set()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_ends_loses_at_most_what_is_under_way(here: pathlib.Path, how: signal.Signals) -> None:
    (here / "study.toml").write_text(
        'kind = "bare"\nprogram = "loop.elf"\nname = "k"\n[axes]\nwarm_up = {from = 1, to = 40}\n'
    )
    process = subprocess.Popen([*SWEEP, "run", "study.toml", "-j", "2"], cwd=here, stderr=subprocess.DEVNULL)
    results = here / "k.results" / "results"
    while len(list(results.glob("*/*.json"))) < 5 and process.poll() is None:
        time.sleep(0.001)
    before = {p: p.read_bytes() for p in results.glob("*/*.json") if p.name[0] != "."}
    process.send_signal(how)
    process.wait()
    assert all(p.read_bytes() == data for p, data in before.items()) and len(before) >= 5
    done = json.loads(sweep(here, "run", "study.toml", "--json").stdout)
    assert done["there"] >= len(before) and done["failed"] == 0
    assert len(Store(here / "k.results").present()) == 40
    assert not list((here / "k.results").glob("leases/[0-9a-f]*"))
    # Each was made once, but for those that were under way.
    made = [h["key"] for h in Store(here / "k.results").hosts()]
    assert len(made) <= 42 and len(set(made)) <= 40


def test_two_drivers_share_a_store(here: pathlib.Path) -> None:
    (here / "study.toml").write_text(
        'kind = "bare"\nprogram = "loop.elf"\nname = "k"\n[axes]\nwarm_up = {from = 1, to = 40}\n'
    )
    command = [*SWEEP, "run", "study.toml", "-j", "1", "--json"]
    both = [subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [json.loads(p.communicate()[0]) for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert sum(s["made"] for s in said) == 40
    made = [h["key"] for h in Store(here / "k.results").hosts()]
    assert len(made) == len(set(made)) == 40


def test_the_command_from_the_first_run_to_the_table(here: pathlib.Path) -> None:
    (here / "study.toml").write_text(
        'kind = "bare"\nprogram = "loop.elf"\nname = "k"\n[axes]\nmethod = ["dram", "fine"]\n'
    )
    assert "2 runs over method (2); 2 to make" in sweep(here, "run", "-n", "study.toml").stdout
    assert not (here / "k.results").exists()
    assert "2 of 2 results are in k.results, 2 new" in sweep(here, "run", "study.toml").stdout
    assert "0 to make" in sweep(here, "run", "-n", ".").stdout
    listed = json.loads(sweep(here, "list", ".", "--json").stdout)
    assert [r["values"] for r in listed] == [{"method": "dram"}, {"method": "fine"}]
    assert listed[1]["command"] == "nagori bare --method=fine loop.elf"
    shown = json.loads(sweep(here, "show", "k.results", listed[0]["key"][:12]).stdout)
    assert shown["result"]["end"]["exit_code"] == 0
    sweep(here, "export", ".", "t.csv")
    assert (here / "t.csv").read_text().splitlines()[1].startswith("dram,0,")
    assert "made again: 2; different now: 0" in sweep(here, "verify", ".", "--share", "100%").stdout
    # A result that was changed is known, and one that is not this run's.
    path = Store(here / "k.results").path(listed[0]["key"])
    path.write_bytes(path.read_bytes().replace(b'"cpi"', b'"cpj"'))
    assert "damaged: 1" in sweep(here, "verify", ".", code=1).stdout
    assert not path.exists()
    sweep(here, "run", ".")
    sweep(here, "export", ".", "t.tar.gz")
    assert "2 results are new" in sweep(here, "merge", "other", "t.tar.gz").stdout
    assert contents(Store(here / "other")) == contents(Store(here / "k.results"))
    # What the study does not need any more is removed, and nothing else.
    (here / "study.toml").write_text(
        'kind = "bare"\nprogram = "loop.elf"\nname = "k"\n[axes]\nmethod = ["fine", "coarse"]\n'
    )
    sweep(here, "run", ".")
    assert sweep(here, "gc", "k.results", "--dry-run").stdout.startswith("1 results")
    sweep(here, "gc", "k.results")
    assert len(Store(here / "k.results").present()) == 2
    assert "no such study" in sweep(here, "run", "none.toml", code=1).stderr
    (here / "bad.toml").write_text("[axs]\n")
    assert (
        "bad.toml: a study: there is no key `axs`; did you mean axes" in sweep(here, "run", "bad.toml", code=1).stderr
    )
