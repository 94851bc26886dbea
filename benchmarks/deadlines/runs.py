"""Simulates methods over loads and seeds, one process a core."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.deadlines.methods import Method
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import Metrics, metrics
from radrm.lab.simulator.traces.importers.andreas import Mix, published_mix
from radrm.wiring import make_costs


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: a method, and a setting with its seed."""

    method: Method
    mix: Mix


def play(trial: Trial) -> Metrics:
    """Return the metrics of one run."""
    scenario = trial.method.scenario(trial.mix)
    costs = make_costs(scenario.config)
    jobs = published_mix(trial.mix, costs.cost_per_hour).jobs
    return metrics(simulate(jobs, scenario), costs)


def play_all(
    trials: Sequence[Trial], cores: int | None, told: Callable[[int], None]
) -> list[Metrics]:
    """Return the metrics of these runs, in their order. `told` hears how many are done."""
    found = []
    with ProcessPoolExecutor(cores or os.cpu_count()) as pool:
        for metric in pool.map(play, trials):
            found.append(metric)
            told(len(found))
    return found
