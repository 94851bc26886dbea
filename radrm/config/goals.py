"""What `auto` means for policy, order and planner: for each goal, the rules that reach it best.

`python -m benchmarks.simulation.waiting` measures the goals; docs/policies.md has its figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from radrm.config.shapes import Config, RuleTables

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Combination:
    """Rules that work together, and the settings of each that are not its defaults."""

    policy: str
    order: str
    planner: str
    policies: RuleTables = field(default_factory=dict)
    orders: RuleTables = field(default_factory=dict)
    planners: RuleTables = field(default_factory=dict)


PUBLISHED = Combination("magm", "fifo", "default")
"""RAD-RM's best setting (thesis, chapter 6)."""

GOALS: Mapping[str, Combination] = {
    # Jobs on several GPUs start early: started last, they would keep the other GPUs waiting. For
    # them the others wait a little longer.
    "sharing": Combination(
        *("packing", "smallest-work", "backfill"),
        policies={"packing": {"max_demand": 1.8}},
        orders={"smallest-work": {"wide_weight": 0.15}},
        planners={"backfill": {"max_delay_s": 3600.0}},
    ),
    "throughput": Combination(
        *("packing", "smallest-work", "backfill"),
        policies={"packing": {"max_demand": 1.8}},
        orders={"smallest-work": {"wide_weight": 0.0}},
    ),
    "turnaround": Combination("packing", "smallest-work", "backfill"),
    "published": PUBLISHED,
}


def resolved(config: Config) -> Config:
    """Return the configuration with the rules that it means by `auto`.

    With another policy than `auto`, order and planner mean the published ones by it. The
    settings of a goal hold where the configuration does not say otherwise.
    """
    goal = GOALS[config.goal] if config.policy == AUTO else PUBLISHED
    tables: dict[str, Any] = {}
    for table in ("policies", "orders", "planners"):
        of_goal, given = getattr(goal, table), getattr(config, table)
        if of_goal:
            merged = {name: {**of_goal[name], **given.get(name, {})} for name in of_goal}
            tables[table] = {**given, **merged}
    return replace(
        config,
        policy=goal.policy if config.policy == AUTO else config.policy,
        order=goal.order if config.order == AUTO else config.order,
        planner=tuple(goal.planner if name == AUTO else name for name in config.planner),
        **tables,
    )
