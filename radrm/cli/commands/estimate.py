"""`radrm estimate` and `summarize`: what a job needs, before it runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from radrm.cli.parameters import BEHIND, FLAG, JSON, OF_JOBS, TEXT, WORD, WORDS, Parameter
from radrm.cli.show.estimates import show_estimates, show_fit
from radrm.client.estimates import (
    Asked,
    Traceable,
    answers,
    config_of,
    estimate_document,
    memory_of,
    names_of,
    one_shape,
    read,
)
from radrm.client.fitting import Fit, fitted
from radrm.client.text import Document, print_json, say, warn
from radrm.config import Config
from radrm.core.units import show_mib
from radrm.errors import BadFile, RadrmError, UsageError
from radrm.estimators.learning.contexts import assumed_mib
from radrm.estimators.traces import Traced
from radrm.host.estimation.asking import SCRIPT, Answer
from radrm.host.estimation.tracing import TraceRequest, trace, tracer_arguments
from radrm.jobfile.parsing import parse_words, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.jobfile.options import RawOptions

_ESTIMATOR = "An estimator, or `all`; by default the configured one."
ESTIMATE_PARAMETERS = (
    Parameter("files", WORDS, "Job files; or a command after `--`.", "FILE..."),
    Parameter("command", BEHIND, "A command in place of files."),
    Parameter("estimator", TEXT, _ESTIMATOR, "NAME", ("--estimator",)),
    Parameter("explain", FLAG, "Explain each estimate.", flags=("--explain",)),
    Parameter("options", OF_JOBS, "Options as of radrm submit; they override the file's."),
    JSON,
)


def estimate(
    files: list[str],
    command: list[str],
    estimator: str,
    explain: bool,
    options: RawOptions,
    as_json: bool,
) -> int:
    """Estimate the GPU memory of a job before it runs.

    This submits nothing. Options of `radrm submit` override those in the file. A running
    daemon adds what it has learned from earlier runs. A command of which nothing is known runs
    for a few training steps, without a GPU; what it writes is thrown away.

    \b
    Examples:
      radrm estimate train.rad
      radrm estimate train.rad --estimator all --batch-size=128
      radrm estimate -- python train.py --batch-size 64
    """
    if bool(files) == bool(command):
        raise UsageError("name job files, or a command after --: radrm estimate -- python train.py")
    config = config_of()
    names = names_of(estimator or config.estimator, config)
    documents: list[Document] = []
    failed = False
    for path in files or [""]:
        try:
            asked, mark, ways = read(path, options, command)
            one_shape(asked)
        except UsageError:
            raise
        except RadrmError as error:
            failed = True
            warn(str(error))
            continue
        asked, found = answers(asked, mark, ways, names, config)
        fit = _fit(asked, ways, found, config)
        documents += [
            estimate_document(asked.file, name, each) | _document(each, fit)
            for name, each in found.items()
        ]
        if not as_json:
            show_estimates(asked, config, found, explain, len(files) > 1)
            if fit is not None:
                show_fit(fit)
    if as_json:
        print_json(documents)
    return 1 if failed else 0


def _fit(asked: Asked, ways: Traceable, found: Mapping[str, Answer], config: Config) -> Fit | None:
    """How the job would fit, if it was traced and does not."""
    memories = [each for each in map(memory_of, found.values()) if each is not None]
    if all(each.source != SCRIPT for each in memories):
        return None
    shown = sys.stderr.isatty()

    def tell(what: str) -> None:
        if shown:
            warn(f"tracing with {what} ...")

    return fitted(asked, ways, config, tell)


def _document(found: Answer, fit: Fit | None) -> Document:
    memory = memory_of(found)
    if fit is None or memory is None or memory.source != SCRIPT:
        return {}
    batch = fit.batch_size, fit.upper_mib
    names = ("batch_size", "upper_mib", "room_mib")
    return {
        "fits": None if None in batch else dict(zip(names, (*batch, fit.room_mib), strict=True)),
        "changes": [{"option": c.option, "upper_mib": c.upper_mib} for c in fit.changes],
    }


MAX_SUMMARY = 1 << 19
_SETTINGS = (
    *("batch-size", "sequence-length", "input-shape", "optimizer", "precision", "gpus"),
    "chdir",
)

_BUILDS = "The function that builds the model."
_OUTPUT = "Write to this file; FUNCTION.model by default."
_PYTHON = "A Python that has PyTorch; python3 by default."
SUMMARIZE_PARAMETERS = (
    Parameter("factory", WORD, _BUILDS, "MODULE:FUNCTION", least=1),
    Parameter("output", TEXT, _OUTPUT, "FILE", ("--output", "-o")),
    Parameter("python", TEXT, _PYTHON, "PATH", ("--python",)),
    Parameter("force", FLAG, "Overwrite an existing file.", flags=("--force",)),
    Parameter("options", OF_JOBS, "Options of radrm submit that describe the model."),
    JSON,
)


def summarize(
    factory: str, output: str, python: str, force: bool, options: RawOptions, as_json: bool
) -> None:
    """Write the summary of a model for estimators, without a GPU.

    It also estimates the memory of a training step. It takes --batch-size, --input-shape,
    --sequence-length, --optimizer, --precision and --gpus as `radrm submit` does. Give the
    file to `radrm submit --model-summary`.

    \b
    Examples:
      radrm summarize nets:make --batch-size=64 --input-shape=3x224x224
      radrm summarize nets:make -o net.model --python venv/bin/python
    """
    if ":" not in factory:
        raise UsageError(
            f"{factory!r} is not MODULE:FUNCTION; name a function that returns the model, as in "
            "nets:make or train.py:build_model"
        )
    foreign = sorted(options.keys() - set(_SETTINGS))
    if foreign:
        raise UsageError(f"--{foreign[0]} does not describe a model; leave it out")
    built = parse_words([f"--model-factory={factory}"], "command line")
    asked = typed({**options, **built}, "command line")
    target = Path(output or f"{factory.rpartition(':')[2].rpartition('.')[2]}.model")
    config = config_of()
    request = TraceRequest(
        arguments=("--summary", *tracer_arguments(asked)),
        cwd=os.path.join(os.getcwd(), asked.chdir or ""),
        environment=dict(os.environ),
        python=python or "python3",
    )
    document = _read(trace(request, config.estimation, loud=True, own=True))
    traced = Traced.from_events(document)
    if target.exists() and not force:  # only now: the model itself may not exist
        raise BadFile(f"{target} exists; name another file with --output, or add --force")
    summary = document.get("summary")
    if not isinstance(summary, str) or len(summary) > MAX_SUMMARY:
        warn(f"{factory}: its layers cannot be shown; only the estimate is written")
        summary = ""
    _write(target, f"{summary}\n{traced.to_text()}".lstrip("\n"))
    context_mib = assumed_mib(traced.cuda, os.environ.get("CUDA_MODULE_LOADING"))
    likely_mib = traced.reserved_mib + context_mib
    if as_json:
        print_json(
            {
                "file": str(target),
                "need_mib": round(traced.need_mib + context_mib, 1),
                "memory_mib": round(likely_mib, 1),
                "batch_size": traced.batch_size,
                "seconds": traced.seconds,
                "guesses": list(traced.guesses),
            }
        )
        return
    say(f"Wrote {target}: for your job file: #RAD --model-summary={target}")
    at = "" if traced.batch_size is None else f" at batch size {traced.batch_size}"
    say(
        f"The training step will take about {show_mib(round(likely_mib))} per GPU{at}; "
        f"{show_mib(round(traced.need_mib + context_mib))} is the least it "
        f"can run in (traced in {traced.seconds:.1f} s)"
    )
    say(*(f"guess: {guess}" for guess in traced.guesses))


def _read(data: bytes) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadFile("the output of the tracer cannot be read; try again") from None
    if not isinstance(document, dict):
        raise BadFile("the output of the tracer is not a JSON object; try again")
    return document


def _write(target: Path, text: str) -> None:
    real = Path(os.path.realpath(target))
    # What root renames over /dev/null takes its place.
    in_place = real.exists() and not real.is_file()
    part = real if in_place else real.with_name(f".{real.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        if not in_place:
            part.replace(real)
    except OSError as error:
        if not in_place:
            part.unlink(missing_ok=True)
        raise BadFile(f"cannot write {target}: {error.strerror}; name another with -o") from None
