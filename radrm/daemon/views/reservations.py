"""The JSON documents of reservations."""

from __future__ import annotations

from radrm.core.records import Instant, Job, Reservation
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.daemon.views.documents import Document


def reservations_on(snapshot: Snapshot, found: DeviceSnapshot, now: Instant) -> list[Document]:
    """The reservations on a device, the earliest first."""
    ordered = sorted(found.reservations, key=lambda r: (r.since.wall_s, r.key))
    return [_document(snapshot, found, reservation, now) for reservation in ordered]


def reserved_for_later(snapshot: Snapshot, job: Job, now: Instant) -> list[Document]:
    """What planners have reserved for a waiting job, by device."""
    return [
        _document(snapshot, found, reservation, now)
        for found in snapshot.devices
        for reservation in found.reservations
        if reservation.job_id == job.id and reservation.kind.planned
    ]


def _document(
    snapshot: Snapshot, found: DeviceSnapshot, reservation: Reservation, now: Instant
) -> Document:
    job = snapshot.job(reservation.job_id) if reservation.job_id is not None else None
    whole = reservation.mib is None
    return {
        "kind": reservation.kind.value,
        "owner": f"job {job.label}" if job is not None else reservation.owner,
        "job": reservation.job_id,
        "planner": reservation.planner,
        "index": found.device.index,
        "reserved_mib": found.device.capacity_mib if whole else reservation.mib,
        "start_at": _date(reservation.since, now),
        "end_at": _date(reservation.until, now) if reservation.until is not None else None,
    }


def _date(moment: Instant, now: Instant) -> float:
    """The date of a moment, by the clock as it is set now; of an earlier boot, as it was noted."""
    passed_s = now.since(moment)
    return moment.wall_s if passed_s is None else now.wall_s - passed_s
