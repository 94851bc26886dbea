"""The records: what radrm knows of jobs, attempts, devices and placements.

Every record is frozen; a change is a new record (`dataclasses.replace`). Nothing
here decides anything. Units stand in the names: `_mib _s _w _j`. `None` means
"not known", never zero.

The files, in the order in which they may import one another:
    time       moments on both clocks
    devices    GPUs and MIG instances, and what is read of them
    needs      what a job asks for
    estimates  what a job will need, and how far it has got
    placement  which devices an attempt has, what is reserved there, and why not others
    attempts   one launch of a job: its tasks, its usage, its end
    jobs       a job, and why it waits
    kept       what is kept of devices and rules over a restart
"""

from __future__ import annotations

from radrm.core.records.attempts import Attempt, Exit, OutOfMemory, Stop, Task, Usage
from radrm.core.records.devices import LOCAL_NODE, AttemptMemory, Device, Reading, Stranger
from radrm.core.records.estimates import DECLARED, Estimate, Progress
from radrm.core.records.jobs import ArrayElement, Dependency, Job, Pause, Requeued
from radrm.core.records.kept import DeviceStatus, RuleState
from radrm.core.records.needs import Checkpoint, EarlySignal, JobSpec, Needs, Role
from radrm.core.records.placement import Placement, Refusal, Reservation, Share
from radrm.core.records.time import Instant

__all__ = [
    "DECLARED",
    "LOCAL_NODE",
    "ArrayElement",
    "Attempt",
    "AttemptMemory",
    "Checkpoint",
    "Dependency",
    "Device",
    "DeviceStatus",
    "EarlySignal",
    "Estimate",
    "Exit",
    "Instant",
    "Job",
    "JobSpec",
    "Needs",
    "OutOfMemory",
    "Pause",
    "Placement",
    "Progress",
    "Reading",
    "Refusal",
    "Requeued",
    "Reservation",
    "Role",
    "RuleState",
    "Share",
    "Stop",
    "Stranger",
    "Task",
    "Usage",
]
