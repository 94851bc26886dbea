"""The records of jobs, attempts, devices and placements.

Every record is frozen; a change makes a new record (`changed`, or `dataclasses.replace` where
the time does not matter). Nothing here decides anything. Names end with their units: `_mib _s
_w _j`. `None` means unknown, never zero.

Records are frozen, slotted dataclasses: small in memory for 10,000 jobs, and quick to make and
compare. `radrm/jobfile/record.py` is the other mechanism, only for the classes that `radrm
submit` imports: importing `dataclasses` takes as long as the rest of `submit`.

The files, in the order in which they may import one another:
    time       moments on both clocks
    devices    GPUs and MIG instances, and their readings
    needs      the specification of a job
    estimates  predictions of a job's needs, and its progress
    placement  placements, reservations and refusals
    attempts   one launch of a job: its tasks, its usage, its end
    outer      the job of Slurm in which a job runs
    jobs       a job and its dependencies
    offers     one device as one job would find it
    use        the GPU time that users have had lately
    sharing    what times in which jobs share a device show
    user_reservations  GPUs that are reserved for users, or for maintenance
    kept       what a restart keeps
    copying    a changed copy of a record
"""

from __future__ import annotations

from radrm.core.records.attempts import (
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
from radrm.core.records.copying import changed
from radrm.core.records.devices import (
    LOCAL_NODE,
    AttemptMemory,
    Chip,
    Counters,
    Device,
    DeviceEnergy,
    EnergyPart,
    Node,
    NodeUse,
    Reading,
    UnmanagedProcess,
)
from radrm.core.records.estimates import (
    DECLARED,
    DECLARED_MARGIN,
    MEASURED,
    Estimate,
    Profiled,
    Progress,
)
from radrm.core.records.jobs import ArrayElement, Dependency, Job, Pause, Requeued
from radrm.core.records.kept import DeviceStatus, Kept, RuleState
from radrm.core.records.needs import Checkpoint, EarlySignal, JobSpec, Needs, Role
from radrm.core.records.outer import OuterJob
from radrm.core.records.placement import (
    USUAL_UNITS,
    Placement,
    Refusal,
    Reservation,
    ReservationKey,
    Share,
)
from radrm.core.records.sharing import LearnedLoss, SharedPeriod, Sharer
from radrm.core.records.time import CLOCK_SET_S, Instant
from radrm.core.records.use import RecentUses, Use, UserUse
from radrm.core.records.user_reservations import UserReservation

__all__ = [
    "CLOCK_SET_S",
    "DECLARED",
    "DECLARED_MARGIN",
    "LOCAL_NODE",
    "MEASURED",
    "USUAL_UNITS",
    "ArrayElement",
    "Attempt",
    "AttemptMemory",
    "Beside",
    "Blame",
    "Caps",
    "Checkpoint",
    "Chip",
    "Counters",
    "Dependency",
    "Device",
    "DeviceEnergy",
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
    "TaskUse",
    "UnmanagedProcess",
    "Usage",
    "Use",
    "UserReservation",
    "UserUse",
    "changed",
]
