"""Why a job can never run here, even if all devices and nodes were idle; and where it could run.

Waiting jobs, submitted jobs and edits are checked: a job that can never run fails with the
reason, or the edit is refused, instead of waiting forever.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.constraints.claims import barred
from radrm.core.constraints.gpu_names import nearest
from radrm.core.constraints.kinds import is_of_type, kind_refusal, shortage
from radrm.core.constraints.need import effective_need_mib, wants_whole_device
from radrm.core.constraints.nodes import never_on_nodes
from radrm.core.records import Device, Job, Role
from radrm.core.state.state import State
from radrm.core.units import show_mib
from radrm.core.words import Collocation

_NOMINAL = 1.05
"""A limit may exceed a device by so much: users write the size by its name, and an H100 of 80 GB
has 79.6 GiB."""


def hopeless(state: State, job: Job) -> str | None:
    """Return why this job can never run here, or never by a limit of its user; None if it can."""
    return state.users.never(job) or never_here(state, job)


def never_here(state: State, job: Job, wish: Collocation | None = None) -> str | None:
    """Return why no job with this need can ever run here; None if it can, or without known devices.

    A vanished GPU may return, so it counts. `wish`: judge the job as if it asked for this
    collocation mode.
    """
    never = never_on_nodes(state, job)
    if never is not None:
        return never
    devices = state.known_devices()
    if not devices or job.spec.gpus == 0:
        return None
    wish = job.spec.collocation if wish is None else wish
    wanted: list[tuple[int, Sequence[Device]]] = []
    for role in job.spec.roles:
        found = _large_enough(job, role, devices, wish)
        if isinstance(found, str):
            return found
        wanted.append((job.count(role) * role.needs.gpus, found))
    few = shortage(wanted)
    return None if few is None else _too_many(*few)


def _large_enough(
    job: Job, role: Role, devices: Sequence[Device], wish: Collocation
) -> Sequence[Device] | str:
    """Return the devices that could run a task of this role, or why there are too few."""
    needs, count = role.needs, job.count(role) * role.needs.gpus
    fitting = [d for d in devices if kind_refusal(d, needs, job.spec, wish) is None]
    if count and not fitting:
        kinds = sorted({d.profile or d.name for d in devices})
        refusals = [kind_refusal(d, needs, job.spec, wish) for d in devices]
        why = "; ".join(sorted({r for r in refusals if r is not None}))
        return f"no device here can run it ({', '.join(kinds)}): {why}{_meant(job, devices)}"
    if (few := shortage([(count, fitting)])) is not None:
        return _too_many(*few)
    # Only a declared or proven need counts: an estimate may be wrong.
    certain = max(needs.gpu_memory_mib or 0, job.memory_floor_mib or 0)
    large = [d for d in fitting if d.capacity_mib >= certain]
    if shortage([(count, large)]) is not None:
        largest = max(d.capacity_mib for d in fitting)
        return (
            f"it needs {show_mib(certain)} ({certain} MiB) on each of {count} GPU(s); "
            f"the largest here have {show_mib(largest)} ({largest} MiB)"
        )
    limit, total = needs.gpu_memory_max_mib, max((d.total_mib for d in fitting), default=0)
    if count and limit is not None and limit > _NOMINAL * total:
        return (
            f"its limit of GPU memory, {show_mib(limit)}, is more than any GPU here has "
            f"({show_mib(total)}); lower the second size of --gpu-memory"
        )
    return large


def _meant(job: Job, devices: Sequence[Device]) -> str:
    """Return the end of a message that names the GPU here which a type that means none is like."""
    types = job.spec.gpu_types
    if any(is_of_type(device, each) for device in devices for each in types):
        return ""
    names = [device.name for device in devices]
    found = next(filter(None, (nearest(each, names) for each in types)), None)
    return "" if found is None else f"; the nearest here is {found}"


def _too_many(wanted: int, there: int) -> str:
    return f"it needs {wanted} GPUs, at most {there} here can run it"


# ------------------------------------------------------------------ where it could run


def suitable(state: State, job: Job, role: Role) -> list[Device]:
    """Return the devices in service that could run a task of this role if they were idle.

    Not those that are reserved for others before the job would end.
    """
    need = effective_need_mib(state, job, role) or 0
    out = state.out_of_service.keys() | (state.never_idle if wants_idle(state, job) else ())
    out |= set(barred(state, job) if state.for_users.every else ())
    return [
        ledger.device
        for uuid, ledger in state.ledgers.items()
        if uuid not in out
        and kind_refusal(ledger.device, role.needs, job.spec) is None
        and need <= ledger.device.capacity_mib
    ]


def wants_idle(state: State, job: Job) -> bool:
    """Return whether a job starts on idle devices only."""
    whole = state.settings.whole_devices or wants_whole_device(state, job)
    return whole or job.recovers_idle
