"""The enumerations: states, outcomes, reasons, collocation modes. One spelling everywhere."""

from __future__ import annotations

from enum import Enum


class JobState(str, Enum):
    """The state of a job. How an attempt ended is its `Outcome`."""

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
        """True while the job waits to be started."""
        return self in _WAITING

    @property
    def live(self) -> bool:
        """True while an attempt of the job exists."""
        return self in _LIVE

    @property
    def final(self) -> bool:
        """True when the job has ended. Only a requeue leads out of such a state."""
        return self not in _WAITING and self not in _LIVE


_WAITING = frozenset({JobState.PENDING, JobState.RECOVERING})
_LIVE = frozenset({JobState.LAUNCHING, JobState.RUNNING, JobState.STOPPING})


class Outcome(str, Enum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OOM = "oom"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LOST = "lost"


class Runner(str, Enum):
    """Who runs an attempt: a process that the host starts, or one that waits for it."""

    OWN = "own"
    WAITING = "waiting"


class Cause(str, Enum):
    """Whose growth caused an out-of-memory death: the job's own, a neighbour's, or unknown."""

    OWN = "own"
    NEIGHBOUR = "neighbour"
    UNKNOWN = "unknown"


class StopReason(str, Enum):
    """Why an attempt is stopped. Each value is also the outcome that follows. Highest first."""

    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    LOST = "lost"
    PREEMPTED = "preempted"

    def overrides(self, other: StopReason) -> bool:
        """Return whether this reason replaces `other` while a stop is under way."""
        ranking = list(StopReason)
        return ranking.index(self) < ranking.index(other)


class ActionKind(str, Enum):
    """The actions about an attempt that have a deadline."""

    LAUNCH = "launch"
    CHECKPOINT = "checkpoint"
    RESIZE = "resize"
    SHARES = "shares"
    CAPS = "caps"
    KILL = "kill"


class Collocation(str, Enum):
    """How jobs share a device. A job can ask for AUTO; no placement has it."""

    AUTO = "auto"
    EXCLUSIVE = "exclusive"
    TIMESLICE = "timeslice"
    MPS = "mps"
    MIG = "mig"

    @property
    def whole_device(self) -> bool:
        """True if one job has the device to itself."""
        return self in _WHOLE_DEVICE


_WHOLE_DEVICE = frozenset({Collocation.EXCLUSIVE, Collocation.MIG})


class DeviceKind(str, Enum):
    """What a device is: a whole GPU, or a MIG instance, which is a part of one."""

    GPU = "gpu"
    MIG = "mig"


class CheckpointKind(str, Enum):
    """How a job saves its state: on a signal, and goes on; or on TERM, and leaves (EXIT)."""

    NONE = "none"
    SIGNAL = "signal"
    EXIT = "exit"


class Resizing(str, Enum):
    """How a running job gets another size, if it can: its launcher `radrun` changes its tasks
    (LIVE), or it saves its work, stops, and starts again (RESTART)."""

    NONE = "none"
    LIVE = "live"
    RESTART = "restart"


class Condition(str, Enum):
    """How a job must end before a job that follows it can start."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"

    def met_by(self, state: JobState) -> bool:
        """Return whether an end in `state` meets it. All ends but COMPLETED count as failed."""
        if self is Condition.ANY:
            return state.final
        return state.final and (state is JobState.COMPLETED) is (self is Condition.OK)


class Queue(str, Enum):
    """The queue of a job. The recovery queue is served before the main one."""

    MAIN = "main"
    RECOVERY = "recovery"


class Quantity(str, Enum):
    """What an estimate is about."""

    MEMORY = "memory"
    SMACT = "smact"
    USUAL_SMACT = "usual_smact"
    """The SM activity of most jobs here: what is assumed of one of which nothing is known."""
    DURATION = "duration"


class ReservationKind(str, Enum):
    """What a reservation is for: a live attempt, a waiting job's later start, a migration's
    target."""

    RUNNING = "running"
    BACKFILL = "backfill"
    MIGRATION = "migration"

    @property
    def planned(self) -> bool:
        """True if a planner makes such reservations, for an interval."""
        return self is ReservationKind.BACKFILL


class Unit(str, Enum):
    """What the numbers of a refusal count."""

    MIB = "MiB"
    SECONDS = "s"
    GPUS = "GPUs"
    CPUS = "CPUs"
    JOBS = "jobs"
    TASKS = "tasks"
    RESERVATIONS = "reservations"
    SM_ACTIVITY = "SM activity"
    FRACTION = "fraction"
    TIMES = "times"
