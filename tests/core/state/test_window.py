"""The mean of SM activity over the last seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.state.load import SmactWindow


@given(st.lists(st.floats(0, 1), max_size=300))
def test_the_window_is_the_mean_of_its_last_seconds(values: list[float]) -> None:
    window = SmactWindow(90.0)
    for second, value in enumerate(values):
        window.add(float(second), value)
    last = values[-91:]
    assert len(window) == len(last)
    if last:
        assert window.mean == pytest.approx(sum(last) / len(last), abs=1e-9)
    window.restart()
    assert window.mean is None
