"""Traces of groups who share a server: published ones, dealt to users who repeat their programs.

A published trace of a cluster has arrivals, durations and GPUs, and no programs. Here each user has
programs: jobs whose durations are alike (within a factor of four), each with one memory and SM
activity of `fill.TYPICAL`, from run to run a few percent off. Three in ten jobs are unlike all
others. All is drawn from places of the trace, so every run has the same jobs.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from math import log
from pathlib import Path
from typing import Any

from benchmarks.simulation.published import published_trace
from radrm.lab.simulator.traces.draw import TYPICAL, dealt, fraction
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace

SHORT_S = 1200.0
"""A job of at most 20 minutes is short."""
_ONCE = 0.3
_VARIANTS = 2
_APART = 4.0
_LONGEST_S = 8 * 3600.0
_HOUR_S = 3600.0
_ONE_OFF, _VARIANT, _KIND, _MEMORY, _SMACT = (number << 36 for number in range(1, 6))


@dataclass(frozen=True, slots=True)
class Lab:
    """A trace and its users. `what` says where it is from and what was changed."""

    name: str
    users: int
    what: str
    read: Callable[[Path], Sequence[TraceJob]]


def _published(name: str, users: int) -> Callable[[Path], Sequence[TraceJob]]:
    return lambda data: dealt(published_trace(name, data), users, seed=1)


def _windowed(users: int, rows: Callable[[Path], list[TraceJob]]) -> Callable[[Path], Any]:
    return lambda data: with_programs(rows(data), users)


def _rows(
    path: Path,
    columns: tuple[str, str, str],
    from_h: float = 0.0,
    hours: float = 1e6,
    cluster: str = "",
    longer: float = 1.0,
    later: float = 1.0,
    most_gpus: int = 4,
) -> list[TraceJob]:
    """Return the jobs of a window, without programs: `job-LINE`.

    Durations are `longer` times as long, at most eight hours; arrivals `later` times as late.
    """
    submit, duration, gpus = columns
    found = []
    with path.open(encoding="utf-8") as lines:
        for line, row in enumerate(csv.DictReader(lines), 2):
            if (cluster and row["cluster"] != cluster) or not row[duration]:
                continue
            ran_s = float(row[duration]) * longer
            if ran_s > 0:
                found.append((_seconds(row[submit]), line, ran_s, int(row[gpus])))
    begin_s = min(at_s for at_s, *_ in found) + from_h * _HOUR_S
    return [
        TraceJob(
            submit_s=(at_s - begin_s) * later,
            name=f"job-{line}",
            gpus=min(count, most_gpus),
            duration_s=min(ran_s, _LONGEST_S),
            memory_mib=1.0,
            smact=0.0,
            line=line,
        )
        for at_s, line, ran_s, count in sorted(found)
        if 0 <= at_s - begin_s < hours * _HOUR_S
    ]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


def with_programs(jobs: Sequence[TraceJob], users: int) -> tuple[TraceJob, ...]:
    """Return jobs with the programs of so many users, and what these need."""
    kinds: dict[str, int] = {}
    sums = list(accumulate(kind.share for kind in TYPICAL))
    found = []
    for at, job in enumerate(dealt(jobs, users, seed=1)):
        name = job.name
        if fraction(1, _ONE_OFF + at) >= _ONCE:
            about = int(log(job.duration_s) / log(_APART))
            variant = int(fraction(1, _VARIANT + at) * _VARIANTS)
            name = f"{job.user}-{about}{'abcdefgh'[variant]}-{job.gpus}"
        drawn = fraction(1, _KIND + kinds.setdefault(name, len(kinds))) * sums[-1]
        kind = TYPICAL[min(bisect_right(sums, drawn), len(TYPICAL) - 1)]
        found.append(
            replace(
                job,
                name=name,
                memory_mib=kind.memory_mib * (0.97 + 0.06 * fraction(1, _MEMORY + at)),
                smact=kind.smact * (0.95 + 0.1 * fraction(1, _SMACT + at)),
                family=kind.family,
                batch_size=kind.batch_size,
            )
        )
    return tuple(found)


LABS = (
    Lab("heavy60", 4, "the thesis's 60 jobs", _published("heavy60", 4)),
    Lab("mix90", 4, "the thesis's 90 jobs", _published("mix90", 4)),
    Lab(
        "philly",
        6,
        "Philly, thinned: hours 42 to 54 of philly_sample_500",
        _windowed(
            6,
            lambda data: _rows(
                data / "public" / "philly_sample_500.csv",
                ("submit_s", "duration_s", "num_gpus"),
                from_h=42.0,
                hours=12.0,
            ),
        ),
    ),
    Lab(
        "tiresias",
        5,
        "Tiresias's 60 jobs: durations times 8, arrivals times 20, at most 4 GPUs",
        _windowed(
            5,
            lambda data: _rows(
                data / "public" / "tiresias_60_job.csv",
                ("submit_time", "duration", "num_gpu"),
                longer=8.0,
                later=20.0,
            ),
        ),
    ),
    Lab(
        "vc",
        8,
        "one virtual cluster of Philly (6c71a0): 12 hours with jobs on 4 GPUs",
        _windowed(
            8,
            lambda data: _rows(
                data / "public" / "pollux_philly.csv",
                ("timestamp", "duration", "num_gpus"),
                from_h=624.75,
                hours=12.0,
                cluster="6c71a0",
            ),
        ),
    ),
)
"""The traces of the benchmark `shipped`."""
