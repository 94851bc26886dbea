"""10 to 100 nodes: what a setting costs, how long it takes, and the seconds of the optimizer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any
from unittest.mock import patch

from benchmarks.deadlines.methods import BASELINES, BY_LOT, EDF, FREE, Method
from benchmarks.deadlines.runs import Trial, play
from radrm.lab.simulator.traces.importers.andreas import Mix
from radrm.published.andreas import Andreas

NODES = (10, 20, 50, 100)
LOAD = 0.5
METHODS = (*BASELINES, EDF, FREE)
CONTROLLED = 20
"""The most nodes on which the control runs: it is the slowest."""


@dataclass(frozen=True, slots=True)
class Sized:
    """One run. `call_s`: the median processor seconds of a call of the optimizer; None: none."""

    method: Method
    scenario: int
    nodes: int
    energy_cost: float
    total_cost: float
    makespan_s: float
    call_s: float | None
    longest_s: float | None


def sized(trial: Trial) -> Sized:
    """Return one run with the time of its calls."""
    with _timed() as calls:
        found = play(trial)
    optimizes = trial.method == FREE  # the baselines construct one plan, without chance
    assert found.energy_cost is not None and found.total_cost is not None
    return Sized(
        trial.method,
        trial.mix.scenario,
        trial.mix.nodes,
        found.energy_cost,
        found.total_cost,
        found.makespan_s,
        median(calls) if optimizes else None,
        max(calls) if optimizes else None,
    )


@contextmanager
def _timed() -> Iterator[list[float]]:
    """Time each plan of `andreas`. numpy is there before the first, as in a daemon."""
    Andreas().get_ready()
    calls: list[float] = []
    before: Any = Andreas._plan

    def plan(*words: Any) -> Any:
        begun_s = time.process_time()
        try:
            return before(*words)
        finally:
            calls.append(time.process_time() - begun_s)

    with patch.object(Andreas, "_plan", plan):
        yield calls


def saved_on_average(sizes: Sequence[Sized], scenario: int, by: Method = FREE) -> int:
    """Return by how many per cent `andreas` is cheaper, as the paper averages it: over all numbers
    of nodes and the three baselines."""
    cost = {(e.nodes, e.method): e.total_cost for e in sizes if e.scenario == scenario}
    nodes = {count for count, method in cost if method == by}
    parts = [1 - cost[n, by] / cost[n, each] for n in sorted(nodes) for each in BASELINES]
    return round(100 * fmean(parts))


def all_sized(cores: int | None, nodes: Sequence[int] = NODES) -> list[Sized]:
    """Return each method on each number of nodes, one seed each."""
    trials = [
        Trial(method, Mix(scenario, count, LOAD, 0))
        for scenario in (1, 2)
        for count in nodes
        for method in (*METHODS, *([BY_LOT] if count <= CONTROLLED else []))
    ]
    with ProcessPoolExecutor(cores) as pool:
        return list(pool.map(sized, trials))
