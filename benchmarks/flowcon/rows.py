"""The rows of the page: the published experiments of section 6.1, ours, and their controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from benchmarks.flowcon.independent import Work, completion_s
from benchmarks.flowcon.jobs import Compared, change, compare, drawn, five, three
from radrm.lab.simulator.traces.job import TraceJob

LETTER = {"measure": "paper"}
GROWTH: dict[str, str] = {}
COMPLETION = {"goal": "completion"}
CURVES = (0.5, 0.7, 1.0, 1.4, 2.0)
"""What the independent model's losses fall by, as multiples of `loss_k`."""
CONTENTION = 0.03


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment with one setting: its text, the published figure, and ours.

    `apart`: the least and the most change of the last job in the independent model.
    """

    name: str
    published: str
    letter: Compared
    letter_lot: Compared
    ours: Compared
    ours_lot: Compared
    apart: tuple[float, float] | None = None
    completion: Compared | None = None


def _row(
    name: str,
    published: str,
    traces: Mapping[int, Sequence[TraceJob]],
    base: Mapping[str, Any],
    *,
    apart: tuple[float, float] | None = None,
    completion: bool = False,
) -> Row:
    return Row(
        name,
        published,
        compare(traces, {**base, **LETTER}),
        compare(traces, {**base, **LETTER}, lot=True),
        compare(traces, {**base, **GROWTH}),
        compare(traces, {**base, **GROWTH}, lot=True),
        apart,
        compare(traces, {**base, **COMPLETION}) if completion else None,
    )


def _base(alpha: float, interval_s: float) -> dict[str, Any]:
    return {"alpha": alpha, "interval_s": interval_s}


THREE = {
    (0.05, 30.0): (-31.9,),
    (0.10, 20.0): (-26.2, -19.0),
    (0.10, 30.0): (-32.4,),
    (0.10, 40.0): (-14.3,),
    (0.10, 50.0): (-15.3,),
    (0.10, 60.0): (-3.1,),
    (0.01, 20.0): (-32.1,),
    (0.03, 20.0): (-31.0,),
    (0.05, 20.0): (-29.87, -21.4),
    (0.15, 20.0): (-19.8,),
}
"""The published changes of MNIST-TF, by alpha and interval."""
FIVE = {(0.03, 30.0): 4, (0.03, 60.0): 5, (0.05, 30.0): 4, (0.05, 60.0): 4}
"""The published numbers of jobs that end sooner."""
MANY = ((10, 1384.9, (9, -2.5, -41.2, 1.1)), (15, 1980.1, (11, -1.5, -11.9, 5.7)))
"""Jobs, makespan of equal sharing; jobs that end sooner, changes of makespan, best and worst."""


def three_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Table 6.2 and Figure 6.1: MNIST-TF, the third job."""
    traces = {seed: three() for seed in seeds}
    return [
        _row(
            f"{alpha:.0%}, {interval_s:.0f} s",
            ", ".join(f"{each:.1f}" for each in changes),
            traces,
            _base(alpha, interval_s),
            apart=last_apart(alpha, interval_s),
        )
        for (alpha, interval_s), changes in THREE.items()
    ]


def five_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Figure 6.7."""
    traces = {seed: five(seed) for seed in seeds}
    return [
        _row(
            f"5 jobs, {alpha:.0%}, {interval_s:.0f} s",
            f"{sooner}, -1 to -5; -42.1, +11.8",
            traces,
            _base(alpha, interval_s),
        )
        for (alpha, interval_s), sooner in FIVE.items()
    ]


def many_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Figures 6.10 and 6.15."""
    return [
        _row(
            f"{count} jobs, 10%, 20 s",
            f"{sooner}, {makespan:g}; {best:g}, {worst:+g}",
            {seed: drawn(count, makespan_s, seed) for seed in seeds},
            _base(0.10, 20.0),
            completion=True,
        )
        for count, makespan_s, (sooner, makespan, best, worst) in MANY
    ]


def _works(jobs: Sequence[TraceJob], curve: float = 1.0) -> list[Work]:
    cpus = [job.cpus or 1.0 for job in jobs]
    return [
        (job.submit_s, job.duration_s * wants, (job.loss_k or 0.0) * curve, wants)
        for job, wants in zip(jobs, cpus, strict=True)
    ]


def last_apart(alpha: float, interval_s: float) -> tuple[float, float]:
    """Return the least and the most change of MNIST-TF in the independent model."""
    found = []
    for curve in CURVES:
        works = _works(three(), curve)
        equal = completion_s(works, None, interval_s)[-1]
        found.append(change(equal, completion_s(works, alpha, interval_s)[-1]))
    return min(found), max(found)


def last_whole(alpha: float, interval_s: float) -> float:
    """Return the change of MNIST-TF in the independent model, if new jobs count as all growth."""
    works = _works(three())
    equal = completion_s(works, None, interval_s)[-1]
    return change(equal, completion_s(works, alpha, interval_s, whole=True)[-1])


def contended_makespans(seeds: Sequence[int]) -> list[float]:
    """Return the change of the makespan of 5, 10 and 15 jobs in the independent model, if each
    further job slows all by `CONTENTION`."""
    found = []
    many = [partial(drawn, count, makespan_s) for count, makespan_s, _ in MANY]
    for made, alpha, interval_s in ((five, 0.03, 30.0), *((each, 0.10, 20.0) for each in many)):
        changes = []
        for seed in seeds:
            works = _works(made(seed))
            ends = [
                max(
                    work[0] + took_s
                    for work, took_s in zip(
                        works, completion_s(works, rule, interval_s, CONTENTION), strict=True
                    )
                )
                for rule in (None, alpha)
            ]
            changes.append(change(*ends))
        found.append(fmean(changes))
    return found
