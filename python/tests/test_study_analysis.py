"""What results say: effects, outliers, fronts, reports, fits."""

import json
import pathlib
import urllib.error
import urllib.request
from threading import Thread
from typing import Any

import pytest

import nagori as ng
from conftest import build
from nagori.study import analysis, report, watch


def rows(**of: Any) -> list[dict[str, Any]]:
    found = []
    for a in (1, 2, 3):
        for b in ("x", "y"):
            for seed in (1, 2, 3, 4):
                value = 10.0 * a + (5 if b == "y" else 0) + (of.get("both", 0) if (a, b) == (3, "y") else 0)
                found.append({"a": a, "b": b, "seed": seed, "t": value + 0.001 * seed, "key": f"{a}{b}{seed}"})
    return found


def test_effects_are_the_analysis_of_variance() -> None:
    found = analysis.effects(rows(), ["a", "b"], "t")
    assert [e.axes for e in found.main] == [("a",), ("b",)] and found.balanced
    # Variances by hand: 10 * (1, 2, 3) has 200/3, and 0 or 5 has 25/4.
    total = 200 / 3 + 25 / 4
    assert [round(e.share, 4) for e in found.main] == [round(200 / 3 / total, 4), round(25 / 4 / total, 4)]
    assert found.main[0].at == (1, 3) and found.main[1].at == ("x", "y")
    assert found.interactions[0].share < 1e-6
    assert analysis.effects(rows(both=20), ["a", "b"], "t").interactions[0].share > 0.1
    assert not analysis.effects(rows()[:-1], ["a", "b"], "t").balanced
    with pytest.raises(ng.Error, match="no figure `u` in the results; there are a, seed, t"):
        analysis.effects(rows(), ["a"], "u")


def test_axes_with_many_values_are_looked_at_by_ranks() -> None:
    data = [{"x": f"{n} ns", "t": float(n * n)} for n in range(1, 50)]
    found = analysis.effects(data, ["x"], "t").main[0]
    assert found.by_ranks and found.share == pytest.approx(1) and found.at == (1, 49)


def test_intervals_are_students() -> None:
    m = analysis.mean([1.0, 2.0, 3.0])
    assert m.value == 2 and m.low == pytest.approx(2 - 4.303 / 3**0.5) and m.high == pytest.approx(2 + 4.303 / 3**0.5)
    assert analysis.mean([1.0]).low is None
    # Beyond the table: 2.009 at 50 degrees of freedom.
    m = analysis.mean([0.0, 2.0] * 25 + [1.0])
    assert m.high is not None and m.high - 1 == pytest.approx(2.009 * 1 / 51**0.5, rel=1e-3)


def test_outliers_are_found_among_repeats() -> None:
    data = rows()
    assert analysis.outliers(data, ["a", "b", "seed"], "t") == []
    data[5]["t"] += 1
    [found] = analysis.outliers(data, ["a", "b", "seed"], "t")
    assert found.key == data[5]["key"] and found.deviations > 5


def test_a_front_has_what_nothing_beats() -> None:
    data = [{"t": t, "e": e} for t, e in [(1, 9), (2, 5), (3, 5), (4, 1), (5, 2), (1, 9)]]
    front = analysis.pareto(data, {"t": "min", "e": "min"})
    assert [(r["t"], r["e"]) for r in front] == [(1, 9), (1, 9), (2, 5), (4, 1)]
    assert [r["t"] for r in analysis.pareto(data, {"t": "max", "e": "min"})] == [5, 4]
    with pytest.raises(ng.Error, match="expected min or max"):
        analysis.pareto(data, {"t": "least"})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, loop: pathlib.Path, failing: pathlib.Path) -> Any:
    here = tmp_path_factory.mktemp("study")
    s = ng.Study(
        base=here,
        kind="bare",
        program="{p}",
        title="Two methods",
        axes={"p": [str(loop), str(failing)], "method": ["dram", "extended"], "warm_up": [5, 10, 20]},
        report={"figures": ["time_us"], "pareto": [{"time_us": "min", "nvmm_reads": "max"}]},
    )
    return s.run(jobs=2)


def test_a_report_has_all_of_it(results: Any, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "r.json"
    report.write(results, "Two methods", file)
    made = json.loads(file.read_text())
    titles = [s["title"] for s in made["sections"]]
    assert titles == ["Study", "time", "Pareto fronts", "What failed", "All runs", "Provenance"]
    text = json.dumps(made)
    assert "exit code is 7" in text and "nagori bare --method=extended" in text and results.provenance["model"] in text
    effects = next(b["table"] for b in made["sections"][1]["blocks"] if "table" in b)
    assert effects["rows"][0][0] == "method"


def test_a_table_has_units_and_provenance(results: Any, tmp_path: pathlib.Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    results.save(tmp_path / "r.parquet")
    found = parquet.read_table(tmp_path / "r.parquet")
    assert found.num_rows == 6 and found.schema.field("time_us").metadata == {b"unit": b"us", b"role": b"figure"}
    assert found.schema.field("method").metadata[b"role"] == b"axis"
    assert json.loads(found.schema.metadata[b"nagori"])["model"] == results.provenance["model"]
    view = parquet.read_table(results.store.directory / "views" / "study.parquet")
    assert view.equals(found)


def test_a_notebook_is_python(results: Any, tmp_path: pathlib.Path) -> None:
    report.notebook(results, "Two methods", "study", tmp_path / "n.py")
    text = (tmp_path / "n.py").read_text()
    compile(text, "n.py", "exec")
    assert "time_us" in text and str(results.store.directory) in text


def test_a_watcher_sees_how_far_it_is(results: Any) -> None:
    state = watch.State(results).look()
    assert (state["runs"], state["done"], state["failed"]) == (12, 6, 6)
    assert "6 of 12 runs, 6 failed" in watch.shown(state)
    server, address = watch.page(results, None, 0, token="secret")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with urllib.request.urlopen(address.replace("/?", "/data?")) as answer:
            assert json.load(answer)["done"] == 6
        with urllib.request.urlopen(address) as answer:
            assert b"<svg" in answer.read()
        for wrong in (address.replace("secret", "guess"), address.split("?")[0]):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(wrong)
    finally:
        server.shutdown()
        server.server_close()


def test_a_fit_finds_what_a_machine_was_made_with(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("scipy")
    for rounds in (1, 20):
        build(tmp_path, rounds).rename(tmp_path / f"{rounds}.elf")

    def study(name: str, **keys: Any) -> ng.Study:
        return ng.Study(base=tmp_path, name=name, kind="bare", program="{n}.elf", axes={"n": [1, 20]}, **keys)

    # The first round reads from memory, the others take cycles.
    reads, clock = "set.board.read_request_ps", "set.clock_hz"
    truth = study("truth", set={"board.read_request_ps": 120_000, "clock_hz": 80_000_000})
    target = [{"n": r["n"], "time_us": r["time_us"]} for r in truth.run(jobs=1).rows]
    way = {"from": 0, "to": 500_000, "start": 50_000, "step": 1000}
    parameters = {reads: way, clock: {"from": 20e6, "to": 200e6, "start": 50e6, "step": 1e6}}
    found = ng.fit(study("s"), target, figure="time_us", parameters=parameters, jobs=1)
    assert found.rank == 2 and not found.problems, str(found)
    assert found.largest < 1e-3 and found.values[clock] == 80_000_000, str(found)
    # Measurements that contradict one another.
    noisy = [{**row, "time_us": row["time_us"] * by} for row in target for by in (0.5, 1.5)]
    found = ng.fit(study("s"), noisy, figure="time_us", parameters=parameters, jobs=1)
    assert f"hardly determine {clock}" in str(found), str(found)
    # Of the way there and the way back only the sum matters.
    both = {reads: way, "set.board.read_response_ps": way}
    found = ng.fit(study("s"), target, figure="time_us", parameters=both, jobs=1)
    told = f"cannot tell {reads}, set.board.read_response_ps apart"
    assert found.rank == 1 and told in str(found), str(found)
    with pytest.raises(ng.Error, match="1 measured figures cannot determine 2"):
        ng.fit(study("s"), target[:1], figure="time_us", parameters=both)
    with pytest.raises(ng.Error, match="column `m`, which is no axis"):
        ng.fit(study("s"), [{"m": 1, "time_us": 1}] * 2, figure="time_us", parameters=both)
