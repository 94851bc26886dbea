"""The learner finds a server's true loss, stays in its bounds; one period moves it little."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import SharedPeriod, Sharer
from radrm.interference.learning import POINTS, LossLearner
from radrm.interference.model import Demand, activity, shipped_loss, speeds

KIND = "A100-40GB"
sharers = st.builds(
    Sharer,
    smact=st.none() | st.floats(0, 1),
    measured=st.booleans(),
    speed=st.none() | st.floats(0, 1000),
)
periods = st.builds(
    SharedPeriod,
    kind=st.just(KIND),
    mps=st.booleans(),
    seconds=st.floats(60, 1e6),
    jobs=st.lists(sharers, min_size=2, max_size=20).map(tuple),
    smact=st.none() | st.floats(0, 1),
)


def shown(
    rng: Random, loss: float, *, mps: bool, told: bool = False, read: bool = True
) -> SharedPeriod:
    """A period of two or three jobs on a device with this loss, with errors of readings."""
    demands = [Demand(rng.uniform(0.3, 0.8)) for _ in range(rng.choice((2, 2, 3)))]
    at = speeds(demands, mps=mps, loss=loss)
    jobs = tuple(
        Sharer(
            min(1.0, demand.smact * rng.gauss(1, 0.05)),
            True,
            speed * rng.gauss(1, 0.05) if told else None,
        )
        for demand, speed in zip(demands, at, strict=True)
    )
    smact = min(1.0, activity(demands, at) * rng.gauss(1, 0.02))
    return SharedPeriod(KIND, mps, 600.0, jobs, smact if read else None)


def after(seen: list[SharedPeriod], known: dict[str, Any] | None = None) -> dict[str, Any]:
    for period in seen:
        known = LossLearner().learn(known, period) or known
    assert known is not None
    return known


@pytest.mark.parametrize("mps", [False, True])
@pytest.mark.parametrize("told, read", [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("truth", [0.0, 0.3, 0.6, 1.0])
def test_it_finds_the_true_loss(truth: float, told: bool, read: bool, mps: bool) -> None:
    rng = Random(7)
    found = after([shown(rng, truth, mps=mps, told=told, read=read) for _ in range(60)])
    assert found["loss"] == pytest.approx(truth, abs=0.25 if mps and not read else 0.15)
    assert found["periods"] == 60


@given(st.lists(periods, min_size=1, max_size=5))
def test_it_never_leaves_the_bounds_and_its_state_is_small_json(seen: list[SharedPeriod]) -> None:
    state = after([*seen, shown(Random(2), 0.5, mps=seen[0].mps)])
    assert 0 <= state["loss"] <= 1
    assert json.loads(json.dumps(state)) == state
    assert len(state["seen"]) == POINTS and max(state["seen"]) == 0


@cache
def _known() -> str:
    """What 40 periods have taught, as JSON."""
    rng = Random(3)
    return json.dumps(after([shown(rng, 0.4, mps=False, told=True) for _ in range(40)]))


@given(periods)
def test_one_wrong_period_moves_it_little(wrong: SharedPeriod) -> None:
    known = json.loads(_known())
    moved = LossLearner().learn(known, wrong) or known
    assert abs(moved["loss"] - known["loss"]) < 0.1


@pytest.mark.parametrize("mps", [False, True])
def test_without_evidence_the_shipped_figure_stands(mps: bool) -> None:
    nothing = SharedPeriod(KIND, mps, 60.0, (Sharer(None), Sharer(0.5)), 0.7)
    assert LossLearner().learn(None, nothing) is None
    light = SharedPeriod(KIND, mps, 60.0, (Sharer(0.02, True), Sharer(0.02, True)), 0.04)
    assert after([light])["loss"] == pytest.approx(shipped_loss(mps), abs=0.02)


def test_it_follows_a_change_of_the_server() -> None:
    rng = Random(5)
    known = after([shown(rng, 0.1, mps=False, told=True) for _ in range(300)])
    known = after([shown(rng, 0.8, mps=False, told=True) for _ in range(150)], known)
    assert known["loss"] == pytest.approx(0.8, abs=0.2)


@pytest.mark.parametrize(
    "damaged",
    [None, 3, {}, {"seen": [0.0], "periods": 1}, {"seen": [float("nan")] * POINTS, "periods": 1}],
)
def test_a_damaged_state_begins_anew(damaged: Any) -> None:
    rng = Random(1)
    assert LossLearner().learn(damaged, shown(rng, 0.2, mps=False))["periods"] == 1
