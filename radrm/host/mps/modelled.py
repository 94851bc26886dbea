"""MPS of software GPUs: their driver models it, and there is no control daemon."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.config import MpsConfig
from radrm.errors import Refused
from radrm.host.mps.service import Access, Around, thread_percentage

log = logging.getLogger("radrm")

_NOTHING = "software GPUs model MPS without a control daemon: it is there while mps.enabled is set"


@dataclass(frozen=True, slots=True)
class ModelledMps:
    """`run` is the daemon's run folder: a client knows by its pipe directory that it is one."""

    run: str
    config: MpsConfig

    @property
    def apart(self) -> str | None:
        return None

    @property
    def spans(self) -> bool:
        return True

    def begin(self, around: Around) -> None:
        if self.config.multiuser:
            log.warning(
                "mps.multiuser has no effect: software GPUs model servers of one user at a time"
            )

    def access(self, uuids: Sequence[str]) -> Access:
        ordinals = {uuid: place for place, uuid in enumerate(uuids)}
        return Access(f"{self.run}/mps", None, ordinals, thread_percentage(self.config))

    def prepare(self, uuids: Sequence[str], client: bool) -> None:
        pass

    def suspect(self, uuids: Iterable[str]) -> None:
        pass

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], then: Callable[[], None]
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
