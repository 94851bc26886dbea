"""Which device a job gets: memory, readings, sharing, users and devices in trouble."""

from __future__ import annotations

from functools import partial

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.need import largest_mib
from radrm.core.records import Needs, Reading, Role
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.world import GIB, World, gpus


def test_two_jobs_of_the_same_second_share_only_where_both_fit() -> None:
    world = World(gpus(1))
    first = world.submit(20 * GIB, smact=0.3)
    second = world.submit(20 * GIB, smact=0.3)
    third = world.submit(15 * GIB, smact=0.3)
    assert world.state(first) is JobState.RUNNING
    assert world.state(second) is JobState.PENDING, "20 + 2 of margin do not fit into 20"
    assert world.state(third) is JobState.PENDING, "nobody overtakes the head"
    assert world.why(second) == ["memory", "count"]
    assert world.why(third)[0] == "order"


def test_most_free_memory_wins_and_ties_go_to_the_first() -> None:
    world = World(gpus(3))
    placed = [world.where(world.submit(mib, smact=0.1)) for mib in (8000, 4000, 2000, 2000)]
    assert placed == [("GPU-0",), ("GPU-1",), ("GPU-2",), ("GPU-2",)]


def test_a_new_job_without_reading_or_prediction_keeps_others_away() -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=3.0))
    world.submit(4000)
    second = world.submit(4000)
    assert world.why(second)[0] == "smact"
    for _ in range(2):
        world.pass_time(1.0)
    assert world.state(second) is JobState.PENDING
    world.pass_time(1.0)
    assert world.state(second) is JobState.RUNNING


def test_a_busy_device_takes_nobody() -> None:
    world = World(gpus(1))
    world.submit(4000, smact=0.85)
    second = world.submit(4000, smact=0.1)
    assert world.why(second)[0] == "smact"


def test_an_overestimate_is_given_back_once_settled() -> None:
    world = World(gpus(1))
    first = world.submit(36 * GIB, smact=0.2)
    second = world.submit(10 * GIB, smact=0.2)
    assert world.state(second) is JobState.PENDING
    world.used[first.id] = 8 * GIB
    world.pass_time(5.0)
    assert world.state(second) is JobState.PENDING, "its memory may still grow"
    world.pass_time(world.settings.settle_s + 1)
    assert world.state(second) is JobState.RUNNING
    kept = world.reservations["job:1", "GPU-0"].mib
    assert kept == 8 * GIB + world.settings.headroom_mib


def test_a_job_that_uses_more_than_reserved_is_counted_by_what_it_uses() -> None:
    world = World(gpus(1))
    first = world.submit(8 * GIB, smact=0.2)
    world.used[first.id] = 30 * GIB
    world.pass_time(1.0)
    second = world.submit(10 * GIB, smact=0.2)
    assert world.state(second) is JobState.PENDING


@pytest.mark.parametrize("unmanaged, state", [(200, JobState.RUNNING), (900, JobState.PENDING)])
def test_a_trifle_of_unmanaged_memory_does_not_keep_a_large_job_away(
    unmanaged: int, state: JobState
) -> None:
    world = World(gpus(1), warm=False)
    world.unmanaged["GPU-0"] = unmanaged
    world.read()
    assert world.state(world.submit(40 * GIB - 100)) is state


def test_unknown_is_never_zero() -> None:
    world = World(gpus(1), warm=False)
    job = world.submit(1000)
    assert world.why(job) == ["reading", "count"]
    world.broken["GPU-0"] = "GPU is lost"
    world.read()
    assert world.scheduler.why_waiting(job.id, world.now)[0].message == "GPU is lost"
    world.broken.clear()
    world.read()
    assert world.state(job) is JobState.RUNNING


def test_a_stale_reading_makes_a_device_ineligible() -> None:
    world = World(gpus(1))
    world.boot_s += world.settings.stale_after_s + 1
    assert world.why(world.submit(1000)) == ["reading", "count"]


def test_several_gpus_are_all_or_nothing() -> None:
    world = World(gpus(2))
    first = world.submit(30 * GIB, smact=0.3)
    pair = world.submit(30 * GIB, gpus=2)
    assert world.where(pair) == ()
    world.end(first)
    assert world.where(pair) == ("GPU-0", "GPU-1")


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"memory_mib": 41 * GIB, "source": "declared"}, "the largest here have"),
        ({"memory_mib": 1000, "gpus": 3}, "at most 2"),
        ({"roles": (Role(needs=Needs(mig_profile="1g.5gb")),)}, "no device here can run it"),
    ],
)
def test_what_can_never_run_fails_at_once_with_the_reason(wish: dict, words: str) -> None:
    world = World(gpus(2))
    job = world.submit(**wish)
    assert job.state is JobState.FAILED
    assert words in (job.reason or "")


def test_an_estimate_beyond_every_device_means_a_whole_device() -> None:
    world = World(gpus(1))
    job = world.submit(2**30)
    assert world.live(job).placement.collocation is Collocation.EXCLUSIVE
    assert world.why(world.submit(100)) == ["taken", "count"]


def test_exclusive_jobs_share_with_nobody() -> None:
    world = World(gpus(1))
    world.submit(1000, smact=0.1)
    alone = world.submit(1000, collocation=Collocation.EXCLUSIVE)
    assert world.why(alone) == ["not idle", "count"]


def test_the_exclusive_policy_gives_whole_devices() -> None:
    world = World(gpus(1), policy=Exclusive())
    first = world.submit(1000)
    second = world.submit(1000)
    assert world.reservations["job:1", "GPU-0"].mib is None
    assert world.state(second) is JobState.PENDING
    world.end(first)
    assert world.state(second) is JobState.RUNNING


def test_after_an_exit_the_device_waits_for_a_fresh_reading() -> None:
    world = World(gpus(1))
    first = world.submit(30 * GIB)
    second = world.submit(30 * GIB)
    world.obey = False
    world.boot_s += 1
    world.end(first)
    assert world.why(second) == ["reading", "count"]
    assert any(isinstance(a, act.TakeReadings) for a in world.decisions[-1].actions)
    world.read()
    assert world.live(second) is not None


def test_a_drained_device_takes_no_new_job() -> None:
    world = World(gpus(1))
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))
    job = world.submit(1000)
    (why,) = world.scheduler.why_waiting(job.id, world.now)
    assert why.message == "needs 1 GPU, 0 are in service (GPU 0: drained: fan)"
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason=None))
    assert world.state(job) is JobState.RUNNING


def test_the_largest_device_is_the_largest_of_those_that_are_there() -> None:
    """What an estimate beyond all devices is clamped to follows the devices."""
    world = World(gpus(2))
    huge = world.submit(90 * GIB)
    largest = partial(largest_mib, world.scheduler.state, huge.spec.roles[0], huge.spec, 1)
    assert largest() == 40 * GIB
    bigger = (*world.devices, replace(gpus(3)[2], total_mib=80 * GIB))
    world.step(ev.DevicesSeen(at=world.now, devices=bigger))
    assert largest() == 80 * GIB
    world.step(ev.DevicesSeen(at=world.now, devices=bigger[1:2]))
    assert largest() == 40 * GIB
    world.step(ev.DevicesSeen(at=world.now, devices=()))
    world.end(huge)
    assert largest() == 0


# ------------------------------------------------------------------ MPS and several GPUs


def test_an_mps_server_of_one_gpu_has_no_clients_on_several() -> None:
    alone = World(gpus(2, mps=True))
    job = alone.submit(GIB, gpus=2)
    attempt = alone.live(job)
    assert attempt.placement.collocation is Collocation.TIMESLICE
    single = alone.submit(GIB, smact=0.1)
    assert alone.state(single) is JobState.PENDING, "MPS and time-slices do not mix"
    spanning = World(gpus(2, mps=True, mps_spans=True))
    attempt = spanning.live(spanning.submit(GIB, gpus=2))
    assert attempt.placement.collocation is Collocation.MPS


def test_a_faulty_device_takes_nobody_and_says_why() -> None:
    world = World(gpus(1))
    world.step(
        ev.ReadingsTaken(
            at=world.now,
            readings=(Reading("GPU-0", world.now, used_mib=0, fault="Xid 48: a memory error"),),
        )
    )
    job = world.submit(GIB)
    refusals = world.scheduler.why_waiting(job.id, world.now)
    assert refusals[0].message == "Xid 48: a memory error"
    world.read()
    assert world.state(job) is JobState.RUNNING


def test_a_source_of_sm_activity_that_falls_silent_lets_nobody_join() -> None:
    world = World(gpus(1))
    world.submit(GIB, smact=0.1)
    silent = Reading("GPU-0", world.now, used_mib=0, smact_error="dcgm has been silent for 7 s")
    world.step(ev.ReadingsTaken(at=world.now, readings=(silent,)))
    second = world.submit(GIB, smact=0.1)
    refusals = world.scheduler.why_waiting(second.id, world.now)
    assert refusals[0].message == "dcgm has been silent for 7 s"


# ------------------------------------------------------------------ unmanaged processes and idlers


def test_unmanaged_are_counted_or_yielded_to() -> None:
    for yields, state in ((False, JobState.RUNNING), (True, JobState.PENDING)):
        settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, yield_to_unmanaged=yields)
        world = World(gpus(1), settings=settings)
        world.unmanaged["GPU-0"] = 5000
        world.read()
        job = world.submit(GIB)
        assert world.state(job) is state
        assert world.why(job)[:1] == (["unmanaged"] if yields else [])
