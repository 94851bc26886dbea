"""How often the ranges of `radrm replay` contain the truth, on simulated histories.

    python -m benchmarks.simulation.replays [--histories 40] [--seeds 12] [--timeslice]

Each history is a drawn trace, simulated under one policy, and what a daemon would have recorded of
it. The truth is what the same jobs need under `exclusive` with their true figures. Half of the
histories have typical kinds of jobs, half have SM activity, memory and batch size drawn apart.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean

from radrm.config import Config
from radrm.lab.experiments.simulations.past import wide_range
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.draw import TYPICAL
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.past import RECORDED, replayed
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.lab.simulator.pasts import BEGIN, as_past

SERVER = "sim:4xA100-40GB"
LIMIT = 0.85
_TRUTH_SEEDS = 4
_TOO_MUCH = 1.3


@dataclass(frozen=True, slots=True)
class History:
    """One history: by what part jobs end sooner with `exclusive` (below 0: later), and the range
    that the replay gives."""

    seed: int
    policy: str
    truth: float
    gain: float
    low: float
    high: float

    @property
    def contained(self) -> bool:
        return self.low <= self.truth <= self.high


def drawn(seed: int, count: int) -> list[TraceJob]:
    """A trace of at most moderate load: typical kinds if the half of `seed` is even, else any."""
    rng = random.Random(f"history {seed}")
    gap_s, now_s, jobs = rng.uniform(200, 900), 0.0, []
    for number in range(count):
        now_s += rng.expovariate(1 / gap_s)
        kind = rng.choice(TYPICAL)
        if seed // 2 % 2:
            memory_mib, smact = rng.uniform(1500, 24000), rng.uniform(0.05, 0.9)
            family, batch = None, rng.choice((32, 64, 128))
        else:
            memory_mib = kind.memory_mib * rng.uniform(0.8, 1.2)
            smact = min(0.95, kind.smact * rng.uniform(0.75, 1.25))
            family, batch = kind.family, kind.batch_size
        jobs.append(
            TraceJob(
                submit_s=now_s,
                name=f"job{number}",
                gpus=rng.choice((1,) * 9 + (2,)),
                duration_s=120 + rng.expovariate(1 / 3000),
                memory_mib=memory_mib,
                smact=smact,
                family=family,
                batch_size=batch,
                estimates={RECORDED: memory_mib * _TOO_MUCH},
                line=number + 1,
            )
        )
    return jobs


def one(seed: int, seeds: int, mps: bool = True, count: int = 60) -> History:
    """The history of this seed: its truth, and the replay's range."""
    policy, jobs = ("magm", "lug")[seed % 2], drawn(seed, count)

    def scenario(name: str, of_seed: int) -> Scenario:
        config = Config(policy=name, order="fifo", planner=("strict",))
        return Scenario(parse(SERVER), config, seed=of_seed, mps=mps, estimator=RECORDED)

    def mean_jct_s(run: Sequence[TraceJob], name: str, of_seed: int) -> float:
        return metrics(simulate(run, scenario(name, of_seed))).mean_jct_s or 0.0

    past = as_past(simulate(jobs, scenario(policy, 1000 + seed)))
    draws = [
        [replace(job, estimates=jobs[job.line - 1].estimates) for job in draw]
        for draw in replayed(past, BEGIN, seeds, seed).draws
    ]
    own = [mean_jct_s(draw, "exclusive", at) for at, draw in enumerate(draws)]
    before = [mean_jct_s(draw, policy, at) for at, draw in enumerate(draws)]
    truth = fmean(
        1 - mean_jct_s(jobs, "exclusive", at) / mean_jct_s(jobs, policy, at)
        for at in range(_TRUTH_SEEDS)
    )
    found = wide_range(own, before)
    assert found is not None and found.low is not None and found.high is not None
    return History(seed, policy, truth, found.gain, found.low, found.high)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--timeslice", action="store_true")
    asked = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        waiting = [
            pool.submit(one, seed, asked.seeds, not asked.timeslice)
            for seed in range(asked.histories)
        ]
        found = []
        for each in waiting:
            history = each.result()
            found.append(history)
            print(
                f"{history.seed:3} {history.policy:5} truth {-history.truth:+.2f} later, replay "
                f"{-history.gain:+.2f} ({-history.high:+.2f} to {-history.low:+.2f}) "
                f"{'' if history.contained else 'MISSED'}",
                flush=True,
            )
    contained = fmean(each.contained for each in found)
    width = fmean((each.high - each.low) / 2 for each in found)
    off = fmean(abs(each.gain - each.truth) for each in found)
    print(f"{contained:.0%} of {len(found)} ranges contain the truth; half a range is {width:.2f}")
    print(f"on average, a replay is {off:.2f} off; limit: {LIMIT:.0%} of the ranges")
    return 0 if contained >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
