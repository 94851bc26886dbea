"""More host memory for a running job that is near its limit, while its node has room.

The growth is a change of shares, which the host applies and answers. It doubles what the job books,
up to the range of the job and to the room on its node. It never shrinks: the kernel would have to
take pages away from running tasks. While a job waits for host memory, none grows.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.constraints.nodes import MEMORY, refuse_size
from radrm.core.constraints.proposal import check
from radrm.core.lifecycle.pending import ask
from radrm.core.proposals import SetShares
from radrm.core.records import Attempt, Job
from radrm.core.state.nodes import free_memory_mib
from radrm.core.state.state import State
from radrm.core.words import ActionKind

FULL = 0.9
"""A job that uses this part of its host memory gets more (as DLRover scales up, section 4.2)."""
GROWTH = "memory growth"
"""The name of such a change among failed proposals (`state.proposals`)."""
_LEAST_MIB = 64
"""A smaller growth is not worth an action, unless it reaches the end of the range."""


def grow_memory(state: State, job: Job, attempt: Attempt) -> None:
    """Ask for more host memory for a job whose measured use is near what it books, if it may."""
    span, use, booked = job.spec.memory_range_mib, attempt.host_use, booked_mib(job, attempt)
    if span is None or use is None or use.memory_mib is None or booked is None:
        return
    if booked >= span[1] or use.memory_mib < FULL * booked:
        return
    if state.proposals.pausing(job.id, GROWTH, state.step.now.boot_s) is not None:
        return
    shares = attempt.placement.shares
    first = next(s for s in shares if is_first(job, s.role, s.task))
    free = free_memory_mib(state.nodes, first.node)
    most = span[1] if free is None else min(span[1], booked + free)
    wanted = min(2 * booked, most)
    if wanted - booked < min(_LEAST_MIB, span[1] - booked) or _somebody_waits(state):
        return
    grown = tuple(
        replace(s, memory_mib=wanted) if is_first(job, s.role, s.task) else s for s in shares
    )
    if check(state, SetShares(job_id=job.id, shares=grown)) is None:
        ask(state, job, attempt, ActionKind.SHARES, grown)


def booked_mib(job: Job, attempt: Attempt) -> int | None:
    """Return the host memory that an attempt books for its whole job; None without a range."""
    if job.spec.memory_range_mib is None:
        return None
    for share in attempt.placement.shares:
        if is_first(job, share.role, share.task):
            return share.memory_mib
    return None


def is_first(job: Job, role: str, task: int) -> bool:
    """Return whether a task is the one that books the host memory of a job with a range of it."""
    return task == 0 and role == job.spec.roles[0].name


def _somebody_waits(state: State) -> bool:
    """Return whether the head of a line waits for host memory."""
    heads = state.waiting.gpu.head(), state.queue.gpuless.head()
    lacks = [refuse_size(state, state.jobs[job_id]) for job_id in heads if job_id is not None]
    return any(refusal is not None and refusal.rule == MEMORY for refusal in lacks)
