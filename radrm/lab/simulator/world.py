"""The simulated server in virtual time: attempts, their memory, speed and end, and GPU power.

Theory of operation (time and work are in `loop`):

- Nothing here makes a decision; a loop (`scheduling`, `published`) launches attempts.
- Between two events every rate is constant, so activity and energy are sums over a few steps.
- An event changes only the devices whose rates can change. So its cost depends on the
  jobs that share these devices, not on the size of the server.
- A new speed moves an attempt's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct, field

from radrm.core.words import Collocation
from radrm.interference.model import activity, joint_speed, mixed_speeds
from radrm.lab.simulator.courses import Course
from radrm.lab.simulator.loop import Running, Timeline
from radrm.lab.simulator.run import DeviceRun, DeviceStep
from radrm.simulated.spec import SimulatedDevice, watts


class Stage(Enum):
    """The stages of an attempt. SETTLED: the loop's `settle_s` has passed since the peak."""

    COMPUTES = "computes"
    PEAK = "peak"
    STEADY = "steady"
    SETTLED = "settled"


class SimulatedAttempt(Running, eq=False, kw_only=True):
    """An attempt of a job on GPUs. Its work is in seconds that it would take alone here."""

    devices: tuple[int, ...]
    collocation: Collocation
    mps: bool
    course: Course
    cap_mib: float | None
    started_s: float
    held_mib: float = 0.0
    """The memory in use on each of its devices."""
    computing: bool = False
    speed: float = 0.0
    pace: float = 1.0
    """The work that it does a second at full speed: more on faster or more devices."""
    begun_s: float = 0.0
    """The work that earlier attempts of the job had saved; its own begins there."""
    joint: float | None = None
    """The common speed of an attempt with several devices. None: it has one device."""
    alone: dict[int, float] = field(default_factory=dict)
    """The speed that each device would allow if the attempt did not wait for the others."""


class WorldEvent(Struct, frozen=True):
    """An event of an attempt: it reached a stage, or it ended (`ended`)."""

    attempt: SimulatedAttempt
    stage: Stage | None = None
    ended: bool = False
    missing_mib: float | None = None
    """It ran out of GPU memory: the size of the request that failed."""


class Gpu:
    """One device: the attempts on it, its memory in use, SM activity and power."""

    __slots__ = (
        "activity",
        "attempts",
        "capacity_mib",
        "power_w",
        "simulated",
        "steady_s",
        "steps",
        "used_mib",
    )

    def __init__(self, simulated: SimulatedDevice) -> None:
        self.simulated = simulated
        self.capacity_mib = simulated.device.capacity_mib
        self.used_mib: float = simulated.unmanaged_mib
        self.activity = 0.0
        self.power_w = watts(0.0, simulated.idle_w, simulated.peak_w)
        self.attempts: dict[SimulatedAttempt, None] = {}
        self.steps = [DeviceStep(0.0, self.used_mib, 0.0, self.power_w)]
        self.steady_s = 0.0

    @property
    def room_mib(self) -> int:
        """Return the most memory that jobs can have: the capacity less unmanaged memory."""
        return self.capacity_mib - self.simulated.unmanaged_mib

    def note(self, now_s: float) -> None:
        """Record the present memory, activity and power as a step that begins now."""
        step = DeviceStep(now_s, self.used_mib, self.activity, self.power_w)
        self.steady_s = now_s
        if self.steps[-1].at_s == now_s:
            self.steps[-1] = step
        else:
            self.steps.append(step)

    def mean_smact(self, from_s: float, until_s: float) -> float:
        """Return the mean SM activity between two times that have passed."""
        smact = 0.0
        left_s = until_s
        for step in reversed(self.steps):
            at_s = step.at_s
            if at_s >= left_s:
                continue
            if at_s <= from_s:
                smact += step.smact * (left_s - from_s)
                left_s = from_s
                break
            smact += step.smact * (left_s - at_s)
            left_s = at_s
        passed_s = until_s - left_s
        return smact / passed_s if passed_s > 0 else self.activity


class World(Timeline):
    """The server. `advance` carries out what happens to an attempt, and returns a `WorldEvent`.

    `loss`: how much time-slicing costs here (`interference.model.speeds`).
    """

    def __init__(self, devices: Sequence[SimulatedDevice], settle_s: float | None = None) -> None:
        super().__init__()
        self.gpus = [Gpu(simulated) for simulated in devices]
        self._settle_s = settle_s
        self.loss: float | None = None
        """What sharing costs (`interference.model`); None: as shipped. Set before any attempt."""

    def advance(self) -> object:
        what = super().advance()
        if not isinstance(what, WorldEvent):
            return what
        if what.stage is not None:
            return self._enter_stage(what.attempt, what.stage)
        self.end(what.attempt)
        return what

    # ------------------------------------------------------------- attempts

    def launch(
        self,
        job: int,
        course: Course,
        devices: tuple[int, ...],
        collocation: Collocation,
        mps: bool,
        cap_mib: float | None = None,
        pace: float = 1.0,
    ) -> SimulatedAttempt:
        """Start an attempt now. It takes its first memory at once if there is room.

        Without room it fails later, when it begins to compute.
        """
        attempt = SimulatedAttempt(
            job=job,
            devices=devices,
            collocation=collocation,
            mps=mps,
            course=course,
            cap_mib=cap_mib,
            started_s=self.now_s,
            pace=pace,
        )
        attempt.work.since_s = self.now_s
        for at in devices:
            self.gpus[at].attempts[attempt] = None
        if self._missing(attempt, course.first_mib) is None:
            self._hold(attempt, course.first_mib)
        self._reach(attempt, Stage.COMPUTES, self.now_s + course.computes_s)
        return attempt

    def end(self, attempt: SimulatedAttempt) -> None:
        """End an attempt for any reason, and free its memory."""
        self._go_at(attempt, 0.0)
        attempt.over = True
        for at in attempt.devices:
            del self.gpus[at].attempts[attempt]
        self._hold(attempt, 0.0)
        if attempt.computing:
            self._update_speeds(attempt.devices)

    def _reach(self, attempt: SimulatedAttempt, stage: Stage, when_s: float) -> None:
        self.at(when_s, WorldEvent(attempt, stage), attempt)

    def _enter_stage(self, attempt: SimulatedAttempt, stage: Stage) -> WorldEvent:
        course = attempt.course
        wanted_mib = attempt.held_mib
        if stage is Stage.COMPUTES:
            wanted_mib = max(wanted_mib, course.first_mib)
            self._reach(attempt, Stage.PEAK, attempt.started_s + course.peak_s)
        elif stage is Stage.PEAK:
            wanted_mib = course.peak_mib
            self._reach(attempt, Stage.STEADY, attempt.started_s + course.steady_s)
            if self._settle_s is not None:
                self._reach(attempt, Stage.SETTLED, self.now_s + self._settle_s)
        elif stage is Stage.STEADY:
            wanted_mib = course.steady_mib
        missing_mib = self._missing(attempt, wanted_mib)
        if missing_mib is not None:
            self.end(attempt)
            return WorldEvent(attempt, stage, ended=True, missing_mib=missing_mib)
        if wanted_mib != attempt.held_mib:
            self._hold(attempt, wanted_mib)
        if stage is Stage.COMPUTES:
            attempt.computing = True
            self._update_speeds(attempt.devices)
            if not attempt.devices:
                self._set_speed(attempt, 1.0)
        return WorldEvent(attempt, stage)

    def _missing(self, attempt: SimulatedAttempt, wanted_mib: float) -> float | None:
        """Return the size of the request that fails if it wants this much. None: it fits."""
        more_mib = wanted_mib - attempt.held_mib
        if more_mib <= 0:
            return None
        if attempt.cap_mib is not None and wanted_mib > attempt.cap_mib:
            return more_mib
        short = any(self.gpus[at].used_mib + more_mib > self.gpus[at].capacity_mib
                    for at in attempt.devices)  # fmt: skip
        return more_mib if short else None

    def _hold(self, attempt: SimulatedAttempt, mib: float) -> None:
        more_mib = mib - attempt.held_mib
        attempt.held_mib = mib
        for at in attempt.devices:
            gpu = self.gpus[at]
            gpu.used_mib += more_mib
            if not gpu.attempts:
                gpu.used_mib = gpu.simulated.unmanaged_mib  # drop the rounding errors
            gpu.note(self.now_s)

    # ------------------------------------------------------------- rates

    def _update_speeds(self, changed: Iterable[int]) -> None:
        """Compute new speeds for the jobs on these devices, and for the devices that follow.

        This is `interference.running_speeds` limited to the affected devices. A job on several
        devices runs at its joint speed on all of them. If that changes, the jobs on its other
        devices get new speeds, too.
        """
        affected = dict.fromkeys(changed)
        moved: dict[SimulatedAttempt, None] = {}
        for at in list(affected):
            working = [a for a in self.gpus[at].attempts if a.computing]
            for attempt, speed in zip(working, self._speeds(at, working, {}), strict=True):
                attempt.alone[at] = speed
                if len(attempt.devices) > 1:
                    moved[attempt] = None
                else:
                    attempt.joint = None
        for attempt in moved:
            if len(attempt.alone) < len(attempt.devices):
                continue
            joint = joint_speed([attempt.alone[at] for at in attempt.devices])
            if joint != attempt.joint:
                attempt.joint = joint
                self._set_speed(attempt, joint)
                affected.update(dict.fromkeys(attempt.devices))
        for at in affected:
            self._update_device(at)

    def _update_device(self, at: int) -> None:
        gpu = self.gpus[at]
        working = [a for a in gpu.attempts if a.computing]
        fixed = {place: a.joint for place, a in enumerate(working) if a.joint is not None}
        if fixed:
            found = self._speeds(at, working, fixed)
        else:
            found = tuple(attempt.alone[at] for attempt in working)
        for attempt, speed in zip(working, found, strict=True):
            if attempt.joint is None:
                self._set_speed(attempt, speed)
        self._note_activity(at)

    def _note_activity(self, at: int) -> None:
        """Record a device's activity and power at the present speeds."""
        gpu = self.gpus[at]
        working = [a for a in gpu.attempts if a.computing]
        gpu.activity = activity(
            [a.course.demand for a in working],
            [a.speed for a in working],
            fraction=gpu.simulated.fraction,
        )
        gpu.power_w = watts(gpu.activity, gpu.simulated.idle_w, gpu.simulated.peak_w)
        gpu.note(self.now_s)

    def _speeds(
        self, at: int, working: list[SimulatedAttempt], fixed: dict[int, float]
    ) -> tuple[float, ...]:
        clients = [a.mps for a in working]
        return mixed_speeds(
            [a.course.demand for a in working],
            clients,
            fraction=self.gpus[at].simulated.fraction,
            fixed=fixed,
            loss=None if all(clients) else self.loss,
        )

    def _set_speed(self, attempt: SimulatedAttempt, speed: float) -> None:
        """Let an attempt run at the speed that its devices allow."""
        self._go_at(attempt, speed)

    def _go_at(self, attempt: SimulatedAttempt, speed: float) -> None:
        """Set the speed from now on, and plan the end that follows from it."""
        if speed != attempt.speed:
            attempt.speed = speed
            attempt.work.go_at(speed * attempt.pace, self.now_s)
            self.plan_end(attempt, attempt.course.work_s, WorldEvent(attempt, ended=True))

    # ------------------------------------------------------------- the record

    def device_runs(self) -> tuple[DeviceRun, ...]:
        return tuple(
            DeviceRun(device.name, device.total_mib, tuple(gpu.steps), device.node)
            for gpu in self.gpus
            for device in (gpu.simulated.device,)
        )
