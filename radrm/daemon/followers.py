"""Which jobs can never start once others are cancelled, for whoever is about to cancel those.

It foretells what `core.dependencies` then does, end by end, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from radrm.core.records import Job
from radrm.core.words import Condition, JobState

_Key = tuple[bool, int]


def doomed(jobs: Mapping[int, Job], cancelled: Iterable[int]) -> dict[int, list[Job]]:
    """The waiting jobs that fail because they follow a cancelled one, or one that fails so; by
    the cancelled job that comes first. Those that are themselves to be cancelled are left out."""
    chosen = list(dict.fromkeys(cancelled))
    following: dict[_Key, list[tuple[Job, Condition]]] = defaultdict(list)
    for job in jobs.values():
        for dependency in job.after if job.state.waiting else ():
            key = (dependency.array, dependency.job_id)
            following[key].append((job, dependency.condition))
    found: dict[int, list[Job]] = {}
    seen = set(chosen)
    for job_id in chosen if following else ():
        ended = [(jobs[job_id], JobState.CANCELLED)] if job_id in jobs else []
        hit: list[Job] = []
        while ended:
            job, state = ended.pop()
            for key in _keys(job):
                for follower, condition in following.get(key, ()):
                    if follower.id not in seen and not condition.met_by(state):
                        seen.add(follower.id)
                        hit.append(follower)
                        ended.append((follower, JobState.FAILED))
        if hit:
            found[job_id] = sorted(hit, key=lambda job: job.id)
    return found


def _keys(job: Job) -> list[_Key]:
    """What others may have named who follow this job: itself, its array."""
    mine = [(False, job.id)]
    return mine if job.array is None else [*mine, (True, job.array.array_id)]
