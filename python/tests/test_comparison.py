"""Comparisons, and their tables."""

import pathlib

import pytest

import nagori as ng


def test_methods_beside_one_another(loop: pathlib.Path) -> None:
    found = ng.compare(loop, bare=True)
    assert found.variants == ["dram", "coarse", "fine", "extended"]
    rows = found.rows
    assert rows[0]["relative"] == 1 and rows[3]["relative"] > 1
    assert [r["time_us"] for r in found.summary()] == [r["time_us"] for r in rows]
    frame = found.to_frame()
    assert list(frame["variant"]) == found.variants and frame["nvmm_reads"].min() > 0
    assert "<table>" in found._repr_html_()
    chart = found.plot().to_dict()
    assert chart["layer"][0]["mark"]["type"] == "bar"


def test_a_failure_ends_all(loop: pathlib.Path, failing: pathlib.Path) -> None:
    with pytest.raises(ng.Error, match="expected one of|expected"):
        ng.compare(loop, bare=True, methods=["dram", "slow"])
    with pytest.raises(ng.Error, match="exit code is 7"):
        ng.compare(failing, bare=True, methods=["dram"])
    with pytest.raises(ValueError, match="no seeds"):
        ng.compare(loop, bare=True, repeats=2)
