"""The default planner: an order chooses the next job, a policy chooses its devices.

A plan is a generator. The core carries out each proposal before it asks for the next, so
the view changes between two of them: another job may have started, or be the head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.planning.assembly import Found
from radrm.core.planning.fallback import find_with_fallback
from radrm.core.proposals import Proposal, Start
from radrm.core.records import Job, Refusal, UserReservation
from radrm.core.rules import Plan, Planner, Policy
from radrm.core.view import View

OCCASIONS: frozenset[type[ev.Event]] = frozenset(
    {
        ev.JobSubmitted,
        ev.EstimateReady,
        ev.PredictionsReady,
        ev.CancelRequested,
        ev.HoldRequested,
        ev.RequeueRequested,
        ev.EditRequested,
        ev.DrainRequested,
        ev.DevicesSeen,
        ev.NodesSeen,
        ev.ReadingsTaken,
        ev.AttemptEnded,
        ev.LaunchVoided,
        ev.Resized,
        ev.SharesApplied,
        ev.ActionFailed,
    }
)
"""Only these events can make a job startable or a device available."""


@dataclass(frozen=True, slots=True)
class OrderPolicy(Planner):
    """Start the first job of each line: first the recovery queue.

    Jobs that recovery starts on idle devices go by `recovery_policy`. No job passes the head of
    its line, but by its turn on an MPS server, or on devices that are reserved for its user.
    """

    policy: Policy
    recovery_policy: Policy
    name: str = "default"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = OCCASIONS

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        plan = Plan(state=dict(state or {}))
        plan.proposals = self._starts(view, plan)
        return plan

    def _starts(self, view: View, plan: Plan) -> Iterator[Proposal]:
        if view.launches_paused:
            return  # no search would end otherwise
        for reserved in view.reserved_for_users():
            yield from self._by_reservation(view, plan, reserved)
        for gpuless in (False, True):
            yield from self._from_line(view, plan, gpuless)

    def _by_reservation(
        self, view: View, plan: Plan, reserved: UserReservation
    ) -> Iterator[Proposal]:
        """Start jobs on devices that are reserved for their users: no other job may use them."""
        tried, first = None, view.first_of(reserved)
        while first is not None and first is not tried:
            yield from self._start(view, first, plan, reserved.devices)
            tried, first = first, view.first_of(reserved)

    def _from_line(self, view: View, plan: Plan, gpuless: bool) -> Iterator[Proposal]:
        """Start the head of a line, as long as it can start."""
        tried, head = None, view.head(gpuless)
        while head is not None and head is not tried:
            if view.first_for_nodes(head) is not None:
                return
            yield from self._start(view, head, plan)
            tried, head = head, view.head(gpuless)

    def _start(
        self, view: View, job: Job, plan: Plan, only: Collection[str] | None = None
    ) -> Iterator[Proposal]:
        policy = self._policy_for(job)
        found = self._find(view, job, plan.state.get(policy.name), only)
        if found.placement is not None:
            yield self._started(job, found, plan)
        elif only is None:
            for refusal in found.refusals:
                if refusal.rule == "turn" and refusal.device is not None:
                    yield from self._start_next_by_turn(view, refusal.device, plan)

    def _started(self, job: Job, found: Found, plan: Plan) -> Start:
        """Return the start of a job where it was found room, and keep the policy's new state."""
        assert found.placement is not None
        if found.policy_state is not None:
            plan.state[self._policy_for(job).name] = found.policy_state
        return Start(job_id=job.id, placement=found.placement)

    def _start_next_by_turn(self, view: View, device: str, plan: Plan) -> Iterator[Proposal]:
        """Start the job that has the turn on a device's MPS server, on that device only."""
        following = view.next_by_turn(device)
        if following is not None:
            yield from self._start(view, following, plan, (device,))

    def _find(
        self, view: View, job: Job, policy_state: Any, only: Collection[str] | None = None
    ) -> Found:
        """Ask the job's policy, or the recovery queue's policy if the first one fails."""
        policy = self._policy_for(job)
        return find_with_fallback(view, policy, job, policy_state, self.recovery_policy, only)

    def _policy_for(self, job: Job) -> Policy:
        return self.recovery_policy if job.recovers_idle else self.policy

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        head = view.head(gpuless=not job.spec.gpus)
        found = self._find(view, job, None)
        behind: tuple[Refusal, ...] = ()
        if head is not None and head.id == job.id:
            head = view.first_for_nodes(job)
        if head is not None:
            why = f"job {head.label} ({head.spec.name}) is served first and cannot start yet"
            behind = (Refusal("order", why),)
        return behind + (found.refusals if found.placement is None else ())
