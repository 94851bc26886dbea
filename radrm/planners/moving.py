"""What a move to another device wins, and what it costs.

Theory of operation
-------------------
The jobs of a device run at the speeds of the interference model (`radrm/interference/model.py`)
until one ends; then the others run faster. So each job has an expected end. A move changes the
ends of the jobs on two devices: the time won is the sum of what each of them wins or loses.

The work left is what the job reports: the part not done, at its measured rate. Without reports it
is the rest of the predicted duration; without that, a job is expected to last as long as it has.

The cost is the time in which a moved job does no work: saving, starting, and warming up, each as
measured. A save that was never measured takes the stated cost; without one, the time that the core
waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radrm.core.records import Attempt, Instant, Job
from radrm.core.settings import CoreSettings
from radrm.deadlines.remaining import OVERRUN, TIME_LIMIT, remaining
from radrm.interference.model import Demand, speeds
from radrm.planners.convergence import Note, moment

_SLOWEST = 0.05
"""The least speed that is believed."""


@dataclass(frozen=True, slots=True)
class Member:
    """A job on a device: the SM activity that it shows alone, and its work left.

    `left_s` is in seconds alone on the device.
    """

    job_id: int
    smact: float
    mps: bool
    left_s: float


def speeds_of(members: Sequence[Member]) -> list[float]:
    """Return the speed of each job of a device, 1.0 for one that is alone there."""
    found = speeds([Demand(m.smact) for m in members], mps=all(m.mps for m in members))
    return [max(_SLOWEST, speed) for speed in found]


def ends(members: Sequence[Member]) -> dict[int, float]:
    """Return the seconds until each job of a device ends, if no other job joins them."""
    found: dict[int, float] = {}
    left = [(member, member.left_s) for member in members]
    now_s = 0.0
    while left:
        at = speeds_of([member for member, _ in left])
        step_s = min(left_s / speed for (_, left_s), speed in zip(left, at, strict=True))
        now_s += step_s
        still = []
        for (member, left_s), speed in zip(left, at, strict=True):
            rest_s = left_s - speed * step_s
            if rest_s > 1e-6 * member.left_s:
                still.append((member, rest_s))
            else:
                found[member.job_id] = now_s
        left = still
    return found


def time_won(
    mover: Member, here: Sequence[Member], there: Sequence[Member], cost_s: float
) -> tuple[float, float]:
    """Return the seconds that a move wins for the mover, after its cost, and for all before it.

    `here` has the mover, `there` does not.
    """
    before = {**ends(there), **ends(here)}
    stay = [member for member in here if member.job_id != mover.job_id]
    after = {**ends(stay), **ends([*there, mover])}
    own_s = before[mover.job_id] - after[mover.job_id]
    return own_s - cost_s, sum(before.values()) - sum(after.values())


def work_left_s(job: Job, attempt: Attempt, note: Note | None, speed: float, now: Instant) -> float:
    """Return the work that a job has left, in seconds alone. `speed` is its speed now (0..1]."""
    if note is not None and note.at is not None and note.done is not None and note.rate:
        then_s = max(0.0, 1.0 - note.done) / note.rate
        return max(OVERRUN * then_s, then_s - (now.since(moment(note.at)) or 0.0)) * speed
    left = remaining(job, attempt, now, speed=speed)
    if left is None or left.source == TIME_LIMIT:
        return max(0.0, now.since(attempt.started or attempt.launched) or 0.0) * speed
    return left.value_s * speed


def cost_of_move_s(job: Job, attempt: Attempt, note: Note, settings: CoreSettings) -> float:
    """Return the seconds in which a move lets a job do no work."""
    asked, saved = attempt.checkpoint_asked, job.saved_at
    save_s = saved.since(asked) if asked is not None and saved is not None else None
    if save_s is None or save_s < 0:
        save_s = job.spec.checkpoint.cost_s
    patience_s = settings.checkpoint_limit_s
    save_s = patience_s if save_s is None else min(save_s, patience_s)
    start_s = attempt.started.since(attempt.launched) if attempt.started is not None else None
    return save_s + max(0.0, start_s or 0.0, note.begin_s or 0.0)
