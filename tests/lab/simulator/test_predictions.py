"""Predictions on simulated histories whose truth is known: the stated bounds hold."""

from __future__ import annotations

import pytest

from benchmarks.estimates.predictions import (
    Prediction,
    coverage,
    history,
    median_error,
    predictions,
)
from radrm.core.words import Quantity
from radrm.estimators.learning.ratios import ALONE, SHARED

HISTORIES = 2


def of(policy: str, quantity: Quantity, source: str) -> list[Prediction]:
    return [each for each in _FOUND[policy] if (each.quantity, each.source) == (quantity, source)]


_FOUND: dict[str, list[Prediction]] = {}


@pytest.fixture(scope="module", autouse=True)
def found() -> None:
    """Runs that are alone, and runs on GPUs that are as full as a policy can make them."""
    for policy in ("exclusive", "first-fit"):
        _FOUND[policy] = [
            each
            for seed in range(HISTORIES)
            for each in predictions(history(seed, runs=60), policy, seed=seed)
        ]


@pytest.mark.parametrize("quantity", [Quantity.SMACT, Quantity.DURATION])
def test_bounds_from_runs_alone_hold(quantity: Quantity) -> None:
    known = of("exclusive", quantity, ALONE)
    assert len(known) > 60 and coverage(known) >= 0.9
    assert median_error(known) < 0.12, "the runs of a program differ by 10 % themselves"


@pytest.mark.parametrize("quantity", [Quantity.SMACT, Quantity.DURATION])
def test_bounds_from_shared_runs_hold(quantity: Quantity) -> None:
    known = of("first-fit", quantity, SHARED)
    assert len(known) > 40 and coverage(known) >= 0.9


def test_corrected_durations_are_nearly_as_good_as_durations_alone() -> None:
    assert median_error(of("first-fit", Quantity.DURATION, SHARED)) < 0.2


def test_a_job_is_predicted_by_runs_of_its_name_that_have_ended() -> None:
    (first, *_) = history(0, runs=1)
    assert predictions([first]) == []
