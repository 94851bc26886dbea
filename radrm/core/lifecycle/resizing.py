"""Give a running attempt more or fewer tasks, and their devices.

Theory of operation
-------------------
New devices are reserved when a resize begins, and the old ones until it ends: new tasks start
beside the old ones, and the host knows best when the old ones are dead.

    begin -> Resize                  Resized: the target      ActionFailed: the placement before
      at the deadline: withdraw -> Resize(withdrawn)          (the same answers)
        at its deadline: the attempt is stopped as preempted  all devices, when it has ended

Invariants:
- No device is released before the host has said that no task uses it: by an answer, or by the end
  of the attempt. So a silent host costs the attempt, and never gives a GPU to two jobs.
- `Attempt.target` stays until one of these. While the attempt is stopped it may be there without
  a pending action.
- The reservation of tasks that stay becomes no larger. It does not shrink while a resize is under
  way (`usage.take_reading`), nor before new tasks beside them on the device have settled.

A job that is resized by a restart (RESTART) has no target here: it moves like a migrating one
(`occupancy.py`), to devices of which it may have some already.

What may interleave: an answer may come for an earlier resize. `generation` tells.

What a restart sees: the target and the pending action. `pending.renew` asks for it again.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.lifecycle.occupancy import occupy, release_devices
from radrm.core.lifecycle.pending import action_of, ask, without
from radrm.core.records import Attempt, Job, Pending, Placement, Progress, Share, Task, changed
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.state.timers import DEADLINE, Timer
from radrm.core.words import ActionKind


def begin_resize(state: State, job: Job, attempt: Attempt, target: Placement) -> None:
    """Begin a resize. New devices are reserved now; old ones stay reserved until it ends."""
    more = _new_shares(attempt.placement, target)
    both = replace(target, shares=(*attempt.placement.shares, *more))
    number = attempt.generation + 1
    asked = replace(attempt, target=target, generation=number, resize_failed=None)
    attempt = state.put_attempt(asked)
    occupy(state, job, attempt, both, new=_devices(more))
    ask(state, job, attempt, ActionKind.RESIZE)


def withdraw(state: State, job: Job, attempt: Attempt, pending: Pending) -> None:
    """Ask the host to undo a resize that it has not answered in its time."""
    now = state.step.now
    due_s = now.boot_s + state.settings.action_limit_s
    later = changed(pending, asked=now, due_boot_s=due_s, withdrawn=True)
    kept = without(attempt, ActionKind.RESIZE)
    attempt = state.put_attempt(changed(kept, pending=(*kept.pending, later)))
    state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))
    action = action_of(attempt, later)
    assert action is not None
    state.act(action)


def end_resize(
    state: State, job: Job, attempt: Attempt, placement: Placement, failed: str | None = None
) -> None:
    """End a resize with `placement`: the target, or the placement before if it has `failed`."""
    was, more = attempt.devices, _new_shares(attempt.placement, placement)
    tasks = _tasks_on(attempt, placement)
    attempt = replace(without(attempt, ActionKind.RESIZE), resize_failed=failed)
    if failed is None:
        # How far it is now is not known: its last report was about the size before.
        attempt = replace(attempt, sized=Progress(at=state.step.now))
    attempt = state.put_attempt(replace(attempt, placement=placement, target=None, tasks=tasks))
    gone = [uuid for uuid in sorted(was) if uuid not in placement.devices]
    usage = release_devices(state, job.id, gone)
    if usage:
        attempt = state.put_attempt(replace(attempt, usage=merged(attempt.usage, usage)))
    occupy(state, job, attempt, placement, new=())
    now_s = state.step.now.boot_s
    for uuid in _devices(more):
        ledger = state.ledgers.get(uuid)  # None: missing since a restart
        if ledger is not None and job.id in ledger.holdings:
            ledger.holdings[job.id].grow_again(now_s)
            ledger.load.warm_up(now_s)  # its tasks work only now


def _new_shares(before: Placement, then: Placement) -> list[Share]:
    """Return the shares of the tasks that are only in the later placement."""
    tasks = {(share.role, share.task) for share in before.shares}
    return [share for share in then.shares if (share.role, share.task) not in tasks]


def _devices(shares: list[Share]) -> list[str]:
    return [share.device for share in shares if share.device is not None]


def _tasks_on(attempt: Attempt, placement: Placement) -> tuple[Task, ...]:
    """Return the tasks of a placement: present ones unchanged, and new ones."""
    before = {(task.role, task.number): task for task in attempt.tasks}
    wanted = dict.fromkeys((share.role, share.task) for share in placement.shares)
    return tuple(before.get(task) or Task(role=task[0], number=task[1]) for task in wanted)
