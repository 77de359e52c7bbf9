"""Markers for Python programs on a Nagori machine; docs/markers.md says what they do.

    import nagori_mark
    with nagori_mark.region():
        work()
    nagori_mark.label("phase 2")

One file without dependencies, for CPython 3.6 and later. Where Python has no ctypes (Debian's
python3-minimal), or no memory may be executed, it runs the command `nagori-mark`, whose start then
lies within a region. On a host that is no riscv64, and where there is no such command either, the
functions do nothing; `available` tells.
"""

import contextlib
import os

METHODS = ("dram", "coarse", "fine", "extended")

_ROI_BEGIN, _ROI_END, _RESET, _DUMP, _METHOD, _LABEL, _SNAPSHOT, _STOP = range(8)
_A0 = 10
_RET = 0x00008067


def _functions():
    """A function for each marker: `slti x0, a0, 0x4e0 + n` and `ret`, in memory of our own."""
    if os.uname().machine != "riscv64":
        return None
    try:
        import ctypes
        import mmap

        code = mmap.mmap(
            -1,
            mmap.PAGESIZE,
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
        )
    except (ImportError, OSError):
        return None
    for n in range(8):
        word = (0x4E0 + n) << 20 | _A0 << 15 | 2 << 12 | 0x13
        code.write(word.to_bytes(4, "little") + _RET.to_bytes(4, "little"))
    first = ctypes.addressof(ctypes.c_char.from_buffer(code))
    # Harts may hold what was in this memory before as instructions.
    flush = getattr(ctypes.CDLL(None), "__riscv_flush_icache", None)
    if flush is not None:
        flush(ctypes.c_void_p(first), ctypes.c_void_p(first + 64), ctypes.c_ulong(0))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
    return code, [kind(first + 8 * n) for n in range(8)]


def _command():
    """Where the command is; None without it."""
    for directory in os.get_exec_path():
        path = os.path.join(directory, "nagori-mark")
        if os.access(path, os.X_OK):
            return path
    return None


_NAMES = ("roi-begin", "roi-end", "stats-reset", "stats-dump", "method", "label", "snapshot", "stop")
_made = _functions()
_path = _command() if _made is None else None

#: Whether markers are executed.
available = _made is not None or _path is not None


def _mark(n, value=0):
    if not 0 <= value < 1 << 64:
        raise ValueError("a marker's value has 64 bits")
    if _made is not None:
        _made[1][n](value)
    elif _path is not None:
        words = [_path, _NAMES[n]]
        if n == _METHOD:
            words.append(METHODS[value])
        elif n in (_DUMP, _LABEL, _SNAPSHOT, _STOP):
            words.append(str(value))
        os.spawnv(os.P_WAIT, _path, words)


def roi_begin():
    """The region of interest begins."""
    _mark(_ROI_BEGIN)


def roi_end():
    """The region of interest ends."""
    _mark(_ROI_END)


@contextlib.contextmanager
def region():
    """The region of interest, as a `with` block."""
    roi_begin()
    try:
        yield
    finally:
        roi_end()


def stats_reset():
    """Statistics start anew."""
    _mark(_RESET)


def stats_dump(label=0):
    """Keeps the statistics so far under a number."""
    _mark(_DUMP, label)


def method(name):
    """Switches the delay method of NVMM: one of METHODS."""
    if name not in METHODS:
        raise ValueError("method %r: %s" % (name, ", ".join(METHODS)))
    _mark(_METHOD, METHODS.index(name))


def label(value):
    """Names the point in time: a number, or a text of up to eight ASCII characters."""
    if isinstance(value, str):
        text = value.encode("ascii")
        if len(text) > 8:
            raise ValueError("a label has at most 8 characters")
        value = int.from_bytes(text, "little")
    _mark(_LABEL, value)


def snapshot(value=0):
    """Asks for a snapshot."""
    _mark(_SNAPSHOT, value)


def stop(code=0):
    """Ends the run; goes on where markers are not heard."""
    if not 0 <= code < 1 << 32:
        raise ValueError("an exit code has 32 bits")
    _mark(_STOP, code)
