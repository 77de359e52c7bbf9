"""Machines."""

from collections.abc import Mapping, Sequence
from typing import Literal, Optional, Union

from . import _nagori
from ._nagori import Cancel
from ._options import Option, PathLike, Settings, log, options, settings
from .description import Description
from .live import Live
from .own import AnyMemory, Prefetchers, places
from .run import Run

Engine = Literal["interpreter", "translator"]
Paths = Union[PathLike, list[PathLike], None]


class Machine:
    """A machine by its description: a name such as `vc707`, or the path of a TOML file.

    Nothing of it runs before `run`, `bare` or `boot`; each of them has a machine of its own, so that runs do not affect
    one another, and may happen at the same time in several threads.
    """

    def __init__(
        self,
        machine: PathLike = "vc707",
        *,
        set: Settings = None,
        disk: Paths = None,
        share: Paths = None,
        net: Option = None,
        nvmm_image: Optional[PathLike] = None,
        engine: Optional[Engine] = None,
    ) -> None:
        """Describes a machine. Keywords are the options of `nagori run`; docs/python.md has them all.

        Args:
            machine: name or path of the description.
            set: changed values by key, such as `{"harts": 2, "memory.size": "2 GiB"}`.
            disk: disks, each as `FILE[,ro][,overlay=FILE|temp]`.
            share: folders of the host, each as `DIR[:TAG][,rw]`.
            net: networks, such as `user`.
            nvmm_image: image of NVMM that outlives runs.
            engine: what runs the guest's code; results are the same.
        """
        self.name = str(machine)
        self.set = dict(set or {})
        self._options: dict[str, Option] = {
            "disk": _several(disk),
            "share": _several(share),
            "net": net,
            "nvmm_image": nvmm_image,
            "engine": engine,
        }
        # What is wrong is told here, and not by the first run.
        self.description = Description.of_machine(self.name, settings(self.set))
        """Every value of the description, with unit and origin."""

    def _words(self, command: str, room: Settings = None, **more: Option) -> list[str]:
        given = {**self._options, **{name: v for name, v in more.items() if v is not None}}
        return [command, *options(machine=self.name, set=settings({**self.set, **(room or {})}), **given)]

    def run(
        self,
        program: Sequence[PathLike],
        *,
        placement: Optional[str] = None,
        method: Optional[str] = None,
        memory: Optional[AnyMemory] = None,
        prefetchers: Prefetchers = None,
        share: Paths = None,
        file: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Union[None, bytes, PathLike] = None,
        rootfs: Optional[PathLike] = None,
        modules: Optional[Sequence[str]] = None,
        region_of_interest: bool = False,
        functional: bool = False,
        seed: Optional[int] = None,
        warm_up: Optional[int] = None,
        rtc: Optional[str] = None,
        timeout_s: Optional[float] = None,
        host_timeout_s: Optional[float] = None,
        max_instructions: Optional[int] = None,
        no_markers: bool = False,
        strict: bool = False,
        cache: Optional[PathLike] = None,
        no_boot_cache: bool = False,
        cancel: Optional[Cancel] = None,
    ) -> Run:
        """Runs a program in Debian, as `nagori run` does.

        Args:
            program: the program and its arguments. With a `/` it is a riscv64 file of this host.
            placement: where its memory is: `dram`, `nvmm`, `heap`, `size>64 KiB`.
            method: delay method of NVMM: `dram`, `coarse`, `fine`, `extended`, or `epoch`.
            memory: memory behind NVMM, such as `pcm`; or a `MemoryModel` of one's own.
            prefetchers: of one's own, by their caches.
            share: folders of the host for this run.
            file: files of the host, and their absolute paths in the guest.
            stdin: its input, or a file with it.
            seed: of everything random; without one nothing is random.
            timeout_s: guest time after which it is ended.
            cancel: ends the run from another thread.

        Raises:
            Error: with the text of the command.
            KeyboardInterrupt: after Ctrl-C.
        """
        room, own = places(memory if callable(memory) else None, prefetchers, self.description)
        words = self._words(
            "run",
            room,
            placement=placement,
            method=method,
            memory_model=None if callable(memory) else memory,
            share=_several(share),
            file=[f"{host}:{guest}" for host, guest in (file or {}).items()],
            env=[f"{name}={value}" for name, value in (env or {}).items()],
            cwd=cwd,
            stdin="none" if stdin is None or isinstance(stdin, bytes) else stdin,
            rootfs=rootfs,
            modules=",".join(modules) if modules else None,
            region_of_interest=region_of_interest,
            functional=functional,
            seed=seed,
            warm_up=warm_up,
            rtc=rtc,
            timeout=timeout_s,
            host_timeout=host_timeout_s,
            max_instructions=max_instructions,
            no_markers=no_markers,
            strict=strict,
            cache=cache,
            no_boot_cache=no_boot_cache,
        )
        argv = [str(word) for word in program]
        given = stdin if isinstance(stdin, bytes) else None
        return Run(argv, *_nagori.run([*words, "--", *argv], given, own, log, cancel))

    def bare(
        self,
        elf: PathLike,
        *,
        method: Optional[str] = None,
        memory: Optional[AnyMemory] = None,
        prefetchers: Prefetchers = None,
        functional: bool = False,
        warm_up: Optional[int] = None,
        max_instructions: Optional[int] = None,
        no_markers: bool = False,
        cancel: Optional[Cancel] = None,
    ) -> Run:
        """Runs a bare-metal program, a static riscv64 ELF, as `nagori bare` does.

        `memory` and `prefetchers` are those of `run`.
        """
        room, own = places(memory, prefetchers, self.description)
        words = self._bare_words(room, elf, method, functional, warm_up, max_instructions, no_markers)
        return Run([str(elf)], *_nagori.bare(words, own, log, cancel))

    def start(
        self,
        elf: PathLike,
        *,
        method: Optional[str] = None,
        memory: Optional[AnyMemory] = None,
        prefetchers: Prefetchers = None,
        functional: bool = False,
        warm_up: Optional[int] = None,
        no_markers: bool = False,
    ) -> Live:
        """A live machine with a bare-metal program, before its first instruction."""
        room, own = places(memory, prefetchers, self.description)
        words = self._bare_words(room, elf, method, functional, warm_up, None, no_markers)
        return Live([str(elf)], _nagori.Live.bare(words, own, log))

    def boot(
        self,
        *,
        run: Optional[str] = None,
        kernel: Optional[PathLike] = None,
        initrd: Optional[PathLike] = None,
        firmware: Optional[PathLike] = None,
        append: Optional[str] = None,
        append_only: bool = False,
        rootfs: Optional[PathLike] = None,
        isolate: bool = False,
        nvmm: Optional[Literal["hidden", "pmem-region", "numa-node"]] = None,
        share: Paths = None,
        modules: Optional[Sequence[str]] = None,
        method: Optional[str] = None,
        memory: Optional[AnyMemory] = None,
        prefetchers: Prefetchers = None,
        timed: bool = False,
        rtc: Optional[str] = None,
        no_markers: bool = False,
        cache: Optional[PathLike] = None,
    ) -> Live:
        """A live machine that boots Linux, before its first instruction. Keywords are options of `nagori boot`.

        Args:
            run: shell command that is run in the guest instead of a shell; the machine ends with it.
        """
        room, own = places(memory, prefetchers, self.description)
        words = self._words(
            "boot",
            room,
            run=run,
            kernel=kernel,
            initrd=initrd,
            firmware=firmware,
            append=append,
            append_only=append_only,
            rootfs=rootfs,
            isolate=isolate,
            nvmm=nvmm,
            share=_several(share),
            modules=",".join(modules) if modules else None,
            method=method,
            timed=timed,
            rtc=rtc,
            no_markers=no_markers,
            cache=cache,
        )
        return Live(["boot"] if run is None else [run], _nagori.Live.boot(words, own, log))

    def _bare_words(
        self,
        room: Settings,
        elf: PathLike,
        method: Optional[str],
        functional: bool,
        warm_up: Optional[int],
        max_instructions: Optional[int],
        no_markers: bool,
    ) -> list[str]:
        words = self._words(
            "bare",
            room,
            method=method,
            functional=functional,
            warm_up=warm_up,
            max_instructions=max_instructions,
            no_markers=no_markers,
        )
        return [*words, "--", str(elf)]

    def __repr__(self) -> str:
        changes = "".join(f", {key}={value!r}" for key, value in self.set.items())
        return f"<Machine {self.name}{changes}>"

    def _repr_html_(self) -> str:
        return self.description._repr_html_()


def _several(paths: Paths) -> Optional[list[PathLike]]:
    if paths is None or isinstance(paths, list):
        return paths
    return [paths]

