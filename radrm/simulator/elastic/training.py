"""CPU jobs of several roles in virtual time: what is run, and the record of it.

`training_loop` runs them under the daemon's own decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from radrm.config import Config
from radrm.core.records import Node, Role
from radrm.simulated.training import TaskAt, Training


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job without GPUs: submitted at `submit_s`, it ends after `steps` steps of its model.

    `roles` are as in `JobSpec`; each task needs CPUs, for its model counts them. Jobs with the same
    `fingerprint` are runs of the same program.
    """

    submit_s: float
    name: str
    training: Training
    steps: float
    roles: tuple[Role, ...]
    user: str = "user"
    priority: int = 0
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingScenario:
    """The servers, the rules, and the times of a run, in seconds.

    - `report_s`: the interval of reports: steps done, and the CPUs and the network that each task
      uses.
    - `start_s`: from a launch to its first step. `standby_s`: a job that gets another size works on
      for so long, then it stands still for `resize_s`. `save_s`: it stands still to save its work.
    - `noise`: the standard deviation of a job's speed from one report to the next, as a fraction.
      The seed draws it; the CPUs that the tasks use follow.
    - `until_s`: the run ends then, with jobs that have not ended.
    """

    nodes: tuple[Node, ...]
    config: Config = field(default_factory=Config)
    report_s: float = 10.0
    start_s: float = 0.0
    standby_s: float = 0.0
    resize_s: float = 30.0
    save_s: float = 0.0
    noise: float = 0.0
    seed: int = 0
    until_s: float = 1e7


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job's tasks were the same: steps per second, and the CPUs in use.

    `steps_s` and `cpus` are those of the model, without noise; 0 while the job stands still.
    """

    from_s: float
    until_s: float
    tasks: tuple[TaskAt, ...]
    steps_s: float
    cpus: float

    @property
    def allocated(self) -> float:
        """The CPUs that its tasks may use."""
        return sum(task.cpus for task in self.tasks)

    def count(self, role: str) -> int:
        """Return the number of tasks of a role."""
        return sum(task.role == role for task in self.tasks)


@dataclass(frozen=True, slots=True)
class TrainingJobRun:
    """A job that was run. None: it has not started, or not ended; `reason` says why.

    `resizes` counts the times when its tasks changed while it ran, `shares` the changes of CPUs
    without that, `attempts` its launches. The spans are in order.
    """

    job: TrainingJob
    started_s: float | None = None
    ended_s: float | None = None
    resizes: int = 0
    shares: int = 0
    attempts: int = 0
    spans: tuple[Span, ...] = ()
    reason: str | None = None

    @property
    def queue_s(self) -> float | None:
        """The time until its first start."""
        return None if self.started_s is None else self.started_s - self.job.submit_s

    @property
    def run_s(self) -> float | None:
        """The time from its first start to its end."""
        if self.started_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.started_s

    @property
    def jct_s(self) -> float | None:
        """The time from its submission to its end."""
        return None if self.ended_s is None else self.ended_s - self.job.submit_s


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run: its jobs in the order in which they were given."""

    jobs: tuple[TrainingJobRun, ...]
    ended_s: float

    @property
    def unfinished(self) -> int:
        """The number of jobs that have not ended."""
        return sum(each.ended_s is None for each in self.jobs)

    def mean_queue_s(self) -> float | None:
        """Return the mean time until the first start, over the jobs that have ended."""
        return _mean([each.queue_s for each in self.jobs if each.ended_s is not None])

    def mean_jct_s(self) -> float | None:
        """Return the mean time from submission to end, over the jobs that have ended."""
        return _mean([each.jct_s for each in self.jobs])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
