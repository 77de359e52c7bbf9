"""Memories and prefetchers of one's own, written in Python: for trying ideas.

They are slow: each request crosses into Python, which takes half a microsecond and more, and machines in several
threads wait for one another. An idea that has proved itself is written in Rust or C (docs/c-api.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from ._options import Scalar

if TYPE_CHECKING:
    from .description import Description

#: The memory of whose place in the description another one is put: the largest of all presets.
_LARGEST = "xpoint"
#: Where a machine's NVMM can have a memory of its own.
_NVMM = "memory.regions.nvmm.model"

#: Why a line is wanted.
Reason = Literal["load", "store", "fetch", "page-walk", "write-back", "other"]


class MemoryModel:
    """A memory: says when each request is complete.

    >>> class Slow(ng.MemoryModel):
    ...     def access(self, at_ps, address, bytes, write):
    ...         return at_ps + (500_000 if write else 150_000)
    >>> ng.Memory(Slow).play([0, 64, 128])
    >>> ng.Machine("vc707").bare("program.elf", memory=Slow)

    A class, or a function that makes a model, is given wherever a memory can be named: each run begins with a new
    model, and so is repeatable.
    """

    capacity: int = 1 << 40
    """Bytes; at least those of the region in whose place it is put."""
    clock: str = "1 GHz"
    """The clock in whose cycles reports count, and in which saturated accesses are submitted."""

    @property
    def name(self) -> str:
        """What reports call it."""
        return type(self).__name__

    def access(self, at_ps: int, address: int, bytes: int, write: bool) -> int:
        """When a request is complete: first data beat of a read, response of a write; in ps.

        It is called once for each request, in the order in which they arrive. All are accepted: what limits how many
        are under way has to be expressed by the times.

        Args:
            at_ps: when it arrives; never before the request that came before it.
            address: its first byte, from the beginning of the memory.
            bytes: its length, 1 to 64, within a line of 64 bytes.
            write: its direction.
        """
        raise NotImplementedError(f"{type(self).__name__} has no access")


class Prefetcher:
    """A prefetcher of a cache: predicts which lines are wanted next.

    >>> class Both(ng.Prefetcher):
    ...     def access(self, hart, pc, address, kind):
    ...         return address + 64, address - 64
    >>> board.bare("program.elf", prefetchers={"cache.llc": Both})

    It takes the place of the prefetcher of the description, whose `degree` says how many of the predicted lines are
    requested at a time.
    """

    def access(self, hart: int, pc: int, address: int, kind: Reason) -> Optional[Iterable[int]]:
        """The addresses that are predicted, the nearest first.

        It is called for the accesses that the prefetchers of descriptions observe as well: misses of the cache, and
        first hits on lines that were prefetched. Predictions beyond the page of 4 KiB, and of lines that are there or
        on their way, do not count.

        Args:
            hart: the hart that wants the line.
            pc: its instruction.
            address: the line, physical.
            kind: why it is wanted.
        """
        raise NotImplementedError(f"{type(self).__name__} has no access")


#: Makes a memory for a run: a class, or any function without arguments.
MakeMemory = Callable[[], MemoryModel]
#: Makes a prefetcher for a run.
MakePrefetcher = Callable[[], Prefetcher]
#: A memory: a name, the path of a description, or what makes one.
AnyMemory = Union[str, "os.PathLike[str]", MakeMemory]
#: Prefetchers by their caches: `l1d`, `l1i` or `cache.NAME`.
Prefetchers = Optional[Mapping[str, MakePrefetcher]]


def make(what: Callable[[], Any], kind: type, keyword: str) -> Any:
    """Makes a part for a run."""
    if isinstance(what, kind):
        raise TypeError(
            f"{keyword}: {what!r} has been made already: give its class, or a function that makes one, since each run "
            "begins with a new one"
        )
    made = what() if callable(what) else None
    if not isinstance(made, kind):
        raise TypeError(f"{keyword}: expected a class, or a function, that makes a nagori.{kind.__name__}: {what!r}")
    return made


def places(
    memory: Optional[AnyMemory], prefetchers: Prefetchers, description: Description
) -> tuple[dict[str, Scalar], list[tuple[str, object]]]:
    """The settings that make room for parts of one's own in a machine, and the parts by their places."""
    room: dict[str, Scalar] = {}
    parts: list[tuple[str, object]] = []
    if isinstance(memory, (str, os.PathLike)):
        room[_NVMM] = os.fspath(memory)
    elif memory is not None:
        room[_NVMM] = _LARGEST
        parts.append(("memory.nvmm", make(memory, MemoryModel, "memory")))
    for cache, what in (prefetchers or {}).items():
        key = f"{cache}.prefetcher"
        # What is no cache is told by the machine.
        if key not in description or description[key].value in ("none", '"none"'):
            room[key] = "next-line"
        parts.append((cache, make(what, Prefetcher, f"prefetchers[{cache!r}]")))
    return room, parts
