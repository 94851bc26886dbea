"""Who may share a GPU under MPS with whom: cohorts, servers of several users, and time-slices
beside clients; and what a promise that shrinks means for a cap that does not."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Device, Job, OutOfMemory
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState, Outcome
from radrm.recovery.exclusive import OwnDevice
from tests.world import GIB, World, gpus

BOB: dict[str, Any] = {"user": "bob", "uid": 1001}
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=1.0)
MIXING = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, mps_timeslice_others=True)


def mode(world: World, job: Job) -> Collocation | None:
    attempt = world.live(job)
    return attempt.placement.collocation if attempt is not None else None


def listed(world: World, devices: tuple[Device, ...]) -> None:
    world.devices = devices
    world.step(ev.DevicesSeen(at=world.now, devices=devices))
    world.pass_time(1.0)


# ------------------------------------------------------------------ a server of several users


def test_a_server_that_was_seen_to_take_several_users_has_no_cohorts() -> None:
    world = World(gpus(1, mps=True, mps_multiuser=True), settings=SETTINGS)
    ann = world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert [mode(world, job) for job in (ann, bob)] == [Collocation.MPS] * 2
    # Nobody's turn has to come: whoever waits, waits for something else.
    world.submit(100 * GIB, user="cid", uid=1002)
    world.pass_time(2 * world.settings.mps_cohort_s)
    assert mode(world, world.submit(GIB, smact=0.1, priority=9)) is Collocation.MPS


def test_until_that_was_seen_others_wait() -> None:
    world = World(gpus(1, mps=True), settings=SETTINGS)
    world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    assert world.why(bob) == ["cohort", "count"]
    listed(world, gpus(1, mps=True, mps_multiuser=True))
    assert mode(world, bob) is Collocation.MPS


def test_when_it_is_one_users_again_those_on_it_stay_and_cohorts_are_back() -> None:
    world = World(gpus(1, mps=True, mps_multiuser=True), settings=SETTINGS)
    world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, **BOB)
    listed(world, gpus(1, mps=True))
    assert world.state(bob) is JobState.RUNNING
    assert world.why(world.submit(GIB, smact=0.1))[0] == "cohort"


# ------------------------------------------------------------------ time-slices beside clients


def test_where_the_site_allows_it_other_users_are_time_sliced_beside_clients() -> None:
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


@pytest.mark.parametrize("settings", [SETTINGS, MIXING])
def test_who_insists_on_mps_waits_for_it(settings: CoreSettings) -> None:
    world = World(gpus(1, mps=True), settings=settings)
    ann = world.submit(GIB, smact=0.1)
    bob = world.submit(GIB, smact=0.1, collocation=Collocation.MPS, **BOB)
    assert world.why(bob) == ["cohort", "count"]
    world.end(ann)
    assert mode(world, bob) is Collocation.MPS


@pytest.mark.parametrize(("settings", "together"), [(SETTINGS, False), (MIXING, True)])
def test_a_job_on_several_gpus_that_can_be_no_client(
    settings: CoreSettings, together: bool
) -> None:
    world = World(gpus(2, mps=True), settings=settings)
    for _ in range(2):
        world.submit(30 * GIB, smact=0.1)
    wide = world.submit(GIB, gpus=2, smact=0.1)
    assert mode(world, wide) is (Collocation.TIMESLICE if together else None)
    if not together:
        assert world.why(wide) == ["mode", "mode", "count"]


def test_a_job_that_wants_a_device_to_itself_never_mixes() -> None:
    world = World(gpus(1, mps=True), settings=MIXING)
    world.submit(GIB, smact=0.1)
    alone = world.submit(GIB, collocation=Collocation.EXCLUSIVE, **BOB)
    assert world.why(alone) == ["not idle", "count"]


# ------------------------------------------------------------------ promises with room to spare


def first_promise(world: World, job: Job) -> int:
    return world.attempts[job.id, 1].placement.shares[0].reserved_mib


def test_an_estimate_is_stretched_into_half_of_what_is_free() -> None:
    world = World(
        gpus(1, mps=True), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=3.0)
    )
    small, large = world.submit(4 * GIB, smact=0.1), world.submit(20 * GIB, smact=0.1)
    assert first_promise(world, small) == 12 * GIB, "three times its estimate"
    assert first_promise(world, large) == 24 * GIB, "half of the 28 GiB that are free, and its own"
    caps = [a.cap_mib for a in world.actions if isinstance(a, act.Launch)]
    assert caps == [12 * GIB, 24 * GIB], "a process can use what it is promised"
    # Once it is known what they use, the rest is given back.
    world.used = {small.id: 5 * GIB, large.id: 15 * GIB}
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)
    given_back = world.submit(10 * GIB, smact=0.1)
    assert world.state(given_back) is JobState.RUNNING


def test_a_tiny_estimate_is_stretched_to_what_unknown_jobs_are_promised() -> None:
    world = World(gpus(1, mps=True), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0))
    assert first_promise(world, world.submit(90, smact=0.1)) == 5 * GIB


@pytest.mark.parametrize("mps", [True, False])
def test_what_is_declared_is_promised_as_it_is_and_without_caps_all_is(mps: bool) -> None:
    world = World(gpus(1, mps=mps), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0))
    source = "declared" if mps else "horus"
    assert first_promise(world, world.submit(4 * GIB, smact=0.1, source=source)) == 4 * GIB


def test_without_a_limit_half_of_what_is_free_is() -> None:
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=float("inf"))
    world = World(gpus(1, mps=True), settings=settings)
    assert first_promise(world, world.submit(90, smact=0.1)) == (40 * GIB + 90) // 2


@pytest.mark.parametrize("times", [1.0, 0.0, float("nan")])
def test_it_can_be_switched_off(times: float) -> None:
    world = World(
        gpus(1, mps=True),
        settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=times),
    )
    assert first_promise(world, world.submit(90, smact=0.1)) == 90


# ------------------------------------------------------------------ caps that outlive promises


def settled(peak_mib: int) -> tuple[World, Job, int]:
    """A job whose promise has shrunk to its peak and headroom, and the cap it was started with."""
    world = World(gpus(1, mps=True), settings=SETTINGS, recovery=OwnDevice())
    job = world.submit(20 * GIB, smact=0.1)
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)
    (launch,) = (a for a in world.actions if isinstance(a, act.Launch))
    assert launch.cap_mib is not None
    return world, job, launch.cap_mib


def test_a_promise_is_given_back_and_the_cap_stays() -> None:
    world, job, cap_mib = settled(4 * GIB)
    promise = world.reservations[f"job:{job.id}", "GPU-0"].mib
    assert (cap_mib, promise) == (20 * GIB, 4 * GIB + world.settings.headroom_mib)


def test_who_grows_again_within_its_cap_is_believed_at_once_and_bars_newcomers() -> None:
    """The risk that remains: between promise and cap it may grow into what others were given."""
    world, job, cap_mib = settled(4 * GIB)
    newcomer = world.submit(30 * GIB, smact=0.1)
    assert world.state(newcomer) is JobState.RUNNING, "what was given back is given out"
    world.used[newcomer.id] = 30 * GIB
    world.used[job.id] = 10 * GIB - 1
    assert world.used[job.id] < cap_mib, "CUDA lets it"
    world.pass_time(1.0)
    ledger = world.scheduler.state.ledgers["GPU-0"]
    assert ledger.reserved_mib > ledger.device.capacity_mib - GIB, "what is seen counts"
    late = world.submit(GIB, smact=0.1)
    assert world.state(late) is JobState.PENDING
    # Whichever of them asks for more dies for want of memory, is known to, and runs again alone.
    died = world.end(newcomer, 1, oom=OutOfMemory("test", requested_mib=GIB))
    assert died.state is JobState.RECOVERING
    assert world.attempts[newcomer.id, 1].outcome is Outcome.OOM
    assert world.state(job) is JobState.RUNNING
    world.end(job)
    assert mode(world, newcomer) is Collocation.EXCLUSIVE
