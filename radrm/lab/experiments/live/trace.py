"""Play a trace through a daemon, and simulate the same trace with the same settings beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct

from radrm.client.text import warn
from radrm.errors import RadrmError, UsageError
from radrm.lab.experiments.live.play import Play, Server, private_server
from radrm.lab.experiments.live.record import measured
from radrm.lab.experiments.live.submissions import (
    Commands,
    as_declared,
    for_stand_ins,
    submissions,
)
from radrm.lab.experiments.simulations.runs import Result, capacities_mib, document, results
from radrm.lab.experiments.simulations.variants import Variant
from radrm.lab.simulator.metrics import MEASURED, Metrics
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace

Progress = Callable[[int, int], object]

MOST_JOBS = 10_000
_START_S, _MUCH = 0.5, 0.05
"""Real seconds in which a stand-in starts, and the share of a job above which that is noted."""
_SLOWEST, _SLACK_S = 3.0, 3600.0
"""A run on a private daemon ends after so many times the simulated time, and so much more."""


class Played(Struct, frozen=True):
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
    jobs, scenario = _declared(*for_stand_ins(jobs, variant.scenario))
    simulated = _simulated(jobs, scenario, variant)
    limit_s = simulated.runs[0].makespan_s * _SLOWEST + _SLACK_S
    with tempfile.TemporaryDirectory(prefix="radrm-trace-") as folder:
        place = Path(folder) / "server"
        with private_server(place, gpus, scale, scenario) as server:
            play = _play(server, jobs, scenario, Commands(stand_ins=True))
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
    scenario = variant.scenario
    if commands.stand_ins:
        jobs, scenario = for_stand_ins(jobs, scenario)
    # A real GPU has a little less memory than its name says.
    jobs, scenario = _declared(jobs, scenario, [gpu["total_mib"] for gpu in server.ask("gpus")])
    simulated = _simulated(jobs, scenario, variant)
    play = _play(server, jobs, scenario, commands)
    try:
        run = play.run(float("inf"), progress)
    finally:
        if play.unended:
            _cancel(play)
    return Played(measured(run, play.readings), run, simulated)


def check_length(jobs: Sequence[TraceJob]) -> None:
    """Raise `UsageError` for more jobs than one live run takes."""
    if len(jobs) > MOST_JOBS:
        raise UsageError(
            f"the trace has {len(jobs):,} jobs, and a live run takes {MOST_JOBS:,}; leave out some"
        )


def note_on_clock(jobs: Sequence[TraceJob], scale: float) -> str | None:
    """A note if the clock is so fast that starting a process is a part of each job."""
    part = _START_S * scale / fmean(job.duration_s for job in jobs)
    if part <= _MUCH:
        return None
    return (
        f"starting a process takes {_START_S * scale:.0f} s of this clock, {part:.0%} of a mean "
        "job; a lower --time-scale is more exact"
    )


def _declared(
    jobs: Sequence[TraceJob], scenario: Scenario, sizes_mib: Sequence[int] = ()
) -> tuple[list[TraceJob], Scenario]:
    return as_declared(jobs, scenario, sizes_mib or capacities_mib(scenario.devices))


def _simulated(jobs: Sequence[TraceJob], scenario: Scenario, variant: Variant) -> Result:
    """The simulation of what is submitted. It is shown as the variant that was asked for."""
    (found,) = results([jobs], [Variant(scenario)], [0])
    return replace(found, variant=variant)


def _play(server: Server, jobs: Sequence[TraceJob], scenario: Scenario, commands: Commands) -> Play:
    made = submissions(jobs, scenario, commands, server.environment, server.chdir)
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
