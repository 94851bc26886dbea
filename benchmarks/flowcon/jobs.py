"""The jobs of the published experiments, as far as the thesis tells them, and their runs.

One server whose CPUs count as one; without a planner jobs share them equally (the thesis's NA). The
work of the three jobs of section 6.1.3 follows from what it says of equal sharing: VAE (PyTorch)
ends at 394 s, the three overlap for 84.7 s, two of them for 240.5 s; those of the five follow from
section 6.1.4 (`five`). Those of the ten and fifteen jobs are drawn from eight models and scaled, so
that equal sharing has about the published makespan. LSTM-CFC uses 19 % of the CPUs (section
6.1.4), the others all. No loss curve is published: exp(-k x work done) with these k is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any
from unittest.mock import patch

from benchmarks.flowcon.independent import filled
from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.published import flowcon
from radrm.published.flowcon import Growth
from radrm.simulated.spec import parse

REPORT_S = 2.0

_LIFE = Life(start_up_s=0.0, ramp_s=0.0, hold_s=0.0, spread=0.0, work_sd=0.02)

_LSTM_CFC = "LSTM-CFC"
_MODELS = (
    (_LSTM_CFC, 100.0, 4.0),
    ("VAE (PyTorch)", 260.0, 6.0),
    ("VAE (TensorFlow)", 180.0, 6.0),
    ("MNIST (PyTorch)", 106.0, 5.0),
    ("GRU", 90.0, 5.0),
    ("MNIST (TensorFlow)", 28.0, 4.0),
    ("LSTM-CRF", 150.0, 4.0),
    ("Bidirectional-RNN", 120.0, 5.0),
)
"""CPU seconds, and how fast the loss falls. The first five are those of the five jobs."""


def _job(submit_s: float, name: str, work_s: float, loss_k: float) -> TraceJob:
    """Return a job with this work in CPU seconds."""
    cpus = 0.19 if name == _LSTM_CFC else 1.0
    return TraceJob(
        submit_s, name, 0, work_s / cpus, 1.0, 0.0, cpus=cpus, loss_k=loss_k, report_s=REPORT_S
    )


def three() -> list[TraceJob]:
    """Return the jobs of section 6.1.3."""
    return [
        _job(0.0, "VAE (PyTorch)", 259.7, 6.0),
        _job(40.0, "MNIST (PyTorch)", 106.1, 5.0),
        _job(80.0, "MNIST (TensorFlow)", 28.2, 4.0),
    ]


_NA_END_S = 730.0
"""When the last two of the five jobs end under equal sharing."""


def five(seed: int) -> list[TraceJob]:
    """Return the jobs of Figure 6.7. Their work follows from what section 6.1.4 says of equal
    sharing: Job-1 is alone until 50 s, Job-2 with it until 80 s, these two from 650 to 730 s; Job-4
    takes 422.5 s and Job-5 489.4 s. Only when these two come is drawn: none ends after 650 s.
    """
    rng = Random(f"five {seed}")
    fifth_s = rng.uniform(80.0, 650.0 - 489.4)
    begins = (0.0, 50.0, 80.0, rng.uniform(80.0, fifth_s), fifth_s)
    ends = (_NA_END_S, _NA_END_S, 650.0, begins[3] + 422.5, fifth_s + 489.4)
    cpus = [0.19, 1.0, 1.0, 1.0, 1.0]
    works = [0.0] * len(cpus)
    times = sorted({*begins, *ends})
    for at_s, until_s in pairwise(times):
        live = [job for job in range(len(cpus)) if begins[job] <= at_s < ends[job]]
        for job, part in zip(live, filled([cpus[job] for job in live], 1.0), strict=True):
            works[job] += part * (until_s - at_s)
    return [
        _job(at_s, name, work_s, k)
        for at_s, work_s, (name, _, k) in zip(begins, works, _MODELS, strict=False)
    ]


def drawn(count: int, makespan_s: float, seed: int) -> list[TraceJob]:
    """Return `count` jobs submitted within 200 s that equal sharing ends in about `makespan_s`."""
    rng = Random(f"{count} jobs {seed}")
    times = sorted(rng.uniform(0.0, 200.0) for _ in range(count))
    models = [_MODELS[at % len(_MODELS)] for at in range(count)]
    rng.shuffle(models)
    spread = [work * rng.uniform(0.8, 1.25) for _, work, _ in models]
    factor = (makespan_s - times[0]) / sum(spread)
    return [
        _job(at - times[0], name, work * factor, k)
        for at, work, (name, _, k) in zip(times, spread, models, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Times:
    """The completion times of the jobs of one run, in the order of the trace, and its makespan."""

    each_s: tuple[float, ...]
    makespan_s: float


def play(
    jobs: Sequence[TraceJob], seed: int, settings: Mapping[str, Any] | None, *, lot: bool = False
) -> Times:
    """Run jobs with FlowCon and these settings; None: equal shares.

    `lot`: the control; growth is drawn by lot in place of following the losses.
    """
    if lot:
        with _by_lot(seed):
            return play(jobs, seed, settings)
    planners: dict[str, Any] = {} if settings is None else {"flowcon": dict(settings)}
    config = Config(
        planner=("strict", *planners), planners=planners, core={"gpuless_at_once": len(jobs)}
    )
    run = simulate(
        jobs, Scenario(parse("sim:1xA100-40GB"), config, seed=seed, life=_LIFE, cpus=1.0)
    )
    ended = [each.ended_s for each in run.jobs]
    assert all(end is not None for end in ended), [each.reason for each in run.jobs]
    each_s = tuple((end or 0.0) - job.submit_s for end, job in zip(ended, jobs, strict=True))
    return Times(each_s, run.ended_s)


def first_parts() -> list[float]:
    """Return the parts of the CPUs of VAE and MNIST-P when the second comes (Figure 6.5)."""
    seen: list[list[float]] = []
    real = flowcon.soft_parts

    def noted(limits: Sequence[float]) -> list[float]:
        seen.append(real(limits))
        return seen[-1]

    with patch.object(flowcon, "soft_parts", noted):
        play(three()[:2], 0, {"measure": "paper", "alpha": 0.05, "interval_s": 20.0})
    return next(parts for parts in seen if len(parts) == 2)


@contextmanager
def _by_lot(seed: int) -> Iterator[None]:
    """Have FlowCon draw G from a thousandth to 0.3 from a job's second run on."""
    rng = Random(f"lot {seed}")

    def drawn(note: Growth, *_: object) -> bool:
        note.growth = 10 ** rng.uniform(-3.0, -0.5) if note.runs > 1 else None
        return note.growth is not None

    with patch.multiple(flowcon, grow=drawn, grow_as_published=drawn):
        yield


def change(before: float, after: float) -> float:
    """Return the change in percent; negative: shorter."""
    return 100 * (after / before - 1)


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs with and without FlowCon, over all seeds, in percent (negative: shorter).

    `sooner` is the mean number of jobs that end at least 0.1 % sooner, `worst` the largest delay of
    any job of a run, `best` the largest gain: means over the runs.
    """

    sooner: float
    mean: float
    worst: float
    best: float
    makespan: float
    makespan_s: float
    last: float
    """The change of the job that was submitted last."""


_equal: dict[str, Times] = {}
"""Runs with equal shares, by seed and jobs: all settings compare with them."""


def compare(
    trace: Mapping[int, Sequence[TraceJob]], settings: Mapping[str, Any], *, lot: bool = False
) -> Compared:
    """Compare FlowCon with equal shares on the trace of each seed."""
    sooner, mean, makespan, seconds, last = [], [], [], [], []
    best, worst = [], []
    for seed, jobs in trace.items():
        key = f"{seed} {jobs}"
        before = _equal[key] = _equal.get(key) or play(jobs, seed, None)
        after = play(jobs, seed, settings, lot=lot)
        changes = [change(a, b) for a, b in zip(before.each_s, after.each_s, strict=True)]
        sooner.append(sum(c < -0.1 for c in changes))
        mean.append(change(fmean(before.each_s), fmean(after.each_s)))
        makespan.append(change(before.makespan_s, after.makespan_s))
        seconds.append(after.makespan_s)
        best.append(min(changes))
        worst.append(max(changes))
        last.append(changes[-1])
    return Compared(
        sooner=fmean(sooner),
        mean=fmean(mean),
        worst=fmean(worst),
        best=fmean(best),
        makespan=fmean(makespan),
        makespan_s=fmean(seconds),
        last=fmean(last),
    )
