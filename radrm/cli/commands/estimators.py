"""`radrm estimators`: which there are, and how good each is on measured jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Annotated

import typer
from rich.text import Text

from radrm.cli.options import Json
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.render import out
from radrm.client.text import Document, print_json, warn
from radrm.config import Config, load_config
from radrm.core.units import show_mib
from radrm.daemon.intake.estimation import command_of
from radrm.errors import UsageError, plain
from radrm.estimators import ESTIMATORS
from radrm.experiments.accuracy import Accuracy, Case, accuracy
from radrm.experiments.datasets import Dataset, Measured, read_dataset
from radrm.experiments.estimates import TRACED, Asked, answer, memory_of, names_of, traced
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.host.storage.paths import system_mode
from radrm.jobfile.options import parse_words
from radrm.jobfile.radfile import WHOLE_DEVICE_MIB
from radrm.wiring import AUTO_CHAIN, describe

SHOWN_TROUBLES = 5

Dataset_ = Annotated[
    str | None,
    typer.Option(
        "--evaluate",
        metavar="DATASET",
        help="Measured jobs: a folder of job files, a CSV table, or `history`.",
    ),
]
Estimator = Annotated[
    str, typer.Option("--estimator", metavar="NAME", help="One estimator, or `all`.")
]
Python = Annotated[
    str, typer.Option("--python", metavar="PATH", help="The Python in which models are traced.")
]
Cases = Annotated[bool, typer.Option("--cases", help="Every job's figures, too (with --json).")]


def estimators(
    context: typer.Context,
    dataset: Dataset_ = None,
    estimator: Estimator = "all",
    python: Python = "python3",
    cases: Cases = False,
    as_json: Json = False,
) -> None:
    """List the estimators, or try them on jobs whose memory was measured.

    Options of `radrm submit` that estimators go by (--sequence-length=512, --optimizer=sgd)
    beat what the jobs say.

    \b
    Examples:
      radrm estimators
      radrm estimators --evaluate measured.csv
      radrm estimators --evaluate history --json
    """
    config = load_config(os.environ, system_mode(os.environ, os.getuid()))
    if dataset is None:
        if context.args:
            raise UsageError(f"command line: {context.args[0]!r} goes with --evaluate; add it")
        _list(config, as_json)
        return
    names = tuple(n for n in names_of(estimator, config) if n not in ("declared", "history"))
    found = read_dataset(dataset, parse_words(context.args, "command line"))
    results = evaluate(found, config, names, python)
    if as_json:
        print_json([_document(name, tried, cases) for name, tried in results.items()])
    else:
        _print(found, results)
    for trouble in found.troubles[:SHOWN_TROUBLES]:
        warn(f"{dataset}: {trouble}")
    if len(found.troubles) > SHOWN_TROUBLES:
        warn(f"{dataset}: and {len(found.troubles) - SHOWN_TROUBLES} more like these")


# ------------------------------------------------------------------ the list


def _list(config: Config, as_json: bool) -> None:
    chain = AUTO_CHAIN if config.estimator == "auto" else (config.estimator,)
    rows = [
        {
            "estimator": name,
            "about": _about(target),
            "asked": list(chain).index(name) + 1 if name in chain else None,
        }
        for name, target in ESTIMATORS.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = Rows((Column("ESTIMATOR"), Column("ASKED", right=True), Column("WHAT IT GOES BY")))
    for row in rows:
        table.add(str(row["estimator"]), str(row["asked"] or "-"), str(row["about"]))
    out().print(table, soft_wrap=True)
    out().print(Text("asked: the place in the line of those that are asked here"))


def _about(target: str) -> str:
    module = import_module(target.partition(":")[0])
    return (module.__doc__ or "").partition("\n")[0].rstrip(".")


# ------------------------------------------------------------------ the trial


def evaluate(
    found: Dataset, config: Config, names: tuple[str, ...], python: str
) -> dict[str, list[Case]]:
    """Each estimator's cases. What a dataset says that an estimator once said stands apart, as
    `NAME (told)`; estimators themselves are told nothing of it, nor of what was measured."""
    results: dict[str, list[Case]] = {}
    for at, job in enumerate(found.jobs, 1):
        for name, mib in job.said.items():
            whole = mib >= WHOLE_DEVICE_MIB
            case = Case(job.name, job.measured_mib, mib, mib, None, whole)
            results.setdefault(f"{name} (told)", []).append(case)
        if job.job_file is not None:
            asked = _asked(job, config, python, bool(TRACED & set(names)))
            for note in asked.notes:
                found.troubles.append(f"{job.name}: {note}")
            for name in names:
                results.setdefault(name, []).append(_tried(asked, job, config, name))
        if sys.stderr.isatty():
            print(f"\r{at} of {len(found.jobs)} jobs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
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


def _document(name: str, tried: list[Case], cases: bool) -> Document:
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


def _print(found: Dataset, results: dict[str, list[Case]]) -> None:
    titles = ("JOBS", "MAPE", "MEDIAN", "UNDER", "WORST UNDER", "WORST OVER", "OVER", "AT MOST")
    columns = [Column("ESTIMATOR"), *(Column(t, right=True) for t in titles)]
    table = Rows((*columns, Column("OVER", right=True), Column("TOOK", right=True)))
    for name, tried in sorted(results.items()):
        table.add(plain(name), *_cells(accuracy(tried)))
    console = out()
    console.print(table, soft_wrap=True)
    console.print(
        Text(
            f"of {len(found.jobs)} measured jobs; UNDER: estimated below what was measured; OVER: "
            "mean of what is too much; AT MOST: jobs beyond the upper bound; TOOK: median"
        ),
        soft_wrap=True,
    )


def _cells(found: Accuracy) -> Iterator[str]:
    yield f"{found.estimated}/{found.jobs}"
    yield _share(found.mape)
    yield _share(found.median_error)
    yield str(found.under)
    yield _signed(found.worst_under_mib)
    yield _signed(found.worst_over_mib)
    yield "-" if found.over_mib is None else show_mib(round(found.over_mib))
    yield str(found.upper_under)
    yield "-" if found.upper_over_mib is None else show_mib(round(found.upper_over_mib))
    yield "-" if found.seconds is None else f"{found.seconds * 1e3:.1f} ms"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def _signed(mib: float | None) -> str:
    if mib is None:
        return "-"
    return f"{'-' if mib < 0 else '+'}{show_mib(abs(round(mib)))}"
