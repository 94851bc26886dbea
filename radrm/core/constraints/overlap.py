"""Why a job would need memory that is reserved for others before its time limit.

A new attempt takes memory from now until its time limit; without one, nobody knows how long. So a
job with a short limit can use what is reserved for later.
"""

from __future__ import annotations

from radrm.core.constraints.need import effective_need_mib
from radrm.core.records import Job, Refusal, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved.claims import FOREVER, Claim, steps, taken_mib
from radrm.core.state.reserved.of_device import AVAILABILITY
from radrm.core.state.state import State, owner_of
from radrm.core.units import show_mib, show_seconds


def interval_of(state: State, job: Job) -> tuple[float, float]:
    """Return from when until when a new attempt would have its devices, in boot-time seconds."""
    now_s, limit_s = state.step.now.boot_s, job.spec.time_limit_s
    return now_s, FOREVER if limit_s is None else now_s + limit_s


def refuse_overlap(
    state: State, job: Job, role: Role, ledger: DeviceLedger, alone: bool = False
) -> Refusal | None:
    """Return why the job's need meets a reservation of a planner's; None if it does not.

    `alone`: as if no job were on the device. An unknown need meets only a full device.
    """
    start_s, end_s = interval_of(state, job)
    claims = ledger.reserved.planned_claims(ledger.device, owner_of(job.id), start_s, end_s)
    if not claims:
        return None
    need = effective_need_mib(state, job, role) or 1
    room = ledger.device.capacity_mib if alone else ledger.room_mib(owner_of(job.id))
    if room is None or need > room:
        return None  # not because of a reservation
    for at_s in steps(claims, start_s, end_s):
        free = max(0, room - taken_mib(claims, at_s))
        if need > free:
            first = next(claim for claim in claims if claim.start_s <= at_s < claim.end_s)
            return _refusal(state, ledger, first, need, free)
    return None


def _refusal(state: State, ledger: DeviceLedger, claim: Claim, need: int, free: int) -> Refusal:
    uuid, in_s = ledger.device.uuid, claim.start_s - state.step.now.boot_s
    if claim.owner == AVAILABILITY:
        why = "its availability has ended"
        if in_s > 0:
            why = f"available for {show_seconds(in_s)} more, less than the job's time limit"
        return Refusal("availability", why, uuid, need, free)
    whom = _reserved(state, ledger, claim)
    why = f"needs {show_mib(need)}, {show_mib(free)} free: {whom}"
    if in_s > 0:
        why += f"; it can start with a time limit below {show_seconds(in_s)}"
    return Refusal("memory", why, uuid, need, free)


def who_reserved(state: State, job: Job, ledger: DeviceLedger) -> str | None:
    """Return for whom a planner has reserved the device, and when; None for nobody else."""
    span = interval_of(state, job)
    claims = ledger.reserved.planned_claims(ledger.device, owner_of(job.id), *span)
    return _reserved(state, ledger, min(claims, key=lambda c: c.start_s)) if claims else None


def _reserved(state: State, ledger: DeviceLedger, claim: Claim) -> str:
    """Return `reserved for job 12 in 1h30m`, or `reserved for job 12 for 20m00s more`."""
    now_s = state.step.now.boot_s
    if claim.owner == AVAILABILITY:
        return f"its availability ends in {show_seconds(claim.start_s - now_s)}"
    found = next(r for r in ledger.reserved.planned.values() if r.owner == claim.owner)
    job = state.jobs.get(found.job_id) if found.job_id is not None else None
    whom = f"job {job.label}" if job is not None else found.owner
    if claim.start_s > now_s:
        return f"reserved for {whom} in {show_seconds(claim.start_s - now_s)}"
    if claim.end_s == FOREVER:
        return f"reserved for {whom}"
    return f"reserved for {whom} for {show_seconds(claim.end_s - now_s)} more"
