"""Nothing waits for ever: what a job waits for has a timer, or is something that others will do."""

from __future__ import annotations

from collections.abc import Iterator

from radrm.core.records import Attempt, Job
from radrm.core.state import timers
from radrm.core.words import ActionKind, JobState
from tests.world import World

_ROUNDING_S = 1e-3
_SET_S = 1.0
"""A clock that runs fast by less than this is not taken for one that was set."""


def all_that_waits_has_an_end(world: World) -> None:
    """Assert it, of every unfinished job, at the end of a step."""
    state = world.scheduler.state
    earliest: dict[tuple[str, int, int], float] = {}
    for timer in state.timers:
        name = timer.what, timer.job_id, timer.serial
        earliest[name] = min(timer.boot_s, earliest.get(name, timer.boot_s))
    for job in state.jobs.values():
        attempt = state.attempts.get(job.id)
        for what, serial, due_s in _moments(world, job, attempt):
            set_s = earliest.get((what, job.id, serial))
            assert set_s is not None, f"job {job.id} waits for ever: {what}"
            assert set_s <= due_s + _ROUNDING_S, f"job {job.id} waits too long: {what}"
        if job.state.waiting:
            aside = job.awaits_begin or job.pause or job.estimating or job.held or job.after
            array = state.queue.arrays.get(job.array.array_id) if job.array is not None else None
            known = job.id in state.lines or state.lines.why_aside(job.id) is not None
            known = known or (array is not None and array.stands_aside(job.id))
            assert aside or known, f"job {job.id} waits, and no planner sees it"
        else:
            assert attempt is not None, f"job {job.id} is {job.state}, and nothing runs"
    for wake_s in (state.planned.wake_s, state.for_users.wake_s):
        if wake_s is not None and wake_s > world.boot_s:
            assert (timers.RESERVATION_OVER, 0, 0) in earliest


def _moments(world: World, job: Job, attempt: Attempt | None) -> Iterator[tuple[str, int, float]]:
    """Yield what must happen of itself: the kind of timer, the serial, the latest time."""
    state, now = world.scheduler.state, world.now
    if job.state.waiting:
        if job.awaits_begin and job.spec.begin_s is not None:
            yield timers.BEGIN, 0, now.boot_s + max(0.0, job.spec.begin_s - now.wall_s) + _SET_S
        if job.pause is not None:
            yield timers.PAUSE_OVER, 0, job.pause.until_boot_s
        if job.estimating and job.estimate_due_boot_s is not None:
            yield timers.ESTIMATE, 0, job.estimate_due_boot_s
    changes_s = state.queue.changes_s(job.id)
    if changes_s is not None:
        yield timers.ORDER_KEY, 0, changes_s
    closes_s = state.for_users.closing.get(job.id)
    if closes_s is not None:
        yield timers.CLOSING, 0, closes_s
    if attempt is None:
        return
    for pending in attempt.pending:
        if pending.due_boot_s > now.boot_s:
            yield timers.DEADLINE, attempt.serial, pending.due_boot_s
    if job.state is JobState.LAUNCHING:
        assert attempt.asked(ActionKind.LAUNCH) is not None, f"job {job.id} is launched by nobody"
    if attempt.stop is not None and attempt.stop.kill_boot_s > now.boot_s:
        yield timers.KILL, attempt.serial, attempt.stop.kill_boot_s
    elif job.limit_s is not None and attempt.started is not None and attempt.stop is None:
        yield timers.TIME_LIMIT, attempt.serial, attempt.started.boot_s + job.limit_s
