"""Simulates methods over loads and seeds, one process a core."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

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
    trials: Sequence[Trial],
    cores: int | None = None,
    told: Callable[[int], None] | None = None,
    keep: Path | None = None,
) -> list[Metrics]:
    """Return the metrics of these runs, in their order. `told` hears how many are done.

    Runs in the file `keep` are not run again, and others are added to it: remove it after a change
    of the rules.
    """
    known = _kept(keep)
    missing = [trial for trial in trials if repr(trial) not in known]
    with ProcessPoolExecutor(cores or os.cpu_count()) as pool:
        for at, (trial, metric) in enumerate(zip(missing, pool.map(play, missing), strict=True)):
            known[repr(trial)] = metric
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps([repr(trial), asdict(metric)]) + "\n")
            if told is not None:
                told(len(trials) - len(missing) + at + 1)
    return [known[repr(trial)] for trial in trials]


def _kept(keep: Path | None) -> dict[str, Metrics]:
    if keep is None or not keep.exists():
        return {}
    return {key: Metrics(**found) for key, found in map(json.loads, keep.open())}


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
