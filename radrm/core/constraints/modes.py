"""The collocation mode that a job would have on a device."""

from __future__ import annotations

from radrm.core.constraints.kinds import can_be_mps_client
from radrm.core.constraints.need import wants_whole_device
from radrm.core.records import Job, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.readings import Holding
from radrm.core.state.state import State
from radrm.core.words import Collocation, DeviceKind


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


def other_users_client(job: Job, ledger: DeviceLedger) -> Holding | None:
    """Return another user's client on the MPS server, if that takes one user at a time."""
    if ledger.device.mps_multiuser:
        return None
    for holding in ledger.holdings.values():
        client = holding.collocation is Collocation.MPS and holding.job_id != job.id
        if client and holding.uid != job.spec.uid:
            return holding
    return None
