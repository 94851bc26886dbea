"""Dated claims on devices: who has what of a device, or will have it, from when until when.

Theory of operation
-------------------
Whatever takes a device, or its memory, is a `Claim` with two ends, in boot-time seconds:

    a live attempt                its memory, until its expected end
    the target of a migration     its memory, without an end
    a planner's reservation       memory, between two times (`planning/reserving.py`)
    the device's availability     all of it, from its end on
    a reservation for users       all of it, between two dates (`core/reservations.py`)

All that looks ahead reads them here: constraints, planners (`View.earliest_s`, `free_from_s`), and
the lines of waiting jobs (`barred`).

A live attempt has its memory until it really ends, so nothing starts on the promise of its time
limit. A planner may count on the limit to reserve for later, but not on a prediction: it may be
wrong, and beside others a job takes longer. Only a later moment is judged by its expected end.

A new attempt takes memory from now until its time limit; without one, nobody knows how long. So a
job with a short limit can use what planners reserve for later. Against a reservation for other
users the upper bound of its predicted run time counts, too: it takes the whole device, and a job
without a limit could never start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf

from radrm.core.constraints.need import effective_need_mib
from radrm.core.records import Attempt, Job, Refusal, Reservation, Role
from radrm.core.remaining import latest_end_s, length_s
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved import (
    AVAILABILITY,
    FOREVER,
    Claim,
    earliest_s,
    peak_mib,
    steps,
    taken_mib,
)
from radrm.core.state.state import State, owner_of
from radrm.core.units import gpus_named, show_mib, show_seconds
from radrm.core.words import ActionKind, CheckpointKind, ReservationKind


def leaving(job: Job, attempt: Attempt) -> frozenset[str]:
    """Return the devices that a live attempt is about to leave: it stops, saves for that, or moves.

    A rule that stops jobs for a waiting one counts these first, whatever asked them to leave.
    """
    here, target = frozenset(attempt.placement.devices), attempt.target or job.target
    if attempt.stop is not None:
        return here
    if target is not None:
        return here.difference(target.devices)
    asked = attempt.asked(ActionKind.CHECKPOINT)
    leaves = job.spec.checkpoint.kind is CheckpointKind.EXIT
    return here if asked is not None and (asked.stops or leaves) else frozenset()


def expected_free_mib(
    state: State, ledger: DeviceLedger, job: Job | None, start_s: float, end_s: float
) -> int | None:
    """Return the MiB that are expected to be free from `start_s` to `end_s`: the least then.

    The reservations of the job itself do not count. None while unmanaged memory is unknown.
    """
    if ledger.unmanaged_mib is None:
        return None
    found = [claim for claim in expected_claims(state, ledger, job) if claim.meets(start_s, end_s)]
    if not found and ledger.is_quiet:
        return ledger.device.capacity_mib  # as for a start on an idle device
    taken = ledger.unmanaged_mib + peak_mib(found, start_s, end_s)
    return max(0, ledger.device.capacity_mib - taken)


def earliest_free_s(
    state: State, ledger: DeviceLedger, job: Job | None, mib: int | None, length_s: float
) -> float | None:
    """Return from when `mib` (None: the whole device) are expected to be free for `length_s`.

    It is the first moment, not before now, for which `expected_free_mib` is enough. None if there
    is none, as far as is known.
    """
    if ledger.unmanaged_mib is None:
        return None
    claims, now_s = expected_claims(state, ledger, job), state.step.now.boot_s
    capacity = ledger.device.capacity_mib
    wanted = capacity if mib is None else mib
    rooms = [capacity - ledger.unmanaged_mib - wanted]
    if ledger.is_quiet:
        rooms.append(min(0, capacity - wanted))  # idle
    found = [earliest_s(claims, room, now_s, length_s) for room in rooms if room >= 0]
    return min((at_s for at_s in found if at_s is not None), default=None)


def expected_claims(state: State, ledger: DeviceLedger, job: Job | None) -> list[Claim]:
    """Return what is taken of a device and until when, by the ends that are expected.

    The reservations of `job`, and those for its user, do not count.
    """
    but = None if job is None else owner_of(job.id)
    found = ledger.reserved.claims(ledger.device, but, partial(_end_s, state))
    return [*found, *claims_of_users(state, ledger, job)]


def _end_s(state: State, reservation: Reservation) -> float:
    job_id = reservation.job_id or 0
    attempt = state.attempts.get(job_id)
    if attempt is None or reservation.kind is not ReservationKind.RUNNING:
        return FOREVER  # a migration's target: the job has not started there
    return latest_end_s(state.jobs[job_id], attempt, state.step.now)


def interval_of(state: State, job: Job) -> tuple[float, float]:
    """Return from when until when a new attempt would have its devices, in boot-time seconds."""
    now = state.step.now
    return now.boot_s, latest_end_s(job, None, now)


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
        return Refusal("availability", why, uuid, need, free, within_s=in_s if in_s > 0 else None)
    whom = _reserved(state, ledger, claim)
    why = f"needs {show_mib(need)}, {show_mib(free)} free: {whom}"
    if in_s > 0:
        why += f"; it can start with a time limit below {show_seconds(in_s)}"
    return Refusal("memory", why, uuid, need, free, within_s=in_s if in_s > 0 else None)


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
    now_s = state.step.now.boot_s
    if claim.owner == AVAILABILITY:
        return f"its availability ends in {show_seconds(claim.start_s - now_s)}"
    found = next(r for r in ledger.reserved.planned.values() if r.owner == claim.owner)
    job = state.jobs.get(found.job_id) if found.job_id is not None else None
    return _when(claim, f"job {job.label}" if job is not None else found.owner, now_s)


def _when(claim: Claim, whom: str, now_s: float) -> str:
    """Return `reserved for job 12 in 1h30m`, or `reserved for job 12 for 20m00s more`."""
    if claim.start_s > now_s:
        return f"reserved for {whom} in {show_seconds(claim.start_s - now_s)}"
    left = f" for {show_seconds(claim.end_s - now_s)} more" if claim.end_s < FOREVER else ""
    return f"reserved for {whom}{left}"


# ------------------------------------------------------------------ reserved for users

RULE = "reserved"
"""The rule of a refusal because of a reservation for other users."""


def claims_of_users(state: State, ledger: DeviceLedger, job: Job | None) -> Iterator[Claim]:
    """Yield what reservations for other users take of a device, and when, the earliest first.

    `job` None: all reservations for users.
    """
    mib, now = ledger.device.capacity_mib, state.step.now
    for each in state.for_users.on(ledger.device.uuid):
        if job is None or not each.admits(job.spec):
            span = (now.boot_s + (wall_s - now.wall_s) for wall_s in (each.start_s, each.end_s))
            yield Claim(each.label, mib, *span)


def _barring(state: State, job: Job, uuid: str, start_s: float, end_s: float) -> Claim | None:
    """Return the first reservation for others that a job would meet on a device; None for none."""
    # A moment counts too: a job whose limit is used up still needs the device.
    end_s = max(end_s, start_s + 1.0)
    claims = claims_of_users(state, state.ledgers[uuid], job)
    return next((claim for claim in claims if claim.meets(start_s, end_s)), None)


def refuse_reserved(state: State, job: Job, ledger: DeviceLedger) -> Refusal | None:
    """Return that a device is reserved for others before the job would end; None if it is not."""
    uuid, now_s = ledger.device.uuid, state.step.now.boot_s
    if not state.for_users.on(uuid):
        return None
    needs_s = length_s(job)
    found = _barring(state, job, uuid, now_s, now_s + needs_s)
    if found is None:
        return None
    why, left_s = _when(found, found.owner, now_s), found.start_s - now_s
    if left_s <= 0:
        return Refusal(RULE, why, uuid, None, found.end_s - now_s)
    if needs_s == inf:
        why += f" (jobs with a --time below {show_seconds(left_s)} can start)"
        return Refusal(RULE, why, uuid, None, left_s, within_s=left_s)
    what = "has a time limit of" if job.limit_s is not None else "is expected to need"
    why += f" (the job {what} {show_seconds(needs_s)})"
    return Refusal(RULE, why, uuid, needs_s, left_s, within_s=left_s)


def free_from_s(state: State, job: Job, uuid: str, at_s: float) -> float:
    """Return the first moment from `at_s` at which no reservation bars the job from the device.

    Boot-time seconds, for a job that would start then; infinity stays.
    """
    for claim in claims_of_users(state, state.ledgers[uuid], job):
        if claim.meets(at_s, at_s + max(1.0, length_s(job))):
            at_s = claim.end_s
    return at_s


def barred(state: State, job: Job) -> tuple[str, ...]:
    """Return the devices from which reservations for others bar a job now, by UUID."""
    if not state.for_users.every or not job.spec.gpus:
        return ()
    now_s = state.step.now.boot_s
    end_s = now_s + length_s(job)
    return tuple(sorted(u for u in state.ledgers if _barring(state, job, u, now_s, end_s)))


def reserved_for_others(state: State, job: Job) -> tuple[str, float | None]:
    """Return why a job is barred from devices now, as `GPU 0, 1 reserved for ada (reservation 3)
    for 20m00s more`, and `Refusal.within_s`; empty if it is barred from none."""
    found: dict[str, list[int]] = {}
    within = []
    for device in state.listed:
        why = refuse_reserved(state, job, state.ledgers[device.uuid])
        if why is not None:
            found.setdefault(why.message, []).append(device.index)
            within.append(why.within_s or 0.0)
    text = "; ".join(f"{gpus_named(indices)} {why}" for why, indices in found.items())
    return text, max(within, default=0.0) or None


def longer_than_reserved(state: State, before: Job, after: Job) -> str | None:
    """Return why a running job must not get a longer time limit; None if it may.

    A reservation may have been made because of the limit that it had, or the job have started.
    """
    attempt, now = state.attempts.get(before.id), state.step.now
    if attempt is None:
        return None
    ends_s, then_s = (latest_end_s(job, attempt, now) for job in (before, after))
    here = [u for u in attempt.devices if u in state.ledgers]  # not those missing since a restart
    for uuid in here if then_s > ends_s else ():
        found = _barring(state, before, uuid, ends_s, then_s)
        if found is not None:
            left_s, gpu = found.start_s - now.boot_s, state.ledgers[uuid].device.index
            when = f"in {show_seconds(left_s)}" if left_s > 0 else "now"
            return f"GPU {gpu} is reserved for {found.owner} {when}, before the job would end"
    return None
