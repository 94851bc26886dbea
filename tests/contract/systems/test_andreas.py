"""ANDREAS through `step`: a planner weighs waiting against running jobs and preempts.

After section IV of ANDREAS: jobs are served by *pressure*, now + fastest time -
due date (equation 2); one with less pressure that can checkpoint gives way to one
that is due. The planner runs *instead of* order x policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.planning.assembly import find_placement
from radrm.core.proposals import Preempt, Proposal, Start
from radrm.core.records import Checkpoint, Job, Refusal
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import CheckpointKind, JobState, Outcome
from radrm.policies.exclusive import Exclusive
from tests.world import EPOCH_S, GIB, World, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL)
FASTEST_S = 600.0


@dataclass(frozen=True)
class Andreas:
    name: str = "andreas"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = frozenset(
        {ev.JobSubmitted, ev.AttemptStarted, ev.AttemptEnded, ev.ReadingsTaken}
    )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self._schedule(view))

    def pressure(self, view: View, job: Job) -> float:
        due = job.spec.due_s
        return view.now.wall_s + FASTEST_S - due if due is not None else float("-inf")

    def _schedule(self, view: View) -> Iterator[Proposal]:
        for job in sorted(view.waiting(), key=lambda j: (-self.pressure(view, j), j.id)):
            found = find_placement(view, Exclusive(), job, None)
            if found.placement is not None:
                yield Start(job_id=job.id, placement=found.placement)
                continue
            if any(other.state is JobState.STOPPING for other, _ in view.running()):
                return
            victims = [
                other
                for other, _ in view.running()
                if self.pressure(view, other) < self.pressure(view, job)
                and other.spec.checkpoint.kind is not CheckpointKind.NONE
                and other.state is JobState.RUNNING
            ]
            if victims:
                yield Preempt(job_id=min(victims, key=lambda j: self.pressure(view, j)).id)
            return

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        found = find_placement(view, Exclusive(), job, None)
        return found.refusals if found.placement is None else ()


def due_in(seconds: float) -> float:
    return EPOCH_S + 1000.0 + seconds


def test_one_that_can_checkpoint_gives_way_to_one_that_is_due() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    patient = world.submit(8 * GIB, checkpoint=CAN_SAVE)
    world.report(patient, work_done=0.5)
    urgent = world.submit(8 * GIB, due_s=due_in(700))
    assert world.state(urgent) is JobState.RUNNING
    waiting = world.jobs[patient.id]
    assert waiting.state is JobState.PENDING
    assert waiting.progress and waiting.progress.work_done == 0.5, "as of its checkpoint"
    assert world.attempts[patient.id, 1].outcome is Outcome.PREEMPTED
    world.end(urgent)
    assert (world.state(patient), world.jobs[patient.id].attempts) == (JobState.RUNNING, 2)


def test_one_that_cannot_checkpoint_is_left_alone() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    stubborn = world.submit(8 * GIB)
    urgent = world.submit(8 * GIB, due_s=due_in(100))
    assert world.state(stubborn) is JobState.RUNNING
    assert world.why(urgent) == ["taken", "count"]
    decision = world.step(
        ev.PlanReady(
            at=world.now,
            planner="andreas",
            version=world.scheduler.view.version,
            proposals=(Preempt(job_id=stubborn.id),),
        )
    )
    assert [r.rule for _, r in decision.rejections] == ["checkpoint"]


def test_the_more_pressing_of_two_is_served_first() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    first = world.submit(8 * GIB)
    later = world.submit(8 * GIB, due_s=due_in(9000))
    sooner = world.submit(8 * GIB, due_s=due_in(800))
    world.end(first)
    assert world.state(sooner) is JobState.RUNNING
    assert world.state(later) is JobState.PENDING


def test_an_answer_about_a_job_that_has_changed_since_is_not_acted_on() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    job = world.submit(8 * GIB, checkpoint=CAN_SAVE)
    seen = world.scheduler.view.version
    assert world.edit(job, priority=9) is None
    assert [r.rule for _, r in answer_late(world, job, seen).rejections] == ["stale"]
    assert world.state(job) is JobState.RUNNING


def test_progress_and_readings_make_no_answer_stale() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    job = world.submit(8 * GIB, checkpoint=CAN_SAVE)
    seen = world.scheduler.view.version
    world.report(job, work_done=0.9)
    world.used[job.id] = 4 * GIB
    world.pass_time(1.0)
    assert answer_late(world, job, seen).rejections == ()
    assert world.jobs[job.id].attempts == 2, "it was preempted, and runs again"
    said = "preempted: the planner andreas asked for a preemption"
    assert world.attempts[job.id, 1].reason == said


def answer_late(world: World, job: Job, seen: int) -> Decision:
    """Andreas answers that it preempts the job; it has looked at version `seen`."""
    proposals = (Preempt(job_id=job.id),)
    return world.step(
        ev.PlanReady(at=world.now, planner="andreas", version=seen, proposals=proposals)
    )


def test_preempted_too_late_it_still_ends_where_its_reason_says() -> None:
    world = World(gpus(1), planners=(Andreas(),))
    world.obey = False
    job = world.submit(8 * GIB, checkpoint=CAN_SAVE)
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=1))
    world.submit(8 * GIB, due_s=due_in(0))
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=1))
    assert world.state(job) is JobState.STOPPING
    world.step(ev.CancelRequested(at=world.now, job_id=job.id, by="ann"))
    world.end(job, signal=15)
    assert world.state(job) is JobState.CANCELLED
