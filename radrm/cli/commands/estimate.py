"""`radrm estimate` and `estimators`: what a job needs, and how well estimators know it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radrm.cli.options import Json
from radrm.cli.show.experiments.estimates import show_estimates, show_estimators, show_evaluation
from radrm.cli.show.progress import progress_bar
from radrm.client.text import Document, print_json, warn
from radrm.config import load_config
from radrm.errors import RadrmError, UsageError
from radrm.experiments.datasets import read_dataset
from radrm.experiments.estimates import (
    TRACED,
    answer,
    estimate_document,
    names_of,
    one_shape,
    read,
    traced,
    with_history,
)
from radrm.experiments.evaluation import estimators_known, evaluate, evaluation_document
from radrm.host.storage.paths import system_mode
from radrm.jobfile.parsing import parse_words

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Job files.")]
Estimator = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="An estimator, or `all`; by default the configured one."),
]
Explain = Annotated[bool, typer.Option("--explain", help="Explain each estimate.")]


def estimate(
    context: typer.Context,
    files: Files,
    estimator: Estimator = None,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Estimate the GPU memory of a job before it runs.

    This submits nothing. Options of `radrm submit` override those in the file. A running
    daemon adds what it has learned from earlier runs.

    \b
    Examples:
      radrm estimate train.rad
      radrm estimate train.rad --estimator all --batch-size=128
    """
    paths = [word for word in files if not word.startswith("--")]
    words = [word for word in files if word.startswith("--")] + list(context.args)
    options = parse_words(words, "command line")
    config = load_config(os.environ, system_mode(os.environ, os.getuid()))
    names = names_of(estimator or config.estimator, config)
    documents: list[Document] = []
    failed = False
    for path in paths:
        try:
            asked, mark, request = read(path, options)
            one_shape(asked)
        except UsageError:
            raise
        except RadrmError as error:
            failed = True
            warn(str(error))
            continue
        asked = with_history(asked, mark)
        if request is not None and TRACED & set(names) and asked.job.trace is None:
            asked = traced(asked, request, config)
        answers = {name: answer(asked, config, name) for name in names}
        documents += [estimate_document(path, name, found) for name, found in answers.items()]
        if not as_json:
            show_estimates(asked, config, answers, explain, len(paths) > 1)
    if as_json:
        print_json(documents)
    if failed:
        raise typer.Exit(1)


SHOWN_ERRORS = 5

Dataset_ = Annotated[
    str | None,
    typer.Option(
        "--evaluate",
        metavar="DATASET",
        help="Measured jobs: a folder of job files, a CSV table, or `history`.",
    ),
]
Tried = Annotated[str, typer.Option("--estimator", metavar="NAME", help="One estimator, or `all`.")]
Python = Annotated[
    str, typer.Option("--python", metavar="PATH", help="The Python in which models are traced.")
]
Cases = Annotated[
    bool, typer.Option("--cases", help="Also the estimate of every job (with --json).")
]


def estimators(
    context: typer.Context,
    dataset: Dataset_ = None,
    estimator: Tried = "all",
    python: Python = "python3",
    cases: Cases = False,
    as_json: Json = False,
) -> None:
    """List the estimators, or try them on measured jobs.

    Options of `radrm submit` that estimators use (--sequence-length=512, --optimizer=sgd)
    override those of the jobs.

    \b
    Examples:
      radrm estimators
      radrm estimators --evaluate measured.csv
      radrm estimators --evaluate history --json
    """
    config = load_config(os.environ, system_mode(os.environ, os.getuid()))
    if dataset is None:
        if context.args:
            raise UsageError(f"{context.args[0]!r} needs --evaluate; add it")
        rows = estimators_known(config)
        print_json(rows) if as_json else show_estimators(rows)
        return
    names = tuple(n for n in names_of(estimator, config) if n not in ("declared", "history"))
    found = read_dataset(dataset, parse_words(context.args, "command line"))
    with progress_bar() as progress:
        results = evaluate(found, config, names, python, progress)
    if as_json:
        print_json([evaluation_document(name, tried, cases) for name, tried in results.items()])
    else:
        show_evaluation(len(found.jobs), results)
    for cause in found.errors[:SHOWN_ERRORS]:
        warn(f"{dataset}: {cause}")
    if len(found.errors) > SHOWN_ERRORS:
        warn(f"{dataset}: {len(found.errors) - SHOWN_ERRORS} more such errors")
