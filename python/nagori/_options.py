"""Keywords as options of the command, and messages as records of Python's logging."""

import json
import logging
import os
from collections.abc import Mapping
from typing import Optional, Union

PathLike = Union[str, "os.PathLike[str]"]
Scalar = Union[bool, int, float, str]
#: A value of an option: `None` and `False` leave it out, `True` gives it alone, a sequence gives it again and again.
Option = Union[None, Scalar, PathLike, list[str], list[PathLike], tuple[str, ...]]
#: Values of a description by key.
Settings = Optional[Mapping[str, Union[Scalar, list[str]]]]

_logger = logging.getLogger("nagori")


def log(level: int, text: str) -> None:
    """Takes a message of a run: notes and progress are of level INFO, warnings of level WARNING."""
    _logger.log(level, "%s", text)


def options(**given: Option) -> list[str]:
    """The words of a command line for these options."""
    words = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [f"{option}={os.fspath(v)}" for v in value]
        else:
            words.append(f"{option}={value if isinstance(value, (int, float)) else os.fspath(value)}")
    return words


def settings(given: Settings) -> list[str]:
    """Settings of a description, each as `key=value`."""
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (given or {}).items()]

