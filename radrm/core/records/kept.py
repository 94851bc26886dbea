"""What a restart keeps: the use of users, learned losses, reservations, states of rules.

Together with unfinished jobs and their attempts this is all that the core reads at its start.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from msgspec import Struct

from radrm.core.records.attempts import Attempt
from radrm.core.records.jobs import Job
from radrm.core.records.needs import JobSpec
from radrm.core.records.placement import Reservation
from radrm.structs import Stored


class Use(Struct, frozen=True):
    """Recent GPU time, and what is held now.

    `gpu_s` counts the seconds of each GPU. After `core.use_half_life_s` a second counts half.
    `gpus`: the GPUs that jobs hold now. A device counts 1; n jobs that share it have 1/n each.
    """

    gpu_s: float = 0.0
    gpus: float = 0.0


class UserUse(Struct, frozen=True):
    """The use by a user's jobs, and by those of the user's group (Unix; None if unknown)."""

    uid: int
    user: str
    own: Use = Use()
    group: str | None = None
    of_group: Use = Use()
    idle_s: float = inf
    """The seconds since the last start of one of the user's jobs on GPUs; infinity: none is known.
    """


class RecentUses(Struct, frozen=True):
    """The use of each user and of each group that has or had GPUs lately.

    A user may submit from several groups, so `users` have no `group`; `groups` are by name.
    """

    users: tuple[UserUse, ...] = ()
    groups: tuple[tuple[str, Use], ...] = ()


class Sharer(Struct, frozen=True):
    """A job in a shared period: the SM activity (0..1) that it shows alone, None if unknown.

    `measured`: it was read, not predicted. `speed`: its steps per second in the period as a part
    of those alone on the same device; None: it was never alone there, or reports no steps.
    """

    smact: float | None
    measured: bool = False
    speed: float | None = None


class SharedPeriod(Struct, frozen=True):
    """A time in which the same jobs were at work on a device, each on this device only.

    `kind`: the device's name. `mps`: all are clients of MPS. `smact`: the device's mean SM activity
    (0..1); None: not read.
    """

    kind: str
    mps: bool
    seconds: float
    jobs: tuple[Sharer, ...]
    smact: float | None = None


class LearnedLoss(Struct, frozen=True):
    """What sharing costs on a kind of device in a mode, as its shared periods show.

    `loss`: see `radrm.interference.model`. `periods`: their number.
    """

    kind: str
    mps: bool
    loss: float
    periods: int


MAINTENANCE = "maintenance"


class UserReservation(Stored):
    """Devices that from one date to another only some users may use (`radrm reserve`).

    `start_s` and `end_s` are wall-clock seconds since the epoch: what a user wrote. `uids` and the
    Unix group `group` say whose jobs may use the devices; without both, nobody's (maintenance).
    `whom` names them for users: `ada`, `group students`, `maintenance`.
    """

    id: int
    devices: tuple[str, ...]
    start_s: float
    end_s: float
    whom: str = MAINTENANCE
    uids: tuple[int, ...] = ()
    group: str | None = None
    by: str = ""
    """The user who made it, and its uid."""
    by_uid: int = 0
    own: bool = False
    """A user has made it for itself: limits hold for it, and it ends if it is not used."""
    preempt: bool = False
    """At its start the jobs of others on its devices are preempted, as far as that is possible."""
    reason: str | None = None
    ended_s: float | None = None
    """The date at which it was removed; None while it counts."""
    why_ended: str | None = None

    @property
    def maintenance(self) -> bool:
        """True if no job may use the devices."""
        return not self.uids and self.group is None

    def admits(self, spec: JobSpec) -> bool:
        """Return whether a job may use the devices."""
        return spec.uid in self.uids or (self.group is not None and spec.group == self.group)

    def meets(self, start_s: float, end_s: float) -> bool:
        """Return whether it counts at some time from `start_s` to `end_s` (dates)."""
        return self.start_s < end_s and start_s < self.end_s

    @property
    def gpu_hours(self) -> float:
        """Its length, times its devices."""
        return (self.end_s - self.start_s) * len(self.devices) / 3600.0

    @property
    def label(self) -> str:
        """Whom it is for, and its id: `ada (reservation 3)`."""
        return f"{self.whom} (reservation {self.id})"


class DeviceStatus(Stored):
    """What a restart must know of a device."""

    uuid: str
    drained: str | None = None
    """Why it takes no new job; None when it does."""
    idle_w: float | None = None
    """The least power that was read while no job was there; None: not read yet."""


class RuleState(Stored):
    """A rule's own memory, as JSON can hold it, with the rule's version that wrote it."""

    kind: str
    name: str
    version: int
    state: Any = None
    wake_boot_s: float | None = None
    """The boot time at which it asked to be called; None: it did not."""


class Kept(Struct, frozen=True):
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
