"""The state as plain data, and the state that is made from it in another process.

Theory of operation
-------------------
A slow planner must know what a fast one knows. So its process makes a `State` from the data, and
the same `View` and `Snapshot` answer there. Nothing is derived twice: what a rule may ask is
written once, in these two.

Invariant: `View` and `Snapshot` answer the same about `state_of(state_data(state))` as about
`state` (`tests/core/test_seen.py` asks every question of both).

What may interleave: nothing. The data hold frozen records, and copies of what a step changes, so
another thread may encode them.

The state that is made is only read: it has no timers and no actions. Its lines hold the jobs that
were in the lines, in the same order; it has no jobs aside, and no places of users with limits.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import Any

from radrm.core.constraints.nodes import never_on_nodes
from radrm.core.records import Attempt, Device, Instant, Job, Node, RuleState, UserReservation
from radrm.core.reservations.barred import barred
from radrm.core.seen.ledgers import LedgerData, ledger_data, ledger_of
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import Resting
from radrm.core.state.queue.line import Key
from radrm.core.state.queue.order import Order
from radrm.core.state.queue.waiting import Lines
from radrm.core.state.state import State


@dataclass(frozen=True, slots=True)
class StateData:
    """All that a rule may know, as plain data. `waiting`: the jobs of both lines, the first one
    first."""

    version: int
    jobs_version: int
    last_id: int
    now: Instant
    settings: CoreSettings
    jobs: tuple[Job, ...]
    attempts: tuple[Attempt, ...]
    waiting: tuple[int, ...]
    ledgers: tuple[LedgerData, ...]
    listed: tuple[str, ...]
    absent: tuple[Device, ...]
    out_of_service: dict[str, str]
    never_idle: dict[str, str]
    nodes: tuple[Node, ...]
    reservations: tuple[UserReservation, ...]
    rule_states: tuple[RuleState, ...]
    resting: tuple[Resting, ...]
    launch_error: str | None


def state_data(state: State) -> StateData:
    """Return the state as plain data."""
    return StateData(
        version=state.version,
        jobs_version=state.jobs_version,
        last_id=state.last_id,
        now=state.step.now,
        settings=state.settings,
        jobs=tuple(state.jobs.values()),
        attempts=tuple(state.attempts.values()),
        waiting=tuple(_in_order(state.waiting)),
        ledgers=tuple(ledger_data(each) for each in state.ledgers.values()),
        listed=tuple(device.uuid for device in state.listed),
        absent=tuple(state.absent.values()),
        out_of_service=state.out_of_service.copy(),
        never_idle=state.never_idle.copy(),
        nodes=tuple(state.nodes.known()) if state.nodes.uses() else (),
        reservations=tuple(state.for_users.every.values()),
        rule_states=tuple(state.rule_states.values()),
        resting=state.isolation.data(),
        launch_error=state.launch_error,
    )


def _in_order(lines: Lines) -> list[int]:
    """Return the jobs of both lines in the order of service."""
    short, long = sorted(lines.lines, key=len)
    found = list(long)
    key_of: Any = long.key_of
    places = [bisect_left(found, short.key_of(i), key=key_of) for i in short]
    for place, job_id in zip(reversed(places), reversed(list(short)), strict=True):
        found.insert(place, job_id)
    return found


def state_of(data: StateData, order: Order) -> State:
    """Return the state that `data` was made from, to be read only. `order`: the one in force."""
    state = State(data.settings, order)
    state.begin(data.now)
    state.jobs.update((job.id, job) for job in data.jobs)
    state.rule_states.update(((each.kind, each.name), each) for each in data.rule_states)
    state.last_id = data.last_id
    state.launch_error = data.launch_error
    for each in data.ledgers:
        ledger = ledger_of(each, data.settings, lambda: state.step.now)
        state.ledgers[each.device.uuid] = ledger
        for reservation in ledger.reserved.planned.values():
            state.planned.put(reservation)
    state.absent.update((device.uuid, device) for device in data.absent)
    state.out_of_service.update(data.out_of_service)
    state.never_idle.update(data.never_idle)
    state.listed = [state.ledgers[uuid].device for uuid in data.listed]
    state.nodes.see(data.nodes)
    for record in data.reservations:
        state.for_users.put(record)
    attempts = {attempt.job_id: attempt for attempt in data.attempts}
    state.attempts.update(attempts)
    with state.uses.restored(data.rule_states):
        for job in data.jobs:
            attempt = attempts.get(job.id)
            state.nodes.update(job, attempt)
            state.users.update(job, attempt)
            if attempt is not None:
                state.uses.update(job, attempt)
                state.queue.gpuless.update(attempt, job)
    state.isolation.recall(data.resting)
    _line_up(state, data.waiting)
    state.version, state.jobs_version = data.version, data.jobs_version
    return state


def _line_up(state: State, waiting: tuple[int, ...]) -> None:
    """Put the jobs into their lines, in this order."""
    places = {job_id: place for place, job_id in enumerate(waiting)}

    def place_of(job: Job) -> Key:
        return (places[job.id],)

    lines = Lines(state.jobs, place_of)
    state.waiting = state.queue.lines = state.queue.gpuless.lines = lines
    lines.sizes = tuple(sorted({device.capacity_mib for device in state.known_devices()}))
    lines.never_on_nodes = partial(never_on_nodes, state)
    lines.barred = partial(barred, state) if state.for_users.every else None
    for job_id in waiting:
        lines.put(state.jobs[job_id])
