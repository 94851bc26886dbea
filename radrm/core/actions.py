"""The actions: everything that `step` can tell the host to do.

The host saves the changed records first, then does the actions. The result of an action
returns as an event.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from radrm.core.records import Caps, Placement, Share
from radrm.core.words import Runner


class Action(Struct, frozen=True, kw_only=True):
    """An instruction to the host."""


class AttemptAction(Action, frozen=True, kw_only=True):
    """An instruction about one attempt of a job, named by its serial."""

    job_id: int
    serial: int


class DueAction(AttemptAction, frozen=True, kw_only=True):
    """An instruction that the host must have carried out, or given up, at a boot time.

    Then the core gives it up, too, as if it had failed (`core/lifecycle/pending.py`).
    """

    due_boot_s: float


class Launch(AttemptAction, frozen=True, kw_only=True):
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


class Terminate(AttemptAction, frozen=True, kw_only=True):
    """Send TERM to the whole process tree."""


class Kill(AttemptAction, frozen=True, kw_only=True):
    """Send KILL to the whole process tree."""


class SendSignal(AttemptAction, frozen=True, kw_only=True):
    """Send this signal to the processes of the job that have a handler for it."""

    number: int


class TakeCheckpoint(DueAction, frozen=True, kw_only=True):
    """Tell the job to save its state now."""


class ApplyShares(DueAction, frozen=True, kw_only=True):
    """Apply new CPU and SM caps to a running attempt."""

    shares: tuple[Share, ...]


class RaiseCaps(DueAction, frozen=True, kw_only=True):
    """Have the driver enforce these memory caps of a running attempt in place of lower ones."""

    caps: Caps


class Resize(DueAction, frozen=True, kw_only=True):
    """Start and stop tasks until the attempt has its target placement.

    `generation` is the number of that placement in its attempt. `withdrawn`: undo this resize, if
    it is not done or past undoing; the answer is `ActionFailed` then, and `Resized` otherwise.
    """

    target: Placement
    generation: int = 2
    withdrawn: bool = False


class TakeReadings(Action, frozen=True, kw_only=True):
    """Read these devices now: their jobs have just changed. A reading that began at `after_s` (boot
    time) or later is one."""

    devices: tuple[str, ...]
    after_s: float


class EstimateJob(Action, frozen=True, kw_only=True):
    """Run the estimators for a job; the result is `EstimateReady`."""

    job_id: int


class Think(Action, frozen=True, kw_only=True):
    """Have a slow planner make a plan; the result is `PlanReady` with this `number`.

    The host takes the snapshot when it begins: that one is newer than the decision. `state` is
    the planner's own. `limit_s`: the time that the planner may take.
    """

    planner: str
    number: int
    state: Any = None
    limit_s: float
