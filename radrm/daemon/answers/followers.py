"""Which jobs can never start once others are cancelled, for whoever is about to cancel those.

It foretells what `core.dependencies` then does, end by end, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from radrm.core.records import Job
from radrm.core.words import Condition, JobState

_Key = tuple[bool, int]


class Followers:
    """Who follows whom among these jobs, filled by `note`. `chosen`: those that are themselves
    to be cancelled, which are left out."""

    def __init__(self, jobs: Mapping[int, Job], chosen: Iterable[int]) -> None:
        self._jobs = jobs
        self._following: dict[_Key, list[tuple[Job, Condition]]] = defaultdict(list)
        self._seen = set(chosen)

    def note(self, job: Job) -> None:
        for dependency in job.after if job.state.waiting else ():
            key = (dependency.array, dependency.job_id)
            self._following[key].append((job, dependency.condition))

    def doomed(self, cancelled: Iterable[int]) -> dict[int, list[Job]]:
        """The waiting jobs that fail because they follow a cancelled one, or one that fails so;
        each once, by the cancelled job that comes first."""
        found: dict[int, list[Job]] = {}
        for job_id in dict.fromkeys(cancelled) if self._following else ():
            ended = [(self._jobs[job_id], JobState.CANCELLED)] if job_id in self._jobs else []
            hit: list[Job] = []
            while ended:
                job, state = ended.pop()
                for key in _keys(job):
                    for follower, condition in self._following.get(key, ()):
                        if follower.id not in self._seen and not condition.met_by(state):
                            self._seen.add(follower.id)
                            hit.append(follower)
                            ended.append((follower, JobState.FAILED))
            if hit:
                found[job_id] = sorted(hit, key=lambda job: job.id)
        return found


def _keys(job: Job) -> list[_Key]:
    """What others may have named who follow this job: itself, its array."""
    mine = [(False, job.id)]
    return mine if job.array is None else [*mine, (True, job.array.array_id)]
