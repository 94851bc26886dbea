"""`radrm estimators`: which there are, and how near they are to measured jobs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radrm.cli.options import Json
from radrm.cli.show.progress import progress_bar
from radrm.client.estimates import names_of
from radrm.client.text import print_json, warn
from radrm.config import load_config
from radrm.errors import UsageError
from radrm.host.storage.paths import system_mode
from radrm.jobfile.parsing import parse_words
from radrm.lab.experiments.datasets import read_dataset
from radrm.lab.experiments.evaluation import estimators_known, evaluate, evaluation_document
from radrm.lab.show.estimates import show_estimators, show_evaluation

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
