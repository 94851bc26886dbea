"""The reservations that planners make: how they begin, are renewed, and end.

Theory of operation
-------------------
A planner reserves devices for a waiting job (BACKFILL) by `Reserve`. It says with each call what
it still wants: at the beginning of the call its reservations are put aside, what it proposes again
is put back, and the rest ends with the call. So
a planner that plans anew each time needs no second kind of proposal, and cannot forget one. An
equal reservation is put back as it was, and nothing is saved. A slow planner is called when its
plan is ready. Until then its reservations stay.

A reservation also ends as soon as its reason is gone:

    its end                 by a timer; all planners are called
    its planner             is not configured (after a restart), or rests after a failure
    its job                 is not in the queue: it starts, ends, is held, paused or stands aside;
                            or was changed so that it needs more than is reserved
    its device              is not listed any more; of a job's reservations all end then

Invariants:
- Each reservation has a living planner, an end within `MOST_AHEAD_S`, and a job in the queue.
  `end_planned` ensures it before planners are called, and at the end of each step.
- A job's reservation never stands beside the one of its attempt (`occupancy.occupy`).

What may interleave: a live attempt may last longer than expected. Its memory stays its own: the
reserved job waits, and the planner is called as ever.

What a restart sees: the stored reservations. Time since boot counts within a boot. After a reboot
the dates count, once, when the device is seen; a date that is wrong then moves a reservation by at
most `MOST_AHEAD_S`, and only until its planner is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from radrm.core.constraints.reserve import MOST_AHEAD_S, refuse_for_job
from radrm.core.proposals import Reserve
from radrm.core.records import Instant, Reservation
from radrm.core.state.pauses import SHORTEST_S
from radrm.core.state.state import State, owner_of
from radrm.core.state.timers import ALL_PLANNERS, RESERVATION_OVER, Timer
from radrm.core.words import ReservationKind
from radrm.structs import replace

_CLOCK_SET_S = 60.0
"""A date that differs by more is saved again: the clock has been set."""


# ------------------------------------------------------------------ one call of a planner


class Renewal:
    """Puts a planner's reservations aside; at the end, ends those not proposed again."""

    __slots__ = ("_planner", "_state")

    def __init__(self, state: State, planner: str) -> None:
        self._state = state
        self._planner = planner

    def __enter__(self) -> None:
        planned = self._state.planned
        if planned.owners:
            for reservation in planned.by(self._planner):
                planned.aside[reservation.key] = reservation
                self._state.lift(reservation.key)

    def __exit__(self, *error: object) -> None:
        planned = self._state.planned
        if planned.aside:
            aside, planned.aside = planned.aside, {}
            _end(self._state, aside.values())


def put_planned(state: State, proposal: Reserve) -> None:
    """Carry out a checked `Reserve` of the planner that is called now.

    It replaces all that the planner has reserved for this owner.
    """
    wanted = {each.key: each for each in _reservations(state, proposal)}
    for old in state.planned.of(owner_of(proposal.job_id)):
        if old.key not in wanted:
            state.unreserve(old.key)
    for key, reservation in wanted.items():
        before = state.planned.aside.pop(key, None)
        if before is not None and _alike(before, reservation):
            state.put_back(before)
        else:
            state.reserve(reservation)


def _reservations(state: State, proposal: Reserve) -> Iterator[Reservation]:
    for uuid, mib in proposal.devices:
        yield Reservation(
            owner=owner_of(proposal.job_id),
            kind=ReservationKind.BACKFILL,
            device=uuid,
            mib=mib,
            since=state.step.now.at(proposal.start_s),
            until=state.step.now.at(proposal.end_s),
            job_id=proposal.job_id,
            planner=state.step.planner,
        )


def _alike(before: Reservation, after: Reservation) -> bool:
    """Return whether a reservation is the same but for the small drift of dates."""
    assert before.until is not None and after.until is not None
    dates = before.until.wall_s, after.until.wall_s
    return abs(dates[0] - dates[1]) <= _CLOCK_SET_S and before == replace(
        after,
        since=replace(after.since, wall_s=before.since.wall_s),
        until=replace(after.until, wall_s=before.until.wall_s),
    )


# ------------------------------------------------------------------ ends


def end_planned(state: State, planners: Collection[str]) -> None:
    """End the reservations without a reason. `planners` are the configured ones."""
    rests, now_s = state.isolation.rests, state.step.now.boot_s
    working = {name for name in planners if not rests("planner", name)}

    def is_over(each: Reservation) -> bool:
        if each.planner not in working or each.until is None:
            return True
        ledger = state.ledgers.get(each.device)
        gone = ledger is None or ledger.vanished
        return gone or not now_s < each.until.boot_s <= now_s + MOST_AHEAD_S

    for mine in state.planned.by_owner():
        # A job needs all of its devices.
        if any(map(is_over, mine)) or not _is_needed(state, mine):
            _end(state, list(mine))
    _wake_for_next_end(state)


def _is_needed(state: State, mine: Sequence[Reservation]) -> bool:
    """Return whether the job of these reservations waits, and still needs no more than they are."""
    job_id, since, until = mine[0].job_id, mine[0].since, mine[0].until
    if job_id is None or until is None or job_id not in state.lines:
        return False
    if ("job", job_id) not in state.step.changed:
        return True
    devices, length_s = [(r.device, r.mib) for r in mine], until.boot_s - since.boot_s
    return refuse_for_job(state, state.jobs[job_id], devices, length_s) is None


def _end(state: State, ended: Collection[Reservation]) -> None:
    """Remove reservations. Planners may have waited for their memory, so all are called soon."""
    for reservation in ended:
        state.unreserve(reservation.key)
    if ended:
        state.wake(Timer(state.step.now.boot_s + SHORTEST_S, ALL_PLANNERS))


def _wake_for_next_end(state: State) -> None:
    """Set a timer for the next end of a reservation, unless there is one."""
    ends = [each.until.boot_s for each in state.planned if each.until is not None]
    next_s = min(ends, default=None)
    if next_s is not None and next_s != state.planned.wake_s:
        state.wake(Timer(next_s, RESERVATION_OVER))
    state.planned.wake_s = next_s


# ------------------------------------------------------------------ restart


def put_back_planned(state: State, reservation: Reservation) -> None:
    """Put a stored reservation of a planner back, or end it if its device is missing.

    The planner reserves again when the device returns.
    """
    if reservation.device not in state.ledgers or reservation.until is None:
        state.unreserve(reservation.key)
        return
    now = state.step.now
    since, until = in_this_boot(reservation.since, now), in_this_boot(reservation.until, now)
    state.reserve(replace(reservation, since=since, until=until))


def in_this_boot(moment: Instant, now: Instant) -> Instant:
    """Return a moment by the time since this boot. For one of another boot the date counts."""
    if now.since(moment) is not None:
        return moment
    return now.at(now.boot_s + moment.wall_s - now.wall_s)
