"""The result of a keeper's last look at its control daemon, for other threads; the last fault.

The time of the last fault is also in a file beside the control daemon's logs: the next daemon
judges the ends of attempts by it, too. It counts in the same boot alone, whose monotonic clock it
is of. A file that cannot be written or read costs only that: then their last words decide.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from enum import Enum

from radrm.host.clock import boot_id
from radrm.host.mps.control import Server

_FAULT_FILE = "radrm-last-fault"
_MOST_BYTES = 200


class Phase(str, Enum):
    """The state of a control daemon, as `radrm mps status` shows it."""

    OFF = "off"
    STARTING = "starting"
    UP = "up"
    FAULT = "fault"
    SILENT = "silent"
    DOWN = "down"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of the last look. `fault` is the message of a problem, if there is one."""

    phase: Phase
    fault: str | None = None
    pid: int | None = None
    servers: tuple[Server, ...] = ()
    serves: tuple[str, ...] = ()
    """The GPUs that it was started for; empty if unknown."""
    multiuser: bool = False
    """Whether its server was seen to take clients of several users."""

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(pid for server in self.servers for pid in server.clients)

    @property
    def serving(self) -> bool:
        """True if MPS runs or will run soon, so that jobs wait for it."""
        return self.phase in (Phase.STARTING, Phase.UP, Phase.FAULT, Phase.SILENT)


def note_fault(logs: str) -> float:
    """Save that a server of these logs is in FAULT now; return the time, as `time.monotonic`."""
    now = time.monotonic()
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(os.path.join(logs, _FAULT_FILE), flags, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            # Rounded down: a time to come is not believed. Always as long as the one before.
            file.write(f"{boot_id()} {math.floor(now * 1000) / 1000:020.3f}\n")
    except OSError:
        pass
    return now


def last_fault(logs: str) -> float:
    """Return when a server of these logs was last seen in FAULT; minus infinity if never."""
    try:
        fd = os.open(os.path.join(logs, _FAULT_FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            boot, _, text = file.read(_MOST_BYTES).decode("ascii", "replace").partition(" ")
        seen = float(text)
        known = boot == boot_id() and math.isfinite(seen) and seen <= time.monotonic()
    except (OSError, ValueError):
        known = False
    return seen if known else -math.inf
