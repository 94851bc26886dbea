"""Files for targets that read from disk: a folder in memory, where there is one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

_MEMORY = "/dev/shm"


@cache
def folder() -> Path:
    """Return an empty folder of this process. It is removed at the process's end."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made, owner = Path(tempfile.mkdtemp(prefix="radrm-fuzz-", dir=memory)), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not a child that was forked
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


def place(name: str) -> Path:
    """Return an own folder for a target."""
    made = folder() / name
    made.mkdir(parents=True, exist_ok=True)
    return made


def file(name: str, data: bytes) -> Path:
    """Write a file in the scratch folder and return its path."""
    path = folder() / name
    try:
        path.write_bytes(data)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return path


def proc_shows(module: object, data: bytes) -> mock._patch[object]:
    """Within the block a module finds this content in each file of /proc."""
    return mock.patch.object(module, "start_of", lambda path, most=1 << 20: data[:most])
