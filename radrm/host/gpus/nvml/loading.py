"""Which library `pynvml` loads: the driver's, or the one that RADRM_NVML_LIBRARY names.

`pynvml` looks up all functions in its `nvmlLib`, and loads libnvidia-ml.so.1 only while that is
None. So a library of another place, such as NVIDIA's mock, is put there before the first call.

A library runs with the rights of its process. So root's processes load only a file that nobody
but root can change. The variable counts in the environment of the reading process alone: that
of a job or of a client never reaches the daemon.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from radrm.errors import DeviceError

VARIABLE = "RADRM_NVML_LIBRARY"

Fault = Callable[[str], "str | None"]
"""Returns who besides root can change a file, as a message; None if nobody can."""


def chosen(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the library that the environment names; None for the driver's."""
    return environ.get(VARIABLE) or None


def load() -> Any:
    """Return `pynvml`, with the chosen library in it.

    Raises what the import raises, and `DeviceError` if that library cannot be used.
    """
    import pynvml  # imported here: machines without GPUs may lack it

    path = chosen()
    if path is not None and pynvml.nvmlLib is None:
        why = refusal(path, os.geteuid())
        if why is not None:
            raise DeviceError(f"{VARIABLE}={path}: {why}")
        pynvml.nvmlLib = _library(path)
    return pynvml


def refusal(path: str, uid: int, fault: Fault | None = None) -> str | None:
    """Return why a process of user `uid` does not load this file; None if it does."""
    if not os.path.isabs(path):
        return "not an absolute path; name the whole path of libnvidia-ml.so.1"
    try:
        mode = os.stat(path).st_mode
        changed_by = (fault or _fault)(path) if uid == 0 else None
    except OSError as error:
        return f"{error.strerror}; correct it or unset it"
    if not stat.S_ISREG(mode):
        return "not a file; name the file libnvidia-ml.so.1 itself"
    if changed_by is not None:
        move = "move the library to a folder that only root can write"
        return f"{changed_by}, so others could replace what root would run; {move}"
    return None


def _fault(path: str) -> str | None:
    from radrm.host.service.ownership import Ownership  # only root's processes need it

    found = Ownership(lasting=True).way(path)
    return str(found) if found is not None else None


def _library(path: str) -> Any:
    from ctypes import CDLL

    try:
        library = CDLL(path)
    except OSError as error:
        raise DeviceError(f"{VARIABLE}={path}: it cannot be loaded: {error}") from None
    if not hasattr(library, "nvmlInit_v2"):
        raise DeviceError(f"{VARIABLE}={path}: it is no NVML library (it has no nvmlInit_v2)")
    return library
