"""The energy book: what each job used on each device in each hour, and what was idle.

Theory of operation. An hour is one of the site's local clock, named by the epoch second at which
it began. The core tells with each reading what was used since the one before. That is added up in
memory, and goes into the store with the next transaction, or after 30 s. It is added to the rows
there, and each increment is written once: a kill loses at most the last half minute, a restart
counts nothing twice, and a clock that is set back adds to an earlier hour. User and group are
those of the job at that time, so that a report needs no other table.

A device is a number here, its place in the list of a mark: its UUID would be half of each row.
Rows have the UUID itself while that list cannot be read.

The row of nobody (`job_id` 0) has the idle energy, and the seconds for which the device was
metered. Above `MOST_ROWS` rows the oldest hours are dropped, whatever the clock says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from radrm.core.records import DeviceEnergy
from radrm.deadlines import UTC, Zone
from radrm.host.storage.database import DamagedRow, Database

HOUR_S = 3600
MOST_ROWS = 500_000
"""About 80 bytes each. Eight GPUs with two jobs each need two years for them."""
_LOOK_EVERY = 10_000
_NOBODY = 0
_DEVICES = "energy devices"
_SELECT_DEVICES = "SELECT record FROM marks WHERE name = ?"

_ADD = """
INSERT INTO energy VALUES (?1, ?2, ?3,
    (SELECT json_extract(record, '$.spec.user') FROM jobs WHERE id = ?3),
    (SELECT json_extract(record, '$.spec.group') FROM jobs WHERE id = ?3), ?4, ?5, ?6)
ON CONFLICT (hour, device, job_id) DO UPDATE SET joules = joules + excluded.joules,
    equally_j = equally_j + excluded.equally_j, seconds = seconds + excluded.seconds
"""
_DROP = """
DELETE FROM energy WHERE hour <= (SELECT hour FROM energy ORDER BY hour DESC LIMIT 1 OFFSET ?)
"""


class EnergyRow(Struct, frozen=True):
    """The energy of one hour. `job_id` None: idle, and only then `seconds` of metered time."""

    hour_s: int
    device: str
    job_id: int | None
    user: str | None
    group: str | None
    joules: float
    equally_j: float
    seconds: float


class EnergyBook:
    """The table `energy`. `zone`: the site's, which divides time into hours."""

    def __init__(self, database: Database, zone: Zone = UTC) -> None:
        self.zone = zone
        self._db = database
        self._waiting: dict[tuple[int, str, int], list[float]] = {}
        """Joules, those divided equally, and seconds, by hour, device and job."""
        self._added = _LOOK_EVERY

    @property
    def waits(self) -> bool:
        """True while some energy is not in the store."""
        return bool(self._waiting)

    def note(self, used: Iterable[DeviceEnergy]) -> None:
        """Add up what was used, until `write`."""
        for each in used:
            for hour_s, part in self._hours(each.at.wall_s, each.seconds):
                self._add((hour_s, each.device, _NOBODY), 0.0, 0.0, part * each.seconds)
                for found in each.parts:
                    key = hour_s, each.device, found.job_id or _NOBODY
                    self._add(key, part * found.joules, part * found.equally_j, 0.0)

    def write(self) -> None:
        """Add to the store what waits, in a transaction. `written` says that it has succeeded."""
        if not self._waiting:
            return
        known = self._devices()
        new = sorted({device for _, device, _ in self._waiting}.difference(known or ()))
        if new and known is not None:
            known += new
            text = msgspec.json.encode(known).decode()
            self._db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (_DEVICES, text))
        number = {device: str(at) for at, device in enumerate(known or ())}
        waiting = self._waiting.items()
        rows = [(hour_s, number.get(d, d), job, *sums) for (hour_s, d, job), sums in waiting]
        self._db.execute_many(_ADD, rows)
        if self._added + len(rows) >= _LOOK_EVERY:
            self._db.execute(_DROP, (MOST_ROWS,))

    def written(self) -> None:
        """Forget what waited: it is on disk."""
        count = self._added + len(self._waiting)
        self._added = 0 if count >= _LOOK_EVERY else count
        self._waiting.clear()

    def drop_before(self, hour_s: int, most: int) -> bool:
        """Remove the oldest rows, at most so many, of hours that began before then (epoch
        seconds); False when there are none. Raises `StoreError`."""
        oldest = "SELECT hour, device, job_id FROM energy WHERE hour < ? ORDER BY hour LIMIT ?"
        rows = self._db.execute(oldest, (hour_s, most)).fetchall()
        if rows:
            with self._db.not_synced(), self._db.writing("retention"):
                delete = "DELETE FROM energy WHERE hour = ? AND device = ? AND job_id = ?"
                self._db.execute_many(delete, rows)
        return bool(rows)

    def _add(self, key: tuple[int, str, int], *amounts: float) -> None:
        sums = self._waiting.setdefault(key, [0.0, 0.0, 0.0])
        for at, amount in enumerate(amounts):
            sums[at] += amount

    def hour_of(self, wall_s: float) -> int:
        """Return the epoch second at which the local hour of a time began."""
        return int(wall_s - self.zone.local_s(wall_s) % HOUR_S)

    def _hours(self, until_s: float, seconds: float) -> Iterator[tuple[int, float]]:
        """Yield the hours of the time until then, and the part of it that is in each."""
        at_s = until_s - seconds
        hour_s = self.hour_of(at_s)
        if seconds <= 0 or hour_s == self.hour_of(until_s) or seconds > 1000 * HOUR_S:
            yield self.hour_of(until_s), 1.0
            return
        while at_s < until_s:
            hour_s = self.hour_of(at_s)
            next_s = min(until_s, hour_s + HOUR_S)
            yield hour_s, (next_s - at_s) / seconds
            at_s = next_s

    # ------------------------------------------------------------- reading

    def first_hour_s(self, device: str | None = None) -> int | None:
        """Return the first hour of the book, or that of a device; None without one."""
        known = self._devices() or []
        number = str(known.index(device)) if device in known else device
        where, given = ("", ()) if device is None else ("WHERE device IN (?, ?) ", (device, number))
        query = f"SELECT hour FROM energy {where}ORDER BY hour LIMIT 1"
        found = self._db.execute(query, given).fetchone()
        return None if found is None else int(found[0])

    def sums(self, begin_s: int, end_s: int, by: str) -> list[EnergyRow]:
        """Return the sums of the hours that begin in this time: what jobs used by hour and `by`,
        and idle energy by hour and device.

        `by`: a column. What jobs used on several devices is added up, but by `device`.
        """
        query = (
            "SELECT hour, device, nullif(max(job_id), 0), max(user), max(grp), sum(joules), "
            "sum(equally_j), sum(seconds) FROM energy WHERE hour >= ? AND hour < ? "
            f"GROUP BY hour, job_id = 0, CASE WHEN job_id = 0 THEN device ELSE {by} END"
        )
        named = {str(at): device for at, device in enumerate(self._devices() or ())}
        rows = self._db.execute(query, (begin_s, end_s))
        return [EnergyRow(hour_s, named.get(d, d), *rest) for hour_s, d, *rest in rows]

    def _devices(self) -> list[str] | None:
        """The devices by their numbers. None if they cannot be read: then rows have UUIDs."""
        with contextlib.suppress(DamagedRow):
            found = self._db.records(list[str], _SELECT_DEVICES, _DEVICES)
            return found[0] if found else []
        return None
