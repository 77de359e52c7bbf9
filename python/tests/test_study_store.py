"""Stores of results: names, leases, damaged files, two stores as one."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import nagori as ng
from nagori.study.lease import Leases
from nagori.study.store import Damaged, Store, sealed
from nagori.study.upkeep import merge

KEY = "ab" + "0" * 62


class Clock:
    """A clock that is told what time it is."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def of_host(directory: pathlib.Path, host: str, clock: Clock) -> Leases:
    return Leases(directory, host=host, clock=clock, beat=3600, expiry=90)


def test_one_of_many_has_a_lease(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    a, b = of_host(tmp_path, "a", clock), of_host(tmp_path, "b", clock)
    assert a.take(KEY) and not b.take(KEY) and not a.take(KEY)
    assert b.take("cd" + KEY)
    a.release(KEY)
    assert b.take(KEY) and not a.take(KEY)


def test_a_lease_of_another_host_ends_when_nothing_is_heard_of_it(tmp_path: pathlib.Path) -> None:
    a, clock = of_host(tmp_path, "a", Clock()), Clock()
    b, c = of_host(tmp_path, "b", clock), of_host(tmp_path, "c", clock)
    assert a.take(KEY) and not b.take(KEY)
    clock.now = 80
    assert not b.take(KEY) and not c.take(KEY)
    # A beat: 90 seconds from the next look.
    os.utime(next(tmp_path.glob("ab*")), ns=(7, 7))
    clock.now = 100
    assert not b.take(KEY)
    clock.now = 189
    assert not b.take(KEY)
    clock.now = 191
    assert b.take(KEY)
    # Of two that wait only one gets it, and the one that comes back does not take it away.
    assert not c.take(KEY)
    a.release(KEY)
    assert not c.take(KEY)
    b.release(KEY)
    assert c.take(KEY)


def test_clocks_that_jump_do_not_end_a_lease(tmp_path: pathlib.Path) -> None:
    a, clock = of_host(tmp_path, "a", Clock()), Clock()
    b = of_host(tmp_path, "b", clock)
    assert a.take(KEY) and not b.take(KEY)
    lease = next(tmp_path.glob("ab*"))
    for beat, wall in enumerate([2_000_000_000, 0, 4_000_000_000], start=1):
        # What the holder's wall clock says is in no file; only whether the count has changed matters.
        os.utime(lease, ns=(beat, beat))
        clock.now += 60
        assert not b.take(KEY), wall


def test_a_lease_of_a_process_that_has_ended_is_free_at_once(tmp_path: pathlib.Path) -> None:
    script = "import sys; from nagori.study.lease import Leases; import pathlib, os\n"
    script += f"assert Leases(pathlib.Path({str(tmp_path)!r})).take({KEY!r}); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    mine = Leases(tmp_path)
    assert "process" in mine.holder(KEY)
    assert mine.take(KEY)
    mine.sweep()
    mine.close()
    assert not list(tmp_path.iterdir())


def test_a_holder_beats(tmp_path: pathlib.Path) -> None:
    a = Leases(tmp_path, beat=0.001)
    assert a.take(KEY)
    lease = next(tmp_path.glob("ab*"))
    before = lease.stat().st_mtime_ns
    while lease.stat().st_mtime_ns == before:
        pass
    assert lease.stat().st_mtime_ns < 10**9
    a.close()


def test_a_result_is_whole_or_not_there(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path / "s")
    assert store.get(KEY) is None and not store.has(KEY)
    data = store.put(KEY, {"a": 1})
    assert store.put(KEY, {"a": 1}) == data
    found = store.get(KEY)
    assert found is not None and found["a"] == 1
    assert json.loads(data)["sha256"] and store.present() == {KEY}
    with pytest.raises(ng.Error, match="another result: a is 1 and 2"):
        store.put(KEY, {"a": 2})
    # What the power has left.
    store.path(KEY).write_bytes(data[:-4])
    with pytest.raises(Damaged, match="it is damaged"):
        store.get(KEY)
    assert store.put(KEY, {"a": 1}) == data == store.path(KEY).read_bytes()


def test_what_is_no_store_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ng.Error, match="no store of results, and not empty"):
        Store(tmp_path)
    with pytest.raises(ng.Error, match="there is no store"):
        Store(tmp_path / "none", create=False)
    store = Store(tmp_path / "s")
    (store.directory / "store.json").write_text('{"format": 99}')
    with pytest.raises(ng.Error, match="version 99"):
        Store(store.directory)


def test_stores_are_merged(tmp_path: pathlib.Path) -> None:
    a, b = Store(tmp_path / "a"), Store(tmp_path / "b")
    other, third, fourth = ("cd" + "0" * 62, "ef" + "0" * 62, "ee" + "0" * 62)
    a.put(KEY, {"a": 1})
    b.put(KEY, {"a": 1})
    b.put(other, {"a": 2})
    a.put(third, {"a": 3})
    b.put(third, {"a": 4})
    b.put(fourth, {"a": 5})
    b.path(fourth).write_bytes(sealed({"a": 5})[:-1])
    done = merge(a, b.directory)
    assert (done.new, done.same, done.damaged) == (1, 1, [fourth])
    assert done.differing == [(third, "a is 3 and 4")]
    assert a.present() == {KEY, other, third}
