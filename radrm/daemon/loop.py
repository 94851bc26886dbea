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
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import inotify_simple

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Attempt, Job
from radrm.core.scheduler import Scheduler
from radrm.core.state import Decision
from radrm.daemon.intake import take_in
from radrm.daemon.launching import Site, make_checkpoint_folder, plan_launch
from radrm.daemon.monitor import Monitor
from radrm.daemon.server import Request
from radrm.errors import RadrmError, StoreError
from radrm.host.clock import Clock
from radrm.host.launcher import Launcher
from radrm.host.outcome import ended_event
from radrm.host.spool import Spool
from radrm.host.store import Intake, Store
from radrm.wiring import Estimating

log = logging.getLogger("radrm")

RESCAN_S = 60.0
"""Network file systems do not notify, and a queue may overflow: look anyway."""
RETRY_S = 5.0
"""Between two tries to write a store that cannot be written."""


@dataclass(slots=True)
class Parts:
    """What the loop works with, put together by `main`."""

    clock: Clock
    scheduler: Scheduler
    store: Store
    spool: Spool
    refused: str
    launcher: Launcher
    monitor: Callable[[Callable[[ev.Event], None]], Monitor]
    estimating: Estimating
    site: Site


class Loop:
    def __init__(self, parts: Parts, answer: Callable[[Loop, Request], None]) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.scheduler = parts.scheduler
        self.store = parts.store
        self._answer = answer
        self._inbox: queue.SimpleQueue[ev.Event | Request | None] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._inotify = inotify_simple.INotify()
        self._selector.register(self._inotify.fileno(), selectors.EVENT_READ)
        self._watched: set[int] = set()
        self._monitor = parts.monitor(self.post)
        self._unsaved: list[tuple[list[Decision], list[Intake]]] = []
        self._wake_at: float | None = None
        self._rescan_at = 0.0
        self.stopping = False

    # ------------------------------------------------------------- from other threads

    def post(self, thing: ev.Event | Request | None) -> None:
        """Hand something to the loop's thread."""
        self._inbox.put(thing)
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """End after what is at hand; jobs run on. Safe in a signal handler."""
        self.stopping = True
        os.eventfd_write(self._wake, 1)

    # ------------------------------------------------------------- life

    def run(self, first: ev.DevicesSeen) -> None:
        """Take up what an earlier daemon left, then serve until told to stop."""
        flags = inotify_simple.flags.MOVED_TO | inotify_simple.flags.CREATE
        self._inotify.add_watch(self.parts.spool.path, flags)
        self.scheduler.restore(self.store.kept())
        self.process([first])
        self.process(self._adopt())
        self._monitor.start(first.devices)
        while not self.stopping:
            self._wait()
            self.process(self._gather())
        self._monitor.stop()

    def _wait(self) -> None:
        """Until something happens, or it is time for the scheduler or a rescan."""
        now = self.clock.now().boot_s
        until = min(self._rescan_at, self._wake_at if self._wake_at is not None else float("inf"))
        patience = max(0.0, self.clock.real_s(until - now))
        if self._unsaved:
            patience = min(patience, RETRY_S)
        self._watch(self.parts.launcher.fds())
        self._selector.select(min(patience, RESCAN_S))

    def _watch(self, wanted: Iterable[int]) -> None:
        """Have the selector watch just these process descriptors beside its own."""
        now = set(wanted)
        for fd in self._watched - now:
            try:
                self._selector.unregister(fd)
            except (KeyError, ValueError):
                pass  # closed meanwhile
        for fd in now - self._watched:
            self._selector.register(fd, selectors.EVENT_READ)
        self._watched = now

    def _gather(self) -> list[ev.Event]:
        """All that has happened since the last look."""
        if self._unsaved:
            return []  # first things first: nothing new is decided on what is not saved
        events: list[ev.Event] = self._attempt_events()
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        while True:
            try:
                thing = self._inbox.get_nowait()
            except queue.Empty:
                break
            if isinstance(thing, Request):
                self.process(events)
                events = []
                self._answer(self, thing)
            elif thing is not None:
                events.append(thing)
        now = self.clock.now().boot_s
        if self._inotify.read(timeout=0) or now >= self._rescan_at:
            self._rescan_at = now + RESCAN_S * self.clock.scale
            self.scan()
            self._monitor.ensure_alive()
        if self._wake_at is not None and now >= self._wake_at:
            events.append(ev.Tick(at=self.clock.now()))
        return events

    # ------------------------------------------------------------- decide, save, act

    def process(self, events: Iterable[ev.Event], intakes: Iterable[Intake] = ()) -> None:
        """Step through events, save all that follows in one transaction, then act."""
        decisions = [self.scheduler.step(event) for event in events]
        if decisions or self._unsaved:
            self._unsaved.append((decisions, list(intakes)))
            self._commit()

    def _commit(self) -> None:
        while self._unsaved:
            decisions, intakes = self._unsaved[0]
            try:
                self.store.save(decisions, intakes)
            except StoreError as error:
                log.error("%s; trying again every %.0f s", error, RETRY_S)
                return
            self._unsaved.pop(0)
            if decisions:
                self._wake_at = decisions[-1].wake_at
            follow = [e for d in decisions for a in d.actions for e in self._act(a)]
            if follow:
                self._unsaved.append(([self.scheduler.step(e) for e in follow], []))

    def _act(self, action: act.Action) -> list[ev.Event]:
        """Do one thing; what is known of it at once comes back as events."""
        try:
            if isinstance(action, act.Launch):
                self._launch(action)
            elif isinstance(action, act.Terminate):
                self.parts.launcher.terminate(self._serial(action))
            elif isinstance(action, act.Kill):
                self.parts.launcher.kill(self._serial(action))
            elif isinstance(action, act.TakeReadings):
                self._monitor.read_soon()
            else:
                raise RadrmError("this daemon cannot do that yet")
        except KeyError:
            return []  # its attempt has ended meanwhile
        except (RadrmError, OSError) as error:
            log.error("%s failed: %s", action, error)
            return [ev.ActionFailed(at=self.clock.now(), action=action, reason=str(error))]
        return []

    def _launch(self, action: act.Launch) -> None:
        job = self.scheduler.state.jobs[action.job_id]
        intake = self.store.intake(job.id)
        ledgers = self.scheduler.state.ledgers
        devices = [ledgers[uuid].device for uuid in action.placement.devices]
        site = self.parts.site
        make_checkpoint_folder(site, job, intake.uid, intake.gid)
        self.parts.launcher.launch(plan_launch(action, job, intake, devices, site))
        log.info(
            "job %d (%s) starts on %s, %s",
            job.id,
            job.spec.name,
            ", ".join(str(d.index) for d in devices) or "no device",
            action.placement.collocation.value,
        )

    def _serial(self, action: act.AttemptAction) -> int:
        return self.scheduler.state.attempts[action.job_id].serial

    # ------------------------------------------------------------- attempts

    def _adopt(self) -> list[ev.Event]:
        """What has become of the attempts that an earlier daemon left."""
        events: list[ev.Event] = []
        for job, attempt in list(self.scheduler.state.running()):
            found = self.parts.launcher.adopt(attempt.serial, job.id, attempt.number)
            log.info("job %d, attempt %d: %s", job.id, attempt.number, type(found).__name__)
            events += self._events_of(job, attempt, found)
        return events

    def _attempt_events(self) -> list[ev.Event]:
        events: list[ev.Event] = []
        for job, attempt in list(self.scheduler.state.running()):
            found = self.parts.launcher.poll(attempt.serial)
            if found is not None:
                events += self._events_of(job, attempt, found)
        return events

    def _events_of(self, job: Job, attempt: Attempt, found: object) -> list[ev.Event]:
        raise NotImplementedError

    # ------------------------------------------------------------- the spool

    def scan(self) -> list[int]:
        """Take in what lies in the spool; returns the ids given."""
        next_id = self.store.next_job_id()
        taken, names = [], []
        for arrival in self.parts.spool.arrivals():
            if arrival.envelope is None:
                log.error("the spool's file %r is refused: %s", arrival.name, arrival.wrong)
                self.parts.spool.set_aside(arrival.name, self.parts.refused)
                continue
            names.append(arrival.name)
            if not self.store.knows_ticket(arrival.envelope.ticket):
                taken.append(
                    take_in(
                        arrival,
                        arrival.envelope,
                        next_id + len(taken),
                        self.clock.now(),
                        self.parts.estimating,
                    )
                )
        self.process([t.event for t in taken], [t.intake for t in taken])
        if not self._unsaved:
            for name in names:
                self.parts.spool.remove(name)
        return [t.intake.job_id for t in taken]
