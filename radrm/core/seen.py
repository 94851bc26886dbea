"""What can be seen of the state: as records, and as plain data for another process.

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
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from radrm.core.constraints.claims import barred
from radrm.core.constraints.nodes import never_on_nodes
from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    Node,
    Reading,
    Reservation,
    RuleState,
    Usage,
    UserReservation,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.doubts import Doubt
from radrm.core.state.isolation import Resting
from radrm.core.state.ledger import CohortData, DeviceLedger
from radrm.core.state.load import LoadData
from radrm.core.state.queue.line import Key
from radrm.core.state.queue.lines import Lines, Verdicts
from radrm.core.state.queue.order import Order
from radrm.core.state.readings import OccupantUse, why_unreadable
from radrm.core.state.state import State
from radrm.core.words import Collocation
from radrm.structs import replace


class OccupantSnapshot(Struct, frozen=True):
    """A live attempt on one device, and its measured use there."""

    job_id: int
    serial: int
    collocation: Collocation
    since_s: float
    """Boot-time second at which it came."""
    settled: bool
    """Its memory has stopped growing."""
    usage: Usage

    def unused_for(self, now_s: float) -> float | None:
        """Return the seconds since it came, if it has used no memory of the device.

        None if it has used some, or if that is unknown.
        """
        return now_s - self.since_s if self.usage.peak_mib == 0 else None


class DeviceSnapshot(Struct, frozen=True):
    """One device: its record, last reading, occupants and reservations."""

    device: Device
    vanished: bool
    """It is no longer listed. It may return, or attempts are still on it."""
    drained: str | None
    """Why it is drained; None if it is not."""
    reading: Reading | None
    unmanaged_mib: int | None
    """Memory of unmanaged processes; None while it is unknown."""
    reserved_mib: int
    free_mib: int | None
    """Memory that can be reserved; None while unmanaged memory is unknown."""
    smact: float | None
    """The SM activity that a policy uses, 0..1; None while it is unknown."""
    smact_refusal: str | None
    """Why `smact` is None."""
    warm_from_s: float
    """Boot-time second from which readings of SM activity count again."""
    occupants: Mapping[int, OccupantSnapshot]
    """By job."""
    reservations: tuple[Reservation, ...]
    fresh_from_s: float
    """Boot-time second of the last leave. Earlier readings may still count the job that left."""
    stale_after_s: float

    @property
    def trouble(self) -> str | None:
        """Why jobs on it may hang or fail: it is gone, unread or faulty; None if it is well."""
        if self.vanished:
            return "it has vanished"
        return None if self.reading is None else self.reading.error or self.reading.fault

    def unreadable(self, now_s: float) -> str | None:
        """Return why the last reading is not usable at this time; None if it is."""
        return why_unreadable(self.reading, self.fresh_from_s, self.stale_after_s, now_s)


def device_snapshot(ledger: DeviceLedger, settings: CoreSettings) -> DeviceSnapshot:
    uuid = ledger.device.uuid
    occupants = {
        job_id: _occupant_snapshot(held, uuid) for job_id, held in ledger.occupants.items()
    }
    return DeviceSnapshot(
        device=ledger.device,
        vanished=ledger.vanished,
        drained=ledger.drained,
        reading=ledger.reading,
        unmanaged_mib=ledger.unmanaged_mib,
        reserved_mib=ledger.reserved_mib,
        free_mib=ledger.free_now_mib,
        smact=ledger.smact,
        smact_refusal=ledger.smact_refusal,
        warm_from_s=ledger.warm_from_s,
        occupants=MappingProxyType(occupants),
        reservations=ledger.reserved.every(),
        fresh_from_s=ledger.fresh_from_s,
        stale_after_s=settings.stale_after_s,
    )


def in_order(found: Iterable[DeviceSnapshot]) -> tuple[DeviceSnapshot, ...]:
    """Return devices by node and index."""
    return tuple(sorted(found, key=lambda each: (each.device.node, each.device.index)))


def _occupant_snapshot(occupant: OccupantUse, uuid: str) -> OccupantSnapshot:
    return OccupantSnapshot(
        job_id=occupant.job_id,
        serial=occupant.serial,
        collocation=occupant.collocation,
        since_s=occupant.since_s,
        settled=occupant.settled,
        usage=occupant.usage(uuid),
    )


class LedgerData(Struct, frozen=True):
    """A ledger, without what only its own next change needs: the energy meter and shared times."""

    device: Device
    version: int
    drained: str | None
    vanished: bool
    reading: Reading | None
    unmanaged_mib: int | None
    fresh_from_s: float
    occupants: tuple[OccupantUse, ...]
    reservations: tuple[Reservation, ...]
    load: LoadData
    cohort: CohortData


def ledger_data(ledger: DeviceLedger) -> LedgerData:
    """Return a ledger as plain data, which later changes of the ledger do not change."""
    return LedgerData(
        device=ledger.device,
        version=ledger.version,
        drained=ledger.drained,
        vanished=ledger.vanished,
        reading=ledger.reading,
        unmanaged_mib=ledger.unmanaged_mib,
        fresh_from_s=ledger.fresh_from_s,
        occupants=tuple(_copied(occupant) for occupant in ledger.occupants.values()),
        reservations=ledger.reserved.every(),
        load=ledger.load.data(),
        cohort=ledger.cohort.data(),
    )


def _copied(occupant: OccupantUse) -> OccupantUse:
    beside = {others: replace(part) for others, part in occupant.beside.items()}
    return replace(occupant, beside=beside)


def ledger_of(
    data: LedgerData, settings: CoreSettings, clock: Callable[[], Instant]
) -> DeviceLedger:
    """Return the ledger that `data` was made from."""
    found = DeviceLedger(data.device, settings, data.load.window, clock)
    found.drained, found.vanished = data.drained, data.vanished
    found.reading, found.unmanaged_mib = data.reading, data.unmanaged_mib
    found.fresh_from_s = data.fresh_from_s
    found.occupants.update((occupant.job_id, occupant) for occupant in data.occupants)
    for reservation in data.reservations:
        found.reserved.put(reservation)
    found.load.recall(data.load)
    found.cohort.recall(data.cohort)
    found.version = data.version
    return found


class StateData(Struct, frozen=True):
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
    out_of_service: dict[str, str]
    never_idle: dict[str, str]
    nodes: tuple[Node, ...]
    reservations: tuple[UserReservation, ...]
    rule_states: tuple[RuleState, ...]
    resting: tuple[Resting, ...]
    launch_error: str | None
    doubts: tuple[tuple[Doubt, str], ...]


def state_data(state: State) -> StateData:
    return StateData(
        version=state.version,
        jobs_version=state.jobs_version,
        last_id=state.last_id,
        now=state.step.now,
        settings=state.settings,
        jobs=tuple(state.jobs.values()),
        attempts=tuple(state.attempts.values()),
        waiting=tuple(_in_order(state.lines)),
        ledgers=tuple(ledger_data(each) for each in state.ledgers.values()),
        listed=tuple(device.uuid for device in state.listed),
        out_of_service=state.out_of_service.copy(),
        never_idle=state.never_idle.copy(),
        nodes=tuple(state.nodes.known()) if state.nodes.uses() else (),
        reservations=tuple(state.for_users.every.values()),
        rule_states=tuple(state.rule_states.values()),
        resting=state.isolation.data(),
        launch_error=state.launch_error,
        doubts=tuple(state.doubts.now.items()),
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
    state.doubts.now.update(data.doubts)
    for each in data.ledgers:
        ledger = ledger_of(each, data.settings, lambda: state.step.now)
        state.ledgers[each.device.uuid] = ledger
        for reservation in ledger.reserved.planned.values():
            state.planned.put(reservation)
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

    verdicts = Verdicts(never_on_nodes=partial(never_on_nodes, state))
    lines = Lines(state.jobs, place_of, None, verdicts)
    state.lines = state.queue.lines = state.queue.gpuless.lines = lines
    lines.sizes = tuple(sorted({device.capacity_mib for device in state.known_devices()}))
    lines.bar(partial(barred, state) if state.for_users.every else None)
    for job_id in waiting:
        lines.put(state.jobs[job_id])
