"""What jobs used of the energy, and what that costs: `radrm report --energy`.

Every user sees the sums of all users, as in `radrm limits`, and every job, as in `radrm status`.
The prices are those of the configuration now, at the hours of the book.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import ceil

from msgspec import Struct, field

from radrm.core.records import Job
from radrm.daemon.answers.past.gather import J_PER_KWH, Figures, Key, Rows
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document
from radrm.deadlines import Costs, Zone
from radrm.errors import UsageError
from radrm.host.storage.energy import HOUR_S, EnergyBook, EnergyRow

_FIELDS = {"user": "user", "group": "group", "job": "job_id", "gpu": "device"}
"""The field of a row by which it is added up; of a day, none."""
COLUMNS = {"user": "user", "group": "grp", "job": "job_id", "gpu": "device", "day": "hour"}
"""What can be added up, and its column in the book."""
MOST_ROWS = 1000
"""Rows of an answer; the others are added up in one."""
_SLICE_S = 24 * HOUR_S
_LAST_S = 2**36
_UNREAD_S = 60.0
"""Less time without readings is not reported."""


class EnergySums(Struct):
    """The energy of some hours, added up in `rows` by a column of `COLUMNS`."""

    by: str
    costs: Costs
    rows: Rows
    total: Figures
    first_s: int | None = None
    """The first hour on record; None without one."""
    idle: Figures = field(default_factory=Figures)
    equally_j: float = 0.0
    metered: dict[str, dict[int, float]] = field(default_factory=dict)
    """Metered seconds of each hour, by device."""

    def add(self, row: EnergyRow) -> None:
        """Add the energy of an hour, at its price."""
        self.equally_j += row.equally_j
        if row.job_id is not None:
            add_energy(self.costs, row, self.total, self._of(row))
            return
        add_energy(self.costs, row, self.total, self.idle)
        hours = self.metered.setdefault(row.device, {})
        hours[row.hour_s] = hours.get(row.hour_s, 0.0) + row.seconds
        if self.by in ("gpu", "day"):
            self._of(row).idle_j += row.joules

    def _of(self, row: EnergyRow) -> Figures:
        if self.by == "day":
            return self.rows.of(day_of(self.costs.zone, row.hour_s))
        found = self.rows.of(getattr(row, _FIELDS[self.by]))
        found.user = found.user or row.user
        return found

    def shown(self) -> tuple[list[tuple[Key, Figures]], list[Figures]]:
        """Return the rows of the answer, and those that it only adds up."""
        found = list(self.rows.found.items())
        if self.by == "day":
            found.sort(key=lambda each: str(each[0]))
            return found[-MOST_ROWS:], [each for _, each in found[:-MOST_ROWS]]
        found.sort(key=lambda each: -each[1].joules)
        return found[:MOST_ROWS], [each for _, each in found[MOST_ROWS:]]


def add_energy(costs: Costs, row: EnergyRow, *to: Figures) -> None:
    """Add the energy of an hour, at its price, to each sum."""
    cost = costs.energy_cost(row.joules, row.hour_s, row.hour_s + HOUR_S)
    for sums in to:
        sums.joules += row.joules
        sums.cost += cost


def _used(found: Figures, total: Figures) -> Document:
    share = found.joules / total.joules if total.joules else None
    return {"kwh": found.joules / J_PER_KWH, "cost": found.cost, "share": share}


def day_of(zone: Zone, wall_s: float) -> str:
    """Return the local date of an epoch second, as `2030-01-31`."""
    return time.strftime("%Y-%m-%d", time.gmtime(zone.local_s(wall_s)))


def energy(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """The energy that was used between two times, by user, group, job, GPU or day."""
    by = words.get("by")
    if not isinstance(by, str) or by not in COLUMNS:
        raise UsageError(f"the request takes one of {', '.join(COLUMNS)}")
    begin_s, end_s = whole_hours(loop, words)
    report = yield from energy_sums(loop, by, begin_s, end_s, Rows(), Figures())
    book, first_s = loop.store.energy, report.first_s
    shown, left = report.shown()
    more = Figures()
    for each in left:
        more.add(each)
    names = {d.device.uuid: d.device for d in loop.scheduler.snapshot.devices}
    unread = _unread(book, report.metered, names, begin_s, end_s)
    costs = report.costs
    return {
        "by": by,
        "since": float(begin_s),
        "until": end_s,
        "first": first_s,
        "currency": costs.currency,
        "pue": costs.pue,
        "simulated": are_simulated(loop.scheduler.snapshot),
        "rows": by_index([_row(loop, by, key, each, report.total) for key, each in shown]),
        "more": {"rows": len(left), **_used(more, report.total)},
        "idle": _used(report.idle, report.total),
        "total": _used(report.total, report.total),
        "equally_kwh": report.equally_j / J_PER_KWH,
        "unread": [
            {"gpu": uuid, "index": names[uuid].index if uuid in names else None, "seconds": seconds}
            for uuid, seconds in unread.items()
        ],
    }


def whole_hours(loop: Loop, words: Words) -> tuple[int, float]:
    """Return the time that a request asks about, in whole hours: `since` and `until`, in epoch
    seconds. Raises `UsageError`."""
    now_s, book = loop.clock.now().wall_s, loop.store.energy
    since_s, until_s = moment(words, "since", now_s), moment(words, "until", now_s)
    if since_s >= until_s:
        raise UsageError("the report begins before it ends")
    return book.hour_of(since_s), _end(book, until_s, now_s)


def energy_sums(
    loop: Loop, by: str, begin_s: int, end_s: float, rows: Rows, total: Figures
) -> Work[EnergySums]:
    """Add the energy between two times (epoch seconds, whole hours), by one of `COLUMNS`."""
    report = EnergySums(by, loop.parts.costs, rows, total)
    report.first_s = yield from visit_energy(loop, begin_s, end_s, COLUMNS[by], report.add)
    return report


def visit_energy(
    loop: Loop, begin_s: int, end_s: float, column: str, visit: Callable[[EnergyRow], None]
) -> Work[int | None]:
    """Visit what was used in each hour between two times (epoch seconds), added up by a column.

    Returns the first hour on record; None without one.
    """
    loop.save_volatile()
    book, pace = loop.store.energy, Pace()
    first_s = book.first_hour_s()
    at_s = begin_s if first_s is None else max(begin_s, first_s)
    while first_s is not None and at_s < end_s:
        next_s = min(at_s + _SLICE_S, ceil(end_s))
        for row in book.sums(at_s, next_s, column):
            visit(row)
        at_s = next_s
        yield from pace.rest_if_spent()
    return first_s


def _end(book: EnergyBook, until_s: float, now_s: float) -> float:
    """Return the end of the last hour that begins before a time; now, if that is earlier."""
    hour_s = book.hour_of(until_s)
    return min(now_s, hour_s + HOUR_S if hour_s < until_s else until_s)


def moment(words: Words, name: str, now_s: float) -> float:
    """Return an argument in epoch seconds; now without one. Raises `UsageError`."""
    found = words.get(name, now_s)
    if type(found) not in (int, float) or not -_LAST_S < found < _LAST_S:
        raise UsageError(f"{name} is a time in epoch seconds")
    return float(found)


def _row(loop: Loop, by: str, key: Key, each: Figures, total: Figures) -> Document:
    idle = {"idle_kwh": each.idle_j / J_PER_KWH} if by in ("gpu", "day") else {}
    return {by: key, **called(loop, by, key, each.user)[1], **idle, **_used(each, total)}


def called(loop: Loop, by: str, key: Key, user: str | None) -> tuple[Job | None, Document]:
    """Return the job of a row, if it is of one that is on record, and what the row is called."""
    snapshot = loop.scheduler.snapshot
    if by == "job" and isinstance(key, int):
        job = snapshot.job(key) or loop.store.job(key)
        label, name = (str(key), None) if job is None else (job.label, job.spec.name)
        return job, {"label": label, "name": name, "user": user}
    if by != "gpu":
        return None, {}
    device = next((d.device for d in snapshot.devices if d.device.uuid == key), None)
    index, name = (None, None) if device is None else (device.index, device.name)
    return None, {"index": index, "name": name}


def by_index(rows: list[Document]) -> list[Document]:
    """Return rows of GPUs in the order of `radrm gpus`, those that are gone last; others as they
    are."""
    if rows and "gpu" in rows[0]:
        rows.sort(key=lambda row: (row["index"] is None, row["index"] or 0, row["gpu"]))
    return rows


def _unread(
    book: EnergyBook,
    metered: dict[str, dict[int, float]],
    present: Iterable[str],
    begin_s: int,
    end_s: float,
) -> dict[str, float | None]:
    """Return the seconds for which each device's energy is unknown; None: it never was known.

    Counted from the device's first full hour in the book, for one that is gone until its last.
    """
    found: dict[str, float | None] = {}
    for uuid in dict.fromkeys([*present, *sorted(metered)]):
        hours = metered.get(uuid, {})
        first_s = book.first_hour_s(uuid)
        if first_s is None:
            found[uuid] = None
            continue
        from_s = max(begin_s, first_s + HOUR_S)
        to_s = end_s if uuid in set(present) else max(hours, default=begin_s)
        known_s = sum(seconds for hour_s, seconds in hours.items() if from_s <= hour_s < to_s)
        if to_s - from_s - known_s > _UNREAD_S:
            found[uuid] = to_s - from_s - known_s
    return found
