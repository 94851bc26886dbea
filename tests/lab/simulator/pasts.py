"""Jobs and attempts of a past, as the simulator reads them."""

from __future__ import annotations

import math

from radrm.core.records import (
    Attempt,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Needs,
    Placement,
    Role,
    Share,
    Usage,
)
from radrm.core.words import Collocation, JobState, Outcome, Quantity
from radrm.lab.simulator.metrics import step_durations
from radrm.lab.simulator.run import AttemptRun, DeviceRun, Run
from radrm.lab.simulator.traces.past import Past
from radrm.structs import replace

BEGIN = 1_700_000_000.0
_WARM_S = 60.0
"""The daemon trusts readings of a device so long after a change on it."""


def at(seconds: float) -> Instant:
    return Instant(seconds, BEGIN + seconds)


def attempt(
    job_id: int,
    begin_s: float,
    end_s: float | None,
    *usage: Usage,
    outcome: Outcome | None = Outcome.COMPLETED,
    mode: Collocation = Collocation.MPS,
) -> Attempt:
    return Attempt(
        job_id=job_id,
        number=1,
        serial=job_id,
        placement=Placement(tuple(Share(u.device) for u in usage), mode),
        launched=at(begin_s),
        started=at(begin_s),
        ended=None if end_s is None else at(end_s),
        outcome=outcome,
        usage=usage,
    )


def past(
    job_id: int,
    submit_s: float,
    *attempts: Attempt,
    state: JobState = JobState.COMPLETED,
    estimates: tuple[Estimate, ...] = (),
    gpus: int = 1,
    name: str | None = None,
) -> Past:
    spec = JobSpec(name or f"job-{job_id}", "ada", 1000, (Role(needs=Needs(gpus=gpus)),))
    ended = attempts[-1].ended if attempts and state.final else None
    job = Job(
        job_id, f"T{job_id}", spec, at(submit_s), state=state, estimates=estimates, ended=ended
    )
    return Past(job, attempts)


def used(
    device: str = "a", mib: int | None = 4000, smact: float | None = 0.5, **more: bool
) -> Usage:
    return Usage(device, mib, smact, **more)


def as_past(run: Run, told: bool = False) -> list[Past]:
    """What a daemon would have kept of a run: mean readings of its devices, peaks, and times.

    `told`: nothing reads the SM activity, but the jobs declare it.
    """
    lives = [(each, a) for each in run.jobs for a in each.attempts]
    found = []
    for number, each in enumerate(run.jobs, 1):
        attempts = tuple(
            attempt(
                number,
                a.started_s,
                a.ended_s,
                *(_usage(run, lives, a, d, each.job.memory_mib, told) for d in a.devices),
                outcome=a.outcome,
                mode=Collocation(a.collocation),
            )
            for a in each.attempts
        )
        declared = (Estimate(Quantity.SMACT, each.job.smact, each.job.smact, "declared"),)
        submit_s, name = each.job.submit_s, each.job.name
        estimates = declared if told else ()
        found.append(past(number, submit_s, *attempts, estimates=estimates, name=name))
    return found


def _usage(
    run: Run,
    lives: list[tuple[object, AttemptRun]],
    own: AttemptRun,
    device: int,
    memory_mib: float,
    told: bool,
) -> Usage:
    beside = [
        a
        for _, a in lives
        if a is not own
        and device in a.devices
        and a.started_s < own.ended_s
        and a.ended_s > own.started_s
    ]
    found = Usage(f"gpu-{device}", math.ceil(memory_mib), shared=bool(beside))
    if told:
        return found
    gpu = run.devices[device]
    found = replace(found, smact_mean=mean_smact(gpu, own.started_s, own.ended_s))
    begin_s, end_s = own.started_s + _WARM_S, own.ended_s
    for a in sorted(beside, key=lambda a: a.started_s):
        if a.started_s <= begin_s:
            begin_s = max(begin_s, a.ended_s + _WARM_S)
        else:
            end_s = min(end_s, a.started_s)
    if end_s > begin_s:
        mean = mean_smact(gpu, begin_s, end_s)
        found = replace(found, alone_smact=mean, alone_count=math.ceil(end_s - begin_s))
    return found


def mean_smact(device: DeviceRun, begin_s: float, end_s: float) -> float:
    """The mean SM activity of a device over a time."""
    steps = step_durations(device, begin_s, end_s)
    return sum(step.smact * seconds for step, seconds in steps) / (end_s - begin_s)
