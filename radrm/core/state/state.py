"""Everything that `step` remembers, with indices so that no event looks at every job.

Theory of operation
-------------------
`State` keeps the records and their indices (queue, arrays, followers, ledgers) consistent, and
collects what one step changes. It decides nothing.

Invariants:
- A record changes only through a `put_*` method, `reserve` or `unreserve`. Each one also updates
  the indices and notes the record for the step's `Decision`.
- Only `put_progress`, `put_usage`, `put_host_use`, `put_idle_power` and `put_rule_state` note a
  record as volatile: the same that a restart would load, but for these figures.
- A job's state changes only in `move`, by a row of the transition table.
- `version` grows with each noted change, so a slow planner's view can be compared with it.
- Ended jobs are forgotten at the end of their step; the store keeps them.

What may interleave: nothing. One thread calls `step`, and only `core/` has a `State`.

What a restart sees: the saved records. The indices, timers and pauses are built again from them
(`core/adoption.py`); readings, failures and times out of service are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from radrm.core.actions import Action
from radrm.core.decision import Decision, Record, Step
from radrm.core.records import (
    CLOCK_SET_S,
    Attempt,
    Device,
    DeviceStatus,
    HostUse,
    Instant,
    Job,
    Node,
    Progress,
    Requeued,
    Reservation,
    ReservationKey,
    RuleState,
    Usage,
    UserReservation,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.doubts import Doubt, Doubts
from radrm.core.state.isolation import Isolation
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.load import SmactWindow, Window
from radrm.core.state.nodes import Nodes
from radrm.core.state.pauses import Pauses, Proposals
from radrm.core.state.queue.line import Ranks
from radrm.core.state.queue.lines import Aside, Verdicts
from radrm.core.state.queue.order import Order, SafeOrder
from radrm.core.state.queue.queue import JobQueue
from radrm.core.state.readings import Track
from radrm.core.state.reserved import Planned, Seen, UserReservations
from radrm.core.state.sharing import Sharing
from radrm.core.state.timers import (
    BEGIN,
    CLOSING,
    ORDER_KEY,
    PAUSE_OVER,
    RESERVATION_OVER,
    RULES_AGAIN,
    Timer,
    Timers,
)
from radrm.core.state.users import Users, Uses
from radrm.core.transitions import Trigger, after
from radrm.core.words import Condition, DeviceKind, JobState, Queue
from radrm.structs import replace


class Followers:
    """An index from a followed job or array to its followers.

    Saving a job's record adds entries. Editing a dependency away removes none, so the caller of
    `take` must check the follower's record.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[bool, int, Condition], set[int]] = {}

    def add(self, follower: Job) -> None:
        """Enter a job under each of its unmet dependencies."""
        for dependency in follower.after:
            key = (dependency.array, dependency.job_id, dependency.condition)
            self._ids.setdefault(key, set()).add(follower.id)

    def take(self, ended: Job, array_over: bool) -> set[int]:
        """Remove and return the ids of the followers that this end concerns.

        Followers of an array are concerned by the end that breaks their condition, or by the
        last end (`array_over`). So most ends of elements cost nothing.
        """
        keys = [(False, ended.id, condition) for condition in Condition]
        if ended.array is not None:
            keys += [
                (True, ended.array.array_id, condition)
                for condition in Condition
                if array_over or not condition.met_by(ended.state)
            ]
        return {job_id for key in keys for job_id in self._ids.pop(key, ())}

    def __len__(self) -> int:
        return len(self._ids)


LAUNCH_RETRY_S, LAUNCH_PAUSE_S = 5.0, 60.0
"""The first and the longest pause of all launches after the server could not start a job."""


def owner_of(job_id: int) -> str:
    """Return the name of a job as an owner of reservations."""
    return f"job:{job_id}"


class State:
    """The records of unfinished jobs, and the devices, with their indices."""

    def __init__(
        self,
        settings: CoreSettings,
        order: Order,
        windows: Callable[[Device], Window] | None = None,
        judge: Callable[[State, Job], Aside | None] = lambda state, job: None,
        never_on_nodes: Callable[[State, Job], str | None] = lambda state, job: None,
    ) -> None:
        """`judge` and `never_on_nodes`: see `Verdicts`."""
        self.settings = settings
        self._windows = windows or (lambda device: SmactWindow(settings.smact_window_s))
        self.jobs: dict[int, Job] = {}
        """The unfinished jobs by id. The store keeps the others."""
        self.attempts: dict[int, Attempt] = {}
        """The live attempt of each job that has one, by job id."""
        self.isolation = Isolation(settings)
        self.uses = Uses(settings.use_half_life_s, lambda: self.step.now, self.put_rule_state)
        safe_order = SafeOrder(order, self.isolation, lambda: self.step.now)
        ranks = Ranks(safe_order, self.uses, lambda: self.step.now)
        self.nodes = Nodes()
        self.users = Users(settings)
        room = self.users.room if self.users.any_limit else None
        verdicts = Verdicts(partial(judge, self), partial(never_on_nodes, self), room)
        at_once = settings.gpuless_at_once
        self.queue = JobQueue(safe_order, self.jobs, self.wake, ranks, at_once, verdicts)
        self.lines = self.queue.lines
        self.ledgers: dict[str, DeviceLedger] = {}
        self.listed: list[Device] = []
        """The devices that have not vanished, by node and index."""
        self.out_of_service: dict[str, str] = {}
        """Why a device is out of service, by UUID."""
        self.never_idle: dict[str, str] = {}
        """Why a device would not be idle even without radrm's jobs, by UUID."""
        self.never_since: dict[Hashable, float] = {}
        """By need: the boot-time second since which no known device could serve it."""
        self.drained: dict[str, str] = {}
        self.doubts = Doubts()
        self.idle_w: dict[str, float] = {}
        self.largest_mib: dict[Hashable, int] = {}
        """A cache of `constraints.need.largest_mib`, which is called for each device."""
        self.turns: tuple[Step, tuple[int, int], dict[str, int]] | None = None
        """A cache of `constraints.turns.turns`. Other changes drop it."""
        self.rule_states: dict[tuple[str, str], RuleState] = {}
        self.sharing = Sharing(self.rule_states, self.put_rule_state, self._loss_changed)
        self.launch_error: str | None = None
        """Why the server cannot start any job now; None if it can. `launches`: its failures."""
        self.launch_again_s = 0.0
        """Boot-time second at which launches are tried again."""
        self.launches: Pauses[str] = Pauses(LAUNCH_RETRY_S, LAUNCH_PAUSE_S)
        self.misplaced: dict[int, Track] = {}
        """By job: the live attempts that were seen on devices which they do not hold."""
        self.planned = Planned()
        self.for_users = UserReservations()
        self.proposals = Proposals()
        """Proposals whose action failed, with their pauses."""
        self.version = 0
        self.jobs_version = 0
        """Grows with every change of a job's record, not with readings and reports of progress."""
        self.next_serial = 1
        self.listens_s = float("-inf")
        """Boot time since when this scheduler hears reports and acts; minus infinity: always."""
        self.last_id = 0
        """The highest id in any job's `place`: a requeued job goes behind it."""
        self.step = Step(Instant(0.0, 0.0))
        self.timers = Timers()
        self.ahead_s: float | None = None
        """The date minus the time since boot, when the date was last set. None before any step."""
        self._followers = Followers()
        self._touched: dict[int, int] = {}

    # ------------------------------------------------------------- one step

    def begin(self, now: Instant) -> None:
        """Begin a step at this time."""
        self.step = Step(now)
        self.isolation.now_s = now.boot_s

    def finish(self) -> Decision:
        """Forget the jobs that ended, which followers and planners of this step may have needed,
        and return what the step decided."""
        for job_id in [r.id for r in self.step.changed.values() if isinstance(r, Job)]:
            if job_id in self.jobs and self.jobs[job_id].state.final:
                self._forget(self.jobs.pop(job_id))
        for boot_s in self.isolation.take_retry_times():
            self.wake(Timer(boot_s, RULES_AGAIN))
        self.timers.tidy(self._is_wanted, self.step.now.boot_s)
        return self.step.decision(self.timers.next_s, self.isolation.take_log_lines())

    def _forget(self, job: Job) -> None:
        """Remove an ended job from the indices."""
        self._touched.pop(job.id, None)
        self.queue.forget(job)
        self.proposals.forget_job(job.id)
        self.for_users.closing.pop(job.id, None)

    def act(self, action: Action) -> None:
        """Add an action to the step's decision."""
        self.step.actions.append(action)

    def _note(self, kind: str, key: object, record: Record, volatile: bool = False) -> None:
        self.version += 1
        name, step = (kind, key), self.step
        if volatile and name not in step.changed:
            step.volatile[name] = record
        else:
            step.volatile.pop(name, None)
            step.changed[name] = record

    # ------------------------------------------------------------- jobs and attempts

    def put_job(self, job: Job) -> Job:
        """Save a job's record and update its place in the queue."""
        self.jobs[job.id] = job
        self.jobs_version += 1
        self.last_id = max(self.last_id, job.place[0])
        self._note("job", job.id, job)
        self._touched[job.id] = self.version
        if job.state.final:
            self.step.ended.append(job)
        elif job.after:
            self._followers.add(job)
        self.queue.update(job)
        self._count(job, self.attempts.get(job.id))
        return job

    def _count(self, job: Job | None, attempt: Attempt | None) -> None:
        self.nodes.update(job, attempt)
        if job is not None and self.users.update(job, attempt):
            self.lines.use_changed(job.spec.uid)

    def put_progress(self, job: Job, progress: Progress) -> None:
        """Note what a job reports: volatile, and no change for plans and tables of jobs."""
        self.jobs[job.id] = job = replace(job, progress=progress)
        self._note("job", job.id, job, volatile=True)
        before = self.attempts.get(job.id)
        if before is not None and progress.step is not None and len(before.devices) == 1:
            ledger = self.ledgers.get(before.devices[0])
            if ledger is not None:
                ledger.report(job.id, progress.measured.boot_s, progress.step)
        if before is not None and (attempt := before.told(progress)) is not before:
            self.attempts[job.id] = attempt
            self._note("attempt", attempt.serial, attempt, volatile=True)

    def take_followers(self, ended: Job) -> list[Job]:
        """Return the waiting jobs that this end concerns, by id, and drop them from the index.

        `Followers.take` says which ends of elements concern the followers of an array.
        """
        array = None if ended.array is None else self.queue.array(ended.array.array_id)
        over = array is not None and not array.unfinished
        ids = self._followers.take(ended, over)
        return [self.jobs[i] for i in sorted(ids) if i in self.jobs and self.jobs[i].state.waiting]

    def move(self, job: Job, trigger: Trigger, **changes: Any) -> Job:
        """Change a job's state by a row of the transition table, and save it.

        Unless it has completed, a job without an attempt has no more progress than it has saved.
        """
        state = after(job.state, trigger)
        if not state.live and state is not JobState.COMPLETED:
            changes["progress"] = job.saved
        return self.put_job(replace(job, state=state, **changes))

    def behind_all(self, job: Job) -> Job:
        """Return a job's record, behind all jobs that are known now."""
        behind = Requeued(self.step.now, max(self.last_id, job.id), job.used_s)
        return replace(job, requeued=behind, queue=Queue.MAIN)

    def touched_since(self, job_id: int, version: int) -> bool:
        """Return whether a job has changed since that `version`, or is gone."""
        return self._touched.get(job_id, self.version + 1) > version

    def put_attempt(self, attempt: Attempt) -> Attempt:
        """Save an attempt's record. An ended attempt is no longer live."""
        if attempt.ended is None:
            before = self.attempts.get(attempt.job_id)
            self.attempts[attempt.job_id] = attempt
            if before is None or attempt.moved_since(before):
                self._touched[attempt.job_id] = self.version + 1
        else:
            self.attempts.pop(attempt.job_id, None)
        self._note("attempt", attempt.serial, attempt)
        self._count(job := self.jobs.get(attempt.job_id), attempt)
        self.queue.gpuless.update(attempt, job)
        self.uses.update(job, attempt)
        return attempt

    def put_usage(self, attempt: Attempt, usage: tuple[Usage, ...]) -> None:
        """Note the use of devices by a live attempt so far: volatile."""
        self.attempts[attempt.job_id] = attempt = replace(attempt, usage=usage)
        self._note("attempt", attempt.serial, attempt, volatile=True)

    def put_host_use(self, attempt: Attempt, use: HostUse) -> None:
        """Note the use of the server by a live attempt so far: volatile."""
        self.attempts[attempt.job_id] = attempt = replace(attempt, host_use=use)
        self._note("attempt", attempt.serial, attempt, volatile=True)

    def live_attempt(self, job_id: int, serial: int) -> Attempt | None:
        """Return a job's live attempt if it has this serial, else None."""
        attempt = self.attempts.get(job_id)
        return attempt if attempt is not None and attempt.serial == serial else None

    # ------------------------------------------------------------- devices

    def set_devices(self, devices: Iterable[Device]) -> None:
        """Replace the list of devices. One that is not in it any more has vanished."""
        listed = {d.uuid: d for d in devices}
        for uuid, device in listed.items():
            ledger = self.ledgers.get(uuid)
            if ledger is None:
                ledger = DeviceLedger(
                    device,
                    self.settings,
                    self._windows(device),
                    lambda: self.step.now,
                    self.sharing.see,
                )
                ledger.energy.recall(self.idle_w.get(uuid))
                self.ledgers[uuid] = ledger
            ledger.drained = self._drained_for_all(uuid)
            ledger.vanished = False
            ledger.see(device)
        self.listed = sorted(listed.values(), key=lambda d: (d.node, d.index))
        for uuid in [u for u in self.ledgers if u not in listed]:
            if not self.ledgers[uuid].vanished:
                self.ledgers[uuid].vanish()
            self.forget_if_gone(uuid)
        sizes = tuple(sorted({device.capacity_mib for device in self.known_devices()}))
        self.lines.resize(sizes)
        self.largest_mib.clear()
        self.version += 1

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replace the capacities of nodes. What live jobs have booked stays booked."""
        if self.nodes.see(nodes):
            self.lines.classify_again()
            self.version += 1

    def known_devices(self) -> list[Device]:
        """Return the devices of the list, and vanished ones that may return."""
        return [ledger.device for ledger in self.ledgers.values()]

    def forget_if_gone(self, uuid: str) -> None:
        """Remove a vanished device without attempts that does not return.

        A GPU may return, so it stays known, unless it was cut into MIG instances. A removed
        instance counts as gone for good.
        """
        ledger = self.ledgers[uuid]
        may_return = ledger.device.kind is DeviceKind.GPU and uuid not in self._cut()
        if not ledger.vanished or ledger.occupants or may_return:
            return
        del self.ledgers[uuid]
        self.out_of_service.pop(uuid, None)
        self.never_idle.pop(uuid, None)
        self.largest_mib.clear()

    def _cut(self) -> set[str | None]:
        """Return the GPUs of the MIG instances, by UUID."""
        return {device.parent for device in self.listed}

    def put_drained(self, uuid: str, reason: str | None) -> None:
        """Drain a device for this reason, or resume it (None)."""
        over = self.doubts.trust(uuid)
        if reason is None:
            self.drained.pop(uuid, None)
        else:
            self.drained[uuid] = reason
        if uuid in self.ledgers:
            self.ledgers[uuid].drain(reason)
        self.put_doubts(over)
        self._note("device", uuid, DeviceStatus(uuid, reason, self.idle_w.get(uuid)))

    def _drained_for_all(self, uuid: str) -> str | None:
        return self.drained.get(uuid) or self.doubts.now.get((uuid, None))

    def drained_for(self, uuid: str, job: Job) -> str | None:
        """Return why a device takes no new job, or none of this job's user; None if it does."""
        return self.ledgers[uuid].drained or self.doubts.now.get((uuid, job.spec.uid))

    def put_doubts(self, changed: Iterable[Doubt]) -> None:
        """Drain devices as long as they are doubted. That is not saved."""
        for uuid, _ in changed:
            if uuid in self.ledgers:
                self.ledgers[uuid].drain(self._drained_for_all(uuid))
            self.version += 1

    def _loss_changed(self, kind: str) -> None:
        for ledger in self.ledgers.values():
            if ledger.device.name == kind:
                ledger.see(ledger.device)

    def put_idle_power(self, uuid: str, idle_w: float) -> None:
        """Note the idle power of a device: volatile."""
        self.idle_w[uuid] = idle_w
        status = DeviceStatus(uuid, self.drained.get(uuid), idle_w)
        self._note("device", uuid, status, volatile=True)

    def reserve(self, reservation: Reservation) -> None:
        """Save a reservation; it replaces the one with the same key."""
        self.put_back(reservation)
        key = reservation.key
        # Dropped and made again in one step: the store must not delete it after saving it.
        self.step.dropped.pop(key, None)
        self._note("reservation", key, reservation)

    def unreserve(self, key: ReservationKey) -> None:
        """Delete a reservation, also of a device that is not listed."""
        self.lift(key)
        # Made or changed in this step: the store must not save it after deleting it.
        self.step.changed.pop(("reservation", key), None)
        self.step.dropped[key] = None
        self.version += 1

    def put_back(self, reservation: Reservation) -> None:
        """Enter a saved reservation in its ledger and index."""
        self.ledgers[reservation.device].reserve(reservation)
        if reservation.kind.planned:
            self.planned.put(reservation)

    def lift(self, key: ReservationKey) -> None:
        """Take a reservation out of its ledger and index. It stays saved."""
        self.planned.drop(key)
        if key[-1] in self.ledgers:
            self.ledgers[key[-1]].unreserve(key)

    def put_for_users(self, record: UserReservation) -> None:
        """Save a reservation for users; one that has ended is forgotten."""
        self.for_users.put(record)
        self._note("user reservation", record.id, record)

    def see_for_users(self, seen: Seen | None, barred: Callable[[Job], Hashable] | None) -> None:
        """Sort the waiting jobs by these reservations for users; `barred` tells their devices."""
        self.for_users.seen = seen
        for ledger in self.ledgers.values():
            ledger.reserved_for_others()
        self.lines.bar(barred)

    # ------------------------------------------------------------- rules and time

    def put_rule_state(self, record: RuleState) -> None:
        """Save a rule's own memory if it has changed."""
        known = self.rule_states.get(key := (record.kind, record.name))
        if known != record:
            self.rule_states[key] = record
            # A restart calls each planner that has asked for a wake-up, whatever its time is.
            woken_s = known.wake_boot_s if known is not None else None
            same = woken_s is not None and replace(record, wake_boot_s=woken_s) == known
            self._note("rule", key, record, volatile=same)

    def wake(self, timer: Timer) -> None:
        """Have `step` called at a timer's time."""
        self.timers.add(timer)

    def _is_wanted(self, timer: Timer) -> bool:
        """Return whether a record still asks for a timer. Valid at the end of a step only."""
        what, boot_s, job = timer.what, timer.boot_s, self.jobs.get(timer.job_id)
        if what == RESERVATION_OVER:
            return boot_s in (self.planned.wake_s, self.for_users.wake_s)
        if what == ORDER_KEY:
            return self.queue.is_wanted(timer)
        if what == CLOSING:
            return self.for_users.closing.get(timer.job_id) == boot_s
        if timer.serial:
            return self.live_attempt(timer.job_id, timer.serial) is not None
        if what == PAUSE_OVER:
            return job is not None and job.pause is not None and boot_s <= job.pause.until_boot_s
        if what == BEGIN:
            return job is not None and job.awaits_begin and self._is_moment(job, boot_s)
        return not timer.job_id or (job is not None and job.estimating)

    def _is_moment(self, job: Job, boot_s: float) -> bool:
        """Return whether a job may begin by this time. Edits leave timers of later moments."""
        begin_s, ahead_s = job.spec.begin_s, self.ahead_s
        return begin_s is None or ahead_s is None or boot_s <= begin_s - ahead_s + 2 * CLOCK_SET_S

    def running(self) -> Iterable[tuple[Job, Attempt]]:
        """Yield the jobs with a live attempt, by id."""
        return ((self.jobs[job_id], self.attempts[job_id]) for job_id in sorted(self.attempts))
