"""More CPUs for the workers of a job that waits for data."""

from __future__ import annotations

from radrm.core.records import Attempt, Job, Role
from radrm.core.view import View
from radrm.core.words import Resizing
from radrm.planners.elasticity.notes import Note

WAITS = 0.1
"""A job that waits for data in more of its time than this gets CPUs before GPUs."""
_LEAST = 1.05
"""A job gets more CPUs if they are at least this multiple of its own."""


def more_cpus(
    view: View, job: Job, attempt: Attempt, role: Role, note: Note, settle_s: float
) -> float | None:
    """Return how many CPUs each worker should have, at most twice its own; None: no more.

    `settle_s`: so long a setting is measured before it is judged.
    """
    wait = job.progress.data_wait if job.progress is not None else None
    most, here = role.needs.cpus_max, note.cpus
    if wait is None or wait < WAITS or most is None or here is None:
        return None
    if note.workers not in note.sizes or note.measured_s(view.now.boot_s) < settle_s:
        return None
    node = next((use.node for use in view.nodes() if use.node.name == node_of(attempt)), None)
    # `radrun` divides the CPUs of a job also on a server that limits none.
    unlimited = node is not None and node.shares_refused is not None
    live = job.spec.resizing is Resizing.LIVE
    if attempt.shares_refused is not None or (unlimited and not live):
        return None
    if note.most_cpus is not None:
        most = min(most, note.most_cpus)
    free = cpus_free(view, attempt)
    if free is not None:
        most = min(most, here + free / note.workers)
    more = min(most, 2.0 * here)
    return more if more >= here * _LEAST else None


def cpus_free(view: View, attempt: Attempt) -> float | None:
    """Return the CPUs that can be booked on an attempt's node; None: nothing limits them."""
    uses = (use for use in view.nodes() if use.node.name == node_of(attempt))
    return next((use.cpus_free for use in uses), None)


def node_of(attempt: Attempt) -> str:
    """Return the node of an attempt: this rule resizes within one."""
    return attempt.placement.shares[0].node
