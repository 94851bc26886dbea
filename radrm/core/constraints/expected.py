"""When a live attempt is expected to end, and when the memory of a device is expected to be free.

A live attempt has its memory until it really ends, so nothing starts on the promise of its time
limit. A planner may count on the limit to reserve for later, but not on a prediction: it may be
wrong, and beside others a job takes longer.
"""

from __future__ import annotations

from functools import partial

from radrm.core.records import Attempt, Job, Reservation
from radrm.core.reservations.barred import claims_of_others
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved import FOREVER, Claim, earliest_s, peak_mib
from radrm.core.state.state import State, owner_of
from radrm.core.words import ActionKind, CheckpointKind, ReservationKind


def latest_end_s(state: State, job: Job, attempt: Attempt) -> float:
    """Return when a live attempt must end, in boot-time seconds.

    It is the time limit, or the KILL of a stop under way; infinity without either. Never past.
    """
    ends = [FOREVER] if attempt.stop is None else [attempt.stop.kill_boot_s]
    if job.limit_s is not None:
        ends.append((attempt.started or attempt.launched).boot_s + job.limit_s)
    return max(state.step.now.boot_s, min(ends))


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
    return [*found, *claims_of_others(state, ledger, job)]


def _end_s(state: State, reservation: Reservation) -> float:
    job_id = reservation.job_id or 0
    attempt = state.attempts.get(job_id)
    if attempt is None or reservation.kind is not ReservationKind.RUNNING:
        return FOREVER  # a migration's target: the job has not started there
    return latest_end_s(state, state.jobs[job_id], attempt)
