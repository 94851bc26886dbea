"""Play a trace through a daemon, and simulate the same trace with the same settings beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radrm.client.text import warn
from radrm.errors import RadrmError
from radrm.experiments.live.play import Play
from radrm.experiments.live.record import measured
from radrm.experiments.live.servers import Server, private_server
from radrm.experiments.live.submissions import Commands, for_stand_ins, submissions
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.runs import Result, results
from radrm.experiments.simulations.variants import Variant
from radrm.simulator.metrics import MEASURED, Metrics
from radrm.simulator.run import Run
from radrm.simulator.traces.job import TraceJob

Progress = Callable[[int, int], object]

_SLOWEST, _SLACK_S = 3.0, 3600.0
"""A run on a private daemon ends after so many times the simulated time, and so much more."""


@dataclass(frozen=True, slots=True)
class Played:
    """A live run, and the simulation of the same jobs with the same settings."""

    live: Metrics
    run: Run
    simulated: Result

    @property
    def policy(self) -> str:
        return self.simulated.variant.policy


def play_private(
    jobs: Sequence[TraceJob], variant: Variant, gpus: str, scale: float, progress: Progress
) -> Played:
    """Play a trace with stand-ins through a private daemon with the rules of a variant.

    The daemon ends in any case, with all its jobs. Raises `RadrmError`.
    """
    jobs, scenario = for_stand_ins(jobs, variant.scenario)
    variant = Variant(scenario)
    (simulated,) = results(jobs, [variant], 1)
    limit_s = simulated.runs[0].makespan_s * _SLOWEST + _SLACK_S
    with tempfile.TemporaryDirectory(prefix="radrm-trace-") as folder:
        place = Path(folder) / "server"
        with private_server(place, gpus, scale, variant.scenario) as server:
            play = _play(server, jobs, variant, Commands(stand_ins=True))
            run = play.run(limit_s, progress)
    return Played(measured(run, play.readings), run, simulated)


def play_own(
    server: Server,
    jobs: Sequence[TraceJob],
    variant: Variant,
    commands: Commands,
    progress: Progress,
) -> Played:
    """Play a trace through the user's daemon. An interruption or error cancels its jobs.

    `variant` describes the daemon. Raises `RadrmError`.
    """
    if commands.stand_ins:
        jobs, scenario = for_stand_ins(jobs, variant.scenario)
        variant = Variant(scenario)
    (simulated,) = results(jobs, [variant], 1)
    play = _play(server, jobs, variant, commands)
    try:
        run = play.run(float("inf"), progress)
    finally:
        if play.unended:
            _cancel(play)
    return Played(measured(run, play.readings), run, simulated)


def _play(server: Server, jobs: Sequence[TraceJob], variant: Variant, commands: Commands) -> Play:
    sizes = [device["total_mib"] for device in server.ask("gpus")]
    made = submissions(jobs, variant.scenario, commands, sizes, server.environment, server.chdir)
    return Play(server, jobs, made)


def _cancel(play: Play) -> None:
    left = play.unended
    try:
        warn(f"stopped; {play.cancel()} jobs of the trace are cancelled")
    except RadrmError as error:
        warn(
            f"stopped; {left} jobs of the trace may still run, since they cannot be cancelled: "
            f"{error}; look at radrm status"
        )


# ------------------------------------------------------------------ results


def gains(played: Sequence[Played]) -> list[dict[str, Any]]:
    """How far the metrics of each run are below those of the first, live and simulated.

    0.23 is 23 % less; None: not known.
    """
    first = played[0]
    return [
        {
            "policy": each.policy,
            "live": _below(each.live, first.live),
            "simulated": _below(each.simulated.runs[0], first.simulated.runs[0]),
        }
        for each in played[1:]
    ]


def _below(own: Metrics, other: Metrics) -> dict[str, float | None]:
    return {name: below(getattr(own, name), getattr(other, name)) for name in MEASURED}


def below(value: float | None, other: float | None) -> float | None:
    """Return how far a value is below another, as a share of the other. None: unknown."""
    return None if value is None or not other else 1 - value / other


def played_document(played: Sequence[Played], scale: float, left_out: int) -> dict[str, Any]:
    """The document of all runs: each live beside its simulation, and the gains over the first."""
    return {
        "time_scale": scale,
        "runs": [
            {
                "policy": each.policy,
                "live": {
                    "jobs": each.live.jobs,
                    "unfinished": each.live.unfinished,
                    **{name: getattr(each.live, name) for name in MEASURED},
                },
                "simulated": document(each.simulated, left_out),
            }
            for each in played
        ],
        "gains": gains(played),
    }
