"""End a control daemon, and the clients that a fault has left. The keeper decides when.

`quit` lets a control daemon end after its last client. Its servers may need seconds for the
contexts of eight GPUs, so it is killed only after `QUIT_S`.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import Control, NoAnswer, Server
from radrm.host.processes.identity import identify, open_pidfd, send_signal

log = logging.getLogger("radrm")

QUIT_S, FORCED_QUIT_S = 15.0, 2.0
"""Real seconds that a control daemon has to end: without clients, and by force with them."""


class Endings:
    """`name` is the control daemon's name in the log, `wake` the eventfd that wakes its keeper."""

    def __init__(self, name: str, control: Control, wake: int) -> None:
        self._name = name
        self._control = control
        self._wake = wake

    def end(self, servers: Iterable[Server], forced: bool, hurry: Callable[[], bool]) -> bool:
        """Ask it to end; kill it and these servers if they do not end in time.

        False if it runs on: without `forced`, clients have come meanwhile, and it ends after them.
        `hurry` ends the wait: the daemon ends, or force was ordered.
        """
        who = self._control.process()
        pidfd = open_pidfd(who) if who is not None else None
        deadline = time.monotonic() + (FORCED_QUIT_S if forced else QUIT_S)
        try:
            self._control.quit(deadline - time.monotonic())
            if pidfd is not None and not self._ends_before(deadline, pidfd, hurry):
                if not forced and (hurry() or self._has_clients()):
                    return False
                log.warning("MPS of %s: no end after `quit`; radrm kills it", self._name)
        except NoAnswer:
            pass
        finally:
            if pidfd is not None:
                os.close(pidfd)
        self._control.kill(server.pid for server in servers)
        return True

    def _ends_before(self, deadline: float, pidfd: int, hurry: Callable[[], bool]) -> bool:
        poller = select.poll()
        for fd in (pidfd, self._wake):
            poller.register(fd, select.POLLIN)
        while not hurry():
            left_s = max(0.0, deadline - time.monotonic())
            ready = [fd for fd, _ in poller.poll(left_s * 1000)]
            if pidfd in ready or not ready:
                return pidfd in ready
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return False

    def _has_clients(self) -> bool:
        try:
            return any(server.clients for server in self._control.probe())
        except NoAnswer:
            return False

    def terminate(
        self, servers: Iterable[Server], meant: Callable[[int], bool] = lambda pid: True
    ) -> None:
        """Remove the work of these servers' clients; of those that are meant."""
        for server in servers:
            for client in filter(meant, server.clients):
                try:
                    self._control.terminate_client(server.pid, client)
                except NoAnswer as error:
                    log.warning("MPS of %s: %s", self._name, error)
                    return

    def signal(self, servers: Iterable[Server], owner_of: OwnerOf, number: signal.Signals) -> None:
        """Signal the clients that belong to jobs, and no other process."""
        for pid in [pid for server in servers for pid in server.clients]:
            who, owner = identify(pid), owner_of(pid)
            if who is not None and owner is not None:
                log.warning(
                    "MPS of %s: process %d of job %d gets %s: it remains after a fault",
                    *(self._name, pid, owner[0], number.name),
                )
                send_signal(pid, who.start_ticks, number)
