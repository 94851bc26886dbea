"""How reservations for users begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from radrm.core.events import ReserveRequested, UnreserveRequested
from radrm.core.proposals import Preempt
from radrm.core.records import CLOCK_SET_S, Job, UserReservation
from radrm.core.reservations.barred import classify
from radrm.core.reservations.making import refuse
from radrm.core.state.reserved import Seen
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, RESERVATION_OVER, Timer
from radrm.core.units import show_seconds

_KEPT_S = 86_400.0
"""So long after its end, in time since boot, a reservation is kept: the clock may be wrong."""


# ------------------------------------------------------------------ events


def make(state: State, event: ReserveRequested) -> None:
    """Reserve, unless `refuse` has a reason not to."""
    record = replace(event.reservation, id=state.for_users.next_id)
    if refuse(state, record) is None:
        state.put_for_users(record)


def cancel(state: State, event: UnreserveRequested) -> None:
    """End a reservation, if there is one with this id."""
    record = state.for_users.every.get(event.reservation_id)
    if record is not None:
        _end(state, record, f"cancelled by {event.by}")


def _end(state: State, record: UserReservation, why: str) -> None:
    state.put_for_users(replace(record, ended_s=state.step.now.wall_s, why_ended=why))


# ------------------------------------------------------------------ each step


def update(state: State) -> list[Preempt]:
    """Let reservations begin and end. Returns what a beginning one asks of running jobs."""
    mine, now = state.for_users, state.step.now
    if not mine.every and mine.seen is None:
        return []
    for record in list(mine.every.values()):
        _end_if_due(state, record)
    # One that is over may count again if the clock is set back.
    open_yet = tuple(each for each in mine.every.values() if now.wall_s < each.end_s)
    active = tuple(each for each in open_yet if each.start_s <= now.wall_s)
    begun = active
    if mine.seen is not None:
        begun = tuple(each for each in active if each not in mine.seen.active)
    seen = Seen(open_yet, active, state.ahead_s) if mine.every else None
    if seen != mine.seen:
        mine.seen = seen
        for ledger in state.ledgers.values():
            ledger.version += 1
        state.waiting.barred = partial(classify, state) if seen is not None else None
        state.waiting.classify_again(state.jobs.__getitem__)
        state.wake(Timer(now.boot_s, ALL_PLANNERS))
    _wake_for_next(state)
    return [Preempt(job_id=job.id) for each in begun for job in _to_leave(state, each)]


def sort_again(state: State, timer: Timer) -> bool:
    """Sort a waiting job anew at a due timer: it may have to stand aside now. Returns whether."""
    if state.for_users.closing.get(timer.job_id) != timer.boot_s:
        return False
    del state.for_users.closing[timer.job_id]
    if state.waiting.need_of(timer.job_id) is None:
        return False
    state.waiting.put(state.jobs[timer.job_id])
    return True


def _end_if_due(state: State, record: UserReservation) -> None:
    """End a reservation that has been over for long, or that nobody uses."""
    mine, now = state.for_users, state.step.now
    if record.end_s <= now.wall_s:
        if now.boot_s - mine.over_since_s.setdefault(record.id, now.boot_s) >= _KEPT_S:
            _end(state, record, "over")
        return
    mine.over_since_s.pop(record.id, None)
    most_s = state.settings.reservation_unused_s
    if not record.own or not most_s or record.start_s > now.wall_s or _is_used(state, record):
        mine.unused_since_s.pop(record.id, None)
        return
    since_s = mine.unused_since_s.setdefault(record.id, now.boot_s)
    if now.boot_s - since_s >= most_s:
        _end(state, record, f"released: no job of {record.whom} for {show_seconds(most_s)}")


def _is_used(state: State, record: UserReservation) -> bool:
    """Return whether a job of its users is on its devices, or waits in the line for GPUs."""
    there = any(record.admits(job.spec) for job in _jobs_on(state, record))
    return there or first_of(state, record) is not None


def _jobs_on(state: State, record: UserReservation) -> Iterator[Job]:
    """Yield the jobs with a live attempt on its devices, each once."""
    found: dict[int, None] = {}
    for uuid in record.devices:
        ledger = state.ledgers.get(uuid)
        found.update(dict.fromkeys(ledger.holdings if ledger is not None else ()))
    for job_id in found:
        yield state.jobs[job_id]


def _to_leave(state: State, record: UserReservation) -> list[Job]:
    """Return the jobs of others that a beginning reservation asks to leave."""
    if not record.preempt:
        return []
    return [job for job in _jobs_on(state, record) if not record.admits(job.spec)]


def _wake_for_next(state: State) -> None:
    """Set a timer for the next moment at which a reservation begins or ends."""
    mine, now = state.for_users, state.step.now
    dates = [at for each in mine.every.values() for at in (each.start_s, each.end_s)]
    moments = [now.boot_s + at - now.wall_s for at in dates if at > now.wall_s]
    unused = state.settings.reservation_unused_s
    moments += [since_s + unused for since_s in mine.unused_since_s.values()]
    next_s, set_s = min(moments, default=None), mine.wake_s
    if next_s is None:
        mine.wake_s = None
    elif set_s is None or set_s <= now.boot_s or abs(set_s - next_s) > CLOCK_SET_S:
        state.wake(Timer(next_s, RESERVATION_OVER))
        mine.wake_s = next_s


# ------------------------------------------------------------------ whose job is next


def current(state: State) -> list[UserReservation]:
    """Return the reservations for users that count now."""
    now_s = state.step.now.wall_s
    return [
        each
        for each in state.for_users.every.values()
        if not each.maintenance and each.start_s <= now_s < each.end_s
    ]


def first_of(state: State, record: UserReservation) -> Job | None:
    """Return the first job in the line for GPUs that may use the reservation; None without one."""
    firsts = [line.at(0) for line in state.waiting.of_user.values() if len(line)]
    mine = [job_id for job_id in firsts if record.admits(state.jobs[job_id].spec)]
    if not mine:
        return None
    return state.jobs[min(mine, key=lambda job_id: state.waiting.gpu.position(job_id) or 0)]
