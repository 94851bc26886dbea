"""Everything `step` remembers, indexed so that no event has to look at every job.

`State` keeps the records consistent with their indices and notes what one step
has changed. It decides nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Attempt,
    Device,
    DeviceStatus,
    Instant,
    Job,
    Placement,
    Refusal,
    Reservation,
    RuleState,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.arrays import Array
from radrm.core.state.isolation import Isolation, Placing
from radrm.core.state.ledger import DeviceLedger, merged
from radrm.core.state.pauses import Pauses, Proposals
from radrm.core.state.waiting import Lines, OrderKey
from radrm.core.transitions import Trigger, after
from radrm.core.words import Condition, DeviceKind, JobState

Record: TypeAlias = Job | Attempt | Reservation | DeviceStatus | RuleState


@dataclass(frozen=True, slots=True)
class Decision:
    """What one step decided: save `changed` and `dropped`, then do `actions` in order.

    `dropped` names reservations (owner, device) that are no more. `wake_at` is
    the boot-time second at which `step` wants a `Tick` if nothing happens before.
    """

    actions: tuple[Action, ...]
    changed: tuple[Record, ...]
    dropped: tuple[tuple[str, str], ...]
    wake_at: float | None
    rejections: tuple[tuple[Proposal, Refusal], ...]
    said: tuple[str, ...] = ()
    """What the log should have of rules that have failed."""


@dataclass(slots=True)
class Turn:
    """What the step under way has done so far."""

    now: Instant
    actions: list[Action] = field(default_factory=list)
    changed: dict[tuple[str, object], Record] = field(default_factory=dict)
    dropped: dict[tuple[str, str], None] = field(default_factory=dict)
    rejections: list[tuple[Proposal, Refusal]] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    """Jobs that have ended in it and whose followers have not heard of that yet."""


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    """Something to look at again: `what` for a job's attempt, or for a rule."""

    boot_s: float
    what: str
    job_id: int = 0
    attempt: int = 0


LAUNCH_PAUSE_S = 60.0
"""The longest time between two tries to start anything on a server that could not."""
RULES_AGAIN = "rules"
"""What a timer is for: to ask rules again that have rested."""
_FEW_TIMERS = 256
"""So many are never worth a look at which are still wanted."""


def owner_of(job_id: int) -> str:
    """The name under which a job owns reservations."""
    return f"job:{job_id}"


class State:
    def __init__(
        self, settings: CoreSettings, order_key: OrderKey, order_name: str = "order"
    ) -> None:
        self.settings = settings
        self.jobs: dict[int, Job] = {}
        """Unfinished jobs only: what has ended is the store's to remember."""
        self.attempts: dict[int, Attempt] = {}
        """The live attempt of a job: at most one, by construction."""
        self.isolation = Isolation(settings)
        self.placing = Placing(order_name, order_key, self.isolation)
        self.waiting = Lines(self.placing)
        self.arrays: dict[int, Array] = {}
        """Arrays with unfinished elements, by the id of the array."""
        self.ledgers: dict[str, DeviceLedger] = {}
        self.absent: dict[str, Device] = {}
        """GPUs that have vanished in this life of the daemon: they may come back."""
        self.out_of_service: dict[str, str] = {}
        """Why a device takes no job for longer than a moment, by its UUID."""
        self.never_idle: dict[str, str] = {}
        """Why a device that may be in service would not be idle without radrm's jobs."""
        self.never_since: dict[Hashable, float] = {}
        """Since when (boot-time seconds) no device is known that could serve a need."""
        self.drained: dict[str, str] = {}
        self.largest_mib: dict[tuple[int, int, str | None], int] = {}
        """What `validation.largest_mib` has found for these devices: every device that is
        looked at asks again."""
        self.rule_states: dict[tuple[str, str], RuleState] = {}
        self.launch_trouble: str | None = None
        """Why nothing can be started at the moment, for a reason that lies with the server."""
        self.launch_again_s = 0.0
        """Boot-time second of the next try."""
        self.launches: Pauses[str] = Pauses(settings.launch_retry_s, LAUNCH_PAUSE_S)
        """That nothing could be started, and how often in a row."""
        self.proposals = Proposals()
        """What was proposed and came to nothing, and is not to be tried at once again."""
        self.version = 0
        self.jobs_version = 0
        """Changes with every change of a job's record; readings leave it alone."""
        self.next_serial = 1
        self.last_id = 0
        """No job in the queue stands behind a higher id than this."""
        self.turn = Turn(Instant(0.0, 0.0))
        self._timers: list[Timer] = []
        self._most_timers = _FEW_TIMERS
        self._followers: dict[tuple[bool, int, Condition], set[int]] = {}
        self._touched: dict[int, int] = {}

    # ------------------------------------------------------------- one step

    def begin(self, now: Instant) -> None:
        self.turn = Turn(now)
        self.isolation.now_s = now.boot_s

    def finish(self) -> Decision:
        for job_id in [r.id for r in self.turn.changed.values() if isinstance(r, Job)]:
            if job_id in self.jobs and self.jobs[job_id].state.final:
                self._forget(self.jobs.pop(job_id))
        turn = self.turn
        for boot_s in self.isolation.take_again_s():
            self.wake(Timer(boot_s, RULES_AGAIN))
        return Decision(
            actions=tuple(turn.actions),
            changed=tuple(turn.changed.values()),
            dropped=tuple(turn.dropped),
            wake_at=self._timers[0].boot_s if self._timers else None,
            rejections=tuple(turn.rejections),
            said=self.isolation.take_unsaid(),
        )

    def _forget(self, job: Job) -> None:
        """What has ended is the store's to remember."""
        self._touched.pop(job.id, None)
        self.placing.without.discard(job.id)
        self.proposals.forget_job(job.id)
        array_id = job.array.array_id if job.array is not None else None
        if array_id is not None and not self.array_unfinished(array_id):
            self.arrays.pop(array_id, None)

    def act(self, action: Action) -> None:
        self.turn.actions.append(action)

    def _note(self, kind: str, key: object, record: Record) -> None:
        self.version += 1
        self.turn.changed[kind, key] = record

    # ------------------------------------------------------------- jobs and attempts

    def put_job(self, job: Job) -> Job:
        """Save a job's record; the waiting queue follows from it."""
        self.jobs[job.id] = job
        self.jobs_version += 1
        self.last_id = max(self.last_id, job.place[0])
        self._note("job", job.id, job)
        self._touched[job.id] = self.version
        for dependency in () if job.state.final else job.after:
            key = (dependency.array, dependency.job_id, dependency.condition)
            self._followers.setdefault(key, set()).add(job.id)
        if job.state.final:
            self.turn.ended.append(job)
        self._line_up(job)
        return job

    def place_again(self) -> None:
        """Ask an order that has failed for its key once more, for the jobs that have none."""
        without, self.placing.without = self.placing.without, set()
        for job_id in sorted(without):
            if job_id in self.jobs:
                self._line_up(self.jobs[job_id])

    def _line_up(self, job: Job) -> None:
        """Into the queue with a job that could start, out of it with any other."""
        aside = job.held or job.estimating or job.after or job.pause is not None
        eligible = job.state.waiting and not aside
        array = self._array_of(job)
        left, entered = array.put(job, eligible) if array is not None else ([job.id], [])
        for job_id in left:
            self.waiting.discard(job_id)
        for job_id in entered if array is not None else [job.id] * eligible:
            self.waiting.put(self.jobs[job_id])

    def _array_of(self, job: Job) -> Array | None:
        if job.array is None:
            return None
        found = self.arrays.get(job.array.array_id)
        if found is None:
            found = Array(job.array.at_once, self.placing)
            self.arrays[job.array.array_id] = found
        return found

    def array_unfinished(self, array_id: int) -> Set[int]:
        """The elements of an array that have not ended; none of one that is not known."""
        array = self.arrays.get(array_id)
        return array.unfinished if array is not None else frozenset()

    def take_followers(self, ended: Job) -> list[Job]:
        """The waiting jobs for whom this end decides something, by id; each end is for once.

        Those that follow an array hear of the end that breaks their condition, or of the
        last: so an element's end costs nothing more where many follow its array.
        """
        keys = [(False, ended.id, condition) for condition in Condition]
        if ended.array is not None:
            array_id = ended.array.array_id
            over = not self.array_unfinished(array_id)
            keys += [(True, array_id, c) for c in Condition if over or not c.met_by(ended.state)]
        ids = {i for key in keys for i in self._followers.pop(key, ())}
        return [self.jobs[i] for i in sorted(ids) if i in self.jobs and self.jobs[i].state.waiting]

    def move(self, job: Job, trigger: Trigger, **changes: object) -> Job:
        """The only way a job's state changes: by a row of the table."""
        return self.put_job(
            replace(job, state=after(job.state, trigger), **changes)  # type: ignore[arg-type]
        )

    def touched_since(self, job_id: int, version: int) -> bool:
        """True when a job has changed since a view of that version, or is gone."""
        return self._touched.get(job_id, self.version + 1) > version

    def put_attempt(self, attempt: Attempt) -> Attempt:
        """Save an attempt's record; an attempt that has ended is live no more."""
        if attempt.ended is None:
            self.attempts[attempt.job_id] = attempt
        else:
            self.attempts.pop(attempt.job_id, None)
        self._note("attempt", attempt.serial, attempt)
        return attempt

    def live_attempt(self, job_id: int, number: int) -> Attempt | None:
        attempt = self.attempts.get(job_id)
        return attempt if attempt is not None and attempt.number == number else None

    def used_now(self, attempt: Attempt) -> Attempt:
        """An attempt with what it was seen to use up to now; its record may be a minute older."""
        if attempt.job_id not in self.attempts or attempt.ended is not None:
            return attempt
        placements = [p for p in (attempt.placement, attempt.target) if p is not None]
        held = [
            (uuid, self.ledgers[uuid].holdings.get(attempt.job_id))
            for uuid in {d for placement in placements for d in placement.devices}
            if uuid in self.ledgers
        ]
        newer = [holding.usage(uuid) for uuid, holding in held if holding is not None]
        return replace(attempt, usage=merged(attempt.usage, newer))

    # ------------------------------------------------------------- devices

    def set_devices(self, devices: Iterable[Device]) -> None:
        """Take over the list of devices; one that vanished keeps its holders until they end."""
        listed = {d.uuid: d for d in devices}
        for uuid, device in listed.items():
            ledger = self.ledgers.get(uuid)
            if ledger is None:
                ledger = self.ledgers[uuid] = DeviceLedger(device, self.settings)
            ledger.device = device
            ledger.drained = self.drained.get(uuid)
            ledger.vanished = False
            self.absent.pop(uuid, None)
        for uuid in [u for u in self.ledgers if u not in listed]:
            if self.ledgers[uuid].holdings:
                self.ledgers[uuid].vanished = True
            else:
                self.forget_device(uuid)
        for parent in {d.parent for d in listed.values() if d.parent is not None}:
            self.absent.pop(parent, None)  # cut into MIG instances
        sizes = {device.capacity_mib for device in self.known_devices()}
        self.waiting.resize(tuple(sorted(sizes)), self.jobs.__getitem__)
        self.largest_mib.clear()
        self.version += 1

    def known_devices(self) -> list[Device]:
        """Those that are there, and GPUs that may come back."""
        return [ledger.device for ledger in self.ledgers.values()] + list(self.absent.values())

    def forget_device(self, uuid: str) -> None:
        """One that vanished and that nobody holds any more. A GPU may come back; of a MIG
        instance nobody knows."""
        device = self.ledgers.pop(uuid).device
        self.out_of_service.pop(uuid, None)
        self.never_idle.pop(uuid, None)
        if device.kind is DeviceKind.GPU:
            self.absent[uuid] = device
        self.largest_mib.clear()

    def put_drained(self, uuid: str, reason: str | None) -> None:
        if reason is None:
            self.drained.pop(uuid, None)
        else:
            self.drained[uuid] = reason
        if uuid in self.ledgers:
            self.ledgers[uuid].drained = reason
        self._note("device", uuid, DeviceStatus(uuid=uuid, drained=reason))

    def reserve(self, reservation: Reservation) -> None:
        self.ledgers[reservation.device].reserve(reservation)
        key = (reservation.owner, reservation.device)
        self.turn.dropped.pop(key, None)
        self._note("reservation", key, reservation)

    def unreserve(self, owner: str, device: str) -> None:
        ledger = self.ledgers.get(device)
        if ledger is not None:
            ledger.unreserve(owner)
        self.turn.changed.pop(("reservation", (owner, device)), None)
        self.turn.dropped[owner, device] = None
        self.version += 1

    @staticmethod
    def promises(placement: Placement) -> dict[str, int | None]:
        """MiB promised on each device of a placement; None where it is the whole device."""
        whole = placement.collocation.whole_device
        totals: dict[str, int | None] = {}
        for share in placement.shares:
            if share.device is not None:
                so_far = totals.get(share.device) or 0
                totals[share.device] = None if whole else so_far + share.reserved_mib
        return totals

    # ------------------------------------------------------------- rules and time

    def put_rule_state(self, record: RuleState) -> None:
        key = (record.kind, record.name)
        if self.rule_states.get(key) != record:
            self.rule_states[key] = record
            self._note("rule", key, record)

    def wake(self, timer: Timer) -> None:
        heapq.heappush(self._timers, timer)
        if len(self._timers) > self._most_timers:
            # Those of attempts that have ended would stay until they are due: for days.
            kept = {t for t in self._timers if self._is_wanted(t)}
            self._timers = sorted(kept)
            self._most_timers = 2 * len(kept) + _FEW_TIMERS

    def _is_wanted(self, timer: Timer) -> bool:
        job = self.jobs.get(timer.job_id)
        paused = job is not None and job.pause is not None
        return not timer.job_id or timer.job_id in self.attempts or paused

    def due(self) -> list[Timer]:
        """The timers whose time has come, each once."""
        found: list[Timer] = []
        while self._timers and self._timers[0].boot_s <= self.turn.now.boot_s:
            found.append(heapq.heappop(self._timers))
        return found

    def running(self) -> Iterable[tuple[Job, Attempt]]:
        """Jobs with a live attempt, by id."""
        for job_id in sorted(self.attempts):
            yield self.jobs[job_id], self.attempts[job_id]

    def gpuless_running(self) -> int:
        """Live attempts without a GPU."""
        return sum(1 for a in self.attempts.values() if not a.placement.devices)

    def count(self, state: JobState) -> int:
        return sum(1 for job in self.jobs.values() if job.state is state)
