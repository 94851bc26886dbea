"""The daemon's interface to MPS: what it calls, and the functions of its own that MPS calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from radrm.errors import DeviceError, Refused
from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.removal import Which

_NO_DAEMON = "these GPUs have no MPS control daemon"


class NoClientNow(DeviceError):
    """The control daemon of these devices takes no client now, and may later."""


class Access(Struct, frozen=True):
    """What a job needs to be a client.

    A control daemon counts its GPU as 0. `logs` is None if there is no control daemon.
    `ends_clients` is the start of the command by which a runner removes the work of clients
    (`end_clients.py`).
    """

    pipes: str
    logs: str | None
    thread_percentage: int | None = None
    ends_clients: Sequence[str] | None = None


class DaemonHooks(Struct, frozen=True):
    """The functions of the daemon that MPS calls, from any thread.

    `owner_of` finds the attempt of a process. `changed` asks for a reading soon. `grace_s` is the
    real seconds between TERM and KILL.
    """

    owner_of: OwnerOf
    changed: Callable[[], None]
    grace_s: float


class Mps:
    """The daemon's interface to MPS. Its own answers are those without a control daemon."""

    @property
    def empty_pipes(self) -> str | None:
        """The pipe directory of jobs that are no clients, so that they join no foreign server.

        None if they need none.
        """
        return None

    def begin(self, daemon: DaemonHooks) -> None:
        """Start to look after the control daemons."""
        return

    def access(self, uuids: Sequence[str]) -> Access:
        """Return the access of a client on these devices.

        Raises `NoClientNow` if their control daemon takes no client now, and `DeviceError` if it
        does not serve all of them.
        """
        raise DeviceError(_NO_DAEMON)

    def wait_for_server(self, uuids: Sequence[str], uid: int, then: Callable[[], None]) -> bool:
        """Return whether a client of this user must wait for its server on these devices.

        Then `then` is called later, once, in another thread.
        """
        return False

    def suspect(self, uuids: Iterable[str]) -> None:
        """Note that a client on these devices has failed."""
        return

    def suspected(self, uuids: Iterable[str]) -> bool:
        """Return whether a server of these devices is still to be looked at since then."""
        return False

    def faulted(self, uuids: Iterable[str], seconds: float) -> bool:
        """Return whether a server of these devices had a fault in these last real seconds."""
        return False

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], which: Which, then: Callable[[], None]
    ) -> None:
        """Remove the work of an attempt's clients, then call `then` in another thread.

        For a limited time only, and whatever goes wrong.
        """
        then()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per control daemon, for `radrm mps status`."""
        return []

    def turn_on(self, uuids: Sequence[str]) -> None:
        """Start MPS on these devices. Raises `Refused`."""
        raise Refused(_NO_DAEMON)

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        """End MPS on these devices; `force` ends its clients. Raises `Refused`."""
        raise Refused(_NO_DAEMON)

    def leave(self) -> None:
        """Look no more after the control daemons, which run on for the jobs."""
        return
