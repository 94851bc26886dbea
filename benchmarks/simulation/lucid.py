"""A rule after Lucid (ASPLOS 2023), as a baseline: at most two jobs share a GPU.

The job with the least predicted work (time times GPUs) goes first, and one that finds no place
holds nobody up. It takes idle GPUs if there are enough; else it joins GPUs with one job each where
both are predicted to keep `LEAST_SPEED` of their speed, the best pairs first.

It is an oracle: it knows each job's memory, SM activity and slow-down exactly, and its duration
with an error of 30 %. No user could declare that, and no job of it runs out of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.core.words import Collocation, Outcome, Quantity
from radrm.interference.model import Demand, speeds
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.history import History
from radrm.lab.simulator.loop import Arrival, in_order
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import SimulatedAttempt, World, WorldEvent
from radrm.structs import replace

LEAST_SPEED = 0.7
DURATION_ERROR = 0.3


def lucid_like(jobs: Sequence[TraceJob], scenario: Scenario) -> Run:
    """Return the run of these jobs, sorted by time, under this rule. Jobs are time-sliced."""
    known = Known(duration=DURATION_ERROR)
    tasks = tasks_of(jobs, replace(scenario, estimator="none", known=known))
    history, world = History(jobs), World(scenario.devices)
    world.loss = scenario.loss
    loop = _Loop(world, tasks, history, scenario)
    for at, task in enumerate(tasks):
        world.at(task.job.submit_s, Arrival(at))
    for _, happened in in_order([world]):
        loop.on(happened)
    for at in history.unfinished():
        history.job_ended(at, None, "it fits no GPU")
    return history.run(world.device_runs())


@dataclass(slots=True)
class _Loop:
    world: World
    tasks: Sequence[Task]
    history: History
    scenario: Scenario

    _waiting: list[int] = field(default_factory=list)
    _work_s: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._work_s = [_duration_s(task) * task.job.gpus for task in self.tasks]

    def on(self, happened: object) -> None:
        if isinstance(happened, Arrival):
            self._waiting.append(happened.job)
            self._waiting.sort(key=lambda at: (self._work_s[at], at))
        elif isinstance(happened, WorldEvent) and happened.ended:
            now_s, attempt = self.world.now_s, happened.attempt
            died = happened.missing_mib is not None
            outcome = Outcome.OOM if died else Outcome.COMPLETED
            self.history.attempt_ended(attempt, now_s, outcome)
            self.history.job_ended(attempt.job, None if died else now_s, "memory" if died else None)
        else:
            return
        self._start()

    def _start(self) -> None:
        for job in list(self._waiting):
            places = self._places(job)
            if places is not None:
                self._waiting.remove(job)
                attempt = self.world.launch(
                    job, self.tasks[job].course, places, Collocation.TIMESLICE, mps=False
                )
                self.history.attempt_started(attempt, 0)

    def _places(self, job: int) -> tuple[int, ...] | None:
        """Return the GPUs that a job gets now; None if there are too few."""
        wanted, ranked = self.tasks[job].job.gpus, []
        for at, gpu in enumerate(self.world.gpus):
            if not gpu.attempts:
                if self.tasks[job].job.memory_mib <= gpu.room_mib:
                    ranked.append((0.0, at))
            elif len(gpu.attempts) == 1:
                (other,) = gpu.attempts
                slower = self._loss_beside(job, other)
                used_mib = other.course.peak_mib + self.tasks[job].course.peak_mib
                if slower is not None and used_mib <= gpu.room_mib:
                    ranked.append((slower, at))
        ranked.sort()
        return tuple(sorted(at for _, at in ranked[:wanted])) if len(ranked) >= wanted else None

    def _loss_beside(self, job: int, other: SimulatedAttempt) -> float | None:
        """Return what both lose of their speeds together; None if one would be too slow."""
        demands: list[Demand] = [self.tasks[job].course.demand, other.course.demand]
        found = speeds(demands, mps=False, loss=self.scenario.loss)
        return None if min(found) < LEAST_SPEED else 2.0 - sum(found)


def _duration_s(task: Task) -> float:
    return next(e.value for e in task.estimates if e.quantity is Quantity.DURATION)
