"""Jobs and attempts of a past, as a store holds them."""

from __future__ import annotations

from radrm.core.decision import Decision
from radrm.core.records import Attempt, Instant, Job, JobSpec, Placement, Share
from radrm.core.words import Collocation, Outcome
from radrm.host.storage.spool import Envelope

BEGIN = 1_700_000_000.0


def at(seconds: float) -> Instant:
    return Instant(seconds, BEGIN + seconds)


def job(number: int, submitted_s: float) -> Job:
    return Job(number, f"T{number}", JobSpec(f"j{number}", "ada", 1000), at(submitted_s))


def attempt(job_id: int, serial: int, outcome: Outcome | None) -> Attempt:
    placement = Placement((Share("gpu"),), Collocation.MPS)
    return Attempt(job_id, 1, serial, placement, at(0), ended=at(9), outcome=outcome)


def decided(*records: Job | Attempt) -> Decision:
    return Decision(actions=(), changed=records, dropped=(), wake_at=None, rejections=())


def envelope(ticket: str, submitted_s: float = 0.0) -> Envelope:
    return Envelope(
        ticket=ticket,
        file=None,
        script=None,
        command=("true",),
        options={},
        cwd="/",
        umask=0o77,
        environment={},
        submitted_s=submitted_s,
    )
