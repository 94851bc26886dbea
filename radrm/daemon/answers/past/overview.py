"""How a server did in a time: throughput, waiting, use, deaths, energy, estimators, attempts.

`radrm report --overview` and the page of `--html`. The sums are those of `report`, of the same
whole hours, and every user sees them. docs/reports.md says what each figure means.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from radrm.core.records import Device
from radrm.daemon.answers.energy import whole_hours
from radrm.daemon.answers.past.bins import DAY_S, Bins
from radrm.daemon.answers.past.figures import Figures
from radrm.daemon.answers.past.gather import gather_used, past_job
from radrm.daemon.answers.past.overview_sums import WAITS_S, OverviewSums, User
from radrm.daemon.answers.past.quantiles import Quantiles
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document
from radrm.errors import UsageError
from radrm.host.storage.ended import PastJob, UsedAttempt

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
    held = yield from gather_used(loop, begin_s, end_s, now, found.visit)
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
        if not job.attempts:
            found.wait(past_job(job))
        if pace.spent:
            yield from pace.rest()
    return waiting


def _energy(loop: Loop, found: OverviewSums) -> Work[int | None]:
    """Add the energy of each bin; return the first hour on record."""
    loop.save_volatile()
    book, costs, pace = loop.store.energy, loop.parts.costs, Pace()
    first_s, bins = book.first_hour_s(), found.bins
    at_s, end_s = int(bins.edges[0]), bins.edges[-1]
    if first_s is None:
        return None
    at_s = max(at_s, first_s)
    while at_s < end_s:
        next_s = int(min(at_s + DAY_S, end_s + 1))
        for row in book.sums(at_s, next_s, "user"):
            place = bins.place(row.hour_s)
            if place is None:
                continue
            cost = costs.energy_cost(row.joules, row.hour_s, row.hour_s + 3600)
            for sums in (found.total, found.ends[place]):
                sums.joules += row.joules
                sums.cost += cost
                sums.idle_j += row.joules if row.job_id is None else 0.0
        at_s = next_s
        if pace.spent:
            yield from pace.rest()
    return first_s


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
        if pace.spent:
            yield from pace.rest()
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
        if pace.spent:
            yield from pace.rest()
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
