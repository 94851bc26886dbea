"""EASY backfill as a toy planner: the head of the line has a reservation, short jobs pass it.

After Lifka's EASY scheduler: only the head has a reservation, at the earliest moment at which
the running jobs will have left. Others start if they end before, or need what is left beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.planning.placing import Placer
from radrm.core.proposals import Proposal, Reserve, Start
from radrm.core.records import Job, Refusal
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.policies.sharing import Magm

POLICY = Magm(margin_mib=0, min_free_mib=0)
UNKNOWN_S = 3600.0
"""A job without a time limit is expected to run for so long."""


@dataclass(frozen=True)
class Backfill:
    fails: tuple[int, ...] = ()
    """The planner raises while one of these jobs waits."""
    wakes: bool = True
    name: str = "easy"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = frozenset(
        {
            *(ev.JobSubmitted, ev.AttemptEnded, ev.ReadingsTaken, ev.EditRequested),
            *(ev.CancelRequested, ev.HoldRequested, ev.DevicesSeen),
        }
    )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        plan = Plan()
        plan.proposals = self._schedule(view, plan)
        return plan

    def _schedule(self, view: View, plan: Plan) -> Iterator[Proposal]:
        head = view.head()
        for job in list(view.waiting()):
            found = Placer(view, POLICY, job, None).find()
            if found.placement is not None:
                yield Start(job_id=job.id, placement=found.placement)
            elif job is head and (slot := self._slot(view, job)) is not None:
                uuid, need, start_s, length_s = slot
                plan.wake_at = start_s if self.wakes else None
                yield Reserve(
                    job_id=job.id,
                    devices=((uuid, need),),
                    start_s=start_s,
                    end_s=start_s + length_s,
                )
            assert job.id not in self.fails

    def _slot(self, view: View, job: Job) -> tuple[str, int | None, float, float] | None:
        need, length_s = view.need_mib(job, job.spec.roles[0]), job.spec.time_limit_s or UNKNOWN_S
        every = [
            (start_s, device.uuid)
            for device in view.devices()
            if (start_s := view.earliest_s(device.uuid, need, length_s, job)) is not None
        ]
        return (min(every)[1], need, min(every)[0], length_s) if every else None

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        found = Placer(view, POLICY, job, None).find()
        return found.refusals if found.placement is None else ()
