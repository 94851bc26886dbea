"""Memory caps of GPUs: what they are at the start, how the driver's are raised, who is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.lifecycle.memory import told_mib
from radrm.core.records import Device, Job, Needs, OutOfMemory, Role
from radrm.core.settings import CoreSettings
from radrm.core.words import ActionKind, Collocation, JobState, Resizing
from radrm.policies.sharing import FirstFit, RoundRobin
from radrm.recovery import Ladder, OwnDevice
from tests.world import GIB, World, gpus

SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)
DRIVER = gpus(1, caps=True)
MPS = gpus(1, mps=True)
NONE = gpus(1)
DECLARED: dict[str, Any] = {"smact": 0.1, "source": "declared", "resizing": Resizing.NONE}
GUESSED: dict[str, Any] = {"smact": 0.1, "source": "history", "resizing": Resizing.NONE}


class Capped(World):
    """A world whose driver raises caps, with jobs that have limits."""

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.RaiseCaps):
            about = {"job_id": action.job_id, "serial": action.serial}
            self.step(ev.CapsRaised(at=self.now, **about, caps=action.caps))
        super()._do(action)

    def submit_limited(self, memory_mib: int, limit_mib: int) -> Job:
        needs = Needs(gpu_memory_mib=memory_mib, gpu_memory_max_mib=limit_mib)
        return self.submit(memory_mib, roles=(Role(needs=needs),), **DECLARED)


def a_world(devices: tuple[Device, ...], **settings: Any) -> Capped:
    chosen = replace(SETTINGS, **settings)
    return Capped(devices, settings=chosen, policy=FirstFit(), recovery=OwnDevice())


def caps(world: World, job: Job) -> list[int]:
    attempt = world.live(job)
    return [mib for _, mib in attempt.caps]


def launch(world: World, job: Job) -> act.Launch:
    found = [a for a in world.actions if isinstance(a, act.Launch) and a.job_id == job.id]
    return found[-1]


def reserved(world: World, job: Job) -> int | None:
    return world.reservations[f"job:{job.id}", "GPU-0"].mib


def uses(world: World, job: Job, mib: int) -> None:
    world.used[job.id] = mib
    world.pass_time(1.0)


# ------------------------------------------------------------------ at the start


@pytest.mark.parametrize(
    ("devices", "most", "asked"),
    [(MPS, 30, ()), (MPS, 20, ()), (DRIVER, 30, (30,)), (DRIVER, 20, (20,)), (NONE, 30, None)],
)
def test_the_first_size_is_reserved_and_the_second_is_the_cap(
    devices: tuple[Device, ...], most: int, asked: tuple[int, ...] | None
) -> None:
    """The driver sets the cap where it can; elsewhere the job is told its limit all the same."""
    world = a_world(devices)
    job = world.submit_limited(20 * GIB, most * GIB)
    assert reserved(world, job) == 20 * GIB
    assert caps(world, job) == ([] if asked is None else [most * GIB])
    assert launch(world, job).cap_mib == most * GIB
    assert launch(world, job).caps == tuple(("GPU-0", mib * GIB) for mib in asked or ())


@pytest.mark.parametrize("devices", [MPS, DRIVER])
def test_a_cap_takes_only_what_nobody_has_reserved(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    first = world.submit_limited(15 * GIB, 15 * GIB)
    second = world.submit_limited(10 * GIB, 40 * GIB)
    assert caps(world, first) == [15 * GIB]
    assert caps(world, second) == [25 * GIB]
    third = world.submit_limited(13 * GIB, 40 * GIB)
    assert caps(world, third) == [15 * GIB], "the second one uses nothing of its own yet"


def test_a_cap_is_never_below_the_reservation() -> None:
    chosen = replace(SETTINGS, overcommit=True)
    world = Capped(DRIVER, settings=chosen, policy=RoundRobin(), recovery=OwnDevice())
    world.submit(30 * GIB, **DECLARED)
    assert caps(world, world.submit_limited(20 * GIB, 25 * GIB)) == [20 * GIB]


@pytest.mark.parametrize("devices", [MPS, DRIVER, NONE])
def test_one_size_is_reserved_with_a_margin_while_that_is_free(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    of = [world.submit(size * GIB, **DECLARED) for size in (10, 14)]
    assert [reserved(world, job) for job in of] == [11776, 16487]
    assert reserved(world, world.submit_limited(GIB // 2, GIB)) == GIB // 2, "it said how much"


def test_a_declared_job_of_a_gpus_size_still_fits() -> None:
    world = a_world(NONE)
    assert reserved(world, world.submit(40 * GIB, **DECLARED)) == 40 * GIB


def test_a_client_of_mps_may_use_what_is_unreserved_at_its_start_and_the_driver_raises() -> None:
    for devices, first, second in ((MPS, 40, 28.5), (DRIVER, 11.5, 11.5)):
        world = a_world(devices)
        some = [world.submit(10 * GIB, **DECLARED) for _ in range(2)]
        assert [caps(world, job) for job in some] == [[int(first * GIB)], [int(second * GIB)]]
        if devices is DRIVER:
            uses(world, some[1], 11 * GIB)
            assert caps(world, some[1]) == [23 * GIB]


@pytest.mark.parametrize("devices", [MPS, DRIVER, NONE])
def test_a_job_is_told_its_size_and_no_larger_cap(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    job = world.submit(20 * GIB, roles=(Role(needs=Needs(gpu_memory_mib=20 * GIB)),), **DECLARED)
    assert told_mib(world.jobs[job.id], launch(world, job).cap_mib) == 20 * GIB
    limited = world.submit_limited(5 * GIB, 12 * GIB)
    assert told_mib(world.jobs[limited.id], launch(world, limited).cap_mib) == 12 * GIB
    assert told_mib(world.jobs[job.id], None) is None


def test_an_estimate_is_capped_by_the_driver_at_a_multiple_of_it() -> None:
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **GUESSED)
    assert caps(world, job) == [12 * GIB]
    # It reserves no more than without a cap, and RADRM_GPU_MEMORY_MIB has the reservation.
    assert world.reservations[f"job:{job.id}", "GPU-0"].mib == 4 * GIB
    assert launch(world, job).cap_mib == 4 * GIB
    assert caps(world, world.submit(100, **GUESSED)) == [100 + SETTINGS.headroom_mib]


@pytest.mark.parametrize(
    ("times", "cap"), [(1.0, 4), (0.0, 4), (float("nan"), 4), (float("inf"), 40)]
)
def test_the_stretch_is_bounded_by_the_estimate_and_by_what_is_unreserved(
    times: float, cap: int
) -> None:
    world = a_world(DRIVER, stretch=times)
    assert caps(world, world.submit(4 * GIB, **GUESSED)) == [cap * GIB]


@pytest.mark.parametrize(
    "spec",
    [
        {"collocation": Collocation.EXCLUSIVE},
        {"resizing": Resizing.LIVE},
    ],
)
def test_whole_devices_and_tasks_that_change_have_no_cap_by_the_driver(spec: Any) -> None:
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **{**DECLARED, **spec})
    assert (caps(world, job), launch(world, job).caps) == ([], ())


def test_an_unknown_need_has_no_cap() -> None:
    world = a_world(DRIVER)
    job = world.submit(None, smact=0.1, resizing=Resizing.NONE)
    assert (caps(world, job), launch(world, job).caps) == ([], ())


def test_a_job_that_recovers_alone_has_no_cap() -> None:
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **GUESSED)
    uses(world, job, 4 * GIB)
    world.end(job, 1, oom=OutOfMemory("test", GIB))
    assert world.state(job) is JobState.RUNNING
    assert (caps(world, job), launch(world, job).caps) == ([], ())


def test_a_limit_beyond_every_gpu_can_never_be() -> None:
    world = a_world(DRIVER)
    job = world.submit_limited(20 * GIB, 80 * GIB)
    assert world.state(job) is JobState.FAILED
    assert job.reason == (
        "its limit of GPU memory, 80.0G, is more than any GPU here has (40.0G); lower the second "
        "size of --gpu-memory"
    )


def test_a_limit_may_be_the_size_in_a_gpus_name() -> None:
    h100 = gpus(1, total_mib=81_559, caps=True)
    world = a_world(h100)
    job = world.submit_limited(20 * GIB, 80 * GIB)
    assert caps(world, job) == [81_559]


# ------------------------------------------------------------------ raised


def test_a_cap_is_raised_before_it_is_reached_while_memory_is_unreserved() -> None:
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **GUESSED)
    uses(world, job, int(0.89 * 12 * GIB))
    assert caps(world, job) == [12 * GIB]
    uses(world, job, int(0.91 * 12 * GIB))
    assert caps(world, job) == [24 * GIB]
    (raised,) = [a for a in world.actions if isinstance(a, act.RaiseCaps)]
    assert raised.caps == (("GPU-0", 24 * GIB),)


def test_it_is_raised_up_to_its_limit_and_to_the_room() -> None:
    world = a_world(DRIVER)
    beside = world.submit_limited(25 * GIB, 25 * GIB)
    job = world.submit_limited(5 * GIB, 30 * GIB)
    assert caps(world, job) == [15 * GIB]
    uses(world, job, 14 * GIB)
    assert caps(world, job) == [15 * GIB], "the rest is reserved for others"
    world.end(beside)
    world.pass_time(1.0)
    assert caps(world, job) == [30 * GIB]
    uses(world, job, 29 * GIB)
    assert caps(world, job) == [30 * GIB]


@pytest.mark.parametrize(
    ("devices", "first", "limits", "uses_gib", "cap"),
    [
        pytest.param(DRIVER, None, (4, 4), 4, 4, id="a hard cap"),
        # Nobody can change it after the start.
        pytest.param(gpus(1, mps=True, caps=True), 30, (5, 30), 10, 10, id="a client of MPS"),
    ],
)
def test_a_cap_that_stays(
    devices: tuple[Device, ...], first: int | None, limits: Sequence[int], uses_gib: int, cap: int
) -> None:
    world = a_world(devices)
    before = first and world.submit_limited(first * GIB, first * GIB)
    job = world.submit_limited(*(size * GIB for size in limits))
    if before:
        world.end(before)
    uses(world, job, uses_gib * GIB)
    assert caps(world, job) == [cap * GIB]
    assert not [a for a in world.actions if isinstance(a, act.RaiseCaps)]


def test_a_raise_that_fails_is_tried_again_later_and_one_without_an_answer_is_not_repeated() -> (
    None
):
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **GUESSED)
    world.obey = False
    uses(world, job, 12 * GIB)
    uses(world, job, 12 * GIB)
    asked = [a for a in world.actions if isinstance(a, act.RaiseCaps)]
    assert len(asked) == 1
    world.step(ev.ActionFailed(at=world.now, action=asked[0], reason="the driver is gone"))
    assert world.live(job).asked(ActionKind.CAPS) is None
    assert caps(world, job) == [12 * GIB]
    world.pass_time(0.1)
    assert len([a for a in world.actions if isinstance(a, act.RaiseCaps)]) == 1, "it pauses"
    world.pass_time(3600.0)
    assert len([a for a in world.actions if isinstance(a, act.RaiseCaps)]) == 2


def test_the_next_daemon_asks_again_and_knows_the_caps() -> None:
    world = a_world(DRIVER)
    job = world.submit(4 * GIB, **GUESSED)
    world.obey = False
    uses(world, job, 11 * GIB)
    (asked,) = [a for a in world.actions if isinstance(a, act.RaiseCaps)]
    world.obey = True
    world.restart()
    assert caps(world, job) == [24 * GIB]
    assert [a for a in world.actions if isinstance(a, act.RaiseCaps)] == [asked, asked]


# ------------------------------------------------------------------ what others see, and blame


@pytest.mark.parametrize("devices", [MPS, DRIVER, NONE])
def test_what_is_used_beyond_the_reservation_is_not_free(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    job = world.submit_limited(10 * GIB, 30 * GIB)
    uses(world, job, 25 * GIB)
    assert world.why(world.submit(20 * GIB, **DECLARED))[0] == "memory"


@pytest.mark.parametrize("devices", [MPS, DRIVER])
def test_a_neighbour_beyond_its_reservation_is_to_blame(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    job = world.submit_limited(10 * GIB, 40 * GIB)
    other = world.submit(20 * GIB, **DECLARED)
    uses(world, job, 25 * GIB)
    uses(world, other, 15 * GIB)
    died = world.end(other, 1, oom=OutOfMemory("test", GIB))
    assert died.victim_count == 1
    assert "job 1 used 25.0G, 10.0G was reserved" in (died.reason or "")


@pytest.mark.parametrize("devices", [MPS, DRIVER])
def test_a_death_at_the_cap_is_the_jobs_own(devices: tuple[Device, ...]) -> None:
    world = a_world(devices)
    neighbour = world.submit(10 * GIB, **DECLARED)
    uses(world, neighbour, 15 * GIB)
    job = world.submit_limited(5 * GIB, 5 * GIB)
    uses(world, job, 5 * GIB)
    assert world.end(job, 1, oom=OutOfMemory("test")).victim_count == 0


def test_a_death_far_below_a_larger_cap_is_the_neighbours() -> None:
    world = a_world(MPS)
    job, neighbour = (world.submit(10 * GIB, **DECLARED) for _ in range(2))
    uses(world, neighbour, 28 * GIB)
    uses(world, job, 9 * GIB)
    assert world.end(job, 1, oom=OutOfMemory("test")).victim_count == 1


def test_a_death_at_the_cap_raises_need_and_cap() -> None:
    chosen = Capped(MPS, settings=SETTINGS, policy=FirstFit(), recovery=Ladder())
    beside = chosen.submit_limited(20 * GIB, 20 * GIB)
    job = chosen.submit_limited(5 * GIB, 5 * GIB)
    uses(chosen, job, 5 * GIB)
    died = chosen.end(job, 1, oom=OutOfMemory("test", GIB))
    assert (died.memory_floor_mib, died.victim_count) == (6 * GIB, 0)
    assert reserved(chosen, job) >= 10 * GIB and caps(chosen, job) == [reserved(chosen, job)]
    assert chosen.state(beside) is JobState.RUNNING


# ------------------------------------------------------------------ in any life


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["declared", "limited", "guessed", "use", "end", "restart"]),
        st.integers(1, 24),
        st.integers(0, 5),
    ),
    max_size=30,
)


@example(
    steps=[
        *[("declared", size, 0) for size in (8, 20, 11, 11)],
        ("limited", 17, 1),
        ("declared", 1, 0),
        ("end", 1, 0),
    ]
)
@given(steps=STEPS)
def test_no_reservation_is_weakened_and_caps_only_grow(steps: list[tuple[str, int, int]]) -> None:
    """At a start, a cap and what others have reserved fit on the device; so they do at a raise."""
    world = a_world(gpus(2, caps=True))
    before: dict[int, dict[str, int]] = {}
    for what, size, which in steps:
        live = [job for job in world.jobs.values() if world.live(job) is not None]
        if what == "declared":
            world.submit(size * GIB, **DECLARED)
        elif what == "limited":
            world.submit_limited(size * GIB, (size + 3 * which) * GIB)
        elif what == "guessed":
            world.submit(size * GIB, **GUESSED)
        elif what == "restart":
            world.restart()
        elif live:
            job = live[which % len(live)]
            if what == "end":
                world.end(job)
            else:
                most = dict(world.live(job).caps)
                uses(world, job, min([size * GIB, *most.values()]))
        now = {
            attempt.serial: dict(attempt.caps)
            for attempt in world.attempts.values()
            if attempt.ended is None
        }
        for serial, own in now.items():
            job_id = next(a.job_id for a in world.attempts.values() if a.serial == serial)
            for uuid, mib in own.items():
                ledger = world.scheduler.state.ledgers[uuid]
                mine = ledger.reserved.running(job_id)
                live_now = world.live(job_id)
                assert live_now is not None and mine is not None and mib >= (mine.mib or 0)
                first = live_now.placement.shares[0].reserved_mib
                grown = mib - before.get(serial, {}).get(uuid, 0)
                assert grown >= 0
                if grown and mib > first:
                    room = ledger.free_mib(f"job:{job_id}", world.boot_s, world.boot_s)
                    # One event can start several jobs: a cap counts what was reserved before it.
                    later = [a for a in world.attempts.values() if a.serial > serial]
                    new = [
                        a.placement.reserved().get(uuid) for a in later if a.serial not in before
                    ]
                    assert room is not None and mib <= room + sum(filter(None, new))
        before = now
