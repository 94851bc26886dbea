"""A job that died of GPU out-of-memory: on an idle GPU again, which others may join once its
memory has settled (`exclusive`, as published), or on one that is its own (`own-device`); or by
the site's policy, with more memory (`ladder`, `doubling`). And whose growth it died of."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core.records import Attempt, Device, Job, OutOfMemory
from radrm.core.rules import Again
from radrm.core.settings import CoreSettings
from radrm.core.words import Cause, Collocation, JobState, Queue
from radrm.policies.sharing import Magm, RoundRobin
from radrm.recovery import Doubling, IdleDevice, Ladder, OwnDevice
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, overcommit=True)
MPS = gpus(1, mps=True)
TIMESLICE = gpus(1)


def dies(world: World, job: Job, peak_mib: int, wanted_mib: int = GIB) -> Job:
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    return world.end(job, 1, oom=OutOfMemory("test", requested_mib=wanted_mib))


def recovered(devices: tuple[Device, ...], **parts: Any) -> tuple[World, Job]:
    """A job that has died once and runs again, alone on its device."""
    world = World(devices, settings=CORE, **parts)
    job = world.submit(4 * GIB, smact=0.1)
    job = dies(world, job, 4 * GIB, 16 * GIB)
    assert (job.state, job.queue) == (JobState.RUNNING, Queue.RECOVERY)
    return world, job


def settles(world: World, job: Job, peak_mib: int) -> None:
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)


def reserved(world: World, job: Job) -> int | None:
    return world.reservations[f"job:{job.id}", "GPU-0"].mib


@pytest.mark.parametrize("devices", [MPS, TIMESLICE], ids=["mps", "timeslice"])
@pytest.mark.parametrize("policy", [Magm(), RoundRobin()], ids=["magm", "rr"])
def test_others_join_it_once_its_memory_has_settled(
    devices: tuple[Device, ...], policy: Any
) -> None:
    """Also under a policy that looks at nothing."""
    world, job = recovered(devices, policy=policy)
    late = world.submit(4 * GIB, smact=0.1)
    assert world.state(late) is JobState.PENDING
    assert world.why(late)[0] == "recovering"
    settles(world, job, 24 * GIB)
    assert world.state(late) is JobState.RUNNING
    assert reserved(world, job) == 25 * GIB
    modes = {a.placement.collocation for a in world.attempts.values() if a.ended is None}
    assert modes == {Collocation.MPS if devices[0].mps else Collocation.TIMESLICE}


def test_no_cap_keeps_it_from_what_it_needs() -> None:
    world, job = recovered(MPS)
    first, again = (a for a in world.actions if isinstance(a, act.Launch))
    assert first.cap_mib is not None
    assert (again.cap_mib, again.shared) == (None, True)
    assert reserved(world, job) == MPS[0].capacity_mib


def test_what_its_death_has_proven_stays_reserved_though_it_uses_less_so_far() -> None:
    world, job = recovered(TIMESLICE)
    assert job.memory_floor_mib == 20 * GIB
    settles(world, job, 5 * GIB)
    assert reserved(world, job) == 20 * GIB
    large = world.submit(19 * GIB, smact=0.1)
    assert world.why(large)[0] == "memory"


def test_who_recovers_is_left_alone_after_a_restart_too() -> None:
    world, job = recovered(TIMESLICE)
    world.restart()
    late = world.submit(4 * GIB, smact=0.1)
    assert world.why(late)[0] == "recovering"
    settles(world, job, 10 * GIB)
    assert world.state(late) is JobState.RUNNING


def test_one_that_dies_again_beside_others_gets_a_device_of_its_own() -> None:
    """So nobody who joins can make it die again and again."""
    world, job = recovered(TIMESLICE)
    settles(world, job, 20 * GIB)
    other = world.submit(10 * GIB, smact=0.1)
    assert world.state(other) is JobState.RUNNING
    died = dies(world, job, 28 * GIB, 4 * GIB)
    assert (died.state, died.own_device) == (JobState.RECOVERING, True)
    world.end(other)
    assert world.live(job).placement.collocation is Collocation.EXCLUSIVE
    settles(world, job, 20 * GIB)
    assert world.why(world.submit(GIB, smact=0.1))[0] == "taken"


def test_one_that_dies_again_alone_is_not_the_worse_for_it() -> None:
    world, job = recovered(TIMESLICE)
    died = dies(world, job, 20 * GIB, 2 * GIB)
    assert (died.state, died.own_device) == (JobState.RUNNING, False)


RULES = [IdleDevice(), OwnDevice(), Ladder(), Doubling()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_recovery_is_bounded_under_a_policy_that_looks_at_nothing(rule: Any) -> None:
    world = World(gpus(1), settings=CORE, policy=RoundRobin(), recovery=rule)
    job = world.submit(4 * GIB, smact=0.1)
    for _ in range(rule.max_recoveries):
        dies(world, job, 4 * GIB)
        for other in [j for j in world.jobs.values() if j.id != job.id and j.state.live]:
            world.end(other)
        assert world.state(job) is JobState.RUNNING
        settles(world, job, 4 * GIB)
        world.submit(4 * GIB, smact=0.1)
    assert dies(world, job, 4 * GIB).state is JobState.FAILED


def test_own_device_reserves_all_of_it_to_the_end() -> None:
    world, job = recovered(TIMESLICE, recovery=OwnDevice())
    settles(world, job, 10 * GIB)
    assert world.live(job).placement.collocation is Collocation.EXCLUSIVE
    assert world.why(world.submit(GIB, smact=0.1))[0] == "taken"


# ------------------------------------------------------------------ by the site's policy


class Says:
    """A recovery that always gives the same answer, and keeps what it was told."""

    name = "says"

    def __init__(self, verdict: Again) -> None:
        self.verdict = verdict
        self.told: list[OutOfMemory] = []

    def after_oom(self, job: Job, attempt: Attempt, oom: OutOfMemory, largest_mib: int) -> Again:
        self.told.append(oom)
        return self.verdict


def beside(world: World, used_mib: int, estimate_mib: int | None = None) -> Job:
    """A long job that uses so much memory."""
    job = world.submit(used_mib if estimate_mib is None else estimate_mib, smact=0.1)
    world.used[job.id] = used_mib
    world.pass_time(1.0)
    return job


def test_the_rule_may_have_it_placed_by_the_policy_beside_others() -> None:
    rule = Says(Again(6 * GIB, own_device=False, idle_device=False))
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    beside(world, 10 * GIB)
    job = world.submit(4 * GIB, smact=0.1)
    died = dies(world, job, 4 * GIB)
    assert (died.state, died.queue, died.by_policy) == (JobState.RUNNING, Queue.RECOVERY, True)
    assert reserved(world, job) == 6 * GIB
    late = world.submit(GIB, smact=0.1)
    assert world.state(late) is JobState.RUNNING, "it is like any other job there"


@pytest.mark.parametrize("asked", [20 * GIB, 400 * GIB])
def test_what_it_asks_for_is_found_and_given_back_once_it_has_settled(asked: int) -> None:
    """More than any device has means a whole device."""
    rule = Says(Again(5 * GIB, own_device=False, idle_device=False, ask_mib=asked))
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    neighbour = beside(world, 25 * GIB)
    job = world.submit(4 * GIB, smact=0.1)
    assert dies(world, job, 4 * GIB).state is JobState.RECOVERING
    world.end(neighbour)
    whole = asked > MPS[0].capacity_mib
    assert world.state(job) is JobState.RUNNING
    assert reserved(world, job) == (None if whole else asked)
    settles(world, job, 6 * GIB)
    assert reserved(world, job) == (None if whole else 7 * GIB)


def test_its_need_must_fit_also_where_the_policy_ignores_memory() -> None:
    rule = Says(Again(20 * GIB, own_device=False, idle_device=False))
    world = World(gpus(1), settings=CORE, policy=RoundRobin(), recovery=rule)
    neighbour = beside(world, 25 * GIB)
    job = world.submit(20 * GIB, smact=0.1)
    assert world.state(job) is JobState.RUNNING
    died = dies(world, job, 4 * GIB)
    assert (died.state, world.why(job)[0]) == (JobState.RECOVERING, "memory")
    world.end(neighbour)
    assert world.state(job) is JobState.RUNNING


def test_a_client_of_mps_has_a_cap_again_where_others_are() -> None:
    world = World(MPS, settings=CORE, recovery=Ladder())
    dies(world, world.submit(4 * GIB, smact=0.1), 4 * GIB)
    caps = [a.cap_mib for a in world.actions if isinstance(a, act.Launch)]
    assert len(caps) == 2 and caps[0] is not None and caps[1] is not None
    assert caps[1] >= 9 * GIB


def test_a_requeue_forgets_how_it_recovered() -> None:
    world = World(gpus(1), settings=CORE, recovery=Ladder())
    job = dies(world, world.submit(4 * GIB, smact=0.1), 4 * GIB)
    assert (job.by_policy, job.died_on, job.ask_mib) == (True, ("GPU-0",), 9 * GIB)
    world.end(job)
    again = world.requeue(job)
    assert (again.queue, again.by_policy, again.died_on) == (Queue.MAIN, False, ())
    assert (again.ask_mib, again.victim_count, again.use_last) == (None, 0, ())


# ------------------------------------------------------------------ ladder and doubling


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (Ladder(), [9 * GIB, 14 * GIB]),
        (Ladder(step_mib=GIB), [5 * GIB, 10 * GIB]),
        (Doubling(), [8 * GIB, 18 * GIB]),
    ],
    ids=["ladder", "small steps", "doubling"],
)
def test_each_try_finds_more_memory_and_the_last_one_an_idle_device(
    rule: Any, asked: list[int]
) -> None:
    world = World(gpus(2), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    neighbours = [beside(world, 4 * GIB) for _ in range(2)]
    job = world.submit(4 * GIB, smact=0.1)
    for used, ask in zip((4 * GIB, 9 * GIB), asked, strict=True):
        before = world.where(job)
        job = dies(world, job, used)
        assert (job.ask_mib, job.memory_floor_mib) == (ask, used + GIB)
        assert world.where(job) != before, "the device of its death is the last choice"
    job = dies(world, job, 15 * GIB)
    assert (job.state, world.why(job)[0]) == (JobState.RECOVERING, "not idle")
    assert (job.by_policy, set(job.died_on)) == (False, {"GPU-0", "GPU-1"})
    for neighbour in neighbours:
        world.end(neighbour)
    assert world.state(job) is JobState.RUNNING
    settles(world, job, 16 * GIB)
    late = world.submit(4 * GIB, smact=0.1)
    assert world.state(late) is JobState.RUNNING
    world.end(late)
    assert dies(world, job, 20 * GIB).state is JobState.FAILED


@pytest.mark.parametrize("rule", [Ladder(), Doubling()], ids=lambda rule: rule.name)
def test_a_step_beyond_every_device_is_an_idle_device(rule: Any) -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    job = world.submit(37 * GIB, smact=0.1)
    died = dies(world, job, 37 * GIB)
    assert (died.state, died.by_policy, died.ask_mib) == (JobState.RUNNING, False, None)


# ------------------------------------------------------------------ blame


@pytest.mark.parametrize(
    ("estimate", "used", "wanted", "beside_mib", "unmanaged", "cause", "why"),
    [
        (4, 4, 1, 4, 0, Cause.OWN, "it needed 5.0G, 4.0G was reserved"),
        (4, 4, 1, 9, 0, Cause.OWN, "it needed 5.0G, 4.0G was reserved"),
        (4, 2, 1, 9, 0, Cause.NEIGHBOUR, "job 1 used 9.0G, 4.0G was reserved"),
        (4, 2, None, 9, 0, Cause.NEIGHBOUR, "job 1 used 9.0G, 4.0G was reserved"),
        (4, 2, 1, 4, 0, Cause.UNKNOWN, None),
        (4, 2, None, None, 0, Cause.OWN, None),
        (4, 2, 1, 4, 33, Cause.NEIGHBOUR, "unmanaged processes used 33.0G"),
        (4, 2, 1, 4, 31, Cause.UNKNOWN, None),
        (4, 6, None, 4, 0, Cause.OWN, "it needed 6.0G, 4.0G was reserved"),
    ],
)
def test_the_blame_goes_to_who_took_more_than_was_reserved(
    estimate: int,
    used: int,
    wanted: int | None,
    beside_mib: int | None,
    unmanaged: int,
    cause: Cause,
    why: str | None,
) -> None:
    rule = Says(Again(None, own_device=False))
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    other = world.submit(4 * GIB, smact=0.1)
    job = world.submit(estimate * GIB, smact=0.1)
    if beside_mib is None:
        world.end(other)
    else:
        world.used[other.id] = beside_mib * GIB
    world.unmanaged["GPU-0"] = unmanaged * GIB
    world.used[job.id] = used * GIB
    world.pass_time(1.0)
    job = world.end(job, 1, oom=OutOfMemory("test", wanted and wanted * GIB))
    (told,) = rule.told
    assert (told.blame.cause, told.blame.device, told.blame.why) == (cause, "GPU-0", why)
    assert told.blame.reserved_mib == 4 * GIB
    reason = world.attempts[job.id, 1].reason or ""
    assert reason.startswith("out of GPU memory") and (why or "") in reason
    assert (job.victim_count, job.died_on) == (cause is Cause.NEIGHBOUR, ("GPU-0",))


@pytest.mark.parametrize("rule", [IdleDevice(), Ladder(), Doubling()], ids=lambda rule: rule.name)
@pytest.mark.parametrize("devices", [MPS, TIMESLICE], ids=["mps", "timeslice"])
def test_a_program_that_takes_a_part_of_the_total_gets_an_idle_device(
    devices: tuple[Device, ...], rule: Any
) -> None:
    world = World(devices, settings=CoreSettings(smact_warm_s=0, stretch=1.0), recovery=rule)
    other, job = world.submit(4 * GIB, smact=0.1), world.submit(8 * GIB, smact=0.1)
    world.pass_time(1.0)
    job = world.end(job, 1, oom=OutOfMemory("test", fraction="--share"))
    why, died = "it takes a part of the GPU's 40.0G, and may have 8.0G", world.attempts[job.id, 1]
    assert died.reason == f"out of GPU memory; {why}: set --share to 0.19 or less"
    assert died.fraction == "--share"
    assert (job.state, world.why(job)[0]) == (JobState.RECOVERING, "not idle")
    world.end(other)
    world.end(job, 1, oom=OutOfMemory("test", fraction="--share"))
    assert "part" not in (world.attempts[job.id, 2].reason or ""), "it had the whole GPU"


def test_a_client_at_its_cap_dies_of_its_own_need() -> None:
    """Its neighbour cannot have taken what the cap keeps from it."""
    rule = Says(Again(None, own_device=False))
    settings = CoreSettings(smact_warm_s=0, stretch=1.0)
    world = World(MPS, settings=settings, recovery=rule)
    other, job = world.submit(4 * GIB, smact=0.1), world.submit(4 * GIB, smact=0.1)
    world.used.update({other.id: 9 * GIB, job.id: 3 * GIB})
    world.pass_time(1.0)
    world.end(job, 1, oom=OutOfMemory("test"))
    assert rule.told[0].blame.cause is Cause.OWN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_victim_of_a_neighbour_is_not_punished(rule: Any) -> None:
    """Its need stays as it was, and its deaths do not count against it."""
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=rule)
    job = world.submit(4 * GIB, smact=0.1)
    for _ in range(rule.max_recoveries + 2):
        other = world.submit(4 * GIB, smact=0.1)
        if world.live(other) is None:
            break  # the victim has a device of its own by now
        world.used.update({job.id: 2 * GIB, other.id: 37 * GIB})
        world.pass_time(1.0)
        job = world.end(job, 1, oom=OutOfMemory("test", GIB))
        assert (job.memory_floor_mib, job.ask_mib, job.need_mib) == (3 * GIB, None, 4 * GIB)
        world.end(other)
        world.pass_time(world.settings.retry_most_s)
        assert world.state(job) is JobState.RUNNING
        settles(world, job, 2 * GIB)
    assert job.oom_count == job.victim_count >= 1
    assert world.state(job) is JobState.RUNNING


def test_a_victim_again_and_again_waits_for_an_idle_device() -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0), recovery=Ladder())
    job = world.submit(4 * GIB, smact=0.1)
    for placed_by_policy in (True, True, False):
        other = world.submit(4 * GIB, smact=0.1)
        world.used.update({job.id: 2 * GIB, other.id: 37 * GIB})
        world.pass_time(1.0)
        job = world.end(job, 1, oom=OutOfMemory("test", GIB))
        assert job.by_policy is placed_by_policy
        world.end(other)
        world.pass_time(world.settings.retry_most_s)
        assert world.state(job) is JobState.RUNNING


def test_each_recovering_job_is_refused_for_its_own_need() -> None:
    """Not by an offer that was kept for another one."""
    rule = Says(Again(None, own_device=False, idle_device=False))
    world = World(gpus(1), settings=CORE, policy=RoundRobin(), recovery=rule)
    world.used[world.submit(36 * GIB, smact=0.1).id] = 36 * GIB
    jobs = [world.submit(need * GIB, smact=0.1) for need in (20, 10)]
    died = [dies(world, job, GIB) for job in jobs]
    refused = [world.scheduler.why_waiting(job.id, world.now) for job in died]
    needed = [r.needed for found in refused for r in found if r.rule == "memory"]
    assert needed == [20 * GIB, 10 * GIB]
