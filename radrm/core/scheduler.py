"""`step`: one event in; changed records, actions and a wake-up time out.

Theory of operation
-------------------
The daemon and the simulator share this class. Its decisions depend only on the events: it
reads no clock, draws no random number and knows no host.

A step has five parts, in this order:
    1. handle the event
    2. update the devices in service and the jobs that stand aside
    3. let ends reach their followers
    4. act on the timers that are due
    5. call the planners, and carry out their proposals

Invariants:
- The host saves a step's records before it does the step's actions.
- The cost of an event does not grow with the queue. A step looks at the event's jobs, at the
  devices, and at the waiting jobs that its planners ask for.
- No rule can make a step raise (`core/state/isolation.py`).

What may interleave: nothing inside a step. Between steps an event about an attempt may come
late, after the attempt ended or after a newer one started; `_live` ignores it then.

What a restart sees: `core/adoption.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from radrm.core import applying, in_service, reservations
from radrm.core import events as ev
from radrm.core.actions import DueAction, EstimateJob, Launch, Think
from radrm.core.adoption import Adoption
from radrm.core.constraints.feasibility import hopeless
from radrm.core.constraints.nodes import never_on_nodes
from radrm.core.decision import Decision
from radrm.core.lifecycle import edits, misplaced, outer_job, pending, usage
from radrm.core.lifecycle.ending import ended, lift_doubts, voided
from radrm.core.lifecycle.followers import is_open, settle
from radrm.core.lifecycle.launching import launch_again
from radrm.core.lifecycle.leaving import end_pause
from radrm.core.lifecycle.memory import grow_memory
from radrm.core.lifecycle.occupancy import drop_vanished_targets
from radrm.core.lifecycle.timing import at_begin, at_limit, follow_clock, heard, silent
from radrm.core.planning.planners import Planners
from radrm.core.planning.reasons import why_size, why_waiting, would_start
from radrm.core.planning.requests import Requested, Requests
from radrm.core.planning.reserving import end_planned
from radrm.core.proposals import Proposal
from radrm.core.records import (
    Attempt,
    Chip,
    Dependency,
    Device,
    Instant,
    Job,
    LearnedLoss,
    Refusal,
    UserReservation,
)
from radrm.core.rules import Rules
from radrm.core.settings import CoreSettings
from radrm.core.snapshot import Snapshot
from radrm.core.state import timers
from radrm.core.state.load import Window
from radrm.core.state.state import State
from radrm.core.state.users import UserCounts


class Scheduler:
    """Decides by `step` alone. It starts empty, or with the event `Restored`.

    `windows` returns a device's window of SM activity; None: a `SmactWindow` of readings.
    `limit` is entered while rules may be called (`daemon/rule_limit.py`); None: no limit.
    """

    def __init__(
        self,
        rules: Rules,
        settings: CoreSettings | None = None,
        windows: Callable[[Device], Window] | None = None,
        limit: AbstractContextManager[object] | None = None,
    ) -> None:
        self._limit = limit or nullcontext()
        self._rules = rules
        settings = settings or CoreSettings()
        self.state = State(settings, rules.order, windows, in_service.judge, never_on_nodes)
        self.state.sharing.learner = rules.learner
        self.snapshot = Snapshot(self.state)
        """The state as the last step has left it, for code outside the core."""
        self.view = self.snapshot.view
        self._adoption = Adoption(self.state)
        self._planners = Planners(
            self.state, self.view, rules.planners, rules.fallback, applying.apply
        )

    # ------------------------------------------------------------- step

    def step(self, event: ev.Event) -> Decision:
        """Handle one event and return the decision that follows from it."""
        with self._limit:
            return self._step(event)

    def _step(self, event: ev.Event) -> Decision:
        self.state.begin(event.at)
        _HANDLERS[type(event)](self, event)
        if type(event) in _ABOUT_SERVICE:
            in_service.update(self.state, force=not isinstance(event, (ev.ReadingsTaken, ev.Tick)))
        settle(self.state)
        if self._adoption.under_way:
            self._end_planned()
            # A job past its limit may have ended before it; the host has not reported that yet.
            self._adoption.defer(event)
            return self.state.finish()
        follow_clock(self.state)
        users = self.state.for_users
        for wish in (
            reservations.update(self.state) if users.every or users.seen is not None else ()
        ):
            applying.request(self.state, wish, "a reservation")
        woken = self._act_on_timers()
        self._end_planned()
        self._planners.call(event, woken)
        self._end_planned()
        return self.state.finish()

    def _end_planned(self) -> None:
        if self.state.planned.owners:
            end_planned(self.state, self._planners.names)

    def _act_on_timers(self) -> set[str]:
        """Act on the timers that are due. Returns the names of the planners to call."""
        woken: set[str] = set()
        for timer in self.state.timers.take_due(self.state.step.now.boot_s):
            planners = self._planners.woken_by(timer)
            if planners is not None:
                woken.update(planners)
            elif self._act_on(timer):
                woken.update(self._planners.names)
        return woken

    def _act_on(self, timer: timers.Timer) -> bool:
        """Act on a due timer. Returns True if all planners must be called because of it."""
        state, what = self.state, timer.what
        if what in (timers.ALL_PLANNERS, timers.RESERVATION_OVER):
            return True  # `end_planned` removes a reservation before the planners are called
        if what == timers.DOUBT_OVER:
            return lift_doubts(state)
        if what == timers.CLOSING:
            return reservations.sort_again(state, timer)
        if what == timers.RULES_AGAIN:
            state.queue.retry_keys()
            return True
        if what == timers.ORDER_KEY:
            return state.queue.renew_key(timer)
        if what in _OF_WAITING:
            waiting = state.jobs.get(timer.job_id)
            return waiting is not None and _OF_WAITING[what](state, waiting)
        if what == timers.LAUNCH_AGAIN:
            launch_again(state, timer)
            return False
        job, attempt = self._live(timer.job_id, timer.serial)
        if job and attempt and what == timers.TIME_LIMIT:
            at_limit(state, job, attempt)
        elif job and attempt and what == timers.KILL:
            pending.at_kill(state, job, attempt)
        elif job and attempt and what == timers.DEADLINE:
            pending.at_deadline(state, job, attempt)
        return False

    def _live(self, job_id: int, serial: int) -> tuple[Job | None, Attempt | None]:
        """Return a job, and its live attempt if that has this serial: an event may be late."""
        return self.state.jobs.get(job_id), self.state.live_attempt(job_id, serial)

    # ------------------------------------------------------------- questions from outside

    def why_waiting(self, job_id: int, now: Instant) -> tuple[Refusal, ...]:
        """Return why a waiting job does not start now. Changes nothing."""
        job = self.state.jobs.get(job_id)
        if job is None or not job.state.waiting:
            return ()
        with self._limit:
            return why_waiting(self.state, self._planners, job, now)

    def would_start(self, job: Job, now: Instant, alone: bool = False) -> bool:
        """Return whether a waiting job would start now if its record were this one.

        `alone`: if no job were before it.
        """
        with self._limit:
            return would_start(self.state, self._planners, job, now, alone)

    def why_size(self, job_id: int, now: Instant) -> tuple[Refusal, ...]:
        """Return why a running job does not get another size now. Changes nothing."""
        with self._limit:
            return why_size(self.state, self._planners, job_id, now)

    def errors(self, now: Instant, refused: bool = False) -> tuple[str, ...]:
        """Return one line for each rule that rests, or with `refused` proposes in vain for long."""
        found = self.state.proposals.refused.lasting(now.boot_s) if refused else ()
        lines = (f"job {each.job_id}: {each.message(now.boot_s)}" for each in found)
        return (*self.state.isolation.errors(now.boot_s), *lines)

    @property
    def launch_error(self) -> str | None:
        """Return why the server cannot start any job now; None if it can."""
        return self.state.launch_error

    @property
    def learned(self) -> tuple[LearnedLoss, ...]:
        """Return what was learned of the cost of sharing, by kind of device and mode."""
        return self.state.sharing.every()

    def refuse_edit(self, event: ev.EditRequested) -> str | None:
        """Return why a job cannot be changed like this; None if it can."""
        return edits.refuse(self.state, event)

    def refuse_again(self, job: Job) -> str | None:
        """Return why an ended job cannot run again with this record; None if it can."""
        return edits.refuse_again(self.state, job)

    def refuse_reservation(self, wanted: UserReservation, now: Instant) -> str | None:
        """Return why this cannot be reserved; None if it can."""
        self.state.begin(now)
        return reservations.refuse(self.state, wanted)

    def refuse_request(self, event: Requested) -> Refusal | None:
        """Return why a running job cannot do what a user asks for; None if it can."""
        self.state.begin(event.at)  # constraints and policies read its time
        with self._limit:
            found = self._requested(event)
        return found if isinstance(found, Refusal) else None

    def _requested(self, event: Requested) -> Proposal | Refusal:
        return Requests(self.state, self.view, self._planners.in_use()).answer(event)

    def is_open(self, dependency: Dependency) -> bool:
        """Return whether the job or array that a dependency names has not ended."""
        return is_open(self.state, dependency)

    def hopeless(self, job: Job) -> str | None:
        """Return why a job can never run here; None if it can."""
        return hopeless(self.state, job)

    def use_of(self, uid: int) -> UserCounts:
        """Return what a user has now."""
        return self.state.users.of(uid)

    def device_kind(self) -> str | None:
        """Return the model name of all devices; None if they differ, or without devices."""
        names = {ledger.device.name for ledger in self.state.ledgers.values()}
        return names.pop() if len(names) == 1 else None

    def device_mib(self) -> int | None:
        """Return the memory of the largest device; None without devices."""
        return max(
            (ledger.device.total_mib for ledger in self.state.ledgers.values()), default=None
        )

    def chips(self) -> tuple[Chip, ...]:
        """Return the kinds of GPU that are here and whose SMs are known."""
        found = (ledger.device.chip for ledger in self.state.ledgers.values())
        return tuple(dict.fromkeys(chip for chip in found if chip is not None))

    # ------------------------------------------------------------- handlers: users

    def _on_request(self, event: Requested) -> None:
        found = self._requested(event)
        if isinstance(found, Proposal):
            applying.request(self.state, found, event.by)

    # ------------------------------------------------------------- handlers: devices

    def _on_devices(self, event: ev.DevicesSeen) -> None:
        self.state.set_devices(event.devices)
        self._adoption.put_back()
        usage.end_on_vanished(self.state)
        drop_vanished_targets(self.state)

    def _on_readings(self, event: ev.ReadingsTaken) -> None:
        for reading in event.readings:
            usage.take_reading(self.state, reading)
        misplaced.look(self.state, event.readings)

    # ------------------------------------------------------------- handlers: attempts

    def _on_adopted(self, event: ev.AttemptsAdopted) -> None:
        for past in self._adoption.finish():
            self._planners.call(past)

    def _on_ended(self, event: ev.AttemptEnded) -> None:
        job, attempt = self._live(event.job_id, event.serial)
        if job and attempt:
            ended(self.state, job, attempt, event, self._rules.recovery)

    def _on_host_use(self, event: ev.HostUsed) -> None:
        for job_id, serial, use in event.uses:
            attempt = self.state.live_attempt(job_id, serial)
            if attempt is not None:
                self.state.put_host_use(attempt, use)
                grow_memory(self.state, self.state.jobs[job_id], self.state.attempts[job_id])

    def _on_attempt(self, event: ev.AttemptEvent) -> None:
        job, attempt = self._live(event.job_id, event.serial)
        if job and attempt:
            _OF_ATTEMPT[type(event)](self.state, job, attempt, event)

    def _on_failed(self, event: ev.ActionFailed) -> None:
        action = event.action
        if isinstance(action, EstimateJob):
            edits.not_estimated(self.state, action.job_id)
        elif isinstance(action, Think):
            self._planners.think_failed(action, event.reason, event)
        elif isinstance(action, (Launch, DueAction)):
            job, attempt = self._live(action.job_id, action.serial)
            if job and attempt and isinstance(action, DueAction):
                pending.action_failed(self.state, job, attempt, event)
            elif attempt and attempt.started is None:
                # A failed launch is an attempt that ended before it started.
                self._on_ended(
                    ev.AttemptEnded(
                        at=event.at,
                        job_id=action.job_id,
                        serial=action.serial,
                        never_started=event.reason,
                        transient=event.transient,
                    )
                )


def _by_state(handle: Callable[[State, Any], None]) -> Callable[[Scheduler, Any], None]:
    return lambda scheduler, event: handle(scheduler.state, event)


_OF_ATTEMPT: dict[type[ev.AttemptEvent], Callable[[State, Job, Attempt, Any], None]] = {
    **pending.ANSWERS,
    ev.LaunchVoided: lambda state, job, attempt, event: voided(state, job, attempt, event.reason),
    ev.ProgressReported: lambda state, job, attempt, event: heard(state, job, event.progress),
    ev.SilenceReported: lambda state, job, attempt, event: silent(
        state, job, attempt, event.happened or event.at
    ),
    ev.StepsReported: lambda state, job, attempt, event: usage.take_steps(
        state, attempt, event.steps
    ),
}
"""What follows an event about a live attempt."""

_HANDLERS: dict[type[ev.Event], Callable[[Scheduler, Any], None]] = {
    ev.Tick: lambda scheduler, event: None,
    ev.Restored: lambda scheduler, event: scheduler._adoption.restore(event.kept),
    ev.ActionsDelayed: lambda scheduler, event: pending.put_off(scheduler.state),
    ev.AttemptsAdopted: Scheduler._on_adopted,
    ev.JobSubmitted: _by_state(edits.submit),
    ev.CancelRequested: _by_state(edits.cancel),
    ev.OuterGone: _by_state(outer_job.gone),
    ev.HoldRequested: _by_state(edits.hold),
    ev.RequeueRequested: _by_state(edits.requeue),
    ev.CheckpointRequested: Scheduler._on_request,
    ev.MigrateRequested: Scheduler._on_request,
    ev.ResizeRequested: Scheduler._on_request,
    ev.EditRequested: _by_state(edits.edit),
    ev.DrainRequested: _by_state(lambda state, e: state.put_drained(e.device, e.reason)),
    ev.ReserveRequested: _by_state(reservations.make),
    ev.UnreserveRequested: _by_state(reservations.cancel),
    ev.EstimateReady: _by_state(edits.estimated),
    ev.PredictionsReady: _by_state(edits.predicted),
    ev.DevicesSeen: Scheduler._on_devices,
    ev.NodesSeen: _by_state(lambda state, event: state.set_nodes(event.nodes)),
    ev.ReadingsTaken: Scheduler._on_readings,
    ev.AttemptEnded: Scheduler._on_ended,
    ev.HostUsed: Scheduler._on_host_use,
    **dict.fromkeys(_OF_ATTEMPT, Scheduler._on_attempt),
    ev.ActionFailed: Scheduler._on_failed,
    ev.PlanReady: lambda scheduler, event: scheduler._planners.take_plan(event),
}

_OF_WAITING: dict[str, Callable[[State, Job], bool]] = {
    timers.BEGIN: at_begin,
    timers.PAUSE_OVER: end_pause,
    timers.ESTIMATE: edits.at_estimate_deadline,
}
"""What a due timer of a waiting job does. It returns whether the job can start now."""

_ABOUT_SERVICE = (ev.DevicesSeen, ev.NodesSeen, ev.DrainRequested, ev.ReadingsTaken, ev.Tick)
"""The events that can take a device out of service, or change what jobs can have."""
