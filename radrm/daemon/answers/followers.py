"""Which jobs can never start once others are cancelled, and which run again with others.

The first is for the answer of a cancel: it predicts what `core.lifecycle.others.dependencies` does
after it. Nothing here changes anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from radrm.core.records import Job
from radrm.core.words import Condition, JobState
from radrm.daemon.serving.turns import Pace, Work

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


class EndedFollowers:
    """The jobs that have ended without completing, by what they follow; filled by `note`."""

    def __init__(self) -> None:
        self._following: dict[_Key, list[Job]] = defaultdict(list)

    def note(self, job: Job) -> None:
        """Add a job under each job or array that it follows, or has followed."""
        for dependency in dict.fromkeys((*job.after, *job.followed)):
            self._following[dependency.array, dependency.job_id].append(job)

    def levels(self, again: Iterable[Job]) -> Work[list[list[int]]]:
        """The ids of the jobs that follow these, directly or through others, in an order in which
        they can run again: each level only follows these jobs and earlier levels."""
        first, pace = list(again), Pace()
        waits_for: dict[int, int] = dict.fromkeys((job.id for job in first), 0)
        """For each job found, how many of the others it follows."""
        todo = first[:]
        while todo:
            for follower in self._of(todo.pop()):
                if follower.id not in waits_for:
                    waits_for[follower.id] = 0
                    todo.append(follower)
                waits_for[follower.id] += 1
            if pace.spent:
                yield from pace.rest()
        seen = {job.id for job in first}
        level, levels = first, []
        while level:
            ready: dict[int, Job] = {}
            for follower in (each for job in level for each in self._of(job)):
                waits_for[follower.id] -= 1
                if not waits_for[follower.id] and follower.id not in seen:
                    seen.add(follower.id)
                    ready[follower.id] = follower
            level = list(ready.values())
            levels.append(sorted(ready))
            if pace.spent:
                yield from pace.rest()
        return [ids for ids in levels if ids]

    def _of(self, job: Job) -> list[Job]:
        return [each for key in _keys(job) for each in self._following.get(key, ())]
