"""Who gets what is idle: the jobs that gain most by it.

Theory of operation
-------------------
Idle GPUs are given one by one to the job whose next one saves the most time, less what its change
costs. Time saved is the work left, at the fitted speeds (`notes`) of both sizes. A job takes part
while its speed is measured, and only with sizes that would gain `least_gain` of what is added.

A change is proposed only if all of it saves `cost_factor` times its cost. A job that waits for data
gets CPUs first: another GPU would wait, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from radrm.elastic.elasticity.notes import Note, Scaling, fit
from radrm.rules import (
    TIME_LIMIT,
    Attempt,
    Instant,
    Job,
    Refusal,
    Resizing,
    Role,
    View,
    remaining,
    show_seconds,
)

# ------------------------------------------------------------------
# More CPUs for the workers of a job that waits for data.


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


class Grower(Struct):
    """A running job that could grow: `workers` is the number that it is to have."""

    job: Job
    attempt: Attempt
    role: Role
    note: Note
    scaling: Scaling
    left_s: float
    workers: int

    @property
    def cost_s(self) -> float:
        """What its change costs, in seconds without a step."""
        return self.note.change_s(self.job)

    def saved_s(self, workers: int) -> float:
        """Return the time that so many workers save, from the present number on."""
        now, then = self.scaling.step_s(self.note.workers), self.scaling.step_s(workers)
        return self.left_s * (1.0 - then / now)

    def next_size(self) -> int | None:
        """Return its next larger size; None: it has the largest that was not given up."""
        most = self.role.count_max
        if self.note.most_workers is not None:
            most = min(most, self.note.most_workers)
        larger = self.workers + self.role.step
        return larger if larger <= most else None


def grower(
    job: Job, attempt: Attempt, role: Role, note: Note, settle_s: float, now: Instant
) -> Grower | Refusal:
    """Return a job as one that may grow, or why it does not.

    `settle_s`: so long a size is measured before it is judged.
    """
    if note.workers >= role.count_max:
        return Refusal("size", f"it has all {role.count_max} of its range")
    if note.most_workers is not None and note.workers >= note.most_workers:
        return Refusal("gain", f"more than {note.workers} was tried and was not faster enough")
    if note.workers not in note.sizes:
        return Refusal("progress", "it has not reported enough steps at this size")
    waited_s = note.measured_s(now.boot_s)
    if waited_s < settle_s:
        left = show_seconds(settle_s - waited_s)
        return Refusal("measuring", f"its speed at this size is measured for another {left}")
    scaling = fit(note.sizes, job.progress.data_wait if job.progress is not None else None)
    assert scaling is not None
    left_s = _left_s(job, attempt, note, now)
    return Grower(job, attempt, role, note, scaling, left_s, note.workers)


def _left_s(job: Job, attempt: Attempt, note: Note, now: Instant) -> float:
    """Return the run time that a job has left at its present size, in seconds."""
    progress = job.progress
    if progress is not None and progress.step is not None and progress.total is not None:
        return max(0.0, progress.total - progress.step) * note.sizes[note.workers]
    left = remaining(job, attempt, now)
    if left is not None and left.source != TIME_LIMIT:
        return left.value_s
    # Nothing is known of its end: it is expected to last as long as it has.
    return max(0.0, now.since(attempt.started or attempt.launched) or 0.0)


def deal(
    growers: Sequence[Grower],
    idle: int,
    least_gain: float,
    cost_factor: float,
    spare: Mapping[int, int | None],
) -> dict[int, Refusal]:
    """Give `idle` GPUs to the jobs, in `Grower.workers`; return why the others get none, by id.

    A job whose change would not pay gets none, and the GPUs go to the next one. `spare`: how many
    more GPUs each user may have, by uid; None: any number.
    """
    why: dict[int, Refusal] = {}
    rest = list(growers)
    while rest:
        _give(rest, idle, least_gain, why, dict(spare))
        failed = next((each for each in rest if not _pays(each, cost_factor, why)), None)
        if failed is None:
            break
        failed.workers = failed.note.workers
        rest.remove(failed)
        for each in rest:
            each.workers = each.note.workers
    return why


def _give(
    growers: Sequence[Grower],
    idle: int,
    least_gain: float,
    why: dict[int, Refusal],
    spare: dict[int, int | None],
) -> None:
    while True:
        found: list[tuple[float, int, Grower, int]] = []
        for each in growers:
            larger = each.next_size()
            if larger is None:
                continue
            gpus = (larger - each.workers) * each.role.needs.gpus
            gain = each.scaling.gain(each.workers, larger - each.workers)
            if gain < least_gain:
                if each.workers == each.note.workers:
                    why[each.job.id] = _too_little(larger, gain, least_gain)
                continue
            if gpus > idle:
                if each.workers == each.note.workers:
                    why[each.job.id] = Refusal("idle", "no GPU is idle", None, gpus, idle)
                continue
            most = spare.get(each.job.spec.uid)
            if most is not None and gpus > most:
                if each.workers == each.note.workers:
                    name = each.job.spec.user
                    beyond = f"limits.gpus: {name} may have {most} more GPUs now"
                    why[each.job.id] = Refusal("limits.gpus", beyond, None, gpus, most)
                continue
            more_s = each.saved_s(larger) - each.saved_s(each.workers)
            found.append((more_s / gpus, -each.job.id, each, larger))
        if not found:
            return
        _, _, best, larger = max(found, key=lambda each: each[:2])
        taken = (larger - best.workers) * best.role.needs.gpus
        idle -= taken
        left = spare.get(best.job.spec.uid)
        if left is not None:
            spare[best.job.spec.uid] = left - taken
        best.workers = larger


def _too_little(workers: int, gain: float, least_gain: float) -> Refusal:
    why = f"{workers} workers would use {gain:.0%} of what is added; least_gain is {least_gain:.0%}"
    return Refusal("gain", why, None, least_gain, gain)


def _pays(each: Grower, cost_factor: float, why: dict[int, Refusal]) -> bool:
    """Return whether a job's change saves enough; one that does not change costs nothing."""
    if each.workers == each.note.workers:
        return True
    saved_s, wanted_s = each.saved_s(each.workers), cost_factor * each.cost_s
    if saved_s >= wanted_s:
        why.pop(each.job.id, None)
        return True
    why[each.job.id] = Refusal(
        "cost",
        f"{each.workers} workers would save {show_seconds(saved_s)}; the change costs "
        f"{show_seconds(each.cost_s)}, and {cost_factor:g} times that is asked for",
        None,
        wanted_s,
        saved_s,
    )
    return False
