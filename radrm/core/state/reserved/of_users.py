"""The reservations of devices for users and for maintenance, by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radrm.core.records import UserReservation


@dataclass(frozen=True, slots=True)
class Seen:
    """What the waiting jobs were last sorted by: the reservations that are not over, those that
    count now, and by how many seconds the date was ahead of the time since boot."""

    open: tuple[UserReservation, ...]
    active: tuple[UserReservation, ...]
    ahead_s: float | None


class UserReservations:
    """Those that have not been removed. What is noted beside them is made again after a restart."""

    def __init__(self) -> None:
        self.every: dict[int, UserReservation] = {}
        self.next_id = 1
        self._on: dict[str, tuple[UserReservation, ...]] = {}
        self.seen: Seen | None = None
        """None: none yet, or there were no reservations."""
        self.closing: dict[int, float] = {}
        """Boot-time second from which a waiting job would end after some reservation begins."""
        self.wake_s: float | None = None
        """The time of the timer for the next start or end; None without one."""
        self.unused_since_s: dict[int, float] = {}
        """Boot-time second since which no job of its users needs it, by id."""
        self.over_since_s: dict[int, float] = {}
        """Boot-time second at which its end was first seen to be past, by id."""

    def put(self, record: UserReservation) -> None:
        """Enter a reservation in place of the one with its id; forget one that has ended."""
        self.next_id = max(self.next_id, record.id + 1)
        if record.ended_s is None:
            self.every[record.id] = record
        else:
            self.every.pop(record.id, None)
            self.unused_since_s.pop(record.id, None)
            self.over_since_s.pop(record.id, None)
        self._on = {}
        for each in sorted(self.every.values(), key=lambda each: (each.start_s, each.id)):
            for uuid in each.devices:
                self._on[uuid] = (*self._on.get(uuid, ()), each)

    def on(self, uuid: str) -> Sequence[UserReservation]:
        """Return the reservations of a device, the earliest first; also those that are over."""
        return self._on.get(uuid, ())
