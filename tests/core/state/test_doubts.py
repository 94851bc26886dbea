"""A GPU on which jobs fail at once, while others run elsewhere, takes no job for a while."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.seen import state_data, state_of
from radrm.core.state.doubts import CORRECTED_S, MOST, QUICK_S
from radrm.core.words import JobState
from radrm.planners.backfill import Backfill
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.world import GIB, World, gpus

BIG = 30 * GIB
"""A GPU has room for one such job."""
BAD = "GPU-1"
SOON_S, LONG_S = 5.0, 100.0


def play(world: World, jobs: list[Job], broken: set[str], for_s: float) -> int:
    """Let jobs run: those on broken GPUs fail soon, the others complete later. Returns how many
    have failed until now."""
    end_s = world.boot_s + for_s
    while world.boot_s < end_s and any(not world.state(job).final for job in jobs):
        world.pass_time(SOON_S)
        for job, attempt in [(job, world.live(job)) for job in jobs]:
            if attempt is None or attempt.started is None:
                continue
            bad = not broken.isdisjoint(attempt.devices)
            if bad or world.boot_s - attempt.started.boot_s >= LONG_S:
                world.end(job, code=int(bad))
    return sum(world.state(job) is JobState.FAILED for job in jobs)


def drained(world: World, uuid: str) -> str | None:
    """Return why a device takes no job of anybody."""
    return world.scheduler.state.ledgers[uuid].drained


def doubted(world: World, uuid: str, uid: int = 1000) -> str | None:
    """Return why a device takes no job of a user, and of others it does."""
    return world.scheduler.state.doubts.now.get((uuid, uid))


@pytest.mark.parametrize(
    ("uids", "each"), [([1000], 1), (list(range(1000, 1060)), 2)], ids=["one user", "many"]
)
def test_a_broken_gpu_does_not_empty_the_queue(uids: list[int], each: int) -> None:
    world = World(gpus(2))
    jobs = [world.submit(BIG, uid=uids[n % len(uids)]) for n in range(60)]
    failed = play(world, jobs, {BAD}, 2000.0)
    assert MOST <= failed <= MOST + 6 * each, "then one of each user after each pause, at most two"
    assert any("GPU 1" in line for each in world.decisions for line in each.log_lines)
    assert not drained(world, "GPU-0")
    assert play(world, jobs, set(), 9000.0) == failed, "repaired"
    assert not drained(world, BAD)
    assert all(world.state(job).final for job in jobs)


def test_a_loop_of_a_shell_submits_each_job_after_the_last_failure() -> None:
    world = World(gpus(2))
    long = world.submit(BIG)
    world.pass_time(SOON_S)
    for _ in range(MOST):
        job = world.submit(BIG)
        assert world.where(job) == (BAD,)
        world.pass_time(0.5)
        world.end(job, code=1)
        world.pass_time(0.5)
    assert doubted(world, BAD) and world.state(long) is JobState.RUNNING


def fail_on_purpose(world: World, times: int, uid: int = 1000) -> None:
    """Let jobs of a user fail at once on BAD, one after another as a loop of a shell does."""
    for _ in range(times):
        job = world.submit(BIG, uid=uid)
        assert world.where(job) == (BAD,)
        world.pass_time(0.5)
        world.end(job, code=1)
        world.pass_time(0.5)


def test_who_lets_jobs_fail_on_purpose_keeps_nobody_else_from_a_gpu() -> None:
    """Nor does it once another user's job fails there, too, by a mistake of its own."""
    planner = Backfill(policy=Magm(), recovery_policy=Exclusive(whole_device=True))
    world = World(gpus(2), planners=[planner])
    world.submit(BIG, uid=1000)
    world.pass_time(SOON_S)
    fail_on_purpose(world, MOST)
    theirs = world.submit(BIG, uid=1000)
    assert world.where(theirs) == () and doubted(world, BAD)
    assert "drained" in world.why(theirs)
    seen = state_of(state_data(world.scheduler.state), world.order)
    assert seen.doubts.now.keys() == {(BAD, 1000)}, "slow planners know it, too"
    fail_on_purpose(world, 1, uid=2000)
    other = world.submit(BIG, uid=2000)
    assert world.where(other) == (BAD,) and not drained(world, BAD)
    world.pass_time(LONG_S)
    world.end(other)
    assert world.where(theirs) == (BAD,), "it has worked there"


def test_a_gpu_on_which_jobs_of_two_users_fail_rests_for_all() -> None:
    world = World(gpus(2))
    world.submit(BIG, uid=1000)
    world.pass_time(SOON_S)
    for uid in (1000, 1000, 2000, 3000):
        assert not drained(world, BAD)
        fail_on_purpose(world, 1, uid)
    assert drained(world, BAD) and not doubted(world, BAD)


def test_a_job_that_works_after_all_ends_the_pause() -> None:
    world = World(gpus(2))
    world.submit(BIG, smact=0.1)
    world.pass_time(LONG_S)
    jobs = [world.submit(4 * GIB, smact=0.1) for _ in range(MOST)]
    world.pass_time(SOON_S)
    world.end(jobs.pop(), code=1)
    works = world.submit(4 * GIB, smact=0.1)
    assert all(world.where(job) == (BAD,) for job in (*jobs, works))
    for job in jobs:
        world.end(job, code=1)
    assert doubted(world, BAD)
    world.pass_time(SOON_S)
    world.end(works)
    world.pass_time(QUICK_S)
    assert world.where(world.submit(BIG)) == (BAD,)


@pytest.mark.parametrize("count", [1, 2])
def test_where_no_gpu_works_none_is_doubted(count: int) -> None:
    world = World(gpus(count))
    jobs = [world.submit(BIG) for _ in range(20)]
    assert play(world, jobs, {"GPU-0", "GPU-1"}, 500.0) == 20
    assert not any(drained(world, each.uuid) for each in world.devices)


@pytest.mark.parametrize("tries", ["a batch", "one by one", "one by one, as another works"])
def test_the_mistakes_of_a_user_cost_no_gpu(tries: str) -> None:
    """A batch with an error in all of it, or somebody who submits, corrects, and submits."""
    world = World(gpus(2))
    long = world.submit(BIG, uid=1000 if tries.endswith("works") else 2000)
    world.pass_time(LONG_S if tries.endswith("works") else 3600.0)
    jobs = [world.submit(BIG) for _ in range(20 if tries == "a batch" else 0)]
    for number in range(20):
        world.pass_time(CORRECTED_S)
        job = jobs[number] if jobs else world.submit(BIG)
        world.pass_time(SOON_S)
        assert world.where(job) == (BAD,)
        world.end(job, code=1)
        world.read()
    assert world.state(long) is JobState.RUNNING
    assert not drained(world, BAD)


def test_a_resume_ends_the_doubt_and_a_drain_outlives_it() -> None:
    world = World(gpus(2))
    jobs = [world.submit(BIG) for _ in range(60)]
    play(world, jobs, {BAD}, 70.0)
    assert doubted(world, BAD)
    assert not any(each.drained for each in world.statuses.values()), "the next daemon tries it"
    world.step(ev.DrainRequested(at=world.now, device=BAD, reason="looked at"))
    world.pass_time(4000.0)
    assert drained(world, BAD) == "looked at"
    world.step(ev.DrainRequested(at=world.now, device=BAD, reason=None))
    world.read()
    assert any(world.where(job) == (BAD,) for job in jobs)
