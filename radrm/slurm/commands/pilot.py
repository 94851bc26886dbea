"""`radrm pilot`: a daemon of your own, in one ordinary Slurm job."""

from __future__ import annotations

import os

from radrm.cli.parameters import FLAG, NUMBER, TEXT, WORDS, Parameter
from radrm.client.text import say
from radrm.core.units import parse_seconds, show_seconds
from radrm.errors import UsageError
from radrm.simulated.spec import parse as parse_gpus

_DEFAULT_IDLE = "10m"
_MOST_GPUS = 1024


_IDLE = "End after so long without a job; `never`: do not."
_HERE = "Be the pilot, in the Slurm job of this shell or script."
PILOT_PARAMETERS = (
    Parameter("more", WORDS, "Other options, for sbatch.", "[-- SBATCH OPTIONS]"),
    Parameter("gpus", NUMBER, "GPUs of the pilot.", "N", ("--gpus",)),
    Parameter("time", TEXT, "How long it runs, as 8h.", "TIME", ("--time",)),
    Parameter(
        *("partition", TEXT, "The partition; Slurm's default one else.", "NAME", ("--partition",))
    ),
    Parameter("idle", TEXT, _IDLE, "TIME", ("--idle",), initial=_DEFAULT_IDLE),
    Parameter(
        *("simulate", TEXT, "Simulated GPUs, as sim:2xA100-40GB, to try it.", "SPEC"),
        flags=("--simulate",),
    ),
    Parameter("here", FLAG, _HERE, flags=("--here",)),
    Parameter("show", FLAG, "Show your pilots and their jobs.", flags=("--list",)),
    Parameter("every", FLAG, "With --list: those that have ended, too.", flags=("--all",)),
    Parameter("cancel", TEXT, "Cancel a job, waiting or running.", "TICKET", ("--cancel",)),
    Parameter("as_json", FLAG, "With --list: one JSON document.", flags=("--json",)),
)


def pilot(
    more: list[str],
    gpus: int | None,
    time: str,
    partition: str,
    idle: str,
    simulate: str,
    here: bool,
    show: bool,
    every: bool,
    cancel: str,
    as_json: bool,
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
    chosen += ["--cancel"] if cancel else []
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if (every or as_json) and not show:
        raise UsageError("--all and --json go with --list")
    if chosen and (gpus is not None or time or partition or more):
        raise UsageError(f"{chosen[0]} does not go with the options of a new pilot")
    if show or cancel:
        from radrm.slurm.commands import pilots as login

        if cancel:
            login.cancel(cancel)
        else:
            login.show_list(every, as_json)
        return 0
    idle_s = None if idle == "never" else _seconds(idle, "--idle")
    if simulate:
        parse_gpus(simulate)
    if here:
        from radrm.slurm.pilot.main import main

        return main(simulate or None, idle_s)
    return _start(gpus, time, partition, idle, simulate, more)


def _start(
    gpus: int | None,
    time: str,
    partition: str,
    idle: str,
    simulate: str,
    more: list[str],
) -> int:
    """Submit the Slurm job of a pilot. Returns the exit code."""
    from radrm.slurm.pilot import main
    from radrm.slurm.pilot.shared import Shared, shared_root

    if not time or (gpus is None) == (not simulate):
        raise UsageError("a pilot needs GPUs and a time, as: radrm pilot --gpus 2 --time 8h")
    if gpus is not None and not 1 <= gpus <= _MOST_GPUS:
        raise UsageError(f"--gpus {gpus} is not a number from 1 to {_MOST_GPUS}")
    time_s = _seconds(time, "--time")
    shared = Shared(shared_root(os.environ))
    words = main.words_of(shared, gpus, time_s, partition or None, more)
    options = ["--idle", idle, *(["--simulate", simulate] if simulate else [])]
    shared.make()
    job = main.submit(words, main.script_of(options))
    what = f"{gpus} GPU(s)" if gpus is not None else f"simulated GPUs ({simulate})"
    say(f"Submitted Slurm job {job}: a pilot with {what} for {show_seconds(time_s)}")
    return 0


def _seconds(text: str, option: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
