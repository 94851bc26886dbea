"""What `auto` means for policy, order and planner: for each goal, the rules that reach it best.

A setting of a rule has one default: the rule's own. Where a goal needs another value, it is here
and nowhere else; `of_goal` returns them, to make a rule and to show its settings.

`python -m benchmarks.simulation.shipped` measures the goals; docs/policies.md has its figures.
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


PUBLISHED = Combination("magm", "fifo", "strict")
"""RAD-RM's best setting (thesis, chapter 6)."""
SHARING = "sharing"
"""The table of its policy's settings."""

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


def goal_of(config: Config) -> Combination:
    """Return what `auto` means in a configuration.

    With another policy than `auto`, order and planner mean the published ones by it.
    """
    return GOALS[config.goal] if config.policy == AUTO else PUBLISHED


def of_goal(config: Config, table: str, name: str) -> Mapping[str, Any]:
    """Return the settings of a rule that the goal of a configuration has in place of the rule's
    own defaults. `table`: `policies`, `orders` or `planners`; other rules have none."""
    tables: RuleTables = getattr(goal_of(config), table, {})
    return tables.get(name, {})


def goals_with(table: str, name: str, key: str) -> dict[str, Any]:
    """Return the value of a setting for each goal that does not have the rule's own default."""
    tables = {goal: getattr(rules, table, {}).get(name, {}) for goal, rules in GOALS.items()}
    return {goal: settings[key] for goal, settings in tables.items() if key in settings}


def resolved(config: Config) -> Config:
    """Return the configuration with the rules that it means by `auto`.

    The settings of a goal hold where the configuration does not say otherwise.
    """
    goal = goal_of(config)
    tables: dict[str, Any] = {}
    for table in ("policies", "orders", "planners"):
        given, names = getattr(config, table), getattr(goal, table)
        if names:
            merged = {name: {**names[name], **given.get(name, {})} for name in names}
            tables[table] = {**given, **merged}
    return replace(
        config,
        policy=goal.policy if config.policy == AUTO else config.policy,
        order=goal.order if config.order == AUTO else config.order,
        planner=tuple(goal.planner if name == AUTO else name for name in config.planner),
        **tables,
    )
