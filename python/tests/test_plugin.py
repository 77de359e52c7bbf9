"""pytest-nagori."""

import pathlib

import pytest

TEST = """
import pytest

@pytest.mark.parametrize("n", range(4))
def test_loop(nagori, assert_cost, n):
    assert_cost(nagori.bare({loop!r}, method={method!r}), "loop.toml", tolerance={tolerance})
"""


def write(pytester: pytest.Pytester, loop: pathlib.Path, method: str = "extended", tolerance: float = 0) -> None:
    pytester.makepyfile(test_it=TEST.format(loop=str(loop), method=method, tolerance=tolerance))


def test_costs_are_recorded_and_compared(pytester: pytest.Pytester, loop: pathlib.Path) -> None:
    write(pytester, loop)
    missing = pytester.runpytest_subprocess()
    missing.assert_outcomes(failed=4)
    missing.stdout.fnmatch_lines(["*loop.toml has no costs of `test_loop[[]0[]]`: pytest --nagori-update writes them"])
    # Several processes write one file.
    pytester.runpytest_subprocess("--nagori-update", "-n", "2").assert_outcomes(passed=4)
    text = (pytester.path / "loop.toml").read_text()
    assert text.count("guest_time_ps") == 4
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=4)
    # Nothing has changed, so nothing is written differently.
    pytester.runpytest_subprocess("--nagori-update").assert_outcomes(passed=4)
    assert (pytester.path / "loop.toml").read_text() == text
    write(pytester, loop, method="fine")
    differ = pytester.runpytest_subprocess("-k", "0")
    differ.assert_outcomes(failed=1)
    differ.stdout.fnmatch_lines(["*guest_time_ps: * recorded, * now (+*%)*"])
    write(pytester, loop, method="fine", tolerance=100)
    pytester.runpytest_subprocess("-k", "0").assert_outcomes(passed=1)


def test_another_machine(pytester: pytest.Pytester, loop: pathlib.Path) -> None:
    write(pytester, loop)
    pytester.runpytest_subprocess("--nagori-machine", "vc706").assert_outcomes(failed=4)
