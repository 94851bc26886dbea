"""NEARCHUS' decisions (section IV), one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.published.nearchus import (
    efficiency,
    first_layout,
    is_network_bound,
    is_stable,
    reassigned,
    scaled_up,
    with_server,
    with_worker,
)
from radrm.published.servers.layout import Layout, Limits, shared_out

amounts = st.lists(st.floats(0.5, 40.0), min_size=1, max_size=6)


def test_a_job_starts_with_r0_shared_out_evenly() -> None:
    assert first_layout(15.0) == Layout((5.0,), (5.0, 5.0))
    assert first_layout(15.0, workers=Limits(1, 1)) == Layout((7.5,), (7.5,))
    assert first_layout(15.0, workers=Limits(most_cpus=4.0)) == Layout((5.0,), (4.0, 4.0))


@pytest.mark.parametrize(
    ("samples", "stable"),
    [
        ([10.0] * 5, True),
        ([10.0] * 4, False),
        ([1.0, *[10.0] * 5], True),
        ([9.0, 11.0, 9.0, 11.0, 10.0], False),
        ([9.7, 10.3, 9.8, 10.2, 10.0], True),
        ([0.0] * 5, False),
    ],
)
def test_five_samples_within_five_per_cent_are_stable(samples: list[float], stable: bool) -> None:
    assert is_stable(samples) is stable


def test_more_than_a_tenth_of_thirty_samples_shows_a_bound_network() -> None:
    assert not is_network_bound([0.95] * 3 + [0.5] * 27)
    assert is_network_bound([0.95] * 4 + [0.5] * 26)
    assert not is_network_bound([0.95] * 30 + [0.5] * 30), "the last thirty count"
    assert not is_network_bound([])


def test_growth_is_by_half_in_proportion_and_at_most_what_is_free() -> None:
    layout = Layout((2.0,), (6.0, 12.0))
    assert scaled_up(layout, 0.5, 100.0) == Layout((3.0,), (9.0, 18.0))
    assert scaled_up(layout, 0.5, 2.0) == Layout((2.2,), (6.6, 13.2))
    assert scaled_up(layout, 0.5, 0.0) == layout


def test_another_task_shares_what_its_role_has() -> None:
    layout = Layout((4.0,), (8.0, 4.0))
    assert with_server(layout) == Layout((2.0, 2.0), (8.0, 4.0))
    assert with_worker(layout) == Layout((4.0,), (4.0, 4.0, 4.0))
    assert with_worker(layout, Limits(most=2)) is None
    assert with_worker(layout, Limits(least_cpus=5.0)) == Layout((4.0,), (5.0, 5.0, 5.0))


def test_idle_cpus_of_the_server_go_to_the_workers_but_for_a_tenth_of_its_use() -> None:
    layout, used = Layout((5.0,), (5.0, 5.0)), Layout((1.0,), (5.0, 5.0))
    found = reassigned(layout, used)
    assert found == Layout((pytest.approx(1.486),), (pytest.approx(6.757),) * 2)
    assert efficiency(used.servers, (1.1,)) < 1, "the server keeps room above its use"


def test_within_a_role_cpus_go_by_use() -> None:
    layout, used = Layout((2.0,), (10.0, 10.0)), Layout((1.9,), (9.9, 6.6))
    found = reassigned(layout, used)
    assert found.servers == (2.0,)
    assert found.workers == (12.0, 8.0)


def test_nothing_moves_between_roles_that_are_both_idle_or_both_busy() -> None:
    busy = Layout((5.0,), (5.0, 5.0))
    assert reassigned(busy, Layout((4.5,), (4.5, 4.5))) == busy
    assert reassigned(busy, Layout((2.0,), (2.0, 2.0))) == busy


@given(servers=amounts, workers=amounts, parts=st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_a_reassignment_gives_no_cpu_away(
    servers: list[float], workers: list[float], parts: list[float]
) -> None:
    layout = Layout(tuple(servers), tuple(workers))
    used = Layout(
        tuple(a * p for a, p in zip(servers, parts[:6], strict=False)),
        tuple(a * p for a, p in zip(workers, parts[6:], strict=False)),
    )
    found = reassigned(layout, used)
    assert found.counts == layout.counts
    assert found.total == pytest.approx(layout.total, abs=0.05)
    assert min(*found.servers, *found.workers) >= 0


@given(total=st.floats(0.1, 400.0), parts=amounts, low=st.floats(0.1, 2), high=st.floats(3, 50))
def test_shared_out_keeps_to_the_limits_and_to_the_sum(
    total: float, parts: list[float], low: float, high: float
) -> None:
    found = shared_out(total, parts, Limits(least_cpus=low, most_cpus=high))
    assert len(found) == len(parts)
    assert all(low - 0.001 <= each <= high + 0.001 for each in found)
    possible = min(max(total, low * len(parts)), high * len(parts))
    assert sum(found) == pytest.approx(possible, abs=0.001 * len(parts))
