"""`--max-fails`: an array whose elements keep failing stops, until its user releases it.

Theory of operation
-------------------
An array counts its elements that FAILED after they had run; with a time, only those that ended so
soon after their first start. At the limit the array is *stopped*: none of its waiting
elements may enter the queue (`state/queue/arrays.py`), and those that run go on. A release of any
element lets the array go on, and the count begins anew.

Invariants:
- When `step` returns, the count covers all ends of this step.
- At most one unfinished element, the *carrier*, has the count in its record; the others have 0.
- A stop changes one record, however long the array is.
- The user is told once per stop.

What may interleave: the carrier may end; then another element gets the count, in the same step. An
ended element that runs again brings no count with it.

What a restart sees: the carrier's record. Of an array whose elements have all ended, only the queue
remembers the count, for elements that are still to come.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.decision import Warned
from radrm.core.records import Job
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import JobState


def note_end(state: State, ended: Job) -> None:
    """Count the end of an element if it FAILED, and stop its array at the limit."""
    element = ended.array
    if element is None or element.max_fails is None:
        return
    counts = _counts(ended, element.fails_within_s)
    if not counts and not element.fails:
        return  # the count is in another record
    fails = state.queue.fails(element.array_id) + counts
    carrier = _put_fails(state, element.array_id, fails)
    if carrier is not None and counts and fails == element.max_fails:
        state.step.warned.append(Warned(carrier.id, "held", _why(ended, fails)))


def _counts(ended: Job, within_s: float | None) -> bool:
    if ended.state is not JobState.FAILED or ended.started is None or ended.ended is None:
        return False
    ran_s = ended.ended.since(ended.started)
    return within_s is None or (ran_s is not None and ran_s <= within_s)


def _why(element: Job, fails: int) -> str:
    assert element.array is not None
    array_id, within_s = element.array.array_id, element.array.fails_within_s
    soon = "" if within_s is None else f" within {show_seconds(within_s)} of starting"
    failed = "1 element" if fails == 1 else f"{fails} elements"
    return (
        f"array {array_id} is held: {failed} failed{soon} (--max-fails={element.array.max_fails}); "
        f"go on with: radrm release {array_id}"
    )


def why_stopped(state: State, job: Job) -> str | None:
    """Return why the array of a waiting element is stopped, for users; None if it is not."""
    if job.array is None or not state.queue.stopped(job.array.array_id):
        return None
    return _why(job, state.queue.fails(job.array.array_id))


def go_on(state: State, job: Job) -> None:
    """Let the stopped array of a released element go on, and count anew."""
    if job.array is not None and state.queue.stopped(job.array.array_id):
        _put_fails(state, job.array.array_id, 0)


def _put_fails(state: State, array_id: int, fails: int) -> Job | None:
    """Save the count with the carrier, and return that; None if all elements have ended."""
    job_id = state.queue.carrier(array_id)
    if job_id is None:
        state.queue.note_fails(array_id, fails)
        return None
    job = state.jobs[job_id]
    assert job.array is not None
    return state.put_job(replace(job, array=replace(job.array, fails=fails)))
