"""The actions: everything that `step` may ask of the world.

The host saves the changed records first, then acts. What came of an action
comes back as an event.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Placement, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something for the host to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAction(Action):
    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(AttemptAction):
    """Start the attempt. `cap_mib` is its memory cap per GPU, None for no cap.

    `shared` says that other jobs may be on its devices, now or later.
    """

    serial: int
    placement: Placement
    cap_mib: int | None
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate(AttemptAction):
    """Ask the whole process tree to end (TERM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(AttemptAction):
    """End the whole process tree (KILL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSignal(AttemptAction):
    """Send this signal to those of the job's processes that have a handler for it."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint(AttemptAction):
    """Ask the job to save its state now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyShares(AttemptAction):
    """Put new CPU and SM caps in force on a running attempt."""

    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(AttemptAction):
    """Add or end tasks until the attempt has its target placement."""

    target: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeReadings(Action):
    """Read these devices now: something has just changed on them."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateJob(Action):
    """Run the estimators for a job; the answer is `EstimateReady`."""

    job_id: int
