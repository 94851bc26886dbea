"""The settings that `--advise` tries: one table, which new rules and settings extend.

A candidate is a `Combination` of rules, as a goal is. All candidates run on the same jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from radrm.config import Config
from radrm.config.goals import GOALS, PUBLISHED, SHARING, Combination
from radrm.experiments.simulations.variants import starts_jobs
from radrm.orders import ORDERS
from radrm.planners import PLANNERS
from radrm.policies import POLICIES

_LIMITS = {"magm": (0.70, 0.80, 0.90), "lug": (0.70, 0.80, 0.90)}
"""The limits of SM activity to try with these policies; 0.80 is the thesis' (section 6.2.2)."""
_ORDERED = ("magm", "packing")
"""The policies to try with every order and planner, at their highest limit."""
_UNTRIED_ORDERS = frozenset({"due", "latest-start", "weight"})
_UNTRIED_PLANNERS = frozenset({"andreas", "deadline", "dlrover", "nearchus"})
"""The first two serve due times and weights, which no objective measures; the others are about jobs
with parameter servers, and start all others as `default` does."""


def _combinations() -> Iterator[Combination]:
    yield from GOALS.values()
    for name in POLICIES:
        for limit in _LIMITS.get(name, (None,)):
            yield _of(name, PUBLISHED.order, PUBLISHED.planner, limit)
    starting = [n for n in PLANNERS if n not in _UNTRIED_PLANNERS and starts_jobs(n)]
    orders = [name for name in ORDERS if name not in _UNTRIED_ORDERS]
    for name, order, planner in product(_ORDERED, orders, starting):
        yield _of(name, order, planner, max(_LIMITS.get(name, ()), default=None))


def _of(policy: str, order: str, planner: str, limit: float | None) -> Combination:
    table = {} if limit is None else {SHARING: {"max_smact": limit}}
    return Combination(policy, order, planner, policies=table)


def _each_once() -> tuple[Combination, ...]:
    found: list[Combination] = []
    for each in _combinations():
        if each not in found:
            found.append(each)
    return tuple(found)


CANDIDATES = _each_once()


def settings_text(candidate: Combination) -> dict[str, Any]:
    """The candidate as a table of the configuration file."""
    table: dict[str, Any] = {
        "policy": candidate.policy,
        "order": candidate.order,
        "planner": candidate.planner,
    }
    for name in ("policies", "orders", "planners"):
        if rules := {rule: dict(own) for rule, own in getattr(candidate, name).items() if own}:
            table[name] = rules
    return table


def with_candidate(base: Config, candidate: Combination) -> Config:
    """The configuration with a candidate's rules; their other settings stay."""
    tables: dict[str, Any] = {}
    for name in ("policies", "orders", "planners"):
        given, own = getattr(base, name), getattr(candidate, name)
        tables[name] = {**given, **{rule: {**given.get(rule, {}), **own[rule]} for rule in own}}
    return replace(
        base,
        policy=candidate.policy,
        order=candidate.order,
        planner=(candidate.planner,),
        **tables,
    )
