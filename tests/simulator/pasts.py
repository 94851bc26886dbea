"""Jobs and attempts of a past, as the simulator reads them."""

from __future__ import annotations

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
from radrm.core.words import Collocation, JobState, Outcome
from radrm.simulator.traces.past import Assumption, Past

BEGIN = 1_700_000_000.0
MIDDLE = Assumption(1.6, 0.6)


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
