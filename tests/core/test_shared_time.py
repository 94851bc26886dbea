"""The time that attempts share a device: whose it is, beside whom, and what was read of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import DECLARED, MEASURED, Beside, Estimate, Job
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import NOTED_EVERY_S
from radrm.core.state.readings import MOST_BESIDE
from radrm.core.view import Offer
from radrm.core.words import Quantity
from tests.core.ledgers import admit, ledger, reading
from tests.world import GIB, World, gpus


def beside(world: World, job: Job) -> tuple[Beside, ...]:
    (usage,) = world.attempts[job.id, 1].usage
    return usage.beside


def test_shared_time_is_divided_by_the_activity_of_the_others() -> None:
    world = World(gpus(1))
    world.smact["GPU-0"] = 0.4
    first = world.submit(8 * GIB, smact=0.62)
    second = world.submit(8 * GIB, smact=0.31)
    world.pass_time(1.0)  # it starts once the device has been read again
    for _ in range(10):
        world.pass_time(1.0)
    third = world.submit(8 * GIB)
    for _ in range(5):
        world.pass_time(1.0)
    world.end(third)
    world.end(second)
    for _ in range(20):
        world.pass_time(1.0)
    world.end(first)
    found = {part.others: (part.seconds, part.smact) for part in beside(world, first)}
    smact = pytest.approx(0.4)
    assert found == {(0.3,): (10.0, smact), (0.3, None): (5.0, smact)}
    (usage,) = world.attempts[first.id, 1].usage
    assert usage.alone_count >= 20 and usage.shared, "alone at the end"


def test_a_measured_neighbour_counts_as_measured() -> None:
    world = World(gpus(1))
    world.smact["GPU-0"] = 0.45
    first = world.submit(8 * GIB, smact=0.9)
    world.pass_time(10.0)
    second = world.submit(8 * GIB)
    world.pass_time(10.0)
    world.end(first)
    world.end(second)
    assert [part.others for part in beside(world, second)] == [(0.45,)]


def test_a_cold_reading_counts_as_time_but_not_as_activity() -> None:
    led = ledger()
    admit(led, 1, 1000, 0.4)
    admit(led, 2, 1000, 0.4)
    led.take(reading(1001.0, 0, {1: 100, 2: 100}, smact=0.9))
    led.take(reading(1003.0, 0, {1: 100, 2: 100}, smact=0.5))
    assert led.occupants[1].usage("GPU-0").beside == (Beside((0.4,), 3.0, 0.5, 1),)
    led.take(reading(1005.0, 0, error="gone"))
    led.take(reading(1004.0, 0, {1: 100, 2: 100}, smact=0.5))  # late
    led.take(reading(1007.0, 0, {1: 100, 2: 100}))
    (part,) = led.occupants[1].usage("GPU-0").beside
    assert (part.seconds, part.count) == (7.0, 2), "each second once, also while readings fail"


def test_a_restart_keeps_the_shared_time() -> None:
    world = World(gpus(1))
    first = world.submit(8 * GIB, smact=0.6)
    world.submit(8 * GIB, smact=0.3)
    for _ in range(60):
        world.pass_time(1.0)
    world.restart()
    world.pass_time(40.0)
    world.end(first)
    (part,) = beside(world, first)
    assert part.others == (0.3,) and part.smact == pytest.approx(0.3)
    assert 100.0 - NOTED_EVERY_S <= part.seconds <= 100.0


@example([(step / 20, 10) for step in range(21)])
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), max_size=40))
def test_every_shared_second_counts_once_in_few_parts(visits: Sequence[tuple[float, int]]) -> None:
    led = ledger(smact_window_s=1.0)
    admit(led, 1, 100, 0.5)
    now, shared = 1000.0, 0
    for number, (smact, seconds) in enumerate(visits, start=2):
        admit(led, number, 100, smact, since_s=now)
        now += seconds
        shared += seconds
        led.release(number, now)
        now += 1.0
        led.take(reading(now, 0))
    parts = led.occupants[1].usage("GPU-0").beside
    assert len(parts) <= MOST_BESIDE
    assert sum(part.seconds for part in parts) == pytest.approx(shared)


# ------------------------------------------------------------------ a job's own first minutes


def smact_of(job: Job) -> list[tuple[str, float, float]]:
    found = [e for e in job.estimates if e.quantity is Quantity.SMACT]
    return [(e.source, e.value, e.upper) for e in found]


def returned(world: World, job: Job) -> Job:
    """A job whose attempt is preempted after a minute alone."""
    world.pass_time(30.0)
    world.pass_time(30.0)
    return world.requeue(job)


@pytest.mark.parametrize(("smact", "upper"), [(0.5, 0.6), (0.95, 1.0)])
def test_the_first_minutes_alone_predict_the_next_attempt(smact: float, upper: float) -> None:
    world = World(gpus(1))
    world.smact["GPU-0"] = smact
    job = returned(world, world.submit(8 * GIB, smact=0.7))
    expected = [(MEASURED, pytest.approx(smact), pytest.approx(upper)), ("test", 0.7, 0.7)]
    assert smact_of(job) == expected
    assert smact_of(returned(world, job)) == expected, "once"


def test_a_declared_activity_stays_the_best_one() -> None:
    world = World(gpus(1))
    job = returned(world, world.submit(8 * GIB, smact=0.9, source=DECLARED))
    assert smact_of(job) == [(DECLARED, 0.9, 0.9)]


def test_a_completed_job_keeps_what_was_predicted() -> None:
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.9)
    world.pass_time(60.0)
    assert smact_of(world.end(job)) == [("test", 0.9, 0.9)]


def test_a_cold_or_slowed_attempt_shows_nothing() -> None:
    world = World(gpus(1), settings=CoreSettings())
    assert smact_of(returned(world, world.submit(8 * GIB)))[0][0] == MEASURED
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=90.0))
    assert smact_of(returned(world, world.submit(8 * GIB))) == []
    wide = World(gpus(2))
    both = wide.submit(8 * GIB, gpus=2)
    wide.pass_time(5.0)
    wide.submit(8 * GIB, smact=0.2)
    assert smact_of(returned(wide, both)) == [], "slow on one GPU, it shows less on the other"


def test_a_slowed_job_counts_by_its_prediction_also_where_it_is_alone() -> None:
    world = World(gpus(2))
    both = world.submit(8 * GIB, gpus=2, smact=0.7)
    world.smact |= {"GPU-0": 0.6, "GPU-1": 0.6}
    world.pass_time(40.0)
    there = {each.device.uuid: each.occupants for each in offers_of(world)}
    assert [there[uuid][0].smact for uuid in ("GPU-0", "GPU-1")] == [0.6, 0.6]
    world.submit(8 * GIB, smact=0.2)
    world.smact |= {"GPU-0": 0.4, "GPU-1": 0.4}
    world.pass_time(40.0)
    world.pass_time(40.0)
    there = {each.device.uuid: each.occupants for each in offers_of(world)}
    assert {h.smact for holders in there.values() for h in holders if h.job.id == both.id} == {0.7}
    assert world.attempts[both.id, 1].alone_smact is None


def offers_of(world: World) -> Sequence[Offer]:
    """The devices as a job that can never start finds them."""
    waits = world.submit(39 * GIB, source="declared")
    found = world.scheduler.view.offers(waits, waits.spec.roles[0])
    world.cancel(waits)
    return found


def test_estimates_that_come_later_replace_nothing_measured() -> None:
    """The estimators are asked before the first attempt only."""
    world = World(gpus(1))
    job = returned(world, world.submit(8 * GIB))
    late = (Estimate(Quantity.SMACT, 0.1, 0.1, "history"),)
    world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=late))
    assert smact_of(world.jobs[job.id])[0][0] == MEASURED
