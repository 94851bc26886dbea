"""MPS of simulated GPUs: their driver models it without a control daemon."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from radrm.config import MpsConfig
from radrm.errors import Refused
from radrm.host.mps.interface import Access, DaemonHooks
from radrm.host.mps.removal import Which
from radrm.host.mps.service import thread_percentage

log = logging.getLogger("radrm")

_NOTHING = (
    "simulated GPUs model MPS without a control daemon, so it cannot be started or stopped; "
    "set mps.enabled and restart the daemon"
)


class SimulatedMps(Struct, frozen=True):
    """`run` is the daemon's run folder. A simulated job with a pipe directory is a client."""

    run: str
    config: MpsConfig

    @property
    def empty_pipes(self) -> str | None:
        return None

    def begin(self, daemon: DaemonHooks) -> None:
        if self.config.multiuser:
            log.warning(
                "mps.multiuser has no effect: a simulated MPS server takes one user at a time"
            )

    def access(self, uuids: Sequence[str]) -> Access:
        ordinals = {uuid: place for place, uuid in enumerate(uuids)}
        return Access(f"{self.run}/mps", None, ordinals, thread_percentage(self.config))

    def wait_for_server(self, uuids: Sequence[str], uid: int, then: Callable[[], None]) -> bool:
        return False

    def suspect(self, uuids: Iterable[str]) -> None:
        pass

    def suspected(self, uuids: Iterable[str]) -> bool:
        return False

    def faulted(self, uuids: Iterable[str], seconds: float) -> bool:
        return False

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], which: Which, then: Callable[[], None]
    ) -> None:
        then()

    def rows(self) -> list[dict[str, Any]]:
        return []

    def turn_on(self, uuids: Sequence[str]) -> None:
        raise Refused(_NOTHING)

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        raise Refused(_NOTHING)

    def close(self) -> None:
        pass
