"""What an attempt's record says about its last resize: why it has failed, and since when it has
its present size."""

from __future__ import annotations

from radrm.core import events as ev
from radrm.core.actions import Resize
from radrm.core.proposals import ResizeTo
from radrm.core.records import Attempt
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


def test_a_resize_notes_the_progress_at_which_the_new_size_began() -> None:
    world, job = silent()
    world.report(job, step=100.0, total=1000.0)
    grow(world)
    world.pass_time(5.0)
    attempt = live(world)
    about = {"job_id": 1, "serial": attempt.serial}
    world.step(ev.Resized(at=world.now, **about, target=GROWN))
    resized = live(world)
    assert resized.sized is not None and resized.resize_failed is None
    assert (resized.sized.step, resized.sized.at) == (100.0, world.now)
