"""Options that `simulate`, `compare` and `replay` share."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.errors import UsageError
from radrm.lab.experiments.simulations.variants import MOST_ERROR
from radrm.lab.simulator.traces.draw import MOST_USERS

MOST_SEEDS = 1000
MOST_SERVERS = 1024

USUAL_GPUS = "sim:4xA100-40GB"
Gpus = Annotated[
    str, typer.Option("--gpus", metavar="sim:SPEC", help="The GPUs of the simulated server.")
]
SomeGpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="sim:SPEC",
        help="The GPUs of the simulated server, or of several, as sim:5*2xV100-32GB/1xT4-16GB "
        f"[default: {USUAL_GPUS}]",
        show_default=False,
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(
        "--cpus",
        metavar="N",
        min=0.1,
        max=100_000,
        help="The CPUs of each server, for jobs with the column cpus; by default without limit.",
    ),
]
Order = Annotated[
    str | None, typer.Option("--order", metavar="NAME", help="The order of the queue.")
]
Orders = Annotated[
    list[str] | None,
    typer.Option("--order", metavar="NAME", help="Orders of the queue to compare: a,b."),
]
Planner = Annotated[
    str | None,
    typer.Option("--planner", metavar="NAME", help="The planner; + joins several: strict+mine."),
]
Planners = Annotated[
    list[str] | None,
    typer.Option(
        "--planner", metavar="NAME", help="Planners to compare: a,b; + joins those of one run: a+b."
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        metavar="NAME",
        help="What is known of the jobs' memory: auto (by default, as the daemon: columns such as "
        "trace_mib, and earlier runs of the user and name), oracle (declared as the trace says), "
        "none, the NAME of a column NAME_mib, or an estimator whose errors are recorded.",
    ),
]
Known = Annotated[
    list[str] | None,
    typer.Option(
        "--known",
        metavar="WHAT[=ERROR]",
        help="What is known of each job, and its relative error: --known smact,duration=0.3,"
        "declared=0.08; without an error it is exact. memory is an estimate, declared is what "
        "users declare with --gpu-memory.",
    ),
]
DurationError = Annotated[
    str | None,
    typer.Option(
        "--duration-error",
        metavar="ERROR",
        help="The jobs' durations are known, within this relative error: --known duration=ERROR.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--collocation", metavar="MODE", help="mps, timeslice, exclusive; by default as configured."
    ),
]
Recovery = Annotated[
    str | None,
    typer.Option("--recovery", metavar="NAME", help="The recovery from GPU out-of-memory."),
]
FidelityOption = Annotated[
    str,
    typer.Option(
        "--fidelity",
        metavar="LOOP",
        help="The scheduling loop: radrm (as the daemon), published (as the prototype).",
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds", metavar="N", min=1, max=MOST_SEEDS, help="Run N times, with the seeds 0 to N-1."
    ),
]
SomeSeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        min=1,
        max=MOST_SEEDS,
        help="Run N times, with the seeds 0 to N-1 (1 by default; 6 and 6 more with --advise).",
    ),
]
Advise = Annotated[
    bool,
    typer.Option(
        "--advise", help="Try many settings; name the best one, its gain, and the lines to set it."
    ),
]
Objective = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="WHAT",
        help="What --advise makes small: completion (time; by default), makespan, energy.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", metavar="NAME", help="Policies: repeat it, or use a,b,c; all by default."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting, as policy.max_smact=0.75, core.settle_s=60 or life.start_up_s=20.",
    ),
]
Servers = Annotated[
    int,
    typer.Option(
        "--servers",
        metavar="N",
        min=1,
        max=MOST_SERVERS,
        help="N such servers; jobs are distributed.",
    ),
]
Dealer = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Who gives jobs to several servers: `hash`, or `gpumem`: a queue that counts GPU "
        "memory, as Slurm's (docs/cluster.md).",
    ),
]
Scenario = Annotated[
    int | None,
    typer.Option(
        "--scenario",
        metavar="1|2",
        help="--import andreas: nodes of 2 V100 or 1 T4 (1, by default), of 4 or 2 (2).",
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", help="--import andreas: 2 to 100 nodes; 10 by default."),
]
Load = Annotated[
    float | None,
    typer.Option(
        "--load", metavar="L", help="--import andreas: the rate of arrivals; 0.5 by default."
    ),
]
FirstSeed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="--import andreas: the seed of the first draw."),
]
Form = Annotated[
    str,
    typer.Option(
        "--import",
        metavar="FORM",
        help="Format of the trace: auto, trace, published, prototype, philly, slurm, "
        "alibaba2020, alibaba2023, gavel.",
    ),
]
MixForm = Annotated[
    str,
    typer.Option(
        "--import",
        metavar="FORM",
        help="Format of the trace: auto, trace, published, prototype, philly, slurm, "
        "alibaba2020, alibaba2023, gavel; or andreas: jobs drawn as published, without a file.",
    ),
]
Profile = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Jobs measured alone: CSV of name,duration_s,smact,steady_mib, or Gavel's JSON.",
    ),
]
FillTable = Annotated[
    str | None,
    typer.Option(
        "--fill", metavar="CSV", help="Typical jobs for missing values: memory_mib,smact,share."
    ),
]
Users = Annotated[
    int | None,
    typer.Option(
        "--users",
        metavar="N",
        min=1,
        max=MOST_USERS,
        help="Deal the jobs to N users, in unequal shares; jobs of one name belong to one user.",
    ),
]
FillSeed = Annotated[
    int,
    typer.Option(
        "--fill-seed", metavar="N", min=0, help="Seed of the random choice among typical jobs."
    ),
]
PlotFile = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the result: .png, .pdf or .svg.")
]


def names(given: list[str] | None) -> list[str]:
    """Names, each once, from an option that is repeated or has a list with commas."""
    words = [word.strip() for each in given or () for word in each.split(",")]
    return list(dict.fromkeys(word for word in words if word))


def known_names(known: list[str] | None, duration_error: str | None) -> list[str]:
    """What is known of each job, as `--known` and `--duration-error` say.

    Raises `UsageError` for a duration in both, and for an error that is no number.
    """
    found = names(known)
    if duration_error is None:
        return found
    if any(word.partition("=")[0] == "duration" for word in found):
        raise UsageError("--known duration and --duration-error say the same: leave one out")
    try:
        error = float(duration_error)
    except ValueError:
        error = -1.0
    if not 0 <= error <= MOST_ERROR:
        raise UsageError(
            f"--duration-error {duration_error!r}: write a number from 0 to {MOST_ERROR:g}, "
            "such as 0.3"
        )
    return [*found, f"duration={duration_error}"]
