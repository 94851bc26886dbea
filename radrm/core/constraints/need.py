"""The memory that a job needs on each of its GPUs, given the present devices.

An *estimate* larger than the devices means a whole device: estimators return such figures if
they do not know. A declared need, and one proven by an out-of-memory death, is never lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.constraints.kinds import kind_refusal
from radrm.core.records import Job, Needs, Role
from radrm.core.state.state import State
from radrm.core.words import Collocation


def effective_need_mib(state: State, job: Job, role: Role) -> int | None:
    """Return the job's need per GPU in MiB, with estimates limited to the devices' size.

    None if its need is unknown.
    """
    need = job.need_mib
    if need is None:
        return None
    largest = _largest_for_all(state, job)
    certain = max(role.needs.gpu_memory_mib or 0, job.memory_floor_mib or 0)
    return need if not largest else max(certain, min(need, largest))


def wants_whole_device(state: State, job: Job) -> bool:
    """Return whether a job gets whole devices.

    True for exclusive jobs, for recovery on a device of its own, and for an estimate larger
    than the devices.
    """
    if job.own_device or job.spec.collocation is Collocation.EXCLUSIVE:
        return True
    need, largest = job.need_mib, _largest_for_all(state, job)
    return need is not None and 0 < largest < need


def largest_mib(state: State, role: Role) -> int:
    """Return the largest MiB that enough devices for the role have; 0 if there are too few."""
    key = (role.count_min, role.needs.gpus, role.needs.mig_profile)
    found = state.largest_mib.get(key)
    if found is None:
        wanted = max(1, role.count_min * role.needs.gpus)
        found = state.largest_mib[key] = _largest_mib(state, [role.needs], wanted)
    return found


def _largest_for_all(state: State, job: Job) -> int:
    """Return `largest_mib` for all roles together, since an estimate is for the whole job."""
    roles = [role for role in job.spec.roles if role.count_min * role.needs.gpus]
    if len(roles) == 1:
        return largest_mib(state, roles[0])
    return _largest_mib(state, [role.needs for role in roles], job.spec.gpus)


def _largest_mib(state: State, needs: Sequence[Needs], wanted: int) -> int:
    capacities = sorted(
        (
            ledger.device.capacity_mib
            for ledger in state.ledgers.values()
            if all(kind_refusal(ledger.device, n, Collocation.AUTO) is None for n in needs)
        ),
        reverse=True,
    )
    # Not the largest: a job on two GPUs of 80 and 40 GiB gets 40 GiB on each.
    return capacities[wanted - 1] if len(capacities) >= wanted else 0
