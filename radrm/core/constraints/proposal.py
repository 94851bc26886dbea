"""Check a proposal against the present state of its job.

A proposal may come late: its job may have ended or started since the planner saw it. So each
one is checked immediately before it is carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from radrm.core.constraints.fit import refuse_more
from radrm.core.constraints.nodes import refuse_booker, refuse_bookings, refuse_caps
from radrm.core.constraints.placement import check_placement, refuse_start
from radrm.core.constraints.reserve import check_reserve
from radrm.core.proposals import (
    Cancel,
    Migrate,
    Preempt,
    Proposal,
    Reserve,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
    Warn,
)
from radrm.core.records import Attempt, Job, Placement, Refusal, Share, by_task
from radrm.core.state.state import State
from radrm.core.units import show_mib
from radrm.core.words import ActionKind, CheckpointKind, JobState, Resizing, Unit
from radrm.structs import replace


def check(state: State, proposal: Proposal) -> Refusal | None:
    """Return why the proposal cannot be carried out now; None if it can."""
    if isinstance(proposal, Reserve):
        return check_reserve(state, proposal)
    job = state.jobs.get(proposal.job_id)
    if job is None:
        return Refusal("job", f"job {proposal.job_id} does not exist or has ended")
    if isinstance(proposal, Start):
        return _check_waiting(state, job, proposal)
    attempt = state.attempts.get(job.id)
    if attempt is None or job.state is not JobState.RUNNING:
        return Refusal("job", f"job {job.id} is not running")
    return _check_running(state, job, attempt, proposal)


def _check_waiting(state: State, job: Job, proposal: Start) -> Refusal | None:
    # In the queue, or aside because no device in service could run it.
    if job.id not in state.lines and state.lines.why_aside(job.id) is None:
        beyond = state.users.refuse(job, job.gpus)
        return beyond or Refusal("job", f"job {job.id} is not waiting to start")
    return refuse_start(state, job) or check_placement(state, job, proposal.placement)


def _check_running(state: State, job: Job, attempt: Attempt, proposal: Proposal) -> Refusal | None:
    can_save = job.spec.checkpoint.kind is not CheckpointKind.NONE
    if isinstance(proposal, (Cancel, Warn)):
        return None
    if isinstance(proposal, Preempt):
        if not can_save and not job.spec.requeue:
            return Refusal("checkpoint", "it can neither save its work nor be run again")
        if not can_save:
            return None
    busy = _refuse_pending(job, attempt, proposal)
    if busy is not None:
        return busy
    if isinstance(proposal, Preempt):
        return None
    if isinstance(proposal, TakeCheckpointNow):
        return None if can_save else _UNSAVED
    if isinstance(proposal, SetShares):
        return _check_shares(state, job, attempt, proposal)
    if isinstance(proposal, Migrate):
        if not can_save:
            return _UNSAVED
        return check_placement(state, job, proposal.placement)
    assert isinstance(proposal, ResizeTo)
    return _check_resize(state, job, attempt, proposal)


_NOT_DURING: dict[type[Proposal], tuple[ActionKind, ...]] = {
    Preempt: (ActionKind.CHECKPOINT,),
    TakeCheckpointNow: (ActionKind.CHECKPOINT,),
    Migrate: (ActionKind.CHECKPOINT,),
    ResizeTo: (ActionKind.SHARES, ActionKind.CHECKPOINT),
    SetShares: (ActionKind.RESIZE, ActionKind.SHARES),
}


def _refuse_pending(job: Job, attempt: Attempt, proposal: Proposal) -> Refusal | None:
    """Return which unanswered action of the job excludes this one; None if none does."""
    moves = isinstance(proposal, (Migrate, ResizeTo))
    if moves and (job.target is not None or attempt.target is not None):
        return Refusal("moving", "a migration or resize of it is under way")
    for kind in _NOT_DURING.get(type(proposal), ()):
        if attempt.asked(kind) is not None:
            return Refusal("pending", f"an earlier action on it is under way: {kind.value}")
    return None


def _check_resize(state: State, job: Job, attempt: Attempt, proposal: ResizeTo) -> Refusal | None:
    how, target = job.spec.resizing, proposal.placement
    if how is Resizing.NONE:
        return Refusal("resize", _FIXED)
    if how is Resizing.RESTART and job.spec.checkpoint.kind is CheckpointKind.NONE:
        return _UNSAVED
    if target == attempt.placement:
        return SAME_SIZE
    before, then = by_task(attempt.placement.shares), by_task(target.shares)
    if any(_lasting(then[task]) != _lasting(before[task]) for task in before.keys() & then.keys()):
        return Refusal("resize", "a task that stays keeps its memory, and on a GPU its place")
    if target.collocation is not attempt.placement.collocation:
        return Refusal("resize", "a resize cannot change the collocation mode")
    # A new attempt must find room for all of its tasks.
    present = attempt.placement if how is Resizing.LIVE else None
    return check_placement(state, job, target, present)


_FIXED = (
    "its size cannot change while it runs; submit it with a range of --gpus, and start it with "
    "radrun or have it save its work (--checkpoint=signal)"
)
SAME_SIZE = Refusal("resize", "it has this size now")
_UNSAVED = Refusal("checkpoint", "it has no way to save its work")


def _lasting(shares: Sequence[Share]) -> list[Share]:
    """Return what a resize leaves alone of a task's shares."""
    # A task without a GPU may go to another node: its processes start anew.
    return [
        replace(s, cpus=None, cpu_weight=None, node=s.node if s.device is not None else "")
        for s in shares
    ]


def changes_cpus(attempt: Attempt, shares: Sequence[Share]) -> bool:
    """Return whether these shares change the attempt's CPUs, and not only its SM fraction."""
    return {s.of_cpu for s in shares} != {s.of_cpu for s in attempt.placement.shares}


def changes_memory(attempt: Attempt, shares: Sequence[Share]) -> bool:
    """Return whether these shares change the attempt's host memory."""
    return _memory_of(shares) != _memory_of(attempt.placement.shares)


def _memory_of(shares: Sequence[Share]) -> dict[tuple[str, int], int | None]:
    return {(share.role, share.task): share.memory_mib for share in shares}


def _check_shares(state: State, job: Job, attempt: Attempt, proposal: SetShares) -> Refusal | None:
    def fixed(placement: Placement) -> Counter[Share]:
        return Counter(
            replace(s, sm_fraction=None, cpus=None, cpu_weight=None, memory_mib=None)
            for s in placement.shares
        )

    wanted = Placement(shares=proposal.shares, collocation=attempt.placement.collocation)
    if fixed(wanted) != fixed(attempt.placement):
        return Refusal("shares", "only CPU and SM shares can change while a job runs")
    if changes_memory(attempt, proposal.shares):
        fixed_memory = _refuse_memory(job, attempt, proposal.shares)
        if fixed_memory is not None:
            return fixed_memory
    # `radrun` gives each task its CPUs also where no control group limits them, but no weight.
    weights = {s.cpu_weight for s in (*proposal.shares, *attempt.placement.shares)}
    divides = job.spec.resizing is Resizing.LIVE and len(weights) == 1
    for share in proposal.shares if changes_cpus(attempt, proposal.shares) else ():
        node = state.nodes.find(share.node)
        why = attempt.shares_refused or (None if divides else node.shares_refused)
        if why is not None:
            return Refusal("shares", why, share.device)
    unfit = refuse_caps(proposal.shares) or refuse_more(job, proposal.shares)
    return unfit or refuse_bookings(state, job, wanted)


def _refuse_memory(job: Job, attempt: Attempt, shares: Sequence[Share]) -> Refusal | None:
    """Return why the host memory of a running job cannot become this; None if it can.

    Only that of the task that books for the whole job changes, and it only grows: no kernel takes
    memory from a task without harm.
    """
    span, first = job.spec.memory_range_mib, (job.spec.roles[0].name, 0)
    if span is None:
        return Refusal("shares", "its host memory has no range, and stays while it runs")
    before, then = _memory_of(attempt.placement.shares), _memory_of(shares)
    if any(then[task] != before[task] for task in before if task != first):
        return refuse_booker(job)
    had, wanted = before.get(first) or 0, then.get(first) or 0
    if not had < wanted <= span[1]:
        shown = [show_mib(mib) for mib in (had, span[1], wanted)]
        why = "its host memory can grow from {} to {}, not to {}".format(*shown)
        return Refusal("shares", why, None, wanted, span[1], unit=Unit.MIB)
    return None
