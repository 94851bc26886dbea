"""The events: everything that `step` can learn.

Each event holds the time of its step on both clocks, since `step` reads no clock. Results of
actions are events too.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Caps,
    Dependency,
    Device,
    Estimate,
    Exit,
    HostUse,
    Instant,
    Job,
    JobSpec,
    Kept,
    Node,
    OutOfMemory,
    Placement,
    Profiled,
    Progress,
    Reading,
    Share,
    UserReservation,
)
from radrm.core.words import StopReason


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened. `at`: the time of the step that handles it."""

    at: Instant


class Tick(Event, frozen=True, kw_only=True):
    """Only time has passed."""


# ------------------------------------------------------------------ a restart


class Restored(Event, frozen=True, kw_only=True):
    """The stored records of an earlier daemon. The first event, if there are any."""

    kept: Kept


class AttemptsAdopted(Event, frozen=True, kw_only=True):
    """All attempts of an earlier daemon have been reported. It ends a restart.

    Before it no timer runs and no planner is called: a job may have ended before its limit.
    """


class ActionsDelayed(Event, frozen=True, kw_only=True):
    """Earlier actions begin only now, after an outage of the store; so do their deadlines."""


# ------------------------------------------------------------------ from users


class JobSubmitted(Event, frozen=True, kw_only=True):
    """A new job, PENDING, with its id and, unless `estimating`, its estimates.

    `refused` is why it can never run, if the host knows that already; else None.
    """

    job: Job
    refused: str | None = None


class CancelRequested(Event, frozen=True, kw_only=True):
    """A user cancels a job. `by`: the user's name."""

    job_id: int
    by: str


class OuterGone(Event, frozen=True, kw_only=True):
    """A job's outer job ends, since `happened` (None: now). `why`: the reason for users."""

    job_id: int
    reason: StopReason
    why: str
    happened: Instant | None = None


class HoldRequested(Event, frozen=True, kw_only=True):
    """A user holds (True) or releases (False) a waiting job."""

    job_id: int
    held: bool


class RequeueRequested(Event, frozen=True, kw_only=True):
    """A user has a job run again that the core may have forgotten. `from_start`: it begins anew."""

    job: Job
    by: str
    from_start: bool = False


class CheckpointRequested(Event, frozen=True, kw_only=True):
    """A user has a running job save its work. `by`: the user's name."""

    job_id: int
    by: str


class MigrateRequested(Event, frozen=True, kw_only=True):
    """A user has a running job save its work and go on elsewhere.

    `device`: only there, by UUID; None: where the policy chooses. `by`: the user's name.
    """

    job_id: int
    by: str
    device: str | None = None


class ResizeRequested(Event, frozen=True, kw_only=True):
    """A user gives a running job another number of tasks. `by`: the user's name.

    `counts` has the tasks of each role that changes; the others keep theirs.
    """

    job_id: int
    by: str
    counts: tuple[tuple[str, int], ...]


class EditRequested(Event, frozen=True, kw_only=True):
    """A user changes an unfinished job's `spec`, `estimates` and `after`.

    `estimates` None: its estimates, fingerprint and profile stay. `estimating`: run the estimators
    again; only for a waiting job.
    """

    job_id: int
    spec: JobSpec
    estimates: tuple[Estimate, ...] | None
    after: tuple[Dependency, ...]
    estimating: bool = False
    fingerprint: str | None = None
    profile: tuple[Profiled, ...] = ()


class DrainRequested(Event, frozen=True, kw_only=True):
    """A user drains a device (`reason`), or resumes it (None)."""

    device: str
    reason: str | None


class ReserveRequested(Event, frozen=True, kw_only=True):
    """A user reserves devices. `reservation` gets its id from the core (`UserReservations`)."""

    reservation: UserReservation


class UnreserveRequested(Event, frozen=True, kw_only=True):
    """A user ends a reservation. `by`: the user's name."""

    reservation_id: int
    by: str


# ------------------------------------------------------------------ from estimators


class EstimateReady(Event, frozen=True, kw_only=True):
    """The estimators have answered. `notes`: why some of them gave no estimate."""

    job_id: int
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...] = ()


class PredictionsReady(Event, frozen=True, kw_only=True):
    """Waiting jobs are predicted again, since runs of the same thing have ended.

    `estimates`: SM activity and duration of each of these jobs, by id. Other quantities stay.
    `profiles`: the run times of such jobs on the kinds of GPUs for which they are known, by id.
    """

    estimates: tuple[tuple[int, tuple[Estimate, ...]], ...]
    profiles: tuple[tuple[int, tuple[Profiled, ...]], ...] = ()


# ------------------------------------------------------------------ from the devices


class DevicesSeen(Event, frozen=True, kw_only=True):
    """The complete list of devices now. A device that is not in it has vanished."""

    devices: tuple[Device, ...]


class NodesSeen(Event, frozen=True, kw_only=True):
    """The CPUs and the host memory that jobs can have. An unlisted node's are unknown."""

    nodes: tuple[Node, ...]


class ReadingsTaken(Event, frozen=True, kw_only=True):
    """New readings of some devices."""

    readings: tuple[Reading, ...]


# ------------------------------------------------------------------ from attempts


class AttemptEvent(Event, frozen=True, kw_only=True):
    """Something happened to one attempt of a job, named by its serial.

    Its number would not do: it comes again after a void launch. `happened`: the time in the
    attempt's own record, which can be long before `at`. None: `at`.
    """

    job_id: int
    serial: int
    happened: Instant | None = None


class AttemptStarted(AttemptEvent, frozen=True, kw_only=True):
    """The attempt's processes exist. `cpu_list`: the CPUs that they are bound to; None: none."""

    cpu_list: str | None = None


class LaunchVoided(AttemptEvent, frozen=True, kw_only=True):
    """The attempt never started and never will. It does not count.

    `reason`: why, if that concerns this launch alone, as its GPU's MPS; None: unknown.
    """

    reason: str | None = None


class AttemptEnded(AttemptEvent, frozen=True, kw_only=True):
    """All processes of the attempt have ended.

    `exits` has one entry per task, or is empty. `lost` is why the end is unknown. `never_started`
    is why the command could not be started; `exits` are then those of a shell, if its program could
    not be run. `transient`: that reason lies with the server (a full disk) and can be over soon.
    `failure`: the attempt has failed for this reason, whatever its exit codes. That reason is never
    GPU out-of-memory. `saved` is the progress that the job has proven to have saved; None: none.
    `saved_since_asked`: a file in its checkpoint folder is newer than the last request to save.
    `host_oom`: the role of a task that died at the job's limit of host memory; None: none did.
    `hint`: what its output says that its user can change. `excuse`: why a failure lies with the
    GPU's MPS server or driver, or with the file system of its user, and can be over soon; None: it
    does not, as far as is known.
    `beside`: no, with another process on the GPU, if there was one.
    `fault`: that was a fault of the server, which one of its clients caused; nobody knows which.
    `left`: what still ran when the main process had ended, and was ended; None: nothing.
    `itself`: when the main process ended without a stop; the rest may last some seconds more.
    """

    exits: tuple[Exit, ...] = ()
    oom: OutOfMemory | None = None
    lost: str | None = None
    never_started: str | None = None
    transient: bool = False
    failure: str | None = None
    saved: Progress | None = None
    saved_since_asked: bool = False
    host_oom: str | None = None
    hint: str | None = None
    excuse: str | None = None
    beside: bool = False
    fault: bool = False
    left: str | None = None
    itself: Instant | None = None


class ProgressReported(AttemptEvent, frozen=True, kw_only=True):
    """The job has reported its progress."""

    progress: Progress


class SilenceReported(AttemptEvent, frozen=True, kw_only=True):
    """The job's logs have not changed since `happened`; `at`, if they have changed just now.

    Only for jobs with a silent limit. That nothing is reported says nothing.
    """


class StepsReported(AttemptEvent, frozen=True, kw_only=True):
    """A program of the job has done so many optimizer steps since it began. A hint: any process of
    its user can say so."""

    steps: float


class HostUsed(Event, frozen=True, kw_only=True):
    """What live attempts have used of the server so far: (job id, serial, use) of each."""

    uses: tuple[tuple[int, int, HostUse], ...]


class CheckpointTaken(AttemptEvent, frozen=True, kw_only=True):
    """The job has saved its state, as of `progress`; None: it is not known how far it was."""

    progress: Progress | None = None


class Resized(AttemptEvent, frozen=True, kw_only=True):
    """The attempt runs on this placement, the target of `Resize`.

    `generation`: that of the `Resize`; None: the last one. `cpu_list`: the CPUs that it is bound to
    now; None: none.
    """

    target: Placement
    generation: int | None = None
    cpu_list: str | None = None


class SharesApplied(AttemptEvent, frozen=True, kw_only=True):
    """These CPU and SM caps apply now."""

    shares: tuple[Share, ...]


class CapsRaised(AttemptEvent, frozen=True, kw_only=True):
    """The driver enforces these memory caps now."""

    caps: Caps


class CapsRefused(AttemptEvent, frozen=True, kw_only=True):
    """The driver enforces no memory cap of the attempt, for this reason."""

    reason: str


class ActionFailed(Event, frozen=True, kw_only=True):
    """An action failed and has changed nothing. Late for an action that is not pending any more.

    `transient`: the reason lies with the server (a full disk) and can be over soon. `stops`, of a
    `Resize`: what the attempt holds is not certain, so it is stopped (PREEMPTED), with this reason;
    until its end it keeps both placements.
    """

    action: Action
    reason: str
    transient: bool = False
    stops: bool = False


# ------------------------------------------------------------------ from planners


class PlanReady(Event, frozen=True, kw_only=True):
    """A slow planner's answer to `Think` number `number`, or why there is none (`error`).

    `version`: of the snapshot that it saw. `state` and `wake_at` are those of its `Plan`.
    """

    planner: str
    version: int
    proposals: tuple[Proposal, ...] = ()
    number: int = 0
    state: Any = None
    wake_at: float | None = None
    error: str | None = None
