"""What the laboratory adds to radrm: commands that measure, simulate and replay."""

from __future__ import annotations

from radrm.wings import Command, Wing

_HERE = "radrm.lab.commands"
_SIMULATION, _GPUS = "Estimates and simulation", "GPUs"

WING = Wing(
    commands={
        "bench": Command(
            *(_GPUS, "Measure on this server what jobs that share a GPU lose.", f"{_HERE}.bench"),
            commands=("collocate",),
        ),
        "profile": Command(
            *(_GPUS, "Run a few steps of a job on each free kind and number of GPUs."),
            f"{_HERE}.profile",
        ),
        "demo": Command(
            *("The server", "Show it all once on simulated GPUs, in less than a minute."),
            f"{_HERE}.demo",
        ),
        "estimators": Command(
            *(_SIMULATION, "List the estimators, or try them on measured jobs."),
            f"{_HERE}.estimators",
        ),
        "simulate": Command(
            *(_SIMULATION, "Run a trace on a simulated server and show the result."),
            f"{_HERE}.simulate",
        ),
        "compare": Command(
            *(_SIMULATION, "Run a trace as configured here, and under several policies."),
            f"{_HERE}.simulate",
        ),
        "trace": Command(
            *(_SIMULATION, "Play a trace through a daemon.", f"{_HERE}.trace"), commands=("run",)
        ),
        "replay": Command(
            *(_SIMULATION, "Run the daemon's own past jobs under other policies."),
            f"{_HERE}.replay",
        ),
    }
)
