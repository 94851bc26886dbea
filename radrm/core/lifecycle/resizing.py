"""Give a running attempt more or fewer tasks, and their devices."""

from __future__ import annotations

from dataclasses import replace

from radrm.core.lifecycle.occupancy import occupy, release_devices
from radrm.core.lifecycle.pending import ask, without
from radrm.core.records import Attempt, Job, Placement, Task
from radrm.core.state.holding import merged
from radrm.core.state.state import State
from radrm.core.words import ActionKind


def begin_resize(state: State, job: Job, attempt: Attempt, target: Placement) -> None:
    """Begin a resize. New devices are reserved now; old ones stay reserved until it ends."""
    before = attempt.placement.shares
    both = Placement(
        shares=tuple(dict.fromkeys(before + target.shares)),
        collocation=target.collocation,
    )
    attempt = state.put_attempt(replace(attempt, target=target))
    more = [s.device for s in target.shares if s not in before and s.device is not None]
    occupy(state, job, attempt, both, new=more)
    ask(state, job, attempt, ActionKind.RESIZE)


def end_resize(state: State, job: Job, attempt: Attempt, placement: Placement) -> None:
    """End a resize with `placement`: the target if it worked, else the placement before."""
    was = attempt.devices
    tasks = _tasks_on(attempt, placement)
    attempt = without(attempt, ActionKind.RESIZE)
    attempt = state.put_attempt(replace(attempt, placement=placement, target=None, tasks=tasks))
    gone = [uuid for uuid in sorted(was) if uuid not in placement.devices]
    usage = release_devices(state, job.id, gone)
    if usage:
        attempt = state.put_attempt(replace(attempt, usage=merged(attempt.usage, usage)))
    occupy(state, job, attempt, placement, new=())


def _tasks_on(attempt: Attempt, placement: Placement) -> tuple[Task, ...]:
    """Return the tasks of a placement: present ones unchanged, and new ones."""
    before = {(task.role, task.number): task for task in attempt.tasks}
    wanted = dict.fromkeys((share.role, share.task) for share in placement.shares)
    return tuple(before.get(task) or Task(role=task[0], number=task[1]) for task in wanted)
