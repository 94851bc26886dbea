"""The devices of an attempt: taken, given back, and where a migrating job goes.

A migration is a checkpoint, a stop, and a start at the target. The target is in the job's
record, so a restart between these continues the migration. A job that is resized by a restart goes
the same way. Its target may have devices that it holds: both reservations are its own, and the
larger one counts.
"""

from __future__ import annotations

from collections.abc import Collection

from radrm.core.actions import TakeReadings
from radrm.core.records import Attempt, Instant, Job, Placement, Reservation, Usage
from radrm.core.state.state import State, owner_of
from radrm.core.words import ReservationKind
from radrm.structs import replace


def occupy(
    state: State,
    job: Job,
    attempt: Attempt,
    placement: Placement,
    new: Collection[str] | None = None,
) -> None:
    """Reserve the devices of a placement, and enter the attempt in their ledgers.

    `new`: only these devices get tasks; None: all. A reservation elsewhere may become smaller,
    never larger: other jobs may have the memory that this one has given back.
    """
    now = state.step.now
    for planned in state.planned.of(owner_of(job.id)):
        state.unreserve(planned.key)  # it becomes the attempt's
    for uuid, mib in placement.reserved().items():
        if uuid not in state.ledgers:
            continue  # missing since a restart; its reservation waits for it (`core/adoption.py`)
        if new is not None and uuid not in new and not _is_less(state, job, uuid, mib):
            continue
        state.reserve(
            Reservation(
                owner=owner_of(job.id),
                kind=ReservationKind.RUNNING,
                device=uuid,
                mib=mib,
                since=now,
                job_id=job.id,
            )
        )
        ledger = state.ledgers[uuid]
        if job.id not in ledger.occupants:
            ledger.admit(job, attempt, now.boot_s, now.boot_s)


def _is_less(state: State, job: Job, uuid: str, mib: int | None) -> bool:
    """Return whether a job has reserved more of this device than `mib`."""
    ledger = state.ledgers.get(uuid)
    mine = ledger.reserved.running(job.id) if ledger is not None else None
    return mine is not None and mib is not None and (mine.mib is None or mib < mine.mib)


def release_all(state: State, attempt: Attempt, end: Instant | None = None) -> tuple[Usage, ...]:
    """Release all devices of an attempt that ended at `end` (now, if None)."""
    return release_devices(state, attempt.job_id, list(attempt.devices), end)


def release_devices(
    state: State, job_id: int, devices: list[str], end: Instant | None = None
) -> tuple[Usage, ...]:
    """Release devices and have them read at once. Returns the attempt's use of each."""
    now = state.step.now
    ago_s = now.since(end) if end is not None else None
    left_s = now.boot_s - (ago_s or 0.0)
    usage = []
    for uuid in devices:
        ledger = state.ledgers.get(uuid)
        found = ledger.release(job_id, now.boot_s, left_s) if ledger else None
        if found is not None:
            usage.append(found)
        state.unreserve((owner_of(job_id), ReservationKind.RUNNING, uuid))
        if ledger is not None:
            state.forget_if_gone(uuid)
    if devices:
        state.act(TakeReadings(devices=tuple(devices), after_s=left_s))
    return tuple(usage)


def take_target(state: State, job: Job, placement: Placement) -> None:
    """Reserve the devices where a running job is to continue."""
    state.put_job(replace(job, target=placement))
    for uuid, mib in placement.reserved().items():
        state.reserve(
            Reservation(
                owner=owner_of(job.id),
                kind=ReservationKind.MIGRATION,
                device=uuid,
                mib=mib,
                since=state.step.now,
                job_id=job.id,
            )
        )


def drop_target(state: State, job: Job) -> None:
    """Give up a migration, if one is under way."""
    if job.target is None:
        return
    for uuid in job.target.devices:
        state.unreserve((owner_of(job.id), ReservationKind.MIGRATION, uuid))
    state.put_job(replace(state.jobs[job.id], target=None))


def drop_vanished_targets(state: State) -> None:
    """Give up the migrations to devices that have vanished."""
    for job in [job for job in state.jobs.values() if job.target is not None]:
        ledgers = [state.ledgers.get(uuid) for uuid in job.target.devices] if job.target else ()
        if any(ledger is None or ledger.vanished for ledger in ledgers):
            drop_target(state, job)
