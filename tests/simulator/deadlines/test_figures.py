"""The page of the published figures: its claims hold or are said to be missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.deadlines.claims import Found, claims, mean
from benchmarks.deadlines.methods import DEADLINE, EDF, FREE, OWN, Method
from benchmarks.deadlines.page import TABLE, page
from benchmarks.deadlines.real import Checked
from benchmarks.deadlines.runs import Trial, play_all, settings
from benchmarks.deadlines.server import Served
from benchmarks.deadlines.sizes import Sized
from radrm.simulator.metrics import Metrics
from radrm.simulator.traces.importers.andreas import Mix

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


def test_an_interval_is_that_of_students_t() -> None:
    assert mean([1.0]).half == 0.0
    three = mean([1.0, 2.0, 3.0])
    assert three.value == 2.0 and three.half == pytest.approx(4.30 / 3**0.5)


def test_the_page_says_what_is_missed() -> None:
    sized = Sized(FREE, 1, 10, 1.0, 2.0, 3600.0, 0.01, 0.02)
    served = [
        Served("default", "magm", order, tardiness, 3.6e6, 0.5)
        for order, tardiness in (("fifo", 100.0), ("due", 50.0), ("weight", 90.0))
    ]
    runs = found(free=30.0, deadline=90.0)
    text = page(runs, 1, claims(runs), [sized], served, Checked(1.0, 0.99, 0.0))
    assert "- Holds: scenario 1: andreas" in text and "- **Missed**: scenario 1, load 0.5" in text
    assert "**50 s, 1.00 kWh, 50 %**" in text and "**90 s" not in text
    assert "| 1 | 10 | andreas, free moves | 1.0 | 2.0 | 1.0 | 0.010 s, 0.020 s |" in text
    assert "1.0 % of the prediction" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({name for method in TABLE for name in rows if name.startswith(f"| {method.name} |")})


def test_finished_runs_are_not_run_again(tmp_path: Path) -> None:
    keep = tmp_path / "runs"
    trials = [Trial(method, Mix(1, 2, 0.5, 0)) for method in OWN[:2]]
    first = play_all(trials[:1], 1, None, keep)
    told: list[int] = []
    both = play_all(trials, 1, told.append, keep)
    assert both[0] == first[0] and told == [2]
    assert first[0].total_cost is not None and first[0].total_cost > 0
    assert len(keep.read_text().splitlines()) == 2


def test_every_setting_has_every_seed() -> None:
    assert len(settings((1, 2), 10, (0.5, 1.0), range(3))) == 12


def test_methods_have_names_of_their_own() -> None:
    names: list[str] = [method.name for method in TABLE]
    assert len(set(names)) == len(names)
    assert all(isinstance(method, Method) for method in TABLE)
