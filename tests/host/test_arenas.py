"""Threads share heaps, and what was large is returned."""

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

_LARGE = """
from radrm.host.arenas import limit_arenas
limit = {limit} and limit_arenas()
kept = []
for mib in (9, 8, 7, 6):
    large = b"x" * (mib << 20)
    kept.append([b"y" * 2000 for _ in range(20)])
    del large
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS:")))
"""
glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library has no such limit"
)


@glibc
def test_large_blocks_that_were_freed_are_returned() -> None:
    def rss_mib(limit: bool) -> int:
        words = [sys.executable, "-c", _LARGE.format(limit=limit)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(done.stdout) >> 10

    assert rss_mib(limit=True) + 4 < rss_mib(limit=False)


@glibc
def test_threads_share_two_heaps() -> None:
    def heaps(limit: bool) -> int:
        words = [sys.executable, "-c", _PROGRAM.format(limit=limit)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.count(
            "<heap nr="
        )

    assert heaps(limit=False) > 2
    assert heaps(limit=True) == 2
