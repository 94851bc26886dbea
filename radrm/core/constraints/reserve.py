"""Check a planner's reservation for a waiting job."""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.constraints.claims import expected_free_mib
from radrm.core.constraints.kinds import kind_refusal
from radrm.core.constraints.need import effective_need_mib, wants_whole_device
from radrm.core.proposals import Reserve
from radrm.core.records import Job, Refusal
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State, owner_of
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Unit

MOST_AHEAD_S = 30 * 86400.0
"""A reservation ends within this time, as the longest `bf_window` of Slurm."""
MOST_OWNERS = 100
"""A planner can have reservations for this many jobs at a time."""
_ROUNDING_S = 0.001


def check_reserve(state: State, proposal: Reserve) -> Refusal | None:
    """Return why nothing can be reserved like this; None if it can."""
    refusal = _check_owner(state, proposal) or _check_times(state, proposal)
    if refusal is not None:
        return refusal
    devices = [uuid for uuid, _ in proposal.devices]
    if not devices or len(set(devices)) != len(devices):
        return Refusal("count", "a reservation names different devices, at least one")
    for uuid, mib in proposal.devices:
        ledger = state.ledgers.get(uuid)
        if ledger is None or ledger.vanished:
            return Refusal("vanished", "no such device", uuid)
        capacity = ledger.device.capacity_mib
        if mib is not None and not 0 < mib <= capacity:
            why = f"{mib} MiB are not a part of the {capacity} MiB of the device"
            return Refusal("capacity", why, uuid, mib, capacity)
    job, length_s = state.jobs[proposal.job_id], proposal.end_s - proposal.start_s
    refusal = refuse_for_job(state, job, proposal.devices, length_s)
    if refusal is not None:
        return refusal
    for uuid, mib in proposal.devices:
        refusal = _refuse_room(state, job, proposal, state.ledgers[uuid], mib)
        if refusal is not None:
            return refusal
    return None


def _check_owner(state: State, proposal: Reserve) -> Refusal | None:
    if proposal.job_id not in state.lines:
        return Refusal("job", f"job {proposal.job_id} is not waiting to start")
    owner, planner = owner_of(proposal.job_id), state.step.planner
    other = next((r for r in state.planned.of(owner) if r.planner != planner), None)
    if other is not None:
        return Refusal("owner", f"the planner {other.planner} has reserved for it already")
    owners = state.planned.owners_of[planner]
    if owners >= MOST_OWNERS and owner not in state.planned.owners:
        why = f"it has reserved for {owners} jobs already"
        return Refusal("count", why, None, MOST_OWNERS, owners, unit=Unit.RESERVATIONS)
    return None


def _check_times(state: State, proposal: Reserve) -> Refusal | None:
    now_s, start_s, end_s = state.step.now.boot_s, proposal.start_s, proposal.end_s
    if end_s <= now_s or end_s <= start_s or start_s < now_s - MOST_AHEAD_S:
        return Refusal("interval", "it would end before it starts, or is over")
    if end_s > now_s + MOST_AHEAD_S:
        why = f"it would end later than {show_seconds(MOST_AHEAD_S)} from now"
        return Refusal("interval", why, None, MOST_AHEAD_S)
    return None


def refuse_for_job(
    state: State, job: Job, devices: Iterable[tuple[str, int | None]], length_s: float
) -> Refusal | None:
    """Return why these reserved devices are not what a waiting job needs; None if they are."""
    limit_s = job.limit_s
    if limit_s is not None and length_s < limit_s - _ROUNDING_S:
        why = f"{show_seconds(length_s)} are less than the job's time limit"
        return Refusal("interval", why, None, limit_s, length_s)
    roles = [role for role in job.spec.roles if role.needs.gpus]
    whole, count = wants_whole_device(state, job), 0
    for uuid, mib in devices:
        count += 1
        ledger = state.ledgers.get(uuid)
        if ledger is None:
            return Refusal("vanished", "no such device", uuid)
        drained = state.drained_for(uuid, job)
        if drained is not None:
            return Refusal("drained", f"drained: {drained}", uuid)
        kinds = [kind_refusal(ledger.device, role.needs, job.spec) for role in roles]
        if None not in kinds:
            return Refusal("kind", next(filter(None, kinds), "the job needs no device"), uuid)
        need = min(effective_need_mib(state, job, role) or 0 for role in roles)
        if mib is not None and (whole or mib < need):
            what = "the whole device" if whole else show_mib(need)
            why = f"needs {what}, {show_mib(mib)} would be reserved"
            return Refusal("reservation", why, uuid, need, mib)
    least = sum(job.count(role) * role.needs.gpus for role in roles)
    most = sum(role.count_max * role.needs.gpus for role in roles)
    if not least <= count <= most:
        return Refusal("count", f"needs {least} devices, {count} would be reserved", None, least)
    return None


def _refuse_room(
    state: State, job: Job, proposal: Reserve, ledger: DeviceLedger, mib: int | None
) -> Refusal | None:
    """Return why the device has no room in the interval; None if it has.

    Live attempts are expected to end at their time limits.
    """
    device = ledger.device
    start_s = max(proposal.start_s, state.step.now.boot_s)  # what was before now is over
    wanted = device.capacity_mib if mib is None else mib
    room = expected_free_mib(state, ledger, job, start_s, proposal.end_s)
    if room is None:
        return Refusal("memory", "its free memory is unknown", device.uuid, wanted)
    if wanted > room:
        why = f"needs {show_mib(wanted)}, {show_mib(room)} will be free"
        return Refusal("memory", why, device.uuid, wanted, room)
    return None
