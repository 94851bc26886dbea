"""The jobs without a GPU: how many run, and which of those that wait may start now.

Theory of operation
-------------------
At most `core.gpuless_at_once` of them run at a time, because they share the server's CPUs. The
limit is for all users together, and a job without a time limit may hold its place for ever. So a
user who runs none may start one beyond the limit. That stops no running job, keeps no place empty
for a user who may never come, and costs the server at most one job for each further user.

Invariants:
- A user who runs no job without a GPU never waits for the places of others.
- At most the limit and one for each further user run.
- While the limit is reached, `line` costs the users with such jobs waiting, not their jobs.

What a restart sees: nothing is stored. The counts follow from the attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from radrm.core.records import Attempt, Job, Refusal
from radrm.core.state.queue.waiting import Lines

RULE = "gpuless"


class Gpuless:
    """The running jobs without a GPU, by user; and the line of those that wait."""

    def __init__(self, most: int, lines: Lines) -> None:
        self._most = most
        self.lines = lines
        self._uid_of: dict[int, int] = {}
        self._running: Counter[int] = Counter()

    def update(self, attempt: Attempt, job: Job | None) -> None:
        """Count an attempt while it is live, if its placement has no device."""
        had = self._uid_of.pop(attempt.job_id, None)
        if had is not None:
            self._running[had] -= 1
            if not self._running[had]:
                del self._running[had]
        if job is not None and attempt.ended is None and not attempt.placement.devices:
            self._uid_of[job.id] = job.spec.uid
            self._running[job.spec.uid] += 1

    def refuse(self, job: Job) -> Refusal | None:
        """Return why a waiting job without a GPU has no place now; None if it has one."""
        if self._has_place(job.spec.uid):
            return None
        running, mine = len(self._uid_of), self._running[job.spec.uid]
        whose = f"{running} run, {mine} of them of {job.spec.user}"
        why = f"limit of jobs without a GPU ({self._most}) reached: {whose}"
        return Refusal(RULE, why, None, running + 1, self._most)

    def _has_place(self, uid: int) -> bool:
        # With a limit of 0 none runs.
        return len(self._uid_of) < self._most or (self._most > 0 and uid not in self._running)

    def line(self) -> Iterator[int]:
        """Yield the waiting jobs that have a place, in the order of service."""
        line = self.lines.gpuless
        if len(self._uid_of) < self._most:
            yield from line
            return
        firsts = (
            mine.head() for uid, mine in self.lines.gpuless_of_user.items() if self._has_place(uid)
        )
        keys = [(line.key_of(job_id), job_id) for job_id in firsts if job_id is not None]
        yield from [job_id for _, job_id in sorted(keys)]

    def head(self) -> int | None:
        """Return the first waiting job that has a place; None without one."""
        if len(self._uid_of) < self._most:
            return self.lines.gpuless.head()
        return next(self.line(), None)
