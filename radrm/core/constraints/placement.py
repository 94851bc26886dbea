"""Check a placement: its shape, what it books on nodes, and each of its devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from radrm.core.constraints.claims import idle_for
from radrm.core.constraints.fit import (
    can_be_time_sliced,
    mode_on,
    refuse_device,
    refuse_more,
    refuse_room,
)
from radrm.core.constraints.need import effective_need_mib
from radrm.core.constraints.nodes import (
    refuse_amounts,
    refuse_booker,
    refuse_bookings,
    refuse_caps,
)
from radrm.core.records import Job, OuterJob, Placement, Refusal, Role, Share, TaskId, by_task
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State
from radrm.core.units import show_mib
from radrm.core.words import Collocation, Unit


def refuse_start(state: State, job: Job) -> Refusal | None:
    """Return why a waiting job can start nowhere now; None if it may on some devices.

    The answer is the same for all devices, and mostly for all jobs of a line, so it is asked first.
    """
    if state.launch_error is not None:
        return Refusal("launch", f"the server cannot start jobs: {state.launch_error}")
    return None if job.spec.gpus else state.queue.gpuless.refuse(job)


def check_placement(
    state: State, job: Job, placement: Placement, present: Placement | None = None
) -> Refusal | None:
    """Return the first constraint that a placement breaks; None if the job can run there now.

    `present`: where its attempt runs and goes on. Tasks that are in both keep their devices, which
    need not take a new job, and nothing that stays as it is is checked anew.
    """
    if not job.spec.gpus and job.id not in state.attempts:
        busy = state.queue.gpuless.refuse(job)
        if busy is not None:
            return busy
    roles = {role.name: role for role in job.spec.roles}
    refusal = (
        (_refuse_outer(state, job, job.outer) if job.outer and present is None else None)
        or _check_shape(roles, placement)
        or (state.users.any_limit and state.users.refuse(job, len(placement.devices)))
        or _check_shares(state, job, roles, placement, present)
        or refuse_bookings(state, job, placement)
    )
    if refusal is not None:
        return refusal
    tasks, kept = _tasks_on(placement), set(by_task(present.shares)) if present else ()
    for uuid, reserved in placement.reserved().items():
        if all(task in kept for task in tasks[uuid]):
            continue
        there = [roles[name] for name, _ in tasks[uuid]]
        refusal = _check_device(state, job, there, uuid, placement.collocation, reserved)
        if refusal is not None:
            return refusal
    return None


def _refuse_outer(state: State, job: Job, outer: OuterJob) -> Refusal | None:
    """Return why a job cannot start now: an earlier run of its outer job has not ended here."""
    for other_id in state.attempts:
        other = state.jobs[other_id]
        if other_id != job.id and other.outer is not None and other.outer.is_run_of(outer):
            return Refusal("outer", f"an earlier run of {outer.label} has not ended: {other.label}")
    return None


def _check_device(
    state: State,
    job: Job,
    roles: Sequence[Role],
    uuid: str,
    wanted: Collocation,
    reserved: int | None,
) -> Refusal | None:
    """Return why tasks of these roles cannot be on a device together; None if they can.

    `reserved`: the MiB for all of them; None: the whole device.
    """
    ledger = state.ledgers.get(uuid)
    if ledger is None:
        return Refusal("vanished", "no such device", uuid)
    for role in dict.fromkeys(roles):
        refusal = _check_role(state, job, role, ledger, wanted)
        if refusal is not None:
            return refusal
    each = [effective_need_mib(state, job, role) for role in roles]
    need, capacity = sum(mib or 0 for mib in each), ledger.device.capacity_mib
    if need > capacity:
        why = f"needs {show_mib(need)} for {len(roles)} tasks, the device has {show_mib(capacity)}"
        return Refusal("capacity", why, uuid, need, capacity)
    return refuse_room(state, job, None if None in each else need, ledger, reserved)


def _check_role(
    state: State, job: Job, role: Role, ledger: DeviceLedger, wanted: Collocation
) -> Refusal | None:
    """Return why a task cannot be on this device in its placement's mode; None if it can."""
    uuid, mode = ledger.device.uuid, mode_on(state, job, role, ledger)
    if wanted is Collocation.TIMESLICE and can_be_time_sliced(job, mode):
        mode = Collocation.TIMESLICE
    refusal = refuse_device(state, job, role, ledger, mode)
    if refusal is not None:
        return refusal
    # A planner may give a job a whole GPU instead, but no other mode.
    instead = wanted is Collocation.EXCLUSIVE and mode is not Collocation.MIG
    if wanted is not mode and not instead:
        return Refusal("mode", f"the job would share it by {mode.value}", uuid)
    if wanted.whole_device and not idle_for(state, job, ledger):
        return Refusal("not idle", "other jobs are on it or have reserved it", uuid)
    return None


def _check_shape(roles: Mapping[str, Role], placement: Placement) -> Refusal | None:
    """Return why a role's number of tasks, or a task's number of GPUs, is wrong; None if not."""
    counts = placement.tasks()
    for name, role in roles.items():
        if not role.allows(counts.get(name, 0)):
            span = f"{role.count_min}..{role.count_max}"
            why = f"role {name} runs with {span} tasks"
            return Refusal("count", why, None, role.count_min, counts.get(name), unit=Unit.TASKS)
    for (name, task), shares in by_task(placement.shares).items():
        if name not in roles:
            return Refusal("role", f"the job has no role {name}")
        wanted = roles[name].needs.gpus
        gpus = [share.device for share in shares if share.device is not None]
        if len(gpus) != wanted or len(set(gpus)) != len(gpus):
            why = f"task {task} of role {name} needs {wanted} different GPUs"
            return Refusal("count", why, None, wanted, len(set(gpus)))
    return None


def _check_shares(
    state: State,
    job: Job,
    roles: Mapping[str, Role],
    placement: Placement,
    present: Placement | None,
) -> Refusal | None:
    """Return which share has a wrong cap or node, or books too little; None if none does."""
    refusal = refuse_caps(placement.shares)
    if refusal is None and job.spec.sm_share is not None:
        refusal = refuse_more(job, placement.shares)
    if refusal is not None:
        return refusal
    kept = present.shares if present is not None else ()
    for share in placement.shares:
        if share in kept:
            continue  # its caps may have been lowered since it started
        refusal = _refuse_node(state, share) or refuse_amounts(job, roles[share.role], share)
        if refusal is not None:
            return refusal
    first = job.spec.roles[0].name, 0
    if job.spec.memory_range_mib and all((s.role, s.task) != first for s in placement.shares):
        return refuse_booker(job)
    return None


def _refuse_node(state: State, share: Share) -> Refusal | None:
    """Return that a share's node is not its device's, or is unknown; else None.

    It would book CPUs and memory elsewhere than it uses them.
    """
    if share.device is None:
        here = any(share.node == node.name for node in state.nodes.known())
    else:
        ledger = state.ledgers.get(share.device)
        here = ledger is None or share.node == ledger.device.node
    return None if here else Refusal("node", f"it is not on node {share.node}", share.device)


def _tasks_on(placement: Placement) -> dict[str, list[TaskId]]:
    """Return the tasks on each device."""
    found: dict[str, list[TaskId]] = {}
    for share in placement.shares:
        if share.device is not None:
            found.setdefault(share.device, []).append((share.role, share.task))
    return found
