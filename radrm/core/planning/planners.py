"""Call the planners in force after an event, and carry out what they propose.

Theory of operation
-------------------
Planners are called in their configured order. Each sees what the earlier ones have changed, and
each proposal is checked against the present state. So planners need not know one another: if
two want the same device or job, the first proposal is carried out and the second is rejected.

Exactly one planner starts waiting jobs. While it rests after a failure, the fallback starts them
in its place. The others are left out while they rest.

Invariants:
- One planner's failure touches no other planner: failures, states, thoughts and wake-ups are
  kept by name, and names are unique (`wiring`).
- Whose proposal is carried out stands in the records (`Attempt.planner`, `Attempt.requested`).

What a restart sees: the planners' states (`RuleState`). Slow planners: `thinking.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from radrm.core.actions import Think
from radrm.core.events import Event, PlanReady
from radrm.core.planning.applying import REQUESTS, apply
from radrm.core.planning.asking import bounded, explanation, is_wanted, proposals, remember
from radrm.core.planning.reserving import Renewal
from radrm.core.planning.thinking import Thoughts
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
)
from radrm.core.records import Job, PlannerRequest, Refusal
from radrm.core.rules import AnyPlanner, Planner, SlowPlanner, is_slow
from radrm.core.state.isolation import RuleFailed, TooSlow, WrongAnswer, call_rule
from radrm.core.state.state import State
from radrm.core.state.timers import PLANNER, THINK, Timer
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.structs import replace

_ENDS = (Preempt, Migrate, ResizeTo)
"""Those that can end the attempt. Who asked for it becomes the reason."""
_NO_GROWTH = Refusal(
    "planner",
    'no planner here grows running jobs; set planner = ["auto", "elastic"], or use radrm resize',
)


def _hears(planner: AnyPlanner, kind: type[Event]) -> bool:
    return kind in planner.listens


class Planners:
    """The planners in force."""

    def __init__(
        self,
        state: State,
        view: View,
        planners: Sequence[Planner | SlowPlanner],
        fallback: Planner | None,
    ) -> None:
        self._state = state
        self._view = view
        self._all = tuple(planners)
        self._fallback = fallback
        self._starter = next((p for p in planners if p.starts_jobs is True), None)
        self._slow = {planner.name: planner for planner in planners if is_slow(planner)}
        self._thoughts = Thoughts(state)

    # ------------------------------------------------------------- when they are called

    @property
    def names(self) -> set[str]:
        return {planner.name for planner in self._all}

    def woken_by(self, timer: Timer) -> Collection[str] | None:
        """Return the planners to call because of a due timer; None if it is not about one."""
        if timer.what.startswith(PLANNER):
            name = timer.what.removeprefix(PLANNER)
            return (name,) if is_wanted(self._state, timer) else ()
        if timer.what.startswith(THINK):
            name = timer.what.removeprefix(THINK)
            if self._thoughts.overdue(name):
                self._rest(self._slow[name], WrongAnswer("it gave no plan in its time"))
                return (name,)
            return (name,) if self._thoughts.is_due(name) else ()
        return None

    def call(self, event: Event, woken: Collection[str] = ()) -> None:
        """Call the planners that listen to an event, and the woken ones."""
        for planner in self._all:
            if planner.name in woken or self._is_concerned(planner, event):
                self._ask(planner, event)

    def _is_concerned(self, planner: AnyPlanner, event: Event) -> bool:
        """Return whether a planner listens to an event, or the fallback if that replaces it."""
        rests = self._state.isolation.rests
        if not rests("planner", planner.name):
            listens = self._listens(planner, event)
            if not rests("planner", planner.name):
                return listens
        fallback = self._fallback if planner is self._starter else None
        return fallback is not None and self._listens(fallback, event)

    def _listens(self, planner: AnyPlanner, event: Event) -> bool:
        try:
            return call_rule(_hears, planner, type(event))
        except RuleFailed as failed:
            self._rest(planner, failed.error)
            return False

    def _ask(self, planner: Planner | SlowPlanner, event: Event) -> None:
        """Carry out a planner's proposals, or the fallback's while the planner rests."""
        if not self._state.isolation.rests("planner", planner.name):
            try:
                if planner.name in self._slow and is_slow(planner):
                    self._thoughts.want(planner)
                    return
                fast = cast(Planner, planner)
                with Renewal(self._state, planner.name):
                    for proposal in proposals(self._state, self._view, fast, event):
                        self._carry_out(planner.name, proposal)
                now_s = self._state.step.now.boot_s
                self._state.proposals.refused.answered_s[planner.name] = now_s
                return
            except RuleFailed as failed:
                self._rest(planner, failed.error)
        self._replace(planner, event)

    def _replace(self, planner: AnyPlanner, event: Event) -> None:
        """Ask the fallback in place of a planner that rests, if that starts jobs."""
        fallback = self._fallback
        if planner is self._starter and fallback is not None and fallback is not planner:
            self._ask(fallback, event)

    def _rest(self, planner: AnyPlanner, error: BaseException) -> None:
        """Let a planner rest after a failure."""
        meanwhile = "the others go on without it"
        if planner is self._starter or planner is self._fallback:
            meanwhile = "jobs are started in the order of the queue, on GPUs of their own"
            if self._fallback is None or self._fallback is planner:
                meanwhile = "no job starts meanwhile"
        self._thoughts.forget(planner.name)
        self._view.scratch.pop(planner.name, None)  # it may be half done
        self._state.isolation.fail("planner", planner.name, error, meanwhile)

    def _carry_out(self, name: str, proposal: Proposal) -> None:
        """Carry out a planner's proposal, and note in the attempt who made it."""
        state = self._state
        rejected = len(state.step.rejections)
        state.step.planner = name
        apply(state, proposal)
        state.step.planner = None
        if len(state.step.rejections) > rejected:
            self._note_refusal(name)
            return
        state.proposals.refused.forget(name, proposal)
        kind, attempt = REQUESTS.get(type(proposal)), state.attempts.get(proposal.job_id)
        if kind is None or attempt is None:
            return
        if state.jobs[proposal.job_id].target is not None and type(proposal) not in _ENDS:
            return  # the stop that follows is the migration's
        why = proposal.reason if isinstance(proposal, Preempt) else ""
        requested = PlannerRequest(kind, name, why=why)
        if attempt.requested != requested:
            state.put_attempt(replace(attempt, requested=requested))

    def _note_refusal(self, name: str) -> None:
        """Note whose proposal was refused just now: users and the log read that."""
        state = self._state
        proposal, refusal = state.step.rejections[-1]
        refusal = replace(refusal, planner=name)
        state.step.rejections[-1] = (proposal, refusal)
        state.proposals.refused.note(name, proposal, refusal, state.step.now.boot_s)

    # ------------------------------------------------------------- slow planners

    def take_plan(self, event: PlanReady) -> None:
        """Carry out a slow planner's plan, without what has become stale."""
        planner = self._slow.get(event.planner)
        if planner is not None and not self._thoughts.end(event.planner, event.number):
            return  # too late: the thought has been given up
        try:
            if event.error is not None:
                raise RuleFailed(WrongAnswer(event.error))
            found = bounded(self._state, event.proposals)
            if planner is not None:
                remember(self._state, planner, event.state, event.wake_at)
        except RuleFailed as failed:
            if planner is None:
                meanwhile = "the others go on without it"
                self._state.isolation.fail("planner", event.planner, failed.error, meanwhile)
                return
            self._rest(planner, failed.error)
            self._replace(planner, event)
            return
        # All are compared first: a plan may hold two proposals for one job.
        stale = [
            each.job_id != 0 and self._state.touched_since(each.job_id, event.version)
            for each in found
        ]
        with Renewal(self._state, event.planner):
            for proposal, is_stale in zip(found, stale, strict=True):
                if is_stale:
                    why = Refusal("stale", "the job has changed since the planner looked")
                    self._state.step.rejections.append((proposal, why))
                    self._note_refusal(event.planner)
                else:
                    self._carry_out(event.planner, proposal)
        self._state.proposals.refused.answered_s[event.planner] = self._state.step.now.boot_s
        if planner is not None and self._thoughts.is_due(event.planner):
            self._ask(planner, event)

    def think_failed(self, action: Think, reason: str, event: Event) -> None:
        """End a thought that the host could not begin."""
        planner = self._slow.get(action.planner)
        if planner is not None and self._thoughts.end(action.planner, action.number):
            self._rest(planner, WrongAnswer(reason))
            self._replace(planner, event)

    # ------------------------------------------------------------- why a job waits

    def in_use(self) -> list[AnyPlanner]:
        """Return the planners in use now: the fallback replaces the one that starts jobs."""
        rests = self._state.isolation.rests
        found: list[AnyPlanner] = [p for p in self._all if not rests("planner", p.name)]
        # By identity: a rule may define its own comparison.
        if self._fallback is None or any(each is self._starter for each in found):
            return found
        return [self._fallback, *found]

    def explain(self, job: Job) -> list[Refusal]:
        """Return the reasons of the planners in use for which a job waits."""
        return self._reasons(job, "explain") or [*self._thinking()]

    def explain_size(self, job: Job) -> list[Refusal]:
        """Return the reasons of the planners in use for the size of a running job."""
        if not any(hasattr(planner, "why_size") for planner in self.in_use()):
            return [_NO_GROWTH]
        return self._reasons(job, "why_size")

    def _reasons(self, job: Job, question: str) -> list[Refusal]:
        found: list[Refusal] = []
        for planner in self.in_use():
            reasons, error = explanation(self._view, planner, job, question)
            if isinstance(error, TooSlow):
                self._rest(planner, error)  # else each `radrm status` would wait for it
            # That of the planner which starts jobs needs no name.
            named = planner is not self._starter
            found += [replace(r, planner=planner.name) for r in reasons] if named else reasons
        return found

    def keeps_order(self) -> bool:
        """Return whether no job passes another but as the configured order has it."""
        starter = next((p for p in self.in_use() if p.starts_jobs is True), None)
        try:
            keeps = getattr(starter, "keeps_order", None)
            return keeps is None or call_rule(keeps, self._view) is not False
        except RuleFailed:
            return True

    def _thinking(self) -> tuple[Refusal, ...]:
        """Return the reason for which any job may wait: its planner makes a plan now."""
        name = self._starter.name if self._starter is not None else ""
        thought = self._thoughts.under_way(name)
        if thought is None:
            return ()
        for_s = show_seconds(max(0.0, self._state.step.now.boot_s - thought.since_s))
        return (Refusal("planning", f"the planner {name} has been making a plan for {for_s}"),)
