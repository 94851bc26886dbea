"""After a death at the limit of host memory: the next attempt of an elastic job gets more.

It books twice as much, up to its range and to the largest node. For a parameter server, which is a
task of any role but the last one, the *number* of servers doubles instead, because their parameters
are divided among them (DLRover, section 4.2). So such deaths end: each one has the job larger, up
to its most.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.constraints.feasibility import hopeless
from radrm.core.lifecycle.memory.growing import booked_mib
from radrm.core.records import Attempt, Job, Role
from radrm.core.state.state import State
from radrm.core.units import show_mib


def enlarged(state: State, job: Job, attempt: Attempt, role_name: str) -> Job | str | None:
    """Return the job as it is started again after a task of this role ran out of host memory.

    A text: why it cannot have more. None: it has no range, so this is a failure like any other.
    """
    role = next((each for each in job.spec.roles if each.name == role_name), None)
    span, why = job.spec.memory_range_mib, None
    if role is not None and role is not job.spec.roles[-1] and role.count_max > role.count_min:
        more = _more_tasks(state, job, attempt, role)
        if isinstance(more, Job):
            return more
        why = more
    booked = booked_mib(job, attempt)
    if span is None or booked is None:
        return why
    there = [node.memory_mib for node in state.nodes.known()]
    largest = max((mib for mib in there if mib is not None), default=None)
    most = span[1] if largest is None or None in there else min(span[1], largest)
    if booked >= most:
        what = "of its range" if most == span[1] else "that a server here has"
        return f"it had {show_mib(booked)}, the most {what}"
    return replace(job, memory_mib=min(2 * booked, most))


def _more_tasks(state: State, job: Job, attempt: Attempt, role: Role) -> Job | str:
    """Return the job with twice as many tasks of a role as it had, or why that is impossible."""
    had = attempt.placement.tasks().get(role.name, role.count_min)
    wanted = min(2 * had, role.count_max)
    count = wanted - (wanted - role.count_min) % role.step
    if count <= had:
        return f"it had {had} tasks of role {role.name}, the most of its range"
    others = tuple((name, number) for name, number in job.counts if name != role.name)
    more = replace(job, counts=(*others, (role.name, count)))
    return hopeless(state, more) or more
