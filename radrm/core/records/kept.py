"""What a restart keeps: the records of devices and rules, and all unfinished work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from radrm.core.records.attempts import Attempt
from radrm.core.records.jobs import Job
from radrm.core.records.placement import Reservation
from radrm.core.records.user_reservations import UserReservation


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What a restart must know of a device."""

    uuid: str
    drained: str | None = None
    """Why it takes no new job; None when it does."""
    idle_w: float | None = None
    """The least power that was read while no job was there; None: not read yet."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule's own memory, as JSON can hold it, with the rule's version that wrote it."""

    kind: str
    name: str
    version: int
    state: Any = None
    wake_boot_s: float | None = None
    """The boot time at which it asked to be called; None: it did not."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored records of an earlier daemon: unfinished jobs, and what belongs to them."""

    jobs: Iterable[Job] = ()
    attempts: Iterable[Attempt] = ()
    reservations: Iterable[Reservation] = ()
    devices: Iterable[DeviceStatus] = ()
    rule_states: Iterable[RuleState] = ()
    next_serial: int = 1
    user_reservations: Iterable[UserReservation] = ()
    next_reservation: int = 1
    """The id of the next reservation for users: no id is given twice."""
