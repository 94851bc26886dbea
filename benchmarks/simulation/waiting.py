"""What orders, backfill and packing bring: waiting on the published traces, part by part.

    python -m benchmarks.simulation.waiting [--data FOLDER] [--seeds 12] [--first 0]
                                            [--shuffled N] [--only WORD] [--timeslice]

Each row adds one part, or is one of the named settings. Every job's memory, SM activity and
duration are known with an error of 8 %, 15 % and 30 % where the row says so. A figure is the mean
over the seeds and half of its 95 % interval. `--shuffled N` draws the jobs of each trace in another
order, at the same times, by the seed N: a setting must hold there, too. `--timeslice`: without MPS.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Any

from benchmarks.simulation.published import SERVER, SPANNING, TRACES, published_trace
from radrm.config import Config
from radrm.simulated.spec import parse
from radrm.simulator.engine import simulate
from radrm.simulator.metrics import Metrics, metrics
from radrm.simulator.scenario import Known, Scenario
from radrm.simulator.traces.job import TraceJob
from radrm.wiring import table_of
from tests.paths import SHARED_DATA

KNOWN = Known(memory=0.08, smact=0.15, duration=0.3)
WORSE = replace(KNOWN, memory=0.15)
_T95 = {3: 4.303, 4: 3.182, 6: 2.571, 8: 2.365, 12: 2.201, 24: 2.069}
"""Student's t for a two-sided 95 % interval, by the number of seeds."""

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One row. `settings`: of the policy, the order and the planner, in this order."""

    what: str
    policy: str
    order: str = "fifo"
    planner: str = "default"
    settings: tuple[Settings, Settings, Settings] = ({}, {}, {})
    known: Known = KNOWN
    estimator: str = "none"
    core: Settings = field(default_factory=dict)

    def config(self) -> Config:
        policy, order, planner = self.settings
        return Config(
            policy=self.policy,
            order=self.order,
            planner=(self.planner,),
            policies={table_of("policies", self.policy): policy} if policy else {},
            orders={self.order: order} if order else {},
            planners={self.planner: planner} if planner else {},
            core=self.core,
            mps=SPANNING,
        )


_PACKED: Settings = {"max_demand": 1.8}
_WIDE: Settings = {"wide_weight": 0.0}
_EARLY: Settings = {"wide_weight": 0.15}
_LONGER: Settings = {"max_delay_s": 3600.0}


def _packing(what: str, *settings: Settings, known: Known = KNOWN) -> Part:
    policy, order, planner = settings
    return Part(what, "packing", "smallest-work", "backfill", (policy, order, planner), known)


PARTS = (
    Part("exclusive", "exclusive"),
    Part("`magm`, estimator `auto`", "magm", known=Known(), estimator="auto"),
    Part("`magm`, known", "magm"),
    Part("`magm`, known, `max_smact` 0.9", "magm", settings=({"max_smact": 0.9}, {}, {})),
    Part("`packing`", "packing"),
    Part("`packing`, `smallest-work`", "packing", "smallest-work"),
    Part("`packing`, `backfill`", "packing", planner="backfill"),
    _packing("turnaround: `packing`, `smallest-work`, `backfill`", {}, {}, {}),
    _packing("the same, `max_demand` 1.8", _PACKED, {}, {}),
    _packing("throughput: the same, wide first", _PACKED, _WIDE, {}),
    _packing("sharing: wide early, delays up to 1 h", _PACKED, _EARLY, _LONGER),
    _packing("sharing, memory within 15 %", _PACKED, _EARLY, _LONGER, known=WORSE),
)


# ------------------------------------------------------------------ measuring


def jobs_of(trace: str, data: Path, shuffled: int | None) -> tuple[TraceJob, ...]:
    """The jobs of a trace; or the same jobs and the same times, drawn in another order."""
    jobs = published_trace(trace, data)
    if shuffled is None:
        return jobs
    order = list(jobs)
    Random(f"arrivals {shuffled}").shuffle(order)
    return tuple(
        replace(drawn, submit_s=job.submit_s, line=job.line)
        for drawn, job in zip(order, jobs, strict=True)
    )


def measure(
    part: Part, trace: str, seed: int, data: Path, shuffled: int | None, mps: bool = True
) -> Metrics:
    scenario = Scenario(
        devices=parse(SERVER),
        config=part.config(),
        seed=seed,
        known=part.known,
        estimator=part.estimator,
        mps=mps,
    )
    return metrics(simulate(jobs_of(trace, data, shuffled), scenario))


def line(part: Part, runs: Mapping[str, Sequence[Metrics]]) -> str:
    """A row of the table: both traces, minutes and MJ."""
    cells = [part.what]
    for found in runs.values():
        cells += [
            shown([each.makespan_s / 60 for each in found]),
            shown([(each.mean_jct_s or 0.0) / 60 for each in found]),
            f"{fmean((each.p95_jct_s or 0.0) / 60 for each in found):.0f}",
            f"{fmean(each.oom_count for each in found):.2f}",
            f"{fmean((each.energy_j or 0.0) / 1e6 for each in found):.2f}",
        ]
    return f"| {' | '.join(cells)} |"


def shown(values: Sequence[float]) -> str:
    """The mean and half of its 95 % interval."""
    count = len(values)
    if count < 2:
        return f"{fmean(values):.0f}"
    half = _T95.get(count, 2.0) * stdev(values) / sqrt(count)
    return f"{fmean(values):.1f}±{half:.1f}"


def header() -> str:
    names = ["makespan", "JCT", "p95", "OOM", "MJ"]
    columns = ["", *(f"{trace} {name}" for trace in TRACES for name in names)]
    return f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.waiting")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where traces/ lies")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--shuffled", type=int, default=None, help="draw another order of jobs")
    parser.add_argument("--only", default="", help="the rows with this word")
    parser.add_argument("--timeslice", action="store_true", help="jobs take turns: no MPS")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    print(header(), flush=True)
    seeds = range(args.first, args.first + args.seeds)
    with ProcessPoolExecutor(args.processes) as pool:
        for part in PARTS:
            if args.only not in part.what:
                continue
            started = {
                trace: [
                    pool.submit(
                        measure, part, trace, seed, args.data, args.shuffled, not args.timeslice
                    )
                    for seed in seeds
                ]
                for trace in TRACES
            }
            print(
                line(part, {t: [f.result() for f in fs] for t, fs in started.items()}), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
