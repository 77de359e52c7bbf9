"""Programs in Debian; the guest's image is built if there is none."""

import pathlib
import subprocess
from collections.abc import Callable
from typing import Optional

import pytest

import nagori as ng

BOARD = ng.Machine("vc707")


def test_a_program_has_input_output_and_costs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in.txt").write_text("of the host\n")
    program = ["sh", "-c", "cat; cat /mnt/share0/in.txt; echo $WORD >&2; exit 3"]
    run = BOARD.run(program, stdin=b"given\n", share=tmp_path, env={"WORD": "said"}, rootfs="none", method="fine")
    assert run.output == "given\nof the host\n" and run.stderr == b"said\n"
    assert run.exit_code == 3 and run.ended == "exit"
    assert run.time.ps > 0 and run.result.method == "fine"


def test_the_same_program_costs_the_same_and_seeds_differ() -> None:
    words = ["sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done"]
    found = ng.compare(words, methods=["dram", "extended"], repeats=2, rootfs="none")
    again = BOARD.run(words, placement="nvmm", method="extended", seed=2, rootfs="none")
    assert found.runs["extended", 2].to_dict() == again.to_dict()
    assert found.runs["extended", 1].time != again.time
    slow = found.summary()[1]
    assert slow["variant"] == "extended" and slow["relative"] > 1.1 and slow["relative_stdev"] > 0
    assert len(found.rows) == 4


def test_what_cannot_be_executed_is_an_error() -> None:
    with pytest.raises(ng.Error, match="no-such-program"):
        BOARD.run(["no-such-program"], rootfs="none")


def test_a_boot_stops_at_markers() -> None:
    script = "nagori-mark label 1; nagori-mark label 2; echo done"
    with BOARD.boot(run=script) as m:
        m.until("marker:1")
        assert "done" not in m.console
        with m.fork() as f:
            f.run()
            assert f.halt == ng.Halt("off", 0) and [x.value for x in f.labels] == [1, 2]
        m.until("marker:2").run()
        assert "done" in m.console and m.costs.exit_code == 0


def test_a_shell_waits_for_what_is_typed() -> None:
    with BOARD.boot() as m:
        m.until_console("# ")
        m.type("echo $((6*7))\n")
        m.until_console("42")
        with pytest.raises(ng.Error, match="has not shown 'nothing' within 0.1 s"):
            m.until_console("nothing", within_s=0.1)
        m.type("poweroff -f\n")
        m.run()
        assert m.halt is not None and m.halt.why == "off"


C = """
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "nagori.h"
// Two words on NVMM, of which the second says that the first is there. `w` stores them, `f` flushes the first in
// between, and without a word they are printed: exit code 3 if the first is missing.
int main(int argc, char **argv) {
    int fd = open("/dev/mem", O_RDWR | O_SYNC);
    volatile long *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0xc0000000);
    if (p == MAP_FAILED) { perror("mmap"); return 2; }
    if (argc > 1) {
        p[0] = 1;
        nagori_fence();
        if (*argv[1] == 'f') { nagori_cflush_line(p); nagori_fence(); }
        p[8] = 1;
        nagori_fence();
        return 0;
    }
    printf("%ld %ld\\n", p[0], p[8]);
    return p[8] && !p[0] && getenv("STRICT") ? 3 : 0;
}
"""


@pytest.fixture
def two(tmp_path: pathlib.Path) -> pathlib.Path:
    source, program = tmp_path / "two.c", tmp_path / "two"
    source.write_text(C)
    include = pathlib.Path(__file__).parents[2] / "guest/include"
    compiler = ["riscv64-linux-gnu-gcc", "-O1", "-static", f"-I{include}"]
    subprocess.run([*compiler, "-o", program, source], check=True)
    return program


def test_a_checker_in_python_finds_what_a_cut_leaves(two: pathlib.Path) -> None:
    seen = []

    def checker(output: bytes, labels: list[str]) -> Optional[str]:
        seen.append(output)
        return None if output in (b"0 0\n", b"1 0\n", b"1 1\n") else f"out of order: {output!r}"

    def explore(check: Callable[[bytes, list[str]], Optional[str]]) -> ng.Exploration:
        file = {str(two): "/root/two"}
        return ng.crash("/root/two w", "/root/two", file=file, checker=check, rootfs="none")

    found = explore(checker)
    # Nothing is flushed, so that the second word may be there without the first.
    assert {b"0 0\n", b"1 1\n", b"0 1\n"} <= set(seen)
    assert [f.outcome for f in found.findings] and "out of order" in found.findings[0].text
    assert not explore(lambda output, labels: None).findings

    def fails(output: bytes, labels: list[str]) -> Optional[str]:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        explore(fails)


def test_a_study_of_crashes(two: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = {"rootfs": "none", "file": {"two": "/root/two"}, "workload": "/root/two {how}"}
    options["recover"] = "STRICT=1 /root/two"
    axes = {"how": ["w", "f"], "domain": ["adr", "eadr"]}
    study = ng.Study(base=tmp_path, kind="crash", options=options, axes=axes)
    done = study.run(jobs=1)
    assert done.counts == {"there": 0, "made": 4, "failed": 0}, done.failures
    # What is flushed before the second word is stored is safe, and so are caches that outlive the power.
    found = {(r["how"], r["domain"]): r["findings"] for r in done.rows}
    assert found == {("w", "adr"): 1, ("w", "eadr"): 0, ("f", "adr"): 0, ("f", "eadr"): 0}
    assert all(r["recoveries"] > 0 for r in done.rows)
    again = study.run(tmp_path / "elsewhere", jobs=2)
    assert [done.raw(r["key"]) for r in done.rows] == [again.raw(r["key"]) for r in again.rows]
