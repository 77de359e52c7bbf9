"""What a host needs before it makes runs: that all is as it was when the study was planned, and the guest's images."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from .. import _nagori
from .._nagori import Error
from .._options import log
from .key import Files, digest, image_request, inputs, inside
from .store import Store


class Changed(Error):
    """Something is another one than when the study was planned: a result would have a wrong name."""


class Host:
    """What this process knows of its host."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: dict[str, Files] = {}
        self._images: set[str] = set()

    def check(self, task: Mapping[str, Any]) -> None:
        """That program, inputs, image and emulator are those of the task.

        Raises:
            Changed: which of them is not.
        """
        parts, words, kind = task["parts"], task["words"], task["kind"]
        if parts["model"] != _nagori.MODEL:
            raise Changed(
                f"the study was planned by another version of nagori than {_nagori.VERSION} of this "
                f"host: plan it "
                "and run it by one version"
            )
        base = task["base"]
        files = self._files.setdefault(base, Files(pathlib.Path(base)))
        # Files are read again only if they have changed.
        files.used.clear()
        for (label, path), (_, known) in zip(inputs(words, kind, files), parts["inputs"]):
            if files.hash(path) != known:
                raise Changed(f"{path} ({label}) has changed since the study was planned: start it again")
        if kind in ("run", "crash"):
            with inside(base):
                self._image(image_request(words, kind), parts["image"])

    def _image(self, request: list[str], wanted: Any) -> None:
        name = json.dumps([request, wanted])
        if name in self._images:
            return
        # One process of the host fetches them, the others wait.
        lock = os.path.join(tempfile.gettempdir(), f"nagori-{os.getuid()}-{digest(wanted)[:16]}.lock")
        with open(lock, "a") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            offline = [request[0], "--offline", *(w for w in request[1:] if w != "--offline")]
            try:
                found = json.loads(_nagori.image(offline, log, None))
            except Error:
                found = None
            bundle = place(self._store, wanted)
            if found != wanted and bundle.exists():
                _command("image", "import", str(bundle))
            if found != wanted:
                found = json.loads(_nagori.image(request, log, None))
        if found != wanted:
            raise Changed(
                f"the guest's image of this host is {found}, and the study was planned with {wanted}: "
                f"bring it by "
                "`nagori image export` and `import`"
            )
        self._images.add(name)


def place(store: Store, image: Any) -> pathlib.Path:
    """The file of the guest's software in a store, for hosts that do not have it."""
    return store.place("images", f"{digest(image)[:32]}.tar.zst")


def share(store: Store, images: Mapping[str, str]) -> None:
    """Puts the guest's software into the store, by its hash, for other hosts.

    Args:
        images: identities, by the options that choose them.
    """
    for request, identity in images.items():
        wanted = json.loads(identity)
        bundle = place(store, wanted)
        # A file of an image of one's own is where the study's paths say.
        if bundle.exists() or "file" in (wanted["root"] or {}):
            continue
        bundle.parent.mkdir(exist_ok=True)
        beside = bundle.with_name(f".{os.getpid()}-{bundle.name}")
        base = "system" if "--rootfs=system" in json.loads(request) else "run"
        try:
            _command("image", "export", "--base", base, str(beside))
            beside.rename(bundle)
        finally:
            beside.unlink(missing_ok=True)


def _command(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "nagori", "-q", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("error: "))
