"""A GPU on which jobs fail at once, while others run elsewhere, takes no job for a while."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.state.doubts import CORRECTED_S, MOST
from radrm.core.words import JobState
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
    return world.scheduler.state.ledgers[uuid].drained


@pytest.mark.parametrize("uids", [[1000], list(range(1000, 1060))], ids=["one user", "many"])
def test_a_broken_gpu_does_not_empty_the_queue(uids: list[int]) -> None:
    world = World(gpus(2))
    jobs = [world.submit(BIG, uid=uids[n % len(uids)]) for n in range(60)]
    failed = play(world, jobs, {BAD}, 2000.0)
    assert MOST <= failed <= MOST + 6, "then one after each pause"
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
    assert drained(world, BAD) and world.state(long) is JobState.RUNNING


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
    assert drained(world, BAD)
    assert not any(each.drained for each in world.statuses.values()), "the next daemon tries it"
    world.step(ev.DrainRequested(at=world.now, device=BAD, reason="looked at"))
    world.pass_time(4000.0)
    assert drained(world, BAD) == "looked at"
    world.step(ev.DrainRequested(at=world.now, device=BAD, reason=None))
    world.read()
    assert any(world.where(job) == (BAD,) for job in jobs)
