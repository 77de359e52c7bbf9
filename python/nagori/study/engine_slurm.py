"""Runs by Slurm: a job array whose tasks take what is not there yet from the store, so that no driver has to stay
alive, and tasks that are ended, moved or started again do no harm."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Optional

from .._nagori import Error
from .plan import Plan
from .store import Store
from .work import Task

#: Seconds for which a task of the array waits for what others are making: a lease that is left behind has expired then.
LINGER = 150.0
#: Seconds between two looks at the queue.
_PATIENCE = 2.0


def script(store: Store, name: str, tasks: int, options: list[str]) -> str:
    """The job: an `sbatch` script, which may be changed as wanted."""
    logs = store.directory / "jobs" / "%A-%a.log"
    python, package = shlex.quote(sys.executable), pathlib.Path(__file__).resolve().parents[2]
    lines = [
        "#!/bin/sh",
        f"#SBATCH --job-name=nagori-{name}",
        f"#SBATCH --array=0-{tasks - 1}",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        # A task that is to end has time to give back what it has begun.
        "#SBATCH --signal=B:TERM@30",
        f"#SBATCH --output={logs}",
        *(f"#SBATCH {option}" for option in options),
        "",
        "# Every task takes the runs that are not there yet, one by one, and begins at another place than the others.",
        f"export PYTHONPATH={shlex.quote(str(package))}${{PYTHONPATH:+:$PYTHONPATH}}",
        f"exec {python} -m nagori.sweep work {shlex.quote(str(store.directory))} --name {name} \\",
        '    --jobs "${SLURM_CPUS_PER_TASK:-1}" --part "${SLURM_ARRAY_TASK_ID:-0}/' + f'{tasks}"',
        "",
    ]
    return "\n".join(lines)


def submit(store: Store, name: str, text: str) -> str:
    """Gives the job to Slurm: its number.

    Raises:
        Error: there is no Slurm, or it refuses the job, with its words.
    """
    if shutil.which("sbatch") is None:
        raise Error("--slurm: there is no `sbatch` here: Slurm's commands are needed where jobs are submitted")
    jobs = store.directory / "jobs"
    jobs.mkdir(exist_ok=True)
    file = jobs / f"{name}.sbatch"
    store.write(file, text.encode())
    done = subprocess.run(["sbatch", "--parsable", str(file)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Error(f"--slurm: sbatch refuses {file}: {done.stderr.strip()}")
    return done.stdout.strip().split(";")[0]


def wait(job: str) -> None:
    """Waits until no task of a job is in the queue."""
    while True:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True)
        # Slurm forgets jobs that have ended, which it calls an error.
        if done.returncode != 0 and "Invalid job id" in done.stderr or done.returncode == 0 and not done.stdout.strip():
            return
        time.sleep(_PATIENCE)


def part(plan: Plan, store: Store, place: int, of: int) -> Iterator[Task]:
    """The runs that are not there, beginning at a part of them."""
    there, failures = store.present(), store.present("failures")
    missing = [t for t in plan.tasks() if t["key"] not in there and t["key"] not in failures]
    first = place * len(missing) // max(of, 1)
    yield from missing[first:]
    yield from missing[:first]


def parts(text: str) -> tuple[int, int]:
    """`0/8`: which part of how many.

    Raises:
        Error: it is none.
    """
    number: Optional[tuple[int, int]] = None
    try:
        a, b = text.split("/")
        number = int(a), int(b)
    except ValueError:
        pass
    if number is None or not 0 <= number[0] < number[1]:
        raise Error(f"--part {text}: expected a part and how many there are, such as 0/8")
    return number
