"""Start jobs with parameter servers, follow them, and carry out the changes of their layouts.

Theory of operation
-------------------
All jobs start as under `strict` (`OrderPolicy`), but for the first layout of a job with servers
and workers. Every `look_s` each such job that runs is looked at: a rule (`dlrover`, `nearchus`)
says which layout it should have. If only CPUs differ, that is a change of shares (`SetShares`),
else a resize (`ResizeTo`).

Invariants:
- A job is left alone while a resize, a change of shares or a save of it is under way. After a
  failure it is left alone for `interval_s`, twice as long after each further one.
- After each change, also one by a user, a new count begins.
- No job grows while the first waiting job lacks CPUs. That is ours; the papers do not say it.
- A job whose program cannot re-partition its parameters keeps its number of servers. `radrun` says
  so when it refuses a resize (`FIXED`).

What may interleave: a job can end, be resized by its user or lose its change at any time. So what
was asked for is compared with what is there when nothing is under way any more.

What a restart sees: a note of each job (`notes`). Times are seconds since boot. After a reboot
counts and times begin anew; what is known of the jobs stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from radrm.published.servers.layout import (
    Layout,
    Span,
    Wish,
    free_cpus,
    lacking_cpus,
    laid_out,
    layout_of,
    nodes_of,
    placed,
    rooms,
    sized,
    span_of,
    spread,
)
from radrm.published.servers.notes import Memory, Meter, Note, as_lists, is_busy
from radrm.rules import (
    OCCASIONS,
    Attempt,
    Job,
    OrderPolicy,
    Placement,
    Plan,
    Proposal,
    Refusal,
    ResizeTo,
    SetShares,
    Start,
    View,
    actions,
    can_change,
    find_placement,
    replace,
    show_seconds,
)
from radrm.rules import events as ev

# ------------------------------------------------------------------ the ranges of settings


def check_range(rule: object, setting: str, least: float, most: float) -> None:
    """Raise ValueError unless a setting of a rule is from `least` to `most`."""
    value = getattr(rule, setting)
    if not least <= value <= most:
        raise ValueError(f"{setting} = {value:g} is not from {least:g} to {most:g}")


FIXED = "has no load hook"
"""`radrun` says so when a program cannot re-partition its parameters."""

_KEPT = "jobs with servers"
"""The key of the memory in the planner's state, beside the states of policies."""
_ROUNDING_S = 0.001


class Look(Struct, frozen=True):
    """One look at a running job, and the CPUs that it could have more.

    `room`: the CPUs that nobody has booked; 0 while the first waiting job lacks some.
    """

    view: View
    job: Job
    attempt: Attempt
    span: Span
    meter: Meter
    room: float
    memory: Memory

    @property
    def has(self) -> Layout:
        """The CPUs of its tasks."""
        return layout_of(self.attempt.placement)

    @property
    def now_s(self) -> float:
        """Seconds since boot."""
        return self.view.now.boot_s


@dataclass(frozen=True, slots=True)
class Steering(OrderPolicy, ABC):
    """What both rules do. A rule adds `look_s`, `new_note`, `first` and `wish`."""

    interval_s: float = 60.0
    """The least seconds between two changes of a job (1 to 86400)."""
    listens: frozenset[type[ev.Event]] = OCCASIONS | {ev.AttemptStarted, ev.SharesApplied}

    # ------------------------------------------------------------- what a rule adds

    @property
    @abstractmethod
    def look_s(self) -> float:
        """Seconds between two looks."""

    @abstractmethod
    def new_note(self, **kept: Any) -> Note:
        """Return a note with what was kept of it."""

    @abstractmethod
    def first(self, job: Job, span: Span, room: float, past: Mapping[str, Any]) -> Sequence[Layout]:
        """Return the layouts to start a job with, best first. Without room for any: the least.

        `past`: what earlier runs have taught.
        """

    @abstractmethod
    def wish(self, look: Look, note: Any) -> Wish | None:
        """Return what a job should have now; None: what it has."""

    def give_back(
        self, view: View, memory: Memory, jobs: Sequence[tuple[Job, Attempt]]
    ) -> Iterator[tuple[Job, Attempt, Wish]]:
        """Yield which jobs give CPUs back that are wanted, before any look."""
        yield from ()

    # ------------------------------------------------------------- the plan

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        plan = OrderPolicy.plan(self, view, event, state)
        plan.proposals = self._proposals(view, event, plan, plan.proposals)
        return plan

    def _proposals(
        self, view: View, event: ev.Event, plan: Plan, starts: Iterable[Proposal]
    ) -> Iterator[Proposal]:
        for start in starts:
            yield self._laid_out(view, start, plan)
        memory = Memory.read(plan.state.pop(_KEPT, None), view, self.new_note)
        plan.state.pop("remarks", None)
        yield from self._steer(view, event, memory)
        if memory.notes or memory.past:
            plan.state[_KEPT] = memory.plain()
        if memory.notes:
            plan.state["remarks"] = {str(at): note.word for at, note in memory.notes.items()}
        if memory.looked_s is not None:
            plan.wake_at = memory.looked_s + self.look_s

    def _steer(self, view: View, event: ev.Event, memory: Memory) -> Iterator[Proposal]:
        now_s = view.now.boot_s
        ours = [(job, attempt) for job, attempt in view.running() if span_of(job) is not None]
        if not ours:
            memory.looked_s = None
            return
        if isinstance(event, ev.ActionFailed) and isinstance(event.action, actions.Resize):
            failed = memory.notes.get(event.action.job_id)
            if failed is not None and FIXED in event.reason:
                failed.fixed = True
        for job, attempt in ours:
            note = memory.notes.setdefault(job.id, self.new_note())
            note.follow(attempt, now_s, self.interval_s)
        for job, attempt, wish in self.give_back(view, memory, ours):
            note = memory.notes[job.id]
            if can_change(job, attempt) and now_s >= note.retry_s:
                yield from self._change(view, job, attempt, note, wish)
        last_s = memory.looked_s
        if last_s is not None and last_s <= now_s < last_s + self.look_s - _ROUNDING_S:
            return
        memory.looked_s = now_s
        waits = lacking_cpus(view) > 0
        for job, attempt in ours:
            yield from self._look(view, job, attempt, memory, waits)

    def _look(
        self, view: View, job: Job, attempt: Attempt, memory: Memory, waits: bool
    ) -> Iterator[Proposal]:
        note, span = memory.notes[job.id], span_of(job)
        if span is None or note.asked is not None or not can_change(job, attempt):
            return
        room = 0.0 if waits else free_cpus(view)
        meter = note.counted
        if meter.use_at_s is None:
            meter.begin(job, attempt, note.changed_s)
        wish = self.wish(Look(view, job, attempt, span, meter, room, memory), note)
        note.keep(meter)
        if wish is not None and view.now.boot_s >= note.retry_s:
            yield from self._change(view, job, attempt, note, wish)

    # ------------------------------------------------------------- for users

    def why_size(self, view: View, job: Job) -> Sequence[Refusal]:
        """Return why a running job has the size that it has; empty for one that keeps its size."""
        kept, span = view.kept(self.name, self.version) or {}, span_of(job)
        note = Memory.read(kept.get(_KEPT), view, self.new_note).notes.get(job.id)
        if note is None or span is None:
            return ()
        left_s = note.retry_s - view.now.boot_s
        if note.asked is not None:
            why = Refusal("size", "a resize of it is under way")
        elif note.refused is not None:
            why = Refusal("size", note.refused)
        elif left_s > 0:
            again = f"its last change has failed; the next one may come in {show_seconds(left_s)}"
            why = Refusal("size", again)
        elif lacking_cpus(view) > 0:
            why = Refusal("order", "another job waits for CPUs")
        elif note.counted.use_at_s is None:
            unseen = "it has not reported its steps and the CPUs of its tasks with this size yet"
            why = Refusal("progress", unseen)
        else:
            why = Refusal("size", f"{self.name} is {note.word}")
        return (why,)

    # ------------------------------------------------------------- changes

    def _change(
        self, view: View, job: Job, attempt: Attempt, note: Note, wish: Wish
    ) -> Iterator[Proposal]:
        """Propose a layout, or as much of it as there is room for; note what is under way then."""
        instead = self.recovery_policy
        found = placed(view, self.policy, instead, job, attempt, wish)
        if isinstance(found, Refusal):
            note.refused = found.message
            return
        note.refused = None
        if found == attempt.placement:
            return
        if nodes_of(found) != nodes_of(attempt.placement):
            yield ResizeTo(job_id=job.id, placement=found)
        elif self._takes_shares(view, attempt):
            yield SetShares(job_id=job.id, shares=found.shares)
        else:
            note.refused = "the CPUs of a running job cannot be set on this server"
            return
        now = view.attempt(job.id)
        if now is not None and now.serial == attempt.serial and is_busy(now):
            note.asked = as_lists(layout_of(found))

    def _takes_shares(self, view: View, attempt: Attempt) -> bool:
        nodes = any(use.node.shares_refused is not None for use in view.nodes())
        return attempt.shares_refused is None and not nodes

    # ------------------------------------------------------------- starts

    def _laid_out(self, view: View, start: Proposal, plan: Plan) -> Proposal:
        """Return a start, of a job with servers and workers in its first layout."""
        job = view.job(start.job_id)
        span = None if job is None else span_of(job)
        if job is None or span is None or not isinstance(start, Start):
            return start
        past = (plan.state.get(_KEPT) or {}).get("past", {})
        found = self._first_placement(view, job, span, past)
        return start if found is None else replace(start, placement=found)

    def _first_placement(
        self, view: View, job: Job, span: Span, past: Mapping[str, Any]
    ) -> Placement | None:
        """Return a placement of the best first layout that there is room for; None: of none."""
        for layout in self.first(job, span, free_cpus(view), past):
            found = find_placement(view, sized(job, layout), self.policy).placement
            if found is None:
                continue
            found = spread(rooms(view, job), laid_out(found, Wish(layout)))
            if view.refuse_on_nodes(job, found) is None:
                return found
        return None
