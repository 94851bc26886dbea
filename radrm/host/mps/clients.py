"""Ending clients the way CUDA wants it.

A client with work in flight must not just be killed: what becomes of its server and of the
other clients is undefined (MPS guide, "Client early termination"). `terminate_client` takes
the work away first. It gets five seconds: what is to be killed is killed in the end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import Control, NoAnswer

log = logging.getLogger("radrm")

LIMIT_S = 5.0
"""For all clients of an attempt together."""


def end_clients(
    controls: Iterable[Control],
    owner: tuple[int, int],
    owner_of: OwnerOf,
    then: Callable[[], None],
) -> None:
    """Take the work of an attempt's processes away from their servers, then call `then`.

    All of it happens in a thread of its own; `then` is called there, whatever goes wrong.
    `owner` is the attempt: job id and number.
    """

    def end() -> None:
        try:
            for control in controls:
                _end_of(control, owner, owner_of)
        except Exception as error:
            log.warning("job %d under MPS: %s; it is killed all the same", owner[0], error)
        finally:
            then()

    threading.Thread(target=end, name="mps clients", daemon=True).start()


def _end_of(control: Control, owner: tuple[int, int], owner_of: OwnerOf) -> None:
    """Raises `NoAnswer` when it takes too long."""
    deadline = time.monotonic() + LIMIT_S
    if control.process() is None:
        return

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"its clients could not be ended within {LIMIT_S:g} s")
        return left

    for server in control.server_pids(left_s()):
        for client in control.client_pids(server, left_s()):
            if owner_of(client) == owner:
                control.terminate_client(server, client, left_s())
