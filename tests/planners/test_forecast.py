"""When a waiting job could start: by reports, by saved work, and beside jobs that join."""

from __future__ import annotations

import pytest

from radrm.core.records import Job, Placement, Progress, Share
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation
from radrm.planners.forecast import Forecast
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, stretch=1.0)


def two(duration_s: float | None = 1000.0) -> tuple[World, Job, Job]:
    """A job that runs for 100 s so far, and one that waits for its GPU."""
    world = World(gpus(1, mps=True, mps_spans=True), policy=Exclusive(), settings=CORE)
    running = world.submit(GIB, smact=1.0, duration_s=duration_s)
    head = world.submit(GIB, smact=1.0, duration_s=100.0)
    world.pass_time(100.0)
    return world, running, head


def forecast(world: World, head: Job) -> Forecast:
    return Forecast(world.scheduler.view, Exclusive(), world.jobs[head.id])


def test_the_duration_says_when_a_silent_job_ends() -> None:
    world, _, head = two()
    assert forecast(world, head).start_s == pytest.approx(world.boot_s + 900.0)


@pytest.mark.parametrize("duration_s", [1000.0, None])
def test_what_a_job_reports_counts_more_than_its_duration(duration_s: float | None) -> None:
    world, running, head = two(duration_s)
    world.report(running, work_done=0.25)
    assert forecast(world, head).start_s == pytest.approx(world.boot_s + 300.0)


@pytest.mark.parametrize("reports", [True, False])
def test_a_job_that_joins_delays_the_end(reports: bool) -> None:
    world, running, head = two()
    if reports:
        world.report(running, work_done=0.1)
    placement = Placement((Share("GPU-0", GIB),), Collocation.MPS)
    found = forecast(world, head)
    joining = world.submit(GIB, smact=1.0, duration_s=1.0)
    assert found.start_after_s(world.jobs[joining.id], placement) > found.start_s + 100.0


def test_a_job_that_goes_on_needs_only_the_rest() -> None:
    world, _, head = two()
    other = world.submit(GIB, smact=1.0, duration_s=1000.0)
    placement = Placement((Share("GPU-0", GIB),), Collocation.EXCLUSIVE)
    found, job = forecast(world, head), world.jobs[other.id]
    alone_s = found.end_of(job, placement) - world.boot_s
    job = replace(job, saved=Progress(world.now, work_done=0.5))
    assert found.end_of(job, placement) - world.boot_s == pytest.approx(alone_s / 2)
