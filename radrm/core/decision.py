"""The result of one step: records to save, then actions to do; and what collects it.

A record is *durable* or *volatile*. A volatile one is lost without harm: nothing that was decided
depends on it, and the next reading or report brings its figures again. Progress, usage, a
device's idle power and a planner's next wake-up are volatile; all else is durable.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

from radrm.core.actions import Action
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Attempt,
    DeviceEnergy,
    DeviceStatus,
    Instant,
    Job,
    Refusal,
    Reservation,
    ReservationKey,
    RuleState,
    UserReservation,
)

Record: TypeAlias = Job | Attempt | Reservation | DeviceStatus | RuleState | UserReservation


class Warned(Struct, frozen=True):
    """What the user of a job is told at once: `text` is one sentence.

    `kind`: an event of `--notify`, `idle`, `silent`, `misplaced` or `held`. About an array,
    `job_id` is that of any element. The host saves it with the decision.
    """

    job_id: int
    kind: str
    text: str


class Decision(Struct, frozen=True):
    """Save `changed` and `dropped`, then do `actions` in order.

    `volatile` records can be saved later, with other records. No record is both. So can `energy`,
    which was used since the last decision that has any.

    `dropped` has the keys of deleted reservations. `wake_at` is the boot-time second at
    which `step` needs a `Tick`, unless an event comes earlier; None: never.
    """

    actions: tuple[Action, ...]
    changed: tuple[Record, ...]
    dropped: tuple[ReservationKey, ...]
    wake_at: float | None
    rejections: tuple[tuple[Proposal, Refusal], ...]
    log_lines: tuple[str, ...] = ()
    """Lines for the log about failed rules and doubted devices."""
    volatile: tuple[Record, ...] = ()
    energy: tuple[DeviceEnergy, ...] = ()
    warned: tuple[Warned, ...] = ()


class Step(Struct):
    """What the current step has done so far."""

    now: Instant
    actions: list[Action] = field(default_factory=list)
    changed: dict[tuple[str, object], Record] = field(default_factory=dict)
    volatile: dict[tuple[str, object], Record] = field(default_factory=dict)
    """Records that changed in volatile figures only. None of them is in `changed`."""
    dropped: dict[ReservationKey, None] = field(default_factory=dict)
    energy: list[DeviceEnergy] = field(default_factory=list)
    warned: list[Warned] = field(default_factory=list)
    rejections: list[tuple[Proposal, Refusal]] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    """Jobs that ended in this step and whose followers are not settled yet."""
    log_lines: list[str] = field(default_factory=list)
    planner: str | None = None
    """The planner whose proposal is carried out now."""

    def decision(self, wake_at: float | None, log_lines: tuple[str, ...]) -> Decision:
        """Return the step's result."""
        return Decision(
            actions=tuple(self.actions),
            changed=tuple(self.changed.values()),
            dropped=tuple(self.dropped),
            wake_at=wake_at,
            rejections=tuple(self.rejections),
            log_lines=(*self.log_lines, *log_lines),
            volatile=tuple(self.volatile.values()),
            energy=tuple(self.energy),
            warned=tuple(self.warned),
        )
