"""Fit the constants of `radrm.interference.model` and `radrm.simulated.spec` again.

    python -m benchmarks.simulation.calibration [--data FOLDER]

- Constants: the jobs of the published 60-job run of MAGM with GPUMemNet start when and where they
  did; the model gives their ends. A pattern search (Hooke and Jeeves 1961) minimizes the mean
  square of log(modelled / published execution time) over eight constants.
- Power: the weighted least-squares fit of two lines to the jobs' power in the exclusive run.
- Checks: the same run with its published ends, too. What do SM activity and energy come to, and
  would the model's readings have allowed the published placements?

The data lie outside the project. Without them it says so, and does nothing.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from operator import sub
from pathlib import Path
from statistics import fmean

from benchmarks.simulation.power import error_of, fitted_power, points_of, through
from benchmarks.simulation.published import SERVER, published_trace
from radrm.core.words import Collocation
from radrm.interference import model
from radrm.interference.model import Demand, Load, running_speeds, share_weight
from radrm.lab.simulator.courses import Course
from radrm.lab.simulator.loop import in_order
from radrm.lab.simulator.metrics import step_durations
from radrm.lab.simulator.scenario import Life
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import SimulatedAttempt, World
from radrm.simulated.spec import A100_IDLE_W, A100_PEAK_W, parse, watts
from tests.paths import SHARED_DATA

Constants = Mapping[str, float]

OF_THE_MODEL = {
    "ceiling": "CEILING",
    "knee": "_KNEE",
    "most of own": "_MOST_OF_OWN",
    "joint": "_JOINT",
}
WEIGHTS = {
    "batch 64": ("cnn", 64),
    "batch 128": ("cnn", 128),
    "vgg": ("vgg", None),
    "transformer": ("transformer", None),
}
LIMITS = {
    "ceiling": (0.5, 1.0),
    "knee": (1.0, 30.0),
    "most of own": (0.5, 1.0),
    "joint": (0.1, 10.0),
    **dict.fromkeys(WEIGHTS, (0.25, 6.0)),
}
"""A fitted constant lies in this range."""

NEUTRAL = {**dict.fromkeys(LIMITS, 1.0), "knee": 4.0}
"""Where a search begins that knows nothing of the shipped constants."""


def shipped() -> Constants:
    of_model = {name: float(getattr(model, inside)) for name, inside in OF_THE_MODEL.items()}
    return {**of_model, **{name: share_weight(*kind) for name, kind in WEIGHTS.items()}}


# ------------------------------------------------------------------ the published run


@dataclass(frozen=True, slots=True)
class Observed:
    """One job of the published run. Its load begins at `start_s`, after the start-up."""

    job: TraceJob
    devices: tuple[str, ...]
    start_s: float
    end_s: float
    work_s: float

    def demand(self, constants: Constants) -> Demand:
        kind = self.job.family, self.job.batch_size
        named = {value: name for name, value in WEIGHTS.items()}
        name = named.get((self.job.family, None)) or named.get(kind)
        return Demand(self.job.smact, constants[name] if name else share_weight(*kind))


def observed(data: Path = SHARED_DATA) -> list[Observed]:
    start_up_s = Life().start_up_s
    path = data / "measured" / "measured_magm_gpumemnet_heavy60.csv"
    with path.open(encoding="utf-8") as lines:
        return [
            Observed(
                job,
                tuple(row["gpus"].split("+")),
                float(row["start_s"]) + start_up_s,
                float(row["end_s"]),
                float(row["solo_exec_s"]) - start_up_s,
            )
            for row, job in zip(
                csv.DictReader(lines), published_trace("heavy60", data), strict=True
            )
        ]


@contextmanager
def using(constants: Constants) -> Iterator[None]:
    """Let the model have these constants for a while. Weights are no part of it (`demand`)."""
    before = shipped()
    for name, inside in OF_THE_MODEL.items():
        setattr(model, inside, constants[name])
    try:
        yield
    finally:
        for name, inside in OF_THE_MODEL.items():
            setattr(model, inside, before[name])


def replay(jobs: Sequence[Observed], constants: Constants) -> list[float]:
    """Return the modelled end (s) of each job."""
    loads = [Load(job.demand(constants), job.devices, mps=True) for job in jobs]
    coming = sorted(range(len(jobs)), key=lambda at: -jobs[at].start_s)
    left = {at: job.work_s for at, job in enumerate(jobs)}
    ends = [0.0] * len(jobs)
    running: list[int] = []
    now_s = 0.0
    with using(constants):
        while coming or running:
            speed = running_speeds({at: loads[at] for at in running})
            times = [now_s + left[at] / speed[at] for at in running]
            times += [jobs[at].start_s for at in coming[-1:]]
            passed_s, now_s = min(times) - now_s, min(times)
            for at in running:
                left[at] -= passed_s * speed[at]
                ends[at] = now_s
            running = [at for at in running if left[at] > 1e-6]
            while coming and jobs[coming[-1]].start_s <= now_s:
                running.append(coming.pop())
    return ends


def log_errors(jobs: Sequence[Observed], constants: Constants) -> list[float]:
    """Return log(modelled / published execution time) of each job."""
    ends = replay(jobs, constants)
    return [
        log((end - job.start_s) / (job.end_s - job.start_s))
        for job, end in zip(jobs, ends, strict=True)
    ]


def typical(errors: Sequence[float]) -> float:
    """Return the root mean square of log errors as a ratio less one: 0.1 is 10 %."""
    return exp(sqrt(fmean(error * error for error in errors))) - 1


# ------------------------------------------------------------------ the search


def search(
    cost: Callable[[Constants], float],
    begin: Constants,
    limits: Mapping[str, tuple[float, float]] = LIMITS,
    factors: Sequence[float] = (1.5, 1.2, 1.1, 1.05, 1.02, 1.01, 1.005),
) -> Constants:
    """Return constants near `begin` that no single step makes better.

    Each factor multiplies or divides one constant at a time, until none of these steps lowers
    the cost; then the next factor does. Constants stay within `limits`.
    """
    best, lowest = dict(begin), cost(begin)
    for factor in factors:
        improved = True
        while improved:
            improved = False
            for name, (low, high) in limits.items():
                for step in (factor, 1 / factor):
                    tried = {**best, name: min(high, max(low, best[name] * step))}
                    if tried != best and (found := cost(tried)) < lowest - 1e-12:
                        best, lowest, improved = tried, found, True
    return best


def fit(jobs: Sequence[Observed], counted: Sequence[int], begin: Constants = NEUTRAL) -> Constants:
    """Return the constants that fit best; only the errors of the `counted` jobs count."""

    def cost(constants: Constants) -> float:
        errors = log_errors(jobs, constants)
        return fmean(errors[at] ** 2 for at in counted)

    return search(cost, begin)


def long_enough(jobs: Sequence[Observed]) -> list[int]:
    """Return the jobs that times read from plots (40 s off at most) can fit."""
    return [at for at, job in enumerate(jobs) if job.end_s - job.start_s > 600]


# ------------------------------------------------------------------ the published placements


@dataclass(frozen=True, slots=True)
class Placed:
    """The published run in the model, with its published starts and devices."""

    execution_min: float
    """Mean execution time with the model's ends, and (`published_min`) with the published ones."""
    published_min: float
    smact: float
    """Mean SM activity and (`energy_mj`) energy with the published ends."""
    energy_mj: float
    joins: int
    """Jobs on one device that joined others there."""
    above: int
    """Joins of a device that the model shows above 80 % in the 90 s before."""


def placed(jobs: Sequence[Observed]) -> Placed:
    """Run the published placements. Memory is left out: nothing dies."""
    world = World(parse(SERVER))
    start_up_s = Life().start_up_s
    for at, job in enumerate(jobs):
        world.at(job.start_s - start_up_s, (at, True))
        world.at(job.end_s, (at, False))
    live: dict[int, SimulatedAttempt] = {}
    joins = above = 0
    for _, happened in in_order([world]):
        if not isinstance(happened, tuple):
            continue
        at, starts = happened
        if not starts:
            world.end(live[at])
            continue
        devices = tuple(map(int, jobs[at].devices))
        gpu = world.gpus[devices[0]]
        if len(devices) == 1 and gpu.attempts:
            joins += 1
            above += gpu.mean_smact(max(0.0, world.now_s - 90), world.now_s) > 0.8
        demand = jobs[at].demand(shipped())
        course = Course(start_up_s, start_up_s, start_up_s, inf, 0.0, 0.0, 0.0, demand)
        live[at] = world.launch(at, course, devices, Collocation.MPS, mps=True)
    ended_s = world.now_s
    steps = [
        (step, seconds)
        for device in world.device_runs()
        for step, seconds in step_durations(device, 0.0, ended_s)
    ]
    starts_s = [job.start_s - start_up_s for job in jobs]
    return Placed(
        fmean(map(sub, replay(jobs, shipped()), starts_s)) / 60,
        fmean(map(sub, (job.end_s for job in jobs), starts_s)) / 60,
        sum(step.smact * seconds for step, seconds in steps) / ended_s / len(world.gpus),
        sum(step.power_w * seconds for step, seconds in steps) / 1e6,
        joins,
        above,
    )


# ------------------------------------------------------------------ the report


def report(data: Path) -> list[str]:
    jobs, before = observed(data), shipped()
    counted = long_enough(jobs)
    found = fit(jobs, counted)
    halves = [counted[::2], counted[1::2]]
    on_half = [fit(jobs, half) for half in halves]

    def error(constants: Constants, over: Sequence[int]) -> float:
        errors = log_errors(jobs, constants)
        return 100 * typical([errors[at] for at in over])

    tested = [error(each, half) for each, half in zip(on_half, reversed(halves), strict=True)]
    lines = ["constant      shipped  fitted  on every other job"]
    for name in LIMITS:
        parts = "  ".join(f"{each[name]:6.2f}" for each in on_half)
        lines.append(f"{name:12} {before[name]:8.3f} {found[name]:7.3f}  {parts}")
    lines += [
        f"typical error of {len(counted)} execution times: shipped {error(before, counted):.1f} %, "
        f"fitted {error(found, counted):.1f} %",
        "fitted on every other job, tested on the rest: "
        + ", ".join(f"{each:.1f} %" for each in tested),
        "",
    ]
    points = points_of(data)
    knee, at_knee_w, at_one_w = fitted_power(points)
    off = error_of(points, through(knee, at_knee_w, at_one_w))
    now = error_of(points, watts)
    lines += [
        f"power at 0, {knee:.2f} and 1 (W):",
        f"  fitted  {A100_IDLE_W:.0f} {at_knee_w:.0f} {at_one_w:.0f}; off by {off[0]:.1f} W, "
        f"{off[1]:+.1f} W on average",
        f"  shipped {A100_IDLE_W:.0f} {watts(knee):.0f} {A100_PEAK_W:.0f}; off by {now[0]:.1f} W, "
        f"{now[1]:+.1f} W on average",
        "",
    ]
    run = placed(jobs)
    lines += [
        "the published placements in the model:",
        f"  mean execution {run.execution_min:.1f} min, published {run.published_min:.1f}",
        f"  with the published ends: SM activity {run.smact:.3f} (published 0.853), "
        f"{run.energy_mj:.2f} MJ (published 28.50)",
        f"  {run.above} of {run.joins} joins were of a device above 80 % in the model",
    ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.calibration")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where measured/ lies")
    data = parser.parse_args().data
    if not (data / "measured").is_dir():
        print(f"{data}: has no measured/; name the folder that has with --data. Nothing done.")
        return 0
    print("\n".join(report(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
