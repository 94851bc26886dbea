"""Restart: restore the stored records of an earlier daemon, and adopt its attempts.

Theory of operation
-------------------
A daemon that ends, however it ends, leaves records in the store and running jobs on the
server. The next one goes through these phases:

    1. `Restored` brings the stored records. It is the first event.
    2. `DevicesSeen` lists the devices. `put_back` puts stored reservations on them, and enters
       their attempts in the ledgers.
    3. The host examines each live attempt, and reports by the usual events: started, ended,
       never launched.
    4. `AttemptsAdopted` ends the restart. `finish` sets all timers from the records. `Scheduler`
       now calls the planners for the events of phases 2 and 3, in their order, and acts on timers
       again.

Invariants:
- Until phase 4 no timer runs and no planner is called. So a job that ended while no daemon ran
  is not stopped at its time limit. No device is given away before its occupants are known.
- An attempt is live in the store until its end is saved. So an end may be reported twice, but
  is never lost. A saved launch is either found running, or void.
- A reservation whose device is missing waits for the device (`_waiting`). If its owner has
  ended meanwhile, it is dropped then.
- A pending action that may not have reached the host is asked for again, with the deadline that it
  had; so are questions to the estimators. A launch and a KILL are not: phase 3 tells what became
  of them.
- After a restart the same events lead to the same decisions, except for data that is not
  stored: readings, SM activity, turns on MPS servers, failures of rules and of proposals.

What may interleave: requests of users and readings may come in phases 2 and 3. They are
handled at once; the planners are called for them in phase 4.

A restart during a restart reads the store as the last saved step left it, and begins again.
"""

from __future__ import annotations

from radrm.core.events import Event
from radrm.core.lifecycle.edits import ask_estimators
from radrm.core.lifecycle.pending import renew
from radrm.core.lifecycle.timing import wake_for_begin, wake_for_limit
from radrm.core.planning.reserving import put_back_planned
from radrm.core.records import Kept, Reservation
from radrm.core.state.state import State
from radrm.core.state.timers import AT_ONCE, PAUSE_OVER, PLANNER, Timer
from radrm.core.words import ReservationKind


class Adoption:
    """The progress of a restart: reservations to put back, and events deferred for planners."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: list[Reservation] = []
        self.under_way = False
        self._deferred: list[Event] = []
        """The events for which the planners are called in phase 4, in their order."""

    def restore(self, kept: Kept) -> None:
        """Load stored records. Sets no timer."""
        self.under_way = True
        state = self._state
        state.next_serial = kept.next_serial
        for status in kept.devices:
            if status.drained is not None:
                state.drained[status.uuid] = status.drained
            if status.idle_w is not None:
                state.idle_w[status.uuid] = status.idle_w
        for rule_state in kept.rule_states:
            state.rule_states[rule_state.kind, rule_state.name] = rule_state
        # Live elements first: they have the places within their array's limit.
        for job in sorted(kept.jobs, key=lambda job: (not job.state.live, job.id)):
            state.put_job(job)
        with state.uses.restored(state.rule_states.values()):
            for attempt in kept.attempts:
                state.put_attempt(attempt)
        self._waiting = list(kept.reservations)
        state.for_users.next_id = kept.next_reservation
        for reserved in kept.user_reservations:
            state.put_for_users(reserved)
        state.step.changed.clear()  # all of it is in the store
        state.timers.clear()

    def put_back(self) -> None:
        """Put stored reservations, and their attempts, on the devices that are present now."""
        waiting, self._waiting = self._waiting, []
        for reservation in waiting:
            self._put_back(reservation)

    def _put_back(self, reservation: Reservation) -> None:
        state = self._state
        ledger = state.ledgers.get(reservation.device)
        job = state.jobs.get(reservation.job_id) if reservation.job_id else None
        if reservation.kind.planned:
            put_back_planned(state, reservation)
            return
        if ledger is None:
            self._waiting.append(reservation)
            return
        attempt = state.attempts.get(job.id) if job else None
        running = reservation.kind is ReservationKind.RUNNING
        why = {
            ReservationKind.RUNNING: attempt.devices if attempt else (),
            ReservationKind.MIGRATION: job.target.devices if job and job.target else (),
        }
        if reservation.device not in why.get(reservation.kind, (reservation.device,)):
            # Its attempt or migration ended while the device was missing.
            state.unreserve(reservation.key)
            return
        state.reserve(reservation)
        if job and attempt and running:
            now = state.step.now
            held_s = now.since(attempt.started or attempt.launched)
            ledger.admit(job, attempt, now.boot_s - (held_s or 0.0), now.boot_s)

    def defer(self, event: Event) -> None:
        """Keep an event for the planners until all attempts are adopted."""
        self._deferred.append(event)

    def finish(self) -> list[Event]:
        """End the restart. Returns the deferred events."""
        self.under_way = False
        self._state.listens_s = self._state.step.now.boot_s
        self._set_timers()
        deferred, self._deferred = self._deferred, []
        return deferred

    def _set_timers(self) -> None:
        """Set the timers that the records ask for. Those of an ended attempt are not set."""
        state = self._state
        for job in list(state.jobs.values()):
            if job.estimating:
                ask_estimators(state, job)  # the question ended with the earlier daemon
            if job.awaits_begin:
                wake_for_begin(state, job)
            if job.pause is not None:
                left = job.pause.left_s(state.step.now) > 0
                ends_s = job.pause.until_boot_s if left else state.step.now.boot_s
                state.wake(Timer(ends_s, PAUSE_OVER, job.id))
        for job, attempt in list(state.running()):
            wake_for_limit(state, job, attempt)
            renew(state, job, attempt)
        state.queue.set_timers()
        for rule_state in state.rule_states.values():
            if rule_state.wake_boot_s is not None:
                # After a reboot the stored time means nothing. A planner that is called early
                # returns its time again.
                state.wake(Timer(AT_ONCE, PLANNER + rule_state.name))
