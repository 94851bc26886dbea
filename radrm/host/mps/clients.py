"""End the MPS clients of an attempt without harm to other clients.

Killing a client with work in flight leaves its server and the other clients undefined (MPS
guide, "Client early termination"). `terminate_client` removes the work first. It has `LIMIT_S`;
after that the caller kills the processes anyway, so that no cancel hangs on a control daemon.
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
"""Real seconds for all clients of an attempt together."""


def end_clients(
    controls: Iterable[Control],
    owner: tuple[int, int],
    owner_of: OwnerOf,
    then: Callable[[], None],
) -> None:
    """Remove the work of an attempt's processes from their servers, then call `then`.

    Both happen in a new thread, and an error does not prevent `then`. `owner` is the attempt:
    job id and serial.
    """

    def end() -> None:
        try:
            for control in controls:
                _end_of(control, owner, owner_of)
        except Exception as error:
            log.warning("job %d under MPS: %s; radrm kills it anyway", owner[0], error)
        finally:
            then()

    threading.Thread(target=end, name="mps clients", daemon=True).start()


def _end_of(control: Control, owner: tuple[int, int], owner_of: OwnerOf) -> None:
    """End the attempt's clients of one control daemon. Raises `NoAnswer` after `LIMIT_S`."""
    deadline = time.monotonic() + LIMIT_S
    if control.process() is None:
        return

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"its clients did not end within {LIMIT_S:g} s")
        return left

    for server in control.server_pids(left_s()):
        for client in control.client_pids(server, left_s()):
            if owner_of(client) == owner:
                control.terminate_client(server, client, left_s())
