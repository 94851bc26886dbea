"""`radrm summarize`: a model's summary and what its training step needs, beside the job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from radrm.cli.options import Json
from radrm.client.text import print_json, warn
from radrm.config import load_config
from radrm.core.units import show_mib
from radrm.errors import BadFile, UsageError, plain
from radrm.estimators.overheads import context_mib
from radrm.estimators.traced import Traced
from radrm.host.estimation.tracing import TraceRequest, trace, tracer_arguments
from radrm.host.storage.paths import system_mode
from radrm.jobfile.options import parse_words, typed

MAX_SUMMARY = 1 << 19
_SETTINGS = (
    *("batch-size", "sequence-length", "input-shape", "optimizer", "precision", "gpus"),
    "chdir",
)

Factory = Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What builds the model.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to (FUNCTION.model).")
]
Python = Annotated[str, typer.Option("--python", metavar="PATH", help="A Python that has PyTorch.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def summarize(
    context: typer.Context,
    factory: Factory,
    output: Output = None,
    python: Python = "python3",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model's summary and the estimate of its training step, without a GPU.

    Takes --batch-size, --input-shape, --sequence-length, --optimizer, --precision and
    --gpus as `radrm submit` does. The file is for `--model-summary`.

    \b
    Examples:
      radrm summarize nets:make --batch-size=64 --input-shape=3x224x224
      radrm summarize nets:make -o net.model --python venv/bin/python
    """
    raw = parse_words([*context.args, f"--model-factory={factory}"], "command line")
    foreign = sorted(raw.keys() - {*_SETTINGS, "model-factory"})
    if foreign:
        raise UsageError(f"command line: --{foreign[0]} says nothing of a model; leave it out")
    options = typed(raw, "command line")
    target = output or Path(f"{factory.rpartition(':')[2].rpartition('.')[2]}.model")
    if target.exists() and not force:
        raise BadFile(f"{target} is there already; name another with --output, or add --force")
    config = load_config(os.environ, system_mode(os.environ, os.getuid()))
    request = TraceRequest(
        arguments=("--summary", *tracer_arguments(options)),
        cwd=os.path.join(os.getcwd(), options.chdir or ""),
        environment=dict(os.environ),
        python=python,
    )
    document = _read(trace(request, config.estimation, loud=True))
    traced = Traced.from_events(document)
    summary = document.get("summary")
    if not isinstance(summary, str) or len(summary) > MAX_SUMMARY:
        warn(f"{factory}: its layers cannot be shown; only the estimate is written")
        summary = ""
    _write(target, f"{summary}\n{traced.to_text()}".lstrip("\n"))
    likely_mib = traced.reserved_mib + context_mib()
    if as_json:
        print_json(
            {
                "file": str(target),
                "need_mib": round(traced.need_mib + context_mib(), 1),
                "memory_mib": round(likely_mib, 1),
                "batch_size": traced.batch_size,
                "seconds": traced.seconds,
                "guesses": list(traced.guesses),
            }
        )
        return
    print(f"Wrote {plain(str(target))}: for your job file: #RAD --model-summary={target}")
    at = "" if traced.batch_size is None else f" at batch size {traced.batch_size}"
    print(
        f"The training step will take about {show_mib(round(likely_mib))} per GPU{at}; "
        f"{show_mib(round(traced.need_mib + context_mib()))} is the least it "
        f"can run in (traced in {traced.seconds:.1f} s)"
    )
    for guess in traced.guesses:
        print(f"guess: {guess}")


def _read(data: bytes) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadFile("what the tracer wrote cannot be read; trace again") from None
    if not isinstance(document, dict):
        raise BadFile("what the tracer wrote is no document; trace again")
    return document


def _write(target: Path, text: str) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BadFile(f"cannot write {target}: {error.strerror}; name another with -o") from None
