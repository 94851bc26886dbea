"""`radrm profile`: run a few steps of a job on each free kind and number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.parameters import JSON, NUMBER, TEXT, TEXTS, WORD, Parameter
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import show
from radrm.client.amounts import number
from radrm.client.connection import Client
from radrm.client.text import print_json, warn
from radrm.core.units import parse_seconds, show_seconds
from radrm.errors import UsageError
from radrm.lab.documents import Profiled
from radrm.lab.experiments.demo.server import orderly_end
from radrm.lab.experiments.profiling import Profiler, Wishes
from radrm.lab.options import names


def _table(found: Sequence[Profiled]) -> Rows:
    """A row for each kind and number of GPUs; `-` for what was not measured."""
    rows = Rows(
        (
            Column("GPU"),
            Column("GPUS", right=True),
            Column("S/STEP", right=True),
            Column("STEPS", right=True, rank=3),
            Column("RUN TIME", right=True),
            Column("NOTE", least=10),
        )
    )
    for each in found:
        rows.add(
            each.kind,
            str(each.gpus),
            "-" if each.step_s is None else f"{each.step_s:.4g}",
            "-" if each.total is None else number(each.total),
            show_seconds(each.whole_s),
            each.why or "",
        )
    return rows


_KINDS = "Only these types: repeat it, or a,b."
_PATTERN = r"Read steps from the log, as in (?P<step>\d+)/(?P<total>\d+)."
PROFILE_PARAMETERS = (
    Parameter("file", WORD, "A job file.", "FILE", least=1),
    Parameter("gpu_type", TEXTS, _KINDS, "TYPE", ("--gpu-type",)),
    Parameter("gpus", TEXTS, "Only these numbers of GPUs: 1,2.", "N", ("--gpus",)),
    Parameter(
        *("probe_steps", NUMBER, "Steps of each probe.", "N", ("--probe-steps",)),
        least=1,
        initial=20,
    ),
    Parameter(
        *("limit", TEXT, "Stop each probe after this time.", "TIME", ("--limit",)), initial="5m"
    ),
    Parameter(
        *("steps", NUMBER, "All steps of the job, if not reported.", "N", ("--steps",)), least=1
    ),
    Parameter("progress_pattern", TEXT, _PATTERN, "REGEX|auto", ("--progress-pattern",)),
    JSON,
)


def profile(
    file: str,
    gpu_type: list[str],
    gpus: list[str],
    probe_steps: int,
    limit: str,
    steps: int | None,
    progress_pattern: str,
    as_json: bool,
) -> int:
    """Run a few steps of a job on each free kind and number of GPUs, and show the run times.

    Each probe is an ordinary job of yours: alone on idle GPUs, behind all other jobs, and
    cancelled after its steps. It runs your command as it is: do not let it overwrite results.
    Later jobs of the same command are planned with these times.

    \b
    Examples:
      radrm profile train.rad
      radrm profile train.rad --gpus 1,2 --gpu-type a100
      radrm profile train.rad --progress-pattern '(?P<step>\\d+)/(?P<total>\\d+)'
    """
    wishes = Wishes(
        kinds=tuple(names(gpu_type)),
        numbers=_numbers(names(gpus)),
        steps=probe_steps,
        limit_s=_seconds(limit),
        total=steps,
        pattern=progress_pattern or None,
    )
    with Client() as client, orderly_end(lambda: warn("stopped; the probe is cancelled")):
        profiler = Profiler(client, file, wishes)
        found = []
        for kind, number in profiler.wanted():
            warn(f"{number} x {kind} ...")
            found.append(profiler.probe(kind, number))
    if as_json:
        print_json([each.document for each in found])
    else:
        show(_table(found))
    return int(all(each.step_s is None and each.whole_s is None for each in found))


def _numbers(words: list[str]) -> tuple[int, ...]:
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= 1024:
            raise UsageError(f"--gpus {word!r}: write numbers such as 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def _seconds(text: str) -> float:
    try:
        found = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--limit: {error}") from None
    if found < 1:
        raise UsageError(f"--limit {text}: a probe needs at least a second; write 5m")
    return found
