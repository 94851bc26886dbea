"""`radrm pilot`: a daemon of your own, in one ordinary Slurm job."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radrm.core.units import parse_seconds, show_seconds
from radrm.errors import UsageError, plain
from radrm.simulated.spec import parse as parse_gpus

_DEFAULT_IDLE = "10m"
_MOST_GPUS = 1024


def pilot(
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- SBATCH OPTIONS]", help="Other options, for sbatch."),
    ] = None,
    gpus: Annotated[int | None, typer.Option(metavar="N", help="GPUs of the pilot.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it runs, as 8h.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="The partition; Slurm's default one else.")
    ] = None,
    idle: Annotated[
        str, typer.Option(metavar="TIME", help="End after so long without a job; `never`: do not.")
    ] = _DEFAULT_IDLE,
    simulate: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Simulated GPUs, as sim:2xA100-40GB, to try it."),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Be the pilot, in the Slurm job of this shell or script.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show your pilots and their jobs.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="With --list: those that have ended, too.")
    ] = False,
    cancel: Annotated[
        str | None, typer.Option(metavar="TICKET", help="Cancel a job, waiting or running.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --list: one JSON document.")
    ] = False,
) -> int:
    """Run your own jobs, several on one GPU, in one Slurm job: nobody has to set anything up.

    A pilot is an ordinary Slurm job with whole GPUs and a radrm daemon of your own on them. It runs
    the jobs that you have submitted with `radrm submit --pilot`, as long as their time limit ends
    before it does. What has not started then waits for your next pilot.

    \b
    Examples:
      radrm submit --pilot --time=2h train.rad
      radrm pilot --gpus 2 --time 8h
      radrm pilot --gpus 1 --time 1-00:00:00 --partition gpu -- --account=vision
      radrm pilot --list
      radrm pilot --cancel 01ARZ3NDEKTSV4RRFFQ69G5FAV
    """
    chosen = [name for name, given in (("--here", here), ("--list", show)) if given]
    chosen += ["--cancel"] if cancel is not None else []
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if (every or as_json) and not show:
        raise UsageError("--all and --json go with --list")
    if chosen and (gpus is not None or time is not None or partition or more):
        raise UsageError(f"{chosen[0]} does not go with the options of a new pilot")
    if show or cancel is not None:
        from radrm.slurm.commands import pilots as login

        if cancel is not None:
            login.cancel(cancel)
        else:
            login.show_list(every, as_json)
        return 0
    idle_s = None if idle == "never" else _seconds(idle, "--idle")
    if simulate is not None:
        parse_gpus(simulate)
    if here:
        from radrm.slurm.pilot.main import main

        return main(simulate, idle_s)
    return _start(gpus, time, partition, idle, simulate, more or [])


def _start(
    gpus: int | None,
    time: str | None,
    partition: str | None,
    idle: str,
    simulate: str | None,
    more: list[str],
) -> int:
    """Submit the Slurm job of a pilot. Returns the exit code."""
    from radrm.slurm.pilot import main
    from radrm.slurm.pilot.shared import Shared, shared_root

    if time is None or (gpus is None) == (simulate is None):
        raise UsageError("a pilot needs GPUs and a time, as: radrm pilot --gpus 2 --time 8h")
    if gpus is not None and not 1 <= gpus <= _MOST_GPUS:
        raise UsageError(f"--gpus {gpus} is not a number from 1 to {_MOST_GPUS}")
    time_s = _seconds(time, "--time")
    shared = Shared(shared_root(os.environ))
    words = main.words_of(shared, gpus, time_s, partition, more)
    options = ["--idle", idle, *(["--simulate", simulate] if simulate is not None else [])]
    shared.make()
    job = main.submit(words, main.script_of(options))
    what = f"{gpus} GPU(s)" if gpus is not None else f"simulated GPUs ({simulate})"
    print(plain(f"Submitted Slurm job {job}: a pilot with {what} for {show_seconds(time_s)}"))
    return 0


def _seconds(text: str, option: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
