'''The interface for rules of third parties. Import from here only: these names stay stable.

A rule is an order, a policy, a planner, an estimator or a recovery rule. It is a class with
the attributes and methods of the protocol of its kind. Make it a frozen dataclass: its fields
with defaults are its settings, which users set in the rule's table. The fields `name` and
`version` are not settings.

A package with one policy has two files. The policy, `fewest_jobs.py`:

    """Place each job on the GPUs with the fewest jobs."""

    from collections.abc import Sequence
    from dataclasses import dataclass
    from typing import Any

    from radrm.rules import Ask, Offer, Refusal

    @dataclass(frozen=True)
    class FewestJobs:
        most_jobs: int = 4
        """The largest number of jobs on one GPU."""
        floor_mib: int = 4096
        """The memory to reserve for a job of unknown need."""
        name: str = "fewest-jobs"
        version: int = 1

        @property
        def whole_device(self) -> bool:
            return False

        @property
        def overcommits(self) -> bool:
            return False

        def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
            jobs = len(offer.occupants)
            if jobs < self.most_jobs:
                return None
            why = f"{jobs} jobs are on it, most_jobs is {self.most_jobs}"
            return Refusal("jobs", why, offer.device.uuid, self.most_jobs, jobs)

        def choose(
            self, ask: Ask, eligible: Sequence[Offer], state: Any
        ) -> tuple[Sequence[Offer], Any]:
            by_jobs = sorted(eligible, key=lambda offer: len(offer.occupants))
            return by_jobs[: ask.gpus], state

And `pyproject.toml`, whose entry point gives the rule its name:

    [project]
    name = "fewest-jobs"
    version = "1.0"
    dependencies = ["radrm"]

    [project.entry-points."radrm.policies"]
    fewest-jobs = "fewest_jobs:FewestJobs"

Install the package in radrm's environment, then choose the rule in the configuration:

    policy = "fewest-jobs"
    [policies.fewest-jobs]
    most_jobs = 2

The groups of entry points are `radrm.orders`, `radrm.policies`, `radrm.planners`,
`radrm.estimators` and `radrm.recovery`.

An order inherits from `Order`. `key(job, now)` sorts the jobs. If a key depends on time, name the
time of its next change with `changes_s(job, now)`. `rank(use)` sorts users by their recent GPU
time, and `bound(job, now)` says for users which later jobs may pass a waiting one.

A planner says with `starts_jobs` whether it starts waiting jobs. Exactly one of the planners of
`planner = ["default", "mine"]` does. A planner with `think` in place of `plan` is slow: it runs in
a process of its own, and may take a minute (`CoreSettings.think_s`). It gets a `Snapshot`, whose
`view` is the `View` that other planners get.

A rule must not read the clock, files or random numbers, so that the simulator and the daemon
decide alike. Its memory between calls is its `state`: plain JSON, which it receives and
returns. The state survives a restart while `version` stays the same. If a rule raises an
exception, returns a value of a wrong type, or takes seconds, the daemon uses a default rule
for a while. It reports this in its log, `radrm explain` and `radrm doctor`. An estimator runs
outside the decisions, so these limits do not apply to it.
'''

from __future__ import annotations

from radrm.core import events
from radrm.core.constraints.kinds import Rank
from radrm.core.proposals import (
    Cancel,
    Migrate,
    Preempt,
    Proposal,
    Reserve,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
    Warn,
)
from radrm.core.records import (
    DECLARED,
    LOCAL_NODE,
    ArrayElement,
    Attempt,
    AttemptMemory,
    Beside,
    Blame,
    Checkpoint,
    Chip,
    Counters,
    Dependency,
    Device,
    EarlySignal,
    Estimate,
    Exit,
    HostUse,
    Instant,
    Job,
    JobSpec,
    JobWarning,
    Needs,
    Node,
    NodeUse,
    OuterJob,
    OutOfMemory,
    Pause,
    Pending,
    Placement,
    PlannerRequest,
    Profiled,
    Progress,
    Reading,
    RecentUses,
    Refusal,
    Requeued,
    Reservation,
    Role,
    Share,
    Stop,
    Task,
    TaskUse,
    UnmanagedProcess,
    Usage,
    Use,
    UserUse,
)
from radrm.core.rules import (
    Again,
    Ask,
    GiveUp,
    Order,
    Plan,
    Planner,
    Policy,
    Recovery,
    SlowPlanner,
)
from radrm.core.settings import CoreSettings
from radrm.core.snapshot import DeviceSnapshot, Occupant, Snapshot
from radrm.core.units import parse_mib, parse_seconds, show_mib, show_seconds
from radrm.core.view import Holder, Offer, View
from radrm.core.words import (
    ActionKind,
    Cause,
    CheckpointKind,
    Collocation,
    Condition,
    DeviceKind,
    JobState,
    Outcome,
    Quantity,
    Queue,
    ReservationKind,
    Resizing,
    StopReason,
    Unit,
)
from radrm.errors import RadrmError
from radrm.estimators.interface import Description, Estimator, PastRun

__all__ = [
    "DECLARED",
    "LOCAL_NODE",
    "ActionKind",
    "Again",
    "ArrayElement",
    "Ask",
    "Attempt",
    "AttemptMemory",
    "Beside",
    "Blame",
    "Cancel",
    "Cause",
    "Checkpoint",
    "CheckpointKind",
    "Chip",
    "Collocation",
    "Condition",
    "CoreSettings",
    "Counters",
    "Dependency",
    "Description",
    "Device",
    "DeviceKind",
    "DeviceSnapshot",
    "EarlySignal",
    "Estimate",
    "Estimator",
    "Exit",
    "GiveUp",
    "Holder",
    "HostUse",
    "Instant",
    "Job",
    "JobSpec",
    "JobState",
    "JobWarning",
    "Migrate",
    "Needs",
    "Node",
    "NodeUse",
    "Occupant",
    "Offer",
    "Order",
    "OutOfMemory",
    "Outcome",
    "OuterJob",
    "PastRun",
    "Pause",
    "Pending",
    "Placement",
    "Plan",
    "Planner",
    "PlannerRequest",
    "Policy",
    "Preempt",
    "Profiled",
    "Progress",
    "Proposal",
    "Quantity",
    "Queue",
    "RadrmError",
    "Rank",
    "Reading",
    "RecentUses",
    "Recovery",
    "Refusal",
    "Requeued",
    "Reservation",
    "ReservationKind",
    "Reserve",
    "ResizeTo",
    "Resizing",
    "Role",
    "SetShares",
    "Share",
    "SlowPlanner",
    "Snapshot",
    "Start",
    "Stop",
    "StopReason",
    "TakeCheckpointNow",
    "Task",
    "TaskUse",
    "Unit",
    "UnmanagedProcess",
    "Usage",
    "Use",
    "UserUse",
    "View",
    "Warn",
    "events",
    "parse_mib",
    "parse_seconds",
    "show_mib",
    "show_seconds",
]
