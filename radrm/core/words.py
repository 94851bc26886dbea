"""The words: states, outcomes, reasons, ways of sharing. Each has one spelling everywhere."""

from __future__ import annotations

from enum import Enum


class JobState(str, Enum):
    """Where a job is. How it ended is its `Outcome`."""

    PENDING = "PENDING"
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    RECOVERING = "RECOVERING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"

    @property
    def waiting(self) -> bool:
        return self in (JobState.PENDING, JobState.RECOVERING)

    @property
    def live(self) -> bool:
        """True while an attempt of the job exists."""
        return self in (JobState.LAUNCHING, JobState.RUNNING, JobState.STOPPING)

    @property
    def final(self) -> bool:
        return not self.waiting and not self.live


class Outcome(str, Enum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OOM = "oom"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LOST = "lost"


class StopReason(str, Enum):
    """Why a live attempt is being stopped; each names the outcome it leads to. Highest first."""

    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    LOST = "lost"
    PREEMPTED = "preempted"

    def overrides(self, other: StopReason) -> bool:
        """Whether this reason replaces `other` while a stop is under way."""
        ranking = list(StopReason)
        return ranking.index(self) < ranking.index(other)


class Collocation(str, Enum):
    """How sharers of one device share it. AUTO is a wish, never a placement's mode."""

    AUTO = "auto"
    EXCLUSIVE = "exclusive"
    TIMESLICE = "timeslice"
    MPS = "mps"
    MIG = "mig"

    @property
    def whole_device(self) -> bool:
        """True where one job has the device to itself."""
        return self in (Collocation.EXCLUSIVE, Collocation.MIG)


class DeviceKind(str, Enum):
    GPU = "gpu"
    MIG = "mig"


class CheckpointKind(str, Enum):
    NONE = "none"
    SIGNAL = "signal"
    API = "api"


class Condition(str, Enum):
    """How a job must have ended for another to follow it."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"

    def met_by(self, state: JobState) -> bool:
        """Whether an end in `state` will do. Whatever did not complete counts as failed."""
        if self is Condition.ANY:
            return state.final
        return state.final and (state is JobState.COMPLETED) is (self is Condition.OK)


class Queue(str, Enum):
    """The recovery queue is always served before the main one."""

    MAIN = "main"
    RECOVERY = "recovery"


class Quantity(str, Enum):
    MEMORY = "memory"
    SMACT = "smact"
    DURATION = "duration"


class ReservationKind(str, Enum):
    RUNNING = "running"
    BACKFILL = "backfill"
    MIGRATION = "migration"
    MAINTENANCE = "maintenance"
