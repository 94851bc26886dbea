"""Runs that shared devices, cut at every change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.interference.model import Demand, Load, activity, running_speeds, speeds, total_activity
from radrm.lab.simulator.traces.solo import Run, cut, part_activities, solo_seconds

HALF = Demand(0.5)


def run(begin_s: float, end_s: float, *devices: str, start_up_s: float = 0.0) -> Run:
    return Run(devices or ("a",), True, begin_s, begin_s + start_up_s, end_s)


def test_a_change_ends_the_period_of_its_device_only() -> None:
    found = cut([run(0, 100), run(40, 60), run(0, 100, "b")])
    periods = [(p.seconds, p.runs) for p in found.periods]
    assert sorted(periods) == [(20, (0, 1)), (40, (0,)), (40, (0,)), (100, (2,))]
    assert [found.parts[at].seconds for at in found.within[0, "a"]] == [40, 20, 40]
    assert [found.parts[at].runs for at in found.within[1, "a"]] == [(0, 1)]
    assert [found.parts[at].runs for at in found.within[2, "b"]] == [(2,)]
    assert not any(part.joint for part in found.parts)


def test_a_run_on_two_devices_joins_them_while_it_has_neighbours() -> None:
    found = cut([run(0, 100, "a", "b"), run(50, 100, "b")])
    assert [(p.seconds, p.runs) for p in found.periods] == [(50, (0,)), (50, (0, 1))]
    assert [part.joint for part in found.parts] == [False, False, True, True]
    # Its neighbour holds it back on both devices.
    demands = [Demand(0.9), Demand(0.9)]
    alone, beside = (part_activities(found, each, demands) for each in found.periods)
    assert alone == [0.9, 0.9] and beside[0] < 0.6


def test_a_start_up_loads_nothing_and_counts_as_time() -> None:
    found = cut([run(0, 100), run(20, 80, start_up_s=30)])
    assert [(p.seconds, p.runs) for p in found.periods] == [(20, (0,)), (30, (0,)), (30, (0, 1)),
                                                            (20, (0,))]  # fmt: skip
    first, second = solo_seconds(found, [HALF, HALF], 1e-3)
    shared = speeds([HALF, HALF], mps=True)[0]
    assert first == pytest.approx(70 + 30 * shared) and second == pytest.approx(30 + 30 * shared)


def test_no_time_becomes_zero() -> None:
    assert cut([]).periods == ()
    empty = cut([run(5, 5)])
    assert empty.periods == () and solo_seconds(empty, [HALF], 1e-3) == [0.0]
    nothing = cut([run(0, 10), run(0, 10)])
    assert min(solo_seconds(nothing, [HALF, Demand(0.5, 1e-9)], 0.1)) >= 1.0


lives = st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 50))
runs = st.lists(
    st.builds(
        lambda life, devices, mps: Run(
            tuple(devices), mps, life[0], life[0] + life[1], life[0] + life[1] + life[2]
        ),
        lives,
        st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True),
        st.booleans(),
    ),
    max_size=8,
)


@given(runs, st.lists(st.floats(0.05, 1), min_size=8, max_size=8))
def test_periods_are_the_server_second_by_second(history: list[Run], smact: list[float]) -> None:
    demands = [Demand(value) for value in smact]
    found = solo_seconds(cut(history), demands, 0.0)
    expected = [run.computes_s - run.begin_s for run in history]
    for second in range(121):
        here = {
            at: Load(demands[at], run.devices, run.mps)
            for at, run in enumerate(history)
            if run.computes_s <= second < run.end_s
        }
        for at, speed in running_speeds(here).items():
            expected[at] += speed
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.floats(0.3, 5), st.booleans())
def test_the_sum_of_demands_gives_the_activity(
    smact: list[float], weight: float, mps: bool
) -> None:
    demands = [Demand(value, 1.0 + weight * at) for at, value in enumerate(smact)]
    shown = activity(demands, speeds(demands, mps=mps))
    assert total_activity(sum(smact), len(smact), mps=mps) == pytest.approx(shown, rel=1e-6)
