"""The memory that a job needs on each of its GPUs, given the present devices.

An *estimate* larger than the devices means a whole device: estimators return such figures if
they do not know. A declared need, and one proven by an out-of-memory death, is never lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.constraints.kinds import kind_refusal, shortage
from radrm.core.records import Job, JobSpec, Role
from radrm.core.state.state import State
from radrm.core.words import Collocation


def effective_need_mib(state: State, job: Job, role: Role) -> int | None:
    """Return the need of a role's task per GPU in MiB, with estimates limited to the devices' size.

    None if it is unknown. What a role declares is its own need, whatever the job's estimate is.
    """
    certain = job.memory_floor_mib or 0
    if role.needs.gpu_memory_mib is not None:
        certain = max(certain, role.needs.gpu_memory_mib)
        guess = job.ask_mib
        return certain if guess is None else max(certain, min(guess, _largest_for_all(state, job)))
    need = job.need_mib
    if need is None:
        return None
    largest = _largest_for_all(state, job)
    return need if not largest else max(certain, min(need, largest))


def wants_whole_device(state: State, job: Job) -> bool:
    """Return whether a job gets whole devices.

    True for exclusive jobs, for recovery on a device of its own, and for an estimate larger
    than the devices. Also for a job that limits its slowdown, if the policy cannot predict it.
    """
    if job.own_device or job.spec.collocation is Collocation.EXCLUSIVE:
        return True
    if job.spec.max_slowdown is not None and not state.settings.honours_slowdown:
        return True
    need, largest = job.need_mib, _largest_for_all(state, job)
    return need is not None and 0 < largest < need


def largest_mib(state: State, role: Role, spec: JobSpec, count: int) -> int:
    """Return the largest MiB that enough devices for `count` tasks have; 0 if there are too few."""
    needs, wish = role.needs, (spec.collocation, spec.gpu_types)
    key = (wish, count, needs.gpus, needs.mig_profile)
    found = state.largest_mib.get(key)
    if found is None:
        wanted = [(max(1, count * needs.gpus), role)]
        found = state.largest_mib[key] = _search_largest_mib(state, wanted, spec)
    return found


def _largest_for_all(state: State, job: Job) -> int:
    """Return `largest_mib` for all roles together, since an estimate is for the whole job."""
    roles, wish = job.spec.roles, (job.spec.collocation, job.spec.gpu_types)
    if len(roles) == 1:
        # Each device asks: few jobs have counts of their own.
        count = job.count(roles[0]) if job.counts else roles[0].count_min
        return largest_mib(state, roles[0], job.spec, count)
    wanted = [(n, role) for role in roles if (n := job.count(role) * role.needs.gpus)]
    key = (wish, *[(n, role.needs.gpus, role.needs.mig_profile) for n, role in wanted])
    found = state.largest_mib.get(key)
    if found is None:
        found = state.largest_mib[key] = _search_largest_mib(state, wanted, job.spec)
    return found


def _search_largest_mib(state: State, wanted: Sequence[tuple[int, Role]], spec: JobSpec) -> int:
    devices = [ledger.device for ledger in state.ledgers.values() if not ledger.vanished]
    suitable = [
        (n, [d for d in devices if kind_refusal(d, role.needs, spec) is None]) for n, role in wanted
    ]
    for mib in sorted({device.capacity_mib for device in devices}, reverse=True):
        # Not the largest: a job on two GPUs of 80 and 40 GiB gets 40 GiB on each.
        large = [(n, [d for d in some if d.capacity_mib >= mib]) for n, some in suitable]
        if wanted and shortage(large) is None:
            return mib
    return 0
