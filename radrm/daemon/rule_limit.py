"""A rule that takes too long is stopped.

Interrupt a rule that takes too long, from a signal handler of the host.

Theory of operation
-------------------
`step` knows no clock. The host gives `Scheduler` a context manager (`limit`) that is entered
whenever rules may be called. The daemon's (`radrm/daemon/rule_limit.py`) sets an alarm. When it
rings, the handler calls `interrupt` with the frame that runs at that moment.

Invariants:
- Only a rule's own frames are interrupted. If the core's code runs, nothing is raised, because
  a record could be half changed; the handler tries again a moment later. So a rule that loops
  over calls of its view is interrupted between two calls.
- `TooSlow` ends in the innermost `call_rule`. So it is the spinning policy that rests, not the
  planner that called it.

A call into C that never returns (`sum(itertools.count())`) runs no Python code, so it cannot be
interrupted. A rule that catches `BaseException` in an endless loop cannot either.

A time limit for rules that run in the daemon's own thread.

Theory of operation. `Scheduler` enters the limit before rules may be called, and leaves it when
they have answered. An alarm is set meanwhile. When it rings, the handler runs in the main thread,
between two instructions of whatever runs there, and `interrupt` raises if that is a rule's own
code. If it is the core's, the handler tries again a moment later, so that no record stays half
changed (`daemon/rule_limit.py`). One alarm per step: it costs two system calls.

Only the main thread gets signals, so only the daemon uses this, and only once. Real time counts,
also for a rule that sleeps.
"""

from __future__ import annotations

import signal
from types import CodeType, FrameType, TracebackType

from radrm.core.state.isolation import TooSlow, call_rule

_CORE = __name__.partition(".")[0] + ".core."
_CALL_RULE: CodeType = call_rule.__code__


def interrupt(frame: FrameType | None, limit_s: float) -> None:
    """Raise `TooSlow` if `frame`, which runs now, is a rule's own; else return."""
    if frame is not None and _is_rules_own(frame):
        file = frame.f_code.co_filename.rpartition("/")[2]
        raise TooSlow(f"it took longer than {limit_s:g} s ({file}:{frame.f_lineno})")


def _is_rules_own(running: FrameType) -> bool:
    """Return whether `call_rule` has called the frame, with no code of the core in between."""
    frame: FrameType | None = running
    while frame is not None:
        before = frame.f_back
        cores = str(frame.f_globals.get("__name__", "")).startswith(_CORE)
        if before is not None and before.f_code is _CALL_RULE:
            # The core passes small functions to `call_rule`; these call the rule.
            return not cores or frame is not running
        if cores:
            return False
        frame = before
    return False


LIMIT_S = 2.0
"""Real seconds that rules may take in one step. It takes milliseconds with 10,000 jobs."""
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
            interrupt(frame, self._limit_s)
