"""`radrm estimate`: estimate what a job needs, by one estimator or by all of them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radrm.cli.options import Json
from radrm.cli.show.experiments.estimates import show_estimates
from radrm.client.text import Document, print_json, warn
from radrm.config import load_config
from radrm.errors import RadrmError, UsageError
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
