"""Studies as data: expressions, axes, what is wrong with a description, and which runs it makes."""

import pathlib
from typing import Any

import pytest

import nagori as ng
from nagori.study.axes import Range, combined, listed, product, sampled, zipped
from nagori.study.expression import Expression, Template


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * x + 1", 7),
        ("x / 2", 1.5),
        ("set.harts if x > 2 else 0", 4),
        ("x in [1, 3] and not name == 'a'", True),
        ("max(x, set.harts, 3)", 4),
        ("1 < x < 3", False),
        ("log2(2 ** x)", 3.0),
    ],
)
def test_expressions_have_values(text: str, value: object) -> None:
    e = Expression(text)
    assert e.value({"x": 3, "set.harts": 4, "name": "b"}) == value
    assert e.names <= {"x", "set.harts", "name"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("2 *", "no expression"),
        ("__import__('os').system('x')", "no function"),
        ("[y for y in x]", "not possible"),
        ("open('x')", "no function `open`"),
        ("x.__class__()", "no function"),
        ("lambda: 1", "not possible"),
        ("(1).real", "not possible"),
    ],
)
def test_expressions_reach_nothing_else(text: str, wrong: str) -> None:
    with pytest.raises(ng.Error, match="`.*" + wrong.replace("(", r"\(")):
        Expression(text)


def test_values_that_do_not_exist_are_errors() -> None:
    with pytest.raises(ng.Error, match="there is no value `y`; there are x"):
        Expression("y").value({"x": 1})
    with pytest.raises(ng.Error, match="division"):
        Expression("1 / x").value({"x": 0})
    with pytest.raises(ng.Error, match="exponent"):
        Expression("9 ** 9 ** 9").value({})


def test_texts_are_filled() -> None:
    assert Template("{n} MiB").value({"n": 2.0}) == "2 MiB"
    assert Template("{2 * n}").value({"n": 2}) == 4
    assert Template("a{{b}}").value({}) == "a{b}"
    with pytest.raises(ng.Error, match="no partner"):
        Template("a{b")


def test_ranges() -> None:
    assert listed("x", {"from": 1, "to": 4}) == [1, 2, 3, 4]
    assert listed("x", {"from": 0, "to": 0.3, "step": 0.1}) == [0, 0.1, 0.2, 0.3]
    assert listed("x", {"from": 1, "to": 1000, "steps": 4, "scale": "log"}) == [1, 10, 100, 1000]
    assert listed("x", {"from": 1, "to": 2, "steps": 2, "unit": "ns"}) == ["1 ns", "2 ns"]
    for given, wrong in [
        ({"from": 2, "to": 1}, "not below"),
        ({"from": 0, "to": 1, "steps": 3, "scale": "log"}, "above 0"),
        ({"from": 0.5, "to": 1}, "needs steps"),
        ({"from": 1, "to": 2, "stesp": 3}, "did you mean step"),
        ({"from": "1 ns", "to": 2}, "expected a number"),
        ([], "no values"),
        ([1, 1], "twice"),
    ]:
        with pytest.raises(ng.Error, match=wrong):
            listed("x", given)


def test_axes_are_combined_the_last_one_fastest() -> None:
    axes = [*product({"a": [1, 2]}), zipped({"b": ["x", "y"], "c": [True, False]})]
    assert list(combined(axes)) == [
        {"a": 1, "b": "x", "c": True},
        {"a": 1, "b": "y", "c": False},
        {"a": 2, "b": "x", "c": True},
        {"a": 2, "b": "y", "c": False},
    ]
    with pytest.raises(ng.Error, match="b has 2, c has 1"):
        zipped({"b": [1, 2], "c": [1]})
    with pytest.raises(ng.Error, match="a is in two axes"):
        list(combined(product({"a": [1]}) * 2))


def test_a_latin_hypercube_covers_every_range_evenly() -> None:
    spec = {"count": 20, "seed": 7, "over": {"x": {"from": 0, "to": 20}, "y": {"from": 1, "to": 1024, "scale": "log"}}}
    points = sampled(spec).points
    assert sorted(int(p["x"]) for p in points) == list(range(20))
    import math

    assert sorted(math.floor(math.log2(p["y"]) * 2) for p in points) == list(range(20))
    assert points == sampled(spec).points
    # The seed alone decides: on every host, with every version of Python.
    assert [round(p["x"], 6) for p in points[:3]] == [
        round(p["x"], 6) for p in sampled({**spec, "method": "latin"}).points[:3]
    ]
    assert sampled({**spec, "seed": 8}).points != points
    first = sampled({"method": "random", "count": 2, "seed": 1, "over": {"x": {"from": 0, "to": 1}}}).points
    assert [round(p["x"], 6) for p in first] == [0.134364, 0.847434]


def test_a_sampled_value_is_inside_its_range() -> None:
    r = Range.read("x", {"from": 10, "to": 100, "scale": "log", "whole": True}, sampled=True)
    assert [r.at(0.0), r.at(1.0)] == [10, 100] and isinstance(r.at(0.37), int)


def study(**keys: Any) -> ng.Study:
    return ng.Study(**{"kind": "bare", "program": "a.elf", **keys})


def test_points_become_commands(tmp_path: pathlib.Path) -> None:
    s = study(
        axes={"method": ["dram", "fine"], "set.harts": [1, 2], "n": [1, 4]},
        program="walk-{n}.elf",
        options={"warm_up": 10},
        derive={"set.memory.size": "{n * 64} MiB"},
        where=["n * set.harts <= 4", "method == 'fine' or n == 1"],
    )
    words = [" ".join(p.words) for p in s.points()]
    assert words[0] == 'bare --warm-up=10 --method=dram --set=harts=1 --set=memory.size="64 MiB" walk-1.elf'
    assert len(words) == 2 + 3
    assert words[-1] == 'bare --warm-up=10 --method=fine --set=harts=2 --set=memory.size="64 MiB" walk-1.elf'


def test_named_programs_are_an_axis() -> None:
    s = ng.Study(
        kind="run",
        programs={
            "sort": {"run": ["./sort", "{n}"], "options": {"region_of_interest": True}},
            "list": {"run": ["ls", "-l"], "options": {"file": {"a.txt": "/root/a.txt"}}},
        },
        axes={"n": [10]},
    )
    words = [" ".join(p.words) for p in s.points()]
    assert words == [
        "run --region-of-interest --stdin=none -- ./sort 10",
        "run --file=a.txt:/root/a.txt --stdin=none -- ls -l",
    ]


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"axis": {}}, "no key `axis`; did you mean axes"),
        ({"kind": "bear"}, "did you mean bare"),
        ({"axes": {"metod": ["dram"]}}, "`metod` has no effect.*did you mean method"),
        ({"options": {"metod": "dram"}}, "no option `metod`; did you mean method"),
        ({"axes": {"n": [1]}, "program": "{m}.elf"}, "no value `m`"),
        ({"axes": {"n": [1]}, "where": ["n ="]}, "no expression"),
        ({"axes": {"net": ["user"]}}, "net: runs with a network differ"),
        ({"options": {"gdb": True}}, "gdb: nobody would be there"),
        ({"options": {"trace": "exec"}}, "trace: only a single run"),
        ({"kind": "crash", "program": None, "options": {"budget_time": 3}}, "budget_time: what is tried would depend"),
        ({"programs": {"a": {"run": ["x"]}}}, "expected elf"),
        ({"name": "a/b"}, "name is 'a/b'"),
        ({"axes": {"method": "dram"}}, "expected a list of values"),
        ({"sample": {"count": 0, "over": {}}}, "count is 0"),
        ({"axes": {"x": [1]}, "derive": {"set.harts": "x +"}}, r"\[derive\] set.harts"),
    ],
)
def test_what_is_wrong_is_found_before_anything_runs(keys: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ng.Error, match=wrong):
        list(study(**keys).points())


def test_a_file_and_keywords_are_the_same(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('name = "x"\nkind = "bare"\nprogram = "a.elf"\n[axes]\nmethod = ["dram"]\nset.harts = [1, 2]\n')
    given = study(name="x", axes={"method": ["dram"], "set.harts": [1, 2]})
    assert list(ng.Study(file).points()) == list(given.points())
    file.write_text("name = ")
    with pytest.raises(ng.Error, match="study.toml: it is no TOML"):
        ng.Study(file)
    with pytest.raises(ng.Error, match="none.toml: it cannot be read"):
        ng.Study(tmp_path / "none.toml")
