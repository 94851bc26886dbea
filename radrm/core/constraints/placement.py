"""Check a placement: its shape, and each of its devices."""

from __future__ import annotations

from radrm.core.constraints.fit import refuse_itself, refuse_room
from radrm.core.constraints.modes import can_be_time_sliced, mode_on
from radrm.core.constraints.overlap import interval_of, refuse_overlap
from radrm.core.constraints.sharing import refuse_company
from radrm.core.records import Job, Placement, Refusal, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State, owner_of
from radrm.core.words import Collocation


def refuse_device(
    state: State, job: Job, role: Role, ledger: DeviceLedger, mode: Collocation | None = None
) -> Refusal | None:
    """Return the first constraint that keeps this job from this device now; None if it can join.

    `mode`: share the device in this mode. None: in the mode that the job would have there.
    """
    itself = refuse_itself(state, job, role, ledger)
    if itself is not None:
        return itself
    mode = mode_on(state, job, role, ledger) if mode is None else mode
    company = refuse_company(state, job, ledger, mode)
    if company is not None or state.settings.overcommit:
        return company
    return refuse_overlap(state, job, role, ledger)


def refuse_gpuless(state: State) -> Refusal | None:
    """Return why no further job without a GPU can start now; None if one can."""
    running, most = state.gpuless_running(), state.settings.gpuless_at_once
    if running < most:
        return None
    why = f"limit of jobs without a GPU ({most}) reached"
    return Refusal("gpuless", why, None, most, running)


def check_placement(state: State, job: Job, placement: Placement) -> Refusal | None:
    """Return the first constraint that a placement breaks; None if the job can run there now."""
    if not job.spec.gpus:
        busy = refuse_gpuless(state)
        if busy is not None:
            return busy
    roles = {role.name: role for role in job.spec.roles}
    shape = _check_shape(roles, placement)
    if shape is not None:
        return shape
    role_of = {s.device: roles[s.role] for s in placement.shares if s.device is not None}
    for uuid, reserved in State.reserved_on(placement).items():
        ledger = state.ledgers.get(uuid)
        if ledger is None:
            return Refusal("vanished", "no such device", uuid)
        refusal = _check_device(state, job, role_of[uuid], ledger, placement.collocation)
        refusal = refusal or refuse_room(state, job, role_of[uuid], ledger, reserved)
        if refusal is not None:
            return refusal
    return None


def _check_device(
    state: State, job: Job, role: Role, ledger: DeviceLedger, wanted: Collocation
) -> Refusal | None:
    """Return why the job cannot be on this device in its placement's mode; None if it can."""
    uuid, mode = ledger.device.uuid, mode_on(state, job, role, ledger)
    if wanted is Collocation.TIMESLICE and can_be_time_sliced(job, mode):
        mode = Collocation.TIMESLICE
    refusal = refuse_device(state, job, role, ledger, mode)
    if refusal is not None:
        return refusal
    # A planner may give a job a whole device instead, but no other mode.
    if wanted is not mode and not wanted.whole_device:
        return Refusal("mode", f"the job would share it by {mode.value}", uuid)
    if wanted.whole_device and not ledger.idle_for(owner_of(job.id), *interval_of(state, job)):
        return Refusal("not idle", "other jobs are on it or have reserved it", uuid)
    return None


def _check_shape(roles: dict[str, Role], placement: Placement) -> Refusal | None:
    """Return why a role's number of tasks, or a task's number of GPUs, is wrong; None if not."""
    counts = placement.tasks()
    for name, role in roles.items():
        if not role.allows(counts.get(name, 0)):
            span = f"{role.count_min}..{role.count_max}"
            why = f"role {name} runs with {span} tasks"
            return Refusal("count", why, None, role.count_min, counts.get(name))
    for (name, task), devices in devices_by_task(placement).items():
        if name not in roles:
            return Refusal("role", f"the job has no role {name}")
        wanted = roles[name].needs.gpus
        gpus = [d for d in devices if d is not None]
        if len(gpus) != wanted or len(set(gpus)) != len(gpus):
            why = f"task {task} of role {name} needs {wanted} different GPUs"
            return Refusal("count", why, None, wanted, len(set(gpus)))
    return None


def devices_by_task(placement: Placement) -> dict[tuple[str, int], list[str | None]]:
    """Return the devices of each task, by role and number, in the order of their shares."""
    found: dict[tuple[str, int], list[str | None]] = {}
    for share in placement.shares:
        found.setdefault((share.role, share.task), []).append(share.device)
    return found
