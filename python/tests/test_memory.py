"""Memories alone."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import nagori as ng


def test_times_are_those_of_the_command(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(1)
    addresses = 64 * rng.integers(0, 1 << 20, 5000, dtype=np.uint64)
    writes = rng.random(5000) < 0.3
    trace = tmp_path / "trace.txt"
    lines = [f"{'ST' if w else 'LD'} {a:#x}" for a, w in zip(addresses.tolist(), writes.tolist())]
    trace.write_text("\n".join(lines) + "\n")
    played = ng.Memory("ddr4").play(addresses, writes)
    command = [sys.executable, "-m", "nagori", "-q", "mem", "run", "--memory", "ddr4", "--trace", str(trace), "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    of_command = json.loads(done.stdout)
    for host in ("cpu_seconds", "requests_per_cpu_second"):
        del of_command[host]
    of_arrays = played.result.to_dict()
    for name in ("trace", "format"):
        del of_command[name], of_arrays[name]
    assert of_arrays == of_command
    # What the arrays say is what the summary says.
    reads = played.latency_ns[~writes]
    assert reads.mean() == pytest.approx(played.result.read_latency_avg_ns, rel=1e-9)
    assert played.completed_ps.max() == played.result.answered
    assert (np.diff(played.accepted_ps.astype(np.int64)) >= 0).all()


def test_times_given_are_times_kept() -> None:
    times = np.arange(100, dtype=np.uint64) * 1_000_000
    played = ng.Memory("ddr4").play(np.arange(100) * 64, times_ps=times)
    assert (played.accepted_ps >= times).all()
    # A microsecond is long enough for each, but for refreshes.
    assert (played.completed_ps < times + 1_000_000).all()


def test_dependent_accesses_do_not_overlap() -> None:
    addresses = (np.arange(200) * 7919 * 64) % (1 << 28)
    played = ng.Memory("pcm").play(addresses, mode="dependent", think="5 ns")
    assert (played.accepted_ps[1:] >= played.completed_ps[:-1] + 5000).all()


def test_an_access_over_lines_ends_with_its_last_line() -> None:
    one = ng.Memory("ddr4").play([32], bytes=64)
    assert one.result.requests == 2 and one.latency_ns[0] > 0


def test_nothing_is_played_into_a_memory_that_was_used() -> None:
    memory = ng.Memory("board", set={"board.method": "extended"})
    first, second = (memory.play([0, 64, 8192], True) for _ in range(2))
    assert (first.completed_ps == second.completed_ps).all()
    assert first.result.writes == 3 and first.stats.regions
    assert memory.description["board.method"].value.strip('"') == "extended"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ng.Memory("ddr9"), ng.Error, "ddr9"),
        (lambda: ng.Memory("ddr4", set={"timings.tRDC": "15 ns"}), ng.Error, "tRDC"),
        (lambda: ng.Memory("ddr4").play([-64]), ValueError, "below 0"),
        (lambda: ng.Memory("ddr4").play([0.5]), TypeError, "whole numbers"),
        (lambda: ng.Memory("ddr4").play([[0]]), ValueError, "one dimension"),
        (lambda: ng.Memory("ddr4").play([1 << 50]), ng.Error, "record 1"),
        (lambda: ng.Memory("ddr4").play([0, 64], times_ps=[5]), ng.Error, "times_ps has 1"),
        (lambda: ng.Memory("ddr4").play([0, 64], times_ps=[5, 4]), ng.Error, "goes back"),
        (lambda: ng.Memory("ddr4").play([0], mode="fast"), ng.Error, "expected saturated"),  # type: ignore[arg-type]
        (lambda: ng.Memory("ddr4").play([0], mode="paced"), ng.Error, "interval"),
        (lambda: ng.Memory("ddr4").play([0], mode="paced", interval="5"), ng.Error, "interval"),
        (lambda: ng.Memory("ddr4").play([0], bytes=0), ng.Error, "bytes: 0: expected 1 to 4096"),
    ],
)
def test_what_is_wrong_is_said(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()  # type: ignore[operator]


def test_nothing_takes_no_time() -> None:
    played = ng.Memory("ddr4").play([])
    assert len(played.completed_ps) == 0 and played.time.ps == 0 and played.bandwidth_gb_per_s is None
    assert "<table>" in played._repr_html_()
