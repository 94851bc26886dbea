"""The memory of a GPU that has none of its own, but uses the server's (unified memory).

Theory of operation. On a DGX Spark (GB10) and on a Jetson the driver reports no memory of the GPU:
NVML answers "not supported", nvidia-smi prints `[N/A]`. The memory that a job can have there is
the server's: `MemTotal`, of which `MemAvailable` is left (proc_meminfo(5)). So the device's size
is `MemTotal`, and its overhead the server's own need: the least use beside that of GPU processes
and `SLACK`, in steps of `STEP`. More use by programs of the server counts as used: it is not free
for a job. The overhead only falls, so a device never becomes too small for a job that waits. A
restart learns again.

The GPU memory of a process and its host memory are the same memory here, but jobs book them
separately (`--gpu-memory`, `--memory`).
"""

from __future__ import annotations

from collections.abc import Callable

import psutil
from msgspec import Struct

SLACK = STEP = 1 << 30
"""Bytes. `SLACK`: the server's use may grow by so much before it counts as used."""


class Memory(Struct, frozen=True):
    """The memory of such a GPU in bytes, with NVML's names. `used` is without `reserved`."""

    total: int
    used: int
    reserved: int


class UnifiedMemory:
    """Reads the server's memory as that of its GPU, and learns the server's own need.

    `read` returns the server's total and available bytes.
    """

    def __init__(self, read: Callable[[], tuple[int, int]] | None = None) -> None:
        self._read = read or _of_server
        self._reserved: int | None = None

    def listed(self, held: int) -> Memory | None:
        """Return the memory for a list of devices; None if the kernel does not report it.

        `held`: bytes of the GPU's processes.
        """
        found = self._look()
        if found is None:
            return None
        total, used = found
        need = min(total, -(-(max(0, used - held) + SLACK) // STEP) * STEP)
        self._reserved = need if self._reserved is None else min(need, self._reserved)
        return self._memory(total, used, held)

    def now(self, held: int) -> Memory | None:
        """Return the memory for a reading. The reserve is that of the last list of devices."""
        found = self._look()
        return None if found is None else self._memory(*found, held)

    def _memory(self, total: int, used: int, held: int) -> Memory:
        reserved = min(self._reserved or 0, total)
        return Memory(total, min(total, max(held, used - reserved, 0)), reserved)

    def _look(self) -> tuple[int, int] | None:
        """Return the total and the used bytes; None if the kernel does not report them."""
        try:
            total, available = self._read()
        except (OSError, KeyError, ValueError):  # psutil, without /proc or one of its lines
            return None
        return (total, total - available) if 0 <= available <= total and total else None


def _of_server() -> tuple[int, int]:
    found = psutil.virtual_memory()
    return int(found.total), int(found.available)
