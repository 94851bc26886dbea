"""Threads share heaps."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, threading
from radrm.host.arenas import limit_arenas
limit = {limit} and limit_arenas()
barrier = threading.Barrier(9)
def work():
    kept = [bytes(2000) for _ in range(100)]
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
barrier.wait()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no such limit")
def test_threads_share_two_heaps() -> None:
    def heaps(limit: bool) -> int:
        words = [sys.executable, "-c", _PROGRAM.format(limit=limit)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.count(
            "<heap nr="
        )

    assert heaps(limit=False) > 2
    assert heaps(limit=True) == 2
