"""Accuracy of predicted SM activity and duration, on simulated histories whose truth is known.

    python -m benchmarks.estimates.predictions [--histories N]

Each history is a drawn site: some programs, each run several times, most of them beside others.
The estimator `auto` predicts each run at its submission from the runs that have ended. The
interference of the simulated GPUs is the model that corrects the runs, so the errors of that
model itself are not part of the figures. Memory is known: no job dies.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from unittest.mock import patch

from benchmarks.simulation.published import SPANNING
from radrm.config import Config
from radrm.core.records import Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.estimates import AutoEstimates
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.wiring import table_of

RUN_TO_RUN = 0.1
"""Standard deviation of the duration of a program from run to run (logarithm). An assumption."""
SMACT_RUN_TO_RUN = 0.05
"""The same for its SM activity."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A prediction of one quantity, and what the job really needed alone."""

    quantity: Quantity
    source: str
    value: float
    upper: float
    truth: float


def history(seed: int, programs: int = 8, runs: int = 100, gap_s: float = 600.0) -> list[TraceJob]:
    """Return the jobs of a site: each a run of one of its programs."""
    rng = Random(f"site {seed}")
    kinds = [
        (
            rng.choice((600.0, 1200.0, 2400.0, 4800.0)),
            rng.uniform(2000, 9000),
            rng.choice((0.1, 0.25, 0.4, 0.6, 0.8)),
            rng.choice((1, 1, 1, 2)),
        )
        for _ in range(programs)
    ]
    at_s, jobs = 0.0, []
    for _ in range(runs):
        which = rng.randrange(programs)
        duration_s, memory_mib, smact, gpus = kinds[which]
        at_s += rng.expovariate(1 / gap_s)
        jobs.append(
            TraceJob(
                submit_s=at_s,
                name=f"program{which}",
                gpus=gpus,
                duration_s=duration_s * rng.lognormvariate(0.0, RUN_TO_RUN),
                memory_mib=memory_mib,
                smact=min(1.0, smact * rng.lognormvariate(0.0, SMACT_RUN_TO_RUN)),
                estimates={"horus": memory_mib},
            )
        )
    return jobs


def predictions(
    jobs: Sequence[TraceJob], policy: str = "first-fit", gpus: int = 4, seed: int = 0
) -> list[Prediction]:
    """Simulate the jobs, and return what was predicted of each at its submission."""
    found: list[Prediction] = []
    real = AutoEstimates.estimate

    def noted(
        auto: AutoEstimates, job: TraceJob, spec: JobSpec, known: tuple[Estimate, ...]
    ) -> tuple[Estimate, ...]:
        estimates = real(auto, job, spec, known)
        found.extend(_compared(job, estimates))
        return estimates

    config = Config(policy=policy, mps=SPANNING)
    if policy != "exclusive":
        config = replace(config, policies={table_of("policies", policy): {"max_smact": 1.0}})
    devices = parse(f"sim:{gpus}xA100-40GB")
    scenario = Scenario(config=config, devices=devices, estimator="auto", seed=seed, life=Life())
    with patch.object(AutoEstimates, "estimate", noted):
        simulate(jobs, scenario)
    return found


def _compared(job: TraceJob, estimates: Sequence[Estimate]) -> Iterator[Prediction]:
    truths = {Quantity.SMACT: job.smact, Quantity.DURATION: job.duration_s}
    for quantity, truth in truths.items():
        best = next((e for e in estimates if e.quantity is quantity), None)
        if best is not None:
            yield Prediction(quantity, best.source, best.value, best.upper, truth)


def coverage(found: Sequence[Prediction]) -> float:
    """Return the part of the predictions whose upper bound holds."""
    return sum(p.truth <= p.upper * (1 + 1e-9) for p in found) / len(found)


def median_error(found: Sequence[Prediction]) -> float:
    """Return the median of the absolute errors, relative to the truth."""
    return median(abs(p.value - p.truth) / p.truth for p in found)


def excess(found: Sequence[Prediction]) -> float:
    """Return the median of the upper bounds over the truth."""
    return median(p.upper / p.truth for p in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=40)
    count = parser.parse_args().histories
    print(f"{count} histories of 100 jobs on 4 GPUs\n")
    print("| policy | quantity | source | count | bound holds | median error | bound / truth |")
    print("|---|---|---|---|---|---|---|")
    for policy in ("exclusive", "magm", "first-fit"):
        by_source: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
        for seed in range(count):
            for each in predictions(history(seed), policy, seed=seed):
                by_source[each.quantity.value, each.source].append(each)
        for (quantity, source), each_of in sorted(by_source.items()):
            print(
                f"| {policy} | {quantity} | {source} | {len(each_of)} | {coverage(each_of):.1%} "
                f"| {median_error(each_of):.1%} | {excess(each_of):.2f} |"
            )


if __name__ == "__main__":
    main()
