"""Try estimators on measured jobs, and compare them by their errors.

Sizes are in MiB. An error is the estimate minus the measurement. A relative error is a share of
the measurement; 0.05 is 5 %.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import fmean, median

import msgspec
from msgspec import Struct

from radrm.client.estimates import TRACED, Asked, answer, memory_of, traced
from radrm.client.text import Document
from radrm.config import Config
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.errors import BadConfig
from radrm.estimators import ESTIMATORS
from radrm.host.estimation.commands import command_of
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.lab.documents import Evaluated, Evaluation
from radrm.lab.experiments.datasets import Dataset, Measured
from radrm.structs import replace
from radrm.wiring import asked_by_auto, describe, find_rule, offered


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
    with the number of jobs that are done, and of all jobs."""
    results: dict[str, list[Case]] = {}
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
        progress(at, len(found.jobs))
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
    memory = memory_of(answer(asked, config, name))
    if memory is None:
        return Case(job.name, job.measured_mib)
    whole = memory.value >= WHOLE_DEVICE_MIB
    return Case(job.name, job.measured_mib, memory.value, memory.upper, memory.seconds, whole)


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
