"""Keep the daemon's memory small after floods of requests.

Theory of operation. glibc gives threads heaps of their own, called arenas: up to eight for each
CPU. The daemon has a thread for each connection. So each arena grows to what the largest requests
needed, and returns little of it. With two arenas threads wait a little for each other instead.
"""

from __future__ import annotations

import ctypes

MOST = 2
_M_ARENA_MAX = -8


def limit_arenas() -> bool:
    """Have threads that start from now on share `MOST` heaps. False where the C library is not
    glibc: nothing has changed."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MOST))
    except AttributeError:  # as with musl
        return False
