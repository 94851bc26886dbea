"""A user's file system (FUSE) over a folder or a file, as `fusermount` mounts it.

Nobody serves it. So a silent one answers no question, and one that is not silent refuses all other
users, root too. It is mounted by this process, which has to be root.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = 65534
_LONGEST_S = 30.0
"""Then a silent one ends, so that what waits for it fails instead of waiting for ever."""
_NOSUID_NODEV, _DETACH = 2 | 4, 2
_libc = ctypes.CDLL(None, use_errno=True)


def requires_mounts() -> None:
    """Skip a test that mounts, where that is not possible."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("needs root, and /dev/fuse")


@contextmanager
def mounted(path: Path, silent: bool) -> Iterator[None]:
    """Mount one over `path`. At the end it must not have had to end a silence."""
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    kind = "40000" if path.is_dir() else "100000"
    options = f"fd={server},rootmode={kind},user_id={USER},group_id={USER}"
    options += ",allow_other" if silent else ""
    if _libc.mount(b"test", os.fsencode(path), b"fuse", _NOSUID_NODEV, options.encode()):
        os.close(server)
        pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
    waited = threading.Event()

    def end() -> None:
        waited.set()
        os.close(server)

    timer = threading.Timer(_LONGEST_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        _libc.umount2(os.fsencode(path), _DETACH)
        if not waited.is_set():
            os.close(server)
    assert not waited.is_set(), f"something has waited for what is mounted over {path}"
