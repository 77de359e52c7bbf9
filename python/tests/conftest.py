"""Small bare-metal programs."""

import pathlib
import signal
import subprocess

import pytest

#: A loop over NVMM's first lines between two labels; then what a0 says is the exit code.
SOURCE = """
.globl _start
_start:
    csrr t0, mhartid
    bnez t0, park
    li t1, 0x10000000       # UART
    li t2, 'h'
    sb t2, (t1)
    li t2, 'i'
    sb t2, (t1)
    li t0, 1
    slti x0, t0, 0x4e5      # label 1
    li s1, ROUNDS
    li s2, 0xc0000000       # NVMM
outer:
    li s3, 64
    mv s4, s2
inner:
    ld t3, (s4)
    addi t3, t3, 1
    sd t3, (s4)
    fence
    addi s4, s4, 64
    addi s3, s3, -1
    bnez s3, inner
    addi s1, s1, -1
    bnez s1, outer
    li t0, 2
    slti x0, t0, 0x4e5      # label 2
    li a0, CODE
    li t0, 0x4e7
    slti x0, a0, 0x4e7      # the end, with this code
park:
    wfi
    j park
"""


def build(into: pathlib.Path, rounds: int = 10, code: int = 0) -> pathlib.Path:
    """Compiles the program."""
    elf = into / f"loop-{rounds}-{code}.elf"
    source = into / "loop.S"
    source.write_text(SOURCE)
    place = "-Wl,-N,-Ttext=0x80000000,--build-id=none,--no-warn-rwx-segments"
    values = [f"-DROUNDS={rounds}", f"-DCODE={code}"]
    gcc = ["riscv64-linux-gnu-gcc", "-march=rv64gc", "-nostdlib", "-static", place, *values]
    subprocess.run([*gcc, "-o", elf, source], check=True)
    return elf


@pytest.fixture(autouse=True)
def interrupts() -> None:
    """Has Ctrl-C be heard also where the tests were started with it ignored, as by a shell in its background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def loop(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("loop"))


@pytest.fixture(scope="session")
def failing(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("failing"), rounds=1, code=7)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Runs for hours of host time."""
    return build(tmp_path_factory.mktemp("endless"), rounds=2**31 - 1)
