"""Dependencies (`--after`): an end lets its followers start, or fails them.

Theory of operation
-------------------
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
from dataclasses import replace

from radrm.core.lifecycle.final import fail_waiting
from radrm.core.lifecycle.others.max_fails import note_end
from radrm.core.records import Dependency, Job
from radrm.core.state.state import State
from radrm.core.words import Condition, JobState

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
        met = [d for d in mine if not d.array or not state.queue.unfinished(d.job_id)]
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
        return bool(state.queue.unfinished(dependency.job_id))
    return dependency.job_id in state.jobs


def _ids(state: State, dependency: Dependency) -> Iterable[int]:
    return state.queue.unfinished(dependency.job_id) if dependency.array else (dependency.job_id,)


def waits_for(state: State, job: Job) -> str:
    """Return the first unmet dependency of `job`, and how many more it has, for users."""
    first = job.after[0]
    other = state.jobs.get(first.job_id)
    if first.array:
        left = len(state.queue.unfinished(first.job_id))
        what = f"array {first.job_id} ({left} elements have not ended)"
    elif other is not None:
        what = f"job {other.label} ({other.spec.name}), which is {other.state.value}"
    else:
        what = f"job {first.job_id}"
    more = f", and {len(job.after) - 1} more" if len(job.after) > 1 else ""
    return f"it follows {what}{more}"
