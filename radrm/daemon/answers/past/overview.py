"""How a server did in a time: throughput, waiting, use, deaths, energy, estimators, attempts.

`radrm report --overview` and the page of `--html`. The sums are those of `report`, of the same
whole hours, and every user sees them. docs/reports.md says what each figure means.
"""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from itertools import islice
from math import ceil, exp, log
from typing import Any

from msgspec import Struct, field

from radrm.core.records import Device, Instant
from radrm.core.words import Outcome
from radrm.daemon.answers.past.energy import add_energy, visit_energy, whole_hours
from radrm.daemon.answers.past.gather import MOST_KEYS, Figures, add_end, gather, past_job
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document
from radrm.deadlines import Zone
from radrm.errors import Refused, UsageError
from radrm.host.storage.ended import PastJob, UsedAttempt
from radrm.host.storage.energy import EnergyRow

HOUR_S, DAY_S = 3600.0, 86_400.0
MOST = 400
_HOURLY_S = 8 * DAY_S


class Bins(Struct, frozen=True):
    """`edges`: epoch seconds, ascending; a bin is from one to the next. At most `MOST` bins."""

    edges: tuple[float, ...]

    @classmethod
    def of(cls, zone: Zone, begin_s: float, end_s: float) -> Bins:
        """Hours for up to eight days, else local days, from the beginning of the first one."""
        lasting_s = end_s - begin_s
        if lasting_s <= _HOURLY_S:
            hours = (begin_s + place * HOUR_S for place in range(1, MOST))
            edges = [begin_s, *(edge_s for edge_s in hours if edge_s < end_s)]
            return cls((*edges, max(end_s, edges[-1])))
        step_s = DAY_S * ceil(lasting_s / DAY_S / (MOST - 1))
        local_s = zone.local_s(begin_s)
        midnight_s = local_s - local_s % DAY_S
        edges = [begin_s]
        for place in range(1, MOST):
            edge_s = _wall_s(zone, midnight_s + place * step_s)
            if edge_s >= end_s:
                break
            if edge_s > edges[-1]:
                edges.append(edge_s)
        return cls((*edges, max(end_s, edges[-1])))

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def place(self, wall_s: float) -> int | None:
        """Return the number of the bin of a time; None outside of all."""
        if not self.edges[0] <= wall_s < self.edges[-1]:
            return None
        return bisect_right(self.edges, wall_s) - 1

    def next_s(self, wall_s: float) -> float:
        """Return when the next bin begins; infinity after the last."""
        at = bisect_right(self.edges, wall_s)
        return self.edges[at] if at < len(self.edges) else float("inf")

    def lasting_s(self, place: int) -> float:
        return self.edges[place + 1] - self.edges[place]


def _wall_s(zone: Zone, local_s: float) -> float:
    """Return an epoch second at which the local clock shows this time."""
    guess_s = local_s - (zone.local_s(local_s) - local_s)
    return local_s - (zone.local_s(guess_s) - guess_s)


@dataclass(slots=True)
class Level:
    """How many things were there, on the mean of each bin.

    A stay costs the same however many bins it covers: the area of what begins at t is the rest of
    t's bin, and all of the later ones.
    """

    bins: Bins
    _areas: list[float] = dataclasses.field(init=False)
    _later: list[int] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self._areas = [0.0] * (self.bins.count + 1)
        self._later = [0] * (self.bins.count + 1)

    def stay(self, begin_s: float, end_s: float) -> None:
        """Add one thing that was there between two times (epoch seconds)."""
        first_s, last_s = self.bins.edges[0], self.bins.edges[-1]
        if begin_s >= end_s or end_s <= first_s or begin_s >= last_s:
            return
        self._change(max(begin_s, first_s), 1)
        if end_s < last_s:
            self._change(end_s, -1)

    def _change(self, at_s: float, by: int) -> None:
        place = bisect_right(self.bins.edges, at_s) - 1
        self._areas[place] += by * (self.bins.edges[place + 1] - at_s)
        self._later[place + 1] += by

    def means(self) -> list[float]:
        """Return the mean of each bin."""
        there, found = 0, []
        for place in range(self.bins.count):
            there += self._later[place]
            lasting_s = self.bins.lasting_s(place)
            area = self._areas[place] + there * lasting_s
            found.append(max(0.0, area / lasting_s) if lasting_s else 0.0)
        return found


_GROWTH = log(1.03)


class Quantiles(Struct):
    """Counts of amounts above zero. Amounts below `least` count as zero.

    What it says of them is exact to 1.5 %.
    """

    least: float = 1.0
    count: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def add(self, amount: float) -> None:
        place = -1 if amount < self.least else int(log(amount / self.least) / _GROWTH)
        self.places[place] = self.places.get(place, 0) + 1
        self.count += 1

    def quantile(self, part: float) -> float | None:
        """Return the amount that this part (0..1) of all is not above; None without any."""
        passed, wanted = 0, part * self.count
        for place in sorted(self.places):
            passed += self.places[place]
            if passed >= wanted:
                return 0.0 if place < 0 else self.least * exp(_GROWTH * (place + 0.5))
        return None


MOST_BARS = 1500
"""Stays of attempts on devices that an answer has."""
WAITS_S = (0, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
"""The lower bounds of the classes of waiting times."""


class User(Struct):
    """The sums of a user; `hit`: jobs that ended after an out-of-memory death."""

    figures: Figures = field(default_factory=Figures)
    waits: Quantiles = field(default_factory=Quantiles)
    gpu_s: float = 0.0
    hit: int = 0
    recovered: int = 0


class Use(Struct):
    """Use of devices by attempts; each is weighed by the seconds that the attempt stayed."""

    held_s: float = 0.0
    smact: float = 0.0
    smact_s: float = 0.0
    peak_mib_s: float = 0.0
    reserved_mib_s: float = 0.0

    def document(self) -> dict[str, Any]:
        return {
            "held_s": self.held_s,
            "smact": self.smact / self.smact_s if self.smact_s else None,
            "peak_share": self.peak_mib_s / self.reserved_mib_s if self.reserved_mib_s else None,
        }


@dataclass(slots=True)
class OverviewSums:
    """The sums of the time of `bins`, at `now`."""

    bins: Bins
    now: Instant
    ends: list[Figures] = dataclasses.field(init=False)
    """Of each bin: what ended in it, its GPU time and its energy."""
    total: Figures = dataclasses.field(default_factory=Figures)
    users: dict[str, User] = dataclasses.field(default_factory=dict)
    devices: dict[str, Use] = dataclasses.field(default_factory=dict)
    use: Use = dataclasses.field(default_factory=Use)
    waits: Quantiles = dataclasses.field(default_factory=Quantiles)
    classes: list[int] = dataclasses.field(default_factory=lambda: [0] * len(WAITS_S))
    waiting: Level = dataclasses.field(init=False)
    hit: int = 0
    recovered: int = 0
    hit_open: int = 0
    attempts: int = 0
    gpuless: int = 0
    shared: int = 0
    shared_oom: int = 0
    running: int = 0
    first_s: float | None = None
    """When the first job that counts was submitted."""
    serials: array[int] = dataclasses.field(default_factory=lambda: array("q"))
    peaks: array[int] = dataclasses.field(default_factory=lambda: array("q"))
    """Of each attempt that ended in the time and whose peak is known: serial and MiB."""
    longest: list[tuple[float, int, PastJob, UsedAttempt]] = dataclasses.field(default_factory=list)
    """A heap of the attempts that stayed longest: their seconds and serials."""
    stays: int = 0

    def __post_init__(self) -> None:
        self.ends = [Figures() for _ in range(self.bins.count)]
        self.waiting = Level(self.bins)

    def user(self, name: str) -> User:
        """Return the sums of a user. Raises `Refused` for too many users."""
        found = self.users.get(name)
        if found is None:
            if len(self.users) >= MOST_KEYS:
                raise Refused(f"more than {MOST_KEYS} users had jobs then; take a shorter time")
            found = self.users[name] = User()
        return found

    def visit(self, job: PastJob, attempts: Sequence[UsedAttempt]) -> User:
        """Count a job and its attempts; return what adds up its GPU time."""
        user = self.user(job.spec.user)
        deaths = sum(each.outcome is Outcome.OOM for each in attempts)
        ended = job.ended is not None and self.bins.place(job.ended.wall_s) is not None
        if ended:
            self._end(job, user)
            if deaths:
                done = job.state.value == "COMPLETED"
                user.hit += 1
                user.recovered += done
                self.hit += 1
                self.recovered += done
        elif job.ended is None:
            self.running += job.state.live
            self.hit_open += deaths > 0
        self.wait(job)
        for each in attempts:
            self._attempt(job, each, user)
        return user

    def wait(self, job: PastJob) -> None:
        """Count the time for which a run waited for its first start."""
        until = job.started or job.ended
        until_s = until.wall_s if until is not None else self.now.wall_s
        begin_s = job.queued.wall_s
        if until_s >= self.bins.edges[0] and begin_s < self.bins.edges[-1]:
            self.first_s = begin_s if self.first_s is None else min(self.first_s, begin_s)
        self.waiting.stay(begin_s, min(until_s, self.now.wall_s))

    def _end(self, job: PastJob, user: User) -> None:
        place = self.bins.place(job.ended.wall_s) if job.ended is not None else None
        if place is None:
            return
        add_end(job, self.total, user.figures, self.ends[place])
        waited_s = job.waited_s
        if waited_s is not None:
            waited_s = max(0.0, waited_s)
            self.waits.add(waited_s)
            user.waits.add(waited_s)
            self.classes[bisect_right(WAITS_S, waited_s) - 1] += 1

    def _attempt(self, job: PastJob, attempt: UsedAttempt, user: User) -> None:
        begin_s, end_s = attempt.stay(self.now)
        begin_s = max(begin_s, self.bins.edges[0])
        stayed_s = min(end_s, self.bins.edges[-1]) - begin_s
        if stayed_s < 0.0:
            return
        ended = None if attempt.ended is None else self.bins.place(attempt.ended.wall_s)
        if ended is not None and attempt.outcome is Outcome.OOM:
            for sums in (self.total, user.figures, self.ends[ended]):
                sums.oom += 1
        if not attempt.devices:
            self.gpuless += 1
            return
        self.attempts += 1
        self._use(attempt, stayed_s)
        if any(each.shared for each in attempt.usage):
            self.shared += 1
            self.shared_oom += ended is not None and attempt.outcome is Outcome.OOM
        if ended is not None and (peak_mib := attempt.peak_mib):
            self.serials.append(attempt.serial)
            self.peaks.append(peak_mib)
        self.stays += 1
        item = stayed_s, attempt.serial, job, attempt
        if len(self.longest) < MOST_BARS:
            heappush(self.longest, item)
        else:
            heappushpop(self.longest, item)

    def _use(self, attempt: UsedAttempt, stayed_s: float) -> None:
        for each in attempt.usage:
            reserved_mib = attempt.reserved_mib(each.device)
            for use in (self.use, self.device(each.device)):
                if each.smact_mean is not None:
                    use.smact += each.smact_mean * stayed_s
                    use.smact_s += stayed_s
                if each.peak_mib is not None and reserved_mib:
                    use.peak_mib_s += each.peak_mib * stayed_s
                    use.reserved_mib_s += reserved_mib * stayed_s

    def device(self, uuid: str) -> Use:
        """Return the use of a device."""
        found = self.devices.get(uuid)
        if found is None:
            if len(self.devices) >= MOST_KEYS:
                raise Refused(f"jobs had more than {MOST_KEYS} GPUs then; take a shorter time")
            found = self.devices[uuid] = Use()
        return found

    def held(self, device: str, at_s: float, seconds: float) -> None:
        """Add the time for which some job held a device."""
        self.use.held_s += seconds
        self.total.gpu_s += seconds
        self.device(device).held_s += seconds
        place = self.bins.place(at_s)
        if place is not None:
            self.ends[place].gpu_s += seconds


MOST_USERS = 100
MOST_DEVICES = 256
MOST_ESTIMATORS = 100
MOST_GPUS = 64
"""GPUs of one attempt that an answer names."""
_NAME = 40
"""The most characters of a name in a Gantt chart."""
_RUNS_AT_ONCE = 200
_LEAST_RATIO = 1e-3


def overview(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """How the server did between two times."""
    begin_s, end_s = whole_hours(loop, words)
    if begin_s >= end_s:
        raise UsageError("the overview begins before it ends")
    return (yield from loop.past.do(_overview(loop, float(begin_s), end_s), uid))


def _overview(loop: Loop, begin_s: float, end_s: float) -> Work[Document]:
    costs, now = loop.parts.costs, loop.clock.now()
    found = OverviewSums(Bins.of(costs.zone, begin_s, end_s), now)
    waiting = yield from _wait(loop, found)
    held = yield from gather(loop, begin_s, end_s, now, found.visit, loop.store.ended.used)
    yield from held.divide(found.bins.next_s, found.held)
    first_hour_s = yield from _energy(loop, found)
    estimators = yield from _estimators(loop, found)
    devices = {d.device.uuid: d.device for d in loop.scheduler.snapshot.devices}
    shown = list(dict.fromkeys([*devices, *sorted(found.devices)]))[:MOST_DEVICES]
    bars = yield from _bars(loop, found, {uuid: place for place, uuid in enumerate(shown)})
    users, more = yield from _users(found)
    known = [each for each in (found.first_s, first_hour_s) if each is not None]
    from_s = min(max(begin_s, min(known, default=begin_s)), end_s)
    total = found.total
    return {
        "since": begin_s,
        "until": end_s,
        "known_since": from_s,
        "removed_until": loop.store.rows.removed_until(),
        "energy_since": first_hour_s,
        "currency": costs.currency,
        "pue": costs.pue,
        "gpus": len(devices),
        "simulated": are_simulated(loop.scheduler.snapshot),
        "total": {**total.document(), "running": found.running, "waiting": waiting},
        "waited": {
            **_waited(found.waits),
            "classes": [
                {"from_s": float(least), "jobs": count}
                for least, count in zip(WAITS_S, found.classes, strict=True)
            ],
        },
        "use": found.use.document(),
        "deaths": {
            "jobs_hit": found.hit,
            "recovered": found.recovered,
            "not_ended": found.hit_open,
            "attempts": found.attempts,
            "attempts_without_gpu": found.gpuless,
            "attempts_shared": found.shared,
            "deaths_shared": found.shared_oom,
        },
        "estimators": estimators,
        "users": users,
        "more_users": more,
        "devices": [_device(uuid, devices.get(uuid), found) for uuid in shown],
        "times": _times(found),
        "bars": bars,
        "more_bars": found.stays - len(found.longest),
    }


def _wait(loop: Loop, found: OverviewSums) -> Work[int]:
    """Count the jobs that have never started; return how many wait now."""
    pace, waiting = Pace(), 0
    for job in loop.scheduler.snapshot.jobs:
        waiting += job.state.waiting
        if not job.attempts and job.run == 1:
            found.wait(past_job(job))
        yield from pace.rest_if_spent()
    return waiting


def _energy(loop: Loop, found: OverviewSums) -> Work[int | None]:
    """Add the energy of each bin; return the first hour on record."""
    costs, bins = loop.parts.costs, found.bins

    def visit(row: EnergyRow) -> None:
        place = bins.place(row.hour_s)
        if place is not None:
            add_energy(costs, row, found.total, found.ends[place])
            if row.job_id is None:
                found.total.idle_j += row.joules
                found.ends[place].idle_j += row.joules

    return (yield from visit_energy(loop, int(bins.edges[0]), bins.edges[-1], "user", visit))


def _estimators(loop: Loop, found: OverviewSums) -> Work[list[Document]]:
    """What the estimators had said, beside the peaks of the attempts that ended."""
    ratios: dict[str, Quantiles] = {}
    below: dict[str, int] = {}
    for at in range(0, len(found.serials), _RUNS_AT_ONCE):
        peaks = dict(
            zip(
                found.serials[at : at + _RUNS_AT_ONCE],
                found.peaks[at : at + _RUNS_AT_ONCE],
                strict=True,
            )
        )
        for serial, told in loop.store.runs.told(list(peaks)):
            for name, mib in told.items():
                if name not in ratios:
                    if len(ratios) >= MOST_ESTIMATORS:
                        continue
                    ratios[name], below[name] = Quantiles(_LEAST_RATIO), 0
                ratios[name].add(mib / peaks[serial])
                below[name] += mib < peaks[serial]
        yield
    return [
        {
            "estimator": name,
            "runs": each.count,
            "ratio": each.quantile(0.5),
            "ratio_p5": each.quantile(0.05),
            "ratio_p95": each.quantile(0.95),
            "below": below[name],
        }
        for name, each in sorted(ratios.items(), key=lambda item: (-item[1].count, item[0]))
    ]


def _device(uuid: str, device: Device | None, found: OverviewSums) -> Document:
    return {
        "gpu": uuid,
        "index": device.index if device else None,
        "name": device.name if device else None,
        "total_mib": device.total_mib if device else None,
        **found.device(uuid).document(),
    }


def _bars(loop: Loop, found: OverviewSums, places: dict[str, int]) -> Work[list[Document]]:
    """The attempts that stayed longest, in the order of their begin."""
    pace, documents = Pace(), []
    for _, _, past, attempt in sorted(found.longest, key=lambda each: each[1]):
        job = loop.scheduler.snapshot.job(past.id) or loop.store.job(past.id)
        label = job.label if job is not None else str(past.id)
        documents.append(_bar(found, past, attempt, label, places))
        yield from pace.rest_if_spent()
    return documents


def _bar(
    found: OverviewSums, past: PastJob, attempt: UsedAttempt, label: str, places: dict[str, int]
) -> Document:
    begin_s, end_s = attempt.stay(found.now)
    return {
        "job": label,
        "name": past.spec.name[:_NAME],
        "user": past.spec.user[:_NAME],
        "gpus": [places[each] for each in attempt.devices[:MOST_GPUS] if each in places],
        "begin_at": begin_s,
        "end_at": None if attempt.ended is None else end_s,
        "outcome": None if attempt.outcome is None else attempt.outcome.value,
        "peak_mib": attempt.peak_mib,
    }


def _users(found: OverviewSums) -> Work[tuple[list[Document], int]]:
    """The users with the most GPU time, and the number of the others."""
    pace = Pace()
    best: list[tuple[str, User]] = []
    users = iter(found.users.items())
    while some := list(islice(users, 1000)):
        best += some
        best.sort(key=lambda each: (-each[1].gpu_s, -each[1].figures.jobs, each[0]))
        del best[MOST_USERS:]
        yield from pace.rest_if_spent()
    documents: list[Document] = [
        {
            "user": name,
            **{key: value for key, value in each.figures.document().items() if key in _OF_USER},
            "gpu_s": each.gpu_s,
            **_waited(each.waits),
            "jobs_hit": each.hit,
            "recovered": each.recovered,
        }
        for name, each in best
    ]
    return documents, len(found.users) - len(best)


_OF_USER = ("jobs", "completed", "failed", "timeout", "cancelled", "oom_deaths")


def _waited(waits: Quantiles) -> dict[str, Any]:
    return {
        "started": waits.count,
        "median_waited_s": waits.quantile(0.5),
        "p95_waited_s": waits.quantile(0.95),
    }


def _times(found: OverviewSums) -> list[Document]:
    """The bins, from the first one of which anything is known."""
    waiting = found.waiting.means()
    documents: list[Document] = []
    for place, (sums, mean) in enumerate(zip(found.ends, waiting, strict=True)):
        if not documents and sums.empty and not mean:
            continue
        lasting_s = found.bins.lasting_s(place)
        figures = sums.document()
        documents.append(
            {
                "at": found.bins.edges[place],
                "until": found.bins.edges[place + 1],
                **{key: figures[key] for key in (*_OF_USER, "kwh", "cost")},
                "idle_kwh": Figures(joules=sums.idle_j).document()["kwh"],
                "gpus_used": sums.gpu_s / lasting_s if lasting_s else 0.0,
                "waiting": mean,
            }
        )
    return documents
