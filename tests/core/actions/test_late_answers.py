"""What comes late, about a launch that is over, does not touch the next launch of its number."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import AttemptMemory, Exit, Job, Placement, Progress, Reading, Share
from radrm.core.words import Collocation, JobState
from tests.world import GIB, World, gpus

SHARES = (Share("GPU-0", 7 * GIB),)
PLACEMENT = Placement(SHARES, Collocation.TIMESLICE)
DUE_S = 1300.0
VOID = 1
"""The serial of the launch that is over."""


def launched_again() -> tuple[World, Job]:
    """A job whose first launch was void, and whose second one, with the same number, runs."""
    world = World(gpus(1))
    world.obey = False
    job = world.submit(4 * GIB)
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=VOID))
    world.obey = True
    world.read()
    again = world.live(job)
    assert (again.number, again.serial) == (1, 2)
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=2))
    world.pass_time(1.0)
    assert world.state(job) is JobState.RUNNING
    return world, job


def late_events(world: World) -> list[ev.Event]:
    about = {"at": world.now, "job_id": 1, "serial": VOID}
    failed = [
        act.Launch(
            job_id=1, serial=VOID, number=1, placement=PLACEMENT, cap_mib=None, shared=False
        ),
        act.TakeCheckpoint(job_id=1, serial=VOID, due_boot_s=DUE_S),
        act.Resize(job_id=1, serial=VOID, target=PLACEMENT, due_boot_s=DUE_S),
        act.ApplyShares(job_id=1, serial=VOID, shares=SHARES, due_boot_s=DUE_S),
        act.Kill(job_id=1, serial=VOID),
    ]
    return [
        ev.AttemptStarted(**about),
        ev.LaunchVoided(**about),
        ev.AttemptEnded(**about, exits=(Exit(1),)),
        ev.AttemptEnded(**about, lost="its runner was killed"),
        ev.ProgressReported(**about, progress=Progress(at=world.now, loss=0.1)),
        ev.CheckpointTaken(**about),
        ev.Resized(**about, target=PLACEMENT),
        ev.SharesApplied(**about, shares=SHARES),
        *(ev.ActionFailed(at=world.now, action=action, reason="late") for action in failed),
    ]


@pytest.mark.parametrize("which", range(13))
def test_a_late_event_of_a_void_launch_does_not_touch_the_next(which: int) -> None:
    world, job = launched_again()
    before = world.live(job), world.jobs[job.id]
    events = late_events(world)
    assert len(events) == 13
    decision = world.step(events[which])
    assert (decision.changed, decision.actions, decision.dropped) == ((), (), ())
    assert (world.live(job), world.jobs[job.id]) == before


def test_memory_of_a_void_launch_is_not_the_next_launchs() -> None:
    world, job = launched_again()
    late = (AttemptMemory(job.id, VOID, 9 * GIB),)
    world.step(
        ev.ReadingsTaken(
            at=world.now,
            readings=(Reading("GPU-0", world.now, used_mib=9 * GIB, attempts=late, smact=0.0),),
        )
    )
    device = world.scheduler.snapshot.device("GPU-0")
    assert device.occupants[job.id].usage.peak_mib == 0
    assert device.unmanaged_mib == 9 * GIB
