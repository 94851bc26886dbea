"""`radrm estimators`: which there are, and how near they are to measured jobs."""

from __future__ import annotations

import os

from radrm.cli.parameters import FLAG, JSON, OF_JOBS, TEXT, Parameter
from radrm.client.estimates import names_of
from radrm.client.text import print_json, warn
from radrm.config import load_config
from radrm.errors import UsageError
from radrm.host.storage.paths import system_mode
from radrm.jobfile.options import RawOptions
from radrm.lab.experiments.datasets import read_dataset
from radrm.lab.experiments.evaluation import estimators_known, evaluate, evaluation_document
from radrm.lab.show.estimates import show_estimators, show_evaluation
from radrm.lab.show.progress import progress_bar

SHOWN_ERRORS = 5

_MEASURED = "Measured jobs: a folder of job files, a CSV table, or `history`."
_PYTHON = "The Python in which models are traced."
ESTIMATORS_PARAMETERS = (
    Parameter("dataset", TEXT, _MEASURED, "DATASET", ("--evaluate",)),
    Parameter(
        *("estimator", TEXT, "One estimator, or `all`.", "NAME", ("--estimator",)), initial="all"
    ),
    Parameter("python", TEXT, _PYTHON, "PATH", ("--python",), initial="python3"),
    Parameter(
        *("cases", FLAG, "Also the estimate of every job (with --json)."), flags=("--cases",)
    ),
    Parameter("options", OF_JOBS, "Options of radrm submit that estimators use."),
    JSON,
)


def estimators(
    dataset: str, estimator: str, python: str, cases: bool, options: RawOptions, as_json: bool
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
    if not dataset:
        if options:
            raise UsageError(f"--{next(iter(options))} needs --evaluate; add it")
        rows = estimators_known(config)
        print_json(rows) if as_json else show_estimators(rows)
        return
    names = tuple(n for n in names_of(estimator, config) if n not in ("declared", "history"))
    found = read_dataset(dataset, options)
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
