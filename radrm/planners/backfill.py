"""Backfill: jobs behind a head that cannot start may pass it, within a bound.

Theory of operation
-------------------
When a job first passes the head of a line, the planner notes until when others may: the head's
expected start then (`forecast`) plus `max_delay_s`; where no start is foreseeable, now plus
`max_delay_s`. Until then a job may pass if it starts now and the head is still expected to start
by that time, or no later than without it. After that no job passes until the head has started. So
the bound holds whatever the predictions are worth; they only let the head wait less.

A job of a lower priority, or of the main queue before a head in the recovery queue, may pass only
if it does not delay the head at all.

Invariants:
- Who has been passed, and until when, stays while the job waits, also if another is head meanwhile.
- A job's note ends with its next attempt. If `_MOST_PASSED` jobs that wait have notes, no further
  head is passed.

What may interleave: the order may make another job the head at any time; that is the order's
decision, and no passing. So is a turn on an MPS server.

What a restart sees: the notes, as dates. A clock that was set back moves a note, so that it never
lasts for longer than at first.

The plan of slots is EASY's (Lifka, "The ANL/IBM SP Scheduling System", 1995), with a delay that is
allowed, and with sharing. Nothing is reserved (`Reserve`): a reservation is of memory, and on
shared GPUs the head mostly waits for SM activity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any

from msgspec import Struct

from radrm.core.planning.placing import Checked, RuleFailed, fails_again
from radrm.core.proposals import Proposal
from radrm.core.records import Job, Placement, Refusal
from radrm.core.rules import Plan
from radrm.core.settings import fixed
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.core.words import JobState, Queue
from radrm.planners.forecast import Forecast
from radrm.planners.order_policy import OrderPolicy, Starter, waits_behind

_PASSED = "passed jobs"
"""The key of the notes in the planner's state, beside the states of policies."""
_MOST_PASSED = 1000
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True)
class Backfill(OrderPolicy):
    """Start waiting jobs as `strict` does; jobs behind a head that cannot start may pass it.

    The work for an event is at most `depth` jobs times the devices.
    """

    depth: int = fixed(100)
    """The number of jobs of a line that are tried."""
    max_delay_s: float = 1800.0
    """The longest delay of a job by those that pass it. Where durations are unknown: the longest
    time for which jobs pass it.

    A site where large jobs wait too long, or GPUs stand idle before them."""
    name: str = "backfill"

    def _starts(self, view: View, plan: Plan) -> Iterator[Proposal]:
        return _Backfilling(self, view, plan.state, plan.state).proposals()

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        kept = view.kept(self.name, self.version) or {}
        return _Backfilling(self, view, {}, kept).reasons(job)


class _Backfilling(Starter):
    """One call of `backfill`. `kept`: the state that has the notes."""

    rule: Backfill

    def __init__(
        self, rule: Backfill, view: View, state: dict[str, Any], kept: dict[str, Any]
    ) -> None:
        self.rule, self.view, self.state, self._kept = rule, view, state, kept

    def from_line(self, gpuless: bool) -> Iterator[Proposal]:
        """Start the head of a line, as long as it can start, and then jobs that may pass it."""
        yield from super().from_line(gpuless)
        view = self.view
        head, slot = view.head(gpuless), None
        if head is None or view.first_for_nodes(head) is not None:
            return
        few = None if gpuless else view.few_waiting(self.rule.depth)
        if few is not None and all(job is head or self._fails_again(job) for job in few):
            return  # nobody asks in which order
        for job in list(islice(view.waiting(gpuless), self.rule.depth))[1:]:
            if view.job(job.id) is not job:
                continue  # a job that took its turn has started already
            if self._fails_again(job):
                continue
            found = self.find(job)
            if found.placement is None:
                continue
            slot = slot or self._slot(head)
            if slot.is_over:
                return
            if slot.refuse(job, found.placement) is None and slot.note(self._kept):
                yield self.started(job, found)
                slot = None  # the forecast was for the devices before

    def _fails_again(self, job: Job) -> bool:
        """Return whether it is known that a search for a job would find nothing."""
        return fails_again(self.view, self.rule.policy_for(job), job)

    def _slot(self, head: Job) -> _Slot:
        """Return until when others may pass the head, and its forecast."""
        view, policy = self.view, self.rule.policy_for(head)
        if view.isolation.rests("policy", policy.name):
            policy = self.rule.recovery_policy
        forecast = None
        if head.spec.gpus and view.refuse_on_nodes(head) is None:
            try:
                forecast = Forecast(view, Checked(policy, view.answers), head)
            except RuleFailed:
                pass  # the next search for a placement reports it
        since_s, until_s = noted_until(view, head, self._kept)
        if until_s is None:
            since_s = view.now.wall_s
            start_s = inf if forecast is None else forecast.start_s
            wait_s = 0.0 if start_s == inf else start_s - view.now.boot_s
            until_s = since_s + wait_s + self.rule.max_delay_s
        return _Slot(view, head, since_s, until_s, forecast)

    def reasons(self, job: Job) -> Sequence[Refusal]:
        """Return why a job does not start now."""
        view = self.view
        head = view.head(gpuless=not job.spec.gpus)
        if head is None:
            return super().reasons(job)
        slot, found = self._slot(head), self.find(job)
        if head.id == job.id:
            first = view.first_for_nodes(job)
            behind = () if first is None else (waits_behind(first),)
            noted = noted_until(view, head, self._kept)[1] is not None
            passed = (slot.passed(),) if noted else ()
            return behind + passed + (found.refusals if found.placement is None else ())
        if found.placement is None:
            return (waits_behind(head), *found.refusals)
        refusal = slot.refuse(job, found.placement)
        return (waits_behind(head),) if refusal is None else (waits_behind(head), refusal)


class _Slot(Struct, frozen=True):
    """Until when others may pass the head of a line (a date), and when it could start."""

    view: View
    head: Job
    since_s: float
    until_s: float
    forecast: Forecast | None

    @property
    def is_over(self) -> bool:
        """True if nobody may pass any more."""
        return self.view.now.wall_s >= self.until_s

    def refuse(self, job: Job, placement: Placement) -> Refusal | None:
        """Return why a job may not pass the head by this start; None if it may."""
        if self.is_over:
            return self.passed()
        head, now = self.head, self.view.now
        before_s = inf if self.forecast is None else self.forecast.start_s
        lower = rank_of(job) > rank_of(head)
        if before_s == inf:
            return _lower(head) if lower else None
        assert self.forecast is not None
        after_s = self.forecast.start_after_s(job, placement)
        until_s = now.boot_s + self.until_s - now.wall_s
        most_s = before_s if lower else max(before_s, until_s)
        if after_s <= most_s + _ROUNDING_S:
            return None
        then = "later" if after_s == inf else f"in {show_seconds(after_s - now.boot_s)}"
        why = (
            f"job {head.label} could start in {show_seconds(before_s - now.boot_s)}, with this job "
            f"{then}; it must start in {show_seconds(most_s - now.boot_s)}"
        )
        needed_s = None if after_s == inf else after_s - now.boot_s
        return Refusal("backfill", why, None, needed_s, most_s - now.boot_s)

    def note(self, state: dict[str, Any]) -> bool:
        """Note that the head is passed. Returns whether there is room for the note."""
        notes = state.setdefault(_PASSED, {})
        key = str(self.head.id)
        if key not in notes:
            for other in [each for each in notes if not self._waits(int(each))]:
                del notes[other]
            if len(notes) >= _MOST_PASSED:
                return False
        notes[key] = [self.since_s, self.until_s, self.head.attempts]
        return True

    def _waits(self, job_id: int) -> bool:
        job = self.view.job(job_id)
        return job is not None and job.state is JobState.PENDING

    def passed(self) -> Refusal:
        """Return since when and until when others pass the head."""
        left_s = self.until_s - self.view.now.wall_s
        why = f"other jobs may start before job {self.head.label} for {show_seconds(left_s)} more"
        if left_s <= 0:
            why = f"no job may start before job {self.head.label} any more: it was passed"
        return Refusal("backfill", why)


def noted_until(view: View, head: Job, state: Any) -> tuple[float, float | None]:
    """Return since when, and until when, others may pass a job, as dates; None: not noted yet."""
    note = state.get(_PASSED, {}).get(str(head.id))
    if note is None or note[2] != head.attempts:
        return 0.0, None
    since_s, until_s, _ = note
    back_s = max(0.0, since_s - view.now.wall_s)
    return since_s - back_s, until_s - back_s


def rank_of(job: Job) -> tuple[bool, int]:
    """Return what goes before every order: the recovery queue, and the priority."""
    return job.queue is not Queue.RECOVERY, -job.spec.priority


def _lower(head: Job) -> Refusal:
    why = f"job {head.label} has a higher priority, and when it could start is not foreseeable"
    return Refusal("backfill", why)
