"""The page of the published figures: its claims hold or are said to be missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.deadlines.claims import Found, claims
from benchmarks.deadlines.methods import DEADLINE, EDF, FREE
from benchmarks.deadlines.page import TABLE
from radrm.simulator.metrics import Metrics

NOTHING = Metrics(0, 0, 0.0, None, None, None, None, 0, None, None, 0.0)


def found(**cheaper: float) -> Found:
    """All methods cost 100, but for those that are named by their planner or order."""
    costs = {FREE: cheaper.get("free", 100.0), DEADLINE: cheaper.get("deadline", 100.0)}
    costs[EDF] = cheaper.get("edf", 100.0)
    return {
        (scenario, 0.5, method): [replace(NOTHING, total_cost=costs.get(method, 100.0) + d)]
        for scenario in (1, 2)
        for method in TABLE
        for d in (0.0,)
    }


@pytest.mark.parametrize(
    ("costs", "held"),
    [
        ({"free": 30.0, "deadline": 60.0}, [True, True, True, True, True]),
        ({"free": 50.0, "deadline": 60.0}, [False, True, True, True, True]),
        ({"free": 80.0, "deadline": 85.0}, [False, False, True, True, True]),
        ({"free": 30.0, "deadline": 70.0}, [True, True, True, False, False]),
        ({"free": 30.0, "deadline": 65.0, "edf": 60.0}, [True, True, False, False, False]),
    ],
)
def test_a_claim_holds_only_if_its_figures_do(costs: dict[str, float], held: list[bool]) -> None:
    assert [each.holds for each in claims(found(**costs))] == held
