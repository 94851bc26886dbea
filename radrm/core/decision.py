"""The result of one step: records to save, then actions to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Attempt,
    DeviceStatus,
    Job,
    Refusal,
    Reservation,
    ReservationKey,
    RuleState,
)

Record: TypeAlias = Job | Attempt | Reservation | DeviceStatus | RuleState


@dataclass(frozen=True, slots=True)
class Decision:
    """Save `changed` and `dropped`, then do `actions` in order.

    `dropped` has the keys of deleted reservations. `wake_at` is the boot-time second at
    which `step` needs a `Tick`, unless an event comes earlier; None: never.
    """

    actions: tuple[Action, ...]
    changed: tuple[Record, ...]
    dropped: tuple[ReservationKey, ...]
    wake_at: float | None
    rejections: tuple[tuple[Proposal, Refusal], ...]
    log_lines: tuple[str, ...] = ()
    """Lines for the log about failed rules."""
