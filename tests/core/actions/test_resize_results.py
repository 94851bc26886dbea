"""What an attempt's record says about its last resize: why it has failed, and since when it has
its present size."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.actions import Resize
from radrm.core.proposals import ResizeTo
from radrm.core.records import Attempt, Progress
from radrm.core.remaining import remaining
from tests.core.actions.silent import GROWN, silent
from tests.core.placements import propose
from tests.world import World


def grow(world: World) -> Resize:
    propose(world, ResizeTo(job_id=1, placement=GROWN))
    return next(a for a in reversed(world.actions) if isinstance(a, Resize))


def live(world: World) -> Attempt:
    found = world.live(1)
    assert found is not None
    return found


def test_a_failed_resize_says_why_until_the_next_one_begins() -> None:
    world, _ = silent()
    action = grow(world)
    world.step(ev.ActionFailed(at=world.now, action=action, reason="no standby came up"))
    failed = live(world)
    assert (failed.resize_failed, failed.target, failed.sized) == ("no standby came up", None, None)
    world.pass_time(600.0)
    grow(world)
    assert live(world).target == GROWN and live(world).resize_failed is None


def test_the_speed_at_a_new_size_counts_from_its_first_report() -> None:
    world, job = silent()
    world.report(job, work_done=0.1)
    grow(world)
    world.pass_time(9.0)
    late = Progress(world.now, work_done=0.15)
    about = {"job_id": 1, "serial": live(world).serial}
    world.step(ev.Resized(at=world.now, **about, target=GROWN))
    world.step(ev.ProgressReported(at=world.now, **about, progress=late))
    sized = live(world).sized
    assert sized is not None and live(world).resize_failed is None
    assert (sized.at, sized.work_done) == (world.now, None), "the report is of the size before"
    assert remaining(world.jobs[1], live(world), world.now) is None
    world.pass_time(1.0)
    world.report(job, work_done=0.17)
    world.pass_time(10.0)
    world.report(job, work_done=0.19)
    found = remaining(world.jobs[1], live(world), world.now)
    assert found.value_s == pytest.approx(10.0 / 0.02 * 0.81)
