"""radrm's own loop with jobs on GPUs that get another size while they run.

Theory of operation
-------------------
An elastic job has a worker on each GPU; `traces.steps` says how long a step takes with so many.
Its work is measured in seconds at the smallest size, so a larger size only changes its pace.

A resize takes `standby_s` and `resize_s` of the scenario (`simulator.loop`). At its end the old
workers save and leave, and the new ones take the memory of their GPUs. The core learns that it is
done (`Resized`), and only then may the GPUs that are given back get other jobs. With
`life.restarts` the core has a job save, stop and start at its new size instead.

New CPUs apply at once. A job waits for its worker with the fewest.

Each worker counts its CPU time anew after a resize: it is a new process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Exit, HostUse, Job, OutOfMemory, Progress, Share, TaskUse
from radrm.core.rules import Rules
from radrm.core.settings import CoreSettings
from radrm.core.words import Resizing
from radrm.interference.model import Demand
from radrm.lab.simulator.courses import Course, Task
from radrm.lab.simulator.estimates import AutoEstimates
from radrm.lab.simulator.history import History
from radrm.lab.simulator.loop import ResizingLoop
from radrm.lab.simulator.reporting import CpuWorld, ReportingLoop
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.scheduling import SIGNATURE
from radrm.lab.simulator.traces.job import StepTimes, TraceJob, step_times
from radrm.lab.simulator.world import SimulatedAttempt, Stage, World
from radrm.structs import replace

# ------------------------------------------------------------------
# A server whose attempts can change their devices and their pace while they run.


class ElasticWorld(CpuWorld):
    """The server. An attempt keeps its work and its memory of each device when its size changes."""

    def move(
        self, attempt: SimulatedAttempt, devices: tuple[int, ...], pace: float, course: Course
    ) -> float | None:
        """Let an attempt that stands still go on with these devices, at this pace.

        Returns None, or the size of the request that fails: then a new device lacks the memory, and
        the attempt has ended.
        """
        gone = [at for at in attempt.devices if at not in devices]
        new = [at for at in devices if at not in attempt.devices]
        held_mib = attempt.held_mib
        self._leave(attempt, gone)
        if any(self.gpus[at].used_mib + held_mib > self.gpus[at].capacity_mib for at in new):
            attempt.devices = tuple(at for at in attempt.devices if at not in gone)
            self.end(attempt)
            return held_mib
        attempt.devices = devices
        for at in new:
            gpu = self.gpus[at]
            gpu.attempts[attempt] = None
            gpu.used_mib += held_mib
            gpu.note(self.now_s)
        self._settle_again(attempt, new)
        self.retime(attempt, pace, course)
        if attempt.computing:
            self._update_speeds([*gone, *devices])
        return None

    def retime(self, attempt: SimulatedAttempt, pace: float, course: Course) -> None:
        """Let an attempt compute at this pace from now on, with the demand of this course."""
        changes_demand = course.demand != attempt.course.demand
        attempt.pace, attempt.course = pace, course
        if attempt.computing and changes_demand:
            self._update_speeds(attempt.devices)
        speed = attempt.speed
        if speed > 0:  # its end moves, too
            self._go_at(attempt, 0.0)
            self._go_at(attempt, speed)

    def _leave(self, attempt: SimulatedAttempt, gone: list[int]) -> None:
        for at in gone:
            gpu = self.gpus[at]
            del gpu.attempts[attempt]
            attempt.alone.pop(at, None)
            gpu.used_mib -= attempt.held_mib
            if not gpu.attempts:
                gpu.used_mib = gpu.simulated.unmanaged_mib  # drop the rounding errors
            gpu.note(self.now_s)

    def _settle_again(self, attempt: SimulatedAttempt, new: list[int]) -> None:
        """Report it when the memory on new devices has been the same for long enough."""
        if new and self._settle_s is not None:
            self._reach(attempt, Stage.SETTLED, self.now_s + self._settle_s)


_REPORT_S = 10.0
"""The seconds between two reports of a job whose trace does not say."""


class _Workers(Struct, eq=False):
    """The workers of an attempt: their step, their numbers, and the CPUs of the poorest (None:
    unknown). `since_s` is the work that was done when they began, `cpu_s` the CPU time that those
    before them have used."""

    steps: StepTimes
    numbers: tuple[int, ...] = ()
    cpus: float | None = None
    since_s: float = 0.0
    cpu_s: float = 0.0

    def begin(self, shares: Sequence[Share], done_s: float) -> None:
        """Begin new workers, after this much work of the job."""
        self.cpu_s += self.count * (self.cpu_s_of_each(done_s) or 0.0)
        self.numbers = tuple(dict.fromkeys(share.task for share in shares))
        self.cpus, self.since_s = _fewest_cpus(shares), done_s

    def cpu_s_of_each(self, done_s: float) -> float | None:
        """Return the CPU time that each worker has used since it began; None if unknown."""
        return self.steps.cpu_s((done_s - self.since_s) / self.steps.least_size_s)

    @property
    def count(self) -> int:
        return len(self.numbers)

    @property
    def pace(self) -> float:
        return self.steps.pace(self.count, self.cpus)


class ElasticLoop(ReportingLoop, ResizingLoop[SimulatedAttempt]):
    """The servers of a scenario, with jobs that grow and shrink."""

    def __init__(
        self,
        scenario: Scenario,
        rules: Rules,
        settings: CoreSettings,
        tasks: Sequence[Task],
        history: History,
        auto: AutoEstimates | None = None,
    ) -> None:
        super().__init__(scenario, rules, settings, tasks, history, auto)
        self._standby_s, self._resize_s = self._life.standby_s, self._life.resize_s
        self._workers: dict[SimulatedAttempt, _Workers] = {}

    def _make_world(self, settle_s: float) -> World:
        found = self._scenario
        self._elastic_world = ElasticWorld(
            found.devices, settle_s, found.cpus, found.cpus_per_device
        )
        self._cpu_world = self._elastic_world
        return self._elastic_world

    # ------------------------------------------------------------- jobs

    def _job(self, position: int) -> Job:
        job = super()._job(position)
        if not self._tasks[position].job.elastic:
            return job
        how = Resizing.RESTART if self._life.restarts else Resizing.LIVE
        return replace(job, spec=replace(job.spec, resizing=how))

    def _can_save(self, job: TraceJob) -> bool:
        return super()._can_save(job) or (job.elastic and self._life.restarts)

    def _wants(self, job: TraceJob) -> float | None:
        return None if job.elastic else super()._wants(job)

    def _report_s(self, job: TraceJob) -> float | None:
        return (job.report_s or _REPORT_S) if job.elastic else super()._report_s(job)

    # ------------------------------------------------------------- actions of the core

    def _launch(self, action: act.Launch) -> None:
        super()._launch(action)
        attempt, steps = self._live[action.job_id], step_times(self._traced(action.job_id))
        if steps is not None:
            self._workers[attempt] = workers = _Workers(steps)
            workers.begin(action.placement.shares, attempt.begun_s)
            self._elastic_world.retime(attempt, workers.pace, self._course_of(attempt))

    def _course_of(self, attempt: SimulatedAttempt) -> Course:
        """Return the attempt's course with the SM activity of its present size."""
        workers, course = self._workers[attempt], attempt.course
        times = workers.steps.activity(workers.count, workers.cpus)
        smact = min(1.0, self._traced(attempt.job + 1).smact * times)
        return replace(course, demand=Demand(smact, course.demand.weight))

    def _set_shares(self, attempt: SimulatedAttempt, shares: tuple[Share, ...]) -> None:
        super()._set_shares(attempt, shares)
        workers = self._workers.get(attempt)
        if workers is not None:
            workers.cpus = _fewest_cpus(shares)
            self._elastic_world.retime(attempt, workers.pace, self._course_of(attempt))

    # ------------------------------------------------------------- resizes

    def _why_no_resize(self, action: act.Resize) -> str | None:
        several = len({share.node for share in action.target.shares}) > 1
        return "its workers would be on several servers" if several else None

    def _finish_resize(self, attempt: SimulatedAttempt, action: act.Resize) -> None:
        shares, before = action.target.shares, attempt.devices
        devices = tuple(self._place[uuid] for uuid in action.target.devices)
        workers = self._workers[attempt]
        if self._can_save(self._traced(action.job_id)):
            self._saved[action.job_id] = attempt.work.value
        workers.begin(shares, attempt.work.value)
        missing_mib = self._elastic_world.move(
            attempt, devices, workers.pace, self._course_of(attempt)
        )
        if missing_mib is not None:
            self._ended(attempt, (Exit(code=1),), OutOfMemory(SIGNATURE, ceil(missing_mib)))
            return
        self._stand_still(attempt, False)
        self._reserved[action.job_id] = max((s.reserved_mib for s in shares), default=0)
        self._history.attempt_resized(attempt, before, self._world.now_s)
        self._tell(ev.Resized, attempt, target=action.target, generation=action.generation)
        new = [at for at in devices if at not in before]
        self._read(new)
        self._look_again(new, self._settings.smact_warm_s)
        gone = [at for at in before if at not in devices]
        self._look_again(gone, self._settings.smact_after_exit_s)

    def _ended(
        self, attempt: SimulatedAttempt, exits: tuple[Exit, ...], oom: OutOfMemory | None
    ) -> None:
        self._workers.pop(attempt, None)
        super()._ended(attempt, exits, oom)

    # ------------------------------------------------------------- reports

    def _host_use(self, attempt: SimulatedAttempt) -> HostUse:
        use, workers = super()._host_use(attempt), self._workers.get(attempt)
        if workers is None:
            return use
        each = workers.cpu_s_of_each(attempt.work.add_up(self._world.now_s))
        total = None if each is None else workers.cpu_s + workers.count * each
        tasks = tuple(TaskUse("main", number, cpu_s=each) for number in workers.numbers)
        return replace(use, cpu_s=total, tasks=tasks)

    def _progress(self, attempt: SimulatedAttempt) -> Progress:
        progress, workers = super()._progress(attempt), self._workers.get(attempt)
        if workers is None:
            return progress
        step_s = workers.steps.least_size_s
        return replace(
            progress,
            step=attempt.work.value / step_s,
            total=attempt.course.work_s / step_s,
            data_wait=workers.steps.data_wait(workers.count, workers.cpus),
        )


def _fewest_cpus(shares: Sequence[Share]) -> float | None:
    return min((share.cpus for share in shares if share.cpus is not None), default=None)
