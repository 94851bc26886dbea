"""The JSON documents of reservations."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.records import Instant, Job, Reservation, UserReservation
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.documents import jobs as shown
from radrm.documents.server import UserReservation as UserReservationDocument


def reservations_on(
    snapshot: Snapshot, found: DeviceSnapshot, now: Instant
) -> list[shown.Reservation]:
    """The reservations on a device, the earliest first."""
    ordered = sorted(found.reservations, key=lambda r: (r.since.wall_s, r.key))
    return [_document(snapshot, found, reservation, now) for reservation in ordered]


def users_on(
    snapshot: Snapshot, found: DeviceSnapshot, now: Instant
) -> list[UserReservationDocument]:
    """The reservations of a device for users, the earliest first."""
    return for_users(snapshot, on_device(snapshot, found, now), now)


def on_device(snapshot: Snapshot, found: DeviceSnapshot, now: Instant) -> list[UserReservation]:
    """The reservations of a device for users that are not over, the earliest first."""
    uuid = found.device.uuid
    mine = [r for r in snapshot.for_users if uuid in r.devices and r.end_s > now.wall_s]
    return sorted(mine, key=lambda each: each.start_s)


def for_users(
    snapshot: Snapshot, reservations: Sequence[UserReservation], now: Instant
) -> list[UserReservationDocument]:
    """The reservations for users, the earliest first."""
    ordered = sorted(reservations, key=lambda each: (each.start_s, each.id))
    return [_for_users(snapshot, each, now) for each in ordered]


def _for_users(
    snapshot: Snapshot, record: UserReservation, now: Instant
) -> UserReservationDocument:
    found = [snapshot.device(uuid) for uuid in record.devices]
    there = [device for device in found if device is not None]
    ids = dict.fromkeys(job_id for device in there for job_id in device.occupants)
    jobs = [job for job in map(snapshot.job, sorted(ids)) if job is not None]
    return UserReservationDocument(
        id=record.id,
        whom=record.whom,
        by=record.by,
        own=record.own,
        maintenance=record.maintenance,
        preempt=record.preempt,
        gpus=tuple(device.device.index for device in there),
        uuids=tuple(record.devices),
        start_at=record.start_s,
        end_at=record.end_s,
        state=_state(record, now),
        jobs=tuple(job.label for job in jobs if record.admits(job.spec)),
        others=tuple(job.label for job in jobs if not record.admits(job.spec)),
        reason=record.why_ended or record.reason,
    )


def _state(record: UserReservation, now: Instant) -> str:
    if record.ended_s is not None:
        return "ended"
    if now.wall_s < record.start_s:
        return "planned"
    return "active" if now.wall_s < record.end_s else "over"


def reserved_for_later(snapshot: Snapshot, job: Job, now: Instant) -> list[shown.Reservation]:
    """What planners have reserved for a waiting job, by device."""
    return [
        _document(snapshot, found, reservation, now)
        for found in snapshot.devices
        for reservation in found.reservations
        if reservation.job_id == job.id and reservation.kind.planned
    ]


def _document(
    snapshot: Snapshot, found: DeviceSnapshot, reservation: Reservation, now: Instant
) -> shown.Reservation:
    job = snapshot.job(reservation.job_id) if reservation.job_id is not None else None
    mib = found.device.capacity_mib if reservation.mib is None else reservation.mib
    return shown.Reservation(
        kind=reservation.kind.value,
        owner=f"job {job.label}" if job is not None else reservation.owner,
        job=reservation.job_id,
        planner=reservation.planner,
        index=found.device.index,
        reserved_mib=mib,
        start_at=_date(reservation.since, now),
        end_at=_date(reservation.until, now) if reservation.until is not None else None,
    )


def _date(moment: Instant, now: Instant) -> float:
    """The date of a moment, by the clock as it is set now; of an earlier boot, as it was noted."""
    passed_s = now.since(moment)
    return moment.wall_s if passed_s is None else now.wall_s - passed_s
