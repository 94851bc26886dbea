"""Learn the driver's own memory, which drivers before 510 count as used memory.

Theory of operation. Drivers from 510 on report it separately (`reserved`). Before, an idle GPU
shows some hundred MiB in use without a process. The least memory that was in use without a
process is a device's overhead, and its readings leave it out. The listing and the readings must
subtract the same amount, so a newly learned one counts from the next listing on. All methods run
in the thread that reads. A restart learns again, from the first reading without a process.
"""

from __future__ import annotations

from typing import Any

from radrm.host.gpus.nvml import figures
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.lists import no_process_on

MOST_MIB = 1024
"""No driver before 510 needs more for itself. More use without a process has another cause:
processes that radrm cannot see, or memory that was never freed."""


class Reserve:
    """The driver's own memory of each device, in MiB."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._unloaded = library.unloaded
        self._learned: dict[str, int] = {}
        self._listed: dict[str, int] = {}
        """The values that `overhead_mib` returned, which the readings subtract."""

    def overhead_mib(self, uuid: str, handle: Any, memory: Any) -> int:
        """Return the overhead of a device, for its listing."""
        reserved = getattr(memory, "reserved", None)
        if reserved is not None:
            self._listed.pop(uuid, None)
            return figures.mib(reserved, memory.total) or 0
        self._learn(uuid, handle, memory)
        self._listed[uuid] = self._learned.get(uuid, 0)
        return self._listed[uuid]

    def used_mib(self, uuid: str, handle: Any, memory: Any, alone: bool) -> int | None:
        """Return the memory in use without the overhead. `alone`: no process is known on it."""
        used_mib = figures.mib(memory.used, memory.total)
        if used_mib is None or hasattr(memory, "reserved"):
            return used_mib
        if alone:
            self._learn(uuid, handle, memory)
        return max(0, used_mib - self._listed.get(uuid, 0))

    def is_new(self, uuid: str) -> bool:
        """Return whether the learned value differs from the listed one."""
        return self._learned.get(uuid, 0) != self._listed.get(uuid, 0)

    def note(self, uuid: str, memory: Any) -> str | None:
        """Return a note about the driver's own memory; None if the driver reports it."""
        if hasattr(memory, "reserved"):
            return None
        listed_mib = self._listed.get(uuid)
        if listed_mib:
            return (
                f"this driver (before 510) counts {listed_mib} MiB of its own as used; "
                "radrm subtracts them"
            )
        return (
            "this driver (before 510) counts memory of its own as used; "
            "radrm subtracts it after a reading without a process on the GPU"
        )

    def take_over(self, other: Reserve) -> None:
        self._learned = dict(other._learned)

    def _learn(self, uuid: str, handle: Any, memory: Any) -> None:
        """Learn the least use without a process, since an ended one frees its memory later."""
        if self._unloaded != self._library.unloaded:
            self._unloaded = self._library.unloaded
            self._learned.clear()  # the new driver may need more
        used_mib = figures.mib(memory.used, memory.total)
        if used_mib is None or used_mib > self._learned.get(uuid, MOST_MIB):
            return
        if no_process_on(self._library, handle):
            self._learned[uuid] = used_mib
