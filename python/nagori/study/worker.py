"""A process that makes runs: `python -m nagori.study.worker STORE`. Tasks come by its input, one JSON object a line,
and what became of each goes to its output. It ends with its input, or by SIGTERM, and gives back what it had begun."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn

from .._nagori import Error
from .store import Store
from .work import Maker


def _end(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Works until there is nothing more to do."""
    signal.signal(signal.SIGTERM, _end)
    # Ctrl-C reaches the whole group of a terminal; whoever started this decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What else is printed must not get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(n: int, **what: Any) -> None:
        answers.write(json.dumps({"n": n, **what}).encode() + b"\n")
        answers.flush()

    n = -1
    try:
        store = Store(sys.argv[1])
        maker = Maker(store)
        while line := sys.stdin.buffer.readline():
            task = json.loads(line)
            n = task["n"]
            try:
                if task.get("again"):
                    answer(n, status="verified", message=maker.again(task))
                else:
                    answer(n, **maker.execute(task, task.get("failed", False)))
            except Error as e:
                answer(n, status="stop", message=str(e))
        store.leases.close()
    except KeyboardInterrupt:
        sys.exit(143)
    except BrokenPipeError:
        # The driver is gone; what was under way is in the store.
        os._exit(0)


if __name__ == "__main__":
    main()
