"""The scheduler's state at one moment, for code that only reads: answers, metrics, the loop.

Theory of operation
-------------------
A snapshot never changes: every method keeps returning the same values. Jobs, attempts and
reservations are frozen records and are shared. Tuples, `DeviceSnapshot` and `OccupantSnapshot` are
made for the snapshot.

A snapshot costs nothing until it is read. Until the next step it reads the scheduler's own
memory, and all readers share one snapshot. Before a step changes anything,
`Snapshots.before_change` drops it. If other code still holds it then, it gets copies of its own
(`Snapshot.detach`): references to the records, some 0.1 ms for 10,000 jobs. So the cost of an
event does not grow with the jobs, unless code holds a snapshot from one event to the next.

What may interleave: only the loop's thread takes steps and snapshots. Long work that yields to
other events may hold a snapshot, which then shows the past. Before you pass a snapshot to
another thread, call `detach`: then it shares nothing mutable with the scheduler. For another
process, `data` returns the state as plain data, and `of` makes the same snapshot there.

What a restart sees: nothing. Snapshots are never stored.
"""

from __future__ import annotations

import weakref
from itertools import islice

from radrm.core.records import (
    Attempt,
    Job,
    NodeUse,
    RecentUses,
    UserReservation,
)
from radrm.core.seen import DeviceSnapshot as DeviceSnapshot
from radrm.core.seen import OccupantSnapshot as OccupantSnapshot
from radrm.core.seen import StateData, device_snapshot, in_order, state_data, state_of
from radrm.core.settings import CoreSettings
from radrm.core.state.nodes import Nodes
from radrm.core.state.queue.lines import Line
from radrm.core.state.queue.order import Order
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.state.users import Uses
from radrm.core.view import View
from radrm.structs import replace


class Snapshot:
    """The state at one moment, from `Scheduler.snapshot`."""

    __slots__ = (
        *("version", "jobs_version", "now", "settings", "_jobs", "_attempts", "_ledgers", "_gpu"),
        *("_gpuless", "_nodes", "_uses", "_devices", "_in_order", "_every_job", "_state", "_view"),
        "for_users",
        "__weakref__",
    )

    def __init__(self, state: State) -> None:
        self.version = state.version
        """Grows with every change of a record."""
        self.jobs_version = state.jobs_version
        """Grows with every change of a job's record, not with readings and reports of progress."""
        self.now = state.step.now
        """The time of the last step."""
        self.settings: CoreSettings = state.settings
        self.for_users: tuple[UserReservation, ...] = tuple(state.for_users.every.values())
        self._jobs = state.jobs
        self._attempts = state.attempts
        self._ledgers = state.ledgers
        self._gpu: Line = state.lines.gpu
        self._gpuless: Line = state.lines.gpuless
        self._nodes: Nodes | tuple[NodeUse, ...] = state.nodes
        self._uses: Uses | RecentUses = state.uses
        self._devices: dict[str, DeviceSnapshot] = {}
        self._in_order: tuple[DeviceSnapshot, ...] | None = None
        self._every_job: tuple[Job, ...] | None = None
        self._state: State | None = state
        """None once it is detached."""
        self._view: View | None = None

    def detach(self) -> None:
        """Copy all that is shared with the scheduler, which is about to change."""
        if self._state is None:
            return
        self._state = self._view = None
        _ = self.devices  # copies of the ledgers, which are made on first use
        self._nodes = self.nodes
        self._uses = self.uses
        self._jobs = self._jobs.copy()
        self._attempts = self._attempts.copy()
        self._ledgers = {}
        self._gpu = self._gpu.copy()
        self._gpuless = self._gpuless.copy()

    # ------------------------------------------------------------- for rules

    @property
    def view(self) -> View:
        """What planners read: all that a rule may know, as it was at this moment.

        Only until the next step: after that, `RuntimeError`.
        """
        if self._view is None:
            self._view = View(self._live_state())
        return self._view

    def data(self) -> StateData:
        """Return all of it as plain data, before the next step."""
        return state_data(self._live_state())

    @classmethod
    def of(cls, data: StateData, order: Order) -> Snapshot:
        """Return the snapshot that `data` was made from. `order`: the one in force."""
        return cls(state_of(data, order))

    def _live_state(self) -> State:
        if self._state is None:
            raise RuntimeError("the scheduler has made a step since this snapshot")
        return self._state

    # ------------------------------------------------------------- jobs

    def job(self, job_id: int) -> Job | None:
        """Return an unfinished job; None if there is none with this id."""
        return self._jobs.get(job_id)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The unfinished jobs, in no order that matters."""
        if self._every_job is None:
            self._every_job = tuple(self._jobs.values())
        return self._every_job

    def attempt(self, job_id: int) -> Attempt | None:
        """Return the live attempt of a job; None if it has none."""
        return self._attempts.get(job_id)

    def live_attempt(self, job_id: int, serial: int) -> Attempt | None:
        """Return the live attempt of a job if it has this serial, else None."""
        attempt = self._attempts.get(job_id)
        return attempt if attempt is not None and attempt.serial == serial else None

    @property
    def running(self) -> tuple[tuple[Job, Attempt], ...]:
        """The jobs with a live attempt, by id."""
        jobs, attempts = self._jobs, self._attempts
        return tuple((jobs[job_id], attempts[job_id]) for job_id in sorted(attempts))

    def used_now(self, attempt: Attempt) -> Attempt:
        """Return an attempt with its use up to now. Its stored record may be a minute older."""
        if attempt.job_id not in self._attempts or attempt.ended is not None:
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
        return len(self._gpu) + len(self._gpuless)

    @property
    def lines(self) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
        """The line of jobs for GPUs, and the line of jobs without, in the order of service."""
        find = self._jobs.__getitem__
        return tuple(map(find, self._gpu)), tuple(map(find, self._gpuless))

    def first(self, count: int) -> tuple[Job, ...]:
        """Return the first jobs of the line for GPUs, at most `count`, in the order of service."""
        return tuple(map(self._jobs.__getitem__, islice(self._gpu, count)))

    @property
    def aside(self) -> tuple[Job, ...]:
        """The jobs without a live attempt that are in no line (held ones, for example), by id."""
        left = self._jobs.keys() - self._attempts.keys()
        left.difference_update(self._gpu, self._gpuless)
        return tuple(map(self._jobs.__getitem__, sorted(left)))

    def position(self, job: Job) -> int | None:
        """Return a job's place in its line, 0 for the head; None if it is in none."""
        return self._line(job).position(job.id)

    def head(self, job: Job) -> Job | None:
        """Return the head of the line that `job` is in; None if it is in none."""
        line = self._line(job)
        first = line.head()
        return self._jobs[first] if first is not None and job.id in line else None

    def _line(self, job: Job) -> Line:
        return self._gpu if job.spec.gpus else self._gpuless

    @property
    def uses(self) -> RecentUses:
        """The recent GPU time of users and groups."""
        return self._uses.recent() if isinstance(self._uses, Uses) else self._uses

    # ------------------------------------------------------------- devices

    @property
    def devices(self) -> tuple[DeviceSnapshot, ...]:
        """The devices, also vanished ones that may return, by node and index."""
        if self._in_order is None:
            found = (self.device(uuid) for uuid in tuple(self._ledgers))
            known = (device for device in found if device is not None)
            self._in_order = in_order(known)
        return self._in_order

    @property
    def nodes(self) -> tuple[NodeUse, ...]:
        """The nodes with the CPUs and the host memory that jobs have booked, by name."""
        return self._nodes.uses() if isinstance(self._nodes, Nodes) else self._nodes

    def device(self, uuid: str) -> DeviceSnapshot | None:
        """Return a device; None if it is unknown."""
        found = self._devices.get(uuid)
        if found is None and uuid in self._ledgers:
            found = self._devices[uuid] = device_snapshot(self._ledgers[uuid], self.settings)
        return found


class Snapshots:
    """Makes the scheduler's snapshots, and drops each before the state changes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._current: Snapshot | None = None

    def take(self) -> Snapshot:
        """Return the snapshot of this moment; until the next change it is the same one."""
        if self._current is None:
            self._current = Snapshot(self._state)
        return self._current

    def before_change(self) -> None:
        """Drop the snapshot before a change. If other code still holds it, it gets copies."""
        if self._current is not None:
            held = weakref.ref(self._current)
            self._current = None
            # CPython frees it at once if no other code holds it.
            still = held()
            if still is not None:
                still.detach()
