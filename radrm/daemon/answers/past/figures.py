"""The figures of one row of a report. docs/reports.md says what each means."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.words import JobState
from radrm.daemon.views.documents import Document
from radrm.host.storage.ended import PastJob

_J_PER_KWH = 3.6e6


@dataclass(slots=True)
class Figures:
    """Sums; energy in joules. `waited_s` is that of the `started` jobs together."""

    jobs: int = 0
    completed: int = 0
    failed: int = 0
    timeout: int = 0
    cancelled: int = 0
    started: int = 0
    waited_s: float = 0.0
    oom: int = 0
    gpu_s: float = 0.0
    joules: float = 0.0
    cost: float = 0.0
    idle_j: float = 0.0
    """Energy of a GPU, or in a day, while no job was there."""
    user: str | None = None
    """Whose job it is, in a row of one job."""

    def end(self, job: PastJob) -> None:
        """Add a job that has ended."""
        self.jobs += 1
        self.completed += job.state is JobState.COMPLETED
        self.failed += job.state is JobState.FAILED
        self.timeout += job.state is JobState.TIMEOUT
        self.cancelled += job.state is JobState.CANCELLED
        waited_s = job.waited_s
        if waited_s is not None:
            self.started += 1
            self.waited_s += max(0.0, waited_s)

    @property
    def empty(self) -> bool:
        """True if nothing was added up."""
        return not any(getattr(self, name) for name in _SUMS)

    def add(self, other: Figures) -> None:
        """Add all sums of another row."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def document(self) -> Document:
        """As JSON; `waited_s` is the mean, null where no job has started."""
        return {
            "jobs": self.jobs,
            "completed": self.completed,
            "failed": self.failed,
            "timeout": self.timeout,
            "cancelled": self.cancelled,
            "oom_deaths": self.oom,
            "waited_s": self.waited_s / self.started if self.started else None,
            "gpu_s": self.gpu_s,
            "kwh": self.joules / _J_PER_KWH,
            "cost": self.cost,
        }


_SUMS = tuple(name for name in Figures.__dataclass_fields__ if name != "user")
