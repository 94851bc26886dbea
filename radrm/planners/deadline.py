"""The recommended planner for due times: it weighs what waiting costs against what a stop costs.

Theory of operation
-------------------
Without a job that has a due time it is `strict`, proposal by proposal. Otherwise waiting
jobs are tried in the order of `Ranking`; within one queue and priority:

    old jobs       they have waited `max_wait_s`: since they were submitted, or since their due time
    due jobs       by what a delay of them costs
    other jobs     in the configured order; as in `strict`, none passes the first of them

The policy decides which devices a job may share. A job with a profile gets the kind and the number
of GPUs that cost least: lateness and the energy that its server uses more. GPUs beyond its least
number are those for which no other job waits. A job starts unless

- it would end cheaper on another server, or alone on a device, that is expected to be free soon.
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
run for less than `min_run_s`, or was asked to within `cooldown_s`, also if it did not save. A late
job moves under the same conditions to better GPUs that no waiting job takes.

Invariants:
- Only jobs with a way to save are stopped or moved, and for no job of a lower priority.
- At most one stop is under way for a waiting job, and it is the first to be tried when the place
  is free.
- What is kept is bounded, and ends with the job or with `cooldown_s`.

What may interleave: the stopped job may end, or never save; then nothing follows but the pause.
Due times, weights and durations may change: the ranking follows the records.

What a restart sees: the notes, in the planner's state. Dates count across a reboot; a note from the
future counts from now, so that a clock set back lengthens no bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from radrm.core import events as ev
from radrm.core.planning.placing import Checked, Found, RuleFailed
from radrm.core.proposals import Migrate, Preempt, Proposal
from radrm.core.records import Job, Placement, Refusal
from radrm.core.rules import Plan
from radrm.core.settings import fixed
from radrm.core.view import View
from radrm.core.words import Collocation
from radrm.deadlines import Costs, Ranking, old_from_s
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.candidates import Seen, any_due, candidates, head_without_due
from radrm.planners.lateness.later import Later, servers, wide
from radrm.planners.lateness.stopping import Limits, Stops
from radrm.planners.lateness.tardiness import Hold, Notes, Terms, served_first
from radrm.planners.order_policy import OrderPolicy, Starter

NOTES = "deadline notes"
"""The key of this planner's own memory in its state, beside the states of policies."""

_Verdict: TypeAlias = Found | tuple[Refusal, ...]
"""Where a job starts, or why it waits."""

_COSTS = Costs()
_MOST_WAITED = 3
"""The first waiting jobs that others may not delay, and for which a stop is weighed."""


@dataclass(frozen=True, slots=True)
class Deadline(OrderPolicy):
    """Start and stop jobs by what a late end costs (`--due`). Without due times: `strict`."""

    costs: Costs = _COSTS
    depth: int = fixed(20)
    """The number of waiting jobs with due times that are tried at an event."""
    max_wait_s: float = 86_400.0
    """A job that has waited for this long goes before all others; with a due time: this long after
    it.

    A site that agreed with its users how long a job may wait for those with due times."""
    unknown_duration_s: float = fixed(3600.0)
    """The duration to assume for a job without a prediction of it. A time limit bounds both."""
    margin: float = fixed(0.2)
    """A stop must save this part more than it costs."""
    restart_s: float = fixed(60.0)
    """The time that a stopped job needs to start again and to load its work."""
    min_run_s: float = 300.0
    """A job is stopped only after it has run for this long.

    A site whose jobs need longer to begin their work."""
    cooldown_s: float = fixed(1800.0)
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
        if view.launches_paused:
            return plan  # nor is a job stopped for one that could not start
        seen = Seen.of(view, self.name)
        touched = self._update(view, seen, plan.state)
        if not seen.ranking and NOTES not in plan.state and not any_due(view):
            plan.proposals = self._starts(view, plan)
        elif seen.same(view, touched):
            without_gpu = Starter(self, view, plan.state).from_line(gpuless=True)
            plan.proposals, plan.wake_at = without_gpu, seen.wake_s
        else:
            weighs = seen.weighs(view.now.boot_s, isinstance(event, ev.ReadingsTaken))
            plan.proposals = Call(self, view, plan, seen).by_rank(weighs)
        return plan

    def _update(self, view: View, seen: Seen, state: Any) -> Iterable[int]:
        """Bring the ranking up to date; return the jobs that came, changed or left."""
        source, ranking, now_s = view.by_due(), seen.ranking, view.now.wall_s
        touched = source.take_touched()
        if ranking.source is not source:
            scale_s = float(state.get(NOTES, {}).get("scale_s", 0.0))
            ranking = seen.ranking = Ranking(source, self.max_wait_s, scale_s)
            touched = set(source.due)
        if touched or ranking.next_turn_s <= now_s or ranking.is_ahead(now_s):
            jobs = {i: view.job(i) if i in source.due else None for i in touched}
            ranking.update(jobs, lambda job: self.terms.least_s(job, view.now), now_s)
            seen.classify(view, jobs)
        return touched

    def keeps_order(self, view: View) -> bool:
        """Jobs with due times pass others for longer than the order lets them."""
        return not view.by_due().due

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        state = view.kept(self.name, self.version) or {}
        seen = Seen.of(view, self.name)
        if self._update(view, seen, state):
            seen.moment = None
        if not job.spec.gpus or not len(seen.ranking):
            return Starter(self, view, {}).reasons(job)
        return Call(self, view, Plan(state=state), seen).reasons(job)


class Call(Starter):
    """One call of the planner. Each waiting job that it looks at starts, or waits for a reason."""

    rule: Deadline

    def __init__(self, rule: Deadline, view: View, plan: Plan, seen: Seen) -> None:
        self.rule, self.view, self.plan, self.state = rule, view, plan, plan.state
        self.seen, self.terms, self.ranking = seen, rule.terms, seen.ranking
        self.notes = Notes.of(plan.state.get(NOTES), view, rule.cooldown_s)
        self.holds: list[Hold] = []
        self.later = Later(view, self.terms, self.notes, self.find, self._forecast)
        self.stops = Stops(view, self.terms, rule.limits, self.notes, seen.ranking.late_weight)
        self.wait_for: list[Job] = []
        """The first due jobs that no device takes."""
        self.quiet = True
        """Nothing starts, and only because no device takes these jobs."""

    def by_rank(self, weighs: bool) -> Iterator[Proposal]:
        """Start jobs in the order of the ranking. `weighs`: weigh stops and moves, too."""
        if len(self.ranking):
            for reserved in self.view.reserved_for_users():
                yield from self.by_reservation(reserved)
            yield from self._ranked(weighs)
            yield from self.from_line(gpuless=True)
        else:
            yield from self.proposals()
        if weighs:
            yield from self.moves()
        self.remember()

    # ------------------------------------------------------------- who is tried

    def _ranked(self, weighs: bool) -> Iterator[Proposal]:
        """Start jobs, stop one for the first that waits, and reserve for that one."""
        first = True
        for job, verdict in self._tried():
            if isinstance(verdict, Found):
                yield self.started(job, verdict)
                self._has_started(job)
                continue
            if first and verdict is not None:
                yield from self.start_by_turn(verdict)
            first = False
        if weighs:
            yield from self._stops()
        yield from self._reserve()

    def reasons(self, wanted: Job) -> Sequence[Refusal]:
        """Return why a job does not start now."""
        before: Job | None = None
        for job, verdict in self._tried(wanted.id):
            if job.id == wanted.id and verdict is not None:
                if isinstance(verdict, Found):
                    return ()
                first = [] if before is None else [self._served_first(before)]
                served = [each for each in verdict if each.rule != "order"]
                return (*self._gives_way(job), *first, *served)
            before = before or job
        if before is None:
            return super().reasons(wanted)
        found = self.find(wanted)
        refusals = found.refusals if found.placement is None else ()
        head = head_without_due(self.view) if wanted.spec.due_s is None else None
        return (self._served_first(head or before), *refusals)

    def _tried(self, wanted: int | None = None) -> Iterator[tuple[Job, _Verdict | None]]:
        """Yield each job that is tried, and where it starts or why it waits.

        Who plans carries it out, and who explains reads it, so both always agree. A job is not
        tried again while no device takes its kind, unless it is `wanted`; if it is the first that
        waits, it is yielded with None.
        """
        first = True
        self.seen.begin(self.view)
        for job in self._candidates():
            if job.id != wanted and self.seen.fails(job):
                if len(self.holds) < _MOST_WAITED:
                    self._waits(job)
                if first:
                    yield job, None
                first = False
            elif job.state.waiting:
                verdict = self._verdict(job)
                yield job, verdict
                first = first and isinstance(verdict, Found)

    def _candidates(self) -> Iterator[Job]:
        rule, first = self.rule, list(self.notes.made_way_for(self.view))
        return candidates(self.view, self.ranking, first, rule.depth, rule.max_wait_s)

    # ------------------------------------------------------------- does it start?

    def _verdict(self, job: Job) -> _Verdict:
        """Return where a job starts, or why it waits; then others may have to keep its place."""
        view = self.view
        first = view.first_for_nodes(job)
        if first is not None:
            return (self._served_first(first),)
        found = self.find(job)
        if found.placement is None:
            self._waits(job)
            self.quiet &= self.seen.note_failure(view, job, found)
            return found.refusals
        self.quiet = False
        refusal = self._keeps_away(job, found.placement)
        if refusal is not None:
            if job.spec.due_s is None:
                self._waits(job)
            return refusal
        if job.spec.due_s is None:
            return found
        later = self.later.price(job)
        if later is not None:
            latest_s, refusal_ = later
            self.holds.append(Hold(job, latest_s, cheap=True))
            return (refusal_,)
        self.later.spare = self._spare()
        return self.later.devices(job, found)

    def _keeps_away(self, job: Job, placement: Placement) -> tuple[Refusal, ...] | None:
        """Return why a job may not start there: another one waits for that. None if it may."""
        is_first = True
        for hold in self.holds:
            if not (hold.cheap or is_first):
                continue
            hold.decide(self._forecast, self.terms, self.view.now)
            refusal = hold.refuse(self.view, self._forecast, job, placement)
            if refusal is not None:
                return (self._served_first(hold.job), refusal)
            is_first &= hold.cheap or hold.only_lower
        return None

    def _has_started(self, job: Job) -> None:
        self.seen.failed.clear()
        self.quiet = False
        self.notes.started(job)
        for hold in self.holds:
            hold.forget()

    def _forecast(self, job: Job, idle: bool = False) -> Forecast | None:
        """Return when a job could start, `idle`: on idle devices; None if nothing can be said."""
        policy = self.rule.recovery_policy if idle else self.rule.policy_for(job)
        if self.view.isolation.rests("policy", policy.name):
            policy = self.rule.recovery_policy
        if not job.spec.gpus or self.view.refuse_on_nodes(job) is not None:
            return None
        try:
            others = self.notes.given_to_others(job)
            return Forecast(self.view, Checked(policy, self.view.answers), job, others)
        except RuleFailed:
            return None  # the next search for a placement reports it

    def _waits(self, job: Job) -> None:
        """Note that no device takes a job. The first one is waited for, if it can be in time."""
        if len(self.holds) >= _MOST_WAITED or not job.state.waiting:
            return
        hold, now_s = Hold(job, None), self.view.now.wall_s
        if job.spec.due_s is not None:
            self.wait_for.append(job)
            if old_from_s(job, self.rule.max_wait_s) > now_s:
                latest_s = self.ranking.latest_s(job.id)
                hold.only_lower = latest_s is not None and latest_s < now_s
                hold.is_decided = hold.only_lower  # else it takes a forecast
        self.holds.append(hold)

    # ------------------------------------------------------------- stops and reservations

    def _stops(self) -> Iterator[Proposal]:
        """Stop a running job for the first one that waits and for which that pays."""
        for job in self.wait_for:
            if self.notes.is_made_way_for(job):
                continue
            victim = self.stops.victim_for(job, self._forecast(job, False))
            if victim is not None:
                self.quiet = False
                yield Preempt(job_id=victim.id)
                self.notes.stopped(self.view, victim, job)
                return

    def moves(self) -> Iterator[Proposal]:
        """Move a running job that is late to better GPUs, which no waiting job takes."""
        view = self.view
        running = [(job, attempt) for job, attempt in view.running() if job.spec.due_s is not None]
        if not running or len(servers(view)) < 2:
            return
        for job, attempt in running:
            if not job.profile or view.prefers(job) or not self.stops.can_stop(job, attempt):
                continue
            forecast = self._forecast(job, True)
            if forecast is None:
                continue
            for option in self.stops.better(job, attempt, forecast, self._spare()):
                found = self.find(wide(job, option.gpus), option.uuids)
                if found.placement is None:
                    continue
                if self._keeps_away(job, found.placement) is None:
                    self.quiet = False
                    yield Migrate(job_id=job.id, placement=found.placement)
                    self.notes.moved(job)
                    return

    def _spare(self) -> int:
        """Return the GPUs in excess of the jobs that wait."""
        idle = sum(not self.view.reservations(device.uuid) for device in self.view.devices())
        waiting = self.view.by_due()
        return max(0, idle - len(waiting.due) - len(waiting.without_due))

    def _reserve(self) -> Iterator[Proposal]:
        """Reserve whole devices for the first that waits, where it is known when they are free."""
        running = [job for job, _ in self.view.running() if job.limit_s is not None]
        for hold in self.holds if running else ():
            hold.decide(self._forecast, self.terms, self.view.now)
            job, exclusive = hold.job, Collocation.EXCLUSIVE
            if hold.cheap or hold.only_lower or not job.spec.due_s:
                continue
            whole = self.rule.policy_for(job).whole_device
            if whole or job.spec.collocation is exclusive:
                found = hold.reservation(self.view, self._forecast, self.terms)
                if found is not None:
                    self.quiet = False
                    yield found
            return

    def remember(self) -> None:
        """Keep the notes in the plan's state, and ask for the next call."""
        kept = self.notes.plain()
        if len(self.ranking):
            kept["scale_s"] = self.ranking.scale_s
        self.plan.state.pop(NOTES, None)
        if kept:
            self.plan.state[NOTES] = kept
        self.seen.end(self.view, self.quiet and not self.notes.gives, self.later.wake_s)
        self.plan.wake_at = self.seen.wake_s

    # ------------------------------------------------------------- reasons

    def _served_first(self, job: Job) -> Refusal:
        rate = self.ranking.cost_rate(job.id, self.view.now.wall_s)
        return served_first(job, rate, self.terms, self.view.now)

    def _gives_way(self, job: Job) -> Iterator[Refusal]:
        other = self.notes.stopping_for(self.view, job)
        if other is not None:
            why = f"job {other.label} ({other.spec.name}) saves its work and gives way to it"
            yield Refusal("preemption", why)
