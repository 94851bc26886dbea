"""Recovery on a device of its own: nobody joins, however much of it stays unused."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job
from radrm.recovery.exclusive import IdleDevice


@dataclass(frozen=True, slots=True)
class OwnDevice(IdleDevice):
    """The safest and most wasteful: no neighbour can make a recovered job die again.

    Otherwise as `exclusive`.
    """

    name: str = "own-device"

    def wants_own_device(self, job: Job, attempt: Attempt) -> bool:
        """Always."""
        return True
