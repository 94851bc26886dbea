"""Reservations for later through `step`, with a toy planner that backfills."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.constraints.claims import expected_free_mib
from radrm.core.records import Instant, Job, Refusal, Reservation
from radrm.core.settings import CoreSettings
from radrm.core.state.state import owner_of
from radrm.core.words import JobState, ReservationKind
from radrm.structs import replace
from tests.contract.systems.backfill import POLICY, Backfill
from tests.world import EPOCH_S, GIB, World, default_planner, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)


def server(count: int = 1, *planners: Any) -> World:
    return World(gpus(count), planners=planners or (Backfill(),), settings=CORE)


def submit(world: World, gib: int, limit_s: float | None, **spec: Any) -> Job:
    job = world.submit(gib * GIB, time_limit_s=limit_s, smact=0.1, **spec)
    world.used[job.id] = gib * GIB
    return job


def planned(world: World) -> list[Reservation]:
    found = [r for r in world.stored.values() if r.kind.planned]
    state = world.scheduler.state
    assert sorted(map(str, found)) == sorted(map(str, state.planned))
    in_ledgers = [r for le in state.ledgers.values() for r in le.reserved.planned.values()]
    assert sorted(map(str, found)) == sorted(map(str, in_ledgers))
    return found


def waiting_head(count: int = 1) -> tuple[World, Job, Job]:
    """A server whose GPU 0 is half in use for 600 s, and a head that needs more than the rest."""
    world = server(count)
    running = submit(world, 20, 600.0)
    if count > 1:
        submit(world, 40, None)
    head = submit(world, 38, 1000.0)
    return world, running, head


def reading_of(world: World, job: Job) -> list[Refusal]:
    return list(world.scheduler.why_waiting(job.id, world.now))


# ------------------------------------------------------------------ what starts, and when


def test_short_jobs_pass_the_head_and_long_ones_do_not() -> None:
    world, _, head = waiting_head()
    (mine,) = planned(world)
    assert (mine.kind, mine.job_id, mine.mib) == (ReservationKind.BACKFILL, head.id, 38 * GIB)
    assert mine.planner == "easy" and mine.until is not None
    assert (mine.since.boot_s, mine.until.boot_s) == (world.boot_s + 600.0, world.boot_s + 1600.0)
    long, unlimited = submit(world, 10, 601.0), submit(world, 10, None)
    small, short = submit(world, 2, None), submit(world, 10, 600.0)
    assert world.state(short) is JobState.RUNNING, "it ends before"
    assert world.state(small) is JobState.RUNNING, "it needs only what is left beside the head"
    assert world.state(long) is world.state(unlimited) is JobState.PENDING
    (why, *_) = reading_of(world, long)
    assert why.message == (
        "needs 10.0G, 2.0G free: reserved for job 2 in 10m00s; "
        "it can start with a time limit below 10m00s"
    )
    assert (why.needed, why.available) == (10 * GIB, 2 * GIB)
    assert planned(world) == [mine]


def test_a_reservation_for_later_does_not_count_today() -> None:
    world, _, head = waiting_head()
    ledger, now_s = world.scheduler.state.ledgers["GPU-0"], world.boot_s
    view, mine = world.scheduler.view, owner_of(head.id)
    assert ledger.free_now_mib == 20 * GIB and ledger.reserved_mib == 20 * GIB
    assert ledger.free_mib(None, now_s, now_s + 600.0) == 20 * GIB
    assert ledger.free_mib(None, now_s, now_s + 601.0) == 0 == ledger.free_mib()
    assert ledger.free_mib(mine) == 20 * GIB
    state = world.scheduler.state
    assert expected_free_mib(state, ledger, None, now_s + 600.0, now_s + 700.0) == 2 * GIB
    assert expected_free_mib(state, ledger, None, now_s + 1600.0, inf) == 40 * GIB
    assert view.earliest_s("GPU-0", 30 * GIB) == now_s + 1600.0
    assert view.earliest_s("GPU-0", 2 * GIB, 60.0) == now_s
    assert view.earliest_s("GPU-0", None) == now_s + 1600.0


def test_at_its_time_the_reservation_becomes_the_attempts() -> None:
    world, running, head = waiting_head()
    world.pass_time(600.0)
    assert world.state(running) is JobState.TIMEOUT
    assert world.state(head) is JobState.RUNNING
    (mine,) = world.stored.values()
    assert (mine.kind, mine.job_id) == (ReservationKind.RUNNING, head.id)
    assert not planned(world)


def test_an_early_end_lets_the_head_start_early() -> None:
    world, running, head = waiting_head()
    world.pass_time(100.0)
    world.end(running)
    assert world.state(head) is JobState.RUNNING and not planned(world)


def test_a_job_that_lasts_longer_than_expected_keeps_its_memory() -> None:
    world, running, head = waiting_head()
    world.obey = False
    world.pass_time(600.0)
    assert world.state(running) is JobState.STOPPING
    assert world.state(head) is JobState.PENDING
    world.pass_time(1.0)
    ledger = world.scheduler.state.ledgers["GPU-0"]
    assert ledger.free_mib() == 0 and ledger.free_mib(f"job:{head.id}") == 20 * GIB
    world.obey = True
    world.end(running, signal=15)
    assert world.state(head) is JobState.RUNNING and not planned(world)


def test_an_equal_reservation_is_not_saved_again() -> None:
    world, _, _ = waiting_head()
    for _ in range(3):
        world.boot_s += 1.0
        world.read()
        assert not any(isinstance(r, Reservation) for r in world.decisions[-1].changed)
        assert not world.decisions[-1].dropped
    assert len(planned(world)) == 1


# ------------------------------------------------------------------ ends


def cancel(world: World, head: Job) -> None:
    world.cancel(head)


def hold(world: World, head: Job) -> None:
    world.hold(head)


def fail(world: World, head: Job) -> None:
    world.scheduler._planners._all[0].__dict__["fails"] = (head.id,)
    world.read()


def configure_another(world: World, head: Job) -> None:
    world.rules = replace(world.rules, planners=(default_planner(POLICY),))
    world.restart()


@pytest.mark.parametrize("end", [cancel, hold, fail, configure_another])
def test_a_reservation_does_not_outlive_its_reason(end: Any) -> None:
    world, _, head = waiting_head()
    assert len(planned(world)) == 1
    end(world, head)
    assert not planned(world)


class Once(Backfill):
    """It listens to submissions only, so the core must end what it has reserved."""

    @property
    def listens(self) -> frozenset[type[ev.Event]]:
        return frozenset({ev.JobSubmitted})

    @listens.setter
    def listens(self, value: object) -> None: ...


def lone_head() -> tuple[World, Job]:
    world = server(1, Once(wakes=False))
    submit(world, 20, 600.0)
    head = submit(world, 38, 1000.0)
    assert len(planned(world)) == 1
    return world, head


@pytest.mark.parametrize(
    "change, stays",
    [
        ({"time_limit_s": 900.0}, True),
        ({"priority": 3}, True),
        ({"time_limit_s": 1001.0}, False),
        ({"retries": 1, "gpus": 2}, False),
    ],
)
def test_an_edit_beyond_the_reservation_ends_it(change: dict[str, Any], stays: bool) -> None:
    world, head = lone_head()
    if change.pop("gpus", None):
        role = head.spec.roles[0]
        change["roles"] = (replace(role, needs=replace(role.needs, gpus=2)),)
        world.devices = gpus(2)
        world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert world.edit(head, **change) is None
    assert bool(planned(world)) is stays


def test_a_reservation_ends_at_its_time_and_all_planners_are_called() -> None:
    world, _ = lone_head()
    end_s = planned(world)[0].until
    assert end_s is not None
    world.obey = False  # nothing ends
    world.boot_s = end_s.boot_s - 0.1
    world.step(ev.Tick(at=world.now))
    assert planned(world) and world.decisions[-1].wake_at is not None
    assert world.decisions[-1].wake_at <= end_s.boot_s
    world.boot_s = end_s.boot_s
    world.step(ev.Tick(at=world.now))
    assert [r.until for r in planned(world)] != [end_s]


def test_a_device_that_vanishes_ends_its_reservations() -> None:
    world, _, head = waiting_head(2)
    (mine,) = planned(world)
    assert mine.device == "GPU-0"
    here, world.devices = world.devices, world.devices[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert not planned(world)
    world.restart()
    assert not planned(world)
    world.devices = here
    world.step(ev.DevicesSeen(at=world.now, devices=here))
    world.read()
    assert [r.job_id for r in planned(world)] in ([], [head.id])


# ------------------------------------------------------------------ restarts


def test_a_restart_keeps_reservations() -> None:
    world, _ = lone_head()
    before = planned(world)
    world.restart()
    assert planned(world) == before
    world.boot_s += 1e6
    world.step(ev.Tick(at=world.now))
    assert before[0] not in planned(world), "its end has a timer again"


@pytest.mark.parametrize(
    "away_s, stays",
    [
        *((60.0, True), (1500.0, True), (2000.0, False)),
        *((wrong, False) for wrong in (-EPOCH_S, 1e12)),
    ],
)
def test_after_a_reboot_the_dates_count(away_s: float, stays: bool) -> None:
    world, _ = lone_head()
    (before,) = planned(world)
    booted = replace_clock(world, boot_s=10.0, wall_s=world.now.wall_s + away_s)
    booted.restart()
    found = planned(booted)
    assert bool(found) is stays
    for mine in found:
        assert mine.until is not None and before.until is not None
        assert mine.until.wall_s == before.until.wall_s
        assert mine.until.boot_s == 10.0 + 1600.0 - away_s


def test_setting_the_clock_moves_no_reservation() -> None:
    world, _ = lone_head()
    (before,) = planned(world)
    now = world.now
    booted = replace_clock(world, boot_s=now.boot_s + 5.0, wall_s=1e12)
    booted.step(ev.Tick(at=booted.now))
    (after,) = planned(booted)
    assert before.until is not None and after.until is not None
    assert after.until.boot_s == before.until.boot_s


class Clocked(World):
    moment: Instant

    @property
    def now(self) -> Instant:
        return replace(self.moment, boot_s=self.moment.boot_s)


def replace_clock(world: World, boot_s: float, wall_s: float) -> World:
    """The same server, whose clocks show other times from now on."""
    world.__class__ = Clocked
    assert isinstance(world, Clocked)
    world.moment, world.boot_s = Instant(boot_s, wall_s), boot_s
    return world
