"""`step`: one event in; changed records, actions and a wake-up time out.

The same object serves the daemon and the simulator. What it decides depends only
on the events it was given; neither clock nor chance nor host can be reached from
here. Its cost per event does not grow with the queue: a step looks at the jobs
that the event names, at the devices, and at as many waiting jobs as its planners
ask to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

from radrm.core import edits, service
from radrm.core import events as ev
from radrm.core import lifecycle as life
from radrm.core.actions import (
    ApplyShares,
    EstimateJob,
    Launch,
    Resize,
    TakeCheckpoint,
)
from radrm.core.dependencies import settle, waits_for
from radrm.core.planning.asking import (
    MOST_PROPOSALS,
    PLANNER,
    explanation,
    is_wanted,
    of_right_shape,
    proposals,
)
from radrm.core.proposals import (
    Hopeless,
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import Attempt, DeviceStatus, Instant, Job, Refusal, Reservation, RuleState
from radrm.core.rules import Order, Planner, Recovery
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import RuleFailed, asked
from radrm.core.state.ledger import DeviceLedger, merged
from radrm.core.state.state import RULES_AGAIN, Decision, State, Timer
from radrm.core.units import show_seconds
from radrm.core.validation import check, check_placement, hopeless, refuse_gpuless
from radrm.core.view import View
from radrm.core.words import DeviceKind, JobState, ReservationKind, StopReason

_ALL_PLANNERS = "planners"
_LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in force. `planners` are asked in turn; the first starts jobs, the
    others (controllers) adjust what runs, or it is another planner altogether."""

    order: Order
    planners: Sequence[Planner]
    recovery: Recovery
    instead: Planner | None = None
    """Starts jobs while the first planner rests for having failed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What survived of an earlier life, from the store: unfinished jobs and what is theirs."""

    jobs: Iterable[Job] = ()
    attempts: Iterable[Attempt] = ()
    reservations: Iterable[Reservation] = ()
    devices: Iterable[DeviceStatus] = ()
    rule_states: Iterable[RuleState] = ()
    next_serial: int = 1


class Scheduler:
    """Created empty or from what was `Kept`; then driven by `step` alone."""

    def __init__(self, rules: Rules, settings: CoreSettings | None = None) -> None:
        self._rules = rules
        self.state = State(settings or CoreSettings(), rules.order.key, rules.order.name)
        self.state.waiting.judge = partial(service.judge, self.state)
        self.view = View(self.state)
        self._kept_reservations: list[Reservation] = []
        self._unheard: list[ev.Event] | None = None
        """After `restore`, until all is told of the attempts: what planners hear only then."""

    # ------------------------------------------------------------- restart

    def restore(self, kept: Kept) -> None:
        """Take over stored records, before the first step.

        Attempts are put on their devices by the first `DevicesSeen`; what has
        become of them the host reports by events as always. `AttemptsAdopted` ends that:
        until then no timer runs and no planner is asked.
        """
        self._unheard = []
        state = self.state
        state.next_serial = kept.next_serial
        for status in kept.devices:
            if status.drained is not None:
                state.drained[status.uuid] = status.drained
        for rule_state in kept.rule_states:
            state.rule_states[rule_state.kind, rule_state.name] = rule_state
            if rule_state.wake_boot_s is not None:
                # Boot time may have begun anew since: call it at once, it knows what it wants.
                state.wake(Timer(float("-inf"), PLANNER + rule_state.name))
        # Live elements first: the places in an array's limit are theirs.
        for job in sorted(kept.jobs, key=lambda job: (not job.state.live, job.id)):
            state.put_job(job)
            if job.pause is not None:
                # Whether it is over is for the first step to see: only that knows the time.
                state.wake(Timer(float("-inf"), life.PAUSE_OVER, job.id))
        for attempt in kept.attempts:
            state.put_attempt(attempt)
            self._restore_timers(state.jobs[attempt.job_id], attempt)
        self._kept_reservations = list(kept.reservations)

    def device_kind(self) -> str | None:
        """What all devices are called; None where they are of several kinds, or none is known."""
        names = {ledger.device.name for ledger in self.state.ledgers.values()}
        return names.pop() if len(names) == 1 else None

    def _restore_timers(self, job: Job, attempt: Attempt) -> None:
        life.wake_for_limit(self.state, job, attempt)
        if attempt.stop is not None:
            self.state.wake(Timer(attempt.stop.kill_boot_s, life.KILL, job.id, attempt.number))

    # ------------------------------------------------------------- step

    def step(self, event: ev.Event) -> Decision:
        self.state.begin(event.at)
        _HANDLERS[type(event)](self, event)
        if type(event) in _ABOUT_SERVICE:
            service.look(self.state, anew=not isinstance(event, (ev.ReadingsTaken, ev.Tick)))
        settle(self.state)
        if self._unheard is not None:
            self._unheard.append(event)
            return self.state.finish()
        woken = self._due()
        for planner in self._rules.planners:
            if planner.name in woken or self._listens(planner, event):
                self._ask(planner, event)
        return self.state.finish()

    def why_waiting(self, job_id: int, now: Instant) -> tuple[Refusal, ...]:
        """Why a waiting job does not start at this moment. Computed on demand, changes nothing."""
        job = self.state.jobs.get(job_id)
        if job is None or not job.state.waiting:
            return ()
        if job.held:
            return (Refusal("held", "it is held; release it with: radrm release"),)
        if job.estimating:
            return (Refusal("estimating", "its memory is being estimated"),)
        if job.pause is not None:
            left_s = ceil(job.pause.left_s(now))
            return (Refusal("pause", f"waits {show_seconds(left_s)} {job.pause.reason}"),)
        if job.after:
            return (Refusal("dependency", waits_for(self.state, job)),)
        array = self.state.arrays.get(job.array.array_id) if job.array else None
        if array is not None and array.at_once is not None and array.stands_aside(job.id):
            why = f"{array.at_once} elements of its array, as many as may, run or are next"
            return (Refusal("array", why),)
        aside = self.state.waiting.why_aside(job.id)
        if aside is not None:
            return (aside.refusal,)
        if self.state.launch_trouble is not None:
            return (Refusal("launch", f"nothing can be started: {self.state.launch_trouble}"),)
        self.state.begin(now)
        if not job.spec.gpus and (busy := refuse_gpuless(self.state)) is not None:
            return (busy,)
        troubles = tuple(Refusal("rule", line) for line in self.troubles(now))
        found = [r for p in self._asked_planners() for r in explanation(self.view, p, job)]
        return (*found, *troubles) or (Refusal("next", "it starts with the next event"),)

    def troubles(self, now: Instant) -> tuple[str, ...]:
        """What is wrong with rules, each in a line for people."""
        return self.state.isolation.troubles(now.boot_s)

    def _asked_planners(self) -> list[Planner]:
        """The planners in force: without those that rest, and with who stands in."""
        rests = self.state.isolation.rests
        found = [p for p in self._rules.planners if not rests("planner", p.name)]
        first, instead = self._rules.planners[0], self._rules.instead
        return found if first in found or instead is None else [instead, *found]

    def refuse_edit(self, event: ev.EditRequested) -> str | None:
        """Why a job cannot be changed so; None when it can."""
        return edits.refuse(self.state, event)

    def hopeless(self, job: Job) -> str | None:
        """Why a job could never run on the devices there are; None when it could."""
        return hopeless(self.state, job)

    def _due(self) -> set[str]:
        """Act on the timers whose time has come; returns the planners to wake."""
        woken: set[str] = set()
        for timer in self.state.due():
            if timer.what.startswith(PLANNER):
                if is_wanted(self.state, timer):
                    woken.add(timer.what.removeprefix(PLANNER))
                continue
            if timer.what in (_ALL_PLANNERS, RULES_AGAIN):
                if timer.what == RULES_AGAIN:
                    self.state.place_again()
                woken |= self._names()
                continue
            if timer.what == life.LAUNCH_AGAIN and timer.boot_s >= self.state.launch_again_s:
                self.state.launch_trouble = None
            if timer.what == life.PAUSE_OVER:
                paused = self.state.jobs.get(timer.job_id)
                if paused is not None and life.end_pause(self.state, paused):
                    woken |= self._names()
                continue
            job, attempt = self._live(timer.job_id, timer.attempt)
            if job is None or attempt is None:
                continue
            if timer.what == life.TIME_LIMIT:
                life.at_limit(self.state, job, attempt)
            elif timer.what == life.KILL:
                life.kill_now(self.state, attempt)
        return woken

    def _names(self) -> set[str]:
        return {planner.name for planner in self._rules.planners}

    def _wake_planners(self, boot_s: float) -> None:
        """Ask all planners again then: something that could not be done may be possible."""
        self.state.wake(Timer(boot_s, _ALL_PLANNERS))

    def _live(self, job_id: int, number: int) -> tuple[Job | None, Attempt | None]:
        return self.state.jobs.get(job_id), self.state.live_attempt(job_id, number)

    # ------------------------------------------------------------- planners

    def _ask(self, planner: Planner, event: ev.Event) -> None:
        """Carry out what a planner proposes, unless it rests for having failed."""
        isolation, name = self.state.isolation, planner.name
        if not isolation.rests("planner", name):
            try:
                for proposal in proposals(self.state, self.view, planner, event):
                    self._propose(proposal)
                return
            except RuleFailed as failed:
                isolation.fail("planner", name, failed.error, self._without(planner))
        instead = self._rules.instead
        if planner is self._rules.planners[0] and instead not in (None, planner):
            self._ask(instead, event)

    def _without(self, planner: Planner) -> str:
        """What happens while a planner rests, for people."""
        if planner is not self._rules.planners[0]:
            return "the others go on without it"
        if self._rules.instead in (None, planner):
            return "no job starts meanwhile"
        return "jobs are started in order of submission, on GPUs of their own"

    def _listens(self, planner: Planner, event: ev.Event) -> bool:
        try:
            return asked(lambda: type(event) in planner.listens)
        except RuleFailed as failed:
            self.state.isolation.fail("planner", planner.name, failed.error, "it hears of nothing")
            return False

    def _propose(self, proposal: Proposal) -> None:
        """Carry out a proposal, or reject it. A kind that failed for a job has to wait.

        A rejection makes nobody wait: it costs a look, asks nothing of the host, and what
        stood in the way may be gone a moment later.
        """
        job_id, kind, now_s = proposal.job_id, type(proposal), self.state.turn.now.boot_s
        waits = self.state.proposals.pausing(job_id, kind.__name__, now_s)
        if waits is not None:
            left = show_seconds(ceil(waits.until_s - now_s))
            refusal = Refusal("pause", f"it waits {left}, since it failed: {waits.why}")
            self.state.turn.rejections.append((proposal, refusal))
            return
        found = check(self.state, proposal)
        if found is None and self.state.proposals.too_many(job_id, kind.__name__, now_s):
            found = Refusal("pace", "it was carried out again and again within a second")
            self._put_off(job_id, kind, found.message)
        if found is not None:
            self.state.turn.rejections.append((proposal, found))
            return
        _CARRIERS[kind](self, self.state.jobs[job_id], proposal)
        settle(self.state)

    def _put_off(self, job_id: int, kind: type[Proposal], why: str) -> None:
        """Have the next proposal of this kind for this job wait, longer each time."""
        now_s = self.state.turn.now.boot_s
        failed = self.state.proposals.fail(job_id, kind.__name__, now_s, why)
        self._wake_planners(failed.until_s)

    def _start(self, job: Job, p: Start) -> None:
        life.start(self.state, job, p.placement)

    def _hopeless(self, job: Job, p: Hopeless) -> None:
        life.refuse(self.state, job, p.reason)

    def _preempt(self, job: Job, p: Preempt) -> None:
        life.stop(self.state, job, self.state.attempts[job.id], StopReason.PREEMPTED)

    def _checkpoint(self, job: Job, p: Proposal) -> None:
        number = self.state.attempts[job.id].number
        self.state.act(TakeCheckpoint(job_id=job.id, attempt=number))

    def _migrate(self, job: Job, p: Migrate) -> None:
        life.take_target(self.state, job, p.placement)
        self._checkpoint(job, p)

    def _resize(self, job: Job, p: ResizeTo) -> None:
        life.begin_resize(self.state, job, self.state.attempts[job.id], p.placement)

    def _shares(self, job: Job, p: SetShares) -> None:
        number = self.state.attempts[job.id].number
        self.state.act(ApplyShares(job_id=job.id, attempt=number, shares=p.shares))

    # ------------------------------------------------------------- events from people

    def _on_tick(self, event: ev.Tick) -> None:
        pass

    def _on_submitted(self, event: ev.JobSubmitted) -> None:
        if event.job.id in self.state.jobs:
            return
        job = self.state.put_job(event.job)
        if event.refused is not None:
            life.refuse(self.state, job, event.refused)
        elif (never := hopeless(self.state, job)) is not None:
            life.refuse(self.state, job, never)
        elif job.estimating:
            self.state.act(EstimateJob(job_id=job.id))

    def _on_cancel(self, event: ev.CancelRequested) -> None:
        job = self.state.jobs.get(event.job_id)
        if job is None:
            return
        reason = f"cancelled by {event.by}"
        if job.state.waiting:
            life.cancel_waiting(self.state, job, reason)
            return
        attempt = self.state.attempts[job.id]
        life.stop(self.state, job, attempt, StopReason.CANCELLED, reason)

    def _on_hold(self, event: ev.HoldRequested) -> None:
        job = self.state.jobs.get(event.job_id)
        if job is not None and job.state.waiting:
            pause = job.pause if event.held else None
            self.state.put_job(replace(job, held=event.held, pause=pause))

    def _on_requeue(self, event: ev.RequeueRequested) -> None:
        edits.requeue(self.state, event)

    def _on_edit(self, event: ev.EditRequested) -> None:
        edits.edit(self.state, event)

    def _on_drain(self, event: ev.DrainRequested) -> None:
        self.state.put_drained(event.device, event.reason)

    def _on_estimate(self, event: ev.EstimateReady) -> None:
        job = self.state.jobs.get(event.job_id)
        if job is not None and job.estimating:
            known = replace(
                job,
                estimates=event.estimates,
                estimate_notes=event.notes,
                estimating=False,
            )
            self.state.put_job(known)

    # ------------------------------------------------------------- events from devices

    def _on_devices(self, event: ev.DevicesSeen) -> None:
        self.state.set_devices(event.devices)
        kept, self._kept_reservations = self._kept_reservations, []
        for reservation in kept:
            self._put_back(reservation)
        for ledger in [le for le in self.state.ledgers.values() if le.vanished]:
            self._end_holders(ledger)

    def _end_holders(self, ledger: DeviceLedger) -> None:
        """What a job had on a MIG instance that was cut away is lost. A GPU may come back."""
        if ledger.device.kind is not DeviceKind.MIG:
            return
        for holding in list(ledger.holdings.values()):
            attempt = self.state.live_attempt(holding.job_id, holding.attempt)
            if attempt is None or attempt.stop is not None:
                continue
            reason = f"its device {ledger.device.profile or ledger.device.name} has vanished"
            job = self.state.jobs[holding.job_id]
            life.stop(self.state, job, attempt, StopReason.LOST, reason)

    def _put_back(self, reservation: Reservation) -> None:
        """A stored reservation, and its holder, back on their device after a restart."""
        ledger = self.state.ledgers.get(reservation.device)
        job = self.state.jobs.get(reservation.job_id) if reservation.job_id else None
        if ledger is None:
            self._kept_reservations.append(reservation)
            return
        attempt = self.state.attempts.get(job.id) if job else None
        if reservation.kind is ReservationKind.RUNNING and (
            attempt is None or reservation.device not in attempt.placement.devices
        ):
            # Its holder ended while the device was away.
            self.state.unreserve(reservation.owner, reservation.device)
            return
        self.state.reserve(reservation)
        if job and attempt and reservation.kind is ReservationKind.RUNNING:
            now = self.state.turn.now
            had_it_s = now.since(attempt.started or attempt.launched)
            ledger.admit(job, attempt, now.boot_s - (had_it_s or 0.0), now.boot_s)

    def _on_adopted(self, event: ev.AttemptsAdopted) -> None:
        """From here on it is a life like any other: planners hear what has happened so far."""
        unheard, self._unheard = self._unheard or [], None
        for past in unheard:
            for planner in self._rules.planners:
                if self._listens(planner, past):
                    self._ask(planner, past)

    def _on_readings(self, event: ev.ReadingsTaken) -> None:
        for reading in event.readings:
            ledger = self.state.ledgers.get(reading.device)
            if ledger is None:
                continue
            for holding in ledger.take(reading):
                attempt = self.state.live_attempt(holding.job_id, holding.attempt)
                if attempt is None:
                    continue
                usage = merged(attempt.usage, (holding.usage(reading.device),))
                self.state.put_attempt(replace(attempt, usage=usage))
                smaller = ledger.shrunk(holding)
                if smaller is not None:
                    self.state.reserve(smaller)
            self._reclaim(ledger)

    def _reclaim(self, ledger: DeviceLedger) -> None:
        """End jobs that have had a device for long and never used it, where a site wants that."""
        limit = self.state.settings.unused_reclaim_s
        if not limit or not ledger.holdings:
            return
        for holding in list(ledger.holdings.values()):
            unused_s = holding.unused_for(self.state.turn.now.boot_s)
            attempt = self.state.live_attempt(holding.job_id, holding.attempt)
            if attempt is None or attempt.stop is not None or unused_s is None or unused_s < limit:
                continue
            reason = f"it had {ledger.device.name} for {show_seconds(unused_s)} and never used it"
            job = self.state.jobs[holding.job_id]
            life.stop(self.state, job, attempt, StopReason.CANCELLED, reason)

    # ------------------------------------------------------------- events from attempts

    def _on_started(self, event: ev.AttemptStarted) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job and attempt and attempt.started is None:
            self.state.launches.forget(_LAUNCH)
            self.state.proposals.forget_failures(job.id)
            life.started(self.state, job, attempt, event.happened)

    def _on_voided(self, event: ev.LaunchVoided) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job and attempt:
            life.voided(self.state, job, attempt, None)

    def _on_ended(self, event: ev.AttemptEnded) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job is None or attempt is None:
            return
        if event.never_started is not None and event.passing:
            self._launch_later(job, attempt, event.never_started)
            return
        life.ended(self.state, job, attempt, event, self._rules.recovery)
        self._go_on_elsewhere(self.state.jobs[job.id])

    def _launch_later(self, job: Job, attempt: Attempt, reason: str) -> None:
        """The server cannot start anything now: as if nothing had been tried, and a pause."""
        life.voided(self.state, job, attempt, reason)
        state, now_s = self.state, self.state.turn.now.boot_s
        state.launch_trouble = reason
        if state.launches.pausing(_LAUNCH, now_s) is None:
            until_s = state.launches.fail(_LAUNCH, now_s, reason).until_s
            state.launch_again_s = until_s
            state.wake(Timer(until_s, life.LAUNCH_AGAIN))
            self._wake_planners(until_s)

    def _go_on_elsewhere(self, job: Job) -> None:
        """A job stopped for its migration starts where it was to go, or waits as others do."""
        if job.target is None or not job.state.waiting:
            return
        if job.pause is None and check_placement(self.state, job, job.target) is None:
            life.start(self.state, job, job.target)
        else:
            life.drop_target(self.state, job)

    def _on_progress(self, event: ev.ProgressReported) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job and attempt:
            self.state.put_job(replace(job, progress=event.progress))

    def _on_checkpoint(self, event: ev.CheckpointTaken) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job is None or attempt is None:
            return
        self.state.proposals.forget(job.id, TakeCheckpointNow.__name__)
        saved = event.progress or job.progress
        job = self.state.put_job(replace(job, saved=saved, saved_at=event.at))
        if job.target is not None and job.state is JobState.RUNNING:
            life.stop(self.state, job, attempt, StopReason.PREEMPTED)

    def _on_resized(self, event: ev.Resized) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job and attempt and attempt.target is not None:
            self.state.proposals.forget(job.id, ResizeTo.__name__)
            life.end_resize(self.state, job, attempt, attempt.target)

    def _on_shares(self, event: ev.SharesApplied) -> None:
        job, attempt = self._live(event.job_id, event.attempt)
        if job and attempt:
            self.state.proposals.forget(job.id, SetShares.__name__)
            placement = replace(attempt.placement, shares=event.shares)
            self.state.put_attempt(replace(attempt, placement=placement))

    def _on_failed(self, event: ev.ActionFailed) -> None:
        action = event.action
        if isinstance(action, EstimateJob):
            job = self.state.jobs.get(action.job_id)
            if job is not None and job.estimating:
                self.state.put_job(replace(job, estimating=False))
            return
        if not isinstance(action, (Launch, Resize, TakeCheckpoint, ApplyShares)):
            return
        job, attempt = self._live(action.job_id, action.attempt)
        if job is None or attempt is None:
            return
        if isinstance(action, Launch):
            ended = ev.AttemptEnded(
                at=event.at,
                job_id=job.id,
                attempt=attempt.number,
                never_started=event.reason,
                passing=event.passing,
            )
            self._on_ended(ended)
        elif isinstance(action, Resize):
            life.end_resize(self.state, job, attempt, attempt.placement)
            self._put_off(job.id, ResizeTo, event.reason)
        elif isinstance(action, ApplyShares):
            self._put_off(job.id, SetShares, event.reason)
        else:
            kind = TakeCheckpointNow if job.target is None else Migrate
            life.drop_target(self.state, job)
            self._put_off(job.id, kind, event.reason)

    def _on_plan(self, event: ev.PlanReady) -> None:
        try:
            most = MOST_PROPOSALS + len(self.state.jobs)
            found = [of_right_shape(proposal) for proposal in event.proposals[:most]]
        except RuleFailed as failed:
            instead = "the others go on without it"
            self.state.isolation.fail("planner", event.planner, failed.error, instead)
            return
        for proposal in found:
            if self.state.touched_since(proposal.job_id, event.version):
                stale = Refusal("stale", "the job has changed since the planner looked")
                self.state.turn.rejections.append((proposal, stale))
            else:
                self._propose(proposal)


_HANDLERS: dict[type[ev.Event], Callable[[Scheduler, Any], None]] = {
    ev.Tick: Scheduler._on_tick,
    ev.JobSubmitted: Scheduler._on_submitted,
    ev.CancelRequested: Scheduler._on_cancel,
    ev.HoldRequested: Scheduler._on_hold,
    ev.RequeueRequested: Scheduler._on_requeue,
    ev.EditRequested: Scheduler._on_edit,
    ev.DrainRequested: Scheduler._on_drain,
    ev.EstimateReady: Scheduler._on_estimate,
    ev.DevicesSeen: Scheduler._on_devices,
    ev.ReadingsTaken: Scheduler._on_readings,
    ev.AttemptStarted: Scheduler._on_started,
    ev.LaunchVoided: Scheduler._on_voided,
    ev.AttemptEnded: Scheduler._on_ended,
    ev.AttemptsAdopted: Scheduler._on_adopted,
    ev.ProgressReported: Scheduler._on_progress,
    ev.CheckpointTaken: Scheduler._on_checkpoint,
    ev.Resized: Scheduler._on_resized,
    ev.SharesApplied: Scheduler._on_shares,
    ev.ActionFailed: Scheduler._on_failed,
    ev.PlanReady: Scheduler._on_plan,
}

_ABOUT_SERVICE = (ev.DevicesSeen, ev.DrainRequested, ev.ReadingsTaken, ev.Tick)
"""What may take a device out of service, or bring it back."""

_CARRIERS: dict[type[Proposal], Callable[[Scheduler, Job, Any], None]] = {
    Start: Scheduler._start,
    Hopeless: Scheduler._hopeless,
    Preempt: Scheduler._preempt,
    TakeCheckpointNow: Scheduler._checkpoint,
    Migrate: Scheduler._migrate,
    ResizeTo: Scheduler._resize,
    SetShares: Scheduler._shares,
}
