"""An index of the reservations that planners made, by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from radrm.core.records import Reservation, ReservationKey


class Planned:
    """The reservations that planners made. `State` keeps it equal to those in the ledgers."""

    def __init__(self) -> None:
        self.owners: dict[str, dict[ReservationKey, Reservation]] = {}
        self.owners_of: Counter[str | None] = Counter()
        """The number of owners for which each planner has reserved."""
        self.aside: dict[ReservationKey, Reservation] = {}
        """Those of the planner that is called now and that it has not proposed again yet."""
        self.wake_s: float | None = None
        """The time of the timer for the next end; None without one."""

    def put(self, reservation: Reservation) -> None:
        """Enter a reservation in place of the one with the same key."""
        if reservation.owner not in self.owners:
            self.owners[reservation.owner] = {}
            self.owners_of[reservation.planner] += 1
        self.owners[reservation.owner][reservation.key] = reservation

    def drop(self, key: ReservationKey) -> None:
        """Remove a reservation, if it is here."""
        mine = self.owners.get(key[0], {})
        dropped = mine.pop(key, None)
        if dropped is not None and not mine:
            self.owners_of[dropped.planner] -= 1
            del self.owners[key[0]]

    def of(self, owner: str) -> tuple[Reservation, ...]:
        """Return an owner's reservations."""
        return tuple(self.owners[owner].values()) if owner in self.owners else ()

    def by_owner(self) -> list[tuple[Reservation, ...]]:
        """Return the reservations of each owner."""
        return [tuple(mine.values()) for mine in self.owners.values()]

    def by(self, planner: str | None) -> list[Reservation]:
        """Return the reservations that a planner made."""
        return [each for each in self if each.planner == planner]

    def __iter__(self) -> Iterator[Reservation]:
        for mine in self.owners.values():
            yield from mine.values()
