"""End the MPS clients of an attempt without harm to other clients, for the daemon.

`removal` says why their work goes first. A server takes no new client meanwhile, so its GPUs take
no job (`Keeper.ending`). A control daemon may hang for ever in `terminate_client` (reported for
driver 580 with many clients): after a limit the caller sends its signal anyway.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.keeper import Keeper
from radrm.host.mps.removal import Which, remove_work

log = logging.getLogger("radrm")

LIMIT_S = 5.0
"""Real seconds for all clients of an attempt together."""


def end_clients(
    keepers: Iterable[Keeper],
    owner: tuple[int, int],
    owner_of: OwnerOf,
    which: Which,
    limit_s: float,
    then: Callable[[], None],
) -> None:
    """Remove the work of an attempt's processes from their servers, then call `then`.

    Both happen in a new thread, and an error does not prevent `then`. `owner` is the attempt:
    job id and serial. `limit_s` is in real seconds, for each control daemon.
    """

    def end() -> None:
        try:
            for keeper in keepers:
                with keeper.ending(owner[0]):
                    remove_work(keeper.control, owner, owner_of, which, limit_s)
        except Exception as error:
            log.warning("job %d under MPS: %s; radrm ends it anyway", owner[0], error)
        finally:
            then()

    threading.Thread(target=end, name="mps clients", daemon=True).start()
