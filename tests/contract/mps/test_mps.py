"""Who may share a GPU under MPS with whom: cohorts, servers of several users, and time-slices
beside clients; and what a reservation that shrinks means for a cap that does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Device, Job, OutOfMemory, Role
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState, Outcome
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.policies.sharing import Magm
from radrm.recovery import OwnDevice
from radrm.structs import replace
from tests.world import GIB, World, gpus

BOB: dict[str, Any] = {"user": "bob", "uid": 1001}
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=1.0)
MIXING = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


class Insisting(World):
    """Jobs that are clients or wait, if they do not say otherwise."""

    def submit(self, *args: Any, **spec: Any) -> Job:
        return super().submit(*args, **{"collocation": Collocation.MPS, **spec})


def mode(world: World, job: Job) -> Collocation | None:
    attempt = world.live(job)
    return attempt.placement.collocation if attempt is not None else None


def listed(world: World, devices: tuple[Device, ...]) -> None:
    world.devices = devices
    world.step(ev.DevicesSeen(at=world.now, devices=devices))
    world.pass_time(1.0)


# ------------------------------------------------------------------ a server of several users


def test_a_server_that_was_seen_to_take_several_users_has_no_cohorts() -> None:
    world = Insisting(gpus(1, mps=True, mps_multiuser=True), settings=SETTINGS)
    ann = world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert [mode(world, job) for job in (ann, bob)] == [Collocation.MPS] * 2
    # Nobody's turn has to come: whoever waits, waits for something else.
    world.submit(100 * GIB, user="cid", uid=1002)
    world.pass_time(2 * world.settings.mps_cohort_s)
    assert mode(world, world.submit(GIB, smact=0.1, priority=9)) is Collocation.MPS


def test_until_that_was_seen_others_wait() -> None:
    world = Insisting(gpus(1, mps=True), settings=SETTINGS)
    world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert world.why(bob) == ["cohort", "count"]
    listed(world, gpus(1, mps=True, mps_multiuser=True))
    assert mode(world, bob) is Collocation.MPS


def test_when_it_is_one_users_again_those_on_it_stay_and_cohorts_are_back() -> None:
    world = Insisting(gpus(1, mps=True, mps_multiuser=True), settings=SETTINGS)
    world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    listed(world, gpus(1, mps=True))
    assert world.state(bob) is JobState.RUNNING
    assert world.why(world.submit(GIB, smact=0.1))[0] == "cohort"


# ------------------------------------------------------------------ time-slices beside clients


def test_other_users_are_time_sliced_beside_clients() -> None:
    world = World(gpus(1, mps=True), settings=MIXING)
    ann = world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    more = world.submit(GIB, smact=0.1)
    found = [mode(world, job) for job in (ann, bob, more)]
    assert found == [Collocation.MPS, Collocation.TIMESLICE, Collocation.MPS]
    # Once the clients have gone, the server is for whoever comes first.
    for job in (ann, more):
        world.end(job)
    assert mode(world, world.submit(GIB, smact=0.1, **BOB)) is Collocation.MPS
    assert mode(world, world.submit(GIB, smact=0.1)) is Collocation.TIMESLICE


def test_who_insists_on_mps_waits_for_it() -> None:
    world = World(gpus(1, mps=True), settings=SETTINGS)
    ann = world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, collocation=Collocation.MPS, **BOB)
    assert mode(world, ann) is Collocation.MPS and world.why(bob) == ["cohort", "count"]
    world.end(ann)
    assert mode(world, bob) is Collocation.MPS


def test_a_job_on_several_gpus_that_can_be_no_client() -> None:
    world = World(gpus(2, mps=True), settings=MIXING)
    for _ in range(2):
        world.submit(30 * GIB, smact=0.1)
    wide = world.submit(GIB, gpus=2, smact=0.1)
    assert mode(world, wide) is Collocation.TIMESLICE


def test_a_job_that_wants_a_device_to_itself_never_mixes() -> None:
    world = World(gpus(1, mps=True), settings=MIXING)
    world.submit(GIB, smact=0.1)
    alone = world.submit(GIB, collocation=Collocation.EXCLUSIVE, **BOB)
    assert world.why(alone) == ["not idle", "count"]


# ------------------------------------------------------------------ MPS on some GPUs

SOME = (*gpus(1, mps=True, mps_spans=True), gpus(2)[1])
"""`mps.enabled = [0]`, with one server for all."""
PAIR = {"gpus": 2}
TASKS = {"roles": (Role(count_min=2, count_max=2),)}
ROLES = {"roles": (Role("a"), Role("b"))}


@pytest.mark.parametrize("wish", [PAIR, TASKS, ROLES], ids=["gpus", "tasks", "roles"])
@pytest.mark.parametrize("policy", [Magm(), Exclusive()], ids=["magm", "exclusive"])
def test_a_job_on_gpus_with_and_without_mps_runs(wish: dict[str, Any], policy: Any) -> None:
    world = World(SOME, settings=SETTINGS, policy=policy)
    job = world.submit(GIB, smact=0.1, **wish)
    wanted = Collocation.EXCLUSIVE if policy.whole_device else Collocation.TIMESLICE
    assert mode(world, job) is wanted, "it is no client, so that it shares alike on both"
    assert set(world.where(job)) == {"GPU-0", "GPU-1"}


def test_it_joins_the_clients_on_the_one() -> None:
    world = World(SOME, settings=SETTINGS)
    world.submit(GIB, smact=0.1)
    assert mode(world, world.submit(GIB, smact=0.1, gpus=2)) is Collocation.TIMESLICE


def test_it_prefers_gpus_that_it_shares_alike() -> None:
    world = World((*SOME, replace(gpus(3)[2], mps=True, mps_spans=True)), settings=SETTINGS)
    job = world.submit(GIB, smact=0.1, gpus=2)
    assert mode(world, job) is Collocation.MPS
    assert set(world.where(job)) == {"GPU-0", "GPU-2"}


def test_who_insists_on_mps_is_no_job_for_gpus_without_it() -> None:
    world = World(SOME, settings=SETTINGS)
    job = world.submit(GIB, gpus=2, collocation=Collocation.MPS)
    assert world.state(job) is JobState.FAILED


# ------------------------------------------------------------------ turns


def turn_is_over(world: World) -> None:
    world.pass_time(world.settings.mps_cohort_s)


def test_the_turn_of_other_users_comes_on_an_mps_server() -> None:
    world = Insisting(gpus(1, mps=True), settings=SETTINGS)
    first = world.submit(GIB, smact=0.1)
    world.pass_time(world.settings.mps_cohort_s / 2)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert "cohort" in world.why(bob)
    urgent = world.submit(GIB, smact=0.1, priority=9)
    assert world.state(urgent) is JobState.RUNNING, "ann is there and may bring more"
    turn_is_over(world)
    late = world.submit(GIB, smact=0.1, priority=9)
    assert world.why(late)[0] == "turn"
    world.end(first)
    assert world.state(late) is JobState.PENDING
    world.end(urgent)
    assert world.state(bob) is JobState.RUNNING, "for whom ann has waited"
    assert world.why(late)[0] == "cohort"
    world.end(bob)
    assert world.state(late) is JobState.RUNNING


def test_nobody_makes_way_for_a_job_that_could_not_take_its_place() -> None:
    devices = (*gpus(1, mps=True), Device("GPU-9", 9, "H100", 80 * GIB))
    world = Insisting(devices, settings=SETTINGS)
    world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    assert world.where(world.submit(GIB, smact=0.1)) == ("GPU-0",)
    anyhow = {"collocation": Collocation.AUTO}
    too_large = world.submit(60 * GIB, source="declared", **BOB, **anyhow)
    turn_is_over(world)
    urgent = world.submit(GIB, smact=0.1, priority=9)
    assert world.state(urgent) is JobState.RUNNING
    assert world.state(too_large) is JobState.PENDING


def test_one_that_waits_keeps_one_server_free_and_not_two() -> None:
    world = Insisting(gpus(2, mps=True), settings=SETTINGS)
    for _ in range(2):
        world.submit(30 * GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    turn_is_over(world)
    world.read()
    urgent = world.submit(GIB, smact=0.1, priority=9)
    assert world.where(urgent) == ("GPU-1",), "GPU-0 is bob's next"
    world.end(1)
    assert world.where(bob) == ("GPU-0",)


def test_of_three_users_the_one_that_has_waited_longest_is_next() -> None:
    world = Insisting(gpus(1, mps=True), settings=SETTINGS)
    users = [{"user": str(uid), "uid": uid} for uid in (1, 2, 3)]
    served = []
    # The first has the most urgent jobs, the last the least; one at a time has room.
    for _ in range(3):
        for urgency, user in enumerate(users):
            world.submit(30 * GIB, smact=0.1, priority=-urgency, **user)
    for _ in range(6):
        turn_is_over(world)
        (running,) = (a.job_id for a in world.attempts.values() if a.ended is None)
        served.append(world.jobs[running].spec.uid)
        world.end(running)
    assert served == [1, 2, 3, 1, 2, 3]


def barred(world: World, job: Job) -> str | None:
    """The constraint that keeps a job from the GPU, whatever the policy says."""
    (offer,) = world.scheduler.view.offers(world.jobs[job.id], job.spec.roles[0])
    return offer.refusal.rule if offer.refusal is not None else None


def busy(world: World, smact: float) -> None:
    world.smact["GPU-0"] = smact
    world.pass_time(1.0)


def test_the_turn_comes_also_where_users_are_time_sliced_beside_clients() -> None:
    world = World(
        gpus(1, mps=True), settings=dataclasses.replace(MIXING, stretch=1.0), policy=Magm()
    )
    ann = world.submit(GIB, smact=0.1)
    beside = world.submit(GIB, smact=0.1, user="cid", uid=1002)
    assert mode(world, beside) is Collocation.TIMESLICE
    busy(world, 0.7)
    bob = world.submit(GIB, smact=0.1, **BOB)
    (why, *_) = world.scheduler.why_waiting(bob.id, world.now)
    assert why.rule == "smact", "time-sliced it is too much for the policy"
    assert why.message.startswith("time-sliced beside MPS client 1 of another user: needs SM")
    more = world.submit(GIB, smact=0.1, priority=9)
    assert mode(world, more) is Collocation.MPS
    turn_is_over(world)
    late = [world.submit(GIB, smact=0.1, uid=uid) for uid in (1000, 1002, 1003)]
    assert [barred(world, job) for job in late] == ["turn"] * 3, "also time-sliced"
    assert barred(world, bob) is None
    world.end(beside)
    world.end(more)
    assert world.state(bob) is JobState.PENDING
    world.end(ann)
    assert mode(world, bob) is Collocation.MPS


def test_who_is_next_starts_beside_the_clients_as_soon_as_it_may() -> None:
    world = World(gpus(1, mps=True), settings=MIXING, policy=Magm())
    world.submit(GIB, smact=0.1)
    busy(world, 0.7)
    bob = world.submit(GIB, smact=0.1, **BOB)
    turn_is_over(world)
    assert world.state(bob) is JobState.PENDING
    busy(world, 0.3)
    assert mode(world, bob) is Collocation.TIMESLICE


def test_packing_decides_by_the_work_that_is_done_beside_clients() -> None:
    world = World(gpus(1, mps=True), settings=MIXING, policy=Packing())
    for _ in range(2):
        world.submit(GIB, smact=0.3, source="declared")
    world.pass_time(1.0)
    small = world.submit(GIB, smact=0.3, source="declared", **BOB)
    assert mode(world, small) is Collocation.TIMESLICE
    large = world.submit(GIB, smact=0.9, source="declared", uid=1002)
    assert world.state(large) is JobState.PENDING


def test_who_comes_next_may_pass_the_head_on_that_gpu_alone() -> None:
    world = Insisting((*gpus(1, mps=True), gpus(2)[1]), settings=SETTINGS)
    anyhow = {"collocation": Collocation.AUTO}
    world.submit(30 * GIB, smact=0.1)
    other = world.submit(30 * GIB, smact=0.1, **anyhow)
    turn_is_over(world)
    world.submit(30 * GIB, smact=0.1, priority=9, **anyhow)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert world.state(bob) is JobState.PENDING, "GPU-1 has room, and no MPS server"
    world.end(1)
    assert world.where(bob) == ("GPU-0",)
    assert world.where(other) == ("GPU-1",)


# ------------------------------------------------------------------ reservations with room to spare


def first_reservation(world: World, job: Job) -> int:
    return world.attempts[job.id, 1].placement.shares[0].reserved_mib


def test_an_estimate_is_stretched_into_half_of_what_is_free() -> None:
    world = World(
        gpus(1, mps=True), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=3.0)
    )
    small, large = world.submit(4 * GIB, smact=0.1), world.submit(20 * GIB, smact=0.1)
    assert first_reservation(world, small) == 12 * GIB, "three times its estimate"
    assert first_reservation(world, large) == 24 * GIB, (
        "half of the 28 GiB that are free, and its own"
    )
    caps = [a.cap_mib for a in world.actions if isinstance(a, act.Launch)]
    assert caps == [12 * GIB, 24 * GIB], "a process can use what is reserved for it"
    # Once it is known what they use, the rest is given back.
    world.used = {small.id: 5 * GIB, large.id: 15 * GIB}
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)
    given_back = world.submit(10 * GIB, smact=0.1)
    assert world.state(given_back) is JobState.RUNNING


@pytest.mark.parametrize(
    ("stretch", "mib"),
    [
        pytest.param(None, 5 * GIB, id="to what unknown jobs are reserved"),
        pytest.param(float("inf"), (40 * GIB + 90) // 2, id="to half of what is free"),
        *((times, 90) for times in (1.0, 0.0, float("nan"))),
    ],
)
def test_how_far_a_tiny_estimate_is_stretched(stretch: float | None, mib: int) -> None:
    chosen = {} if stretch is None else {"stretch": stretch}
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, **chosen)
    world = World(gpus(1, mps=True), settings=settings)
    assert first_reservation(world, world.submit(90, smact=0.1)) == mib


def test_without_caps_no_estimate_is_stretched() -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0))
    assert first_reservation(world, world.submit(4 * GIB, smact=0.1, source="horus")) == 4 * GIB


# ------------------------------------------------------------------ caps that outlive reservations


def settled(peak_mib: int) -> tuple[World, Job, int]:
    """A job whose reservation has shrunk to its peak and headroom, and its cap from the start."""
    world = World(gpus(1, mps=True), settings=SETTINGS, recovery=OwnDevice())
    job = world.submit(20 * GIB, smact=0.1)
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)
    (launch,) = (a for a in world.actions if isinstance(a, act.Launch))
    assert launch.cap_mib is not None
    return world, job, launch.cap_mib


def test_a_reservation_is_given_back_and_the_cap_stays() -> None:
    world, job, cap_mib = settled(4 * GIB)
    reservation = world.reservations[f"job:{job.id}", "GPU-0"].mib
    assert (cap_mib, reservation) == (20 * GIB, 4 * GIB + world.settings.headroom_mib)


def test_who_grows_again_within_its_cap_is_believed_at_once_and_bars_new_jobs() -> None:
    """The risk that remains: between reservation and cap it may grow into what others have."""
    world, job, cap_mib = settled(4 * GIB)
    new_job = world.submit(30 * GIB, smact=0.1)
    assert world.state(new_job) is JobState.RUNNING, "what was given back is given out"
    world.used[new_job.id] = 30 * GIB
    world.used[job.id] = 10 * GIB - 1
    assert world.used[job.id] < cap_mib, "CUDA lets it"
    world.pass_time(1.0)
    ledger = world.scheduler.state.ledgers["GPU-0"]
    assert ledger.reserved_mib > ledger.device.capacity_mib - GIB, "what is seen counts"
    late = world.submit(GIB, smact=0.1)
    assert world.state(late) is JobState.PENDING
    # Whichever of them asks for more dies for want of memory, is known to, and runs again alone.
    died = world.end(new_job, 1, oom=OutOfMemory("test", requested_mib=GIB))
    assert died.state is JobState.RECOVERING
    assert world.attempts[new_job.id, 1].outcome is Outcome.OOM
    assert world.state(job) is JobState.RUNNING
    world.end(job)
    assert mode(world, new_job) is Collocation.EXCLUSIVE
