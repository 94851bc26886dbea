"""One server with four GPUs, as users have it: order `due` beside `fifo`, the rest the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import Metrics, metrics
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.trace import read_trace
from radrm.simulated.spec import parse
from radrm.wiring import make_costs
from tests.paths import REPOSITORY

TRACE = REPOSITORY / "examples" / "traces" / "afternoon-due.csv"
GPUS = "sim:4xA100-40GB"
ORDERS = ("fifo", "due", "latest-start", "weight")
RULES = (
    ("strict", "exclusive"),
    ("strict", "magm"),
    ("backfill", "magm"),
    ("backfill", "packing"),
)
"""Planners and policies. The head of the line waits, and with `backfill` others may pass it."""


@dataclass(frozen=True, slots=True)
class Served:
    """Means over seeds: the weighted mean delay in seconds, joules, and the part of jobs late."""

    planner: str
    policy: str
    order: str
    tardiness_s: float
    energy_j: float
    late: float


def served(planner: str, policy: str, order: str, seeds: Sequence[int]) -> Served:
    """Return what an order does with these rules."""
    config = Config(policy=policy, order=order, planner=(planner,))
    found: list[Metrics] = []
    for seed in seeds:
        scenario = Scenario(
            devices=parse(GPUS),
            config=config,
            seed=seed,
            known=Known(smact=0.0, duration=0.0),
        )
        jobs = read_trace(TRACE.read_text().splitlines(), TRACE.name).jobs
        found.append(metrics(simulate(jobs, scenario), make_costs(config)))
    return Served(
        planner,
        policy,
        order,
        fmean(each.tardiness_s or 0.0 for each in found),
        fmean(each.energy_j or 0.0 for each in found),
        fmean(each.late_fraction or 0.0 for each in found),
    )


def all_served(seeds: Sequence[int]) -> list[Served]:
    """Return each pair of rules with each order."""
    return [served(*rules, order, seeds) for rules in RULES for order in ORDERS]
