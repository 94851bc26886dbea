"""The size of a job, as answers show it: GPUs, roles, tasks, a resize under way, memory caps."""

from __future__ import annotations

from typing import Any

from radrm.core.records import Attempt, Device, Job, JobSpec, Placement, Role, by_task
from radrm.core.words import Collocation, DeviceKind, Resizing
from radrm.documents import jobs as shown


def size_of(job: Job, live: Attempt | None) -> dict[str, Any]:
    """The fields of a job's document about its size. `live`: its running attempt, if it has one.

    `gpus` are those that it holds, else those of its start. `roles` is empty for a job that has no
    range and no roles. `resizing` is the size that a resize under way leads to.
    """
    spec = job.spec
    held = live.placement if live is not None else None
    alone = spec.resizing is Resizing.NONE
    return {
        "gpus": spec.gpus if held is None else len(held.devices),
        "gpus_min": spec.gpus,
        "gpus_max": spec.gpus_max,
        "roles": () if alone else tuple(_role(each, held) for each in spec.roles),
        "resizing": _resizing(job, live),
        "resize_error": live.resize_failed if live is not None else None,
    }


def target_of(job: Job, live: Attempt) -> Placement | None:
    """Return the placement that a resize under way leads to; None without one.

    A job that is resized by a restart moves to it, as one does that only changes its GPUs.
    """
    if live.target is not None or job.target is None:
        return live.target
    return job.target if job.target.tasks() != live.placement.tasks() else None


def tasks_of(attempt: Attempt) -> tuple[shown.Task, ...]:
    """The tasks of an attempt: what each has, has used, and how it ended."""
    exits = {(task.role, task.number): task.exit for task in attempt.tasks}
    used = attempt.host_use.tasks if attempt.host_use is not None else ()
    uses = {(use.role, use.number): use for use in used}
    found = []
    for (role, number), mine in by_task(attempt.placement.shares).items():
        ended, use = exits.get((role, number)), uses.get((role, number))
        found.append(
            shown.Task(
                role=role,
                task=number,
                gpus=tuple(share.device for share in mine if share.device is not None),
                node=mine[0].node,
                cpus=mine[0].cpus,
                cpu_s=use.cpu_s if use is not None else None,
                memory_mib=use.memory_mib if use is not None else None,
                exit_code=ended.shell_code if ended is not None else None,
            )
        )
    return tuple(found)


def _role(role: Role, held: Placement | None) -> shown.Role:
    return shown.Role(
        name=role.name,
        count=None if held is None else held.tasks().get(role.name, 0),
        min=role.count_min,
        max=role.count_max,
        gpus=role.needs.gpus,
        cpus=role.needs.cpus,
        cpus_max=role.needs.cpus_max,
    )


def _resizing(job: Job, live: Attempt | None) -> shown.Resizing | None:
    target = target_of(job, live) if live is not None else None
    if target is None:
        return None
    return shown.Resizing(gpus=len(target.devices), roles=target.tasks())


# ------------------------------------------------------------------ memory caps

_MPS, _DRIVER = "mps", "driver"
"""Who enforces a cap: MPS for each process, the driver for all processes of a job together."""


def gpu_limit_mib(spec: JobSpec) -> int | None:
    """The declared limit of memory per GPU; None without one."""
    limits = [role.needs.gpu_memory_max_mib for role in spec.roles if role.needs.gpus]
    return max((mib for mib in limits if mib is not None), default=None)


def cap_of(attempt: Attempt | None) -> dict[str, Any]:
    """The memory cap per GPU of an attempt, who enforces it, and why nobody does; None: none."""
    found = {"cap_mib": None, "cap_by": None, "cap_refused": None}
    if attempt is None or not attempt.caps:
        return {**found, "cap_refused": attempt.caps_refused if attempt is not None else None}
    by = _MPS if attempt.placement.collocation is Collocation.MPS else _DRIVER
    return {**found, "cap_mib": min(mib for _, mib in attempt.caps), "cap_by": by}


def caps_on(device: Device) -> list[str]:
    """Who can enforce memory caps of jobs that share a device."""
    if device.kind is DeviceKind.MIG:
        return []  # its jobs do not share it
    return [name for name, offered in ((_MPS, device.mps), (_DRIVER, device.caps)) if offered]
