"""The events: everything that `step` may learn about the world.

Each carries the time of the step, on both clocks: `step` has no other clock.
Results of actions come back as events too.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Dependency,
    Device,
    Estimate,
    Exit,
    Instant,
    Job,
    JobSpec,
    OutOfMemory,
    Progress,
    Reading,
    Share,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    """Nothing happened but time."""


# ------------------------------------------------------------------ from people


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(Event):
    """A new job, PENDING, with its id and, unless `estimating`, its estimates.

    `refused` is why it cannot be run at all, where that is known already.
    """

    job: Job
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    job_id: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequested(Event):
    job_id: int
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueRequested(Event):
    """Run a job again: one that has ended (as `job` tells), or one that runs."""

    job: Job
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequested(Event):
    """Let an unfinished job be what `spec`, `estimates` and `after` say.

    `estimates` None: those that it has still hold, and so does its fingerprint.
    `estimating`: the estimators are to be asked anew, of a job that waits.
    """

    job_id: int
    spec: JobSpec
    estimates: tuple[Estimate, ...] | None
    after: tuple[Dependency, ...]
    estimating: bool = False
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested(Event):
    """Take no new job on a device (reason), or take them again (None)."""

    device: str
    reason: str | None


# ------------------------------------------------------------------ from estimators


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReady(Event):
    job_id: int
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...] = ()


# ------------------------------------------------------------------ from the devices


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesSeen(Event):
    """The whole list of devices as they are now: others have appeared or vanished."""

    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsTaken(Event):
    readings: tuple[Reading, ...]


# ------------------------------------------------------------------ from attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """`happened` is when, where the host knows that better than `at`: a record may be read long
    after it was written."""

    job_id: int
    attempt: int
    happened: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(AttemptEvent):
    """The attempt's processes exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchVoided(AttemptEvent):
    """The attempt never began and never will: as if it had not been made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(AttemptEvent):
    """The attempt's process trees are gone.

    `exits` has one entry per task. `lost` means that nobody saw the end.
    `never_started` is the reason why the command could not be run at all; `passing`
    says that it lies with the server (a full disk) and may be over soon.
    """

    exits: tuple[Exit, ...] = ()
    oom: OutOfMemory | None = None
    lost: str | None = None
    never_started: str | None = None
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsAdopted(Event):
    """What became of all attempts of an earlier life has been told. Until then, after a restart,
    no timer runs and no planner is asked: a job may have ended before its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported(AttemptEvent):
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTaken(AttemptEvent):
    """The job's state, as of `progress`, is safe."""

    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized(AttemptEvent):
    """The attempt now runs on its target placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesApplied(AttemptEvent):
    """These CPU and SM caps are now in force."""

    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed(Event):
    """An action could not be carried out; what it was to change stays as it was.

    `passing`: that lies with the server (a full disk) and may be over soon.
    """

    action: Action
    reason: str
    passing: bool = False


# ------------------------------------------------------------------ from planners


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReady(Event):
    """A slow planner's answer, stamped with the version of the view it saw."""

    planner: str
    version: int
    proposals: tuple[Proposal, ...]
