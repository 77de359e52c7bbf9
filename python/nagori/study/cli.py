"""`nagori sweep`: the command."""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import shlex
import signal
import statistics
import sys
import time
from typing import Any, NoReturn, Optional

from .. import _nagori
from .._nagori import Error
from . import driver
from . import plan as plans
from .description import Study, find
from .store import Store
from .table import Results

_EXAMPLES = """\
Examples:
  nagori sweep run study.toml --dry-run      # how many runs, and how long that takes
  nagori sweep run study.toml                # those whose results are not there yet
  nagori sweep list study.toml --failed      # what has failed, and why
  nagori sweep run study.toml --failed       # that once more, alone
  nagori sweep export study.toml results.parquet
  nagori sweep verify study.toml             # 1 % once more, compared bit for bit

Exit codes:
  0    done
  1    error, or runs have failed, or results differ
  2    wrong arguments
  130, 143  ended by Ctrl-C or SIGTERM; what was made is kept

STUDY is a TOML file, a directory with a study.toml, or a store of results (and with --name the study in it).
docs/studies.md describes studies and stores."""


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="nagori sweep",
        description="Run studies: many runs over axes of machines, memories, programs, " "inputs, seeds.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"nagori {_nagori.VERSION}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, does: str, studied: bool = True) -> argparse.ArgumentParser:
        p = commands.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".", allow_abbrev=False)
        if studied:
            p.add_argument("study", metavar="STUDY", help="a TOML file, a directory with a study.toml, or a store")
            p.add_argument(
                "--store", metavar="DIR", help="the store of results [default: NAME.results beside the study]"
            )
            p.add_argument("--name", metavar="NAME", help="which study, where STUDY is a store that has several")
        return p

    p = command("run", "make the runs whose results are not there yet")
    p.add_argument("-j", "--jobs", type=_count, metavar="N", help="runs at a time [default: one for each processor]")
    p.add_argument("--failed", action="store_true", help="make the runs again that have failed, and only these")
    p.add_argument("-n", "--dry-run", action="store_true", help="check every point, and say how many and how long")
    p.add_argument("-q", "--quiet", action="store_true", help="show only errors")
    p.add_argument("--json", action="store_true", help="print what became of the runs as a JSON object")
    _engines(p)

    p = command("list", "list the runs, and which of them are there")
    p.add_argument("--failed", action="store_true", help="only those that have failed, and why")
    p.add_argument("--missing", action="store_true", help="only those whose results are not there")
    p.add_argument("--commands", action="store_true", help="the commands that make them by hand")
    p.add_argument("--json", action="store_true", help="print them as JSON")

    p = command("show", "print a result with all its counters as JSON")
    p.add_argument("key", metavar="KEY", help="the run's name, or the beginning of it (see `nagori sweep list`)")

    p = command("verify", "make a random share of the results again, and compare bit for bit")
    p.add_argument("--share", type=_share, default=0.01, metavar="SHARE", help="how many of them [default: 0.01]")
    p.add_argument("--seed", type=int, metavar="N", help="which of them [default: others each time]")
    p.add_argument("-j", "--jobs", type=_count, metavar="N", help="runs at a time [default: one for each processor]")

    p = command("export", "write the results as a table, or pack them for `nagori sweep merge`")
    p.add_argument("file", metavar="FILE", help="name.parquet, .csv, .json, .jsonl; or .tar, .tar.gz, .tar.xz")

    p = command("report", "write a page with tables, plots, effects, outliers, Pareto fronts, failures, provenance")
    p.add_argument("-o", "--output", metavar="FILE", help="name.html, or .json for the document [default: NAME.html]")
    p.add_argument("--notebook", metavar="FILE", help="write a marimo notebook to go on from")

    p = command("fit", "find values of a description with which the study has the figures that were measured")
    p.add_argument(
        "--target", metavar="FILE", help="a CSV file of what was measured [default: that of the study's [fit]]"
    )
    p.add_argument("--figure", metavar="NAME", help="which figure that is in the results")
    p.add_argument("-j", "--jobs", type=_count, metavar="N", help="runs at a time [default: one for each processor]")
    p.add_argument("--json", action="store_true", help="print what was found as a JSON object")

    p = command("watch", "show how far a study is, and its first curves")
    p.add_argument("--figure", metavar="NAME", help="which figure [default: the study's first]")
    p.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="how often [default: 2]")
    p.add_argument("--once", action="store_true", help="look once, and return")
    p.add_argument(
        "--page",
        type=int,
        nargs="?",
        const=0,
        metavar="PORT",
        help="show it as a page of this host instead, whose address has a token",
    )

    p = command("merge", "take over the results of other stores", studied=False)
    p.add_argument("store", metavar="STORE", help="the store that takes them; made if it is not there")
    p.add_argument("others", metavar="OTHER", nargs="+", help="a store, or an archive of `nagori sweep export`")

    p = command("gc", "remove what no study of a store needs as it is now", studied=False)
    p.add_argument("store", metavar="STORE", help="the store")
    p.add_argument("-n", "--dry-run", action="store_true", help="only say what would be removed")

    p = command("work", "make runs of a store, as a task of a job array does", studied=False)
    p.add_argument("store", metavar="STORE", help="the store")
    p.add_argument("--name", metavar="NAME", help="which study of it")
    p.add_argument("-j", "--jobs", type=_count, default=1, metavar="N", help="runs at a time [default: 1]")
    p.add_argument("--part", default="0/1", metavar="N/OF", help="where to begin [default: 0/1]")
    p.add_argument(
        "--linger",
        type=float,
        default=150.0,
        metavar="SECONDS",
        help="how long to wait for what others are making [default: 150]",
    )
    return top


def _engines(p: argparse.ArgumentParser) -> None:
    """Options that choose what makes the runs."""
    group = p.add_argument_group("Dask")
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the Dask cluster at tcp://HOST:PORT, or `local`: processes of this host, with its dashboard",
    )
    group = p.add_argument_group("Slurm")
    group.add_argument("--slurm", action="store_true", help="submit a job array, and return; its tasks make the runs")
    group.add_argument("--tasks", type=_count, default=4, metavar="N", help="tasks of the array [default: 4]")
    group.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="a further option of the job, such as --sbatch=--time=1:00:00",
    )
    group.add_argument("--show-script", action="store_true", help="print the job's script, and submit nothing")
    group.add_argument("--script", metavar="FILE", help="submit this script, made from that of --show-script")
    group.add_argument("--wait", action="store_true", help="wait until the job has ended")


def _count(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"`{text}`: expected a whole number from 1")
    return n


def _share(text: str) -> float:
    try:
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"`{text}`: expected a share from 0 to 1, or in %")
    return share


def main() -> NoReturn:
    """Does what the command line says."""
    logging.getLogger("nagori").addHandler(logging.NullHandler())
    arguments = _parser().parse_args()
    caught: list[int] = []

    def end(number: int, _: object) -> NoReturn:
        caught.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        code = _COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
    except (Error, ImportError) as e:
        _say(f"error: {e}")
        code = 1
    except KeyboardInterrupt:
        _say("ended; what was made is kept, and the same command goes on")
        code = 128 + (caught or [signal.SIGINT])[0]
    except BrokenPipeError:
        # The reader of our output is gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 141
    sys.exit(code)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _study(a: argparse.Namespace) -> Study:
    return Study(find(a.study))


def _results(a: argparse.Namespace) -> tuple[Results, str]:
    """The results that a command line names, and their study's name; nothing is run."""
    if (pathlib.Path(a.study) / "store.json").is_file():
        found = driver.stored(Store(a.study, create=False), a.name)
        described = found.plan.about
        return found, a.name or next(iter(found.store.studies())) or described["title"]
    study = _study(a)
    return driver.results(study, a.store), study.name


# Commands.


def _run(a: argparse.Namespace) -> int:
    study = _study(a)
    if a.dry_run:
        return _dry(a, study)
    if a.slurm or a.show_script:
        return _slurm(a, study)
    engine = _engine(a)
    shown = _Progress(a.quiet)
    try:
        done = driver.run(study, a.store, jobs=a.jobs, failed=a.failed, engine=engine, progress=shown)
    finally:
        shown.end()
    counts = done.counts
    failures = done.failures
    if a.json:
        print(
            json.dumps(
                {
                    "study": study.name,
                    "store": str(done.store.directory),
                    "runs": len(done.plan.keys),
                    "there": counts.get("there", 0),
                    "made": counts.get("made", 0),
                    "failed": len(failures),
                }
            )
        )
    elif not a.quiet:
        total = len(done.plan.keys)
        there = total - len({r.key for r in done.missing})
        print(
            f"{study.name}: {there} of {total} results are in {_short(done.store.directory)}, "
            f"{counts.get('made', 0)} new"
        )
    if failures and not a.quiet:
        _say(f"{len(failures)} of them have failed (nagori sweep list {shlex.quote(a.study)} --failed); the first one:")
        _say(_indented(f"{_values(failures[0][0].values)}: {failures[0][1]}"))
    return 1 if failures else 0


def _engine(a: argparse.Namespace) -> Any:
    if a.dask is None:
        return None
    from .engine_dask import Dask

    return Dask(a.dask, a.jobs, (lambda _: None) if a.quiet else _say)


def _slurm(a: argparse.Namespace, study: Study) -> int:
    """Submits what is missing as a job array."""
    from . import engine_slurm as slurm
    from .host import share

    if a.dask is not None:
        raise Error("--slurm and --dask: one of them makes the runs")
    store = Store(a.store or driver.place(study))
    if a.show_script:
        print(slurm.script(store, study.name, a.tasks, a.sbatch), end="")
        return 0
    plan = plans.make(study, store)
    todo = driver.Open(plan, store, a.failed)
    if a.failed:
        for key in todo.todo:
            store.forget(key)
    if not todo.todo:
        print(f"{study.name}: nothing is missing")
        return 1 if todo.failed else 0
    if a.script is None:
        text = slurm.script(store, study.name, min(a.tasks, len(todo.todo)), a.sbatch)
    else:
        try:
            text = pathlib.Path(a.script).read_text()
        except OSError as e:
            raise Error(f"--script {a.script}: it cannot be read: {e.strerror}") from None
    share(store, plan.about["images"])
    job = slurm.submit(store, study.name, text)
    print(f"{study.name}: {len(todo.todo)} runs are missing; job {job} makes them")
    if not a.wait:
        return 0
    slurm.wait(job)
    found = Results(plan, store)
    missing, failures = len(found.missing), len(found.failures)
    print(
        f"{study.name}: {len(plan.keys) - missing} of {len(plan.keys)} results are there, {failures} runs have failed"
    )
    return 1 if missing else 0


def _work(a: argparse.Namespace) -> int:
    """A task of a job array."""
    from . import engine_local
    from . import engine_slurm as slurm

    found = driver.stored(Store(a.store, create=False), a.name)
    known = found.plan.about["common"].get("model")
    if known != _nagori.MODEL:
        raise Error(f"{a.store}: the study was planned by another version of nagori than that of this host")
    place, of = slurm.parts(a.part)
    made = failed = 0

    def tell(_: Any, what: dict[str, Any]) -> None:
        nonlocal made, failed
        made += what["status"] == "made"
        failed += what["status"] == "failed"

    engine_local.run(found.store, slurm.part(found.plan, found.store, place, of), a.jobs, tell, a.linger)
    print(f"{made} runs made, {failed} failed")
    return 0


def _dry(a: argparse.Namespace, study: Study) -> int:
    directory = pathlib.Path(a.store) if a.store else driver.place(study)
    store = Store(directory, create=False) if (directory / "store.json").exists() else None
    plan = plans.make(study, store)
    total, todo, failed, seconds = len(plan.keys), len(plan.keys), 0, None
    if store is not None:
        what = driver.Open(plan, store, a.failed)
        todo, failed = len(what.todo), len(what.failed)
        keys = set(plan.keys)
        known = [h["seconds"] for h in store.hosts() if h.get("key") in keys and "seconds" in h]
        if known:
            seconds = statistics.fmean(known)
    jobs = a.jobs or driver.processors()
    estimate = None if seconds is None else seconds * todo / min(jobs, max(todo, 1))
    if a.json:
        print(
            json.dumps({"study": study.name, "runs": total, "to_do": todo, "failed": failed, "estimated_s": estimate})
        )
        return 0
    axes = ", ".join(f"{name} ({len(study.levels(name))})" for name in study.axes)
    print(f"{study.name}: {total} runs over {axes or 'nothing'}; {todo} to make, {failed} have failed before")
    if len(plan.runs) > total:
        print(f"{len(plan.runs) - total} points are the same run as others")
    if estimate and todo:
        print(f"about {_duration(estimate)} on {jobs} processors, from the runs that were made before")
    elif todo and estimate is None:
        print("how long that takes is known after the first runs")
    if todo:
        print(f"the first one: {plans.command(plan.runs[0])}")
    return 0


def _list(a: argparse.Namespace) -> int:
    found, _ = _results(a)
    failures = {r.key: message for r, message in found.failures}
    there = found.store.present()
    rows = []
    for r in found.plan.runs:
        status = "there" if r.key in there else "failed" if r.key in failures else "missing"
        if a.failed and status != "failed" or a.missing and status == "there":
            continue
        row: dict[str, Any] = {"key": r.key, "status": status, "values": r.values, "command": plans.command(r)}
        if status == "failed":
            row["message"] = failures[r.key]
        rows.append(row)
    if a.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        if a.commands:
            print(row["command"])
            continue
        print(f"{row['key'][:12]}  {row['status']:7}  {_values(row['values'])}")
        if "message" in row:
            print(_indented(row["message"]))
    return 0


def _show(a: argparse.Namespace) -> int:
    found, _ = _results(a)
    print(json.dumps(found.raw(a.key), indent=1))
    return 0


def _verify(a: argparse.Namespace) -> int:
    from . import upkeep

    found, name = _results(a)
    shown = _Progress(False)
    try:
        done = upkeep.verify(found.plan, found.store, a.share, a.jobs or driver.processors(), a.seed, shown.count)
    finally:
        shown.end()
    for key in done.damaged:
        _say(f"{found.store.path(key)}: it is damaged; `nagori sweep run` makes it again")
        found.store.set_aside(key)
    for key, where in done.differing:
        _say(f"{key[:12]} has another result now: {where}\n  {found.command(key)}")
    print(f"{name}: made again: {done.checked}; different now: {len(done.differing)}; damaged: {len(done.damaged)}")
    return 1 if done.differing or done.damaged else 0


def _export(a: argparse.Namespace) -> int:
    from . import upkeep

    found, name = _results(a)
    if ".tar" in pathlib.Path(a.file).suffixes:
        count = upkeep.archive(found.store, found.plan, name, a.file)
    else:
        found.save(a.file)
        count = len(found.rows)
    missing = len(found.plan.runs) - len(found.rows)
    print(f"{a.file}: {count} results" + (f"; {missing} runs have none" if missing else ""))
    return 0


def _report(a: argparse.Namespace) -> int:
    from . import report

    found, name = _results(a)
    title = str(found.plan.about["title"])
    if a.notebook is not None:
        report.notebook(found, title, name, a.notebook)
        print(f"{a.notebook}: marimo edit {shlex.quote(a.notebook)}")
    if a.output is not None or a.notebook is None:
        output = a.output or f"{name}.html"
        report.write(found, title, output)
        print(f"{output}: {len(found.rows)} of {len(found.plan.runs)} runs")
    return 0


def _fit(a: argparse.Namespace) -> int:
    from .fit import fit

    target = None if a.target is None else pathlib.Path(a.target).absolute()
    found = fit(_study(a), target, figure=a.figure, store=a.store, jobs=a.jobs)
    if a.json:
        print(
            json.dumps(
                {
                    "values": found.values,
                    "residuals": found.residuals,
                    "rms": found.rms,
                    "rank": found.rank,
                    "condition": found.condition,
                    "undetermined": found.undetermined,
                    "problems": found.problems,
                },
                indent=1,
            )
        )
    else:
        print(found)
    return 0


def _watch(a: argparse.Namespace) -> int:
    from . import watch

    found, _ = _results(a)
    if a.page is None:
        watch.terminal(found, a.figure, a.every, a.once)
        return 0
    server, address = watch.page(found, a.figure, a.page)
    print(address, flush=True)
    try:
        server.serve_forever()
    finally:
        server.server_close()
    return 0


def _merge(a: argparse.Namespace) -> int:
    from . import upkeep

    store = Store(a.store)
    bad = 0
    for other in a.others:
        done = upkeep.merge(store, other)
        print(f"{other}: {done.new} results are new, {done.same} were there")
        for key, where in done.differing:
            _say(f"{key[:12]} is another result there, and stays as it is here: {where}")
        for key in done.damaged:
            _say(f"{other}: {key[:12]} is damaged there, and was left out")
        bad += len(done.differing) + len(done.damaged)
    return 1 if bad else 0


def _gc(a: argparse.Namespace) -> int:
    from . import upkeep

    store = Store(a.store, create=False)
    done = upkeep.collect(store, a.dry_run)
    what = "would be removed" if a.dry_run else "were removed"
    print(f"{len(done.results)} results and {len(done.files)} other files {what}: {done.size / 1e6:.1f} MB")
    return 0


_COMMANDS = {
    "run": _run,
    "list": _list,
    "show": _show,
    "verify": _verify,
    "export": _export,
    "merge": _merge,
    "gc": _gc,
    "work": _work,
    "report": _report,
    "fit": _fit,
    "watch": _watch,
}


# For people.


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in values.items()) or "(the only one)"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def _short(path: pathlib.Path) -> str:
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


class _Progress:
    """How far the work is: a line that changes on a terminal, some lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._begin = time.monotonic()
        self._first: Optional[int] = None
        self._shown = self._begin
        self._failed = 0
        self._open = False

    def __call__(self, done: int, total: int, task: Any, what: dict[str, Any]) -> None:
        self._failed += what["status"] == "failed"
        self.count(done, total)

    def count(self, done: int, total: int) -> None:
        """So many are done."""
        if self._first is None:
            self._first = done - 1
        now = time.monotonic()
        every = 0.2 if self._terminal else 30.0
        if self._quiet or now - self._shown < every:
            return
        self._shown = now
        rate = (done - self._first) / max(now - self._begin, 1e-9)
        text = f"{done} of {total} runs, {_duration((total - done) / rate)} left"
        text += f", {self._failed} failed" if self._failed else ""
        if self._terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            self._open = True
        else:
            _say(text)

    def end(self) -> None:
        """Leaves the line."""
        if self._open:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
