"""The job of another resource manager in which a job's processes run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OuterJob:
    """Slurm's job, whose batch step waits on this server and is the runner of the attempts.

    `id` is its number and `restart` how often Slurm has run it again, so `name` is unique for ever.
    `pid`, `start_ticks` and `boot_id` name the step's process. Slurm ends it at `end_s` (wall
    clock; None: unknown). `gone`: why it ends or has ended, for users; None: it has not.
    """

    engine: str
    cluster: str
    id: str
    restart: int
    pid: int
    start_ticks: int
    boot_id: str
    end_s: float | None = None
    gone: str | None = None

    @property
    def name(self) -> str:
        """What names it for ever: `slurm:CLUSTER:ID.RESTART`."""
        return f"{self.engine}:{self.cluster}:{self.id}.{self.restart}"

    def is_run_of(self, other: OuterJob) -> bool:
        """Return whether both are the same job of Slurm, in this run or another."""
        same = self.engine, self.cluster, self.id
        return same == (other.engine, other.cluster, other.id)

    @property
    def label(self) -> str:
        """What users call it: `Slurm job 4711`."""
        return f"{self.engine.capitalize()} job {self.id}"

    @property
    def step(self) -> tuple[int, int, str]:
        """What names its step's process for ever."""
        return self.pid, self.start_ticks, self.boot_id
