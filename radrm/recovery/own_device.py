"""Recovery on a device of its own: no job joins it, even if memory stays unused."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job
from radrm.recovery.exclusive import IdleDevice


@dataclass(frozen=True, slots=True)
class OwnDevice(IdleDevice):
    """The safest and most wasteful rule: no neighbour can make a recovered job die again.

    All else is as in `exclusive`.
    """

    name: str = "own-device"

    def wants_own_device(self, job: Job, attempt: Attempt) -> bool:
        """Return True: every recovered job has a device of its own."""
        return True
