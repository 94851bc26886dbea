"""DLRover's formulas (sections 4.1 and 4.2) against its tables and its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.published.dlrover import Plan, hot_cpus, more_workers, plan_from, workers_beside

cpus = st.floats(0.05, 64.0)


@pytest.mark.parametrize(
    ("model", "w", "s", "plan"),
    [
        ("W&D", 2.5, 5.7, Plan(workers=24, worker_cpus=3, servers=8, server_cpus=16)),
        ("xDeepFM", 19.4, 3.1, Plan(workers=8, worker_cpus=20, servers=2, server_cpus=16)),
    ],
)
def test_table_1_follows_from_its_samples(model: str, w: float, s: float, plan: Plan) -> None:
    assert plan_from(w, s, 200.0) == plan, model


@given(w=cpus, s=cpus, quota=st.floats(4.0, 1000.0))
def test_a_plan_keeps_to_its_quota(w: float, s: float, quota: float) -> None:
    plan = plan_from(w, s, quota)
    assert plan.workers >= 1
    assert plan.servers >= 1
    assert plan.server_cpus >= 1
    assert plan.total <= quota + 1e-6


@given(w=cpus, s=cpus, quota=st.floats(70.0, 1000.0))
def test_its_servers_have_a_whole_server_or_what_the_workers_need(
    w: float, s: float, quota: float
) -> None:
    plan = plan_from(w, s, quota)
    if plan.workers > 1:
        assert plan.servers * plan.server_cpus >= min(16.0, plan.workers * s) - 1e-6


def test_light_workers_do_not_leave_their_servers_without_cpus() -> None:
    # Equation 10 alone: 166 workers of 2 whole CPUs, of 200.
    assert plan_from(1.1, 0.1, 200.0) == Plan(95, 2.0, 1, 10.0)


def test_a_small_quota_goes_to_one_worker_and_its_server() -> None:
    assert plan_from(19.4, 3.1, 8.0) == Plan(1, 4.0, 1, 4.0)


def test_workers_are_counted_anew_beside_their_servers() -> None:
    assert workers_beside(2.3, 5.7, 200.0, 128.0) == 24
    assert workers_beside(18.3, 3.1, 200.0, 32.0) == 8
    assert workers_beside(30.0, 3.1, 20.0, 16.0) == 1


def test_idle_servers_get_two_more_workers_for_xdeepfm() -> None:
    assert more_workers(8, used=27.4, servers_cpus=32.0, limit=100) == 10
    assert more_workers(10, used=32.0, servers_cpus=32.0, limit=100) == 10
    assert more_workers(8, used=27.4, servers_cpus=32.0, limit=9) == 9
    assert more_workers(8, used=0.0, servers_cpus=32.0, limit=100) == 8


def test_a_hot_server_of_wide_and_deep_gets_24_cpus() -> None:
    # Figure 6 shows two servers near their 16 CPUs; all use 85.1, and one worker used 5.7.
    assert hot_cpus(14.9, used=85.1, s=5.7, workers=24) == 24.0
    assert hot_cpus(30.0, used=85.1, s=5.7, workers=24) == 32.0
