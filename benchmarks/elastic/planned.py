"""The rows of the planners `dlrover` and `nearchus` under `Scheduler.step`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.elastic.models import WIDE_DEEP, X_DEEP_FM
from benchmarks.elastic.rows import Row, spread
from benchmarks.elastic.shared import Alone, Forty
from benchmarks.elastic.stepped import layouts
from radrm.lab.simulator.elastic.training import TrainingJobRun


def planner_rows(
    runs: Mapping[str, TrainingJobRun],
    alone_h: Sequence[Mapping[str, float]],
    beside: Sequence[Sequence[Alone]],
    forty: Sequence[tuple[float, float]],
    forty_beside: Mapping[str, Sequence[Forty]],
) -> list[Row]:
    """Return the rows of the planners under `Scheduler.step`.

    `runs`: of `dlrover`, by job. `alone_h`, `beside`: hours of one job by `nearchus` on A and B,
    and the other ways. `forty`: hours in the queue and until the end on A, for each seed.
    """
    sooner = [
        median(
            100 * (1 - hours[each.network.name] / (each.completion_s["optimus"] / 3600))
            for each in others
        )
        for hours, others in zip(alone_h, beside, strict=True)
    ]
    fixed, optimus = forty_beside["fa-bf"], forty_beside["optimus"]
    pairs = list(zip(forty, fixed, optimus, strict=False))
    queue = [100 * (ours[0] / other.queued_h - 1) for ours, other, _ in pairs if other.queued_h]
    time = [100 * (ours[1] / other.completion_h - 1) for ours, other, _ in pairs]
    to_optimus = [100 * (ours[1] / other.completion_h - 1) for ours, _, other in pairs]
    return [
        *_planned(runs),
        Row(
            "`nearchus`, one job: time against Optimus (A, B)",
            "up to 37.2 %, 61.6 % less",
            f"median {sooner[0]:.1f} %, {sooner[1]:.1f} % less",
            "median ≥ 37 %, ≥ 40 %",
            "CPUs change in place; another number of tasks costs a minute",
            sooner[0] >= 37 and sooner[1] >= 40,
        ),
        Row(
            "`nearchus`, 40 jobs (A): queue, time against FA-BF",
            "-67.8 %, -23.6 %",
            f"{spread(queue)}, {spread(time)}",
            "at least that",
            f"{len(pairs)} seeds; a job starts with less than 15 CPUs where no more are free",
            median(queue) <= -67.8 and median(time) <= -23.6,
        ),
        Row(
            "`nearchus`, 40 jobs (A): time against Optimus",
            "-35.6 %",
            spread(to_optimus),
            "at least that",
            "the same",
            median(to_optimus) <= -35.6,
        ),
    ]


def _planned(runs: Mapping[str, TrainingJobRun]) -> list[Row]:
    found = []
    for job, speeds in ((WIDE_DEEP, "210 → 258 steps/s"), (X_DEEP_FM, "47.8 → 56 steps/s")):
        run = runs[job.name]
        seen = layouts(run)
        shown = ", ".join(
            f"{len(each.workers)} + {len(each.servers)} x {max(each.servers):g}: {speed:.0f}"
            for each, speed in seen
        )
        found.append(
            Row(
                f"`dlrover`, {job.name}: workers + PS: steps/s",
                speeds,
                f"{shown}; {(run.jct_s or 0.0) / 60:.0f} min",
                "Table 2 is among them",
                "a start takes 120 s, new PS 30 s; beyond the quota there are spare workers",
                any(each == job.tuned for each, _ in seen),
            )
        )
    return found
