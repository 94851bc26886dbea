"""Find the line of the user's own code that is to be named in a message."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {_HERE, *(sysconfig.get_paths().get(k, "") for k in ("stdlib", "platstdlib"))}
    if folder
)


def of_error(error: BaseException) -> str | None:
    """Return the innermost line of the user's code in an error's traceback, as `train.py:41`."""
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    return _last(frames)


def here() -> str | None:
    """Return the line of the user's code that is running."""
    frames: list[tuple[str, int]] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _last(frames[::-1])


def _last(frames: list[tuple[str, int]]) -> str | None:
    for file, line in reversed(frames):
        if is_users(file):
            return f"{os.path.basename(file)}:{line}"
    return None


@functools.lru_cache(4096)
def is_users(file: str) -> bool:
    """Return whether a file is of the user's code, not of a library."""
    if file.startswith("<"):
        return False
    path = os.path.realpath(file)
    packages = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"
    return not path.startswith(_LIBRARIES) and not any(part in path for part in packages)
