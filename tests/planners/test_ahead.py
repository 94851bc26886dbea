"""The line played forward: with exact run times, what is foreseen is what happens."""

from __future__ import annotations

from random import Random

import pytest

from radrm.core import events as ev
from radrm.core.records import Estimate, Job, UserReservation
from radrm.core.settings import CoreSettings
from radrm.core.words import JobState, Quantity
from radrm.planners import ahead
from radrm.planners.ahead import Ahead
from radrm.planners.backfill import Backfill
from radrm.planners.forecast import Forecast
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.world import GIB, World, gpus

EXACT = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, stretch=1.0)
RULES: dict[str, OrderPolicy] = {
    "strict": OrderPolicy(Exclusive(), Exclusive()),
    "backfill": Backfill(Exclusive(), Exclusive()),
    "strict backfill": Backfill(Exclusive(), Exclusive(), max_delay_s=0.0),
}


def line(rule: OrderPolicy, seed: int, count: int = 4, jobs: int = 30) -> World:
    """A server whose GPUs are busy, and a line of jobs of one to all GPUs."""
    random = Random(seed)
    world = World(gpus(count, mps=True, mps_spans=True), planners=(rule,), settings=EXACT)
    for _ in range(jobs):
        world.submit(
            random.choice((10, 30)) * GIB,
            gpus=random.choice((1, 1, 1, 2, count)),
            duration_s=float(random.randint(60, 7200)),
            smact=0.01,
            priority=random.choice((0, 0, 0, 1)),
        )
    world.pass_time(30.0)
    return world


def played(world: World, rule: OrderPolicy, worst: bool = False) -> Ahead:
    found = Ahead(world.scheduler.view, rule, worst)
    for _ in found.play():
        pass
    return found


def live_on(world: World) -> dict[int, float]:
    """Let every job run for its duration, alone or not. Return when each job started."""
    starts: dict[int, float] = {}
    while any(not job.state.final for job in world.jobs.values()):
        running = [job for job in world.jobs.values() if world.where(job)]
        assert running
        for job in running:
            starts.setdefault(job.id, _start_s(world, job))
        end_s, first = min((starts[job.id] + _length_s(job), job.id) for job in running)
        world.pass_time(end_s - world.boot_s)
        world.end(first)
        world.read()
    return starts


def _start_s(world: World, job: Job) -> float:
    return world.live(job).started.boot_s


def _length_s(job: Job) -> float:
    return next(e.value for e in job.estimates if e.quantity.value == "duration")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RULES)
def test_with_exact_run_times_the_starts_are_those_that_happen(name: str, seed: int) -> None:
    rule = RULES[name]
    world = line(rule, seed)
    waiting = [job.id for job in world.jobs.values() if job.state is JobState.PENDING]
    found = played(world, rule).starts
    happened = live_on(world)
    assert len(waiting) > 20
    assert {i: round(found[i]) for i in waiting} == {i: round(happened[i]) for i in waiting}


def test_a_job_that_shares_a_gpu_is_expected_to_take_longer() -> None:
    """The head's start is that of `Forecast`; the next one starts when the head has ended."""
    policy = Magm(max_smact=1.0, timeslice_max_smact=1.0, margin_mib=0, min_free_mib=0)
    rule = OrderPolicy(policy, Exclusive())
    world = World(gpus(1, mps=True, mps_spans=True), planners=(rule,), settings=EXACT)
    for _ in range(2):
        world.submit(15 * GIB, smact=0.9, duration_s=1000.0)
    head = world.submit(30 * GIB, smact=0.9, duration_s=100.0)
    last = world.submit(30 * GIB, smact=0.9, duration_s=100.0)
    found = played(world, rule).starts
    beside = Forecast(world.scheduler.view, policy, world.jobs[head.id]).start_s
    assert found[head.id] == pytest.approx(beside)
    assert found[head.id] - world.boot_s > 1200.0, "two jobs slow one another down"
    assert found[last.id] == pytest.approx(found[head.id] + 100.0)


def test_what_an_endless_job_hides_has_no_start() -> None:
    rule = RULES["strict"]
    world = World(gpus(1), planners=(rule,), settings=EXACT)
    endless = world.submit(GIB, duration_s=None)
    world.submit(GIB, duration_s=10.0)
    found = played(world, rule)
    unknown = found.endless()
    assert found.starts == {} and found.over
    assert unknown.id == endless.id


def test_the_longest_run_times_give_the_latest_start() -> None:
    rule = RULES["strict"]
    world = World(gpus(1), planners=(rule,), settings=EXACT)
    duration = Estimate(Quantity.DURATION, 100.0, 300.0, "history")
    for _ in range(3):
        job = world.submit(GIB, estimating=True)
        world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=(duration,)))
    usual, worst = played(world, rule), played(world, rule, worst=True)
    now_s = world.boot_s
    assert not usual.certain
    assert [at_s - now_s for at_s in usual.starts.values()] == [100.0, 200.0]
    assert [at_s - now_s for at_s in worst.starts.values()] == [300.0, 600.0]


def test_a_long_line_is_played_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES["backfill"]
    world = line(rule, 1)
    whole = played(world, rule)
    monkeypatch.setattr(ahead, "MOST_JOBS", 5)
    part = played(world, rule)
    assert part.cut and not whole.cut
    assert len(part.line) == len(part.starts) == 5
    monkeypatch.setattr(ahead, "MOST_WORK", 200)
    least = played(world, rule)
    assert least.over and 0 < len(least.starts) < 5


def test_a_job_that_ends_at_its_limit_counts_as_running_until_then() -> None:
    rule = RULES["strict"]
    world = World(gpus(1), planners=(rule,), settings=EXACT)
    world.submit(GIB, time_limit_s=600.0)
    waiting = world.submit(GIB, duration_s=10.0)
    world.pass_time(100.0)
    assert played(world, rule).starts == {waiting.id: pytest.approx(world.boot_s + 500.0)}


@pytest.mark.parametrize("uid, starts_s", [(2, 1200.0), (7, 300.0)])
def test_a_reservation_for_others_is_waited_out(uid: int, starts_s: float) -> None:
    rule = RULES["backfill"]
    world = World(gpus(1), planners=(rule,), settings=EXACT)
    world.submit(GIB, uid=2, duration_s=300.0)
    from_s = world.now.wall_s + 600.0
    wanted = UserReservation(0, ("GPU-0",), from_s, from_s + 600.0, uids=(7,))
    world.step(ev.ReserveRequested(at=world.now, reservation=wanted))
    job = world.submit(GIB, uid=uid, duration_s=400.0)
    (found,) = played(world, rule).starts.items()
    assert found == (job.id, pytest.approx(world.boot_s + starts_s))
