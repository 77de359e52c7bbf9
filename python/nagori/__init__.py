"""Nagori from Python: machines with non-volatile main memory, what programs cost on them, and their memories alone.

>>> import nagori as ng
>>> board = ng.Machine("vc707", set={"harts": 2})
>>> run = board.run(["xz", "-k", "data.txt"], share=".", placement="nvmm", method="extended")
>>> run.time.us, run.cpi, run.nvmm.writes
"""

from ._nagori import VERSION as __version__
from ._nagori import Cancel, Error
from ._tree import Time, Tree
from .comparison import Comparison, compare
from .crash import Exploration, crash
from .description import Description, Value, machine_names
from .live import Commit, Halt, Label, Live
from .machine import Machine
from .memory import Memory, Played
from .own import MemoryModel, Prefetcher
from .run import Problem, Run
from .study import Results, Study
from .study.fit import Fit, fit

__all__ = [
    "Cancel",
    "Commit",
    "Comparison",
    "Description",
    "Error",
    "Exploration",
    "Fit",
    "Halt",
    "Label",
    "Live",
    "Machine",
    "Memory",
    "MemoryModel",
    "Played",
    "Prefetcher",
    "Problem",
    "Results",
    "Run",
    "Study",
    "Time",
    "Tree",
    "Value",
    "__version__",
    "compare",
    "crash",
    "fit",
    "machine_names",
]
