"""The model of sharing: what always holds, and how well the published run comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.interference.chips import smact_from_utilization
from radrm.interference.model import (
    FAMILIES,
    Demand,
    Load,
    activity,
    delivered,
    joint_speed,
    mixed_speeds,
    running_speeds,
    share_weight,
    speeds,
    total_activity,
)
from radrm.simulated.spec import A100_IDLE_W, A100_PEAK_W, watts

CEILING = 0.944

demand = st.builds(Demand, smact=st.floats(0.01, 1.0), weight=st.floats(0.25, 6.0))
demands = st.lists(demand, min_size=1, max_size=12)
speed = st.floats(0.01, 1.0)
load = st.builds(
    Load,
    demand=demand,
    devices=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True).map(tuple),
    mps=st.booleans(),
)
loads = st.lists(load, min_size=1, max_size=12).map(lambda found: dict(enumerate(found)))


@given(demand)
def test_alone_on_a_whole_gpu_a_job_runs_at_full_speed(alone):
    assert speeds([alone], mps=True) == speeds([alone], mps=False) == (1.0,)


@given(demands, st.booleans(), st.sampled_from([1.0, 4 / 7, 3 / 7, 1 / 7]))
def test_speeds_are_fractions_and_never_add_up_to_more_than_the_device(jobs, mps, fraction):
    found = speeds(jobs, mps=mps, fraction=fraction)
    assert all(0 < speed <= 1 for speed in found)
    if len(jobs) > 1:
        used = sum(d.smact * s for d, s in zip(jobs, found, strict=True))
        assert used <= CEILING * fraction + 1e-9
        assert max(found) <= 0.99


@given(demands)
def test_timeslicing_is_never_faster_than_mps(jobs):
    pairs = zip(speeds(jobs, mps=False), speeds(jobs, mps=True), strict=True)
    assert all(sliced <= shared + 1e-9 for sliced, shared in pairs)


@given(demands, st.booleans(), st.floats(0, 1), st.floats(0, 1))
def test_more_loss_speeds_up_no_job(jobs, mps, one, other):
    mild, harsh = (speeds(jobs, mps=mps, loss=loss) for loss in sorted((one, other)))
    assert all(slow <= fast + 1e-9 for fast, slow in zip(mild, harsh, strict=True))


def test_losses_of_the_modes():
    pair = [Demand(0.6), Demand(0.6)]
    assert speeds(pair, mps=False, loss=0.0) == speeds(pair, mps=True, loss=0.0)
    assert speeds(pair, mps=True) == speeds(pair, mps=True, loss=0.0)
    mild, shipped, harsh = (speeds(pair, mps=False, loss=loss)[0] for loss in (0.0, None, 1.0))
    assert harsh < shipped < mild
    # The pessimistic model: demand x 1.25, throughput x (1 - 0.25 (1 - 1/2)).
    assert harsh == pytest.approx(delivered(1.5) * 0.875 / 1.5)


@given(demands, st.booleans(), st.floats(0, 1))
def test_the_activity_of_a_device_is_the_work_of_its_jobs(jobs, mps, loss):
    jobs = [Demand(each.smact) for each in jobs]
    found = activity(jobs, speeds(jobs, mps=mps, loss=loss))
    total = total_activity(sum(d.smact for d in jobs), len(jobs), mps=mps, loss=loss)
    assert total == pytest.approx(found)


@given(demands, st.floats(1.0, 3.0))
def test_a_heavier_share_never_slows_its_owner(jobs, factor):
    first, *others = jobs
    heavier = Demand(first.smact, first.weight * factor)
    before, after = speeds(jobs, mps=True)[0], speeds([heavier, *others], mps=True)[0]
    assert after >= before - 1e-9


@given(demands)
def test_a_job_without_demand_changes_nothing(jobs):
    *others, idle = speeds([*jobs, Demand(0.0)], mps=True)
    assert idle == 1.0
    assert tuple(others) == speeds(jobs, mps=True)


@given(st.floats(0.01, 20), st.floats(0.01, 20))
def test_delivered_grows_with_demand_below_the_ceiling(one, other):
    low, high = sorted((one, other))
    assert delivered(low) <= delivered(high) + 1e-12
    assert delivered(high) <= min(high, CEILING)


def test_small_batches_starve_beside_big_ones():
    small = Demand(0.6, share_weight("cnn", 32))
    big = Demand(0.9, share_weight("transformer", 32))
    slow, fast = speeds([small, big], mps=True)
    assert slow < 0.5 < 0.75 < fast


def test_a_mig_instance_is_slow_for_a_job_that_needs_more():
    assert speeds([Demand(0.6)], mps=False, fraction=3 / 7) == pytest.approx((5 / 7,))
    assert speeds([Demand(0.4)], mps=False, fraction=3 / 7) == (1.0,)


# ------------------------------------------------------------------ several GPUs


def test_the_two_gpu_rule():
    assert joint_speed([0.5]) == 0.5
    assert joint_speed([0.8, 0.5]) == pytest.approx(0.5 * 0.8**2.65)
    assert joint_speed([1.0] * 8) == pytest.approx(1.0)


@given(st.lists(speed, min_size=1, max_size=8), st.data())
def test_a_joint_speed_is_no_higher_than_the_slowest_and_grows_with_each(each, data):
    assert 0 < joint_speed(each) <= min(each) + 1e-9
    at = data.draw(st.integers(0, len(each) - 1))
    faster = [*each[:at], min(1.0, each[at] * 1.2), *each[at + 1 :]]
    assert joint_speed(faster) >= joint_speed(each) - 1e-9


@given(loads)
def test_a_whole_server_never_delivers_more_than_its_devices(jobs):
    found = running_speeds(jobs)
    assert found.keys() == jobs.keys()
    assert all(0 < speed <= 1 for speed in found.values())
    for device in "abcd":
        here = [key for key, job in jobs.items() if device in job.devices]
        used = sum(jobs[key].demand.smact * found[key] for key in here)
        assert used <= (CEILING if len(here) > 1 else 1.0) + 1e-9


def test_a_held_back_job_leaves_the_rest_to_its_neighbours():
    wide = Load(Demand(0.6), ("a", "b"), mps=True)
    crowd = Load(Demand(0.9, 6.0), ("a",), mps=True)
    neighbour = Load(Demand(0.9), ("b",), mps=True)
    beside_wide = running_speeds({1: wide, 2: crowd, 3: neighbour})[3]
    beside_narrow = speeds([neighbour.demand, wide.demand], mps=True)[0]
    assert beside_wide > beside_narrow


# ------------------------------------------------------------------ weights, watts


def test_share_weights_are_the_published_ones():
    assert [share_weight("cnn", batch) for batch in (32, 64, 128)] == pytest.approx(
        [1.0, 1.53, 2.49]
    )
    assert share_weight("vgg", 8) == 2.66
    assert share_weight(None, None) == share_weight("other", 64)


@given(st.sampled_from(FAMILIES), st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_share_weights_grow_with_the_batch_within_bounds(family, one, other):
    low, high = sorted((one, other))
    assert 0.25 <= share_weight(family, low) <= share_weight(family, high) + 1e-9 <= 6.0 + 1e-6


@given(st.floats(-1, 2), st.floats(-1, 2))
def test_watts_grow_with_utilisation_between_idle_and_peak(one, other):
    low, high = sorted((one, other))
    assert A100_IDLE_W <= watts(low) <= watts(high) <= A100_PEAK_W


@pytest.mark.parametrize(
    ("used", "expected"), [(0, 58), (0.26, 137), (0.52, 216), (0.76, 247), (1, 278)]
)
def test_watts_of_an_a100(used, expected):
    assert watts(used) == pytest.approx(expected)


def test_watts_stretch_to_other_devices():
    assert watts(0.0, 70, 700) == 70
    assert watts(1.0, 70, 700) == pytest.approx(700)


def test_activity_is_the_work_done():
    jobs = [Demand(0.5), Demand(0.4)]
    assert activity(jobs, [1.0, 0.5]) == pytest.approx(0.7)
    assert activity(jobs, [1.0, 1.0], fraction=0.5) == 1.0


@given(st.floats(0, 1), st.floats(0, 1))
def test_sm_activity_grows_with_utilisation_and_is_at_most_that(one, other):
    low, high = sorted((one, other))
    assert 0 <= smact_from_utilization(low) <= smact_from_utilization(high) <= high


@pytest.mark.parametrize(("read", "smact"), [(0.25, 0.085), (0.35, 0.19), (0.9, 0.82), (1.0, 0.85)])
def test_sm_activity_at_utilisations(read, smact):
    assert smact_from_utilization(read) == pytest.approx(smact, abs=0.005)


# ------------------------------------------------------------------ clients of MPS beside others


@given(demands, st.booleans())
def test_where_all_or_none_are_clients_nothing_is_mixed(some, mps):
    assert mixed_speeds(some, [mps] * len(some)) == speeds(some, mps=mps)


@given(demands, st.data())
def test_beside_others_nobody_is_faster_than_alone_and_clients_are_slower_than_by_themselves(
    some, data
):
    clients = data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
    found = mixed_speeds(some, clients)
    assert all(0 < each <= 1 for each in found)
    members = [each for each, client in zip(some, clients, strict=True) if client]
    own = iter(speeds(members, mps=True))
    for each, client in zip(found, clients, strict=True):
        if client:
            assert each <= next(own) + 1e-9


def test_to_the_gpu_the_clients_are_one_process():
    a, b, c = Demand(0.3), Demand(0.2), Demand(0.4)
    together = activity([a, b], speeds([a, b], mps=True))
    server, other = speeds([Demand(together), c], mps=False)
    first, second, third = mixed_speeds([a, b, c], [True, True, False])
    assert third == pytest.approx(other)
    assert (first, second) == pytest.approx([s * server for s in speeds([a, b], mps=True)])
    held = mixed_speeds([a, b, c], [True, True, False], fixed={0: 0.5, 2: 0.25})
    assert (held[0], held[2]) == (0.5, 0.25)
