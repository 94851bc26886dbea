"""What others than rules may ask of the scheduler's state: answers, metrics, the loop, the host.

Theory of operation
-------------------
A snapshot shows the state as the last step has left it: each question reads the scheduler's own
memory. What it returns never changes: jobs, attempts and reservations are frozen records, lists are
tuples, and a `DeviceSnapshot` is made of a device's ledger, once for all who ask between two steps.
Work that yields to other events must ask again after each yield: an answer that it keeps shows the
past.

What may interleave: only the loop's thread takes steps and asks. Another thread may have answers.
Another process gets all of it as plain data (`data`), and makes the same snapshot there (`of`).

What a restart sees: nothing. Snapshots are never stored.
"""

from __future__ import annotations

from itertools import islice

from radrm.core.records import (
    Attempt,
    Instant,
    Job,
    NodeUse,
    RecentUses,
    UserReservation,
)
from radrm.core.seen import DeviceSnapshot as DeviceSnapshot
from radrm.core.seen import OccupantSnapshot as OccupantSnapshot
from radrm.core.seen import StateData, device_snapshot, in_order, state_data, state_of
from radrm.core.settings import CoreSettings
from radrm.core.state.queue.line import Line
from radrm.core.state.queue.order import Order
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.view import View
from radrm.structs import replace


class Snapshot:
    """The state as it is until the next step, from `Scheduler.snapshot`."""

    def __init__(self, state: State) -> None:
        self.view = View(state)
        """What rules read of the same state."""
        self._state = state
        self._devices: dict[str, DeviceSnapshot] = {}
        self._in_order: tuple[DeviceSnapshot, ...] = ()
        self._step: object = None
        """The step after which these were made."""

    @classmethod
    def of(cls, data: StateData, order: Order) -> Snapshot:
        """Return the snapshot that `data` was made from. `order`: the one in force."""
        return cls(state_of(data, order))

    def data(self) -> StateData:
        """Return all of it as plain data, which later steps leave alone."""
        return state_data(self._state)

    @property
    def version(self) -> int:
        """Grows with every change of a record."""
        return self._state.version

    @property
    def jobs_version(self) -> int:
        """Grows with every change of a job's record, not with readings and reports of progress."""
        return self._state.jobs_version

    @property
    def now(self) -> Instant:
        """The time of the last step."""
        return self._state.step.now

    @property
    def settings(self) -> CoreSettings:
        return self._state.settings

    @property
    def for_users(self) -> tuple[UserReservation, ...]:
        """The reservations for users, also those that are over."""
        return tuple(self._state.for_users.every.values())

    # ------------------------------------------------------------- jobs

    def job(self, job_id: int) -> Job | None:
        """Return an unfinished job; None if there is none with this id."""
        return self._state.jobs.get(job_id)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The unfinished jobs, in no order that matters."""
        return tuple(self._state.jobs.values())

    def attempt(self, job_id: int) -> Attempt | None:
        """Return the live attempt of a job; None if it has none."""
        return self._state.attempts.get(job_id)

    def live_attempt(self, job_id: int, serial: int) -> Attempt | None:
        """Return the live attempt of a job if it has this serial, else None."""
        return self._state.live_attempt(job_id, serial)

    @property
    def running(self) -> tuple[tuple[Job, Attempt], ...]:
        """The jobs with a live attempt, by id."""
        return tuple(self._state.running())

    def used_now(self, attempt: Attempt) -> Attempt:
        """Return an attempt with its use up to now. Its stored record may be a minute older."""
        if attempt.job_id not in self._state.attempts or attempt.ended is not None:
            return attempt
        placements = [p for p in (attempt.placement, attempt.target) if p is not None]
        uuids = dict.fromkeys(uuid for placement in placements for uuid in placement.devices)
        devices = [found for uuid in uuids if (found := self.device(uuid)) is not None]
        mine = [each.occupants.get(attempt.job_id) for each in devices]
        newer = [occupant.usage for occupant in mine if occupant is not None]
        return replace(attempt, usage=merged(attempt.usage, newer))

    def trouble(self, attempt: Attempt) -> str | None:
        """Return why one of an attempt's devices may have it hang or fail; None if all are well."""
        for found in filter(None, map(self.device, attempt.devices)):
            if found.trouble:
                return f"GPU {found.device.index}: {found.trouble}"
        return None

    # ------------------------------------------------------------- the queue

    @property
    def waiting(self) -> int:
        """The number of jobs in the two lines."""
        return len(self._state.lines)

    @property
    def lines(self) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
        """The line of jobs for GPUs, and the line of jobs without, in the order of service."""
        find, (gpu, gpuless) = self._state.jobs.__getitem__, self._state.lines.lines
        return tuple(map(find, gpu)), tuple(map(find, gpuless))

    def first(self, count: int) -> tuple[Job, ...]:
        """Return the first jobs of the line for GPUs, at most `count`, in the order of service."""
        return tuple(map(self._state.jobs.__getitem__, islice(self._state.lines.gpu, count)))

    @property
    def aside(self) -> tuple[Job, ...]:
        """The jobs without a live attempt that are in no line (held ones, for example), by id."""
        jobs = self._state.jobs
        left = jobs.keys() - self._state.attempts.keys()
        left.difference_update(*self._state.lines.lines)
        return tuple(map(jobs.__getitem__, sorted(left)))

    def position(self, job: Job) -> int | None:
        """Return a job's place in its line, 0 for the head; None if it is in none."""
        return self._line(job).position(job.id)

    def head(self, job: Job) -> Job | None:
        """Return the head of the line that `job` is in; None if it is in none."""
        line = self._line(job)
        first = line.head()
        return self._state.jobs[first] if first is not None and job.id in line else None

    def _line(self, job: Job) -> Line:
        return self._state.lines.line_of_job(job)

    @property
    def uses(self) -> RecentUses:
        """The recent GPU time of users and groups."""
        return self._state.uses.recent()

    # ------------------------------------------------------------- devices

    @property
    def devices(self) -> tuple[DeviceSnapshot, ...]:
        """The devices, also vanished ones that may return, by node and index."""
        if not self._in_order or self._step is not self._state.step:
            found = [device for uuid in self._state.ledgers if (device := self.device(uuid))]
            self._in_order = in_order(found)
        return self._in_order

    def is_doubted(self, uuid: str) -> bool:
        """Return whether a device takes no jobs of some or all users, since theirs failed there."""
        return any(each == uuid for each, _ in self._state.doubts.now)

    @property
    def nodes(self) -> tuple[NodeUse, ...]:
        """The nodes with the CPUs and the host memory that jobs have booked, by name."""
        return self._state.nodes.uses()

    def device(self, uuid: str) -> DeviceSnapshot | None:
        """Return a device; None if it is unknown."""
        if self._step is not self._state.step:
            self._step, self._devices, self._in_order = self._state.step, {}, ()
        found, ledger = self._devices.get(uuid), self._state.ledgers.get(uuid)
        if found is None and ledger is not None:
            found = self._devices[uuid] = device_snapshot(ledger, self.settings)
        return found
