"""What a keeper has seen of its control daemon, for other threads; and launches that wait for it.

The time of the last fault is also in a file beside the control daemon's logs: the next daemon
judges the ends of attempts by it, too. It counts in the same boot alone, whose monotonic clock it
is of. A file that cannot be written or read costs only that: then their last words decide.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from radrm.host.clock import boot_id
from radrm.host.mps.control import ACTIVE, UNKNOWN, Control, NoAnswer, Server, user_of

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


class Seen(Struct, frozen=True):
    """The result of a look. `fault` is the message of a problem, if there is one.

    `turn` and `settled` say which orders it was a look at (`keeper.Orders`): the number of the
    last switch, and how many suspicions were raised before it.
    """

    phase: Phase
    fault: str | None = None
    pid: int | None = None
    servers: tuple[Server, ...] = ()
    multiuser: bool = False
    """Whether its server was seen to take clients of several users."""
    turn: int = 0
    settled: int = 0

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


# ------------------------------------------------------------------
# Launches that wait until their MPS server can take them.
#
# Theory of operation. CUDA starts a server for its first client, which takes seconds where no
# persistence daemon runs. A server that initialises, or removes the work of a client, refuses new
# ones with error 807 (MPS guide, "Troubleshooting"). So a launch waits for the end of both, and a
# server is started before its first client: `start_server -uid` with the job's user. A server for
# all users belongs to root. The keeper's thread does this at each of its looks. What waits is only
# in memory: a restart finds an attempt that never began, and its job returns to the queue.
#
# Nothing waits for ever. After `LIMIT_S`, if the control daemon does not know the command, or if it
# has stopped to work, the launch goes on: then CUDA starts the server.


log = logging.getLogger("radrm")

LIMIT_S = 30.0
"""Real seconds that a launch waits for its server."""
APPEARS_S = 3.0
"""Real seconds after the command until a server must be in the list of servers."""


class Launch(Struct, eq=False):
    """A launch of this user's job. `until`: when it goes on anyway; None before the first look."""

    uid: int
    then: Callable[[], None]
    until: float | None = None


def has_server(uid: int, seen: Seen, several: bool) -> bool:
    """Return whether a server takes clients of this user now.

    `several`: servers may be for all users.
    """
    return any(
        server.status in (ACTIVE, UNKNOWN) and _is_for(server, uid, several)
        for server in seen.servers
    )


class Launches:
    """Starts the servers that launches wait for. Only the keeper's thread uses it.

    `name` is the control daemon's name in the log.
    """

    def __init__(self, name: str, control: Control) -> None:
        self._name = name
        self._control = control
        self._asked: dict[int, float] = {}
        """By user: when the control daemon was asked for a server."""

    def take(
        self, waiting: tuple[Launch, ...], now: float, seen: Seen | None, several: bool
    ) -> list[Launch]:
        """Start servers that are missing; return the launches that may go on.

        `seen` None: the control daemon does not work, so all go on.
        """
        ready = [each for each in waiting if seen is None or self._may_go(each, now, seen, several)]
        if len(ready) == len(waiting):
            self._asked.clear()
        return ready

    def _may_go(self, launch: Launch, now: float, seen: Seen, several: bool) -> bool:
        if launch.until is None:
            launch.until = now + LIMIT_S
        if has_server(launch.uid, seen, several):
            return True
        if now >= launch.until:
            log.warning("MPS of %s: no server within %g s; CUDA starts it", self._name, LIMIT_S)
            return True
        if any(_is_for(server, launch.uid, several) for server in seen.servers):
            return False  # it initialises
        owner = 0 if several else launch.uid
        asked = self._asked.get(owner)
        if asked is not None:
            return now - asked >= APPEARS_S  # old control daemons do not know the command
        self._asked[owner] = now
        try:
            self._control.start_server(owner)
        except NoAnswer as error:
            log.warning("MPS of %s: no server is started before its client: %s", self._name, error)
            return True
        return False


def _is_for(server: Server, uid: int, several: bool) -> bool:
    owner = user_of(server.pid)
    return owner == uid or (several and owner == 0)
