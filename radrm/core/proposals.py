"""The proposals: everything that a planner may want.

A proposal is only a wish. `validation` checks each against capacity, cohorts and
the job's own limits, whoever made it, before `step` does anything about it.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Placement, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    job_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Proposal):
    """Launch a waiting job here."""

    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt(Proposal):
    """Stop a running job and put it back in its queue, with its saved work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpointNow(Proposal):
    """Have a running job save its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate(Proposal):
    """Checkpoint a running job, stop it, and go on at `placement`."""

    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeTo(Proposal):
    """Let a running job have this placement, within its roles' counts."""

    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class SetShares(Proposal):
    """New CPU and SM caps for a running job; devices and memory stay."""

    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopeless(Proposal):
    """This waiting job can never run here, and this is why."""

    reason: str
