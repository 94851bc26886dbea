"""`radrm bench`: measure on this server. `collocate`: does sharing a GPU pay for a job?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from radrm.cli.options import Json
from radrm.client.text import print_json, warn
from radrm.core.units import parse_seconds
from radrm.errors import UsageError
from radrm.lab.experiments.collocate.measure import (
    Servers,
    advice_on,
    at_once,
    document,
    measure,
    measure_mixed,
    modes_of,
    notes_of,
    take,
)
from radrm.lab.experiments.collocate.numbers import (
    compiled,
    parse_copies,
    parse_modes,
    parse_programs,
)
from radrm.lab.experiments.collocate.rounds import Work
from radrm.lab.experiments.demo.server import orderly_end
from radrm.lab.show.collocation import show_collocation, show_mixed

S = TypeVar("S")
T = TypeVar("T")

bench = typer.Typer(
    name="bench",
    help="Measure on this server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.callback()
def _bench() -> None:
    """Do nothing. Without a callback, typer would drop the name of the only command."""


@bench.command(context_settings={"allow_interspersed_args": False})
def collocate(
    command: Annotated[list[str], typer.Argument(metavar="CMD...", help="The command of a job.")],
    copies: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Numbers of copies; 1,2,4 by default, 1 always."),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="'CMD'", help="Another program, in place of copies (repeatable)."
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="GPU", help="Index or UUID; a free GPU by default."),
    ] = None,
    modes: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="timeslice, mps, mig; all by default."),
    ] = None,
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Matches a line that reports a step."),
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(metavar="TIME", help="End each round after this time.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="sim:SPEC", help="Use simulated GPUs, as sim:1xA100-40GB.")
    ] = None,
    time_scale: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=1.0,
            help="Run the clock of simulated GPUs N times as fast.",
            show_default=False,
        ),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Run 1, 2, 4 copies of a command on one GPU, and say whether sharing the GPU pays.

    Shows for each number of copies, with time-slicing and with MPS: the time of a copy, the
    work per time compared with one copy alone, SM activity, memory and energy. A private
    daemon places the copies. GPUs that another radrm daemon manages are not used.

    --step-pattern measures the time of a step, without start-up. Its group (?P<step>...), or
    its first group, is the number of the step; without a group, each line is one step. Each
    copy finds its own number in RADRM_ARRAY_TASK_ID, for output files of its own.

    --with runs different programs: each alone, then all together. Their words are split as by a
    shell, and no shell runs them.

    \b
    Examples:
      radrm bench collocate -- python train.py --epochs 1
      radrm bench collocate --seconds 60 --step-pattern 'step (\\d+)' -- python train.py
      radrm bench collocate --with 'python other.py' -- python train.py
      radrm bench collocate --gpus sim:1xA100-40GB --time-scale 60 -- \\
        radrm-simjob --gpu-memory 6G --smact 0.4 --seconds 300
    """
    if others and copies is not None:
        raise UsageError("--copies goes without --with: give a program twice to run it twice")
    numbers = _usage("--copies", parse_copies, copies or "1,2,4")
    programs = _usage("--with", parse_programs, others or [])
    wanted = _usage("--modes", parse_modes, modes) if modes is not None else None
    limit_s = _usage("--seconds", parse_seconds, seconds) if seconds is not None else None
    pattern = compiled(step_pattern) if step_pattern is not None else None
    if limit_s is not None and pattern is None:
        raise UsageError(
            "--seconds needs --step-pattern: copies that are cut short compare by their steps only"
        )
    if gpus is None and time_scale != 1.0:
        raise UsageError("--time-scale goes with simulated GPUs only: add --gpus sim:1xA100-40GB")
    work = Work(tuple(command), pattern, limit_s, programs)
    with orderly_end(_say_stopped), tempfile.TemporaryDirectory(prefix="radrm-bench-") as folder:
        servers = Servers(Path(folder), gpus, time_scale)
        devices = take(servers, gpu)
        device = devices[0]
        offered = modes_of(device, wanted)
        numbers = at_once(devices, numbers, work)
        if programs:
            mixed, notes = measure_mixed(servers, devices, work, offered, wanted)
        else:
            results, notes = measure(servers, devices, work, offered, numbers, wanted)
    measured = mixed if programs else results
    notes += [*notes_of(device, measured.every), *advice_on(measured)]
    if as_json:
        print_json(document(device, work, measured, notes))
    elif programs:
        show_mixed(device, work, mixed, notes)
    else:
        show_collocation(device, work, results, notes)
    if not measured.complete:
        raise typer.Exit(1)


def _usage(option: str, read: Callable[[S], T], text: S) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _say_stopped() -> None:
    warn("stopped; the copies and their daemon are ended")
