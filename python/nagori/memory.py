"""Memories alone: addresses in, times out."""

from __future__ import annotations

import html
import json
import os
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from . import _nagori
from ._nagori import Cancel
from ._options import Settings, log, settings
from ._tree import Time, Tree, table
from .description import Description
from .own import AnyMemory, MakeMemory, MemoryModel, make

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Mode = Literal["saturated", "dependent", "paced", "timestamped"]
#: A time as text with its unit, or as a `Time`.
Duration = Union[str, Time]


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as e:
        raise ImportError("arrays of addresses need NumPy: pip install numpy") from e
    return numpy


def _text(time: Duration) -> str:
    return f"{time.ps} ps" if isinstance(time, Time) else time


class Played:
    """What came of playing accesses into a memory."""

    def __init__(self, accepted: bytes, completed: bytes, result: str) -> None:
        words = _numpy().dtype("<u8")
        self.accepted_ps: NDArray[np.uint64] = _numpy().frombuffer(accepted, words)
        """When the memory accepted each access."""
        self.completed_ps: NDArray[np.uint64] = _numpy().frombuffer(completed, words)
        """When each was complete: its data were there, or its write was answered."""
        self.result = Tree(json.loads(result))
        """Everything else, as `nagori mem run --json` has it."""

    @property
    def latency_ns(self) -> NDArray[np.float64]:
        """From acceptance to completion of each access."""
        latency: NDArray[np.float64] = (self.completed_ps - self.accepted_ps) / 1e3
        return latency

    @property
    def time(self) -> Time:
        """From the first request to the end of the last access."""
        return Time(int(self.result["to"]) - int(self.result["from"]))

    @property
    def bandwidth_gb_per_s(self) -> Optional[float]:
        """Bytes of all accesses over the time; `None` if no time has passed."""
        bandwidth = self.result["bandwidth_bytes_per_s"]
        return None if bandwidth is None else float(bandwidth) / 1e9

    @property
    def stats(self) -> Tree:
        """What the memory has counted, by region, channel and bank."""
        model: Tree = self.result["model"]
        return model

    def __repr__(self) -> str:
        r = self.result
        return f"<Played: {r['reads']} reads and {r['writes']} writes in {self.time}>"

    def _repr_html_(self) -> str:
        r = self.result
        rows = [
            ("accesses", len(self.accepted_ps)),
            ("reads", r["reads"]),
            ("writes", r["writes"]),
            ("time", str(self.time)),
            ("bandwidth, GB/s", self.bandwidth_gb_per_s),
            ("read latency, mean, ns", r["read_latency_avg_ns"]),
            ("write latency, mean, ns", r["write_latency_avg_ns"]),
            ("row hit rate", r["row_hit_rate"]),
        ]
        return table(rows, ("", str(r["memory"])))


class Memory:
    """A memory by the name of a preset, such as `ddr4`, `pcm` or `board`, or by the path of its description.

    Or one of one's own: the class of a `MemoryModel`, or a function that makes one.
    """

    def __init__(self, memory: AnyMemory, *, set: Settings = None) -> None:
        self.set = dict(set or {})
        self._own: Optional[MakeMemory] = None
        self._description: Optional[Description] = None
        if isinstance(memory, (str, os.PathLike)):
            self.name = str(memory)
            # What is wrong is told here, and not by the first accesses.
            self._description = Description.of_memory(self.name, settings(self.set))
            return
        self.name = make(memory, MemoryModel, "memory").name
        self._own = memory
        if self.set:
            raise TypeError(f"{self.name} is written in Python, and has no description whose values could be set")

    @property
    def description(self) -> Description:
        """Every value of the description, with its origin."""
        if self._description is None:
            raise TypeError(f"{self.name} is written in Python, and has no description")
        return self._description

    def play(
        self,
        addresses: ArrayLike,
        writes: Union[bool, ArrayLike] = False,
        *,
        times_ps: Optional[ArrayLike] = None,
        mode: Optional[Mode] = None,
        bytes: int = 64,
        per_clock: int = 1,
        think: Duration = "0 ns",
        interval: Optional[Duration] = None,
        outstanding: Optional[int] = None,
        base: int = 0,
        wrap: bool = False,
        unaligned: Literal["split", "truncate", "refuse"] = "split",
        cancel: Optional[Cancel] = None,
    ) -> Played:
        """Plays accesses into the memory, which is at its beginning each time.

        Args:
            addresses: first bytes, from 0 to the memory's capacity.
            writes: which accesses write: an array of booleans, or one for all.
            times_ps: when each access is submitted, in order; the mode is then `timestamped`.
            mode: when accesses are submitted, as for `nagori mem run`; `saturated` without times.
            bytes: length of each access.
            per_clock: accesses in a clock of the memory, at most, in the mode `saturated`.
            think: time from a completion to the next access, in the mode `dependent`.
            interval: time from one access to the next, in the mode `paced`.
            outstanding: greatest number of accesses under way.
            base: is subtracted from all addresses.
            wrap: takes addresses modulo the capacity.
            unaligned: what becomes of accesses that reach beyond the end of their line.
        """
        numpy = _numpy()
        words = _words(numpy, addresses, "addresses")
        flags = None
        if writes is not False:
            flags = numpy.broadcast_to(numpy.asarray(writes, dtype=bool), words.shape).tobytes()
        how = {
            "memory": self.name,
            "set": settings(self.set),
            "mode": mode or ("saturated" if times_ps is None else "timestamped"),
            "bytes": bytes,
            "per_clock": per_clock,
            "think": _text(think),
            "interval": None if interval is None else _text(interval),
            "outstanding": outstanding,
            "base": base,
            "wrap": wrap,
            "unaligned": unaligned,
        }
        times = None if times_ps is None else _words(numpy, times_ps, "times_ps").tobytes()
        own = None if self._own is None else make(self._own, MemoryModel, "memory")
        return Played(*_nagori.play(json.dumps(how), words.tobytes(), flags, times, own, log, cancel))

    def __repr__(self) -> str:
        changes = "".join(f", {key}={value!r}" for key, value in self.set.items())
        return f"<Memory {self.name}{changes}>"

    def _repr_html_(self) -> str:
        return html.escape(repr(self)) if self._description is None else self._description._repr_html_()


def _words(numpy: Any, given: ArrayLike, name: str) -> NDArray[np.uint64]:
    """An array as little-endian words, if nothing of it is lost by that."""
    array = numpy.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, and there are {array.ndim}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected whole numbers, and they are of type {array.dtype}")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise ValueError(f"{name}: {array.min()} is below 0")
    words: NDArray[np.uint64] = array.astype("<u8", copy=False)
    return words
