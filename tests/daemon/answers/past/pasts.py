"""A past of jobs, and a daemon's loop as far as the questions about it use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec

from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    JobSpec,
    Placement,
    Share,
)
from radrm.core.words import Collocation, JobState, Outcome
from radrm.daemon.answers.past.history import history
from radrm.daemon.answers.past.overview import overview
from radrm.daemon.answers.past.report import report
from radrm.daemon.serving.turns import InLine, finish
from radrm.deadlines import Costs, Zone
from radrm.host.storage.ended import PastAttempt, PastJob, UsedAttempt
from radrm.host.storage.energy import EnergyRow
from radrm.structs import replace

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
MIDNIGHT = 400 * DAY_S


def at(seconds: float) -> Instant:
    return Instant(seconds, MIDNIGHT + seconds, "boot")


def job(number: int, state: JobState = JobState.COMPLETED, **changed: Any) -> Job:
    """A job of `user` and `group`, submitted at midnight; `started`, `ended` and `rerun` in
    seconds."""
    spec = JobSpec(f"j{number}", changed.pop("user", "ada"), 1000, group=changed.pop("group", None))
    run, attempts = changed.pop("run", 1), changed.pop("attempts", 1)
    times = {key: at(value) for key, value in changed.items()}
    found = Job(number, f"T{number}", spec, at(0), state, attempts=attempts, run=run)
    return replace(found, **times)


def attempt(
    job_id: int,
    serial: int,
    begin_s: float,
    end_s: float | None,
    *gpus: str,
    outcome: Outcome | None = Outcome.COMPLETED,
) -> Attempt:
    shares = tuple(Share(gpu) for gpu in gpus) or (Share(None),)
    return Attempt(
        *(job_id, serial, serial, Placement(shares, Collocation.MPS), at(begin_s), at(begin_s)),
        ended=None if end_s is None else at(end_s),
        outcome=None if end_s is None else outcome,
    )


@dataclass
class Past:
    """The jobs with their attempts, at `now_s` seconds after midnight."""

    jobs: Sequence[Job]
    attempts: Sequence[Attempt] = ()
    now_s: float = 4 * DAY_S
    costs: Costs = field(default_factory=Costs)
    gpus: tuple[str, ...] = ("A", "B")
    removed_until: float | None = None
    told: dict[int, dict[str, float]] = field(default_factory=dict)
    energy: tuple[EnergyRow, ...] = ()
    earlier: Sequence[Job] = ()
    """Jobs as they were at the ends of earlier runs."""

    def runs_of(self, ids: Sequence[int]) -> Iterator[list[PastJob]]:
        yield [
            msgspec.convert(msgspec.to_builtins(each), PastJob)
            for each in self.earlier
            if each.id in ids
        ]

    def between(self, begin_s: float, end_s: float) -> Iterator[list[PastJob]]:
        found = [each for each in self.jobs if each.ended and begin_s <= each.ended.wall_s < end_s]
        yield [
            msgspec.convert(msgspec.to_builtins(each), PastJob)
            for each in sorted(found, key=lambda each: (each.ended.wall_s, each.id))
        ]

    def attempts_of(self, ids: Sequence[int]) -> Iterator[list[PastAttempt]]:
        yield [
            msgspec.convert(msgspec.to_builtins(each), PastAttempt)
            for each in self.attempts
            if each.job_id in ids
        ]

    def used(self, ids: Sequence[int]) -> Iterator[list[UsedAttempt]]:
        yield [
            msgspec.convert(msgspec.to_builtins(each), UsedAttempt)
            for each in self.attempts
            if each.job_id in ids
        ]

    def rows_of_energy(self, begin_s: int, end_s: int, by: str) -> list[EnergyRow]:
        return [each for each in self.energy if begin_s <= each.hour_s < end_s]

    @property
    def loop(self) -> Any:
        known = {each.id: each for each in self.jobs}
        devices = [
            SimpleNamespace(device=Device(gpu, n, "A100", 1), vanished=False)
            for n, gpu in enumerate(self.gpus)
        ]
        return SimpleNamespace(
            clock=SimpleNamespace(now=lambda: at(self.now_s)),
            past=InLine(),
            parts=SimpleNamespace(costs=self.costs),
            save_volatile=lambda: None,
            scheduler=SimpleNamespace(
                snapshot=SimpleNamespace(
                    devices=devices,
                    jobs=[each for each in self.jobs if not each.state.final],
                    job=known.get,
                )
            ),
            store=SimpleNamespace(
                job=known.get,
                ended=SimpleNamespace(
                    between=self.between,
                    attempts=self.attempts_of,
                    used=self.used,
                    earlier=self.runs_of,
                ),
                runs=SimpleNamespace(
                    told=lambda serials: [(n, self.told[n]) for n in serials if n in self.told]
                ),
                rows=SimpleNamespace(
                    users=lambda: iter(sorted({each.spec.uid for each in self.jobs})),
                    removed_until=lambda: self.removed_until,
                ),
                energy=SimpleNamespace(
                    first_hour_s=lambda: min((e.hour_s for e in self.energy), default=None),
                    hour_of=lambda s: int(s - s % HOUR_S),
                    sums=self.rows_of_energy,
                ),
            ),
        )

    def report(self, by: str = "user", since: float = MIDNIGHT, **words: Any) -> Any:
        return finish(report(self.loop, {"by": by, "since": since, **words}, 1000))

    def overview(self, since: float = MIDNIGHT, **words: Any) -> Any:
        return finish(overview(self.loop, {"since": since, **words}, 1000))

    def history(self, since: float = MIDNIGHT, **words: Any) -> Any:
        return finish(history(self.loop, {"since": since, **words}, 1000))


BERLIN_LIKE = Zone((0.0, MIDNIGHT + 30 * HOUR_S), (3600.0, 7200.0))
"""The clock goes forward at 7:00 of the second day."""
