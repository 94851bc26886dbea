"""The result of a keeper's last look at its control daemon, for other threads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from radrm.host.mps.control import Server


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
