"""Slow toy planners: what they propose follows from the view alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.proposals import Preempt, Proposal, Start
from radrm.core.records import Job, Placement, Refusal, Share
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import CheckpointKind, Collocation, JobState

LISTENS = frozenset({ev.JobSubmitted, ev.AttemptStarted, ev.AttemptEnded, ev.ReadingsTaken})


@dataclass(frozen=True)
class SlowStarter:
    """Starts the waiting jobs in their order, each on an idle GPU of its own."""

    name: str = "slow-starter"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = LISTENS

    def think(self, view: View, state: Any) -> Plan:
        return Plan(self._starts(view), {"plans": (state or {"plans": 0})["plans"] + 1})

    def _starts(self, view: View) -> Iterator[Proposal]:
        idle = [
            each.device
            for each in view.every_device()
            if not each.occupants and each.unreadable(view.now.boot_s) is None
        ]
        for job, device in zip(view.waiting(), idle, strict=False):
            share = Share(device=device.uuid, reserved_mib=device.capacity_mib)
            placement = Placement((share,), Collocation.EXCLUSIVE)
            yield Start(job_id=job.id, placement=placement)

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


@dataclass(frozen=True)
class SlowAndreas:
    """Preempts a patient job for a waiting one that is due."""

    name: str = "slow-andreas"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = LISTENS

    def think(self, view: View, state: Any) -> Plan:
        return Plan(self._preempts(view), (state or 0) + 1)

    def _preempts(self, view: View) -> Iterator[Proposal]:
        if any(job.state is JobState.STOPPING for job, _ in view.running()):
            return
        waiting = [job for job in view.waiting() if self._is_due(job)]
        victims = [
            job
            for job, _ in view.running()
            if not self._is_due(job)
            and (job.spec.requeue or job.spec.checkpoint.kind is not CheckpointKind.NONE)
        ]
        if waiting and victims:
            yield Preempt(job_id=victims[-1].id)

    def _is_due(self, job: Job) -> bool:
        return job.spec.due_s is not None or job.spec.priority > 0

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()
