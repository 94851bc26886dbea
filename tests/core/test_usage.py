"""What is counted of an attempt, device by device: each second once, over restarts and resizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.proposals import ResizeTo
from radrm.core.records import Attempt, Placement, Role, Share, Usage
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import NOTED_EVERY_S
from radrm.core.state.readings import merged
from radrm.core.words import Collocation
from radrm.structs import replace
from tests.core.ledgers import admit, ledger, reading
from tests.examples import some
from tests.world import GIB, World, gpus

WATTS = 100.0  # of each device of the simulated world, always


def usage_of(attempt: Attempt) -> dict[str, Usage]:
    """By device; a device that stands there twice would count twice."""
    assert len({u.device for u in attempt.usage}) == len(attempt.usage), attempt.usage
    return {u.device: u for u in attempt.usage}


def propose(world: World, proposal: ResizeTo) -> None:
    version = world.scheduler.state.version
    world.step(ev.PlanReady(at=world.now, planner="test", version=version, proposals=(proposal,)))


def test_an_ordinary_job_is_counted_once() -> None:
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.3)
    world.used[job.id] = 4 * GIB
    for _ in range(10):
        world.pass_time(1.0)
    world.end(job)
    attempt = world.attempts[job.id, 1]
    assert usage_of(attempt) == {
        "GPU-0": Usage(
            *("GPU-0", 4 * GIB, pytest.approx(0.3), 10 * WATTS),
            smact_count=10,
            alone_smact=pytest.approx(0.3),
            alone_count=10,
        )
    }
    assert attempt.energy_j == 10 * WATTS


def test_several_devices_are_each_counted_once() -> None:
    world = World(gpus(2))
    job = world.submit(8 * GIB, gpus=2)
    world.used[job.id] = 4 * GIB
    for _ in range(10):
        world.pass_time(1.0)
    world.end(job)
    attempt = world.attempts[job.id, 1]
    assert set(usage_of(attempt)) == {"GPU-0", "GPU-1"}
    assert attempt.energy_j == 2 * 10 * WATTS


@pytest.mark.parametrize("restarts", [1, 3])
def test_a_restart_neither_loses_nor_doubles(restarts: int) -> None:
    """Energy and SM activity that were seen before count as much as what is seen after."""
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.5)
    world.used[job.id] = 4 * GIB
    world.smact["GPU-0"] = 0.9
    for _ in range(300):
        world.pass_time(1.0)
    world.smact["GPU-0"] = 0.1
    for _ in range(restarts):
        world.restart()
    world.pass_time(1.0)
    world.end(job)
    (usage,) = world.attempts[job.id, 1].usage
    assert usage.energy_j is not None and usage.smact_mean is not None
    # At most the last minute before a kill is not on disk.
    assert 241 * WATTS <= usage.energy_j <= 301 * WATTS
    assert usage.smact_mean > 0.88, "one reading after the restart weighs no more than one before"


def test_what_a_resize_gives_up_stays_counted_once() -> None:
    role = Role(count_min=1, count_max=2)
    world = World(gpus(2))
    job = world.submit(4 * GIB, roles=(role,))
    first = Share("GPU-0", 4 * GIB)
    second = Share("GPU-1", 4 * GIB, task=1)
    both = Placement((first, second), Collocation.TIMESLICE)
    one = Placement((first,), Collocation.TIMESLICE)
    world.used[job.id] = 1 * GIB
    for placement in (both, one, both, one):
        propose(world, ResizeTo(job_id=job.id, placement=placement))
        assert world.live(job).placement == placement
        for _ in range(5):
            world.pass_time(1.0)
    world.end(job)
    usage = usage_of(world.attempts[job.id, 1])
    assert usage["GPU-0"].energy_j == 20 * WATTS
    assert usage["GPU-1"].energy_j == 10 * WATTS


def test_newer_usage_takes_the_place_of_older() -> None:
    old, new, other = Usage("a", 1), Usage("a", 2), Usage("b", 3)
    assert merged((old, other), (new,)) == (new, other)
    assert merged((), (new, other)) == (new, other)
    assert merged((old,), ()) == (old,)


def test_what_earlier_releases_stored_twice_counts_once() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    world.end(job)
    stored = replace(
        world.attempts[job.id, 1],
        usage=(Usage("GPU-0", 10, 0.2, 50.0), Usage("GPU-0", 20, 0.4, 80.0)),
    )
    assert (stored.peak_mib, stored.energy_j) == (20, 80.0)
    assert list(stored.used.values()) == [Usage("GPU-0", 20, 0.4, 80.0)]


def test_the_last_seconds_of_one_that_leaves_are_its_own() -> None:
    """Readings come every now and then; who was there in between is known all the same."""
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0))
    first = world.submit(4 * GIB, smact=0.1)
    second = world.submit(4 * GIB, smact=0.1)
    world.pass_time(10.0)
    world.boot_s += 4.0
    world.end(first)
    world.pass_time(6.0)
    world.end(second)
    (one,), (two,) = (world.attempts[j.id, 1].usage for j in (first, second))
    assert one.energy_j == pytest.approx((10 + 4) * WATTS / 2)
    assert two.energy_j == pytest.approx((10 + 4) * WATTS / 2 + 6 * WATTS)


moves = st.lists(
    st.tuples(
        st.sampled_from(["submit", "end", "cancel", "oom", "restart", "time", "time", "unread"]),
        st.integers(0, 9),
        st.floats(0.1, 100.0),
    ),
    min_size=2,
    max_size=40,
)


@settings(max_examples=some(100))
@given(moves)
def test_energy_is_neither_lost_nor_made(life: list[tuple[str, int, float]]) -> None:
    """What all attempts are told to have used is what the devices took while anybody was there:
    a restart may lose what was not on disk yet, and nothing else does."""
    world = World(gpus(2))
    taken_j, lost_j, read_s = 0.0, 0.0, world.boot_s
    for kind, pick, seconds in life:
        live = [a.job_id for a in world.attempts.values() if a.ended is None]
        before_s = world.boot_s
        busy = {d for a in world.attempts.values() if a.ended is None for d in a.placement.devices}
        if kind == "submit":
            job = world.submit(4 * GIB, smact=0.1, gpus=1 + pick % 2)
            world.used[job.id] = 3 * GIB
        elif kind in ("end", "cancel", "oom") and live:
            job_id = live[pick % len(live)]
            world.cancel(job_id) if kind == "cancel" else world.end(job_id, kind == "oom")
        elif kind == "restart":
            lost_j += (NOTED_EVERY_S + world.boot_s - read_s) * WATTS * len(world.devices)
            world.restart()
            read_s = world.boot_s
        elif kind == "time":
            world.pass_time(seconds)
            read_s = world.boot_s
        elif kind == "unread":
            world.boot_s += seconds
        taken_j += (world.boot_s - before_s) * WATTS * len(busy)
        ledgers = world.scheduler.state.ledgers.values()
        assert all((led.free_mib() or 0) >= 0 for led in ledgers)
        for attempt in world.attempts.values():
            usage_of(attempt)
    world.read()
    for attempt in [a for a in world.attempts.values() if a.ended is None]:
        world.end(attempt.job_id)
    told_j = sum(a.energy_j or 0.0 for a in world.attempts.values())
    assert taken_j - lost_j - 1e-6 <= told_j <= taken_j + 1e-6


# ------------------------------------------------------------------ one ledger, exactly

steps = st.lists(
    st.tuples(
        st.sampled_from(["come", "go", "read", "read", "fail"]),
        st.floats(0.0, 50.0),  # seconds until it happens
        st.one_of(st.none(), st.floats(0.0, 700.0)),  # W
        st.integers(0, 60_000),  # MiB
        st.integers(0, 4),
    ),
    max_size=40,
)


@settings(max_examples=some(200))
@given(steps)
def test_a_ledger_divides_exactly_what_its_device_took(
    life: list[tuple[str, float, float | None, int, int]],
) -> None:
    """Power counts from reading to reading, at the last one's value; until somebody comes or
    goes at that of the one before. While nobody is there, and after a failed reading, none."""
    led = ledger()
    now_s, metered_s, power_w = 1000.0, 1000.0, None
    taken_j, known = 0.0, True
    gone: list[Usage] = []
    for number, (kind, passes_s, watts, mib, pick) in enumerate(life):
        now_s += passes_s
        here = sorted(led.occupants)
        if kind == "fail":
            led.take(reading(now_s, used=None, error="lost"))
            known = False
            continue
        if kind == "read":
            taken_j += (now_s - metered_s) * watts if known and watts and here else 0.0
            led.take(reading(now_s, used=mib, held=dict.fromkeys(here, mib // 8), power_w=watts))
            known, power_w, metered_s = True, watts, now_s
            assert led.occupants.keys() == set(here)
        else:
            taken_j += (now_s - metered_s) * power_w if known and power_w and here else 0.0
            metered_s = now_s
            if kind == "come":
                admit(led, number + 1, mib // 8, since_s=now_s)
            elif here:
                leaver = here[pick % len(here)]
                found = led.release(leaver, now_s)
                led.unreserve(f"job:{leaver}")
                assert found is not None
                gone.append(found)
        free = led.free_mib()
        assert free is None or 0 <= free <= led.device.capacity_mib
    told = [u.energy_j for u in gone] + [h.energy_j for h in led.occupants.values()]
    assert sum(j for j in told if j is not None) == pytest.approx(taken_j)


def test_what_a_job_shows_alone_is_kept_apart() -> None:
    """Readings beside others, while it starts up, or beside unmanaged processes do not count."""
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=5.0))
    first = world.submit(8 * GIB, smact=0.3)
    world.smact["GPU-0"] = 0.5
    for _ in range(4):  # it starts up
        world.pass_time(1.0)
    world.smact["GPU-0"] = 0.2
    for _ in range(10):
        world.pass_time(1.0)
    world.unmanaged["GPU-0"] = 2 * GIB
    world.smact["GPU-0"] = 0.45
    world.pass_time(1.0)
    world.unmanaged["GPU-0"] = 0
    second = world.submit(8 * GIB, smact=0.3)
    for _ in range(10):
        world.pass_time(1.0)
    occupants = world.scheduler.view.offer(first, first.spec.roles[0], "GPU-0").occupants
    assert [(h.job.id, h.alone_smact, h.smact) for h in occupants] == [
        (first.id, pytest.approx(0.2), pytest.approx(0.2)),
        (second.id, None, 0.3),
    ]
    world.end(first)
    usage = usage_of(world.attempts[first.id, 1])["GPU-0"]
    assert usage.shared and usage.alone_smact == pytest.approx(0.2) and usage.alone_count == 10
