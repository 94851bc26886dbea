"""Simulates methods over loads and seeds, one process a core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.deadlines.methods import Method
from radrm.simulator.engine import simulate
from radrm.simulator.metrics import Metrics, metrics
from radrm.simulator.traces.importers.andreas import Mix, published_mix
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
    trials: Sequence[Trial], cores: int | None = None, told: Callable[[int], None] | None = None
) -> list[Metrics]:
    """Return the metrics of these runs, in their order. `told` hears how many are done."""
    with ProcessPoolExecutor(cores or os.cpu_count()) as pool:
        found = []
        for metric in pool.map(play, trials):
            found.append(metric)
            if told is not None:
                told(len(found))
        return found


def settings(
    scenarios: Iterable[int], nodes: int, loads: Iterable[float], seeds: Iterable[int]
) -> list[Mix]:
    """Return all settings of these."""
    loads, seeds = tuple(loads), tuple(seeds)
    return [
        Mix(scenario, nodes, load, seed)
        for scenario in scenarios
        for load in loads
        for seed in seeds
    ]
