"""Which devices a job cannot use because they are reserved for other users, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from radrm.core.records import Instant, Job, Refusal, UserReservation
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved import Claim
from radrm.core.state.state import State
from radrm.core.state.timers import CLOSING, Timer
from radrm.core.units import gpus_named, show_seconds
from radrm.core.words import Quantity

RULE = "reserved"
"""The rule of a refusal because of a reservation for other users."""
_LATER_S = 0.001
"""A job that ends at the start of a reservation is still in time."""


def length_s(job: Job) -> float:
    """Return for how long a new attempt of a job has its devices at most; infinity if unknown.

    That is the job's time limit; without one, the upper bound of its predicted run time.
    """
    if job.limit_s is not None:
        return job.limit_s
    predicted = job.estimate(Quantity.DURATION)
    return inf if predicted is None else max(predicted.value, predicted.upper)


def barring(state: State, job: Job, uuid: str) -> UserReservation | None:
    """Return the first reservation that bars a job from a device now; None if none does."""
    now_s = state.step.now.wall_s
    return next(_meeting(state, job, uuid, now_s, now_s + length_s(job)), None)


def _meeting(
    state: State, job: Job, uuid: str, start_s: float, end_s: float
) -> Iterator[UserReservation]:
    for each in state.for_users.on(uuid):
        # A moment counts too: a job whose limit is used up still needs the device.
        if each.meets(start_s, max(end_s, start_s + 1.0)) and not each.admits(job.spec):
            yield each


def refuse_reserved(state: State, job: Job, ledger: DeviceLedger) -> Refusal | None:
    """Return that a device is reserved for others before the job would end; None if it is not."""
    uuid = ledger.device.uuid
    if not state.for_users.on(uuid):
        return None
    found = barring(state, job, uuid)
    if found is None:
        return None
    now_s = state.step.now.wall_s
    if found.start_s <= now_s:
        why = f"reserved for {found.label} for {show_seconds(found.end_s - now_s)} more"
        return Refusal(RULE, why, uuid, None, found.end_s - now_s)
    left_s, needs_s = found.start_s - now_s, length_s(job)
    why = f"reserved for {found.label} in {show_seconds(left_s)}"
    if needs_s == inf:
        why += f" (jobs with a --time below {show_seconds(left_s)} can start)"
        return Refusal(RULE, why, uuid, None, left_s)
    what = "has a time limit of" if job.limit_s is not None else "is expected to need"
    why += f" (the job {what} {show_seconds(needs_s)})"
    return Refusal(RULE, why, uuid, needs_s, left_s)


def free_from_s(state: State, job: Job, uuid: str, at_s: float) -> float:
    """Return the first moment from `at_s` at which no reservation bars the job from the device.

    Boot-time seconds, for a job that would start then; infinity stays.
    """
    ahead_s = state.step.now.wall_s - state.step.now.boot_s
    for each in state.for_users.on(uuid):
        start_s = at_s + ahead_s
        if not each.admits(job.spec) and each.meets(start_s, start_s + max(1.0, length_s(job))):
            at_s = each.end_s - ahead_s
    return at_s


def claims_of_others(state: State, ledger: DeviceLedger, job: Job | None) -> list[Claim]:
    """Return what reservations for others take of a device, and when. `job` None: all take it."""
    device, now = ledger.device, state.step.now
    return [
        Claim(each.label, device.capacity_mib, _boot_s(each.start_s, now), _boot_s(each.end_s, now))
        for each in state.for_users.on(device.uuid)
        if job is None or not each.admits(job.spec)
    ]


def _boot_s(wall_s: float, now: Instant) -> float:
    return now.boot_s + wall_s - now.wall_s


def barred(state: State, job: Job) -> tuple[str, ...]:
    """Return the devices from which reservations for others bar a job now, by UUID."""
    if not state.for_users.every or not job.spec.gpus:
        return ()
    return tuple(sorted(uuid for uuid in state.ledgers if barring(state, job, uuid)))


def classify(state: State, job: Job) -> tuple[str, ...]:
    """Return `barred` for a job that is put into a line, with a timer for when it may change."""
    mine = state.for_users
    if not mine.every or not job.spec.gpus:
        return ()
    now, needs_s = state.step.now, length_s(job)
    closes_s = min(
        (
            each.start_s - needs_s + _LATER_S
            for each in mine.every.values()
            if each.start_s - needs_s >= now.wall_s and not each.admits(job.spec)
        ),
        default=inf,
    )
    if closes_s == inf:
        mine.closing.pop(job.id, None)
    elif job.id not in mine.closing or abs(mine.closing[job.id] - _boot_s(closes_s, now)) > 1.0:
        mine.closing[job.id] = _boot_s(closes_s, now)
        state.wake(Timer(mine.closing[job.id], CLOSING, job.id))
    return barred(state, job)


def reserved_for_others(state: State, job: Job) -> str:
    """Return why a job is barred from devices now: `reserved for ada (reservation 3) for 20m00s
    more: GPU 0, 1`; empty if it is barred from none."""
    found: dict[str, list[int]] = {}
    for device in state.listed:
        why = refuse_reserved(state, job, state.ledgers[device.uuid])
        if why is not None:
            found.setdefault(why.message, []).append(device.index)
    return "; ".join(f"{why}: {gpus_named(indices)}" for why, indices in found.items())


def longer_than_reserved(state: State, before: Job, after: Job) -> str | None:
    """Return why a running job must not get a longer time limit; None if it may.

    A reservation may have been made because of the limit that it had, or the job have started.
    """
    attempt = state.attempts.get(before.id)
    if attempt is None or before.limit_s is None:
        return None
    now = state.step.now
    began_s = now.wall_s - now.boot_s + (attempt.started or attempt.launched).boot_s
    ends_s = began_s + before.limit_s
    then_s = inf if after.limit_s is None else began_s + after.limit_s
    for uuid in attempt.devices if then_s > ends_s else ():
        for each in _meeting(state, before, uuid, max(ends_s, now.wall_s), then_s):
            left_s = each.start_s - now.wall_s
            gpu = state.ledgers[uuid].device.index
            when = f"in {show_seconds(left_s)}" if left_s > 0 else "now"
            return f"GPU {gpu} is reserved for {each.label} {when}, before the job would end"
    return None
