"""Reservations, and the memory that they take over time.

Times are boot-time seconds; infinity is an unknown end. An interval has its start and not its
end. One without length is the moment of its start.

Theory of operation
-------------------
A reservation of a live attempt (RUNNING) or of a migration's target counts at all times, whatever
its times say: an attempt has its memory until it really ends. One that a planner made (BACKFILL)
counts from its start to its end. So a job with a time limit can use what is reserved for later. A
device that leaves at `Device.available_until` is reserved as a whole from then on.

Invariants:
- The times of planners' reservations are boot-time seconds of this boot
  (`core/planning/reserving.py` converts those of an earlier one). Setting the clock moves none of
  them. `available_until` is a date, and is compared with the date of each step.
- RUNNING and MIGRATION of one owner do not add up: the attempt ends before the job starts at its
  target.
- Without planners' reservations nothing depends on the time.
- What each owner holds is summed once per change: `outdated` is called when a reservation, an
  attempt or its use changes. Each waiting job that is tried asks for it, on each device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from radrm.core.records import Device, Instant, Reservation, ReservationKey, UserReservation
from radrm.core.state.readings import OccupantUse
from radrm.core.words import ReservationKind

FOREVER = float("inf")


class Claim(Struct, frozen=True):
    """MiB that an owner takes in an interval."""

    owner: str
    mib: int
    start_s: float = -FOREVER
    end_s: float = FOREVER

    def meets(self, start_s: float, end_s: float) -> bool:
        """Return whether it takes something in the interval."""
        return self.end_s > start_s and (self.start_s < end_s or self.start_s <= start_s)


def taken_mib(claims: Iterable[Claim], at_s: float) -> int:
    """Return the MiB taken at a moment.

    Claims of one owner do not add up: a job leaves its devices before it starts on its next ones.
    """
    largest: dict[str, int] = {}
    for claim in claims:
        if claim.start_s <= at_s < claim.end_s:
            owner = claim.owner
            if owner not in largest or claim.mib > largest[owner]:
                largest[owner] = claim.mib
    return sum(largest.values())


def steps(claims: Iterable[Claim], start_s: float, end_s: float) -> list[float]:
    """Return the moments of an interval at which more can be taken than before, in order."""
    starts = {claim.start_s for claim in claims if start_s < claim.start_s < end_s}
    return [start_s, *sorted(starts)]


def peak_mib(claims: Sequence[Claim], start_s: float, end_s: float) -> int:
    """Return the most MiB taken at any moment of an interval."""
    found = [claim for claim in claims if claim.meets(start_s, end_s)]
    return max(taken_mib(found, at_s) for at_s in steps(found, start_s, end_s))


def earliest_s(
    claims: Sequence[Claim], room_mib: int, start_s: float, length_s: float
) -> float | None:
    """Return the first moment from `start_s` at which at most `room_mib` are taken for `length_s`.

    None if reservations without an end take too much.
    """
    ends = {claim.end_s for claim in claims if start_s < claim.end_s < FOREVER}
    for at_s in (start_s, *sorted(ends)):
        if peak_mib(claims, at_s, at_s + length_s) <= room_mib:
            return at_s
    return None


AVAILABILITY = "availability"
"""The owner of a device from the end of its availability on."""


class Reserved:
    """The reservations of one device. `clock` returns the time of the current step.

    An interval is from `start_s` to `end_s`, in boot-time seconds; None: from now, without an end.
    The reservations of the owner `but` do not count.
    """

    def __init__(self, occupants: Mapping[int, OccupantUse], clock: Callable[[], Instant]) -> None:
        self._occupants = occupants
        self._clock = clock
        self.held: dict[ReservationKey, Reservation] = {}
        """Those of live attempts and of migrations' targets."""
        self.planned: dict[ReservationKey, Reservation] = {}
        """Those that planners made."""
        self.timed = False
        """Whether anything here depends on the time."""
        self._leaves = False
        self._by_owner: dict[str, int] | None = None
        """The MiB that each owner holds; None: not known now."""
        self._all_mib = 0

    def outdated(self) -> None:
        """Forget what was found out: a reservation has changed, an attempt, or its use."""
        self.timed = self._leaves or bool(self.planned)
        self._by_owner = None

    def put(self, reservation: Reservation) -> None:
        """Enter a reservation in place of the one with the same key."""
        kept = self.planned if reservation.kind.planned else self.held
        kept[reservation.key] = reservation
        self.outdated()

    def drop(self, key: ReservationKey) -> None:
        self.held.pop(key, None)
        self.planned.pop(key, None)
        self.outdated()

    def every(self) -> tuple[Reservation, ...]:
        return (*self.held.values(), *self.planned.values())

    def see(self, device: Device) -> None:
        """Note the device's record, which may say until when it is available."""
        self._leaves = device.available_until is not None
        self.outdated()

    def running(self, job_id: int) -> Reservation | None:
        """Return the reservation of a job's live attempt; None if it has none here."""
        for each in self.held.values():
            if each.job_id == job_id and each.kind is ReservationKind.RUNNING:
                return each
        return None

    # ------------------------------------------------------------- memory

    def size_mib(self, device: Device, reservation: Reservation) -> int:
        """Return the MiB that a reservation takes: at least what its attempt uses."""
        if reservation.mib is None:
            return device.capacity_mib
        if reservation.kind is not ReservationKind.RUNNING or reservation.job_id is None:
            return reservation.mib
        occupant = self._occupants.get(reservation.job_id)
        observed = occupant.observed_mib if occupant else None
        return max(reservation.mib, observed or 0)

    def held_mib(self, device: Device, but: str | None) -> int:
        """Return the MiB that attempts and migrations' targets take."""
        largest = self._by_owner
        if largest is None:
            largest = self._by_owner = {}
            for reservation in self.held.values():
                owner, mib = reservation.owner, self.size_mib(device, reservation)
                largest[owner] = max(mib, largest.get(owner, 0))
            self._all_mib = sum(largest.values())
        return self._all_mib - largest.get(but, 0) if but is not None else self._all_mib

    def taken_mib(
        self, device: Device, but: str | None, start_s: float | None, end_s: float | None
    ) -> int:
        """Return the most MiB taken at any moment of an interval."""
        held = self.held_mib(device, but)
        planned = self.planned_claims(device, but, start_s, end_s) if self.timed else ()
        if not planned:
            return held
        start_s = self._clock().boot_s if start_s is None else start_s
        return held + peak_mib(planned, start_s, FOREVER if end_s is None else end_s)

    def others(
        self, device: Device, but: str | None, start_s: float | None, end_s: float | None
    ) -> bool:
        """Return whether another owner has a reservation in an interval."""
        for reservation in self.held.values():
            if reservation.owner != but:
                return True
        return self.timed and bool(self.planned_claims(device, but, start_s, end_s))

    def planned_claims(
        self,
        device: Device,
        but: str | None,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> list[Claim]:
        """Return what is reserved by planners in an interval, and from when the device is gone."""
        if not self.timed:
            return []
        now, capacity = self._clock(), device.capacity_mib
        start_s = now.boot_s if start_s is None else start_s
        end_s = FOREVER if end_s is None else end_s
        found = []
        for each in self.planned.values():
            until_s = FOREVER if each.until is None else each.until.boot_s
            if each.owner != but and until_s > start_s:
                mib = capacity if each.mib is None else each.mib
                found.append(Claim(each.owner, mib, each.since.boot_s, until_s))
        if device.available_until is not None:
            leaves_s = now.boot_s + device.available_until - now.wall_s
            found.append(Claim(AVAILABILITY, capacity, leaves_s))
        return [claim for claim in found if claim.meets(start_s, end_s)]

    def claims(
        self, device: Device, but: str | None, end_of: Callable[[Reservation], float]
    ) -> list[Claim]:
        """Return all claims. `end_of` returns when an attempt's reservation is expected to end."""
        held = (
            Claim(r.owner, self.size_mib(device, r), end_s=end_of(r))
            for r in self.held.values()
            if r.owner != but
        )
        return list(chain(held, self.planned_claims(device, but, -FOREVER)))


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
        mine = self.owners.get(key[0], {})
        dropped = mine.pop(key, None)
        if dropped is not None and not mine:
            self.owners_of[dropped.planner] -= 1
            del self.owners[key[0]]

    def of(self, owner: str) -> tuple[Reservation, ...]:
        return tuple(self.owners[owner].values()) if owner in self.owners else ()

    def by_owner(self) -> list[tuple[Reservation, ...]]:
        return [tuple(mine.values()) for mine in self.owners.values()]

    def by(self, planner: str | None) -> list[Reservation]:
        return [each for each in self if each.planner == planner]

    def __iter__(self) -> Iterator[Reservation]:
        for mine in self.owners.values():
            yield from mine.values()


class Seen(Struct, frozen=True):
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
