"""The daemon's loop: wait, gather events, step, save, act.

Theory of operation. One thread does all of this, so nothing here is locked. Readings, requests,
estimates and MPS come through `post`; ends of processes, new envelopes and signals wake the
thread through descriptors. Each round drains only what is queued when it begins, so a busy
client cannot starve events. Decisions are saved before actions (`decisions.py`), so the next
daemon can continue from the store after a kill at any point. While the store cannot be written,
questions are still answered and everything else waits.

What wakes it. Any thread and any signal handler may call `wake`. The call is kept until `clear`, so
one that comes before the wait ends that wait at once. A wake does not say what has happened: the
loop looks at everything after each wait. Of a thousand attempts it looks at those with news, and at
all of them every `LONGEST_WAIT_S`: a lost notice only delays it. What is posted has a descriptor of
its own, cleared right before the queue is read: else what one turn has taken would cause the next.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import select
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeAlias

import inotify_simple

from radrm.core import events as ev
from radrm.core.planning.thinking import ready
from radrm.daemon.attempts import Attempts
from radrm.daemon.decisions import RETRY_S, Decisions
from radrm.daemon.effects import Effects, ServerReady
from radrm.daemon.elastic import Resizes
from radrm.daemon.intake.scan import Scan
from radrm.daemon.mps import ClientsEnded, Stops
from radrm.daemon.parts import Parts
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import MOST_EVENTS, InLine, Turns
from radrm.daemon.views.tables import Tables
from radrm.errors import RadrmError, Refused
from radrm.host.crossings import crossed
from radrm.host.estimation.service import Estimated
from radrm.host.notices.outbox import Outbox
from radrm.host.planning.service import Planned
from radrm.host.storage.submitted import Edits, Submission


class Wakeups:
    """Used by the loop's thread, except `wake`."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._inotify = inotify_simple.INotify()
        except OSError as error:
            raise Refused(
                f"no inotify instance can be made: {error.strerror}; raise the limit of this user: "
                "sysctl fs.inotify.max_user_instances=512"
            ) from None
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._news, select.EPOLLIN)
        self._epoll.register(self._inotify.fileno(), select.EPOLLIN)
        self._processes: set[int] = set()
        self._has_files = False
        """Whether there was something for `arrived` when the last wait ended."""

    def __del__(self) -> None:
        """Of an earlier daemon in this process: nobody can wake it any more."""
        os.close(self._wake)
        os.close(self._news)

    def wake(self) -> None:
        """End the wait under way, or the next one. Safe in any thread and in a signal handler."""
        os.eventfd_write(self._wake, 1)

    def bring_news(self) -> None:
        """As `wake`, for what is in a queue: kept until `clear_news`. Safe in any thread."""
        os.eventfd_write(self._news, 1)

    def watch_folder(self, path: str) -> None:
        """Wake the thread when a file is renamed into this folder."""
        self._inotify.add_watch(path, inotify_simple.flags.MOVED_TO)

    def wait(self, seconds: float, processes: Iterable[int]) -> set[int]:
        """Wait until something happens; return the descriptors that can be read, none if nothing
        did. One of `processes` can be at an end."""
        wanted = set(processes)
        for fd in self._processes - wanted:
            with contextlib.suppress(OSError):  # it is closed
                self._epoll.unregister(fd)
        for fd in wanted - self._processes:
            self._epoll.register(fd, select.EPOLLIN)
        self._processes = wanted
        # Milliseconds are rounded up: what is due must be due when the wait ends.
        found = self._epoll.poll(math.ceil(max(0.0, seconds) * 1e3) * 1e-3, len(wanted) + 3)
        ready = {fd for fd, _ in found}
        self._has_files = self._inotify.fileno() in ready
        return ready

    def clear(self) -> None:
        """Forget the calls of `wake` so far. Clear first, then look: the other order could lose
        a call in between."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def clear_news(self) -> None:
        """As `clear`, before the queue is looked into."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._news)

    def arrived(self) -> tuple[list[str], bool]:
        """The names of new files, and whether the kernel has dropped some."""
        events = self._inotify.read(timeout=0) if self._has_files else []
        dropped = any(event.mask & inotify_simple.flags.Q_OVERFLOW for event in events)
        return [event.name for event in events], dropped


log = logging.getLogger("radrm")

LONGEST_WAIT_S = 5.0
"""Real seconds of one wait, so that a dead watching thread is replaced in this time."""

News: TypeAlias = ev.Event | Request | ClientsEnded | ServerReady | Estimated | Planned
"""What other threads post to the loop's thread."""


class Inbox:
    """What other threads tell the loop's thread, and what else wakes it."""

    def __init__(self) -> None:
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.wakeups = Wakeups()

    def post(self, news: News) -> None:
        """Safe in any thread."""
        self._news.put(news)
        self.wakeups.bring_news()

    def queued(self) -> Iterator[News]:
        """Take what is queued now, and not what comes meanwhile."""
        self.wakeups.clear_news()
        for _ in range(self._news.qsize()):
            yield self._news.get_nowait()


class Loop:
    """The daemon's one thread of decisions. `answer` yields between pieces of a request."""

    def __init__(
        self,
        parts: Parts,
        inbox: Inbox,
        answer: Callable[[Loop, Request], Generator[None, None, None]],
    ) -> None:
        self.parts = parts
        self.clock, self.scheduler = parts.devices.clock, parts.scheduler
        self.store, self.launcher = parts.records.store, parts.attempts.launcher
        self.steps, self.reports = parts.attempts.steps, parts.attempts.site.reports
        self.tables = Tables()
        self.past = InLine()
        self.post = inbox.post
        self._turns = Turns(lambda request: answer(self, request))
        self._inbox, self._wakeups = inbox, inbox.wakeups
        self._monitor = parts.devices.monitor(self.launcher.owner_of, self.post)
        self.intake = Scan(
            *(self, parts.spool.arrivals, parts.estimates.estimation),
            users=parts.users,
            steps=self.steps,
        )
        self._stops = Stops(self.launcher, parts.devices.mps, self.post)
        self._attempts = Attempts(parts, self._stops, self._monitor.read_soon)
        self._resizes = Resizes(parts, self._wakeups.wake, self._monitor.read_soon)
        effects = Effects(parts, self._resizes, self._stops, self._monitor.read_soon, self.post)
        self.capping = effects.capping
        self._decisions = Decisions(
            parts.scheduler, self.store, effects, parts.estimates.estimation.driver
        )
        self.counts = self._decisions.counts
        self.outbox = Outbox(self.store.notices, parts.records.sender, self._wakeups.wake)
        self._ready: set[int] | None = None
        """The descriptors that the last wait found readable; None: all attempts are looked at."""
        self._look_at = 0.0
        self._rescan_at = 0.0
        self._count_at = 0.0
        self._emptied = False
        self.stopping = False
        self._is_ended = self._renews = False
        self._reload = False
        self.connections_of: Callable[[int], int] = lambda uid: 0
        """Returns the number of a user's open connections; `main` sets it."""

    # ------------------------------------------------------------- from other threads

    def stop(self) -> None:
        """End after the current round; jobs run on. Safe in a signal handler."""
        self._is_ended = self.stopping = True
        self._wakeups.wake()

    def reload_soon(self) -> None:
        """Start anew with the configuration after the current round. Safe in a signal handler."""
        self._reload = True
        self._wakeups.wake()

    def read_soon(self) -> None:
        """Read the devices at once, because something about them has changed."""
        self._monitor.read_soon()

    # ------------------------------------------------------------- for requests and intake

    def acknowledge(self, uuid: str) -> None:
        """Forget the faults that were read on a device; an administrator has checked it."""
        self._monitor.acknowledge(uuid)

    def save_volatile(self) -> None:
        """Write now what waits for the next transaction, unless the store cannot be written."""
        self._decisions.save_volatile()

    @property
    def again(self) -> bool:
        """True if the daemon ends to start anew in this process, and nobody has ended it."""
        return self._renews and not self._is_ended

    @property
    def unsaved(self) -> bool:
        """True while a decision is not on disk."""
        return self._decisions.unsaved

    @property
    def broken(self) -> bool:
        """True once memory and disk differ, so that the daemon must restart from the store."""
        return self._decisions.broken

    def process(
        self,
        events: Iterable[ev.Event],
        submissions: Iterable[Submission] = (),
        edits: Edits = (),
    ) -> None:
        """Step, save, act. While an earlier decision is not on disk, events wait for it."""
        self._decisions.process(events, submissions, edits)

    def _start_anew(self) -> None:
        """End, so that `main` starts the daemon anew. With a wrong configuration it goes on."""
        try:
            self.parts.check()
        except RadrmError as error:
            log.error("not reloaded, the old configuration stays in force: %s", error)
            return
        log.info("starts anew with the configuration as it is now")
        self._renews = self.stopping = True

    def scan_again(self) -> None:
        """Look into the spool again in the next round."""
        self._rescan_at = 0.0
        self._wakeups.wake()

    def scan(self, names: Iterable[str] = (), first: int | None = None) -> None:
        """Take in the spool, the files of user `first` before others.

        One look has a limited time; the next looks take in the rest.
        """
        self.intake.notice(names)
        if not self.unsaved:
            due_s = self.intake.run(first)
            self._rescan_at = self.clock.now().boot_s + due_s * self.clock.scale
            if due_s == 0.0:
                self.scan_again()

    # ------------------------------------------------------------- wait, gather

    def run(self, first: ev.DevicesSeen) -> None:
        """Adopt the attempts of an earlier daemon, then serve until `stop`. Raises `HomeLost`."""
        self._wakeups.watch_folder(self.parts.spool.arrivals.path)
        self.process([ev.Restored(at=first.at, kept=self.store.kept())])
        self.steps.restore(self.scheduler.snapshot.jobs)
        # All ends come before timers and planners, so that no ended job runs into its limit.
        crossed("records restored")
        manager = self.parts.manager
        manager.begins(f"re-adopts running jobs: {len(self.scheduler.snapshot.running)}")
        adopted = self._attempts.adopt(manager.alive)
        crossed("attempts adopted")
        nodes = ev.NodesSeen(at=first.at, nodes=(self.parts.attempts.node.look(),))
        self.process([nodes, first, *adopted, ev.AttemptsAdopted(at=self.clock.now())])
        self.parts.attempts.site.checkpoints.remove_left(self.store.ended_owner)
        self.reports.adopt(self.scheduler.snapshot.running)
        self._decisions.launch()
        self._clear_all()
        self.capping.restore()
        self.parts.attempts.site.elastic.remove_left(self.launcher.live)
        crossed("left folders removed")
        self.outbox.begin()
        self._monitor.start(first.devices)
        manager.ready()
        while not self.stopping:
            self._wait()
            self.store.check_home()
            manager.alive(self._status)
            self._gather()
            self._decisions.clear()
        self._clear_all()
        self._monitor.stop()
        self._decisions.save_volatile()

    def _clear_all(self) -> None:
        while self._decisions.uncleared:
            self._decisions.clear(at_once=True)

    def _wait(self) -> None:
        """Wait until something happens, or the scheduler or a look at the spool is due."""
        if self._turns.pending:
            seconds = 0.0
        elif self.unsaved:
            seconds = RETRY_S
        else:
            resizes_s = self._resizes.due_s
            due = (self._rescan_at, self._decisions.wake_at, self.reports.due_s, resizes_s)
            until = min(each for each in due if each is not None)
            seconds = max(0.0, self.clock.real_s(until - self.clock.now().boot_s))
            seconds = min(seconds, self.parts.records.retention.due_in_s, self.outbox.due_in_s)
            seconds = min(seconds, self._decisions.due_in_s)
        seconds = min(seconds, self.parts.spool.refused.due_in_s)
        # While the store is full, no result of an end could be saved; the wait would not sleep.
        processes = () if self.unsaved else [*self.launcher.fds(), *self.steps.fds()]
        longest_s = min(LONGEST_WAIT_S, self.parts.manager.wait_s())
        seconds = min(seconds, longest_s, self._decisions.clear_in_s)
        ready = self._wakeups.wait(seconds, processes)
        now_s = time.monotonic()
        everything = self.unsaved or now_s >= self._look_at
        if everything:
            self._look_at = now_s + LONGEST_WAIT_S
        self._ready = None if everything else ready

    def _status(self) -> str:
        """The line that `systemctl status` shows."""
        if self.unsaved:
            return "the store cannot be written: jobs run on, nothing new starts; see the log"
        snapshot = self.scheduler.snapshot
        return f"jobs: {len(snapshot.running)} running, {snapshot.waiting} waiting"

    def _gather(self) -> None:
        """Process everything that has happened since the last round."""
        self._wakeups.clear()
        if self.unsaved and self._decisions.commit():
            self._rescan_at = 0.0  # new envelopes have waited for the store
        arrived = self._notice_arrivals()
        if not self.unsaved:
            ends = self._attempts.events(self._ready)
            self.process([*self.reports.events(), *self.reports.last_of(ends), *ends])
            self.process(self.steps.events(self.clock.now()))
            self._resizes.look_soon(self.reports.resized())
            self.process(self._resizes.events())
        self._decisions.launch()
        if self._reload and not self.unsaved:
            self._reload = False
            self._start_anew()
        # Before the requests: the client of a new envelope asks for its id while it is stored, and
        # is answered before the job is launched.
        if arrived or self.clock.now().boot_s >= self._rescan_at:
            self.scan()
        # Drain only what is queued now, so that a busy client cannot starve events.
        for news in self._inbox.queued():
            self._take(news)
        if self._turns.pending:
            self._decisions.save_ends()
        self._turns.run()
        self._decisions.launch()
        now = self.clock.now()
        node = self.parts.attempts.node.changed() if not self.unsaved else None
        if node is not None:
            self.process([ev.NodesSeen(at=now, nodes=(node,))])
        if now.boot_s >= self._count_at and not self.unsaved:
            self._count_at = now.boot_s + self.parts.attempts.count_every_s
            self.process(self._attempts.used())
        wake_at = self._decisions.wake_at
        if wake_at is not None and now.boot_s >= wake_at:
            self.process([ev.Tick(at=now)])
        self._decisions.launch()
        self._decisions.save_waiting()
        self._decisions.save_volatile(self.clock.real_s(now.boot_s))
        self.parts.spool.refused.work()
        if not self.unsaved:
            self._emptied = self._emptied or self.intake.empty
            self.parts.records.retention.work(now, self._emptied)
            self.outbox.work()

    def _take(self, news: News) -> None:
        """Handle one post of another thread."""
        if isinstance(news, Request):
            self._turns.add(news)
        elif isinstance(news, ClientsEnded):
            self._stops.send(news)
        elif isinstance(news, ServerReady):
            self.process(self._decisions.go_on(news))
        elif isinstance(news, Estimated):
            self._take_estimates(news)
        elif isinstance(news, Planned):
            thought = news.action, news.version, news.thought
            self.process([ready(*thought, self.clock.now())])
        else:
            self.process([news])
            self.parts.attempts.unmanaged.look(news, self.scheduler.snapshot)

    def _take_estimates(self, found: Estimated) -> None:
        now, answer = self.clock.now(), found.answer
        job_ids, others = found.job_ids[:MOST_EVENTS], found.job_ids[MOST_EVENTS:]
        for note in () if found.goes_on else answer.notes:
            log.warning("job %d is estimated without an answer of %s", job_ids[0], note)
        self.process(
            ev.EstimateReady(at=now, job_id=i, estimates=answer.estimates, notes=answer.notes)
            for i in job_ids
        )
        if others:  # of a long array: they come in later rounds
            self.post(Estimated(others, answer, goes_on=True))
        self.parts.estimates.probing.look(self, job_ids, answer.estimates)

    def _notice_arrivals(self) -> bool:
        """Note the new files that the kernel reports in the spool. True if there are any."""
        names, dropped = self._wakeups.arrived()
        if dropped:
            self.intake.list_soon()
        self.intake.notice(names)
        return bool(names) or dropped
