"""The fit of a step's time to the sizes at which a job was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.elastic.elasticity.notes import Scaling, fit

PARTS = st.floats(0.0, 2.0)
SCALINGS = st.builds(Scaling, PARTS, st.floats(0.1, 20.0), PARTS)


def measured(scaling: Scaling, *sizes: int) -> dict[int, float]:
    return {n: scaling.step_s(n) for n in sizes}


def test_nothing_measured_is_nothing_known() -> None:
    assert fit({}) is None
    assert fit({1: 0.0}) is None


def test_one_size_divides_all_but_the_wait_for_data() -> None:
    found = fit({2: 1.0}, data_wait=0.25)
    assert found.step_s(2) == pytest.approx(1.0)
    assert found.step_s(4) == pytest.approx(0.25 + 0.375)


def test_two_sizes_show_what_the_exchange_of_gradients_costs() -> None:
    found = fit(measured(Scaling(0.0, 1.0, 0.1), 1, 4))
    assert found.sync_s == pytest.approx(0.1) and found.compute_s == pytest.approx(1.0)


def test_two_sizes_without_any_gain_do_not_promise_one() -> None:
    assert fit({1: 1.0, 2: 1.0}).gain(2, 2) <= 0.0


@given(SCALINGS)
def test_three_sizes_determine_all_parts(scaling: Scaling) -> None:
    sizes = measured(scaling, 1, 2, 3, 8)
    found = fit(sizes)
    assert found is not None
    assert [found.step_s(n) for n in sizes] == pytest.approx(list(sizes.values()), rel=1e-3)


@given(SCALINGS, st.lists(st.floats(0.9, 1.1), min_size=4, max_size=4))
def test_noise_makes_no_part_negative(scaling: Scaling, noise: list[float]) -> None:
    sizes = measured(scaling, 1, 2, 4, 8)
    found = fit({n: s * x for (n, s), x in zip(sizes.items(), noise, strict=True)})
    assert min(found.io_s, found.sync_s) >= 0 and found.compute_s > 0


@given(SCALINGS, st.integers(1, 8), st.integers(1, 8))
def test_gain_is_the_part_of_the_added_workers_that_becomes_speed(
    scaling: Scaling, workers: int, more: int
) -> None:
    found = scaling.gain(workers, more)
    assert found <= 1.0 + 1e-9
    assert Scaling(0.0, 1.0, 0.0).gain(workers, more) == pytest.approx(1.0)
