"""A server whose first job is preempted."""

from __future__ import annotations

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Preempt
from radrm.core.records import Attempt, Checkpoint, Exit, Job, Progress
from radrm.core.words import CheckpointKind
from tests.core.placements import CORE, propose
from tests.world import GIB, World, gpus

NONE, SIGNAL, EXIT = CheckpointKind.NONE, CheckpointKind.SIGNAL, CheckpointKind.EXIT
PATIENCE_S = CORE.checkpoint_limit_s
RAN_S = 3600.0
OK, BY_TERM = Exit(0), Exit(signal=15)


def server(kind: CheckpointKind = SIGNAL, devices: int = 1, **spec: object) -> World:
    """Job 1 has run for an hour; jobs 2 and 3 wait for as many GPUs as there are."""
    world = World(gpus(devices), settings=CORE)
    world.submit(30 * GIB, smact=0.1, checkpoint=Checkpoint(kind), **spec)
    for _ in range(2):
        world.submit(30 * GIB, gpus=devices, smact=0.1, requeue=True)
    world.obey = False
    world.pass_time(RAN_S)
    return world


def preempt(world: World, behind: bool = False) -> None:
    assert propose(world, Preempt(job_id=1, behind=behind)) is None


def attempt_of(world: World) -> Attempt:
    return world.attempts[1, max(number for job_id, number in world.attempts if job_id == 1)]


def save(world: World, work_done: float = 0.5) -> None:
    progress = Progress(world.now, work_done=work_done)
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=progress))


def end(world: World, how: Exit = BY_TERM, **said: object) -> Job:
    world.step(ev.AttemptEnded(at=world.now, job_id=1, serial=1, exits=(how,), **said))
    world.read()
    return world.jobs[1]


def stops(world: World) -> list[act.Action]:
    return [each for each in world.actions if isinstance(each, (act.Terminate, act.Kill))]


def line(world: World) -> list[int]:
    """The job that runs or is launched, and those that wait, in their order."""
    state = world.scheduler.state
    return [*sorted(state.attempts), *state.lines.gpu]
