"""A server whose first job is asked to save its work."""

from __future__ import annotations

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Proposal, TakeCheckpointNow
from radrm.core.records import Checkpoint, Exit, Job, OutOfMemory, Progress
from radrm.core.words import CheckpointKind, Outcome
from tests.core.placements import CORE, propose
from tests.world import GIB, World, gpus

EXIT, SIGNAL = CheckpointKind.EXIT, CheckpointKind.SIGNAL
PATIENCE_S = CORE.checkpoint_limit_s
LONG_S = 3600.0


def saving(kind: CheckpointKind, **spec: object) -> tuple[World, Job]:
    """A job that has run for an hour on GPU-0; GPU-1 is free."""
    world = World(gpus(2), settings=CORE)
    job = world.submit(GIB, smact=0.1, checkpoint=Checkpoint(kind), **spec)
    world.obey = False
    world.pass_time(LONG_S)
    return world, job


def ask(world: World, proposal: Proposal | None = None) -> act.TakeCheckpoint:
    assert propose(world, proposal or TakeCheckpointNow(job_id=1)) is None
    asked = world.actions[-1]
    assert isinstance(asked, act.TakeCheckpoint)
    return asked


def save(world: World, job: Job, work_done: float | None, serial: int = 1) -> None:
    progress = None if work_done is None else Progress(world.now, work_done=work_done)
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=serial, progress=progress))


def end(world: World, job: Job, how: Exit, **said: object) -> Job:
    live = world.live(job)
    assert live is not None
    exits = () if "lost" in said else (how,)
    world.step(
        ev.AttemptEnded(at=world.now, job_id=job.id, serial=live.serial, exits=exits, **said)
    )
    return world.jobs[job.id]


OK, BY_TERM, BY_USR1, BAD = Exit(0), Exit(signal=15), Exit(signal=10), Exit(1)
KILLED, CRASHED = Exit(signal=9), Exit(signal=11)
OOM = OutOfMemory("pytorch")
SHELL_BY_TERM = Exit(143)
UNKNOWN = Exit()
DONE, LEFT, FAILED, LOST = Outcome.COMPLETED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.LOST
