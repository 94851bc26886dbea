"""Keep the daemon's memory small after floods of requests.

Theory of operation. glibc gives threads heaps of their own, called arenas: up to eight for each
CPU. The daemon has a thread for each connection. So each arena grows to what the largest requests
needed, and returns little of it. With two arenas threads wait a little for each other instead.

A block above the mmap threshold is returned when it is freed. But glibc raises that threshold to
the largest block that was freed, up to 32 MiB: then such blocks lie in the heap, which cannot
shrink below the newest small one. With a fixed threshold all large blocks are returned.
"""

from __future__ import annotations

import ctypes

MOST = 2
LARGE = 1 << 20
"""Bytes from which a block is returned when it is freed."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8


def limit_arenas() -> bool:
    """Have threads that start from now on share `MOST` heaps, and return `LARGE` blocks when they
    are freed. False where the C library is not glibc: nothing has changed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_ARENA_MAX, MOST)) and bool(mallopt(_M_MMAP_THRESHOLD, LARGE))
    except AttributeError:  # as with musl
        return False
