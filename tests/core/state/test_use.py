"""The recent GPU time of users: shared devices, decay, restarts."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Instant, JobSpec, RuleState, Use
from radrm.core.settings import CoreSettings
from radrm.core.state.users import Uses
from tests.examples import some
from tests.world import GIB, World, gpus

DAY_S = 86_400.0
CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, use_half_life_s=7 * DAY_S)
FOREVER = replace(CORE, use_half_life_s=1e15)
"""Nothing decays that can be seen."""


def spec(uid: int, group: str | None = None) -> JobSpec:
    return JobSpec(name="a", user=f"user{uid}", uid=uid, group=group)


def used(world: World, uid: int, group: str | None = None) -> Use:
    return world.scheduler.state.uses.of(spec(uid, group)).own


def test_a_job_uses_all_its_gpus_until_it_ends() -> None:
    world = World(gpus(3), settings=FOREVER)
    job = world.submit(30 * GIB, gpus=2, uid=1)
    world.pass_time(100)
    assert used(world, 1) == Use(pytest.approx(200), 2.0)
    world.end(job)
    world.pass_time(1000)
    assert used(world, 1) == Use(pytest.approx(200), 0.0)
    assert used(world, 2) == Use()


def test_jobs_that_share_a_device_share_its_time() -> None:
    world = World(gpus(1), settings=FOREVER)
    first = world.submit(GIB, smact=0.05, uid=1)
    world.pass_time(100)
    world.submit(GIB, smact=0.05, uid=1)
    world.submit(GIB, smact=0.05, uid=2)
    world.pass_time(30)
    assert used(world, 1) == Use(pytest.approx(100 + 20), pytest.approx(2 / 3))
    assert used(world, 2) == Use(pytest.approx(10), pytest.approx(1 / 3))
    world.end(first)
    world.pass_time(10)
    assert used(world, 1).gpu_s == pytest.approx(125)
    assert used(world, 2).gpu_s == pytest.approx(15)


def test_a_job_without_a_gpu_uses_none() -> None:
    world = World(gpus(1), settings=FOREVER)
    world.submit(gpus=0, uid=1)
    world.pass_time(100)
    assert used(world, 1) == Use()


def test_use_halves_in_its_half_life_and_a_gpu_held_for_long_has_a_limit() -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(30 * GIB, uid=1)
    world.pass_time(100 * 7 * DAY_S)
    assert used(world, 1).gpu_s == pytest.approx(7 * DAY_S / log(2))
    world.end(job)
    world.pass_time(7 * DAY_S)
    assert used(world, 1).gpu_s == pytest.approx(7 * DAY_S / log(2) / 2)


def test_without_a_half_life_only_what_is_held_counts() -> None:
    world = World(gpus(1), settings=replace(CORE, use_half_life_s=0.0))
    world.submit(30 * GIB, uid=1)
    world.pass_time(100)
    assert used(world, 1) == Use(0.0, 1.0)


def test_a_group_has_the_use_of_its_members() -> None:
    world = World(gpus(2), settings=FOREVER)
    world.submit(30 * GIB, uid=1, group="vision")
    world.submit(30 * GIB, uid=2, group="vision")
    world.pass_time(50)
    found = world.scheduler.state.uses.of(spec(1, "vision"))
    assert found.own == Use(pytest.approx(50), 1.0)
    assert found.of_group == Use(pytest.approx(100), 2.0)


def test_a_restart_loses_nothing_and_counts_the_time_without_a_daemon() -> None:
    world = World(gpus(2), settings=CORE)
    over = world.submit(30 * GIB, uid=1)
    world.submit(30 * GIB, uid=2)
    world.pass_time(1000)
    world.end(over)
    world.boot_s += 500
    before = [used(world, uid) for uid in (1, 2)]
    world.restart()
    after = [used(world, uid) for uid in (1, 2)]
    assert [u.gpu_s for u in after] == [pytest.approx(u.gpu_s, abs=600) for u in before]
    assert after[1] == Use(pytest.approx(1500, rel=0.01), 1.0)


@pytest.mark.parametrize(
    "state",
    [
        *(None, [], {}, {"gpu_s": "x", "boot_s": 0, "wall_s": 0, "boot": None, "user": "a"}),
        {"gpu_s": float("nan"), "boot_s": 0, "wall_s": 0, "boot": None, "user": "a"},
    ],
)
def test_a_damaged_record_counts_as_no_use(state: object) -> None:
    uses = Uses(DAY_S, lambda: Instant(0, 0), lambda record: None)
    with uses.restored([RuleState("use", "user:1", 1, state)]):
        pass
    assert uses.of(spec(1)).own == Use()


def test_users_with_nearly_no_use_are_forgotten() -> None:
    world = World(gpus(1), settings=CORE)
    for uid in range(400):
        world.end(world.submit(GIB, uid=uid))
    assert len(world.scheduler.state.uses.recent().users) < 300


@settings(max_examples=some(60))
@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from(["submit", "end", "time", "restart"]),
            st.integers(1, 3),
            st.floats(1, 2 * DAY_S),
        ),
        max_size=25,
    )
)
def test_use_is_the_integral_of_what_is_held(moves: list[tuple[str, int, float]]) -> None:
    """Beside a sum in short steps of time, and through restarts."""
    world = World(gpus(2), settings=CORE)
    model = dict.fromkeys((1, 2, 3), 0.0)
    rate = log(2) / CORE.use_half_life_s
    for what, number, seconds in moves:
        live = [a for a in world.attempts.values() if a.ended is None]
        if what == "submit":
            world.submit(GIB, smact=0.05, gpus=1 + number % 2, uid=number)
        elif what == "end" and live:
            world.end(live[number % len(live)].job_id)
        elif what == "restart":
            world.restart()
        elif what == "time":
            on = [uuid for a in live for uuid in a.placement.devices]
            for uid in model:
                mine = [a for a in live if world.jobs[a.job_id].spec.uid == uid]
                held = sum(1 / on.count(u) for a in mine for u in a.placement.devices)
                model[uid] = held / rate + (model[uid] - held / rate) * exp(-rate * seconds)
            world.boot_s += seconds
            world.read()
        for uid, expected in model.items():
            assert used(world, uid).gpu_s == pytest.approx(expected, rel=1e-6, abs=1e-3)
