"""Send TERM and KILL to attempts; the work of MPS clients is removed first (`host/mps/removal.py`).

Theory of operation. For a client the signal follows when another thread has removed the work that
is in flight, or when that has taken too long. That thread posts `ClientsEnded`, and the loop's
thread sends the signal. A daemon that is killed in between leaves an attempt without its signal:
the next daemon adopts it and sends TERM again, in the same way, and KILL follows after the grace
time. An attempt that ends meanwhile is unknown to the launcher then, and nothing is signalled.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from radrm.core.records import Attempt, Job
from radrm.core.words import CheckpointKind, Collocation
from radrm.host.attempts.launcher import Launcher
from radrm.host.mps.interface import Mps
from radrm.host.mps.removal import Which


@dataclass(frozen=True, slots=True)
class ClientsEnded:
    """From another thread: the attempt's clients have no work left that its signal could harm."""

    serial: int
    kill: bool


class Stops:
    """Used by the loop's thread. `post` takes news from any thread."""

    def __init__(
        self, launcher: Launcher, mps: Mps | None, post: Callable[[ClientsEnded], None]
    ) -> None:
        self._launcher = launcher
        self._mps = mps
        self._post = post

    def terminate(self, job: Job, attempt: Attempt) -> None:
        """TERM, at once or after its clients' work."""
        saves = job.spec.checkpoint
        by_term = saves.kind is not CheckpointKind.NONE and saves.number == signal.SIGTERM
        which = Which.END_BY_TERM_ALONE if by_term else Which.END_BY_TERM
        self._after_clients(attempt, which, ClientsEnded(attempt.serial, kill=False))

    def kill(self, attempt: Attempt) -> None:
        """KILL, at once or after its clients' work."""
        self._after_clients(attempt, Which.ALL, ClientsEnded(attempt.serial, kill=True))

    def _after_clients(self, attempt: Attempt, which: Which, then: ClientsEnded) -> None:
        if self._mps is None or attempt.placement.collocation is not Collocation.MPS:
            self.send(then)
            return
        owner = (attempt.job_id, attempt.serial)
        self._mps.end_clients(attempt.devices, owner, which, lambda: self._post(then))

    def send(self, news: ClientsEnded) -> None:
        """Send the signal that has waited."""
        if news.kill:
            self._launcher.kill(news.serial)
        else:
            self._launcher.terminate(news.serial)
