"""The planner `strict`: an order chooses the next job, a policy chooses its devices.

Theory of operation
-------------------
A plan is a generator. The core carries out each proposal before it asks for the next, so
the view changes between two of them: another job may have started, or be the head.

One call of the planner is a `Starter`: it has the view and the state of that call. `backfill` and
`deadline` are such planners, too, with a `Starter` of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.planning.placing import Found, find_with_fallback
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
    """Start the first job of each line, and no other before it: first the recovery queue.

    Jobs that recovery starts on idle devices go by `recovery_policy`. No job passes the head of
    its line, but by its turn on an MPS server, or on devices that are reserved for its user.
    """

    policy: Policy
    recovery_policy: Policy
    name: str = "strict"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = OCCASIONS

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        plan = Plan(state=dict(state or {}))
        plan.proposals = self._starts(view, plan)
        return plan

    def _starts(self, view: View, plan: Plan) -> Iterator[Proposal]:
        return Starter(self, view, plan.state).proposals()

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return Starter(self, view, {}).reasons(job)

    def policy_for(self, job: Job) -> Policy:
        """Return the policy that chooses the devices of a job."""
        return self.recovery_policy if job.recovers_idle else self.policy


class Starter:
    """One call of a planner that starts jobs. `state` is the plan's: policies keep theirs in it."""

    rule: OrderPolicy

    def __init__(self, rule: OrderPolicy, view: View, state: dict[str, Any]) -> None:
        self.rule, self.view, self.state = rule, view, state

    def proposals(self) -> Iterator[Proposal]:
        """Start what can start: first on reserved devices, then from each line."""
        if self.view.launches_paused:
            return  # no search would end otherwise
        for reserved in self.view.reserved_for_users():
            yield from self.by_reservation(reserved)
        for gpuless in (False, True):
            yield from self.from_line(gpuless)

    def by_reservation(self, reserved: UserReservation) -> Iterator[Proposal]:
        """Start jobs on devices that are reserved for their users: no other job may use them."""
        tried, first = None, self.view.first_of(reserved)
        while first is not None and first is not tried:
            yield from self.start(first, reserved.devices)
            tried, first = first, self.view.first_of(reserved)

    def from_line(self, gpuless: bool) -> Iterator[Proposal]:
        """Start the head of a line, as long as it can start."""
        view = self.view
        tried, head = None, view.head(gpuless)
        while head is not None and head is not tried:
            if view.first_for_nodes(head) is not None:
                return
            yield from self.start(head)
            tried, head = head, view.head(gpuless)

    def start(self, job: Job, only: Collection[str] | None = None) -> Iterator[Proposal]:
        """Start a job if it finds room; else, maybe, the one that has the turn before it."""
        found = self.find(job, only)
        if found.placement is not None:
            yield self.started(job, found)
        elif only is None:
            yield from self.start_by_turn(found.refusals)

    def started(self, job: Job, found: Found) -> Start:
        """Return the start of a job where it was found room, and keep the policy's new state."""
        assert found.placement is not None
        if found.policy_state is not None:
            self.state[self.rule.policy_for(job).name] = found.policy_state
        return Start(job_id=job.id, placement=found.placement)

    def start_by_turn(self, refusals: Sequence[Refusal]) -> Iterator[Proposal]:
        """Start the jobs that have the turn on MPS servers where these refusals say so, there."""
        for refusal in refusals:
            if refusal.rule == "turn" and refusal.device is not None:
                following = self.view.next_by_turn(refusal.device)
                if following is not None:
                    yield from self.start(following, (refusal.device,))

    def find(self, job: Job, only: Collection[str] | None = None) -> Found:
        """Ask the job's policy, or the recovery queue's policy if the first one fails."""
        policy, instead = self.rule.policy_for(job), self.rule.recovery_policy
        kept = self.state.get(policy.name)
        return find_with_fallback(self.view, policy, job, kept, instead, only)

    def reasons(self, job: Job) -> Sequence[Refusal]:
        """Return why a job does not start now."""
        head = self.view.head(gpuless=not job.spec.gpus)
        found = self.find(job)
        behind: tuple[Refusal, ...] = ()
        if head is not None and head.id == job.id:
            head = self.view.first_for_nodes(job)
        if head is not None:
            behind = (waits_behind(head),)
        return behind + (found.refusals if found.placement is None else ())


def waits_behind(head: Job) -> Refusal:
    """Return that a job waits for the head of its line."""
    why = f"job {head.label} ({head.spec.name}) is served first and cannot start yet"
    return Refusal("order", why)
