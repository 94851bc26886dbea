"""How well `radrm replay --advise` finds the ceiling of the interference model.

    python -m benchmarks.simulation.refits [--histories 24] [--ceiling 0.8] [--timeslice]

Each history is a drawn trace, simulated under one policy on GPUs with this ceiling, and what a
daemon would have recorded of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from benchmarks.simulation.calibration import shipped, using
from benchmarks.simulation.replays import SERVER, drawn
from radrm.config import Config
from radrm.interference.model import CEILING
from radrm.interference.refit import Refit
from radrm.simulated.spec import parse
from radrm.simulator.engine import simulate
from radrm.simulator.scenario import Scenario
from radrm.simulator.traces.past import RECORDED, refitted
from tests.simulator.pasts import BEGIN, as_past

_CLOSER = 0.4
"""The factor of the times between jobs. At the drawn times few jobs share a GPU."""


def one(seed: int, ceiling: float, mps: bool = True, count: int = 200) -> Refit:
    """Return the refit of the history of this seed."""
    jobs = [replace(job, submit_s=_CLOSER * job.submit_s) for job in drawn(seed, count)]
    policy = ("magm", "packing", "lug")[seed % 3]
    config = Config(policy=policy, order="fifo", planner=("default",))
    scenario = Scenario(parse(SERVER), config, seed=1000 + seed, mps=mps, estimator=RECORDED)
    with using({**shipped(), "ceiling": ceiling}):
        past = as_past(simulate(jobs, scenario))
    return refitted(past, BEGIN)


def show(found: Sequence[Refit], truth: float) -> None:
    for seed, each in enumerate(found):
        if each.ceiling is None:
            print(f"{seed:3} {each.runs:3} readings: too few")
            continue
        print(
            f"{seed:3} {each.runs:3} readings: {each.ceiling:.3f}, held-out error "
            f"{each.shipped_error:.3f} shipped, {each.error:.3f} fitted"
            f"{'; better' if each.better else ''}"
        )
    fitted = [each for each in found if each.ceiling is not None]
    off = max((abs((each.ceiling or 0.0) - truth) for each in fitted), default=0.0)
    better = sum(each.better for each in fitted)
    print(f"truth {truth}: {len(fitted)} fits, at most {off:.3f} off, {better} better")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=24)
    parser.add_argument("--ceiling", type=float, default=CEILING)
    parser.add_argument("--timeslice", action="store_true")
    asked = parser.parse_args()
    of_seed = partial(one, ceiling=asked.ceiling, mps=not asked.timeslice)
    with ProcessPoolExecutor() as pool:
        show(list(pool.map(of_seed, range(asked.histories))), asked.ceiling)


if __name__ == "__main__":
    main()
