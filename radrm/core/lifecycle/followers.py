"""What the end of a job means for others: the rest of its array, and the jobs that follow it.

Theory of operation: arrays that keep failing (`--max-fails`)
-------------------------------------------------------------
An array counts its elements that FAILED after they had run; with a time, only those that ended so
soon after their first start. At the limit the array is *stopped*: none of its waiting
elements may enter the queue (`state/queue/queue.py`), and those that run go on. A release of any
element lets the array go on, and the count begins anew.

Invariants:
- When `step` returns, the count covers all ends of this step.
- At most one unfinished element, the *carrier*, has the count in its record; the others have 0.
- A stop changes one record, however long the array is.
- Each stop is reported to the user once.

What may interleave: the carrier may end; then another element gets the count, in the same step. An
ended element that runs again brings no count with it.

What a restart sees: the carrier's record. Of an array whose elements have all ended, only the queue
remembers the count, for elements that are still to come.

Theory of operation: dependencies (`--after`)
---------------------------------------------
A job's *unmet* dependencies are in its record (`Job.after`), and keep it out of the queue. When
a job ends, `settle` finds its followers by an index, in the same step. A met dependency moves to
`Job.followed`. One that can never be met fails its job with the reason, which is another end, so
it reaches that job's followers, along every chain.

Invariants:
- When `step` returns, every end of this step has reached its followers (`Step.ended` is empty).
- An end costs as much as it has followers, never the length of the queue.
- Dependencies have no cycle. A new job can only name jobs that exist, and an edit that would
  close a cycle is refused (`cycle`).
- A dependency on an array is met by its last end, and broken by the first end that it
  does not allow.

What may interleave: an edit may remove a dependency whose entry is still in the index, so the
follower's record decides. A job may end before its follower is submitted. The core forgets
ended jobs, so the host leaves out met dependencies and refuses impossible ones.

What a restart sees: the dependencies in the records; the index is built from them. An end and
its effects on followers are saved together.
"""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.decision import Warned
from radrm.core.lifecycle.leaving import fail_waiting
from radrm.core.records import Dependency, Job
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import Condition, JobState
from radrm.structs import replace


def note_end(state: State, ended: Job) -> None:
    """Count the end of an element if it FAILED, and stop its array at the limit."""
    element = ended.array
    if element is None or element.max_fails is None:
        return
    counts = _counts(ended, element.fails_within_s)
    if not counts and not element.fails:
        return  # the count is in another record
    fails = state.queue.array(element.array_id).fails + counts
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
        f"`radrm release {array_id}` lets it go on"
    )


def why_stopped(state: State, job: Job) -> str | None:
    """Return why the array of a waiting element is stopped, for users; None if it is not."""
    array = None if job.array is None else state.queue.array(job.array.array_id)
    return _why(job, array.fails) if array is not None and array.stopped else None


def go_on(state: State, job: Job) -> None:
    """Let the stopped array of a released element go on, and count anew."""
    if job.array is not None and state.queue.array(job.array.array_id).stopped:
        _put_fails(state, job.array.array_id, 0)


def _put_fails(state: State, array_id: int, fails: int) -> Job | None:
    """Save the count with the carrier, and return that; None if all elements have ended."""
    array = state.queue.array(array_id)
    job_id = array.carrier()
    if job_id is None:
        array.fails = fails
        return None
    job = state.jobs[job_id]
    assert job.array is not None
    return state.put_job(replace(job, array=replace(job.array, fails=fails)))


_WANTED = {Condition.OK: "had to complete", Condition.FAILED: "had to fail"}


def unmet(what: str, state: JobState, condition: Condition) -> str:
    """Return why a job that follows `what` (a job or an element of an array) can never start."""
    return f"it follows {what}, which {_WANTED[condition]} and is {state.value}"


def settle(state: State) -> None:
    """Let the ends of this step reach their followers, along every chain."""
    while state.step.ended:
        ended = state.step.ended.pop()
        note_end(state, ended)
        _reach(state, ended)


def _reach(state: State, ended: Job) -> None:
    """Update the jobs that follow an ended job; fail those that can never start."""
    for follower in state.take_followers(ended):
        mine = [d for d in follower.after if _is_about(d, ended)]
        wrong = next((d for d in mine if not d.condition.met_by(ended.state)), None)
        if wrong is not None:
            what = f"job {ended.label} ({ended.spec.name})"
            fail_waiting(state, follower, unmet(what, ended.state, wrong.condition))
            continue
        met = [d for d in mine if not d.array or not state.queue.array(d.job_id).unfinished]
        if met:
            left = tuple(d for d in follower.after if d not in met)
            followed = (*follower.followed, *met)
            state.put_job(replace(follower, after=left, followed=followed))


def _is_about(dependency: Dependency, ended: Job) -> bool:
    if dependency.array:
        return ended.array is not None and ended.array.array_id == dependency.job_id
    return dependency.job_id == ended.id


def cycle(state: State, job: Job, after: Iterable[Dependency]) -> str | None:
    """Return why `job` cannot follow these: one of them waits for it. None if it can."""
    followed: set[tuple[bool, int]] = set()
    looked_at: set[int] = set()
    todo = list(after)
    while todo:
        dependency = todo.pop()
        key = (dependency.array, dependency.job_id)
        if key in followed:
            continue
        followed.add(key)
        for job_id in _ids(state, dependency):
            if job_id == job.id:
                return f"job {job.label} would wait for itself: a job that it follows waits for it"
            if job_id not in looked_at:
                looked_at.add(job_id)
                other = state.jobs.get(job_id)
                todo += other.after if other is not None else ()
    return None


def is_open(state: State, dependency: Dependency) -> bool:
    """Return whether the job or array that a dependency names has not ended."""
    if dependency.array:
        return bool(state.queue.array(dependency.job_id).unfinished)
    return dependency.job_id in state.jobs


def _ids(state: State, dependency: Dependency) -> Iterable[int]:
    job_id = dependency.job_id
    return state.queue.array(job_id).unfinished if dependency.array else (job_id,)


def waits_for(state: State, job: Job) -> str:
    """Return the first unmet dependency of `job`, and how many more it has, for users."""
    first = job.after[0]
    other = state.jobs.get(first.job_id)
    if first.array:
        left = len(state.queue.array(first.job_id).unfinished)
        what, now = f"array {first.job_id}", f" ({left} elements have not ended)"
    elif other is not None:
        what, now = f"job {other.label} ({other.spec.name})", f"; it is {other.state.value}"
    else:
        what, now = f"job {first.job_id}", ""
    more = f", and {len(job.after) - 1} more" if len(job.after) > 1 else ""
    return f"starts after {what} has {_ENDED[first.condition]}{more}{now}"


_ENDED = {Condition.OK: "completed", Condition.ANY: "ended", Condition.FAILED: "failed"}
