"""A time limit for rules that run in the daemon's own thread.

Theory of operation. `Scheduler` enters the limit before rules may be called, and leaves it when
they have answered. An alarm is set meanwhile. When it rings, the handler runs in the main thread,
between two instructions of whatever runs there, and `interrupt` raises if that is a rule's own
code. If it is the core's, the handler tries again a moment later, so that no record stays half
changed (`core/planning/interrupt.py`). One alarm per step: it costs two system calls. A rule that
is asked after an interrupted one has the whole time again: it has done nothing wrong.

Only the main thread gets signals, so only the daemon uses this, and only once. Real time counts,
also for a rule that sleeps.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

from radrm.core.planning.interrupt import interrupt

LIMIT_S = 2.0
"""Real seconds that rules may take in one step, or what is left of it after an interrupted one. It
takes milliseconds with 10,000 jobs."""
AGAIN_S = 0.01
"""Real seconds from one try to interrupt a rule to the next."""


class RuleLimit:
    """A context manager, entered and left by the main thread for each step."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._inside = False
        signal.signal(signal.SIGALRM, self._on_alarm)

    def __enter__(self) -> None:
        self._inside = True
        self._set_alarm()

    def _set_alarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._limit_s, AGAIN_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        # An alarm of the last moment may be handled after the step.
        if self._inside:
            try:
                interrupt(frame, self._limit_s)
            except BaseException:  # it is interrupted
                self._set_alarm()
                raise
