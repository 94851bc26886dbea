"""No rule stops more running work for waiting jobs than they need, however slow a host is.

Each host here saves, stops and reads its GPUs late, so that the rules are asked many times between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.requests import with_cpus
from radrm.core.proposals import Preempt, SetShares
from radrm.core.records import (
    LOCAL_NODE,
    Checkpoint,
    Device,
    Exit,
    Job,
    Needs,
    Node,
    Progress,
    Role,
)
from radrm.core.rules import Planner, SlowPlanner
from radrm.core.settings import CoreSettings
from radrm.core.words import CheckpointKind, JobState, Resizing
from radrm.elastic.planner import Elastic
from radrm.planners.slots import Slots
from radrm.policies.exclusive import Exclusive
from radrm.published.andreas import Andreas
from tests.core.placements import propose
from tests.planners.due import deadline
from tests.world import GIB, World, default_planner, gpus

READ_S, SAVE_S, STOP_S = 2.0, 20.0, 5.0
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, stretch=1.0)
SIGNAL, EXIT = CheckpointKind.SIGNAL, CheckpointKind.EXIT
LONG_S = 50_000.0


class Late(World):
    """Whatever it is asked for happens some seconds later."""

    def __init__(
        self, devices: Sequence[Device], planners: Sequence[Planner | SlowPlanner], **more: Any
    ) -> None:
        self.queue: list[tuple[float, int, Callable[[], object]]] = []
        self.count = 0
        super().__init__(devices, planners=tuple(planners), settings=SETTINGS, **more)

    def at(self, in_s: float, what: Callable[[], object]) -> None:
        self.count += 1
        heappush(self.queue, (self.boot_s + in_s, self.count, what))

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.TakeReadings):
            self.at(READ_S, lambda: self.read(action.devices))
        elif isinstance(action, act.TakeCheckpoint):
            self.at(SAVE_S, lambda: self._saved(action))
        elif isinstance(action, act.Terminate):
            self.at(STOP_S, lambda: self._ended(action, Exit(signal=15)))
        elif isinstance(action, (act.Resize, act.ApplyShares)):
            self.at(STOP_S, lambda: super(Late, self)._do(action))
        else:
            super()._do(action)

    def _saved(self, action: act.TakeCheckpoint) -> None:
        live = self.live(action.job_id)
        if live is None or live.serial != action.serial:
            return
        about: dict[str, Any] = {"job_id": action.job_id, "serial": action.serial}
        saved = Progress(self.now, work_done=0.5)
        self.step(ev.CheckpointTaken(at=self.now, **about, progress=saved))
        if self.jobs[action.job_id].spec.checkpoint.kind is EXIT:
            self._ended(action, Exit(0))

    def _ended(self, action: act.AttemptAction, how: Exit) -> None:
        live = self.live(action.job_id)
        if live is not None and live.serial == action.serial:
            about: dict[str, Any] = {"job_id": action.job_id, "serial": action.serial}
            self.step(ev.AttemptEnded(at=self.now, **about, exits=(how,)))

    def run(self, seconds: float) -> None:
        until_s = self.boot_s + seconds
        while self.boot_s < until_s:
            next_s = min(until_s, self.boot_s + 1.0, *(each[0] for each in self.queue[:1]))
            self.pass_time(max(0.0, next_s - self.boot_s), read=False)
            while self.queue and self.queue[0][0] <= self.boot_s:
                heappop(self.queue)[2]()
        assert not self.scheduler.errors(self.now)

    def asks(self) -> list[int]:
        """The jobs that were asked to leave GPUs, in the order of the requests."""
        asked = (act.TakeCheckpoint, act.Resize, act.ApplyShares)
        return [each.job_id for each in self.actions if isinstance(each, asked)]


PLANNERS: dict[str, Callable[[], Sequence[Planner | SlowPlanner]]] = {
    "slots": lambda: (default_planner(Exclusive()), Slots(Exclusive(), 3000.0, 100.0)),
    "deadline": lambda: (deadline(),),
    "andreas": lambda: (Andreas(max_iterations=60),),
}


def full(planner: str, kind: CheckpointKind = SIGNAL, count: int = 4) -> Late:
    """A server whose GPUs all have a long job that can save; each has run for nearly an hour."""
    world = Late(gpus(count), PLANNERS[planner]())
    for _ in range(count):
        world.submit(GIB, duration_s=LONG_S, checkpoint=Checkpoint(kind))
        world.run(1.0)
    world.run(3500.0)
    world.actions.clear()
    return world


def urgent(world: Late, **spec: Any) -> Job:
    due_s = world.now.wall_s + 400.0
    return world.submit(GIB, duration_s=300.0, due_s=due_s, weight=50.0, **spec)


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("waiting", [1, 2])
def test_as_many_are_stopped_as_wait(planner: str, kind: CheckpointKind, waiting: int) -> None:
    world = full(planner, kind)
    jobs = [urgent(world) for _ in range(waiting)]
    world.run(300.0)
    assert len(world.asks()) == waiting
    assert {world.state(job) for job in jobs} == {JobState.RUNNING}


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("how", ["ends", "is cancelled"])
def test_a_gpu_that_comes_free_anyway_counts(planner: str, how: str) -> None:
    world = full(planner)
    if how == "ends":
        live = world.live(1)
        done = ev.AttemptEnded(at=world.now, job_id=1, serial=live.serial, exits=(Exit(0),))
        world.step(done)
    else:
        world.cancel(1)
    job = urgent(world)
    world.run(300.0)
    assert (world.asks(), world.state(job)) == ([], JobState.RUNNING)


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_job_that_leaves_for_another_reason_counts(planner: str, kind: CheckpointKind) -> None:
    world = full(planner, kind)
    assert propose(world, Preempt(job_id=1, behind=True)) is None
    job = urgent(world)
    world.run(300.0)
    assert (world.asks(), world.state(job)) == ([1], JobState.RUNNING)


@pytest.mark.parametrize("resizing", [Resizing.LIVE, Resizing.RESTART])
def test_one_elastic_job_gives_back_what_one_job_needs(resizing: Resizing) -> None:
    rule = Elastic(Exclusive(), Exclusive())
    world = Late(gpus(4), (default_planner(Exclusive()), rule))
    roles = (Role(count_min=1, count_max=2, needs=Needs(gpus=1)),)
    grown = [
        world.submit(GIB, roles=roles, resizing=resizing, checkpoint=Checkpoint(SIGNAL))
        for _ in range(2)
    ]
    world.run(10.0)
    for job in grown:
        size = (("main", 2),)
        world.step(ev.ResizeRequested(at=world.now, job_id=job.id, by="ann", counts=size))
        world.run(60.0)
    assert [len(world.where(job)) for job in grown] == [2, 2]
    world.actions.clear()
    waits = world.submit(GIB)
    world.run(120.0)
    assert world.state(waits) is JobState.RUNNING
    assert len(world.asks()) == 1


def test_one_elastic_job_gives_back_the_cpus_that_one_job_needs() -> None:
    rule = Elastic(Exclusive(), Exclusive())
    node = Node(LOCAL_NODE, cpus=12.0)
    world = Late(gpus(3), (default_planner(Exclusive()), rule), node=node)
    roles = (Role(needs=Needs(gpus=1, cpus=2.0, cpus_max=6.0)),)
    grown = [world.submit(GIB, roles=roles, resizing=Resizing.LIVE) for _ in range(2)]
    for job in grown:
        shares = with_cpus(world.live(job).placement, {("main", 0): 6.0}).shares
        assert propose(world, SetShares(job_id=job.id, shares=shares)) is None
        world.run(10.0)
    world.actions.clear()
    waits = world.submit(GIB, cpus=3.0)
    world.run(60.0)
    assert (len(world.asks()), world.state(waits)) == (1, JobState.RUNNING)
