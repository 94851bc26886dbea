"""The integrator of everything simulated: what grows at rates that change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.simulated.integral import Integral

PIECES = st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e4)), max_size=20)


@given(PIECES)
def test_it_is_the_sum_of_each_rate_times_its_time(pieces: list[tuple[float, float]]) -> None:
    found, now_s = Integral(since_s=5.0), 5.0
    for rate, seconds in pieces:
        found.go_at(rate, now_s)
        now_s += seconds
    wanted = sum(rate * seconds for rate, seconds in pieces)
    assert found.at(now_s) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert found.at(now_s) == found.add_up(now_s) == found.value
    assert found.since_s == now_s


@pytest.mark.parametrize(
    ("value", "rate", "total", "when_s"),
    [
        (0.0, 2.0, 10.0, 15.0),
        (10.0, 2.0, 10.0, 10.0),
        (12.0, 2.0, 10.0, 10.0),  # past it: now
        (0.0, 0.0, 10.0, None),
        (10.0, 0.0, 10.0, None),
    ],
)
def test_when_it_reaches_a_total(
    value: float, rate: float, total: float, when_s: float | None
) -> None:
    assert Integral(value, rate, 10.0).reaches_s(total) == when_s
