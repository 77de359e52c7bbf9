"""The command `nagori`."""

import signal
import sys
from typing import NoReturn

from . import _nagori


def main() -> NoReturn:
    """Does what the command line says."""
    if sys.argv[1:2] == ["sweep"]:
        from .study.cli import main as sweep

        del sys.argv[1]
        sweep()
    # The command has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_nagori.main(sys.argv))
