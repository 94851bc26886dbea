"""The recommended planner for due times: it weighs what waiting costs against what a stop costs.

Theory of operation
-------------------
Without a waiting job that has a due time it is `default`, proposal by proposal. Otherwise waiting
jobs are tried in the order of `tardiness.Ranking`; within one queue and priority:

    old jobs       they have waited `max_wait_s`: since they were submitted, or since their due time
    due jobs       by what a delay of them costs
    other jobs     in the configured order; as in `default`, none passes the first of them

The policy decides which devices a job may share. A job starts unless

- it would end cheaper on a kind of device, or alone on a device, that is expected to be free soon.
  It waits so at most half as long again as was expected at first.
- a kWh is cheaper later (`wait_for_cheap`), and it ends in time all the same: by the upper bound of
  its run time, and even if all jobs that wait so run one after another.
- it would delay the *first that waits*: the first ranked job that no device takes. That one is
  waited for only as long as it can be in time (then others may use its slack up to its latest
  start), or if it is old. For a job that is late whatever is done no device is kept idle.

The first that waits has a reservation (`Reserve`) if it takes whole devices and time limits bound
when these are free. That shows it to users, and keeps other planners away. Elsewhere this planner
alone keeps the place, as `backfill` does: a reservation is of memory, on shared GPUs a job mostly
waits for SM activity, and a running job without a time limit leaves no moment to reserve from.

A running job that can save is stopped for a waiting one that gets its place, if the tardiness that
this saves exceeds by `margin` what it costs: the tardiness of the stopped job, which goes on where
the waiting one would have started; the time to save and to start again, at its own weight and that
of the late jobs which wait for the device; the energy of that time. Nothing is stopped that has
run for less than `min_run_s`, or was asked to within `cooldown_s`, also if it did not save.

Invariants:
- Only jobs with a way to save are stopped, and no job of a higher priority than the waiting one.
- At most one stop is under way for a waiting job, and it is the first to be tried when the place
  is free.
- What is kept is bounded, and ends with the job or with `cooldown_s`.

What may interleave: the stopped job may end, or never save; then nothing follows but the pause.
Due times, weights and durations may change: the ranking follows the records.

What a restart sees: the notes, in the planner's state. Dates count across a reboot; a note from the
future counts from now, so that a clock set back lengthens no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from radrm.core import events as ev
from radrm.core.constraints.reserve import MOST_AHEAD_S
from radrm.core.planning.assembly import Found
from radrm.core.planning.fallback import Checked, RuleFailed, find_with_fallback
from radrm.core.proposals import Migrate, Preempt, Proposal, Reserve
from radrm.core.records import Job, Refusal
from radrm.core.rules import Plan
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.core.words import Collocation, Quantity
from radrm.deadlines.costs import Costs
from radrm.deadlines.ranking import OLD, OTHER, Key, Ranking, old_from_s, prefix
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.later import Later
from radrm.planners.lateness.servers import servers, wide
from radrm.planners.lateness.stopping import Limits, Stops
from radrm.planners.lateness.tardiness import Hold, Notes, Terms
from radrm.planners.order_policy import OrderPolicy

NOTES = "deadline notes"
"""The key of this planner's own memory in its state, beside the states of policies."""

_COSTS = Costs()
_MOST_WAITED = 3
"""The waiting jobs for which a stop is weighed at a time."""
_CHECK_S, _READ_S = 60.0, 10.0
"""Stops are weighed again after this time, and at most so often because of readings."""


@dataclass(frozen=True, slots=True)
class Deadline(OrderPolicy):
    """Start and stop jobs by what a late end costs (`--due`, `--weight`).

    Without due times it is `default`.
    """

    costs: Costs = _COSTS
    depth: int = 25
    """The number of waiting jobs with due times that are tried at an event."""
    max_wait_s: float = 86_400.0
    """A job that has waited for this long goes before all others; with a due time: this long after
    it."""
    unknown_duration_s: float = 3600.0
    """The duration to assume for a job without a prediction of it. A time limit bounds both."""
    margin: float = 0.2
    """A stop must save this part more than it costs."""
    restart_s: float = 60.0
    """The time that a stopped job needs to start again and to load its work."""
    min_run_s: float = 300.0
    """A job is stopped only after it has run for this long."""
    cooldown_s: float = 1800.0
    """A job is not stopped, nor asked to, again within this time."""
    name: str = "deadline"

    @property
    def terms(self) -> Terms:
        """The costs, and what is assumed where nothing is known."""
        return Terms(self.costs, self.unknown_duration_s)

    @property
    def limits(self) -> Limits:
        """When a stop pays, and when a job may be stopped."""
        return Limits(self.margin, self.restart_s, self.min_run_s)

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        plan = Plan(state=dict(state or {}))
        ranking = self._ranking(view, plan.state)
        due = len(ranking) or NOTES in plan.state or _any_due(view)
        if not due:
            plan.proposals = self._starts(view, plan)
        else:
            plan.proposals = self._by_rank(view, event, plan, ranking)
        return plan

    def _by_rank(
        self, view: View, event: ev.Event, plan: Plan, ranking: Ranking
    ) -> Iterator[Proposal]:
        call = Call(self, view, plan, ranking)
        if len(ranking):
            yield from call.proposals(event)
            yield from self._by_head(view, plan, gpuless=True)
        else:
            yield from self._starts(view, plan)
        yield from call.moves(event)
        call.remember()

    def _ranking(self, view: View, state: Any) -> Ranking:
        """Return the ranking as it is now. It is kept from call to call, and can be made anew."""
        source, found = view.by_due(), view.memo.get(self.name)
        touched = source.take_touched()
        if found is None or found.source is not source:
            scale_s = float(state.get(NOTES, {}).get("scale_s", 0.0))
            found = Ranking(source, self.max_wait_s, scale_s)
            view.memo[self.name] = found
            touched = set(source.due)
        if touched or found.next_turn_s <= view.now.wall_s or found.is_ahead(view.now.wall_s):
            jobs = {i: view.job(i) if i in source.due else None for i in touched}
            found.update(jobs, lambda job: self.terms.least_s(job, view.now), view.now.wall_s)
        return found

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        state = view.kept(self.name, self.version) or {}
        ranking = self._ranking(view, state)
        if not job.spec.gpus or not len(ranking):
            return OrderPolicy.explain(self, view, job)
        return Call(self, view, Plan(state=state), ranking).reasons(job)


class Call:
    """One call of the planner. Each waiting job that it looks at starts, or waits for a reason."""

    def __init__(self, rule: Deadline, view: View, plan: Plan, ranking: Ranking) -> None:
        self.rule, self.view, self.plan, self.ranking = rule, view, plan, ranking
        self.terms = rule.terms
        self.notes = Notes.of(plan.state.get(NOTES), view, rule.cooldown_s)
        self.holds: list[Hold] = []
        self.later = Later(view, self.terms, self.notes, self._find, self._forecast)
        self.stops = Stops(view, self.terms, rule.limits, self.notes, ranking.late_weight)
        self.wait_for: list[Job] = []
        """The first due jobs that no device takes."""
        self.found: dict[object, Found] = {}
        self.wake_s = inf

    # ------------------------------------------------------------- who is tried

    def proposals(self, event: ev.Event) -> Iterator[Proposal]:
        """Start jobs, stop one for the first that waits, and reserve for that one."""
        for job in self._candidates():
            verdict = self._verdict(job)
            if isinstance(verdict, Found):
                yield self.rule._started(job, verdict, self.plan)
                self._has_started(job)
            elif not self.holds[:1] or self.holds[0].job is job:
                for refusal in verdict:
                    if refusal.rule == "turn" and refusal.device is not None:
                        yield from self.rule._start_next_by_turn(
                            self.view, refusal.device, self.plan
                        )
        yield from self._stops(event)
        yield from self._reserve()

    def reasons(self, wanted: Job) -> Sequence[Refusal]:
        """Return why a job does not start now."""
        before: Job | None = None
        for job in self._candidates():
            verdict = self._verdict(job)
            if job.id == wanted.id:
                if isinstance(verdict, Found):
                    return ()
                first = [] if before is None else [self._served_first(before)]
                served = [each for each in verdict if each.rule != "order"]
                return (*self._gives_way(job), *first, *served)
            before = before or job
        if before is None:
            return OrderPolicy.explain(self.rule, self.view, wanted)
        found = self.rule._find(self.view, wanted, None)
        refusals = found.refusals if found.placement is None else ()
        head = self._undue_head() if wanted.spec.due_s is None else None
        return (self._served_first(head or before), *refusals)

    def _candidates(self) -> Iterator[Job]:
        """Yield the jobs to try: each is one that waits when it is drawn."""
        view, now_s, tried = self.view, self.view.now.wall_s, set[int]()
        for job in self.notes.promised(view):
            tried.add(job.id)
            yield job
        keys = self.ranking.first(now_s)
        head: Job | None = None
        left, key = self.rule.depth, next(keys, None)
        while True:
            other = self._undue_head()
            if other is head:  # it waits, and no other job without a due time passes it
                other = None
            if other is not None and (key is None or self._key(other) < key or not left):
                head = other
                yield other
            elif key is not None and left:
                due, left, key = view.job(key[3]), left - 1, next(keys, None)
                if due is not None and due.state.waiting and due.id not in tried:
                    yield due
            else:
                return

    def _undue_head(self) -> Job | None:
        job_id = self.view.by_due().undue.head()
        return None if job_id is None else self.view.job(job_id)

    def _key(self, job: Job) -> Key:
        """Return the place of a job without a due time among those with one."""
        old_s = old_from_s(job, self.rule.max_wait_s)
        is_old = old_s <= self.view.now.wall_s
        return (prefix(job), OLD if is_old else OTHER, old_s if is_old else 0.0, job.id)

    # ------------------------------------------------------------- does it start?

    def _verdict(self, job: Job) -> Found | tuple[Refusal, ...]:
        """Return where a job starts, or why it waits; then others may have to keep its place."""
        view = self.view
        first = view.first_for_nodes(job)
        if first is not None:
            return (self._served_first(first),)
        found = self._search(job)
        if found.placement is None:
            self._waits(job)
            return found.refusals
        for hold in self.holds:
            refusal = hold.refuse(view, self._forecast, job, found.placement)
            if refusal is not None:
                if job.spec.due_s is None:
                    self._waits(job)
                return (self._served_first(hold.job), refusal)
        if job.spec.due_s is None:
            return found
        later = self.later.price(job)
        if later is not None:
            latest_s, refusal = later
            self.holds.append(Hold(job, latest_s, cheap=True))
            return (refusal,)
        self.later.spare = self._spare()
        return self.later.devices(job, found)

    def _search(self, job: Job) -> Found:
        """Return where the policy places a job. Alike jobs that no device takes are asked once."""
        alike = self.view.alike(job)
        if alike is None or job.spec.gpus != 1 or job.target is not None:
            return self._find(job)
        quantities = job.need_mib, job.predicted(Quantity.SMACT), job.predicted(Quantity.DURATION)
        key = id(alike), job.spec.uid, job.spec.max_slowdown, *quantities
        found = self.found.get(key)
        if found is None:
            found = self._find(job)
            if found.placement is None:
                self.found[key] = found
        return found

    def _find(self, job: Job, only: Sequence[str] | None = None) -> Found:
        rule, view = self.rule, self.view
        policy = rule._policy_for(job)
        state = self.plan.state.get(policy.name)
        return find_with_fallback(view, policy, job, state, rule.recovery_policy, only)

    def _has_started(self, job: Job) -> None:
        self.found.clear()
        self.notes.started(job)
        for hold in self.holds:
            hold.forget()

    def _forecast(self, job: Job, idle: bool = False) -> Forecast | None:
        """Return when a job could start, `idle`: on idle devices; None if nothing can be said."""
        policy = self.rule.recovery_policy if idle else self.rule._policy_for(job)
        if self.view.isolation.rests("policy", policy.name):
            policy = self.rule.recovery_policy
        if not job.spec.gpus or self.view.refuse_on_nodes(job) is not None:
            return None
        try:
            return Forecast(self.view, Checked(policy, self.view.answers), job)
        except RuleFailed:
            return None  # the next search for a placement reports it

    def _waits(self, job: Job) -> None:
        """Note that no device takes a job. The first one is waited for, if it can be in time."""
        closed = any(not hold.only_lower for hold in self.holds if not hold.cheap)
        if closed or len(self.wait_for) >= _MOST_WAITED:
            return
        now, due_s = self.view.now, job.spec.due_s
        hold = Hold(job, None)
        if due_s is not None:
            self.wait_for.append(job)
            if old_from_s(job, self.rule.max_wait_s) > now.wall_s:
                left = self.terms.left(job, None, now)
                hold.until_s = now.boot_s + due_s - left.upper_s - now.wall_s
                hold.only_lower = due_s - left.value_s < now.wall_s
                if not hold.only_lower:
                    start_s = hold.start_s(self._forecast)
                    late_s = start_s + left.value_s - now.boot_s - (due_s - now.wall_s)
                    hold.only_lower = start_s < inf and late_s > 0
        self.holds.append(hold)

    # ------------------------------------------------------------- stops and reservations

    def _stops(self, event: ev.Event) -> Iterator[Proposal]:
        """Stop a running job for the first one that waits and for which that pays."""
        if not self.wait_for or not self._weighs(event, "stops"):
            return
        for job in self.wait_for:
            if self.notes.is_promised(job):
                continue
            victim = self.stops.victim_for(job, self._forecast(job, False))
            if victim is not None:
                yield Preempt(job_id=victim.id)
                self.notes.stopped(self.view, victim, job)
                return

    def moves(self, event: ev.Event) -> Iterator[Proposal]:
        """Move a running job that is late to better GPUs, which no waiting job takes."""
        view = self.view
        running = [(job, attempt) for job, attempt in view.running() if job.spec.due_s is not None]
        if not running or len(servers(view)) < 2 or not self._weighs(event, "moves"):
            return
        for job, attempt in running:
            if not job.profile or view.prefers(job) or not self.stops.can_stop(job, attempt):
                continue
            forecast = self._forecast(job, True)
            if forecast is None:
                continue
            for option in self.stops.better(job, attempt, forecast, self._spare()):
                found = self._find(wide(job, option.gpus), option.uuids)
                kept = found.placement is None or any(
                    hold.refuse(view, self._forecast, job, found.placement) for hold in self.holds
                )
                if not kept and found.placement is not None:
                    yield Migrate(job_id=job.id, placement=found.placement)
                    self.notes.moved(job)
                    return

    def _weighs(self, event: ev.Event, what: str) -> bool:
        """Return whether stops or moves are weighed now, and ask to be called again for them."""
        now_s, key = self.view.now.boot_s, f"{self.rule.name} {what}"
        self.wake_s = min(self.wake_s, (now_s // _CHECK_S + 1) * _CHECK_S)
        since_s = now_s - self.view.memo.get(key, -inf)
        if isinstance(event, ev.ReadingsTaken) and 0 <= since_s < _READ_S:
            return False
        self.view.memo[key] = now_s
        return True

    def _spare(self) -> int:
        """Return the GPUs in excess of the jobs that wait."""
        idle = sum(not self.view.reservations(device.uuid) for device in self.view.devices())
        return max(0, idle - self._waiting())

    def _waiting(self) -> int:
        waiting = self.view.by_due()
        return len(waiting.due) + len(waiting.undue)

    def _reserve(self) -> Iterator[Proposal]:
        """Reserve whole devices for the first that waits, where it is known when they are free."""
        hold = next((each for each in self.holds if not each.cheap and not each.only_lower), None)
        view = self.view
        if hold is None or view.job(hold.job.id) is not hold.job or not hold.job.spec.due_s:
            return
        job, policy = hold.job, self.rule._policy_for(hold.job)
        whole = policy.whole_device or job.spec.collocation is Collocation.EXCLUSIVE
        forecast = hold.forecast(self._forecast)
        if not whole or forecast is None or forecast.start_s == inf:
            return
        length_s = job.limit_s or self.terms.left(job, None, view.now).value_s
        ready = sorted((at_s, uuid) for uuid, at_s in forecast.ready_s.items())[: job.spec.gpus]
        starts = [view.earliest_s(uuid, None, length_s, job) for _, uuid in ready]
        known = [at_s for at_s in starts if at_s is not None]
        if len(known) < job.spec.gpus:
            return
        start_s = max(forecast.start_s, *known)
        if start_s + length_s <= view.now.boot_s + MOST_AHEAD_S:
            devices = tuple((uuid, None) for _, uuid in ready)
            yield Reserve(job_id=job.id, devices=devices, start_s=start_s, end_s=start_s + length_s)

    def remember(self) -> None:
        """Keep the notes in the plan's state, and ask for the next call."""
        kept = self.notes.plain()
        if len(self.ranking):
            kept["scale_s"] = self.ranking.scale_s
        self.plan.state.pop(NOTES, None)
        if kept:
            self.plan.state[NOTES] = kept
        wake_s = min(self.wake_s, self.later.wake_s)
        self.plan.wake_at = None if wake_s == inf else wake_s

    # ------------------------------------------------------------- reasons

    def _served_first(self, job: Job) -> Refusal:
        why = f"job {job.label} ({job.spec.name}) is served first and cannot start yet"
        due_s, now_s = job.spec.due_s, self.view.now.wall_s
        rate = self.ranking.cost_rate(job.id, now_s)
        if due_s is not None and rate is not None:
            cost = self.rule.costs.tardiness_cost(rate, 3600.0) * 3600.0
            when = f"due in {show_seconds(due_s - now_s)}"
            if due_s < now_s:
                when = f"due {show_seconds(now_s - due_s)} ago"
            why += f": {when}, its delay counts {cost:.2g} {self.rule.costs.currency}/h"
        return Refusal("order", why)

    def _gives_way(self, job: Job) -> Iterator[Refusal]:
        other = self.notes.stopping_for(self.view, job)
        if other is not None:
            why = f"job {other.label} ({other.spec.name}) saves its work and gives way to it"
            yield Refusal("preemption", why)


def _any_due(view: View) -> bool:
    """Return whether a running job has a due time."""
    return any(job.spec.due_s is not None for job, _ in view.running())
