"""The records of jobs, attempts, devices and placements.

Every record is a frozen struct; a change makes a new record (`radrm.structs.replace`). Nothing here
decides anything. Names end with their units: `_mib _s _w _j`. `None` means unknown, never zero.

`radrm/jobfile/record.py` is the other mechanism, only for the classes that `radrm submit` imports:
importing `msgspec` takes as long as the rest of `submit`.

The files, in the order in which they may import one another:
    time       moments on both clocks
    devices    GPUs and MIG instances, and their readings
    needs      the specification of a job, predictions of its needs, its progress
    placement  placements, reservations and refusals
    attempts   one launch of a job: its tasks, its usage, its end
    jobs       a job, its dependencies, and the job of Slurm in which it runs
    kept       what a restart keeps: use of users, learned losses, reservations
"""

from __future__ import annotations

from radrm.core.records.attempts import (
    MISPLACED,
    Attempt,
    Beside,
    Blame,
    Caps,
    Exit,
    HostUse,
    JobWarning,
    OutOfMemory,
    Pending,
    PlannerRequest,
    Stop,
    Task,
    TaskUse,
    Usage,
)
from radrm.core.records.devices import (
    LOCAL_NODE,
    AttemptMemory,
    Chip,
    Device,
    DeviceEnergy,
    DeviceProcess,
    EnergyPart,
    Node,
    NodeUse,
    Reading,
)
from radrm.core.records.jobs import ArrayElement, Dependency, Job, OuterJob, Pause, Requeued
from radrm.core.records.kept import (
    DeviceStatus,
    Kept,
    LearnedLoss,
    RecentUses,
    RuleState,
    SharedPeriod,
    Sharer,
    Use,
    UserReservation,
    UserUse,
)
from radrm.core.records.needs import (
    DECLARED,
    DECLARED_MARGIN,
    MEASURED,
    Checkpoint,
    EarlySignal,
    Estimate,
    JobSpec,
    Needs,
    Profiled,
    Progress,
    Role,
)
from radrm.core.records.placement import (
    USUAL_UNITS,
    Placement,
    Refusal,
    Reservation,
    ReservationKey,
    Share,
    TaskId,
    by_task,
)
from radrm.core.records.time import CLOCK_SET_S, Instant, moment, plain_moment

__all__ = [
    "CLOCK_SET_S",
    "DECLARED",
    "DECLARED_MARGIN",
    "LOCAL_NODE",
    "MEASURED",
    "MISPLACED",
    "USUAL_UNITS",
    "ArrayElement",
    "Attempt",
    "AttemptMemory",
    "Beside",
    "Blame",
    "Caps",
    "Checkpoint",
    "Chip",
    "Dependency",
    "Device",
    "DeviceEnergy",
    "DeviceProcess",
    "DeviceStatus",
    "EarlySignal",
    "EnergyPart",
    "Estimate",
    "Exit",
    "HostUse",
    "Instant",
    "Job",
    "JobSpec",
    "JobWarning",
    "Kept",
    "LearnedLoss",
    "Needs",
    "Node",
    "NodeUse",
    "OutOfMemory",
    "OuterJob",
    "Pause",
    "Pending",
    "Placement",
    "PlannerRequest",
    "Profiled",
    "Progress",
    "Reading",
    "RecentUses",
    "Refusal",
    "Requeued",
    "Reservation",
    "ReservationKey",
    "Role",
    "RuleState",
    "Share",
    "SharedPeriod",
    "Sharer",
    "Stop",
    "Task",
    "TaskId",
    "TaskUse",
    "Usage",
    "Use",
    "UserReservation",
    "UserUse",
    "by_task",
    "moment",
    "plain_moment",
]
