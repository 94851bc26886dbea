"""Elastic jobs that train, in a world of their own: they report as fast as their size lets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import LOCAL_NODE, Attempt, Job, Needs, Node, Progress, Role
from radrm.core.words import Resizing
from radrm.elastic.elasticity.notes import Scaling
from radrm.elastic.planner import Elastic
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.world import GIB, World, default_planner, gpus

STOP_S = 2.0
"""The time without a step at a resize."""


@dataclass
class Training:
    """One job's model: the parts of its step, and what CPUs take from `io`."""

    scaling: Scaling
    total: float = 100_000.0
    cpus_needed: float = 0.0
    step: float = 0.0
    still_s: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)


class Trainings:
    """A world whose jobs report each second; a resize costs `STOP_S`."""

    def __init__(
        self, count: int = 4, cpus: float | None = None, planner: Elastic | None = None
    ) -> None:
        alone: Any = Exclusive()
        self.planner = planner or Elastic(Magm(), alone)
        node = None if cpus is None else Node(LOCAL_NODE, cpus=cpus)
        self.world = World(gpus(count), planners=(default_planner(), self.planner), node=node)
        self.models: dict[int, Training] = {}

    def submit(
        self,
        scaling: Scaling,
        most: int = 4,
        *,
        total: float = 100_000.0,
        cpus: float | None = None,
        cpus_max: float | None = None,
        cpus_needed: float = 0.0,
        resizing: Resizing = Resizing.LIVE,
    ) -> Job:
        needs = Needs(gpus=1, cpus=cpus, cpus_max=cpus_max)
        roles: Sequence[Role] = (Role(count_min=1, count_max=most, needs=needs),)
        job = self.world.submit(30 * GIB, smact=0.9, roles=roles, resizing=resizing)
        self.models[job.id] = Training(scaling, total, cpus_needed)
        return job

    def size(self, job: Job) -> int:
        return len(self.world.where(job))

    def attempt(self, job: Job) -> Attempt:
        attempt = self.world.live(job)
        assert attempt is not None
        return attempt

    def cpus(self, job: Job) -> float | None:
        return self.attempt(job).placement.shares[0].cpus

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            seen = len(self.world.actions)
            self.world.pass_time(1.0)
            for job_id, model in self.models.items():
                self._train(job_id, model)
            for action in self.world.actions[seen:]:
                if isinstance(action, act.Resize):
                    self.models[action.job_id].still_s = STOP_S
        assert not self.world.scheduler.errors(self.world.now)

    def _train(self, job_id: int, model: Training) -> None:
        job = self.world.jobs[job_id]
        attempt = self.world.live(job)
        if attempt is None:
            return
        if model.still_s > 0:
            model.still_s -= 1.0
            return
        workers, io_s = len(attempt.placement.devices), model.scaling.io_s
        cpus = attempt.placement.shares[0].cpus
        if cpus is not None and model.cpus_needed:
            io_s *= model.cpus_needed / cpus
        step_s = io_s + model.scaling.step_s(workers) - model.scaling.io_s
        model.step = min(model.total, model.step + 1.0 / step_s)
        wait = io_s / step_s
        progress = Progress(
            self.world.now, model.step, model.total, None, model.step / model.total, None, wait
        )
        self.world.step(
            ev.ProgressReported(
                at=self.world.now, job_id=job_id, serial=attempt.serial, progress=progress
            )
        )

    def why(self, job: Job) -> list[str]:
        return [each.rule for each in self.planner.why_size(self.world.scheduler.view, job)]
