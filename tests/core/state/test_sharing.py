"""Periods in which jobs share a device: which count, what they show, what is learned of them."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core.records import LearnedLoss, RuleState, SharedPeriod, Sharer
from radrm.core.settings import CoreSettings
from radrm.core.state.sharing import KIND, LEAST_S, LONGEST_S, VERSION, Steps, learned
from radrm.structs import replace
from tests.world import GIB, World, gpus


class Noting:
    """A learner that keeps the periods, and returns a loss that the test sets."""

    def __init__(self) -> None:
        self.seen: list[SharedPeriod] = []
        self.loss = 0.5

    def learn(self, known: Any, period: SharedPeriod) -> dict[str, Any]:
        self.seen.append(period)
        return {"loss": self.loss, "periods": (known or {"periods": 0})["periods"] + 1}


def server(count: int = 1, **settings: Any) -> tuple[World, Noting]:
    found = CoreSettings(**{"smact_warm_s": 0, "smact_after_exit_s": 0, **settings})
    world, learner = World(gpus(count), settings=found), Noting()
    world.scheduler.state.sharing.learner = learner
    return world, learner


def run(world: World, seconds: int) -> None:
    for _ in range(seconds // 10):
        world.pass_time(10.0)


def loss_on(world: World) -> float | None:
    return world.scheduler.view.loss("GPU-0", False)


def test_a_period_has_what_each_job_shows_alone_and_all_show_together() -> None:
    world, learner = server()
    world.smact["GPU-0"] = 0.5
    first = world.submit(8 * GIB, smact=0.9)
    run(world, 60)
    second = world.submit(8 * GIB, smact=0.3)
    run(world, 20)
    world.smact["GPU-0"] = 0.7
    run(world, 100)
    world.end(second)
    (period,) = learner.seen
    assert period.jobs == (Sharer(0.5, measured=True), Sharer(0.3))
    assert (period.kind, period.mps) == ("A100-40GB", False)
    assert 100 <= period.seconds <= 120 and 0.6 < (period.smact or 0) < 0.7
    world.end(first)
    assert len(learner.seen) == 1, "alone nothing is shared"


@pytest.mark.parametrize(
    ("seconds", "warm_s", "devices", "wide", "count"),
    [
        pytest.param(50, 0.0, 1, 1, 0, id="short"),
        pytest.param(80, 0.0, 1, 1, 1, id="long enough"),
        pytest.param(150, 100.0, 1, 1, 0, id="the device was warm for less"),
        pytest.param(100, 0.0, 2, 2, 0, id="one of the jobs is on several devices"),
    ],
)
def test_which_periods_count(
    seconds: int, warm_s: float, devices: int, wide: int, count: int
) -> None:
    world, learner = server(devices, smact_warm_s=warm_s)
    world.smact |= {f"GPU-{index}": 0.5 for index in range(devices)}
    job = world.submit(8 * GIB, smact=0.4, gpus=wide)
    world.submit(8 * GIB, smact=0.4)
    run(world, seconds)
    world.end(job)
    assert len(learner.seen) == count


def test_a_long_period_counts_as_several() -> None:
    world, learner = server()
    world.smact["GPU-0"] = 0.5
    for _ in range(2):
        world.submit(8 * GIB, smact=0.4)
    run(world, int(2.5 * LONGEST_S))
    assert len(learner.seen) == 2


def test_steps_tell_the_speed_beside_others() -> None:
    world, learner = server()
    world.smact["GPU-0"] = 0.5
    first, step = world.submit(8 * GIB, smact=0.5), 0.0
    for rate in (10.0, 8.0):
        for _ in range(10):
            world.pass_time(10.0)
            step += 10 * rate
            world.report(first, step=step)
        if rate == 10.0:
            second = world.submit(8 * GIB, smact=0.5)
    world.end(second)
    (period,) = learner.seen
    assert period.jobs[0].speed == pytest.approx(0.8)
    assert period.jobs[1].speed is None


def test_what_is_learned_reaches_offers_and_survives_a_restart() -> None:
    world, learner = server()
    world.smact["GPU-0"] = 0.5
    assert loss_on(world) is None
    first = world.submit(8 * GIB, smact=0.4)
    losses = []
    for loss in (0.5, 0.51, 0.6):
        learner.loss = loss
        job = world.submit(8 * GIB, smact=0.4)
        run(world, 80)
        world.end(job)
        run(world, 10)
        losses.append(loss_on(world))
    assert losses == [0.5, 0.5, 0.6], "small changes are not published"
    (role,) = first.spec.roles
    offer = world.scheduler.view.offer(world.jobs[first.id], role, "GPU-0")
    assert offer.loss == 0.6
    world.restart()
    assert loss_on(world) == 0.6
    assert world.scheduler.view.loss("GPU-0", True) is None, "each mode has its own"
    assert learned(world.rule_states.values()) == (LearnedLoss("A100-40GB", False, 0.6, 3),)


@pytest.mark.parametrize("state", [None, {}, {"shown": 2.0, "periods": 1}, {"shown": "x"}])
def test_damaged_records_say_nothing(state: Any) -> None:
    assert learned([RuleState(KIND, "mps:A100-40GB", VERSION, state)]) == ()
    assert learned([RuleState(KIND, "mps:A", VERSION + 1, {"shown": 0.1, "periods": 1})]) == ()


def test_another_loss_makes_the_offers_of_its_kind_anew() -> None:
    devices = gpus(2)
    learner = Noting()
    world = World((devices[0], replace(devices[1], name="A10")))
    state = world.scheduler.state
    state.sharing.learner = learner

    def changed(loss: float) -> list[bool]:
        ledgers = list(state.ledgers.values())
        before, learner.loss = [each.version for each in ledgers], loss
        state.sharing.see(SharedPeriod("A10", False, 100.0, ()))
        return [each.version != version for each, version in zip(ledgers, before, strict=True)]

    assert changed(0.5) == [False, True]
    assert changed(0.5) == changed(0.519) == [False, False], "as good as the same"
    assert changed(0.6) == [False, True]


def noted(*reports: tuple[float, float], before: tuple[float, float] = (0.0, 0.0)) -> Steps:
    steps = Steps(*before)
    for boot_s, step in reports:
        steps.note(boot_s, step)
    return steps


@pytest.mark.parametrize(
    ("reports", "before", "speed"),
    [
        ([], (10.0, 10.0), None),
        ([(0.0, 5.0)], (10.0, 10.0), None),
        ([(0.0, 5.0), (LEAST_S, 35.0)], (0.0, 0.0), None),
        ([(0.0, 5.0), (LEAST_S, 35.0)], (10.0, 10.0), 0.5),
        ([(0.0, 5.0), (LEAST_S - 0.1, 35.0)], (10.0, 10.0), None),
        ([(0.0, 5.0), (LEAST_S, 5.0)], (10.0, 10.0), None),
        ([(0.0, 5.0), (50.0, 9.0), (120.0, 35.0)], (10.0, 10.0), 0.25),
        # Begun anew: by the steps, or by the clock.
        ([(0.0, 500.0), (40.0, 5.0), (100.0, 20.0)], (10.0, 10.0), 0.25),
        ([(90.0, 5.0), (40.0, 5.0), (100.0, 20.0)], (10.0, 10.0), 0.25),
        ([(0.0, 500.0), (90.0, 5.0), (100.0, 20.0)], (10.0, 10.0), None),
        # A report of the same time or step is none that begins anew.
        ([(0.0, 5.0), (0.0, 5.0), (60.0, 5.0), (60.0, 20.0)], (5.0, 10.0), 0.5),
    ],
)
def test_the_speed_of_a_period_is_a_part_of_that_alone(
    reports: list[tuple[float, float]], before: tuple[float, float], speed: float | None
) -> None:
    steps = noted(*reports, before=before)
    assert steps.close(alone=False) == speed
    assert (steps.alone, steps.alone_s) == before
    assert steps.close(alone=False) is None, "a period counts once"


def test_periods_alone_add_up() -> None:
    steps = noted((0.0, 0.0), (100.0, 100.0))
    assert steps.close(alone=True) == 1.0
    for boot_s, step in ((200.0, 10.0), (300.0, 60.0)):
        steps.note(boot_s, step)
    assert steps.close(alone=True) == pytest.approx(0.5 / (150 / 200))
    assert (steps.alone, steps.alone_s) == (150.0, 200.0)
