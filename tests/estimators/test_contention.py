"""What a shared attempt would have shown alone, against attempts whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Attempt, Beside, Instant, Placement, Usage
from radrm.core.words import Collocation, Outcome
from radrm.estimators.learning.contention import LEAST_ALONE, Alone, alone, mean_speed, speed_beside
from radrm.interference.model import Demand, activity, speeds
from tests.examples import some

START = Instant(100.0, 1e9)


def attempt(*usages: Usage, ran_s: float = 1000.0, mps: bool = True) -> Attempt:
    mode = Collocation.MPS if mps else Collocation.TIMESLICE
    ended = Instant(START.boot_s + ran_s, START.wall_s + ran_s)
    return Attempt(
        *(1, 1, 1, Placement((), mode), START),
        started=START,
        ended=ended,
        outcome=Outcome.COMPLETED,
        usage=usages,
    )


def shown(demand: float, others: Sequence[float], mps: bool = True) -> float:
    """The activity that a GPU shows, by the model."""
    demands = [Demand(demand), *map(Demand, others)]
    return activity(demands, speeds(demands, mps=mps))


def part(
    demand: float,
    others: Sequence[float],
    seconds: float,
    known: Sequence[float | None] | None = None,
    mps: bool = True,
) -> Beside:
    """Shared time as it is recorded; `known` is what was known of the others."""
    smact = shown(demand, others, mps)
    return Beside(tuple(others) if known is None else tuple(known), seconds, smact, 100)


def used(*parts: Beside, alone_smact: float | None = None, count: int = 0) -> Usage:
    return Usage("GPU-0", 1000, 0.5, None, True, 100, alone_smact, count, parts)


# ------------------------------------------------------------------ tables


def test_an_attempt_alone_is_as_it_was_measured() -> None:
    usage = Usage("GPU-0", 1000, 0.5, smact_count=90, alone_smact=0.55, alone_count=60)
    assert alone(attempt(usage), 0.1) == Alone(0.55, 0.55, True, 1000.0, 1000.0)
    short = Usage("GPU-0", 1000, 0.5, smact_count=9)
    assert alone(attempt(short), 0.1).smact == 0.5
    assert alone(attempt(Usage("GPU-0", 1000)), 0.1) == Alone(seconds=1000.0, seconds_most=1000.0)


def test_enough_readings_alone_beat_the_shared_time() -> None:
    parts = part(0.6, [0.3], 500.0)
    enough = alone(attempt(used(parts, alone_smact=0.4, count=LEAST_ALONE)), None)
    assert (enough.smact, enough.smact_most, enough.measured) == (0.4, 0.4, True)
    few = alone(attempt(used(parts, alone_smact=0.6, count=LEAST_ALONE - 1)), None)
    assert few.smact == pytest.approx(0.6, abs=0.05) and not few.measured


def test_time_beside_others_counts_as_much_as_the_model_gives() -> None:
    usage = used(part(0.8, [0.8], 600.0), alone_smact=0.8, count=300)
    speed = speed_beside(0.8, [0.8], mps=True)
    found = alone(attempt(usage), None)
    assert 0.5 < speed < 0.65
    assert found.seconds == pytest.approx(400 + 600 * speed)
    assert 400 + 600 * speed < found.seconds_most < 1000


def test_a_full_gpu_hides_the_demand_and_the_range_says_so() -> None:
    clear = alone(attempt(used(part(0.3, [0.3], 900.0))), None)
    full = alone(attempt(used(part(0.9, [0.9, 0.9], 900.0))), None)
    assert clear.smact_most < 0.6
    assert full.smact_most > 0.9


def test_a_good_prediction_decides_where_the_readings_do_not() -> None:
    usage = used(part(0.9, [0.9, 0.9], 900.0))
    assert alone(attempt(usage), 0.9).smact == pytest.approx(0.9, abs=0.1)
    assert alone(attempt(usage), 0.5).smact == pytest.approx(0.6, abs=0.15)


def test_of_an_attempt_without_a_shared_reading_its_time_is_a_bound() -> None:
    for usage in (used(), used(Beside((0.3,), 600.0)), used(Beside((0.9, 0.9), 600.0))):
        found, ran_s = alone(attempt(usage), None), attempt(usage).ran_s
        assert (found.smact, found.smact_most, found.measured) == (None, None, False)
        assert ran_s is not None and found.seconds is not None
        assert found.seconds <= ran_s == found.seconds_most
    assert found.seconds < ran_s


def test_a_job_on_several_gpus_waits_for_the_slowest() -> None:
    """It shows less than its demand on the GPU where it is alone, so that is no measurement."""
    crowded = Usage("GPU-0", 1, 0.9, None, True, 9, None, 0, (part(0.6, [0.9], 1000.0),))
    free = Usage("GPU-1", 1, 0.4, None, False, 99, 0.42, 99)
    both = attempt(crowded, free)
    found = alone(both, None)
    assert not found.measured and found.smact is not None and found.smact > 0.45
    assert mean_speed(both, 0.6, 1000.0) < speed_beside(0.6, [0.9], mps=True) + 1e-9


# ------------------------------------------------------------------ properties

DEMANDS = st.floats(0.05, 1.0)
OTHERS = st.lists(DEMANDS, min_size=1, max_size=3)


@settings(max_examples=some(40))
@given(st.floats(0.1, 0.5), st.floats(0.05, 0.3), st.booleans())
def test_the_demand_is_found_where_the_gpu_is_not_full(
    demand: float, other: float, mps: bool
) -> None:
    found = alone(attempt(used(part(demand, [other], 900.0, mps=mps)), mps=mps), None)
    assert found.smact == pytest.approx(demand, abs=0.15)
    assert found.smact_most >= demand


@settings(max_examples=some(40))
@given(DEMANDS, st.lists(OTHERS, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_the_figures_are_possible_ones(
    demand: float, neighbours: list[list[float]], known: bool, mps: bool
) -> None:
    parts = [
        part(demand, each, 200.0, each if known else [None] * len(each), mps) for each in neighbours
    ]
    found = alone(attempt(used(*parts), mps=mps), None)
    assert found.smact is not None and found.smact_most is not None
    assert 0.0 < found.smact <= found.smact_most <= 1.0
    assert found.seconds is not None and found.seconds_most is not None
    assert 0.0 < found.seconds <= found.seconds_most <= 1000.0 + 1e-6


@settings(max_examples=some(40))
@given(DEMANDS, OTHERS, DEMANDS)
def test_more_neighbours_make_nothing_faster(
    demand: float, others: list[float], another: float
) -> None:
    before = speed_beside(demand, others, mps=True)
    assert speed_beside(demand, [*others, another], mps=True) <= before + 1e-9
