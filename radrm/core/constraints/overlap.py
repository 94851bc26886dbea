"""Why a job would need memory that is reserved for others before its time limit.

A new attempt takes memory from now until its time limit; without one, nobody knows how long. So a
job with a short limit can use what is reserved for later. An attempt that is here has its memory
until it really ends; only a later moment is judged by its expected end.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.constraints.expected import expected_claims, expected_free_mib
from radrm.core.constraints.need import effective_need_mib
from radrm.core.records import Job, Refusal, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved import AVAILABILITY, FOREVER, Claim, steps, taken_mib
from radrm.core.state.state import State, owner_of
from radrm.core.units import show_mib, show_seconds


def interval_of(state: State, job: Job) -> tuple[float, float]:
    """Return from when until when a new attempt would have its devices, in boot-time seconds."""
    now_s, limit_s = state.step.now.boot_s, job.limit_s
    return now_s, FOREVER if limit_s is None else now_s + limit_s


def free_for(state: State, job: Job, ledger: DeviceLedger) -> int | None:
    """Return the MiB that a job can start with: free now, and not reserved until its time limit.

    None while unmanaged memory is unknown. What is reserved for later was promised on the expected
    ends of the attempts that are here. So from then on these ends count, for this job, too.
    """
    owner = owner_of(job.id)
    if not ledger.reserved.timed:
        return ledger.free_mib(owner)
    start_s, end_s = interval_of(state, job)
    now = ledger.free_mib(owner, start_s, start_s)
    if now is None or not ledger.reserved.planned_claims(ledger.device, owner, start_s, end_s):
        return now
    later = expected_free_mib(state, ledger, job, start_s, end_s)
    return now if later is None else min(now, later)


def idle_for(state: State, job: Job, ledger: DeviceLedger) -> bool:
    """Return whether the device is idle for a job, and not reserved until its time limit."""
    if not ledger.reserved.timed:
        return ledger.idle_for(owner_of(job.id))
    return ledger.idle_for(owner_of(job.id), *interval_of(state, job))


def refuse_overlap(
    state: State, job: Job, role: Role, ledger: DeviceLedger, alone: bool = False
) -> Refusal | None:
    """Return why the job's need meets a reservation of a planner's; None if it does not.

    `alone`: as if no job were on the device. An unknown need meets only a full device.
    """
    if not ledger.reserved.timed:
        return None
    owner, (start_s, end_s) = owner_of(job.id), interval_of(state, job)
    planned = ledger.reserved.planned_claims(ledger.device, owner, start_s, end_s)
    if not planned:
        return None
    need = effective_need_mib(state, job, role) or 1
    room = ledger.device.capacity_mib
    claims: Sequence[Claim] = planned
    if not alone:
        claims = expected_claims(state, ledger, job)
        room -= ledger.unmanaged_mib or 0
    for at_s in steps(planned, start_s, end_s):
        free = max(0, room - taken_mib(claims, at_s))
        first = next((c for c in planned if c.start_s <= at_s < c.end_s), None)
        if need > free and first is not None:
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


def who_reserved(state: State, job: Job, ledger: DeviceLedger, mib: int = 0) -> str | None:
    """Return for whom a planner has reserved the device, and when; None for nobody else.

    None also if live attempts leave less than `mib`: then the reservation is not the reason.
    """
    if not ledger.reserved.timed:
        return None
    owner = owner_of(job.id)
    held = (ledger.unmanaged_mib or 0) + ledger.reserved.held_mib(ledger.device, owner)
    if mib and mib > ledger.device.capacity_mib - held:
        return None
    span = interval_of(state, job)
    claims = ledger.reserved.planned_claims(ledger.device, owner, *span)
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
