"""Who follows whom: `--after`.

A job's unmet dependencies stand in its record; here are the consequences of an end,
and what makes a dependency impossible. What was met before the job came is not in
its record at all: the host, which remembers the jobs that have ended, left it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from radrm.core.lifecycle import refuse
from radrm.core.records import Dependency, Job
from radrm.core.state.state import State
from radrm.core.words import Condition, JobState

_WANTED = {Condition.OK: "had to complete", Condition.FAILED: "had to fail"}


def unmet(what: str, state: JobState, condition: Condition) -> str:
    """Why a job that was to follow `what` (a job, or one of an array) never can."""
    return f"it was to follow {what}, which {_WANTED[condition]} and is {state.value}"


def settle(state: State) -> None:
    """Let the ends of this step reach those who wait for them, and on along every chain."""
    while state.turn.ended:
        _reach(state, state.turn.ended.pop())


def _reach(state: State, ended: Job) -> None:
    for follower in state.take_followers(ended):
        mine = [d for d in follower.after if _about(d, ended)]
        wrong = next((d for d in mine if not d.condition.met_by(ended.state)), None)
        if wrong is not None:
            what = f"job {ended.label} ({ended.spec.name})"
            refuse(state, follower, unmet(what, ended.state, wrong.condition))
            continue
        met = [d for d in mine if not d.array or not state.array_unfinished(d.job_id)]
        if met:
            left = tuple(d for d in follower.after if d not in met)
            followed = (*follower.followed, *met)
            state.put_job(replace(follower, after=left, followed=followed))


def _about(dependency: Dependency, ended: Job) -> bool:
    if dependency.array:
        return ended.array is not None and ended.array.array_id == dependency.job_id
    return dependency.job_id == ended.id


def cycle(state: State, job: Job, after: Iterable[Dependency]) -> str | None:
    """Why `job` cannot come after these: one of them waits for it. None when it can."""
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
                return f"job {job.label} would wait for itself: what it is to follow waits for it"
            if job_id not in looked_at:
                looked_at.add(job_id)
                other = state.jobs.get(job_id)
                todo += other.after if other is not None else ()
    return None


def is_open(state: State, dependency: Dependency) -> bool:
    """True while what it names has not ended."""
    if dependency.array:
        return bool(state.array_unfinished(dependency.job_id))
    return dependency.job_id in state.jobs


def _ids(state: State, dependency: Dependency) -> Iterable[int]:
    return state.array_unfinished(dependency.job_id) if dependency.array else (dependency.job_id,)


def waits_for(state: State, job: Job) -> str:
    """What an unmet dependency of `job` is, for people."""
    first = job.after[0]
    other = state.jobs.get(first.job_id)
    if first.array:
        left = len(state.array_unfinished(first.job_id))
        what = f"array {first.job_id}, {left} of whose elements have not ended"
    elif other is not None:
        what = f"job {other.label} ({other.spec.name}), which is {other.state.value}"
    else:
        what = f"job {first.job_id}"
    more = f", and {len(job.after) - 1} more" if len(job.after) > 1 else ""
    return f"it follows {what}{more}"
