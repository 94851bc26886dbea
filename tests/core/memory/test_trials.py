"""The first minutes of a job correct what is reserved for it: trials, first steps, growth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.lifecycle.recovery import blame
from radrm.core.records import Job, OutOfMemory, Reading
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import SETTLE_GROWTH_MIB
from radrm.core.words import Cause, JobState
from radrm.policies.packing import Packing
from radrm.policies.sharing import Magm
from tests.core.ledgers import admit, ledger, reading
from tests.world import GIB, World, gpus

FLOOR = 5 * GIB
CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, trial_floor_mib=FLOOR)
CAPACITY = gpus(1)[0].capacity_mib


def server(count: int = 1, settings: CoreSettings = CORE) -> World:
    return World(gpus(count), policy=Packing(), settings=settings)


def reserved(world: World, job: Job) -> int | None:
    found = [r.mib for r in world.stored.values() if r.job_id == job.id]
    return found[0] if found else None


def uses(world: World, job: Job, mib: int, seconds: float = 1.0) -> None:
    world.used[job.id] = mib
    world.pass_time(seconds)


def steps(world: World, job: Job, count: float) -> None:
    about = {"job_id": job.id, "serial": world.live(job).serial}
    world.step(ev.StepsReported(at=world.now, steps=count, **about))


def runs(world: World, job: Job) -> bool:
    return world.jobs[job.id].state is JobState.RUNNING


# ------------------------------------------------------------------ trials


def test_a_job_of_unknown_need_has_all_free_memory_until_it_settles() -> None:
    world = server()
    first, second = world.submit(smact=0.1), world.submit(smact=0.1)
    assert reserved(world, first) == CAPACITY
    assert not runs(world, second)
    uses(world, first, 9 * GIB)
    steps(world, first, 10)
    world.pass_time(1.0)
    assert not runs(world, second), "one reading after its steps is not enough"
    world.pass_time(4.0)
    assert reserved(world, first) == 10 * GIB
    assert runs(world, second)
    assert reserved(world, second) == CAPACITY - 10 * GIB, "it has what is left"


def test_it_waits_for_the_first_only_where_both_are_unknown_or_nothing_is_left() -> None:
    world = server(2)
    world.submit(smact=0.1)
    known = world.submit(4 * GIB, smact=0.1)
    assert runs(world, known), "the other GPU takes it"
    last = world.submit(CAPACITY // 2, smact=0.1)
    assert runs(world, last)
    blocked = world.submit(16 * GIB, smact=0.1)
    rules = {refusal.rule for refusal in world.scheduler.why_waiting(blocked.id, world.now)}
    assert {"trial", "memory"} <= rules


@pytest.mark.parametrize(
    ("used", "after_s", "kept"),
    [
        (0, CORE.idle_trial_s - 2, CAPACITY),
        (0, CORE.idle_trial_s + 2, FLOOR),
        (2 * GIB - 65, CORE.settle_s + 2, CAPACITY),  # only a context
        (GIB, CORE.idle_trial_s + 2, FLOOR),
        (8 * GIB, CORE.settle_s - 2, CAPACITY),
        (8 * GIB, CORE.settle_s + 2, 16 * GIB),
        (2 * GIB + 1, CORE.settle_s + 2, FLOOR),
    ],
)
def test_a_trial_ends_in_time(used: int, after_s: float, kept: int) -> None:
    world = server()
    job = world.submit(smact=0.1)
    uses(world, job, used)
    uses(world, job, used + 65 * (used > 0), after_s - 1)  # it still grows
    assert reserved(world, job) == (kept if kept in (CAPACITY, FLOOR) else kept + 130)


def test_while_others_wait_a_user_tries_on_half_of_the_gpus() -> None:
    world = server(4)
    mine = [world.submit(smact=0.1) for _ in range(4)]
    assert [reserved(world, job) for job in mine] == [CAPACITY] * 4, "nobody else waits"
    world = server(4)
    running = world.submit(CAPACITY, gpus=4)
    mine = [world.submit(smact=0.1, priority=5) for _ in range(4)]
    world.submit(CAPACITY, smact=0.1, user="bob", uid=1001)
    world.end(running)
    assert [reserved(world, job) for job in mine] == [CAPACITY] * 2 + [CAPACITY // 2] * 2


def test_jobs_alike_join_only_where_as_much_is_free() -> None:
    world = server()
    first, second = (world.submit(smact=0.1, name="train.py") for _ in range(2))
    uses(world, first, 21 * GIB)
    steps(world, first, 10)
    world.pass_time(1.0)
    world.pass_time(4.0)
    assert not runs(world, second), "19 GiB are left, and the first needed 21"
    other = world.submit(smact=0.1, name="other.py", priority=1)
    world.pass_time(1.0)
    assert runs(world, other)


def test_a_session_has_no_trial() -> None:
    world = server()
    session = world.submit(smact=0.1, interactive=True)
    assert reserved(world, session) == FLOOR
    assert runs(world, world.submit(4 * GIB, smact=0.1))


def test_published_policies_reserve_their_floor() -> None:
    plain = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)
    world = World(gpus(1), policy=Magm(), settings=plain)
    job = world.submit(smact=0.1)
    assert reserved(world, job) == Magm().floor_mib
    uses(world, job, 12 * GIB)
    assert reserved(world, job) == Magm().floor_mib


def test_a_restart_goes_on_with_a_trial() -> None:
    world = server()
    first, second = world.submit(smact=0.1), world.submit(smact=0.1)
    uses(world, first, 9 * GIB)
    world.restart()
    world.pass_time(1.0)
    assert reserved(world, first) == CAPACITY
    assert not runs(world, second)
    steps(world, first, 30)
    world.pass_time(1.0)
    world.pass_time(4.0)
    assert reserved(world, first) == 10 * GIB
    assert runs(world, second)


# ------------------------------------------------------------------ first steps


@pytest.mark.parametrize(
    ("said", "grows_after_s", "settles"),
    [
        (9, None, False),
        (10, None, True),
        (1e300, None, True),
        (10, 1.0, True),  # the first reading after the steps shows it
        (10, 2.0, False),  # its growth goes on
    ],
)
def test_first_steps_settle_a_job(said: float, grows_after_s: float | None, settles: bool) -> None:
    led = ledger(trial_floor_mib=FLOOR)
    admit(led, 1, 30_000)
    used = 5000
    led.take(reading(1001.0, used, {1: used}))
    led.step(1, said, 1001.5)
    for second in range(1, 6):
        if second == grows_after_s:
            used += 4000
        led.take(reading(1001.5 + second, used, {1: used}))
    assert led.occupants[1].settled is settles


def test_steps_before_any_memory_settle_nothing() -> None:
    led = ledger(trial_floor_mib=FLOOR)
    admit(led, 1, 30_000)
    led.step(1, 100, 1000.0)
    for second in range(1, 60):
        led.take(reading(1000.0 + second, 0, {1: 0}))
    assert not led.occupants[1].settled


def test_without_trials_steps_do_not_count() -> None:
    led = ledger()
    admit(led, 1, 30_000)
    led.step(1, 100, 1000.0)
    for second in range(1, 60):
        led.take(reading(1000.0 + second, 5000, {1: 5000}))
    assert not led.occupants[1].settled


# ------------------------------------------------------------------ growth


@pytest.mark.parametrize(
    ("told", "used", "kept"),
    [
        (8 * GIB, 8 * GIB + SETTLE_GROWTH_MIB, 8 * GIB),
        (8 * GIB, 8 * GIB + 200, 9 * GIB + 200),  # at least the headroom
        (8 * GIB, 12 * GIB, 16 * GIB),  # as much again
        (8 * GIB, 30 * GIB, CAPACITY),  # what is there
    ],
)
def test_growth_beyond_the_estimate_reserves_more(told: int, used: int, kept: int) -> None:
    world = server()
    job = world.submit(told, smact=0.1)
    uses(world, job, used)
    assert reserved(world, job) == kept
    if kept > told:
        world.pass_time(world.settings.settle_s + 1)
        assert reserved(world, job) == min(kept, used + GIB), "settled again"


def test_two_that_grow_leave_no_room_for_a_third() -> None:
    world = server()
    first, second = (world.submit(8 * GIB, smact=0.1) for _ in range(2))
    uses(world, first, 9 * GIB)
    uses(world, second, 14 * GIB)
    third = world.submit(12 * GIB, smact=0.1)
    assert not runs(world, third), "17 GiB are unused, and the second will need 6 of them"


def test_what_was_reserved_first_says_who_is_to_blame() -> None:
    world = server()
    first, second = (world.submit(8 * GIB, smact=0.1) for _ in range(2))
    uses(world, first, 30 * GIB)
    attempt, state = world.live(second), world.scheduler.state
    assert attempt is not None
    found = blame(state, world.jobs[second.id], attempt, OutOfMemory("test", GIB))
    assert found.cause is Cause.NEIGHBOUR
    attempt = world.live(first)
    assert attempt is not None
    found = blame(state, world.jobs[first.id], attempt, OutOfMemory("test", GIB))
    assert (found.cause, found.reserved_mib) == (Cause.OWN, 8 * GIB)


@given(st.lists(st.tuples(st.integers(0, 20 * GIB), st.integers(0, 20 * GIB)), max_size=30))
def test_a_reservation_never_takes_what_another_has(sizes: list[tuple[int, int]]) -> None:
    led = ledger(trial_floor_mib=FLOOR, settle_s=20.0)
    told = {1: 9 * GIB, 2: 12 * GIB}
    for job_id, mib in told.items():
        admit(led, job_id, mib)
    for second, pair in enumerate(sizes):
        held = dict(zip(told, pair, strict=True))
        for occupant in led.take(_at(1001.0 + 5 * second, held)):
            before = led.reserved.running(occupant.job_id)
            other = led.corrected(occupant)
            assert before.mib is not None
            if other is None:
                continue
            assert other.mib is not None
            if other.mib > before.mib:
                assert other.mib >= held[occupant.job_id]
                rest = led.free_mib(before.owner)
                assert other.mib <= max(rest, held[occupant.job_id])
            else:
                assert other.mib >= min(before.mib, occupant.peak_mib or 0)
            led.reserve(other)


def _at(boot_s: float, held: dict[int, int]) -> Reading:
    return reading(boot_s, sum(held.values()), dict[int, int | None](held))
