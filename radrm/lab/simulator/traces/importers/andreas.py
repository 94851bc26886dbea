"""The jobs of ANDREAS' simulations, drawn as published (Filippini et al. 2021, section V-B).

Half of the nodes have V100s, half T4s. A job's run time is its epochs times the published seconds
an epoch. There are no figures for three V100s and more or for two T4s, so a job uses at most two
V100s or one T4. Jobs come in clusters of ten, at the full rate and at a quarter of it in turn. A
due time lies between the least run time and the lesser of three times that and the greatest.

Assumed, since nothing is published: memory and SM activity. Each job has its GPUs to itself, so
they decide nothing. The load of the published figures is not in the paper.
"""

from __future__ import annotations

from random import Random
from statistics import fmean

from msgspec import Struct

from radrm.core.records import Profiled
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import Trace

FORM = "andreas"
SCENARIOS = {1: (2, 1), 2: (4, 2)}
"""The V100s of a node and the T4s of another, by scenario."""
FEWEST_NODES, MOST_NODES = 2, 100
MOST_LOAD = 100.0
PRICE, PUE, CURRENCY = 0.17168313, 1.33, "EUR"
NODE_WATTS = {"V100": (530.0, 700.0, 870.0, 1040.0), "T4": (400.0, 470.0)}

_MODELS = (
    # seconds an epoch on a V100, two V100s, a T4; epochs
    ("LSTMbig", 43.0842, 30.5512, 110.7112, (120, 160, 320)),
    ("LSTMsmall", 43.0261, 30.5871, 110.6581, (120, 160, 320)),
    ("EfficientNet", 51.6221, 41.2372, 88.9881, (120, 160)),
    ("ConvolutionNet", 20.5382, 17.8042, 41.2582, (160, 320)),
)
_PER_NODE, _CLUSTER = 10, 10
_SLOW = 0.25
_LATEST = 3.0
_WEIGHTS = (0.0002537, 0.0004440)  # EUR a second
_MEMORY_MIB, _SMACT = 8000.0, 0.9
_HOUR_S = 3600.0


class Mix(Struct, frozen=True):
    """One setting of the published simulations, with a seed of its own."""

    scenario: int = 1
    nodes: int = 10
    load: float = 0.5
    seed: int = 0

    @property
    def spec(self) -> str:
        """The servers, as `radrm.simulated.spec` reads them."""
        fast, slow = SCENARIOS[self.scenario]
        half = self.nodes // 2
        return f"sim:{self.nodes - half}*{fast}xV100-32GB/{half}*{slow}xT4-16GB"

    @property
    def count(self) -> int:
        """The number of jobs."""
        return self.nodes * _PER_NODE

    def note(self, seeds: int) -> str:
        """Return a line for the user about the draws of so many seeds."""
        last = self.seed + seeds - 1
        drawn = f"seed {last}" if seeds == 1 else f"the seeds {self.seed} to {last}"
        return (
            f"{self.count} jobs on {self.nodes} nodes of scenario {self.scenario} at load "
            f"{self.load:g}, drawn with {drawn}; their memory and SM activity are assumed"
        )


def published_mix(mix: Mix, cost_per_hour: float) -> Trace:
    """Return the jobs of a setting; `cost_per_hour` (above 0) is that of a late job of weight 1.

    Another load has the same jobs, at other times.
    """
    rng = Random(f"andreas {mix.nodes} {mix.seed}")
    kinds = [(name, times, n) for name, *times, epochs in _MODELS for n in epochs]
    drawn = [rng.choice(kinds) for _ in range(mix.count)]
    gaps = [rng.expovariate(1.0) for _ in drawn]
    jobs, now_s = [], 0.0
    for at, (name, epoch_s, epochs) in enumerate(drawn):
        one, two, slow = (seconds * epochs for seconds in epoch_s)
        if at:
            now_s += gaps[at] / _rate(mix, drawn, at // _CLUSTER)
        least_s, most_s = min(one, two, slow), max(one, two, slow)
        due_s = now_s + rng.uniform(least_s, min(_LATEST * least_s, most_s))
        jobs.append(
            TraceJob(
                submit_s=now_s,
                name=f"{name}-{epochs}",
                gpus=1,
                duration_s=one,
                memory_mib=_MEMORY_MIB,
                smact=_SMACT,
                due_s=due_s,
                weight=rng.uniform(*_WEIGHTS) * _HOUR_S / cost_per_hour,
                saves=True,
                profile=(
                    Profiled("V100", 1, one),
                    Profiled("V100", 2, two),
                    Profiled("T4", 1, slow),
                ),
                line=at + 2,
            )
        )
    return Trace(tuple(jobs))


def _rate(mix: Mix, drawn: list[tuple[str, list[float], int]], cluster: int) -> float:
    """Return the jobs a second of a cluster: the mean over its jobs."""
    here = drawn[cluster * _CLUSTER : (cluster + 1) * _CLUSTER]
    rate = fmean(mix.load * 2 * mix.nodes / (times[0] * epochs) for _, times, epochs in here)
    return rate * (_SLOW if cluster % 2 else 1.0)
