"""A running attempt of a job without GPUs: its tasks, its speed, and what it has done and used."""

from __future__ import annotations

from dataclasses import dataclass, field

from radrm.core.records import HostUse, Instant, Placement, TaskUse
from radrm.simulated.training import Rates, TaskAt
from radrm.simulator.elastic.training import Span, TrainingJob

_NOTHING = Rates(0.0, (), ())


@dataclass(slots=True, eq=False)
class LiveTraining:
    """An attempt of the job at place `at` of the trace.

    `done` counts steps. `factor`: the speed in this interval, as a multiple of the model's.
    `stops`: the reasons why it stands still. `version` counts the changes of its speed. `cpu_s` is
    the CPU time of each of its tasks, `before_cpu_s` that of tasks which have ended.
    """

    at: int
    serial: int
    job: TrainingJob
    done: float
    since_s: float
    span_s: float
    tasks: tuple[TaskAt, ...] = ()
    rates: Rates = _NOTHING
    cpu_s: list[float] = field(default_factory=list)
    before_cpu_s: float = 0.0
    factor: float = 1.0
    stops: int = 0
    version: int = 0
    over: bool = False
    spans: list[Span] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Its steps per second now."""
        return 0.0 if self.stops else self.rates.steps_s * self.factor

    @property
    def left(self) -> float:
        """The steps that are not done."""
        return max(0.0, self.job.steps - self.done)

    def run_on(self, placement: Placement, now_s: float, anew: bool) -> None:
        """Run on a placement from now on; `anew`: all its tasks are new processes."""
        self.add_up(now_s)
        self._end_span(now_s)
        needs = {role.name: role.needs.cpus for role in self.job.roles}
        self.tasks = tuple(
            TaskAt(s.role, s.task, s.cpus or needs[s.role] or 1.0, s.node) for s in placement.shares
        )
        self.rates = self.job.training.rates(self.tasks)
        if anew:
            self.before_cpu_s += sum(self.cpu_s)
            self.cpu_s = [0.0] * len(self.tasks)

    def stand(self, stops: int, now_s: float) -> None:
        """Stand still for so many reasons from now on, or go on."""
        self.add_up(now_s)
        if (stops > 0) is not (self.stops > 0):
            self._end_span(now_s)
        self.stops = stops

    def add_up(self, now_s: float) -> None:
        """Add up the steps and the CPU time since the last change."""
        passed_s, self.since_s = now_s - self.since_s, now_s
        self.done += self.speed * passed_s
        if not self.stops:
            for number, (used, task) in enumerate(zip(self.rates.cpus, self.tasks, strict=True)):
                self.cpu_s[number] += min(used * self.factor, task.cpus) * passed_s

    def _end_span(self, now_s: float) -> None:
        if now_s > self.span_s:
            speed = 0.0 if self.stops else self.rates.steps_s
            cpus = 0.0 if self.stops else sum(self.rates.cpus)
            self.spans.append(Span(self.span_s, now_s, self.tasks, speed, cpus))
        self.span_s = now_s

    def use(self, now: Instant) -> HostUse:
        """Return what it has used until now, also each task."""
        busy = 0.0 if self.stops else self.factor
        tasks = tuple(
            TaskUse(task.role, task.number, cpu_s, network=min(1.0, network * busy))
            for task, cpu_s, network in zip(self.tasks, self.cpu_s, self.rates.network, strict=True)
        )
        return HostUse(at=now, cpu_s=self.before_cpu_s + sum(self.cpu_s), tasks=tasks)
