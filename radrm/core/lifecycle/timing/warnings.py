"""What the user of a running job is warned of: in the attempt's record, and by `--notify`."""

from __future__ import annotations

from dataclasses import replace

from radrm.core.decision import Warned
from radrm.core.records import Attempt, JobWarning
from radrm.core.state.state import State
from radrm.core.units import show_seconds


def warn(
    state: State, attempt: Attempt, kind: str, text: str, does: str = "", in_s: float | None = None
) -> Attempt:
    """Replace the warning of a kind, and tell the user; "" as `text` takes it back silently.

    `does` follows `in_s` seconds from now; "" if nothing does.
    """
    others = tuple(each for each in attempt.warnings if each.kind != kind)
    if not text:
        return attempt if others == attempt.warnings else _put(state, attempt, others)
    ends = f"; {does} in {show_seconds(in_s)}" if does and in_s is not None else ""
    state.step.warned.append(Warned(attempt.job_id, kind, text + ends))
    mine = JobWarning(kind, text, state.step.now, does, in_s)
    return _put(state, attempt, (*others, mine))


def _put(state: State, attempt: Attempt, warnings: tuple[JobWarning, ...]) -> Attempt:
    return state.put_attempt(replace(attempt, warnings=warnings))
