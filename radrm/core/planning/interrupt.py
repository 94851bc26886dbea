"""Interrupt a rule that takes too long, from a signal handler of the host.

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
"""

from __future__ import annotations

from types import CodeType, FrameType

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
