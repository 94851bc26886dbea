"""The modelled server in virtual time: attempts, their memory, speed and end, what GPUs draw.

Nothing here decides anything. Between two events every rate is constant, so that work,
activity and energy are sums over few steps. When somebody comes, goes or begins to
compute, only the devices are looked at whose rates may have changed: the cost of an event
depends on who shares a device with whom, not on the size of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

from radrm.core.physics import Demand, activity, joint_speed, share_weight, speeds, watts
from radrm.core.words import Collocation
from radrm.modelled.spec import ModelledDevice
from radrm.simulator.job import TraceJob
from radrm.simulator.run import DeviceRun, DeviceStep

_SHORTEST_S = 1e-6


class Stage(Enum):
    """What happens next in an attempt's life."""

    COMPUTES = "computes"
    PEAK = "peak"
    STEADY = "steady"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Course:
    """How one job behaves in this run, drawn once: every attempt of it, and every policy,
    meets the same job. Seconds from the launch to each stage; `work_s` is computing alone."""

    computes_s: float
    peak_s: float
    steady_s: float
    work_s: float
    first_mib: float
    peak_mib: float
    steady_mib: float
    demand: Demand


@dataclass(slots=True, eq=False)
class Lived:
    """An attempt that is alive."""

    job: int
    devices: tuple[int, ...]
    collocation: Collocation
    mps: bool
    course: Course
    cap_mib: float | None
    started_s: float
    held_mib: float = 0.0
    """On each of its devices alike."""
    computing: bool = False
    speed: float = 0.0
    done_s: float = 0.0
    since_s: float = 0.0
    finish_version: int = 0
    joint: float | None = None
    """Its speed, where it has several devices."""
    alone: dict[int, float] = field(default_factory=dict)
    """The speed that each of its devices would give it."""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Happened:
    """What an event of the world was: memory that changed, or an end (`ended`)."""

    attempt: Lived
    stage: Stage | None = None
    ended: bool = False
    missing_mib: float | None = None
    """It died: so much was asked for and not there."""


class Gpu:
    """One device: who is on it and what it shows."""

    __slots__ = ("activity", "capacity_mib", "here", "modelled", "power_w", "steps", "used_mib")

    def __init__(self, modelled: ModelledDevice) -> None:
        self.modelled = modelled
        self.capacity_mib = modelled.device.capacity_mib
        self.used_mib: float = modelled.unmanaged_mib
        self.activity = 0.0
        self.power_w = watts(0.0, modelled.idle_w, modelled.peak_w)
        self.here: dict[Lived, None] = {}
        self.steps = [DeviceStep(0.0, self.used_mib, 0.0, self.power_w)]

    @property
    def room_mib(self) -> int:
        """What jobs can have of it at most."""
        return self.capacity_mib - self.modelled.unmanaged_mib

    def note(self, now_s: float) -> None:
        """Write down what it shows from now on."""
        step = DeviceStep(now_s, self.used_mib, self.activity, self.power_w)
        if self.steps[-1].at_s == now_s:
            self.steps[-1] = step
        else:
            self.steps.append(step)

    def mean(self, from_s: float, until_s: float) -> tuple[float, float]:
        """Mean memory (MiB) and SM activity from then to then, which is not to come."""
        memory = smact = 0.0
        left_s = until_s
        for step in reversed(self.steps):
            if step.at_s >= left_s:
                continue
            begin_s = max(step.at_s, from_s)
            memory += step.memory_mib * (left_s - begin_s)
            smact += step.smact * (left_s - begin_s)
            left_s = begin_s
            if step.at_s <= from_s:
                break
        passed_s = until_s - left_s
        if passed_s <= 0:
            return self.used_mib, self.activity
        return memory / passed_s, smact / passed_s


class World:
    """Time goes on by `next_s` and `advance`; `at` puts an event of the caller's own between."""

    def __init__(self, devices: Sequence[ModelledDevice], settle_s: float | None = None) -> None:
        self.gpus = [Gpu(modelled) for modelled in devices]
        self.now_s = 0.0
        self._settle_s = settle_s
        self._heap: list[tuple[float, int, Lived | None, object, int]] = []
        self._count = 0

    # ------------------------------------------------------------- time

    @property
    def next_s(self) -> float | None:
        """When something happens next; None: nothing ever will by itself."""
        heap = self._heap
        while heap and heap[0][2] is not None and self._stale(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def at(self, when_s: float, what: object) -> None:
        """Have `advance` return `what` at this time."""
        self._push(when_s, None, what, 0)

    def advance(self) -> object:
        """Go to the next event and let it happen. Call only where `next_s` is not None.

        Returns a `Happened`, or what `at` was given.
        """
        when_s, _, attempt, what, _ = heappop(self._heap)
        self.now_s = max(self.now_s, when_s)
        if attempt is None:
            return what
        if what is None:
            self.end(attempt)
            return Happened(attempt, ended=True)
        assert isinstance(what, Stage)
        return self._live_on(attempt, what)

    def pass_to(self, until_s: float) -> None:
        """Let time pass in which nothing happens."""
        self.now_s = max(self.now_s, until_s)

    def _push(self, when_s: float, attempt: Lived | None, what: object, version: int) -> None:
        self._count += 1
        heappush(self._heap, (when_s, self._count, attempt, what, version))

    def _stale(self, entry: tuple[float, int, Lived | None, object, int]) -> bool:
        attempt, what, version = entry[2:]
        assert attempt is not None
        return attempt.over or (what is None and version != attempt.finish_version)

    # ------------------------------------------------------------- attempts

    def launch(
        self,
        job: int,
        course: Course,
        devices: tuple[int, ...],
        collocation: Collocation,
        mps: bool,
        cap_mib: float | None = None,
    ) -> Lived:
        """Start an attempt now. What it holds first is there at once if there is room."""
        now_s = self.now_s
        attempt = Lived(job, devices, collocation, mps, course, cap_mib, now_s, since_s=now_s)
        for at in devices:
            self.gpus[at].here[attempt] = None
        if self._missing(attempt, course.first_mib) is None:
            self._hold(attempt, course.first_mib)
        self._push(now_s + course.computes_s, attempt, Stage.COMPUTES, 0)
        return attempt

    def end(self, attempt: Lived) -> None:
        """It is gone, whatever the reason, and its memory is free."""
        self._settle(attempt)
        attempt.over = True
        attempt.speed = 0.0
        for at in attempt.devices:
            del self.gpus[at].here[attempt]
        self._hold(attempt, 0.0)
        if attempt.computing:
            self._retune(attempt.devices)

    def _live_on(self, attempt: Lived, stage: Stage) -> Happened:
        course = attempt.course
        wanted_mib = attempt.held_mib
        if stage is Stage.COMPUTES:
            wanted_mib = max(wanted_mib, course.first_mib)
            self._push(attempt.started_s + course.peak_s, attempt, Stage.PEAK, 0)
        elif stage is Stage.PEAK:
            wanted_mib = course.peak_mib
            self._push(attempt.started_s + course.steady_s, attempt, Stage.STEADY, 0)
            if self._settle_s is not None:
                self._push(self.now_s + self._settle_s, attempt, Stage.SETTLED, 0)
        elif stage is Stage.STEADY:
            wanted_mib = course.steady_mib
        missing_mib = self._missing(attempt, wanted_mib)
        if missing_mib is not None:
            self.end(attempt)
            return Happened(attempt, stage, ended=True, missing_mib=missing_mib)
        if wanted_mib != attempt.held_mib:
            self._hold(attempt, wanted_mib)
        if stage is Stage.COMPUTES:
            attempt.computing = True
            attempt.since_s = self.now_s
            self._retune(attempt.devices)
        return Happened(attempt, stage)

    def _missing(self, attempt: Lived, wanted_mib: float) -> float | None:
        """What it would ask for in vain to hold so much; None where there is room."""
        more_mib = wanted_mib - attempt.held_mib
        if more_mib <= 0:
            return None
        if attempt.cap_mib is not None and wanted_mib > attempt.cap_mib:
            return more_mib
        short = any(self.gpus[at].used_mib + more_mib > self.gpus[at].capacity_mib
                    for at in attempt.devices)  # fmt: skip
        return more_mib if short else None

    def _hold(self, attempt: Lived, mib: float) -> None:
        more_mib = mib - attempt.held_mib
        attempt.held_mib = mib
        for at in attempt.devices:
            gpu = self.gpus[at]
            gpu.used_mib += more_mib
            if not gpu.here:
                gpu.used_mib = gpu.modelled.unmanaged_mib  # no dust of floating point
            gpu.note(self.now_s)

    # ------------------------------------------------------------- rates

    def _settle(self, attempt: Lived) -> None:
        """Add up the work done at the speed that has held."""
        attempt.done_s += attempt.speed * (self.now_s - attempt.since_s)
        attempt.since_s = self.now_s

    def _retune(self, changed: Iterable[int]) -> None:
        """New speeds where the jobs at work have changed, and where that reaches.

        As `physics.running_speeds` has it, for these devices alone: a job on several goes at
        its joint speed, and its other devices' jobs share what it then leaves.
        """
        affected = dict.fromkeys(changed)
        moved: dict[Lived, None] = {}
        for at in list(affected):
            working = [a for a in self.gpus[at].here if a.computing]
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
                self._go(attempt, joint)
                affected.update(dict.fromkeys(attempt.devices))
        for at in affected:
            self._ease(at)

    def _ease(self, at: int) -> None:
        gpu = self.gpus[at]
        working = [a for a in gpu.here if a.computing]
        fixed = {place: a.joint for place, a in enumerate(working) if a.joint is not None}
        if fixed:
            found = self._speeds(at, working, fixed)
        else:
            found = tuple(attempt.alone[at] for attempt in working)
        for attempt, speed in zip(working, found, strict=True):
            if attempt.joint is None:
                self._go(attempt, speed)
        gpu.activity = activity(
            [a.course.demand for a in working],
            [a.speed for a in working],
            fraction=gpu.modelled.fraction,
        )
        gpu.power_w = watts(gpu.activity, gpu.modelled.idle_w, gpu.modelled.peak_w)
        gpu.note(self.now_s)

    def _speeds(self, at: int, working: list[Lived], fixed: dict[int, float]) -> tuple[float, ...]:
        return speeds(
            [a.course.demand for a in working],
            mps=all(a.mps for a in working),
            fraction=self.gpus[at].modelled.fraction,
            fixed=fixed,
        )

    def _go(self, attempt: Lived, speed: float) -> None:
        """From now on at this speed: when it will be done follows."""
        if speed == attempt.speed:
            return
        self._settle(attempt)
        attempt.speed = speed
        attempt.finish_version += 1
        if speed > 0:
            left_s = max(0.0, attempt.course.work_s - attempt.done_s)
            self._push(self.now_s + left_s / speed, attempt, None, attempt.finish_version)

    # ------------------------------------------------------------- what was seen

    def device_runs(self) -> tuple[DeviceRun, ...]:
        return tuple(
            DeviceRun(g.modelled.device.name, g.modelled.device.total_mib, tuple(g.steps))
            for g in self.gpus
        )


def course_of(
    job: TraceJob,
    start_up_s: float,
    ramp_s: float,
    hold_s: float,
    first_mib: float,
    steady_part: float,
    work_factor: float,
    nominal_start_s: float,
) -> Course:
    """The course of a job whose start-up, ramp and hold are so long.

    `job.duration_s` has a start-up of `nominal_start_s` in it. A job shorter than all that
    goes through the same stages faster: it reaches its peak before half its work is done.
    """
    nominal_s = min(nominal_start_s, job.duration_s / 2)
    work_s = max(_SHORTEST_S, (job.duration_s - nominal_s) * work_factor)
    computes_s = start_up_s * nominal_s / nominal_start_s if nominal_start_s > 0 else 0.0
    ramp_s = min(ramp_s, work_s / 2)
    steady_mib = job.steady_mib if job.steady_mib is not None else job.memory_mib * steady_part
    return Course(
        computes_s=computes_s,
        peak_s=computes_s + ramp_s,
        steady_s=computes_s + ramp_s + min(hold_s, work_s / 4),
        work_s=work_s,
        first_mib=min(first_mib, job.memory_mib),
        peak_mib=job.memory_mib,
        steady_mib=min(steady_mib, job.memory_mib),
        demand=Demand(job.smact, share_weight(job.family, job.batch_size)),
    )
