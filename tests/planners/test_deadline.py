"""`deadline` through `step`: who starts, who waits and until when, and who is stopped."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.events import measure
from radrm.core import events as ev
from radrm.core.records import Estimate, Job, JobSpec, Profiled
from radrm.core.words import JobState, Quantity, ReservationKind
from radrm.deadlines import Costs, Ranking, Zone
from radrm.orders import SmallestWork
from radrm.planners.lateness.candidates import Seen
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.planners.due import CAN_SAVE, Due, deadline, end_and_read, running
from tests.world import EPOCH_S, GIB, gpus

HOUR_S = 3600.0
# 22:00 is cheap; the epoch of the tests is at 22:13:20 UTC + boot_s.
PRICES = ((0, 0.1), (6 * 60, 0.4), (22 * 60, 0.1))


# ------------------------------------------------------------------ the order of service


def served(world: Due, *jobs: Job) -> list[int]:
    """The order in which waiting jobs start, one after another."""
    found = []
    for _ in jobs:
        (now,) = [job.id for job in world.jobs.values() if world.where(job)]
        end_and_read(world, world.jobs[now])
        found += [job.id for job in jobs if world.where(job)]
    return found


def test_due_jobs_go_by_weight_over_remaining_and_slack_others_after_them() -> None:
    world = Due()
    world.job(1e6)
    other = world.job(1.0)
    heavy_late = world.job(100.0, -50.0, weight=4.0)
    short_late = world.job(10.0, -50.0)
    soon = world.job(100.0, 150.0)
    later = world.job(100.0, 90_000.0, weight=50.0)
    jobs = (other, heavy_late, short_late, soon, later)
    assert served(world, *jobs) == [j.id for j in (short_late, heavy_late, soon, later, other)]


def test_edits_and_time_change_the_rank() -> None:
    world = Due()
    world.job(1e6)
    first, second = world.job(100.0, 5000.0, weight=2.0), world.job(100.0, 5000.0)
    third = world.job(100.0, 4000.0, weight=0.5)
    world.edit(second, weight=9.0)
    world.edit(third, due_s=world.now.wall_s - 10.0)
    assert served(world, first, second, third) == [third.id, second.id, first.id]


def test_a_priority_goes_before_every_rank() -> None:
    world = Due()
    world.job(1e6)
    urgent, prior = world.job(10.0, -50.0, weight=9.0), world.job(1e5, 1e7, priority=1)
    plain = world.job(10.0, priority=2)
    assert served(world, urgent, prior, plain) == [plain.id, prior.id, urgent.id]


def test_a_job_that_has_waited_for_a_day_goes_first() -> None:
    world = Due()
    world.job(1e7)
    old, late = world.job(1e5), world.job(1e5, -10.0, weight=0.01)
    world.pass_time(86_401.0)
    new = world.job(10.0, 20.0, weight=100.0)
    assert served(world, late, old, new) == [old.id, late.id, new.id]


def test_without_durations_an_hour_is_assumed_within_the_time_limit() -> None:
    world = Due()
    world.job(1e6)
    unknown, known = world.job(None, -10.0), world.job(3599.0, -10.0)
    limited = world.job(None, -10.0, time_limit_s=600.0)
    assert served(world, unknown, known, limited) == [limited.id, known.id, unknown.id]


# ------------------------------------------------------------------ the first that waits


def blocked(world: Due, length_s: float, due_in_s: float | None, **spec: Any) -> Job:
    """A job on one of two GPUs, and one that waits for both."""
    world.job(1000.0)
    wide = world.job(length_s, due_in_s, gpus=2, **spec)
    assert world.state(wide) is JobState.PENDING
    return wide


@pytest.mark.parametrize(
    ("length_s", "passes"), [(900.0, True), (1400.0, True), (1600.0, False), (None, False)]
)
def test_others_may_use_the_slack_of_the_first_that_waits(
    length_s: float | None, passes: bool
) -> None:
    world = Due(2)
    blocked(world, 100.0, 1600.0)
    job = world.job(length_s, 1e6)
    assert running(world, job) == [passes]
    if not passes:
        (first, delay, *_) = world.reasons(job)
        assert first.startswith("job 2 (job2) is served first and cannot start yet: due in 26m40s")
        assert "job 2 could start" in delay and "to be in time" in delay


def test_no_device_is_idle_for_a_job_that_is_late_whatever_is_done() -> None:
    world = Due(2)
    late = blocked(world, 700.0, 1600.0)
    job = world.job(1e5, 2e5)
    assert running(world, late, job) == [False, True]
    lower = world.job(1e5, 2e5, priority=-1)
    world.cancel(job)
    world.read()
    assert running(world, lower) == [False], "but a lower priority does not delay it"


def test_a_late_wide_job_is_waited_for_when_it_is_old() -> None:
    world = Due(2, max_wait_s=5000.0)
    wide = blocked(world, 100.0, 50.0)
    world.pass_time(5100.0)
    assert running(world, world.job(1e6, 2e6)) == [False]
    end_and_read(world, world.jobs[1])
    assert running(world, wide) == [True]


def test_whole_devices_are_reserved_where_time_limits_say_when_they_are_free() -> None:
    world = Due(2)
    world.job(500.0, time_limit_s=1000.0)
    wide = world.job(100.0, 5000.0, gpus=2, time_limit_s=200.0)
    kept = [r for r in world.stored.values() if r.kind is ReservationKind.BACKFILL]
    assert {(r.job_id, r.device, r.mib) for r in kept} == {
        (wide.id, "GPU-0", None),
        (wide.id, "GPU-1", None),
    }
    assert {r.since.boot_s for r in kept} == {world.boot_s + 1000.0}
    world.end(1)
    world.read()
    assert running(world, wide) == [True]
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.BACKFILL]


# ------------------------------------------------------------------ cheaper later


def test_a_job_waits_for_an_idle_device_if_sharing_makes_it_late() -> None:
    world = Due(devices=gpus(1, mps=True), policy=Packing(max_demand=9.0))
    world.submit(GIB, duration_s=100.0, smact=0.9)
    job = world.submit(GIB, duration_s=1000.0, smact=0.9, due_s=world.now.wall_s + 1150.0)
    assert running(world, job) == [False]
    (why,) = world.reasons(job)
    assert why.startswith("it waits for a A100-40GB, expected in 1m40s: starting now costs ")
    world.pass_time(100.0)
    end_and_read(world, world.jobs[1])
    assert running(world, job) == [True]


def test_after_a_failure_it_looks_at_all_jobs_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Due()
    world.job(1000, 5000)
    gone, stays = world.job(100, 500), world.job(100, 900)

    def fails(*_: object) -> None:
        raise ValueError("half done")

    with monkeypatch.context() as broken:
        broken.setattr(Ranking, "update", fails)
        world.cancel(gone)
    world.pass_time(3600.0)
    ranking = Seen.of(world.scheduler.view, "deadline").ranking
    assert [key[-1] for key in ranking.first(world.now.wall_s)] == [stays.id]


def test_the_bound_of_the_order_is_told_only_while_it_holds() -> None:
    world = Due(order=SmallestWork())
    world.job(1000)
    waits = world.job(1000)
    assert "bound" in world.why(waits)
    world.job(1000, 5000)
    assert "bound" not in world.why(waits)


def test_it_does_not_wait_much_longer_than_was_expected() -> None:
    world = Due(devices=gpus(1, mps=True), policy=Packing(max_demand=9.0))
    world.submit(GIB, duration_s=100.0, smact=0.9)
    job = world.submit(GIB, duration_s=1000.0, smact=0.9, due_s=world.now.wall_s + 1150.0)
    for _ in range(12):
        world.pass_time(20.0)
    assert running(world, job) == [True], "the job that was to end has not"


def kinds(*names: str) -> Any:
    return tuple(
        replace(each, name=name) for each, name in zip(gpus(len(names)), names, strict=True)
    )


def profiled(world: Due, due_in_s: float, **times: float) -> Job:
    """A job whose run times on kinds of GPU are known."""
    job_id, world.next_id = world.next_id, world.next_id + 1
    spec = JobSpec("job", "ann", 1000, due_s=world.now.wall_s + due_in_s, checkpoint=CAN_SAVE)
    profile = tuple(Profiled(kind, 1, length_s) for kind, length_s in times.items())
    job = Job(job_id, f"T{job_id}", spec, world.now, profile=profile)
    world.step(ev.JobSubmitted(at=world.now, job=job))
    return world.jobs[job.id]


def test_a_late_job_starts_on_the_kind_of_gpu_where_it_costs_least_and_moves_later() -> None:
    world = Due(devices=kinds("T4", "V100", "V100"))
    first = profiled(world, 300.0, T4=1000.0, V100=250.0)
    assert world.where(first) == ("GPU-1",)
    world.job(1e6)
    assert world.where(2) == ("GPU-0",)
    world.job(400.0)
    second = profiled(world, 2000.0, T4=2500.0, V100=1250.0)
    assert running(world, second) == [False]
    world.cancel(2)
    world.read()
    assert world.where(second) == () and "expected in" in world.reasons(second)[0]


def test_a_running_late_job_moves_to_better_gpus() -> None:
    world = Due(devices=kinds("T4", "V100"))
    world.job(1e6, gpus=1, gpu_types=("v100",))
    job = profiled(world, 300.0, T4=5000.0, V100=500.0)
    assert world.where(job) == ("GPU-0",)
    world.pass_time(400.0)
    world.cancel(1)
    world.read()
    for _ in range(4):
        world.pass_time(15.0)
    assert world.where(job) == ("GPU-1",) and world.asked == [job.id]


# ------------------------------------------------------------------ cheaper hours


def cheap(**changes: Any) -> Costs:
    return Costs(prices=PRICES, wait_for_cheap=True, **changes)


def at_hour(world_hour: float) -> float:
    """Seconds from the start of a test's world until this hour (UTC)."""
    start_s = (EPOCH_S + 1000.0) % 86_400.0
    return (world_hour * HOUR_S - start_s) % 86_400.0


def test_a_job_waits_for_a_cheap_hour_while_its_latest_end_is_before_its_due_time() -> None:
    world = Due(1, costs=cheap())
    world.pass_time(at_hour(12))
    job = world.job(HOUR_S, 12 * HOUR_S)
    assert world.reasons(job) == [
        "it starts in 10h00m, when a kWh costs 0.1 in place of 0.4 EUR; it ends at least 1h00m "
        "before its due time"
    ]
    unknown, tight = world.job(None, 12 * HOUR_S), world.job(HOUR_S, 5 * HOUR_S)
    assert running(world, job, unknown) == [False, False], "nothing says when the second ends"
    assert running(world, tight) == [True], "it cannot wait until 22:00"
    end_and_read(world, tight)
    none = world.job(HOUR_S)
    assert running(world, job, unknown, none) == [False, False, True], "it never waits for that"
    end_and_read(world, none)
    world.pass_time(at_hour(22) - at_hour(12))
    assert running(world, job) == [True]


def test_jobs_that_wait_for_a_cheap_hour_are_in_time_one_after_another() -> None:
    world = Due(1, costs=cheap())
    world.pass_time(at_hour(12))
    jobs = [world.job(HOUR_S, 12.5 * HOUR_S) for _ in range(3)]
    assert running(world, *jobs).count(True) == 1, "only two of them can wait"
    end_and_read(world, next(job for job in jobs if world.where(job)))
    assert not any(running(world, *[job for job in jobs if not world.jobs[job.id].state.final]))


def test_an_upper_bound_counts_and_summer_time_moves_the_hour() -> None:
    start_s = EPOCH_S + 1000.0 + at_hour(12)
    zone = Zone(starts=(0.0, start_s + HOUR_S), offsets=(0.0, HOUR_S))
    world = Due(2, costs=cheap(zone=zone))
    world.pass_time(at_hour(12))
    wide = (Estimate(Quantity.DURATION, HOUR_S, 4 * HOUR_S, "history"),)
    job = world.job(HOUR_S, 12 * HOUR_S)
    world.edit(job, estimates=(*[e for e in job.estimates if e.quantity is Quantity.MEMORY], *wide))
    assert running(world, job) == [True], "at worst it would end too late"
    other = world.job(HOUR_S, 12 * HOUR_S)
    assert world.reasons(other)[0].startswith("it starts in 9h00m"), "clocks go forward at 13:00"


# ------------------------------------------------------------------ what an event costs


def test_an_event_costs_at_most_twice_that_of_default_however_many_jobs_are_due() -> None:
    theirs = measure(300, due=True)
    ours = measure(300, planner=deadline(), due=True)
    more = {name: (calls, ours[name]) for name, calls in theirs.items() if ours[name] > 2 * calls}
    assert more.keys() <= {"an explanation"}
    short = measure(30, planner=deadline(), due=True)
    assert all(ours[name] <= calls * 1.3 + 20 for name, calls in short.items())
