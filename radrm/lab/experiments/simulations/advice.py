"""The settings that `--advise` tries, and the best of them for some jobs.

A candidate is a `Combination` of rules, as a goal is. All candidates run on the same jobs.

The best of many noisy results looks better than it is. So the candidates are ranked with some
seeds, and the gain of the first ones is measured with others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from radrm.config import Config
from radrm.config.goals import GOALS, PUBLISHED, SHARING, Combination
from radrm.errors import UsageError
from radrm.lab.experiments.simulations.runs import (
    Draws,
    Progress,
    Result,
    document,
    results,
)
from radrm.lab.experiments.simulations.variants import Choices, Variant, make_variant, starts_jobs
from radrm.lab.simulator.metrics import Change, gain, over_seeds
from radrm.orders import ORDERS
from radrm.policies import POLICIES
from radrm.structs import replace
from radrm.wiring import registry

_LIMITS = {"magm": (0.70, 0.80, 0.90), "lug": (0.70, 0.80, 0.90)}
"""The limits of SM activity to try with these policies; 0.80 is the thesis' (section 6.2.2)."""
_ORDERED = ("magm", "packing")
"""The policies to try with every order and planner, at their highest limit."""
_UNTRIED_ORDERS = frozenset({"due", "latest-start", "weight"})
_UNTRIED_PLANNERS = frozenset({"andreas", "deadline", "dlrover", "nearchus"})
"""The first two serve due times and weights, which no objective measures; the others are about jobs
with parameter servers, and start all others as `strict` does."""


def _combinations() -> Iterator[Combination]:
    yield from GOALS.values()
    for name in POLICIES:
        for limit in _LIMITS.get(name, (None,)):
            yield _of(name, PUBLISHED.order, PUBLISHED.planner, limit)
    starting = [n for n in registry("planners") if n not in _UNTRIED_PLANNERS and starts_jobs(n)]
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
    return dataclasses.replace(
        base,
        policy=candidate.policy,
        order=candidate.order,
        planner=(candidate.planner,),
        **tables,
    )


OBJECTIVES = {"completion": "mean_jct_s", "makespan": "makespan_s", "energy": "energy_j"}
"""The metric that is to become small, by the word of `--objective`."""
FINALISTS = 3
LEAST_SEEDS = 3
_FEW_DEATHS = 0.01

Compare = Callable[[Sequence[float], Sequence[float]], "Change | None"]
"""The gain of some values over others, by seed, with its interval."""


class Ranked(Struct, frozen=True):
    """A candidate and its results.

    `gains` over the present setting, by metric, and `behind`: the gain of the best one over this
    one; None: unknown."""

    candidate: Combination
    result: Result
    gains: dict[str, Change | None]
    behind: Change | None = None

    @property
    def as_good(self) -> bool:
        """True if the best one is better by no more than the noise."""
        return self.behind is None or self.behind.low is None or self.behind.low <= 0


class Advice(Struct, frozen=True):
    """The present setting's results and the best candidates, the best one first."""

    metric: str
    tried: int
    present: Result
    ranked: tuple[Ranked, ...]

    @property
    def best(self) -> Ranked | None:
        """The best candidate; None if its gain over the present setting is within noise."""
        change = self.ranked[0].gains[self.metric]
        if change is None or change.low is None or change.low <= 0:
            return None
        return self.ranked[0]


def objective(word: str) -> str:
    """The metric of an objective. Raises `UsageError`."""
    if word not in OBJECTIVES:
        raise UsageError(f"--objective {word!r} is not one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[word]


def variants_to_try(
    base: Config, present: Variant, choices: Choices, policies: Sequence[str]
) -> tuple[list[Combination], list[Variant]]:
    """The candidates with these policies (all without names) that differ from the present one.

    They have their own order and planner. Raises `UsageError` if none is left."""
    choices = replace(choices, order=None, planner=None)
    chosen: list[Combination] = []
    found: list[Variant] = []
    for candidate in CANDIDATES:
        if policies and candidate.policy not in policies:
            continue
        config = with_candidate(base, candidate)
        variant = make_variant(config, candidate.policy, present.estimator, choices)
        if variant != present and variant not in found:
            chosen.append(candidate)
            found.append(variant)
    if not found:
        names = ", ".join(dict.fromkeys(each.policy for each in CANDIDATES))
        raise UsageError(
            f"--advise tries no other setting of {', '.join(policies) or present.policy}; "
            f"it knows settings of: {names}"
        )
    return chosen, found


def advise(
    draws: Draws,
    present: Variant,
    candidates: Sequence[Combination],
    variants: Sequence[Variant],
    metric: str,
    seeds: int,
    progress: Progress,
    compare: Compare = gain,
) -> Advice:
    """Rank the candidates with seeds 0 to `seeds` - 1, and measure the best with as many more."""
    if seeds < LEAST_SEEDS:
        raise UsageError(f"--advise needs --seeds of at least {LEAST_SEEDS}, not {seeds}")
    first = results(draws, [present, *variants], range(seeds), progress=progress)
    # A candidate may say in other words what holds already.
    others = [at for at in range(len(variants)) if first[at + 1].runs != first[0].runs]
    order = sorted(
        others or range(len(variants)), key=lambda at: _rank(first[at + 1], first[0], metric)
    )
    best = order[:FINALISTS]
    again = results(
        draws,
        [present, *(variants[at] for at in best)],
        range(seeds, 2 * seeds),
        progress=progress,
    )
    ranked = tuple(
        Ranked(
            candidates[at],
            result,
            {name: _gain(result, again[0], name, compare) for name in OBJECTIVES.values()},
            _gain(again[1], result, metric, compare),
        )
        for at, result in zip(best, again[1:], strict=True)
    )
    return Advice(metric, len(variants), again[0], ranked)


def _rank(result: Result, present: Result, metric: str) -> tuple[float, float]:
    """The less the better: first jobs that never completed and too many deaths, then the metric.

    Deaths are too many above those of the present setting and above `_FEW_DEATHS` of the jobs."""
    own, before = over_seeds(result.runs), over_seeds(present.runs)
    mean, allowed = own[metric].mean, _FEW_DEATHS * result.runs[0].jobs
    deaths = (own["oom_count"].mean or 0.0) - max(before["oom_count"].mean or 0.0, allowed)
    bad = (own["unfinished"].mean or 0.0) + max(0.0, deaths)
    return bad, float("inf") if mean is None else mean


def _gain(own: Result, present: Result, metric: str, compare: Compare) -> Change | None:
    values = [getattr(run, metric) for run in own.runs]
    others = [getattr(run, metric) for run in present.runs]
    return None if None in values or None in others else compare(values, others)


def advice_document(advice: Advice) -> dict[str, Any]:
    """The document of an advice: gains are parts of the present setting's figures."""
    best = advice.best
    return {
        "objective": advice.metric,
        "tried": advice.tried,
        "present": document(advice.present),
        "best": None if best is None else settings_text(best.candidate),
        "candidates": [
            {
                "settings": settings_text(each.candidate),
                "gains": {
                    name: None if c is None else {"gain": c.gain, "low": c.low, "high": c.high}
                    for name, c in each.gains.items()
                },
                "result": document(each.result),
            }
            for each in advice.ranked
        ],
    }
