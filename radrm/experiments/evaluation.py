"""Try estimators on jobs whose memory was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from radrm.config import Config
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.daemon.intake.estimation import command_of
from radrm.estimators import ESTIMATORS
from radrm.experiments.accuracy import Case, accuracy
from radrm.experiments.datasets import Dataset, Measured
from radrm.experiments.estimates import TRACED, Asked, answer, memory_of, traced
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.wiring import AUTO_CHAIN, describe

Document = dict[str, Any]


def estimators_known(config: Config) -> list[Document]:
    """Every estimator, with its place in the order in which this configuration asks them."""
    chain = AUTO_CHAIN if config.estimator == "auto" else (config.estimator,)
    return [
        {
            "estimator": name,
            "about": _about(target),
            "asked": list(chain).index(name) + 1 if name in chain else None,
        }
        for name, target in ESTIMATORS.items()
    ]


def _about(target: str) -> str:
    module = import_module(target.partition(":")[0])
    return (module.__doc__ or "").partition("\n")[0].rstrip(".")


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


def evaluation_document(name: str, tried: list[Case], cases: bool) -> Document:
    document = {"estimator": name, **accuracy(tried).as_dict()}
    if cases:
        document["cases"] = [
            {
                "name": c.name,
                "measured_mib": c.measured_mib,
                "memory_mib": c.value_mib,
                "upper_mib": c.upper_mib,
            }
            for c in tried
        ]
    return document
