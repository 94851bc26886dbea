"""When the memory of a device is expected to be free.

A live attempt has its memory until it really ends, so nothing starts on the promise of its time
limit. A planner may count on it to reserve for later.
"""

from __future__ import annotations

from functools import partial

from radrm.core.records import Attempt, Job, Reservation
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved.claims import FOREVER, Claim
from radrm.core.state.state import State
from radrm.core.words import ReservationKind


def expected_end_s(state: State, job: Job, attempt: Attempt) -> float:
    """Return when a live attempt is expected to end, in boot-time seconds.

    It is the time limit, or the KILL of a stop under way; infinity without either. Never past.
    """
    ends = [FOREVER] if attempt.stop is None else [attempt.stop.kill_boot_s]
    if job.spec.time_limit_s is not None:
        ends.append((attempt.started or attempt.launched).boot_s + job.spec.time_limit_s)
    return max(state.step.now.boot_s, min(ends))


def expected_claims(state: State, ledger: DeviceLedger, but: str | None = None) -> list[Claim]:
    """Return what is taken of a device and until when, by the ends that are expected.

    The reservations of the owner `but` do not count.
    """
    return ledger.reserved.claims(ledger.device, but, partial(_end_s, state))


def _end_s(state: State, reservation: Reservation) -> float:
    job_id = reservation.job_id or 0
    attempt = state.attempts.get(job_id)
    if attempt is None or reservation.kind is not ReservationKind.RUNNING:
        return FOREVER  # a migration's target: the job has not started there
    return expected_end_s(state, state.jobs[job_id], attempt)
