"""The devices where a migrating job is to continue, reserved until it starts there.

A migration is a checkpoint, a stop, and a start at the target. The target is in the job's
record, so a restart between these continues the migration. A job that is resized by a restart goes
the same way. Its target may have devices that it holds: both reservations are its own, and the
larger one counts.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.records import Job, Placement, Reservation
from radrm.core.state.state import State, owner_of
from radrm.core.words import ReservationKind


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
