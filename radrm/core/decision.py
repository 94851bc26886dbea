"""The result of one step: records to save, then actions to do.

A record is *durable* or *volatile*. A volatile one is lost without harm: nothing that was decided
depends on it, and the next reading or report brings its figures again. Progress, usage, and a
planner's next wake-up are volatile; all else is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import Attempt, DeviceStatus, Job, Refusal, Reservation, RuleState

Record: TypeAlias = Job | Attempt | Reservation | DeviceStatus | RuleState


@dataclass(frozen=True, slots=True)
class Decision:
    """Save `changed` and `dropped`, then do `actions` in order.

    `volatile` records can be saved later, with other records. No record is both.

    `dropped` names deleted reservations (owner, device). `wake_at` is the boot-time second at
    which `step` needs a `Tick`, unless an event comes earlier; None: never.
    """

    actions: tuple[Action, ...]
    changed: tuple[Record, ...]
    dropped: tuple[tuple[str, str], ...]
    wake_at: float | None
    rejections: tuple[tuple[Proposal, Refusal], ...]
    log_lines: tuple[str, ...] = ()
    """Lines for the log about failed rules."""
    volatile: tuple[Record, ...] = ()
