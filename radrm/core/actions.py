"""The actions: everything that `step` can tell the host to do.

The host saves the changed records first, then does the actions. The result of an action
returns as an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from radrm.core.records import Caps, Placement, Share
from radrm.core.words import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An instruction to the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAction(Action):
    """An instruction about one attempt of a job, named by its serial."""

    job_id: int
    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueAction(AttemptAction):
    """An instruction that the host must have carried out, or given up, at a boot time.

    Then the core gives it up, too, as if it had failed (`core/lifecycle/pending.py`).
    """

    due_boot_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(AttemptAction):
    """Start the attempt. `cap_mib` is its memory cap per GPU; None: no cap.

    `number` is the attempt's number, for users. `shared`: other jobs can be on its devices, now
    or later. `caps`: those that the driver enforces on its devices; the others are without.
    `runner`: who runs it; for a job with an outer job, its step.
    """

    number: int
    placement: Placement
    cap_mib: int | None
    shared: bool
    caps: Caps = ()
    runner: Runner = Runner.OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate(AttemptAction):
    """Send TERM to the whole process tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(AttemptAction):
    """Send KILL to the whole process tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSignal(AttemptAction):
    """Send this signal to the processes of the job that have a handler for it."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint(DueAction):
    """Tell the job to save its state now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyShares(DueAction):
    """Apply new CPU and SM caps to a running attempt."""

    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseCaps(DueAction):
    """Have the driver enforce these memory caps of a running attempt in place of lower ones."""

    caps: Caps


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(DueAction):
    """Start and stop tasks until the attempt has its target placement.

    `generation` is the number of that placement in its attempt. `withdrawn`: undo this resize, if
    it is not done or past undoing; the answer is `ActionFailed` then, and `Resized` otherwise.
    """

    target: Placement
    generation: int = 2
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeReadings(Action):
    """Read these devices now: their jobs have just changed."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateJob(Action):
    """Run the estimators for a job; the result is `EstimateReady`."""

    job_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Think(Action):
    """Have a slow planner make a plan; the result is `PlanReady` with this `number`.

    The host takes the snapshot when it begins: that one is newer than the decision. `state` is
    the planner's own. `limit_s`: the time that the planner may take.
    """

    planner: str
    number: int
    state: Any = field(default=None, repr=False)
    limit_s: float
