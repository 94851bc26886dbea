"""Try estimators on measured jobs, and compare them by their errors.

Sizes are in MiB. An error is the estimate minus the measurement. A relative error is a share of
the measurement; 0.05 is 5 %.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from statistics import fmean, median
from typing import Any

import msgspec
from msgspec import Struct

from radrm.client.estimates import TRACED, Asked, answer, memory_of, traced
from radrm.config import Config
from radrm.core.records import Estimate
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.errors import BadConfig
from radrm.estimators import ESTIMATORS
from radrm.estimators.interface import Description, Estimator, PastRun
from radrm.estimators.learning.learned import MOST_RUNS
from radrm.estimators.learning.ratios import told_of
from radrm.host.estimation.commands import command_of
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.lab.documents import Evaluated, Evaluation
from radrm.lab.experiments.datasets import Dataset, Measured
from radrm.structs import replace
from radrm.wiring import asked_by_auto, describe, find_rule, make_estimating, offered

LEARNING = "auto (learning)"
"""What `auto` says at a new site: each job is estimated with what those before it have shown."""
ORDERS = 9
"""The orders in which the jobs are tried then: the dataset's own, and random ones."""


class Case(Struct, frozen=True):
    """One job: its measurement and its estimate. `None`: the estimator gave none."""

    name: str
    measured_mib: float
    value_mib: float | None = None
    upper_mib: float | None = None
    seconds: float | None = None
    whole_device: bool = False
    """Whether the estimate is a whole device, without a figure."""


def accuracy(estimator: str, cases: Sequence[Case]) -> Evaluation:
    """The figures of an estimator for these cases."""
    known = [c for c in cases if c.value_mib is not None and not c.whole_device]
    errors = [c.value_mib - c.measured_mib for c in known if c.value_mib is not None]
    shares = [abs(e) / c.measured_mib for e, c in zip(errors, known, strict=True)]
    beyond = [
        (c.upper_mib - c.measured_mib, c.measured_mib) for c in known if c.upper_mib is not None
    ]
    over = [e for e in errors if e > 0]
    upper_over = [(e, whole) for e, whole in beyond if e > 0]
    seconds = [c.seconds for c in known if c.seconds is not None]
    return Evaluation(
        estimator=estimator,
        jobs=len(cases),
        estimated=len(known),
        whole_device=sum(c.whole_device for c in cases),
        mape=fmean(shares) if shares else None,
        median_error=median(shares) if shares else None,
        under=sum(e < 0 for e in errors),
        worst_under_mib=min((e for e in errors if e < 0), default=None),
        worst_over_mib=max(over, default=None),
        over_mib=fmean(over) if over else None,
        upper_under=sum(e < 0 for e, _ in beyond),
        upper_over_mib=fmean(e for e, _ in upper_over) if upper_over else None,
        upper_over=fmean(e / whole for e, whole in upper_over) if upper_over else None,
        seconds=median(seconds) if seconds else None,
    )


Document = dict[str, Any]


def estimators_known(config: Config) -> list[Document]:
    """Every estimator, with its place in the order in which this configuration asks them."""
    chain = asked_by_auto(config) if config.estimator == "auto" else (config.estimator,)
    return [
        {
            "estimator": name,
            "about": _about(name),
            "asked": list(chain).index(name) + 1 if name in chain else None,
        }
        for name in dict.fromkeys((*ESTIMATORS, *sorted(offered("estimators"))))
    ]


def _about(name: str) -> str:
    """What an estimator says of itself: a shipped one in its module, others in their class."""
    try:
        own, rule = ESTIMATORS.get(name), find_rule("estimators", name)
    except BadConfig as error:
        return str(error)
    about = import_module(own.partition(":")[0]).__doc__ if own is not None else rule.__doc__
    return (about or "").partition("\n")[0].rstrip(".")


def evaluate(
    found: Dataset,
    config: Config,
    names: Sequence[str],
    python: str,
    progress: Callable[[int, int], object] = lambda done, jobs: None,
) -> dict[str, list[Case]]:
    """The cases of each estimator. Estimates in the dataset itself are separate, as
    `NAME (recorded)`. The estimators see neither these nor the measurement. `progress` is called
    with the number of jobs that are done, and of all jobs. `auto` is tried twice: before the first
    run, and learning."""
    results: dict[str, list[Case]] = {}
    described: list[tuple[Measured, Description]] = []
    for at, job in enumerate(found.jobs, 1):
        for name, mib in job.recorded.items():
            whole = mib >= WHOLE_DEVICE_MIB
            case = Case(job.name, job.measured_mib, mib, mib, None, whole)
            results.setdefault(f"{name} (recorded)", []).append(case)
        if job.job_file is not None:
            asked = _asked(job, config, python, bool(TRACED & set(names)))
            for note in asked.notes:
                found.errors.append(f"{job.name}: {note}")
            for name in names:
                results.setdefault(name, []).append(_tried(asked, job, config, name))
            described.append((job, asked.job))
        progress(at, len(found.jobs))
    if "auto" in names and described:
        results[LEARNING] = _learning(described, config)
    return results


def _asked(job: Measured, config: Config, python: str, trace: bool) -> Asked:
    assert job.job_file is not None
    description = replace(describe(job.job_file), published={}, declared_mib=None)
    asked = Asked(job.name, job.job_file.options, description)
    if job.job_file.options.model_factory is None or not trace:
        return asked
    request = TraceRequest(
        arguments=tracer_arguments(job.job_file.options),
        cwd=os.path.abspath(job.folder),
        environment=dict(os.environ),
        python=python,
        command=command_of(job.job_file),
    )
    return traced(asked, request, config)


def _tried(asked: Asked, job: Measured, config: Config, name: str) -> Case:
    return _case(job, memory_of(answer(asked, config, name)))


def _case(job: Measured, memory: Estimate | None) -> Case:
    if memory is None:
        return Case(job.name, job.measured_mib)
    whole = memory.value >= WHOLE_DEVICE_MIB
    return Case(job.name, job.measured_mib, memory.value, memory.upper, memory.seconds, whole)


# ------------------------------------------------------------------ learning from run to run


@dataclass(slots=True)
class _Once:
    """A route of `auto` that computes its own figures of a job once, for all orders."""

    inner: Estimator
    name: str = ""
    _found: dict[int, tuple[Estimate, ...] | Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        key = id(job.spec)  # each job of a dataset has its own
        if key not in self._found:
            try:
                self._found[key] = self.inner.estimate(job)
            except Exception as error:  # a third party's estimator may raise anything
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found


def _learning(jobs: Sequence[tuple[Measured, Description]], config: Config) -> list[Case]:
    """The cases of `auto` on a machine that knows nothing and runs these jobs one after another,
    none of them known as an earlier job. Of several orders the one with the middle error."""
    auto = make_estimating(dataclasses.replace(config, estimator="auto"), _Once).estimator
    orders = [list(jobs) for _ in range(ORDERS)]
    for seed, order in enumerate(orders[1:]):
        random.Random(seed).shuffle(order)
    replays = [_one_after_another(order, auto) for order in orders]
    replays.sort(key=lambda cases: accuracy(LEARNING, cases).mape or 0.0)
    return replays[ORDERS // 2]


def _one_after_another(jobs: Sequence[tuple[Measured, Description]], auto: Estimator) -> list[Case]:
    cases: list[Case] = []
    runs: tuple[PastRun, ...] = ()
    for job, described in jobs:
        found = auto.estimate(replace(described, recent_runs=runs))
        memory = [each for each in found if each.quantity is Quantity.MEMORY]
        cases.append(_case(job, memory[0] if memory else None))
        run = PastRun(
            round(job.measured_mib),
            device_kind="",
            told=told_of(found, Quantity.MEMORY),
            cuda=next((e.cuda for e in memory if e.cuda is not None), None),
            family=next((e.family for e in memory if e.family is not None), None),
        )
        runs = (run, *runs)[:MOST_RUNS]
    return cases


def evaluation_document(estimator: str, tried: list[Case], cases: bool) -> Document:
    """The same as JSON; `cases`: with the estimate of each job."""
    found = accuracy(estimator, tried)
    if cases:
        each = tuple(
            Evaluated(
                name=c.name,
                measured_mib=c.measured_mib,
                memory_mib=c.value_mib,
                upper_mib=c.upper_mib,
            )
            for c in tried
        )
        found = msgspec.structs.replace(found, cases=each)
    return found.document
