"""Remove the work of MPS clients that a signal is about to end.

Ending a client by a signal while its work is in flight leaves its server and the other clients
undefined (MPS guide, "Client early termination"); users report GPUs that hang until a reboot.
`terminate_client` removes the work first. So it comes before each signal that ends a client:

    before TERM   for clients that TERM ends; PyTorch programs have no handler
    before KILL   for all clients that are left

A client that handles TERM may need its work to save its state, so it keeps that until KILL. The
same holds for clients below a process that handles TERM, if TERM is the signal by which the job
wants to be asked to save: then a launcher lets its workers save. Other launchers, as torchrun,
handle TERM to pass it on at once.

The signals that users choose (`--signal`, `--checkpoint`) need nothing of this: they are sent only
to processes that have a handler for them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from enum import Enum

from radrm.host.mps.control import Control, NoAnswer
from radrm.host.processes.procfs import read_stat
from radrm.host.processes.stop import is_shell
from radrm.host.processes.tree import dies_of

_MOST_ANCESTORS = 64


class Which(Enum):
    """The clients of an attempt whose work is removed."""

    ALL = "all"
    END_BY_TERM = "those that TERM ends"
    END_BY_TERM_ALONE = "those that TERM ends, and that have no launcher which handles it"


_OwnerOf = Callable[[int], tuple[int, int] | None]


def remove_work(
    control: Control, owner: tuple[int, int], owner_of: _OwnerOf, which: Which, limit_s: float
) -> None:
    """Remove the work of an attempt's clients from the servers of one control daemon.

    `owner_of` finds the attempt of a process. Raises `NoAnswer`, at the latest after `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    if control.process() is None:
        return

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"its clients did not end within {limit_s:g} s")
        return left

    for server in control.server_pids(left_s()):
        for client in control.client_pids(server, left_s()):
            if owner_of(client) == owner and _is_meant(client, which, owner, owner_of):
                control.terminate_client(server, client, left_s())


def _is_meant(pid: int, which: Which, owner: tuple[int, int], owner_of: _OwnerOf) -> bool:
    if which is Which.ALL:
        return True
    if not dies_of(pid, signal.SIGTERM):
        return False
    return which is Which.END_BY_TERM or not _has_launcher(pid, owner, owner_of)


def _has_launcher(pid: int, owner: tuple[int, int], owner_of: _OwnerOf) -> bool:
    """Return whether a process of the attempt above this one handles TERM; a shell does not count:
    its trap runs only after its command."""
    for _ in range(_MOST_ANCESTORS):
        stat = read_stat(pid)
        if stat is None or owner_of(stat.parent) != owner:
            return False
        pid = stat.parent
        if not dies_of(pid, signal.SIGTERM) and not is_shell(pid):
            return True
    return False
