"""`radrm estimate`: what a job will need, by one estimator or by all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from radrm.cli.options import Json
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.render import out, sane_mib, show_smact
from radrm.client.text import Document, print_json, warn
from radrm.config import Config, load_config
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Quantity
from radrm.errors import RadrmError, UsageError, plain
from radrm.estimators.learned import learned_for
from radrm.experiments.estimates import (
    TRACED,
    Asked,
    answer,
    memory_of,
    names_of,
    one_shape,
    read,
    traced,
    value_of,
    with_history,
)
from radrm.host.estimation.asking import Answer
from radrm.host.storage.paths import system_mode
from radrm.jobfile.options import parse_words

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Job files.")]
Estimator = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="One estimator, or `all`; otherwise the site's own."),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say what each figure is made of.")]


def estimate(
    context: typer.Context,
    files: Files,
    estimator: Estimator = None,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Say how much GPU memory a job will need, before it runs.

    Nothing is submitted. Options of `radrm submit` beat the file's. A daemon that is up adds
    what it has learned from earlier runs.

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
        documents += [_document(path, name, found) for name, found in answers.items()]
        if not as_json:
            _print(asked, config, answers, explain, len(paths) > 1)
    if as_json:
        print_json(documents)
    if failed:
        raise typer.Exit(1)


def _document(path: str, name: str, found: Answer) -> Document:
    memory = memory_of(found)
    return {
        "file": path,
        "estimator": name,
        "memory_mib": None if memory is None else round(memory.value, 1),
        "upper_mib": None if memory is None else round(memory.upper, 1),
        "smact": value_of(found, Quantity.SMACT),
        "duration_s": value_of(found, Quantity.DURATION),
        "seconds": None if memory is None else memory.seconds,
        "source": None if memory is None else memory.source,
        "guesses": [] if memory is None else list(memory.guesses),
        "notes": list(found.notes),
    }


def _print(
    asked: Asked, config: Config, answers: dict[str, Answer], explain: bool, several: bool
) -> None:
    console = out()
    if several:
        console.print(Text(plain(asked.file), style="bold"))
    table = Rows(
        (
            Column("ESTIMATOR"),
            Column("MEMORY", right=True),
            Column("AT MOST", right=True),
            Column("SMACT", right=True, rank=2),
            Column("DURATION", right=True, rank=3),
            Column("TOOK", right=True, rank=1),
            Column("BY"),
        )
    )
    for name, found in answers.items():
        memory = memory_of(found)
        duration = value_of(found, Quantity.DURATION)
        table.add(
            name,
            "-" if memory is None else _show(memory.value),
            "-" if memory is None else _show(memory.upper),
            show_smact(value_of(found, Quantity.SMACT)),
            "-" if duration is None else show_seconds(duration),
            "-" if memory is None or memory.seconds is None else f"{memory.seconds * 1e3:.1f} ms",
            "nobody" if memory is None else memory.source,
        )
    console.print(table, soft_wrap=True)
    for line in _guesses(answers):
        console.print(Text(f"  {plain(line)}"), soft_wrap=True)
    for note in dict.fromkeys([*asked.notes, *(n for f in answers.values() for n in f.notes)]):
        warn(f"{asked.file}: {note}")
    if explain:
        for line in _explained(asked, config, answers):
            console.print(Text(f"  {plain(line)}"), soft_wrap=True)


def _guesses(answers: dict[str, Answer]) -> Iterator[str]:
    """Of each estimator that was believed, what it takes for granted."""
    seen: set[str] = set()
    for found in answers.values():
        memory = memory_of(found)
        if memory is not None and memory.guesses and memory.source not in seen:
            seen.add(memory.source)
            yield f"{memory.source} guesses: {'; '.join(memory.guesses)}"


def _show(mib: float) -> str:
    known = sane_mib(int(mib))
    return "whole GPU" if known is None else show_mib(known)


def _explained(asked: Asked, config: Config, answers: dict[str, Answer]) -> Iterator[str]:
    """What has been learned, and what it does to each figure."""
    job = asked.job
    kind = job.device_kind or "any kind of GPU"
    if not job.recent_runs:
        yield "nothing has been learned here yet: no run has ended, or no daemon answers"
    if job.same_runs:
        peaks = ", ".join(show_mib(run.peak_mib) for run in job.same_runs[:5])
        yield f"history: {len(job.same_runs)} runs of the very same thing, peaks {peaks}"
    quantile = float(config.estimators.get("auto", {}).get("quantile", 0.95))
    seen: set[str] = set()
    for found in answers.values():
        for each in found.estimates:
            if each.quantity is not Quantity.MEMORY or each.source in seen or each.raw is None:
                continue
            seen.add(each.source)
            known, context = learned_for(replace(each, value=each.raw), job)
            how = f"{known.runs} runs on {kind}" if known.runs else "no run here yet"
            shift_mib = context.shift_mib + known.shift_mib(each.raw + context.shift_mib)
            shift = f", shifted by {shift_mib:+.0f} MiB" if known.runs or shift_mib else ""
            yield (
                f"{each.source}: says {each.raw:.0f} MiB{shift} ({how}); in {quantile:.0%} of "
                f"all runs at most {each.upper:.0f} MiB"
            )
