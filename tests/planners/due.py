"""Worlds with the planner `deadline`, for its tests."""

from __future__ import annotations

from typing import Any

from radrm.core import actions as act
from radrm.core.records import Checkpoint, Job
from radrm.core.rules import Order, Policy
from radrm.core.settings import CoreSettings
from radrm.core.words import CheckpointKind
from radrm.deadlines import Costs
from radrm.planners.deadline import NOTES, Deadline
from radrm.policies.exclusive import Exclusive
from tests.world import GIB, World, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL, cost_s=10.0)
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, stretch=1.0)


def deadline(policy: Policy | None = None, **settings: Any) -> Deadline:
    policy = policy or Exclusive()
    return Deadline(policy, Exclusive(whole_device=policy.whole_device), **settings)


class Due(World):
    """GPUs whose jobs are started by `deadline`; it keeps who was asked to give way."""

    def __init__(
        self,
        count: int = 1,
        *,
        policy: Policy | None = None,
        order: Order | None = None,
        costs: Costs | None = None,
        devices: Any = None,
        **settings: Any,
    ) -> None:
        if costs is not None:
            settings["costs"] = costs
        rule = deadline(policy, **settings)
        self.saves = True
        super().__init__(devices or gpus(count), planners=(rule,), order=order, settings=SETTINGS)

    def job(self, duration_s: float | None, due_in_s: float | None = None, **spec: Any) -> Job:
        """Submit a job that is due in so many seconds from now."""
        due_s = None if due_in_s is None else self.now.wall_s + due_in_s
        return self.submit(GIB, duration_s=duration_s, due_s=due_s, **spec)

    def _do(self, action: act.Action) -> None:
        if self.saves or not isinstance(action, act.TakeCheckpoint):
            super()._do(action)

    @property
    def asked(self) -> list[int]:
        """The jobs that were asked to save, in their order."""
        return [a.job_id for a in self.actions if isinstance(a, act.TakeCheckpoint)]

    @property
    def notes(self) -> dict[str, Any]:
        kept = self.rule_states.get(("planner", "deadline"))
        found: dict[str, Any] = {} if kept is None or kept.state is None else kept.state
        return dict(found.get(NOTES, {}))

    def reasons(self, job: Job) -> list[str]:
        return [r.message for r in self.scheduler.why_waiting(job.id, self.now)]


def running(world: World, *jobs: Job) -> list[bool]:
    return [bool(world.where(job)) for job in jobs]


def end_and_read(world: World, job: Job) -> None:
    world.end(job)
    world.read()
