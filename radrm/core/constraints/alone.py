"""A job and a device, whatever else runs there: its kind, its memory, and the mode of sharing."""

from __future__ import annotations

from radrm.core.constraints.claims import (
    free_for,
    idle_for,
    refuse_overlap,
    refuse_reserved,
    who_reserved,
)
from radrm.core.constraints.kinds import can_be_mps_client, kind_refusal
from radrm.core.constraints.need import effective_need_mib, wants_whole_device
from radrm.core.records import Job, Refusal, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.readings import OccupantUse
from radrm.core.state.state import State
from radrm.core.units import show_mib
from radrm.core.words import Collocation, DeviceKind


def refuse_itself(
    state: State, job: Job, role: Role, ledger: DeviceLedger, reading: bool = True
) -> Refusal | None:
    """Return why the device cannot take this job, even if it were empty; None if it can.

    `reading`: refuse a device without a recent, sound reading.
    """
    uuid = ledger.device.uuid

    def no(rule: str, why: str, needed: float | None = None, there: float | None = None) -> Refusal:
        return Refusal(rule=rule, message=why, device=uuid, needed=needed, available=there)

    if ledger.vanished:
        return no("vanished", "it has vanished")
    drained = state.drained_for(uuid, job)
    if drained is not None:
        return no("drained", f"drained: {drained}")
    kind = kind_refusal(ledger.device, role.needs, job.spec)
    if kind is not None:
        return no("kind", kind)
    need, capacity = effective_need_mib(state, job, role), ledger.device.capacity_mib
    if need is not None and need > capacity:
        why = f"needs {show_mib(need)}, the device has {show_mib(capacity)}"
        return no("capacity", why, need, capacity)
    unknown = ledger.unreadable(state.step.now.boot_s) if reading else None
    if unknown is not None:
        return no("reading", unknown)
    yields = ledger.yields()
    if yields is not None:
        return no("unmanaged", yields, state.settings.idle_unmanaged_mib, ledger.unmanaged_mib)
    # What is out of its service for everybody comes first.
    reserved = refuse_reserved(state, job, ledger) if state.for_users.every else None
    return reserved or refuse_overlap(state, job, role, ledger, alone=True)


def refuse_room(
    state: State, job: Job, need: int | None, ledger: DeviceLedger, reserved: int | None
) -> Refusal | None:
    """Return why `reserved` MiB cannot be reserved for the job here; None if they can.

    `need`: what its tasks here need together; None: unknown. `reserved` None: the whole device;
    the caller checks that it is idle.
    """
    if reserved is None:
        return None
    uuid = ledger.device.uuid
    if need is not None and reserved < need:
        why = f"needs {show_mib(need)}, {show_mib(reserved)} would be reserved"
        return Refusal("reservation", why, uuid, need, reserved)
    room = free_for(state, job, ledger)
    if idle_for(state, job, ledger):
        # On an idle device the capacity counts: the few MiB of a monitor or desktop
        # (`idle_unmanaged_mib`) must not block a job of the device's size forever.
        room = ledger.device.capacity_mib
    if room is None:
        return Refusal("memory", "its free memory is unknown", uuid, reserved)
    if reserved > room and (job.recovers or not state.settings.overcommit):
        why = f"needs {show_mib(reserved)}, {show_mib(room)} free"
        whom = who_reserved(state, job, ledger, reserved)
        why += f": {whom}" if whom is not None else ""
        return Refusal("memory", why, uuid, reserved, room)
    return None


def mode_on(
    state: State, job: Job, role: Role, ledger: DeviceLedger, empty: bool = False
) -> Collocation:
    """Return the mode that this job would have on this device. Never AUTO.

    Beside another user's clients it would be time-sliced, unless it insists on MPS or nothing else
    can run there. `empty`: as if no job were on it.
    """
    wish = job.spec.collocation
    if ledger.device.kind is DeviceKind.MIG:
        return Collocation.MIG
    if wants_whole_device(state, job):
        return Collocation.EXCLUSIVE
    if wish is Collocation.AUTO:
        wish = state.settings.collocation
    if wish not in (Collocation.AUTO, Collocation.MPS):
        return wish
    if not can_be_mps_client(ledger.device, role.needs):
        return Collocation.TIMESLICE
    if empty or job.spec.collocation is Collocation.MPS:
        return Collocation.MPS
    beside = other_users_client(job, ledger) is not None
    return Collocation.TIMESLICE if beside else Collocation.MPS


def can_be_time_sliced(job: Job, mode: Collocation) -> bool:
    """Return whether a job may be time-sliced on a device where it would be an MPS client.

    A placement has one mode, and a job on several devices may find MPS on only some of them, also
    when it grows.
    """
    insists = job.spec.collocation is Collocation.MPS
    return mode is Collocation.MPS and job.spec.gpus_max > 1 and not insists


def other_users_client(job: Job, ledger: DeviceLedger) -> OccupantUse | None:
    """Return another user's client on the MPS server, if that takes one user at a time."""
    if ledger.device.mps_multiuser:
        return None
    for occupant in ledger.occupants.values():
        client = occupant.collocation is Collocation.MPS and occupant.job_id != job.id
        if client and occupant.uid != job.spec.uid:
            return occupant
    return None
