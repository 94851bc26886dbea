"""What each user has at the moment: queued jobs, running jobs and GPUs; and the limits for it.

Theory of operation
-------------------
    room for jobs of g GPUs = min(running_jobs - running, (gpus - in use) // g)

A job runs while it has a live attempt, and on the way from its place to the target of a migration.
It has the GPUs of its placement, or of the target of a migration or resize if these are more: a
change never counts a job twice. Each job counts its GPUs (a MIG instance is one), so a GPU that two
jobs of a user share counts twice.

Invariants:
- Nothing is stored. The counts follow from the records of jobs and attempts at each change, so a
  restart makes the same ones.
- `refuse` is asked about every placement (`constraints/placement.py`). The places of
  `queue/places.py` only spare planners the jobs that it would refuse.

What may interleave: limits that were lowered before a restart stop nothing that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from radrm.core.records import Attempt, Job, Placement, Refusal
from radrm.core.settings import CoreSettings

RUNNING_JOBS, GPUS = "limits.running_jobs", "limits.gpus"


@dataclass(slots=True)
class UserUse:
    """The numbers of a user's queued and running jobs, and of the GPUs of the running ones."""

    queued: int = 0
    running: int = 0
    gpus: int = 0


_Ways: TypeAlias = tuple[Placement | None, Placement | None, Placement | None]
_Counted: TypeAlias = tuple[_Ways | None, int | None]
"""The placements for which a job counts, and its GPUs; both None for one that is queued."""


class Users:
    """The use of every user with unfinished jobs."""

    def __init__(self, settings: CoreSettings) -> None:
        self._jobs_limit = settings.user_running_jobs
        self._gpus_limit = settings.user_gpus
        self._exempt = frozenset(settings.exempt_users)
        self._of_job: dict[int, _Counted] = {}
        self._of_user: dict[int, UserUse] = {}

    @property
    def any_limit(self) -> bool:
        """True if any user has a limit."""
        return bool(self._jobs_limit or self._gpus_limit)

    def update(self, job: Job, attempt: Attempt | None) -> bool:
        """Count a job by its present records. Returns whether what its user runs has changed.

        `attempt`: its last attempt; None without one.
        """
        ways: _Ways | None = None
        if attempt is not None and attempt.ended is None:
            ways = (attempt.placement, attempt.target, job.target)
        elif job.target is not None:
            ways = (None, None, job.target)
        before = self._of_job.get(job.id)
        if ways is None and job.state.final:
            if before is not None:
                del self._of_job[job.id]
                self._add(job.spec.uid, before[1], -1)
            return before is not None and before[1] is not None
        if before is not None and before[0] == ways:
            return False
        gpus = None
        if ways is not None:
            gpus = max(len(each.devices) for each in ways if each is not None)
        self._of_job[job.id] = ways, gpus
        if before is not None and before[1] == gpus:
            return False
        self._add(job.spec.uid, gpus, 1)
        if before is not None:
            self._add(job.spec.uid, before[1], -1)
        return gpus is not None or before is not None

    def _add(self, uid: int, gpus: int | None, sign: int) -> None:
        """Add a job to its user's use, or take it away. `gpus`: None for one that is queued."""
        use = self._of_user.setdefault(uid, UserUse())
        if gpus is None:
            use.queued += sign
        else:
            use.running += sign
            use.gpus += sign * gpus
        if not use.queued and not use.running:
            del self._of_user[uid]

    def of(self, uid: int) -> UserUse:
        """Return a user's use now."""
        return self._of_user.get(uid) or UserUse()

    def every(self) -> Mapping[int, UserUse]:
        """Return the use of each user with unfinished jobs, by uid."""
        return self._of_user

    def limits(self, uid: int) -> tuple[int, int]:
        """Return a user's limits of running jobs and of GPUs; 0: none."""
        return (0, 0) if uid in self._exempt else (self._jobs_limit, self._gpus_limit)

    def room(self, uid: int, gpus: int) -> int | None:
        """Return how many more jobs of so many GPUs a user may run; None: any number."""
        most_jobs, most_gpus = self.limits(uid)
        if not most_jobs and not most_gpus:
            return None
        use, room = self.of(uid), []
        if most_jobs:
            room.append(most_jobs - use.running)
        if most_gpus and gpus:
            room.append((most_gpus - use.gpus) // gpus)
        return max(0, min(room)) if room else None

    def refuse(self, job: Job, gpus: int) -> Refusal | None:
        """Return which limit of its user a job with so many GPUs would exceed; None if none.

        What the job has already is its own: it may keep or lower it where a limit was lowered.
        """
        most_jobs, most_gpus = self.limits(job.spec.uid)
        if not most_jobs and not most_gpus:
            return None
        use, counted = self.of(job.spec.uid), self._of_job.get(job.id)
        mine = None if counted is None else counted[1]
        if mine is None and most_jobs and use.running >= most_jobs:
            runs = f"{job.spec.user} runs {use.running} job{'s' * (use.running != 1)}"
            why = f"limits.running_jobs: {runs}, the limit is {most_jobs}"
            return Refusal(RUNNING_JOBS, why, None, use.running + 1, most_jobs)
        others = use.gpus - (mine or 0)
        if most_gpus and gpus > (mine or 0) and others + gpus > most_gpus:
            why = (
                f"limits.gpus: it needs {gpus} GPU{'s' * (gpus != 1)}, "
                f"other jobs of {job.spec.user} use {others}, the limit is {most_gpus}"
            )
            return Refusal(GPUS, why, None, others + gpus, most_gpus)
        return None

    def never(self, job: Job) -> str | None:
        """Return why the limits of its user never let a job start; None if they do."""
        most = self.limits(job.spec.uid)[1]
        if not most or job.gpus <= most:
            return None
        return f"limits.gpus: it needs {job.gpus} GPUs, the limit is {most} per user"

    def spare_gpus(self, uid: int) -> int | None:
        """Return how many more GPUs a user may have; None: any number."""
        most = self.limits(uid)[1]
        return max(0, most - self.of(uid).gpus) if most else None
