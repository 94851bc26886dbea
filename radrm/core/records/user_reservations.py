"""GPUs that are reserved for users, or for nobody: maintenance."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.needs import JobSpec

MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class UserReservation:
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
