"""The daemon's loop: wait, gather events, step, save, act.

One thread does all of it. Readings and requests come from other threads through
a queue; ends of processes, new envelopes and signals through file descriptors.
A decision is on disk before anything is done about it, so a daemon that is
killed anywhere can be followed by another that knows what was under way.
"""

from __future__ import annotations

import logging
import os
import queue
import selectors
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import inotify_simple

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Attempt, Device, Job
from radrm.core.scheduler import Scheduler
from radrm.core.state.state import Decision
from radrm.core.words import Collocation, Outcome
from radrm.daemon.intake.estimation import Estimation
from radrm.daemon.intake.scan import Scan
from radrm.daemon.launching import (
    Site,
    make_checkpoint_folder,
    plan_launch,
    remove_checkpoint_folder,
    remove_left_checkpoint_folders,
)
from radrm.daemon.learning import runs_of
from radrm.daemon.monitor import Monitor
from radrm.daemon.probing import Probing
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Turns
from radrm.daemon.views.tables import Tables
from radrm.errors import RadrmError, StoreError
from radrm.host.attempts.evidence import Ended, Lost, Running, Started, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.estimation.service import Estimated
from radrm.host.gpus.unmanaged_watch import StrangerWatch
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.store import Edits, Run, Store, Submission
from radrm.host.trouble import may_pass
from radrm.oom import classify

log = logging.getLogger("radrm")

LONGEST_WAIT_S = 5.0
"""So soon it is noticed that the reading thread has died."""
RETRY_S = 5.0
"""Between two tries to write a store that cannot be written."""


@dataclass(frozen=True, slots=True)
class ClientsEnded:
    """From another thread: this attempt's MPS clients have no work left, so it can be killed."""

    serial: int


Thing: TypeAlias = ev.Event | Request | ClientsEnded | Estimated
"""What other threads hand to the loop's."""


@dataclass(slots=True)
class Parts:
    """What the loop works with, put together by `main`."""

    clock: Clock
    scheduler: Scheduler
    store: Store
    arrivals: Arrivals
    launcher: Launcher
    monitor: Callable[[Callable[[ev.Event], None]], Monitor]
    estimation: Estimation
    probing: Probing
    site: Site
    strangers: StrangerWatch


@dataclass(slots=True)
class Unsaved:
    """Decisions that are not on disk yet, so that nothing may be done about them."""

    decisions: list[Decision]
    submissions: list[Submission]
    edits: list[tuple[int, dict[str, Any]]]
    runs: list[Run]
    said: bool = False


class Loop:
    def __init__(
        self, parts: Parts, answer: Callable[[Loop, Request], Generator[None, None, None]]
    ) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.scheduler = parts.scheduler
        self.store = parts.store
        self.tables = Tables()
        self._turns = Turns(lambda request: answer(self, request))
        self._inbox: queue.SimpleQueue[Thing] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._inotify = inotify_simple.INotify()
        self._selector.register(self._inotify.fileno(), selectors.EVENT_READ)
        self._watched: set[int] = set()
        self._monitor = parts.monitor(self.post)
        self._scan = Scan(self, parts.arrivals, parts.estimation)
        self._pending: list[ev.Event] = []
        self._pending_submissions: list[Submission] = []
        self._pending_edits: list[tuple[int, dict[str, Any]]] = []
        self._unsaved: Unsaved | None = None
        self._wake_at: float | None = None
        self._rescan_at = 0.0
        self.stopping = False
        self.broken = False
        """True once a step has failed half done: only a new start from the store is sound."""

    # ------------------------------------------------------------- from other threads

    def post(self, thing: Thing) -> None:
        """Hand something to the loop's thread."""
        self._inbox.put(thing)
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """End after what is at hand; jobs run on. Safe in a signal handler."""
        self.stopping = True
        os.eventfd_write(self._wake, 1)

    def read_soon(self) -> None:
        """Have the devices read at once: something about them has changed."""
        self._monitor.read_soon()

    def devices_seen(self, devices: tuple[Device, ...]) -> None:
        """The devices as they are now."""
        self.post(ev.DevicesSeen(at=self.clock.now(), devices=devices))

    def scan_again(self) -> None:
        """Look into the spool in the next turn: there is more."""
        self._rescan_at = 0.0
        os.eventfd_write(self._wake, 1)

    def acknowledge(self, uuid: str) -> None:
        """Somebody has seen to a device: what its readings hold against it is over."""
        self._monitor.acknowledge(uuid)

    @property
    def unsaved(self) -> bool:
        """True while what was decided is not on disk."""
        return self._unsaved is not None

    # ------------------------------------------------------------- life

    def run(self, first: ev.DevicesSeen) -> None:
        """Take up what an earlier daemon left, then serve until told to stop."""
        self._inotify.add_watch(self.parts.arrivals.path, inotify_simple.flags.MOVED_TO)
        self.scheduler.restore(self.store.kept())
        # What has ended meanwhile has ended: only then are limits and planners looked at.
        adopted = self._adopt()
        self.process([first, *adopted, ev.AttemptsAdopted(at=self.clock.now())])
        remove_left_checkpoint_folders(self.parts.site, self.store.ended_owner)
        self._ask_again()
        self._monitor.start(first.devices)
        while not self.stopping:
            self._wait()
            self._gather()
        self._monitor.stop()

    def _wait(self) -> None:
        """Until something happens, or it is time for the scheduler or a rescan."""
        now = self.clock.now().boot_s
        until = min(self._rescan_at, self._wake_at if self._wake_at is not None else float("inf"))
        patience = max(0.0, self.clock.real_s(until - now))
        if self._unsaved:
            # Attempts that have ended can wait: what they lead to could not be saved.
            self._watch(())
            patience = RETRY_S
        else:
            self._watch(self.parts.launcher.fds())
        if self._turns.pending:
            patience = 0.0
        self._selector.select(min(patience, LONGEST_WAIT_S))

    def _watch(self, wanted: Iterable[int]) -> None:
        """Have the selector watch just these process descriptors beside its own."""
        now = set(wanted)
        for fd in self._watched - now:
            self._selector.unregister(fd)
        for fd in now - self._watched:
            self._selector.register(fd, selectors.EVENT_READ)
        self._watched = now

    def _gather(self) -> None:
        """Process all that has happened since the last look.

        While the store cannot be written, questions are still answered; events wait.
        """
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        self._commit()
        notified = self._notice()
        self.process([] if self._unsaved else self._attempt_events())
        # Those that are there now: whoever keeps asking must not keep all else waiting.
        for _ in range(self._inbox.qsize()):
            thing = self._inbox.get_nowait()
            if isinstance(thing, Request):
                self._turns.add(thing)
            elif isinstance(thing, ClientsEnded):
                self.parts.launcher.kill(thing.serial)
            elif isinstance(thing, Estimated):
                self.process(self._estimate_events(thing))
                self.parts.probing.look(self, thing.job_ids, thing.answer.estimates)
            else:
                self.process([thing])
                self.parts.strangers.look(thing, self.scheduler.state)
        self._turns.run()
        now = self.clock.now()
        if notified or now.boot_s >= self._rescan_at:
            self.scan()
        self._monitor.ensure_alive()
        if self._wake_at is not None and now.boot_s >= self._wake_at:
            self.process([ev.Tick(at=now)])

    # ------------------------------------------------------------- decide, save, act

    def process(
        self,
        events: Iterable[ev.Event],
        submissions: Iterable[Submission] = (),
        edits: Edits = (),
    ) -> None:
        """Step through events, save all that follows in one transaction, then act.

        While an earlier decision is not on disk, events wait for it.
        """
        self._pending += events
        self._pending_submissions += submissions
        self._pending_edits += edits
        if not self._unsaved:
            self._decide()
            self._commit()

    def _decide(self) -> None:
        """Step through what is pending; what it leads to is to be saved."""
        events, self._pending = self._pending, []
        submissions, self._pending_submissions = self._pending_submissions, []
        edits, self._pending_edits = self._pending_edits, []
        if events:
            self.broken = True
            decisions = [self.scheduler.step(event) for event in events]
            self.broken = False
            self._wake_at = decisions[-1].wake_at
            for line in (line for decision in decisions for line in decision.said):
                log.error("%s", line)
            state = self.scheduler.state
            driver = self.parts.estimation.driver
            runs = [r for d in decisions for r in runs_of(d, state.jobs, state.ledgers, driver)]
            self._unsaved = Unsaved(decisions, submissions, edits, runs)

    def _commit(self) -> None:
        """Save and act, and again with what came of that, until nothing is left to do."""
        while self._unsaved is not None:
            try:
                waiting = self._unsaved
                self.store.save(waiting.decisions, waiting.submissions, waiting.edits, waiting.runs)
            except StoreError as error:
                if not self._unsaved.said:
                    log.error("%s; trying again every %.0f s", error, RETRY_S)
                    self._unsaved.said = True
                return
            except Exception as error:
                # It would fail in the same way again, and nothing may be done that is not on disk.
                self.broken = True
                log.critical(
                    "what was decided cannot be saved (%s: %s), so nothing of it is done; the "
                    "daemon ends. Jobs run on, and the next daemon goes on from the store",
                    type(error).__name__,
                    error,
                )
                raise
            if self._unsaved.said:
                self._rescan_at = 0.0  # what came meanwhile has waited long enough
            decisions, self._unsaved = self._unsaved.decisions, None
            for decision in decisions:
                self._note_ends(decision)
                for action in decision.actions:
                    self._pending += self._act(action)
            self._decide()

    def _note_ends(self, decision: Decision) -> None:
        """What is stored as ended needs no folder any more; what has ended is told."""
        for record in decision.changed:
            if isinstance(record, Attempt) and record.ended is not None:
                self.parts.launcher.forget(record.serial)
                if record.outcome is not None and record.outcome is not Outcome.COMPLETED:
                    how = record.outcome.value
                    log.info(
                        "job %d, attempt %d: %s: %s",
                        record.job_id,
                        record.number,
                        how,
                        record.reason or how,
                    )
            elif isinstance(record, Job) and record.state.final:
                remove_checkpoint_folder(self.parts.site, record.id, record.spec.uid)
                why = f": {record.reason}" if record.reason else ""
                log.info(
                    "job %s (%s) %s%s", record.label, record.spec.name, record.state.value, why
                )

    def _act(self, action: act.Action) -> list[ev.Event]:
        """Do one thing; what is known of it at once comes back as events."""
        state = self.scheduler.state
        if isinstance(action, act.AttemptAction):
            if state.live_attempt(action.job_id, action.attempt) is None:
                return []  # it has ended meanwhile
        elif isinstance(action, act.EstimateJob) and action.job_id not in state.jobs:
            return []
        try:
            self._do(action)
        except Exception as error:
            reason = str(error)
            if isinstance(error, (RadrmError, OSError, ValueError)):
                log.error("%s failed: %s", action, error)
            elif isinstance(action, act.Launch) and self.parts.launcher.is_live(action.serial):
                self.broken = True  # its runner lives: only adoption knows what to do with it
                raise
            else:
                log.exception("%s failed, by a defect of radrm", action)
                reason = f"radrm failed: {type(error).__name__}: {error}; see the daemon's log"
            now, passing = self.clock.now(), may_pass(error)
            return [ev.ActionFailed(at=now, action=action, reason=reason, passing=passing)]
        return []

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Launch):
            self._launch(action)
        elif isinstance(action, act.Terminate):
            self.parts.launcher.terminate(self._serial(action))
        elif isinstance(action, act.Kill):
            self._kill(action)
        elif isinstance(action, act.SendSignal):
            self.parts.launcher.signal(self._serial(action), action.number)
        elif isinstance(action, act.EstimateJob):
            self.parts.estimation.begin(self.scheduler.state.jobs[action.job_id])
        elif isinstance(action, act.TakeReadings):
            self._monitor.read_soon()
        else:
            raise RadrmError("this daemon cannot do that yet")

    def _kill(self, action: act.Kill) -> None:
        """KILL, but clients of MPS once their server has let go of them."""
        attempt = self.scheduler.state.attempts[action.job_id]
        mps, serial = self.parts.site.mps, attempt.serial
        if mps is None or attempt.placement.collocation is not Collocation.MPS:
            self.parts.launcher.kill(serial)
            return
        owner = (action.job_id, action.attempt)
        ended = ClientsEnded(serial)
        mps.end_clients(attempt.placement.devices, owner, lambda: self.post(ended))

    def _launch(self, action: act.Launch) -> None:
        job = self.scheduler.state.jobs[action.job_id]
        submission = self.store.submission(job.id)
        ledgers = self.scheduler.state.ledgers
        devices = [ledgers[uuid].device for uuid in action.placement.devices]
        site = self.parts.site
        make_checkpoint_folder(site, job, submission.uid, submission.gid)
        plan = plan_launch(action, job, submission, devices, site)
        if site.mps is not None:
            client = action.placement.collocation is Collocation.MPS
            site.mps.prepare(action.placement.devices, client)
        self.parts.launcher.launch(plan)
        log.info(
            "job %s (%s) starts on %s, %s",
            job.label,
            job.spec.name,
            ", ".join(str(d.index) for d in devices) or "no device",
            action.placement.collocation.value,
        )

    def _serial(self, action: act.AttemptAction) -> int:
        return self.scheduler.state.attempts[action.job_id].serial

    # ------------------------------------------------------------- attempts

    def _adopt(self) -> list[ev.Event]:
        """What has become of the attempts that an earlier daemon left."""
        live = {attempt.serial for _, attempt in self.scheduler.state.running()}
        for serial in self.parts.launcher.serials():
            if serial in live:
                continue
            if self.store.has_attempt(serial):
                self.parts.launcher.forget(serial)  # its end is stored, its folder was left
            else:
                where = f"the folder of attempt {serial}"
                log.warning("%s is not of this store and is left: its job may run on", where)
        events: list[ev.Event] = []
        for job, attempt in list(self.scheduler.state.running()):
            found = self.parts.launcher.adopt(attempt.serial, job.id, attempt.number)
            log.info("job %d, attempt %d: %s", job.id, attempt.number, type(found).__name__)
            if isinstance(found, Ended) and found.at.boot != self.clock.now().boot:
                log.info("job %d: its exit record is of an earlier boot; its date holds", job.id)
            if isinstance(found, Lost) and not found.began:
                found = Void()  # both died in the launch: nothing ran, so nothing is lost
            events += self._events_of(job, attempt, found)
        return events

    def _attempt_events(self) -> list[ev.Event]:
        events: list[ev.Event] = []
        for job, attempt in list(self.scheduler.state.running()):
            while (found := self.parts.launcher.poll(attempt.serial)) is not None:
                events += self._events_of(job, attempt, found)
        return events

    def _events_of(
        self, job: Job, attempt: Attempt, found: Void | Started | Running | Ended | Lost
    ) -> list[ev.Event]:
        """What the records of an attempt say, as events."""
        job_id, number, now = job.id, attempt.number, self.clock.now()
        if isinstance(found, Void):
            return [ev.LaunchVoided(at=now, job_id=job_id, attempt=number)]
        events: list[ev.Event] = []
        begun = found if isinstance(found, Started) else found.started
        if begun is not None and attempt.started is None:
            events.append(
                ev.AttemptStarted(at=now, job_id=job_id, attempt=number, happened=begun.at)
            )
        if not isinstance(found, (Started, Running)):
            self._ask_mps(attempt, found)
        if isinstance(found, Ended):
            ended = ev.AttemptEnded(
                at=now,
                job_id=job_id,
                attempt=number,
                happened=found.at,
                exits=(found.exit,) if found.never_started is None else (),
                oom=next(filter(None, (classify(found.exit, t) for t in found.tails)), None),
                never_started=found.never_started,
                passing=found.passing,
            )
            events.append(ended)
        elif isinstance(found, Lost) and not found.began:
            # Its runner was hindered before anything of the job's began: nothing is lost.
            never = f"its runner could not begin ({found.reason})"
            events.append(
                ev.AttemptEnded(
                    at=now, job_id=job_id, attempt=number, never_started=never, passing=True
                )
            )
        elif isinstance(found, Lost):
            events.append(ev.AttemptEnded(at=now, job_id=job_id, attempt=number, lost=found.reason))
        return events

    def _ask_mps(self, attempt: Attempt, found: Ended | Lost) -> None:
        """A client that ends badly may have been ended by a fault of its server."""
        mps = self.parts.site.mps
        well = isinstance(found, Ended) and found.exit.code == 0
        if mps is not None and not well and attempt.placement.collocation is Collocation.MPS:
            mps.suspect(attempt.placement.devices)

    # ------------------------------------------------------------- estimates

    def _ask_again(self) -> None:
        """An earlier daemon took the questions with it that the estimators had not answered."""
        for job in list(self.scheduler.state.jobs.values()):
            if job.estimating:
                self.process(self._act(act.EstimateJob(job_id=job.id)))

    def _estimate_events(self, found: Estimated) -> list[ev.Event]:
        now, answer = self.clock.now(), found.answer
        for note in answer.notes:
            log.warning("job %d is estimated without an answer of %s", found.job_ids[0], note)
        return [
            ev.EstimateReady(at=now, job_id=i, estimates=answer.estimates, notes=answer.notes)
            for i in found.job_ids
        ]

    # ------------------------------------------------------------- the spool

    def _notice(self) -> bool:
        """True where inotify tells of new files in the spool."""
        told = self._inotify.read(timeout=0)
        if any(event.mask & inotify_simple.flags.Q_OVERFLOW for event in told):
            self._scan.list_soon()
        self._scan.notice(event.name for event in told)
        return bool(told)

    def scan(self, names: Iterable[str] = (), first: int | None = None) -> None:
        """Take in what lies in the spool, these files of user `first` before others; what one
        look cannot take in, the next ones do."""
        self._scan.notice(names)
        if self._unsaved is None:
            due_s = self._scan.run(first)
            self._rescan_at = self.clock.now().boot_s + due_s * self.clock.scale
            if due_s == 0.0:
                self.scan_again()
