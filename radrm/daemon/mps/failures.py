"""Tell whether the failure of an attempt lies with its GPU's MPS server or driver.

Theory of operation. Two things prove it: the last words of the program (`radrm/passing.py`), and a
server in FAULT while the attempt ran. A fault ends the work of all clients; which of them caused it
cannot be told. The first client that fails makes radrm ask the server (`Mps.suspect`), and only the
answer shows the fault. So the end of a failed client waits for that, for `_PATIENCE_S` at most. It
waits in memory; the record of it stays in its folder until it is stored. So the next daemon finds
it there, and judges it by the last words and the faults that its predecessor has seen.
"""

from __future__ import annotations

import time
from math import inf

from radrm.core.records import Attempt
from radrm.core.words import Collocation
from radrm.host.attempts.evidence import Ended, Lost
from radrm.host.clock import Clock
from radrm.host.mps.interface import Mps
from radrm.passing import passing_error

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
        why = next(filter(None, (passing_error(found.exit, t) for t in found.tails)), None)
        fault = self._had_fault(attempt)
        return (_FAULT if fault else why), fault

    def _had_fault(self, attempt: Attempt) -> bool:
        if self._mps is None or attempt.placement.collocation is not Collocation.MPS:
            return False
        ran_s = self._clock.now().since(attempt.launched)
        real_s = inf if ran_s is None else self._clock.real_s(ran_s)
        return self._mps.faulted(attempt.devices, real_s)
