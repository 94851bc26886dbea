"""The driver's own memory, where the driver counts it as used: with NVML's memory version 1.

Drivers from 510 on tell it apart (`reserved`). Before, an idle GPU has some hundred MiB in use
that are nobody's. What is in use while no process is on a device is the driver's own: that is
learnt for each device, as its overhead, and left out of its readings.
"""

from __future__ import annotations

from typing import Any

from radrm.host.gpus.nvml import figures
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.lists import nobody

MOST_MIB = 1024
"""No driver of that time keeps more for itself. More without a process is something else: memory
of processes that cannot be seen, or that was never given back."""


class Reserve:
    """What is known of each device's, in MiB. It is for the thread that reads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._unloaded = library.unloaded
        self._learnt: dict[str, int] = {}
        self._listed: dict[str, int] = {}
        """What `overhead_mib` has said, so that devices and readings agree."""

    def overhead_mib(self, uuid: str, handle: Any, memory: Any) -> int:
        """A device's overhead, for its listing."""
        told = getattr(memory, "reserved", None)
        if told is not None:
            self._listed.pop(uuid, None)
            return figures.mib(told, memory.total) or 0
        self._learn(uuid, handle, memory)
        self._listed[uuid] = self._learnt.get(uuid, 0)
        return self._listed[uuid]

    def used_mib(self, uuid: str, handle: Any, memory: Any, alone: bool) -> int | None:
        """What is in use but for the overhead. `alone`: no process is known to be there."""
        used_mib = figures.mib(memory.used, memory.total)
        if used_mib is None or hasattr(memory, "reserved"):
            return used_mib
        if alone:
            self._learn(uuid, handle, memory)
        return max(0, used_mib - self._listed.get(uuid, 0))

    def is_new(self, uuid: str) -> bool:
        """Whether more is known than the listing has said."""
        return self._learnt.get(uuid, 0) != self._listed.get(uuid, 0)

    def note(self, uuid: str, memory: Any) -> str | None:
        """What people should know of a device's memory."""
        if hasattr(memory, "reserved"):
            return None
        listed_mib = self._listed.get(uuid)
        if listed_mib:
            return f"this driver (before 510) counts {listed_mib} MiB of its own as used; left out"
        return (
            "this driver (before 510) counts memory of its own as used; how much, shows once no "
            "process is on the GPU"
        )

    def take_over(self, other: Reserve) -> None:
        self._learnt = dict(other._learnt)

    def _learn(self, uuid: str, handle: Any, memory: Any) -> None:
        """The least that was ever in use without a process: what has just ended is not yet gone."""
        if self._unloaded != self._library.unloaded:
            self._unloaded = self._library.unloaded
            self._learnt.clear()  # another version may keep more
        used_mib = figures.mib(memory.used, memory.total)
        if used_mib is None or used_mib > self._learnt.get(uuid, MOST_MIB):
            return
        if nobody(self._library, handle):
            self._learnt[uuid] = used_mib
