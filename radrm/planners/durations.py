"""A job's run time in each configuration.

`Job.profile` has the run times of all its work by kind and number of GPUs. A kind without one
counts as like those that have one: else a job that has run on one kind would never run on another.
Without one that fits any kind here, the run time left (`core.remaining`) counts for the job's
own number of GPUs, on every kind alike; and where nothing is known, a figure of the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from statistics import fmean

from radrm.core.records import Attempt, Instant, Job
from radrm.core.remaining import remaining, remaining_on

LEAST_S = 0.001
"""The least run time that an unfinished job has left."""


def sizes(job: Job) -> frozenset[int] | None:
    """Return the numbers of GPUs that a job can have; None if it has only its own number."""
    with_gpus = [role for role in job.spec.roles if role.needs.gpus]
    if len(job.spec.roles) != 1 or not with_gpus or with_gpus[0].needs.gpus != 1:
        return None
    role = with_gpus[0]
    return frozenset(range(role.count_min, role.count_max + 1, role.step))


def run_times(
    job: Job,
    live: Attempt | None,
    now: Instant,
    kinds: Mapping[int, str],
    here: tuple[int, int] | None,
    unknown_s: float,
    hope: float = 1.0,
) -> dict[tuple[int, int], float]:
    """Return the seconds that a job has left, by kind and number of GPUs.

    `kinds`: the device names of the kinds that it can use. `here`: how a live one runs.
    `unknown_s`: the run time to assume where nothing is known. `hope` (above 0, at most 1)
    multiplies the run times on kinds for which the profile has none.
    """
    can = sizes(job) or frozenset({job.spec.gpus})
    known: dict[str, list[int]] = {}
    for each in job.profile:
        if each.gpus in can:
            known.setdefault(each.kind, []).append(each.gpus)
    runs = (kinds[here[0]], here[1]) if here is not None and here[0] in kinds else None
    found = {}
    for kind, name in kinds.items():
        for gpus in known.get(name, ()):
            left = remaining_on(job, live, now, (name, gpus), runs)
            if left is not None:
                found[kind, gpus] = max(LEAST_S, left.value_s)
    if found:
        others = kinds.keys() - {kind for kind, _ in found}
        assumed_on = {pair: hope * s for pair, s in _as_on_others(found, others).items()}
        if runs is not None and here is not None and here not in found:
            left = remaining_on(job, live, now, runs, runs)
            if left is not None:
                assumed_on[here] = max(LEAST_S, left.value_s)
        return assumed_on | found
    assumed = remaining(job, live, now, unknown_s=unknown_s)
    left_s = unknown_s if assumed is None else max(LEAST_S, assumed.value_s)
    return {(kind, job.spec.gpus): left_s for kind in kinds}


def _as_on_others(
    known: Mapping[tuple[int, int], float], kinds: Set[int]
) -> dict[tuple[int, int], float]:
    """Return run times on `kinds`: for each number of GPUs, the mean of those known on others."""
    on: dict[int, list[float]] = {}
    for (_, gpus), time_s in known.items():
        on.setdefault(gpus, []).append(time_s)
    return {(kind, gpus): fmean(times) for kind in kinds for gpus, times in on.items()}
