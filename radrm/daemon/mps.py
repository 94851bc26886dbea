"""MPS clients: how they are stopped, and what a failure of one means.

Theory of operation: failures. Two things prove that a failure lies with the GPU's MPS server or
driver: the last words of the program (`radrm/excuses.py`), and a
server in FAULT while the attempt ran. A fault ends the work of all clients; which of them caused it
cannot be told. The first client that fails makes radrm ask the server (`Mps.suspect`), and only the
answer shows the fault. So the end of a failed client waits for that, for `_PATIENCE_S` at most. It
waits in memory; the record of it stays in its folder until it is stored. So the next daemon finds
it there, and judges it by the last words and the faults that its predecessor has seen.

Theory of operation: stops. For a client the signal follows when another thread has removed the work
that is in flight, or when that has taken too long. That thread posts `ClientsEnded`, and the loop's
thread sends the signal. A daemon that is killed in between leaves an attempt without its signal:
the next daemon adopts it and sends TERM again, in the same way, and KILL follows after the grace
time. An attempt that ends meanwhile is unknown to the launcher then, and nothing is signalled.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from math import inf

from msgspec import Struct

from radrm.core.records import Attempt, Job
from radrm.core.words import CheckpointKind, Collocation
from radrm.excuses import excuse_of
from radrm.host.attempts.evidence import Ended, Lost
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.mps.interface import Mps
from radrm.host.mps.removal import Which

_PATIENCE_S = 5.0
"""Real seconds that an end waits for the answer of its MPS server."""
_FAULT = (
    "its MPS server had a fault, which ends the work of all its clients; "
    "which of them caused it cannot be told"
)


class Failures:
    """Used by the loop's thread."""

    def __init__(self, clock: Clock, mps: Mps | None) -> None:
        self._clock = clock
        self._mps = mps
        self._waiting: dict[int, tuple[Attempt, Ended | Lost, float]] = {}
        """By serial: an end, and until when it waits."""

    def wait(self, attempt: Attempt, found: object) -> bool:
        """Return whether this record is an end that waits; `answered` returns it later."""
        if not isinstance(found, (Ended, Lost)) or not self._suspect(attempt, found):
            return False
        self._waiting[attempt.serial] = attempt, found, time.monotonic() + _PATIENCE_S
        return True

    def _suspect(self, attempt: Attempt, found: Ended | Lost) -> bool:
        """Check the MPS servers of a failed client: a fault of the server may have ended it."""
        failed = not isinstance(found, Ended) or found.exit.code != 0
        if self._mps is None or not failed:
            return False
        if attempt.placement.collocation is not Collocation.MPS:
            return False
        self._mps.suspect(attempt.devices)
        return self._mps.suspected(attempt.devices)

    def answered(self) -> dict[int, Ended | Lost]:
        """Return the ends that need not wait any more, by serial."""
        now, mps = time.monotonic(), self._mps
        done = {
            serial: found
            for serial, (attempt, found, until) in self._waiting.items()
            if mps is None or now >= until or not mps.suspected(attempt.devices)
        }
        for serial in done:
            del self._waiting[serial]
        return done

    def judge(self, attempt: Attempt, found: Ended) -> tuple[str | None, bool]:
        """Return why a failure may pass, and whether a fault of its server is the reason.

        (None, False): it lies with the job, as far as is known.
        """
        if found.exit.ok or found.never_started is not None:
            return None, False
        why = next(filter(None, (excuse_of(found.exit, t) for t in found.tails)), None)
        fault = self._had_fault(attempt)
        return (_FAULT if fault else why), fault

    def _had_fault(self, attempt: Attempt) -> bool:
        if self._mps is None or attempt.placement.collocation is not Collocation.MPS:
            return False
        ran_s = self._clock.now().since(attempt.launched)
        real_s = inf if ran_s is None else self._clock.real_s(ran_s)
        return self._mps.faulted(attempt.devices, real_s)


class ClientsEnded(Struct, frozen=True):
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
