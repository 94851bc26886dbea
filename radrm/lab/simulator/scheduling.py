"""radrm's own loop in virtual time: a simulated host for the actions of the core (`loop`).

The daemon reads every device each second. This loop must decide the same, and reads a
device only if that can change a decision: its memory has changed or settled, or a job has
left. While jobs wait, also if its activity is trusted again, or its mean activity falls. A
rising mean lets no job start. Between readings the windows are exact (`PiecewiseWindow`).

Under a policy with trials each job says that it has done its first steps, `Life.steps_s` after its
peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from msgspec import Struct

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import (
    Attempt,
    AttemptMemory,
    Device,
    Exit,
    Instant,
    Job,
    JobSpec,
    OutOfMemory,
    Reading,
)
from radrm.core.rules import Rules
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, Outcome
from radrm.estimators.history import WAITING
from radrm.lab.simulator.courses import Course, Task, pace_on
from radrm.lab.simulator.estimates import AutoEstimates
from radrm.lab.simulator.history import History
from radrm.lab.simulator.loop import TERM, Arrival, CoreLoop, Timeline, in_order
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import Gpu, SimulatedAttempt, Stage, World, WorldEvent

# ------------------------------------------------------------------
# The mean SM activity of a simulated device over a window, without readings.
#
# Between two events a simulated device's activity is constant. So the mean that readings at
# a steady interval would give is known at any time.


_ROUNDING_S = 1e-6


class PiecewiseWindow:
    """A ledger's window, as if the device were read every `interval_s` seconds."""

    __slots__ = (
        *("_clock", "_device", "_interval_s", "_length_s"),
        *("_cached", "_cached_at_s", "_cached_for"),
        "restarted_s",
    )

    def __init__(self, length_s: float, interval_s: float, device: Gpu, clock: Timeline) -> None:
        self._length_s = length_s
        self._interval_s = interval_s
        self._device = device
        self._clock = clock
        self.restarted_s = clock.now_s
        # The mean at a time and present activity.
        self._cached_at_s = float("nan")
        self._cached_for = 0.0
        self._cached = 0.0

    def add(self, boot_s: float, smact: float) -> None:
        """Do nothing: a reading adds no information."""

    def forget(self, now_s: float) -> None:
        """Do nothing: no reading is kept that could be too old."""

    def restart(self) -> None:
        self.restarted_s = self._clock.now_s
        self._cached_at_s = float("nan")

    def __len__(self) -> int:
        seen_s = min(self._length_s, self._clock.now_s - self.restarted_s)
        return int((seen_s + _ROUNDING_S) / self._interval_s)

    @property
    def last_s(self) -> float:
        now_s = self._clock.now_s
        seen_s = now_s - self.restarted_s
        return now_s if (seen_s + _ROUNDING_S) / self._interval_s >= 1.0 else float("-inf")

    @property
    def mean(self) -> float | None:
        now_s, device = self._clock.now_s, self._device
        seen_s = now_s - self.restarted_s
        if (seen_s + _ROUNDING_S) / self._interval_s < 1.0:
            return None
        activity = device.activity
        if now_s != self._cached_at_s or activity != self._cached_for:
            self._cached_at_s, self._cached_for = now_s, activity
            from_s = now_s - self._length_s
            if from_s < self.restarted_s:
                from_s = self.restarted_s
            mean = device.mean_smact(from_s, now_s)
            self._cached = 0.0 if mean < 0.0 else 1.0 if mean > 1.0 else mean
        return self._cached

    @property
    def falls_by(self) -> float:
        """Return how far the mean will still fall. If it falls, a job may fit without an event."""
        device, now_s = self._device, self._clock.now_s
        if device.steady_s <= self.restarted_s or device.steady_s <= now_s - self._length_s:
            return 0.0  # the activity was the same over the whole window
        mean = self.mean
        return 0.0 if mean is None else max(0.0, mean - device.activity)


READING_INTERVAL_S = 1.0
"""The interval of the daemon's readings."""
_FALLING_POLL_S = 2.0
_FALL_STEP = 0.02
_NO_FALL = 0.002
SIGNATURE = "torch.OutOfMemoryError: CUDA out of memory."


class _Look(Struct, frozen=True):
    """A job may fit now: the device's activity is known again, or has fallen."""

    device: int
    restarted_s: float


class _Stepped(Struct, frozen=True):
    """An attempt has done its first steps."""

    attempt: SimulatedAttempt


class _Reread(Struct, frozen=True):
    """The daemon would read these devices now, and perhaps correct a reservation."""

    devices: tuple[int, ...]


class OwnLoop(CoreLoop[SimulatedAttempt]):
    """The servers of a scenario from the first arrival to the last end."""

    def __init__(
        self,
        scenario: Scenario,
        rules: Rules,
        settings: CoreSettings,
        tasks: Sequence[Task],
        history: History,
        auto: AutoEstimates | None = None,
    ) -> None:
        self._scenario = scenario
        # No reading is stale: an old one still holds, since nothing has changed since.
        self._settings = replace(settings, stale_after_s=float("inf"))
        # The daemon sees settled memory at its first reading after `settle_s`.
        self._world = self._make_world(self._settings.settle_s + READING_INTERVAL_S)
        read = scenario.smact_read and all(d.smact == "measured" for d in scenario.devices)
        self._smact_read = read
        windows = self._window if read else None
        super().__init__(self._world, rules, Scheduler(rules, self._settings, windows))
        self._tasks, self._history = tasks, history
        self._auto = auto
        mps = scenario.config.mps
        self._devices = tuple(
            each.under_mps(mps.spans, mps.multiuser) if scenario.mps else each.device
            for each in scenario.devices
        )
        self._place = {device.uuid: at for at, device in enumerate(self._devices)}
        self._reserved: dict[int, int] = {}
        self._falling: set[int] = set()
        length_s, world = self._settings.smact_window_s, self._world
        self._windows = [
            PiecewiseWindow(length_s, READING_INTERVAL_S, gpu, world) for gpu in world.gpus
        ]

    def _make_world(self, settle_s: float) -> World:
        return World(self._scenario.devices, settle_s)

    def _window(self, device: Device) -> PiecewiseWindow:
        """Return the window of a device's ledger, which needs no readings."""
        return self._windows[self._place[device.uuid]]

    @property
    def world(self) -> World:
        return self._world

    # ------------------------------------------------------------- time

    def run(self) -> None:
        """Run until no event is left."""
        self.open()
        for at, task in enumerate(self._tasks):
            self._world.at(task.job.submit_s, Arrival(at))
        for _, happened in in_order([self._world]):
            self.turn(happened)
        self.end()

    def open(self) -> None:
        """Begin, without any job."""
        self._step(ev.DevicesSeen(at=self._now, devices=self._devices))
        self._begin()
        self._drain()

    def turn(self, happened: object) -> None:
        super().turn(happened)
        self._watch_falls()

    def _begin(self) -> None:
        """Read every device once; until then the core places no job on it."""
        self._read(range(len(self._devices)))

    def end(self) -> None:
        """End the jobs that still wait: without further events they would wait forever."""
        for position in self._history.unfinished():
            why = self._why_waiting(position + 1) or "no rule starts it"
            self._history.job_ended(position, None, f"it would wait forever: {why}")

    @property
    def _complete(self) -> bool:
        return self._history.complete

    @property
    def _waiting(self) -> bool:
        return self._scheduler.view.any_waiting

    def _on(self, happened: object) -> None:
        if isinstance(happened, WorldEvent):
            self._on_world_event(happened)
        elif isinstance(happened, _Look):
            self._look(happened)
        elif isinstance(happened, _Stepped):
            self._on_steps(happened.attempt)
        elif isinstance(happened, _Reread):
            self._read(happened.devices)
        else:
            super()._on(happened)

    def _note(self, event: ev.Event, decision: Decision) -> None:
        if not isinstance(event, (ev.JobSubmitted, ev.AttemptEnded)):
            return
        for record in decision.changed:
            if isinstance(record, Job) and record.state.final:
                well = record.outcome is Outcome.COMPLETED
                ended_s = self._world.now_s if well else None
                self._history.job_ended(record.id - 1, ended_s, record.reason)
            elif isinstance(record, Attempt) and self._auto is not None and record.ended:
                task = self._tasks[record.job_id - 1]
                if self._auto.add_run(task.job, record, decision, task.course.peak_mib):
                    self._predict_again(self._auto, task.job)

    def _predict_again(self, auto: AutoEstimates, ended: TraceJob) -> None:
        """As the daemon does when a run has ended."""
        found = []
        for job in self._scheduler.snapshot.first(WAITING):
            task = self._tasks[job.id - 1]
            if (task.job.user, task.job.name) == (ended.user, ended.name):
                found.append((job.id, auto.estimate(task.job, job.spec, task.estimates)))
        if found:
            self._events.append(ev.PredictionsReady(at=self._now, estimates=tuple(found)))

    # ------------------------------------------------------------- actions of the core

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.TakeReadings):
            self._read([self._place[uuid] for uuid in action.devices])
        else:
            super()._carry_out(action)

    def _stop(self, attempt: SimulatedAttempt) -> None:
        self._world.end(attempt)
        self._ended(attempt, (Exit(signal=TERM),), None)

    def _launch(self, action: act.Launch) -> None:
        placement, job_id = action.placement, action.job_id
        devices = tuple(self._place[uuid] for uuid in placement.devices)
        # A cap protects neighbours; a job alone on its device has none.
        client = placement.collocation is Collocation.MPS
        attempt = self._world.launch(
            job_id - 1,
            self._course(job_id),
            devices,
            placement.collocation,
            mps=client,
            cap_mib=action.cap_mib if client else None,
            pace=pace_on(self._tasks[job_id - 1], [self._devices[at] for at in devices]),
        )
        self._live[job_id], attempt.serial = attempt, action.serial
        sizes = [share.reserved_mib for share in placement.shares]
        self._reserved[job_id] = reserved = max(sizes, default=0)
        self._history.attempt_started(attempt, reserved)
        self._tell(ev.AttemptStarted, attempt)
        trial = self._on_trial(attempt)
        if attempt.held_mib > reserved or trial:
            self._read(devices)
        if trial:
            self._reread(attempt, self._settings.settle_s + READING_INTERVAL_S)
        self._look_again(devices, self._settings.smact_warm_s)

    def _course(self, job_id: int) -> Course:
        """Return the course of a job's next attempt."""
        return self._tasks[job_id - 1].course

    def _ended(
        self, attempt: SimulatedAttempt, exits: tuple[Exit, ...], oom: OutOfMemory | None
    ) -> None:
        del self._live[attempt.job + 1]
        outcome = Outcome.COMPLETED
        if oom is not None:
            outcome = Outcome.OOM
        elif not all(e.ok for e in exits):
            outcome = Outcome.PREEMPTED  # nothing else stops jobs here
        self._history.attempt_ended(attempt, self._world.now_s, outcome)
        self._tell(ev.AttemptEnded, attempt, exits=exits, oom=oom)
        self._look_again(attempt.devices, self._settings.smact_after_exit_s)

    # ------------------------------------------------------------- events of the world

    def _on_world_event(self, happened: WorldEvent) -> None:
        attempt = happened.attempt
        if happened.missing_mib is not None:
            wanted = OutOfMemory(SIGNATURE, ceil(happened.missing_mib))
            self._ended(attempt, (Exit(code=1),), wanted)
        elif happened.ended:
            self._ended(attempt, (Exit(code=0),), None)
        elif happened.stage is not Stage.COMPUTES and self._changes_free_memory(attempt):
            self._read(attempt.devices)
            steps_s = self._scenario.life.steps_s
            if happened.stage is Stage.PEAK and self._counts_steps:
                self._world.at(self._world.now_s + steps_s, _Stepped(attempt), attempt)

    @property
    def _counts_steps(self) -> bool:
        return self._settings.trial_floor_mib is not None

    def _on_trial(self, attempt: SimulatedAttempt) -> bool:
        """Return whether a new attempt is on trial on one of its devices."""
        if not self._counts_steps:
            return False
        uuids = [self._devices[at].uuid for at in attempt.devices]
        return any(self._scheduler.view.is_on_trial(attempt.job + 1, each) for each in uuids)

    def _on_steps(self, attempt: SimulatedAttempt) -> None:
        """Say that an attempt has done its first steps, and read its devices until it settles."""
        self._tell(ev.StepsReported, attempt, steps=self._settings.settle_steps)
        for late_s in (0.0, self._settings.settle_steps_s):
            self._reread(attempt, READING_INTERVAL_S + late_s)

    def _reread(self, attempt: SimulatedAttempt, after_s: float) -> None:
        self._world.at(self._world.now_s + after_s, _Reread(attempt.devices), attempt)

    def _changes_free_memory(self, attempt: SimulatedAttempt) -> bool:
        """Return whether an attempt on a shared device can exceed its reservation, or shrink it."""
        if attempt.collocation.whole_device:
            return False
        reserved, course = self._reserved[attempt.job + 1], attempt.course
        return (
            course.peak_mib > reserved
            or course.peak_mib + self._settings.headroom_mib < reserved
            or course.peak_s >= self._settings.settle_s
        )

    def _seen_mib(self, attempt: SimulatedAttempt) -> int:
        """Return the memory that a reading shows of an attempt."""
        # A peak that got no reading must appear in the next: a lower figure would count as peak.
        past_peak = self._world.now_s >= attempt.started_s + attempt.course.peak_s
        if past_peak and not self._changes_free_memory(attempt):
            return ceil(attempt.course.peak_mib)
        return ceil(attempt.held_mib)

    # ------------------------------------------------------------- readings

    def _read(self, places: Sequence[int]) -> None:
        now = self._now
        readings = tuple(self._reading(at, now) for at in places)
        self._events.append(ev.ReadingsTaken(at=now, readings=readings))

    def _reading(self, at: int, now: Instant) -> Reading:
        gpu = self._world.gpus[at]
        seen = tuple(AttemptMemory(a.job + 1, a.serial, self._seen_mib(a)) for a in gpu.attempts)
        return Reading(
            device=self._devices[at].uuid,
            at=now,
            used_mib=gpu.simulated.unmanaged_mib + sum(m.used_mib or 0 for m in seen),
            attempts=seen,
            smact=gpu.activity if self._smact_read else None,
            smact_source="simulated" if self._smact_read else None,
            power_w=gpu.power_w,
        )

    def _look_again(self, devices: Sequence[int], after_s: float) -> None:
        """Plan a look `after_s` from now, when the activity is trusted again."""
        now_s = self._world.now_s
        for at in devices:
            if self._auto is not None or self._shared(at):
                self._world.at(now_s + after_s, _Look(at, now_s))

    def _shared(self, at: int) -> bool:
        """Return whether a job on the device accepts others beside it."""
        return any(
            not attempt.collocation.whole_device for attempt in self._world.gpus[at].attempts
        )

    def _look(self, look: _Look) -> None:
        at = look.device
        self._falling.discard(at)
        wanted = self._waiting or self._auto is not None  # `auto` learns from the reading
        if not wanted or self._windows[at].restarted_s > look.restarted_s:
            return
        warm_from_s = self._scheduler.view.warm_from_s(self._devices[at].uuid)
        if warm_from_s > self._world.now_s:
            self._world.at(warm_from_s, look)
            return
        # The daemon reads all devices at once: those that are warm by now, too.
        warm = [
            i
            for i in self._place.values()
            if i == at or self._windows[i].restarted_s == look.restarted_s
        ]
        self._read([i for i in warm if self._world.gpus[i].attempts])
        if self._waiting:
            self._watch(at, self._windows[at])

    def _watch_falls(self) -> None:
        """Watch devices whose mean falls without an event: a job may fit when it is low."""
        world, falling = self._world, self._falling
        before_s = world.now_s - self._settings.smact_window_s
        moving = [i for i, g in enumerate(world.gpus) if g.steady_s > before_s and i not in falling]
        for at in moving if moving and self._waiting else ():
            self._watch(at, self._windows[at])

    def _watch(self, at: int, window: PiecewiseWindow) -> None:
        if at in self._falling or (fall := window.falls_by) < _NO_FALL:
            return
        if not self._smact_read:
            return  # nobody sees it fall
        self._falling.add(at)
        # The mean falls evenly over the window's length: look about every `_FALL_STEP` of it.
        length_s = self._settings.smact_window_s
        next_s = max(_FALLING_POLL_S, min(length_s, length_s * _FALL_STEP / fall))
        self._world.at(self._world.now_s + next_s, _Look(at, window.restarted_s))

    # ------------------------------------------------------------- jobs

    def _job(self, position: int) -> Job:
        self._history.job_submitted()
        task = self._tasks[position]
        job = task.job
        spec = JobSpec(
            name=job.name,
            user=job.user,
            uid=self._uid(job.user),
            roles=(task.role,),
            priority=job.priority,
            weight=job.weight,
            due_s=job.due_s,
        )
        known, auto = task.estimates, self._auto
        estimates = known if auto is None else auto.estimate(job, spec, known)
        return Job(
            id=position + 1,
            ticket=str(position + 1),
            spec=spec,
            submitted=self._now,
            estimates=estimates,
            profile=task.profile,
            after=tuple(d for d in task.after if self._scheduler.is_open(d)),
            array=task.element,
        )
