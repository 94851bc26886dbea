"""The proposals: everything that a planner can ask for.

A proposal is only a request. `constraints` checks each one against capacity, cohorts and the
job's own limits before `step` carries it out.
"""

from __future__ import annotations

from msgspec import Struct

from radrm.core.records import Placement, Share


class Proposal(Struct, frozen=True, kw_only=True):
    """A planner's request about one job."""

    job_id: int


class Start(Proposal, frozen=True, kw_only=True):
    """Launch a waiting job on this placement."""

    placement: Placement


class Preempt(Proposal, frozen=True, kw_only=True):
    """Return a running job to its queue with its saved work.

    A job that can save its work is asked to, and stopped when it has; if it has not in its time, it
    runs on. Any other is stopped at once, and must be one that may run again (`--requeue`).
    `behind`: it then waits behind all other jobs. `reason`: for the user; "" says who asked.
    """

    behind: bool = False
    reason: str = ""


class Cancel(Proposal, frozen=True, kw_only=True):
    """Stop a running job for good, for this reason."""

    reason: str


class Warn(Proposal, frozen=True, kw_only=True):
    """Warn the user of a running job, in place of the last warning of this kind.

    `kind`: an event of `--notify`. `text` is one sentence without its end; "" takes the warning
    back. `does`: what follows after `in_s` seconds, as in "it is cancelled"; "" if nothing does.
    """

    kind: str
    text: str = ""
    does: str = ""
    in_s: float | None = None


class TakeCheckpointNow(Proposal, frozen=True, kw_only=True):
    """Tell a running job to save its state."""


class Migrate(Proposal, frozen=True, kw_only=True):
    """Checkpoint a running job, stop it, and continue it on `placement`."""

    placement: Placement


class ResizeTo(Proposal, frozen=True, kw_only=True):
    """Give a running job this placement, within the counts of its roles."""

    placement: Placement


class SetShares(Proposal, frozen=True, kw_only=True):
    """Give a running job new CPU and SM caps; its devices and memory stay."""

    shares: tuple[Share, ...]


class Reserve(Proposal, frozen=True, kw_only=True):
    """Reserve devices for the waiting job `job_id`, from `start_s` to `end_s` (boot-time seconds).

    `devices` has MiB by UUID; None: the whole device. It replaces what the planner has reserved for
    the same job. Each call of the planner proposes again what it still wants: the rest ends with
    the call (`core/planning/reserving.py`).
    """

    devices: tuple[tuple[str, int | None], ...]
    start_s: float
    end_s: float


NAMES: dict[type[Proposal], str] = {
    Start: "start",
    Reserve: "reservation",
    Preempt: "preemption",
    Cancel: "cancellation",
    Warn: "warning",
    TakeCheckpointNow: "checkpoint",
    Migrate: "migration",
    ResizeTo: "resize",
    SetShares: "change of shares",
}
"""What users read: a planner proposes a start."""
