"""SpeCon through `step`: checkpoint a slow-growing job, stop it, go on elsewhere.

After Algorithms 3 and 4 of SpeCon (thesis, section 5.2): a job whose gain falls
twice in a row below a threshold has converged; it is migrated, once, to the
worker (here: the device) with the lowest weighted score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Proposal
from radrm.core.records import Checkpoint, Job, Placement, Refusal
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import CheckpointKind, JobState, Outcome, ReservationKind
from radrm.structs import replace
from tests.world import GIB, World, default_planner, gpus

WEIGHTS = {"progressing": 2.0, "watching": 1.5, "converged": 1.0}
CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL, cost_s=5.0)


@dataclass(frozen=True)
class SpeCon:
    alpha: float = 0.05
    name: str = "specon"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.ProgressReported})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        assert isinstance(event, ev.ProgressReported)
        table = {k: dict(v) for k, v in (state or {}).items()}
        mine = table.setdefault(
            str(event.job_id), {"in": "progressing", "value": None, "gain": None, "moved": False}
        )
        value = event.progress.loss or 0.0
        gain = abs(value - mine["value"]) if mine["value"] is not None else None
        if gain is not None and gain < self.alpha and gain <= (mine["gain"] or gain):
            mine["in"] = "watching" if mine["in"] == "progressing" else "converged"
        elif gain is not None and gain > self.alpha:
            mine["in"] = "progressing"
        mine.update(value=value, gain=gain)
        plan = Plan(state=table)
        if mine["in"] == "converged" and not mine["moved"]:
            mine["moved"] = True
            plan.proposals = self._move(view, event.job_id, table)
        return plan

    def _move(self, view: View, job_id: int, table: dict[str, Any]) -> Iterator[Proposal]:
        score = {device.uuid: 0.0 for device in view.devices()}
        for job, attempt in view.running():
            kind = table.get(str(job.id), {"in": "progressing"})["in"]
            for uuid in attempt.placement.devices:
                score[uuid] += WEIGHTS[kind]
        attempt = next(a for j, a in view.running() if j.id == job_id)
        (here,) = attempt.placement.devices
        best = min(score, key=lambda uuid: (score[uuid], uuid != here))
        if best != here:
            shares = tuple(replace(s, device=best) for s in attempt.placement.shares)
            yield Migrate(
                job_id=job_id,
                placement=Placement(shares, attempt.placement.collocation),
            )

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


def specon_world() -> tuple[World, Job]:
    """GPU-0 with a checkpointing job and a neighbour; GPU-1 free since a moment."""
    world = World(gpus(2), planners=(default_planner(), SpeCon()))
    slow = world.submit(8 * GIB, smact=0.3, checkpoint=CAN_SAVE)
    blocker = world.submit(30 * GIB, smact=0.3)
    neighbour = world.submit(8 * GIB, smact=0.3)
    world.end(blocker)
    assert world.where(slow) == world.where(neighbour) == ("GPU-0",)
    return world, slow


def converge(world: World, job: Job) -> None:
    for loss, done in ((1.0, 0.5), (0.99, 0.55), (0.985, 0.6)):
        world.report(job, loss=loss, work_done=done)


def test_a_converged_job_goes_on_elsewhere_with_its_work() -> None:
    world, slow = specon_world()
    converge(world, slow)
    assert world.where(slow) == ("GPU-1",)
    kinds = [type(a) for a in world.actions if getattr(a, "job_id", 0) == slow.id]
    assert kinds == [act.Launch, act.TakeCheckpoint, act.Terminate, act.Launch]
    moved = world.jobs[slow.id]
    assert (moved.state, moved.attempts, moved.target) == (JobState.RUNNING, 2, None)
    assert world.attempts[slow.id, 1].outcome is Outcome.PREEMPTED
    assert moved.saved and moved.saved.work_done == 0.6
    assert moved.progress == moved.saved, "work survives the attempt"
    converge(world, slow)
    assert world.jobs[slow.id].attempts == 2, "at most once"


def test_the_place_where_it_goes_is_reserved_meanwhile() -> None:
    world, slow = specon_world()
    world.obey = False
    converge(world, slow)
    assert world.reservations["job:1", "GPU-1"].kind is ReservationKind.MIGRATION
    rival = world.submit(36 * GIB, smact=0.1)
    assert world.state(rival) is JobState.PENDING
    world.step(
        ev.CheckpointTaken(
            at=world.now, job_id=slow.id, serial=1, progress=world.jobs[slow.id].progress
        )
    )
    world.restart()
    assert world.reservations["job:1", "GPU-1"].kind is ReservationKind.MIGRATION
    world.end(slow, signal=15)
    assert world.where(slow) == ("GPU-1",)


def test_a_failed_checkpoint_leaves_it_running_where_it_is() -> None:
    world, slow = specon_world()
    world.obey = False
    converge(world, slow)
    asked = next(a for a in world.actions if isinstance(a, act.TakeCheckpoint))
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="no answer"))
    assert world.where(slow) == ("GPU-0",)
    assert world.jobs[slow.id].target is None
    assert ("job:1", "GPU-1") not in world.reservations


def test_a_target_that_has_gone_bad_only_costs_the_migration() -> None:
    world, slow = specon_world()
    world.obey = False
    converge(world, slow)
    world.step(
        ev.CheckpointTaken(
            at=world.now, job_id=slow.id, serial=1, progress=world.jobs[slow.id].progress
        )
    )
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="ECC"))
    world.end(slow, signal=15)
    world.read()
    assert world.where(slow) == ("GPU-0",)
    assert world.jobs[slow.id].saved is not None


def test_what_cannot_save_its_work_is_not_moved() -> None:
    world = World(gpus(2), planners=(default_planner(), SpeCon()))
    job = world.submit(8 * GIB, smact=0.1)
    world.submit(30 * GIB, smact=0.1)
    world.submit(8 * GIB, smact=0.1)
    world.end(2)
    converge(world, job)
    assert world.where(job) == ("GPU-0",)
    refused = [r.rule for d in world.decisions for _, r in d.rejections]
    assert refused == ["checkpoint"]
