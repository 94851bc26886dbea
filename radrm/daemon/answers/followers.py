"""Which jobs can never start once others are cancelled, for the answer of a cancel.

It predicts what `core.lifecycle.others.dependencies` does after the cancel, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from radrm.core.records import Job
from radrm.core.words import Condition, JobState

_Key = tuple[bool, int]


class Followers:
    """The waiting jobs, by what they follow; filled by `note`.

    `find` gives an unfinished job by its id. `selected` are the jobs of the cancel itself,
    which are never reported as followers.
    """

    def __init__(self, find: Callable[[int], Job | None], selected: Iterable[int]) -> None:
        self._find = find
        self._following: dict[_Key, list[tuple[Job, Condition]]] = defaultdict(list)
        self._seen = set(selected)

    def note(self, job: Job) -> None:
        """Add a job, under each job or array that it follows; nothing if it does not wait."""
        for dependency in job.after if job.state.waiting else ():
            key = (dependency.array, dependency.job_id)
            self._following[key].append((job, dependency.condition))

    def failing_with(self, cancelled: Iterable[int]) -> dict[int, list[Job]]:
        """The waiting jobs that fail because they follow a cancelled job, directly or through
        others. Each job appears once, under the first cancelled job that it follows."""
        found: dict[int, list[Job]] = {}
        for job_id in dict.fromkeys(cancelled) if self._following else ():
            first = self._find(job_id)
            ended = [(first, JobState.CANCELLED)] if first is not None else []
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
    """The keys under which others may follow a job: the job itself, and its array."""
    mine = [(False, job.id)]
    return mine if job.array is None else [*mine, (True, job.array.array_id)]
