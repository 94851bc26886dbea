"""Devices that are reserved for users, or for nobody: `radrm reserve`.

Theory of operation
-------------------
A reservation names devices, users, and two dates. From the first to the second date only jobs of
these users may use the devices. A job of another user may start there before only if it ends in
time: by its time limit; without one, by the upper bound of its predicted run time; without both,
never. So a device drains by itself. What still runs at the start runs on, or is preempted where the
reservation says so.

Each is a claim on its devices (`constraints/claims.py`), which every placement and every planner
that looks ahead reads. `classify` is part of a waiting job's need (`state/queue/lines.py`): a job
that lacks devices because they are reserved stands aside, and nobody waits behind it. A planner
that keeps an order may start the first job of a reservation's users (`first_of`) there before the
head of the line, which may not use the device.

Invariants:
- No two reservations have a device at the same time.
- No job of another user starts on a device while it is reserved, and none that must end later than
  a reservation begins. Only a predicted run time can be exceeded.
- A user's own reservations are within the limits, and end when nobody uses them.

What may interleave: a device may vanish and return; a reservation names it by its UUID. The clock
may be set: the dates count, as they were written. A reservation that is over stays for a day of
time since boot, so that a clock that was wrong for an hour ends none.

What a restart sees: the reservations. All else is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf, isfinite

from radrm.core.constraints.claims import barred
from radrm.core.events import ReserveRequested, UnreserveRequested
from radrm.core.proposals import Preempt
from radrm.core.records import CLOCK_SET_S, Job, UserReservation
from radrm.core.remaining import length_s
from radrm.core.state.reserved import Seen
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, CLOSING, RESERVATION_OVER, Timer
from radrm.core.units import show_seconds
from radrm.structs import replace

_LATER_S = 0.001
"""A job that ends at the start of a reservation is still in time."""


def classify(state: State, job: Job) -> tuple[str, ...]:
    """Return `barred` for a job that is put into a line, with a timer for when it may change."""
    mine = state.for_users
    if not mine.every or not job.spec.gpus:
        return ()
    now, needs_s = state.step.now, length_s(job)
    closing = (r.start_s - needs_s for r in mine.every.values() if not r.admits(job.spec))
    closes_s = min((wall_s for wall_s in closing if wall_s >= now.wall_s), default=inf)
    at_s = closes_s + _LATER_S + now.boot_s - now.wall_s
    if closes_s == inf:
        mine.closing.pop(job.id, None)
    elif job.id not in mine.closing or abs(mine.closing[job.id] - at_s) > 1.0:
        mine.closing[job.id] = at_s
        state.wake(Timer(at_s, CLOSING, job.id))
    return barred(state, job)


MOST = 200
"""Reservations on a server at a time."""
MOST_OWN = 8
"""Reservations at a time that a user has made for itself."""
SHORTEST_S = 60.0
LONGEST_AHEAD_S = 366 * 86_400.0
"""A reservation ends within this time."""
OWN_AHEAD_S = 30 * 86_400.0
"""The same for one that a user makes for itself."""
_LATE_S = 60.0
"""A start may be so long ago: the request has taken its time."""


def refuse(state: State, wanted: UserReservation) -> str | None:
    """Return why this cannot be reserved; None if it can."""
    counted = [each for each in state.for_users.every.values() if not _is_over(state, each)]
    return (
        _refuse_times(state, wanted)
        or _refuse_devices(state, wanted)
        or _refuse_number(counted)
        or (_refuse_own(state, wanted, counted) if wanted.own else None)
        or _refuse_overlap(state, wanted, counted)
    )


def _is_over(state: State, each: UserReservation) -> bool:
    return each.end_s <= state.step.now.wall_s


def _refuse_times(state: State, wanted: UserReservation) -> str | None:
    start_s, end_s, now_s = wanted.start_s, wanted.end_s, state.step.now.wall_s
    if not isfinite(start_s) or not isfinite(end_s):
        return "a reservation has a start and an end"
    if start_s < now_s - _LATE_S:
        return f"it would begin {show_seconds(now_s - start_s)} ago; begin it now or later"
    if end_s - start_s < SHORTEST_S:
        if end_s <= start_s:
            return "it would end before it begins; give an --until after its start, or --for 4h"
        lasts = show_seconds(end_s - start_s)
        return f"it would last {lasts}, the shortest is {show_seconds(SHORTEST_S)}"
    most_s = OWN_AHEAD_S if wanted.own else LONGEST_AHEAD_S
    if end_s > now_s + most_s:
        ends = show_seconds(end_s - now_s)
        return f"it would end in {ends}, at most {show_seconds(most_s)} ahead can be reserved"
    return None


def _refuse_devices(state: State, wanted: UserReservation) -> str | None:
    if not wanted.devices or len(set(wanted.devices)) != len(wanted.devices):
        return "a reservation names different GPUs, at least one"
    for uuid in wanted.devices:
        if uuid not in state.ledgers or state.ledgers[uuid].vanished:
            return f"there is no GPU {uuid[:80]}"
    return None


def _refuse_number(counted: list[UserReservation]) -> str | None:
    if len(counted) >= MOST:
        return f"there are {len(counted)} reservations, at most {MOST} at a time; cancel some first"
    return None


def _refuse_own(
    state: State, wanted: UserReservation, counted: list[UserReservation]
) -> str | None:
    """Return which limit a user's reservation for itself would exceed; None if none."""
    most_hours = state.settings.user_reserved_gpu_hours
    if not most_hours:
        return (
            "only root may reserve GPUs here (limits.reserved_gpu_hours is 0); ask an administrator"
        )
    mine = [each for each in counted if each.own and each.by_uid == wanted.by_uid]
    if len(mine) >= MOST_OWN:
        return f"you have {len(mine)} reservations, at most {MOST_OWN} at a time; cancel one first"
    hours, has = wanted.gpu_hours, sum(each.gpu_hours for each in mine)
    if hours + has > most_hours + 1e-6:
        more = f" and you have reserved {has:.3g}" if has else ""
        return (
            f"it needs {hours:.3g} GPU-hours{more}, the limit is {most_hours:g} "
            "(limits.reserved_gpu_hours); make it shorter, or reserve fewer GPUs"
        )
    most_gpus = state.settings.most_gpus(wanted.by_uid)
    meanwhile = [each for each in mine if each.meets(wanted.start_s, wanted.end_s)]
    together = len(wanted.devices) + sum(len(each.devices) for each in meanwhile)
    if together > most_gpus:
        return f"you would have {together} GPUs reserved, the limit is {most_gpus} (limits.gpus)"
    return None


def _refuse_overlap(
    state: State, wanted: UserReservation, counted: list[UserReservation]
) -> str | None:
    now_s = state.step.now.wall_s
    for each in counted:
        both = [uuid for uuid in wanted.devices if uuid in each.devices]
        if both and each.meets(wanted.start_s, wanted.end_s):
            gpu = state.ledgers[both[0]].device.index
            ends = f"for {show_seconds(each.end_s - now_s)} more"
            if each.start_s > now_s:
                starts = f"in {show_seconds(each.start_s - now_s)}"
                ends = f"{starts}, for {show_seconds(each.end_s - each.start_s)}"
            return f"GPU {gpu} is reserved for {each.label} {ends}"
    return None


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
        state.see_for_users(seen, partial(classify, state) if seen is not None else None)
        state.wake(Timer(now.boot_s, ALL_PLANNERS))
    _wake_for_next(state)
    return [Preempt(job_id=job.id) for each in begun for job in _to_leave(state, each)]


def sort_again(state: State, timer: Timer) -> bool:
    """Sort a waiting job anew at a due timer: it may have to stand aside now. Returns whether."""
    if state.for_users.closing.get(timer.job_id) != timer.boot_s:
        return False
    del state.for_users.closing[timer.job_id]
    if state.lines.need_of(timer.job_id) is None:
        return False
    state.lines.put(state.jobs[timer.job_id])
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
        found.update(dict.fromkeys(ledger.occupants if ledger is not None else ()))
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
    firsts = [line.at(0) for line in state.lines.gpu.of_user.values() if len(line)]
    mine = [job_id for job_id in firsts if record.admits(state.jobs[job_id].spec)]
    if not mine:
        return None
    return state.jobs[min(mine, key=lambda job_id: state.lines.gpu.position(job_id) or 0)]
