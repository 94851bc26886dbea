"""Deal the jobs of a trace to users: a published trace often names none."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from radrm.simulator.traces.fill import fraction
from radrm.simulator.traces.job import TraceJob

MOST_USERS = 1000
_DEALT = 4 << 40
"""Places of `fraction`, so that this draw is independent of the others of a seed."""


def dealt(jobs: Sequence[TraceJob], users: int, seed: int = 0) -> tuple[TraceJob, ...]:
    """Return the jobs with the users `user1`, `user2`, ..., so many at most, drawn by the seed.

    Shares are unequal as those of a group: the second has half of the first's, the third a
    third, and so on. All jobs of one name are of one user, who runs that program.
    """
    sums = list(accumulate(1.0 / number for number in range(1, users + 1)))
    of_name: dict[str, str] = {}
    found = []
    for job in jobs:
        if job.name not in of_name:
            drawn = fraction(seed, _DEALT + len(of_name)) * sums[-1]
            of_name[job.name] = f"user{min(bisect_right(sums, drawn), users - 1) + 1}"
        found.append(replace(job, user=of_name[job.name]))
    return tuple(found)
