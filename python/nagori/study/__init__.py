"""Studies: many runs over axes of machines, memories, programs, inputs and seeds, whose results outlive everything.

| module | what it is |
|---|---|
| `description`, `axes`, `expression` | a study as data: its points |
| `key`, `plan` | the names of results, and which runs a study has |
| `store`, `lease` | results in a directory; who is making which |
| `work` | one run, whatever process makes it |
| `engine_local`, `engine_dask`, `engine_slurm` | processes of this host, of a Dask cluster, of Slurm |
| `driver`, `upkeep` | what is to be done; checking, cleaning up, merging |
| `table`, `analysis`, `report`, `watch`, `fit` | what the results say |
| `cli` | the command |
"""

from .description import Point, Study
from .driver import results, run
from .store import Store
from .table import Results

__all__ = ["Point", "Results", "Store", "Study", "results", "run"]
