"""When waiting jobs are expected to start and to end, how late jobs are, and what that costs."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Estimate, Instant, Job, Profiled, Refusal
from radrm.core.settings import CoreSettings
from radrm.core.words import JobState, Quantity
from radrm.daemon.views.documents import JobDocuments
from radrm.daemon.views.expected import Foresight
from radrm.daemon.views.rows import Row
from radrm.deadlines import Costs
from radrm.host.storage.store import Store
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.structs import replace
from tests.contract.systems.backfill import Backfill
from tests.documents import whole
from tests.world import EPOCH_S, GIB, World, default_planner, gpus

HOUR_S = 3600.0
COSTS = Costs(cost_per_hour=2.0)
NOTHING = {"expected_end_at": None, "latest_end_at": None, "late_s": None, "cost": None}


@pytest.fixture
def store(tmp_path: object) -> Store:
    return Store(f"{tmp_path}/radrm.sqlite")


def one_gpu(policy: Any = None) -> tuple[World, Foresight]:
    planner = default_planner(policy or Exclusive())
    world = World(gpus(1), planners=(planner,))
    return world, Foresight(world.scheduler, (planner,), COSTS)


def submit(
    world: World, duration_s: float | None, upper_s: float | None = None, **spec: Any
) -> Job:
    job = world.submit(8 * GIB, estimating=True, **spec)
    estimates = [Estimate(Quantity.MEMORY, 8 * GIB, 8 * GIB, "test")]
    if duration_s is not None:
        upper_s = duration_s if upper_s is None else upper_s
        estimates.append(Estimate(Quantity.DURATION, duration_s, upper_s, "history"))
    world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=tuple(estimates)))
    return world.jobs[job.id]


def shown(world: World, store: Store, foresight: Foresight, job: Job) -> dict[str, Any]:
    """The fields of a job's document; times from now on."""
    documents = JobDocuments(world.scheduler, store, foresight=foresight)
    refusals = world.scheduler.why_waiting(job.id, world.now)
    found = whole(documents.job(world.jobs[job.id], world.now, refusals).document)
    keys = ("expected_start_at", "expected_end_at", "latest_end_at", "due_at")
    times = {k: None if found[k] is None else round(found[k] - world.now.wall_s) for k in keys}
    others = ("weight", "late_s", "cost", "expected_source", "expected_unknown", "needs_s")
    return times | {key: found[key] for key in others}


def test_the_head_of_the_line_starts_when_the_running_job_ends(store: Store) -> None:
    world, foresight = one_gpu()
    first = submit(world, 1000.0, 1500.0)
    world.pass_time(100.0)
    due_s = world.now.wall_s + HOUR_S
    second = submit(world, 3600.0, 4000.0, due_s=due_s, weight=3.0)
    third = submit(world, 100.0, due_s=due_s)
    assert world.where(first) and not world.where(second)
    assert shown(world, store, foresight, second) == {
        "expected_start_at": 900,
        "expected_end_at": 4500,
        "latest_end_at": 4900,
        "due_at": 3600,
        "weight": 3.0,
        "late_s": pytest.approx(900.0),
        "cost": pytest.approx(2.0 * 3.0 * 900.0 / HOUR_S),
        "expected_source": "history",
        "expected_unknown": None,
        "needs_s": 3600.0,
    }
    behind = shown(world, store, foresight, third)
    assert behind.items() >= NOTHING.items() and behind["needs_s"] == 100.0
    assert behind["expected_unknown"] == "its start cannot be predicted: jobs are before it"
    soon = submit(world, 100.0, due_s=world.now.wall_s + 60.0)
    assert shown(world, store, foresight, soon)["late_s"] == 40.0, "at least"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"held": True}, "it is held"),
        ({"after": ("x",)}, "it waits for the end of other jobs"),
        ({"estimates": ()}, "its run time is unknown; give its --duration, or report progress"),
    ],
)
def test_what_cannot_be_foreseen_has_a_reason(words: dict[str, Any], why: str) -> None:
    world, foresight = one_gpu()
    submit(world, 1000.0)
    job = replace(submit(world, 10.0), **words)
    expected = foresight.of(job, None, world.now)
    assert (expected.start, expected.end, expected.unknown) == (None, None, why)
    assert foresight.late_s(job, expected, world.now) is None


def test_a_running_job_without_an_end_hides_the_start_of_the_next(store: Store) -> None:
    world, foresight = one_gpu()
    endless = submit(world, None)
    job = submit(world, 10.0, due_s=EPOCH_S + 1e6)
    found = shown(world, store, foresight, job)
    assert found.items() >= NOTHING.items()
    assert found["expected_unknown"] == "its start cannot be predicted"
    unknown = shown(world, store, foresight, endless)["expected_unknown"]
    assert unknown == "its run time is unknown; give its --duration, or report progress"


def test_a_time_limit_alone_is_the_worst_end(store: Store) -> None:
    world, foresight = one_gpu()
    job = submit(world, None, time_limit_s=600.0, due_s=EPOCH_S + 1e6)
    waiting = submit(world, None, time_limit_s=60.0)
    world.pass_time(100.0)
    found = shown(world, store, foresight, job)
    assert (found["expected_end_at"], found["latest_end_at"]) == (None, 500)
    assert found["late_s"] == 0.0, "even at its limit it is in time"
    assert found["expected_source"] == "time limit"
    late = replace(world.jobs[job.id], spec=replace(job.spec, due_s=world.now.wall_s + 200.0))
    expected = foresight.of(late, world.live(job), world.now)
    assert foresight.late_s(late, expected, world.now) is None, "nobody knows"
    next_ = shown(world, store, foresight, waiting)
    assert (next_["expected_end_at"], next_["latest_end_at"]) == (None, 560)


def test_a_job_that_its_time_limit_ends_says_so(store: Store) -> None:
    world, foresight = one_gpu()
    job = submit(world, None, time_limit_s=110.0, due_s=EPOCH_S + 1e6)
    waiting = submit(world, 600.0, time_limit_s=60.0)
    assert shown(world, store, foresight, waiting)["expected_source"] == "time limit"
    world.pass_time(100.0)
    world.report(job, work_done=0.1)
    found = shown(world, store, foresight, job)
    assert (found["expected_end_at"], found["expected_source"]) == (10, "time limit")
    assert found["late_s"] is None, "it leaves no result"


def test_what_a_job_may_run_is_not_what_it_needs(store: Store) -> None:
    world, foresight = one_gpu()
    submit(world, None)
    job = submit(world, None, time_limit_s=600.0, due_s=EPOCH_S + 1e6)
    assert shown(world, store, foresight, job)["needs_s"] is None


def test_a_reservation_for_later_tells_the_start() -> None:
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)
    world = World(gpus(1), planners=(Backfill(),), settings=settings)
    world.submit(20 * GIB, time_limit_s=600.0)
    world.submit(38 * GIB, time_limit_s=1000.0)
    duration = Estimate(Quantity.DURATION, 100.0, 150.0, "declared")
    job = replace(world.jobs[2], estimates=(*world.jobs[2].estimates, duration))
    expected = Foresight(world.scheduler).of(job, None, world.now)
    assert (expected.start, expected.end) == (EPOCH_S + 1600.0, EPOCH_S + 1700.0)


def test_a_profile_of_several_kinds_gives_the_best_and_the_worst() -> None:
    a100, a6000 = gpus(1)[0], replace(gpus(2)[1], name="A6000")
    world = World((a100, a6000))
    job = replace(
        submit(world, None, gpus=2), held=False,
        profile=(Profiled("A100-40GB", 2, 100.0), Profiled("A6000", 2, 300.0)),
    )  # fmt: skip
    expected = Foresight(world.scheduler).of(job, None, world.now)
    assert (expected.source, expected.needs_s) == ("profile", 100.0)


def test_a_job_that_is_over_its_due_time_is_late_at_least_so_far(store: Store) -> None:
    world, foresight = one_gpu()
    job = submit(world, None, due_s=world.now.wall_s + 50.0, weight=0.5)
    world.pass_time(150.0)
    found = shown(world, store, foresight, job)
    assert found["late_s"] == pytest.approx(100.0)
    assert found["cost"] == pytest.approx(2.0 * 0.5 * 100.0 / HOUR_S)


@pytest.mark.parametrize(("due_s", "late_s"), [(50.0, 50.0), (100.0, 0.0), (1e6, 0.0)])
def test_an_ended_job_keeps_how_late_it_was(store: Store, due_s: float, late_s: float) -> None:
    world, foresight = one_gpu()
    job = submit(world, 100.0, due_s=world.now.wall_s + due_s)
    world.pass_time(100.0)
    ended = replace(world.jobs[job.id], state=JobState.COMPLETED, ended=world.now)
    world.jobs[job.id] = ended
    world.pass_time(1000.0)
    later = foresight.of(ended, None, world.now)
    assert later.end is None and later.unknown is None
    assert foresight.late_s(ended, later, world.now) == pytest.approx(late_s)
    failed = replace(ended, state=JobState.FAILED)
    assert foresight.late_s(failed, later, world.now) is None, "it brought no result"
    without = replace(ended, spec=replace(ended.spec, due_s=None))
    assert foresight.late_s(without, later, world.now) is None
    assert foresight.cost(without, None) is None


def test_a_failing_policy_only_hides_the_start() -> None:
    world, _ = one_gpu()
    submit(world, 1000.0)
    job = submit(world, 10.0)
    foresight = Foresight(world.scheduler, (default_planner(Magm(floor_mib=-1)),))
    expected = foresight.of(job, None, world.now, ())
    assert expected.unknown == "its start cannot be predicted"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("order", "its start cannot be predicted: jobs are before it"),
        ("price", "it waits for cheap energy"),
        ("cheaper", "it waits for cheap energy"),
        ("preemption", "it waits for cheap energy"),
        ("slots", "it waits for cheap energy"),
        ("memory", None),
        ("taken", None),
    ],
)
def test_a_planner_that_lets_a_job_wait_hides_its_start(rule: str, why: str | None) -> None:
    world, foresight = one_gpu()
    submit(world, 1000.0)
    job = submit(world, 10.0)
    refusals = (Refusal("count", "too few"), Refusal(rule, "it waits for cheap energy"))
    assert foresight.of(job, None, world.now, refusals).unknown == why


def test_the_next_job_need_not_be_the_first_of_its_line() -> None:
    """A planner may have an order of its own."""
    world, foresight = one_gpu()
    submit(world, 1000.0)
    submit(world, 10.0)
    last = submit(world, 50.0)
    expected = foresight.of(last, None, world.now, (Refusal("taken", "job 1 uses it", "GPU-0"),))
    assert expected.end == pytest.approx(world.now.wall_s + 1050.0)


def test_rows_of_an_array_are_one_only_if_they_are_due_together() -> None:
    world, _ = one_gpu()
    submit(world, 10.0)
    first, second, third = (world.jobs[job.id] for job in world.submit_array(3, GIB))
    row = Row(first)
    assert row.takes(second)
    assert not row.takes(replace(third, spec=replace(third.spec, due_s=5.0)))


def test_the_due_time_and_the_weight_of_a_running_job_can_change() -> None:
    world, foresight = one_gpu()
    job = submit(world, 1000.0)
    world.pass_time(10.0)
    assert world.where(job)
    assert world.edit(job, due_s=EPOCH_S, weight=7.0) is None
    changed = world.jobs[job.id]
    assert (changed.spec.due_s, changed.spec.weight) == (EPOCH_S, 7.0)
    moment = Instant(world.now.boot_s, EPOCH_S + HOUR_S)
    assert foresight.late_s(changed, foresight.of(changed, None, moment), moment) is not None


def test_every_job_of_a_prepared_line_has_an_expected_start(store: Store) -> None:
    world, foresight = one_gpu()
    submit(world, 1000.0, 1500.0)
    second, third = submit(world, 100.0, 200.0), submit(world, 50.0)
    endless, last = submit(world, None), submit(world, 10.0)
    for _ in foresight.prepare():
        pass

    def start(job: Job) -> tuple[float | None, ...]:
        found = foresight.of(world.jobs[job.id], None, world.now)
        known = (found.start, found.start_latest)
        return tuple(None if each is None else each - world.now.wall_s for each in known)

    assert start(second) == (1000.0, 1500.0)
    assert start(third) == (1100.0, 1700.0)
    assert start(endless) == (1150.0, 1750.0)
    assert start(last) == (None, None)
    found = JobDocuments(world.scheduler, store, foresight=foresight).row(Row(last), world.now)
    assert found.start_unknown == (
        f"its start cannot be predicted: job {endless.label}, before it, has no --time, "
        "no --duration and no earlier run"
    )
    later = submit(world, 10.0)
    assert start(later) == (None, None), "it was not there when the line was played"
    for _ in foresight.prepare():
        pass
    held = replace(world.jobs[second.id], held=True)
    assert foresight.of(held, None, world.now).start_unknown == "it is held"


def test_a_start_that_only_time_limits_bound_is_no_estimate() -> None:
    world, foresight = one_gpu()
    limited = world.submit(GIB, duration_s=None, time_limit_s=20_000.0)
    waiting, last = submit(world, 100.0), submit(world, 50.0)
    for _ in foresight.prepare():
        pass
    first, then = (foresight.of(world.jobs[job.id], None, world.now) for job in (waiting, last))
    latest_s = world.now.wall_s + 20_000.0
    assert world.where(limited)
    assert (first.start, first.start_latest) == (None, latest_s)
    assert "time limit" in (first.start_unknown or "")
    assert (first.end, first.latest) == (None, latest_s + 100.0)
    assert (then.start, then.start_latest) == (None, latest_s + 100.0)


def test_plays_that_take_long_are_kept_for_long() -> None:
    world, _ = one_gpu()
    submit(world, 1000.0)
    submit(world, 50.0)
    job = submit(world, 100.0)
    clock = iter(range(1000))
    planner = default_planner(Exclusive())
    foresight = Foresight(world.scheduler, (planner,), clock=lambda: float(next(clock)))
    for _ in foresight.prepare():
        pass
    world.end(1)
    for _ in foresight.prepare():
        pass
    expected = foresight.of(world.jobs[job.id], None, world.now)
    assert expected.start == world.now.wall_s + 1050.0, "a play of seconds is kept for a minute"
