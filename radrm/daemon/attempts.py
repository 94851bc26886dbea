"""Convert the records in the folders of attempts into events.

Theory of operation. A runner writes its records at any time, and a pidfd only wakes the daemon.
So the daemon may read a record early, twice or late, and the end must be the same: the core
ignores events about ended attempts. After a restart the daemon adopts every live attempt of the
store. It knows all ends before the first timer or planner runs. An attempt that was being stopped
gets its TERM again: the earlier daemon may have been killed before it sent that. The runner ignores
a TERM while a stop is under way.

The core gives up an attempt whose processes outlive KILL. Such an attempt stays live in the
launcher, and its folder stays, until they have ended; so their memory is never taken for another
attempt's. A restart finds it by its folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from radrm.core import events as ev
from radrm.core.records import Attempt, HostUse, Instant, Job, OutOfMemory, Progress
from radrm.core.scheduler import Scheduler
from radrm.core.units import show_mib
from radrm.core.words import CheckpointKind, Collocation, StopReason
from radrm.daemon.elastic import exits_of, host_oom_of
from radrm.daemon.launches import cpus_of, memory_of, most_memory_of, weight_of
from radrm.daemon.mps import Failures, Stops
from radrm.daemon.parts import Parts
from radrm.errors import StoreError
from radrm.excuses import BESIDE
from radrm.hints import hidden, hint
from radrm.host.attempts.evidence import Ended, Freed, Lost, OuterEnd, Running, Saved, Started, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.crossings import crossed
from radrm.host.processes.counted import Counted
from radrm.oom import classify_shared, judge
from radrm.structs import replace

log = logging.getLogger("radrm")

_MOST_LOGS = 4096
_MOST_OTHERS = 256

_CUT_OFF = Lost("the server went down when it was about to begin", True, None)
"""Of a launch in an earlier boot that has left no record: it may have begun."""
_ADOPTED = {Void: "nothing ran", Running: "it runs", Ended: "it has ended", Lost: "it is lost"}


class Attempts:
    """Reads the records of the scheduler's live attempts. Used by the loop's thread."""

    def __init__(self, parts: Parts, stops: Stops, read_soon: Callable[[], None]) -> None:
        self._clock, self._scheduler = parts.devices.clock, parts.scheduler
        self._store, self._launcher = parts.records.store, parts.attempts.launcher
        self._mps = parts.devices.mps
        self._stops = stops
        self._read_soon = read_soon
        self._failures = Failures(self._clock, self._mps)
        self._ends = Ends(self._clock, self._scheduler, self._launcher, self._failures)
        self._reports = parts.attempts.site.reports

    def adopt(self, alive: Callable[[], None]) -> list[ev.Event]:
        """Adopt the attempts that an earlier daemon left; return what became of them.

        `alive` is called between two of them, because a thousand take long.
        """
        self._forget_ended(alive)
        events: list[ev.Event] = []
        adopted: list[tuple[Job, Attempt, Void | Running | Ended | Lost]] = []
        for job, attempt in self._scheduler.snapshot.running:
            alive()
            found = self._launcher.adopt(attempt.serial, job.id)
            if isinstance(found, Void) or (isinstance(found, Lost) and not found.began):
                # Daemon and runner both died in the launch. Nothing ran, if the files are all
                # there: they are not synced. A step's are.
                all_there = self._clock.is_of_this_boot(attempt.launched)
                found = Void() if all_there or job.outer is not None else _CUT_OFF
            what = _ADOPTED[type(found)]
            log.info("re-adopted job %d (attempt %d): %s", job.id, attempt.number, what)
            if isinstance(found, Running) and attempt.stop is not None:
                self._stops.terminate(job, attempt)
            if isinstance(found, Ended) and found.at.boot != self._clock.now().boot:
                log.info("job %d: its exit record is of an earlier boot; its date holds", job.id)
            if isinstance(found, Running):
                shares = attempt.placement.shares
                self._launcher.restore_shares(attempt.serial, cpus_of(shares), weight_of(shares))
                mib = memory_of(job, shares)
                if mib is not None:
                    self._launcher.set_memory(attempt.serial, mib, most_memory_of(job))
            crossed("attempt adopted", type(found).__name__)
            adopted.append((job, attempt, found))
        saved = self._launcher.read_saved(
            attempt.serial
            for job, attempt, found in adopted
            if isinstance(found, Lost) or (isinstance(found, Running) and _saves(job))
        )
        for job, attempt, found in adopted:
            known = saved.get(attempt.serial, Saved())
            events += self._ends.events_of(job, attempt, found, known)
            if isinstance(found, Running) and known.progress is not None:
                # What it reported while no daemon ran is lost, but not this.
                events.append(
                    ev.CheckpointTaken(
                        at=self._clock.now(),
                        job_id=job.id,
                        serial=attempt.serial,
                        progress=known.progress,
                        happened=known.progress.at,
                    )
                )
        return events

    def _forget_ended(self, alive: Callable[[], None]) -> None:
        """Remove the folders of ended attempts that an earlier daemon had no time to remove."""
        live = {attempt.serial for _, attempt in self._scheduler.snapshot.running}
        for serial in self._launcher.serials():
            alive()
            if serial in live:
                continue
            if self._store.has_attempt(serial):
                self._forget(serial)
            elif self._launcher.is_of_earlier_boot(serial):
                # Its launch was not on disk when the server went down, so its job never began.
                self._launcher.forget(serial)
            else:
                where = f"the folder of attempt {serial}"
                log.warning("%s is not of this store and is left: its job may run on", where)

    def _forget(self, serial: int) -> None:
        """Remove the folder of an attempt that ended in the store, once nothing of it runs."""
        try:
            runs = self._launcher.outlives(serial)
        except StoreError as error:
            log.warning("attempt %d has ended, but its folder is left: %s", serial, error)
            return
        if runs:
            log.warning("attempt %d was given up, and its processes still run", serial)
        else:
            self._launcher.forget(serial)

    def events(self, ready: Collection[int] | None = None) -> list[ev.Event]:
        """The events for all records that are new since the last call; with the descriptors that
        are `ready`, for those of which these tell."""
        events: list[ev.Event] = []
        running = self._scheduler.snapshot.running
        news = None if ready is None else self._launcher.with_news(ready)
        answered = self._failures.answered()
        if news is not None and not news and not answered:
            return []
        its = self._launcher.live if news is None else news
        for serial in its.difference(attempt.serial for _, attempt in running):
            if isinstance(self._launcher.poll(serial), (Ended, Lost)):
                log.info("attempt %d, which was given up, has ended", serial)
                self._launcher.forget(serial)
        for job, attempt in running:
            if (end := answered.get(attempt.serial)) is not None:
                events += self._ends.events_of(job, attempt, end, self._saved_by(attempt, end))
            if news is not None and attempt.serial not in news:
                continue
            told = False
            while (found := self._launcher.poll(attempt.serial)) is not None:
                if isinstance(found, Freed):
                    self._read_soon()
                    continue
                if told and isinstance(found, (Ended, Lost)):
                    found = replace(found, started=None)
                told = told or isinstance(found, Started)
                if not self._failures.wait(attempt, found):
                    saved = self._saved_by(attempt, found)
                    events += self._ends.events_of(job, attempt, found, saved)
        return events

    def _saved_by(self, attempt: Attempt, found: Started | Ended | Lost) -> Saved:
        lost = [attempt.serial] if isinstance(found, Lost) and found.began else []
        return self._launcher.read_saved(lost).get(attempt.serial, Saved())

    def used(self) -> list[ev.Event]:
        """The event that tells what the live attempts have used of the server, if that is known."""
        now, uses = self._clock.now(), []
        for job, attempt in self._scheduler.snapshot.running:
            told = self._reports.uses(attempt.serial)
            if not (self._launcher.account or told or job.spec.memory_range_mib is not None):
                continue
            its = {(task.role, task.number) for task in attempt.tasks}
            tasks = tuple(use for use in told if (use.role, use.number) in its)
            found = self._launcher.counted(attempt.serial)
            if found != Counted() or tasks:
                counted = found.cpu_s, found.memory_mib, found.block_bytes
                told_at = self._reports.used_at(attempt.serial) if tasks else None
                use = HostUse(now, *counted, tasks=tasks, tasks_at=told_at)
                uses.append((job.id, attempt.serial, use))
        return [ev.HostUsed(at=now, uses=tuple(uses))] if uses else []


class Ends:
    """Converts what an attempt's folder proves into the events for the core."""

    def __init__(
        self, clock: Clock, scheduler: Scheduler, launcher: Launcher, failures: Failures
    ) -> None:
        self._clock, self._scheduler = clock, scheduler
        self._failures = failures
        self._writers = Writers(launcher)

    def events_of(
        self,
        job: Job,
        attempt: Attempt,
        found: Void | Started | Running | Ended | Lost,
        saved: Saved,
    ) -> list[ev.Event]:
        """Return the events for a record. `saved`: what a lost attempt has saved."""
        job_id, serial, now = job.id, attempt.serial, self._clock.now()
        if isinstance(found, Void):
            return [ev.LaunchVoided(at=now, job_id=job_id, serial=serial)]
        events: list[ev.Event] = []
        begun = found if isinstance(found, Started) else found.started
        if begun is not None and attempt.started is None:
            started = ev.AttemptStarted(
                at=now, job_id=job_id, serial=serial, happened=begun.at, cpu_list=begun.cpu_list
            )
            events.append(started)
            if begun.not_limited is not None:
                log.warning("job %d is not limited: %s", job_id, begun.not_limited)
        if isinstance(found, (Started, Running)):
            return events
        if isinstance(found, Ended):
            excuse, fault = self._excuse_of(job, attempt, found)
            oom, told = self._judge_memory(job, attempt, found)
            ended: ev.Event = ev.AttemptEnded(
                at=now,
                job_id=job_id,
                serial=serial,
                happened=found.at,
                exits=exits_of(attempt, found),
                oom=oom,
                never_started=found.never_started,
                transient=found.passing,
                host_oom=host_oom_of(job, attempt, found),
                failure=_why_failed(job, attempt, found),
                hint=told or self._hint(attempt, found),
                saved=found.saved.progress,
                saved_since_asked=_saved_since_asked(attempt, found.saved),
                excuse=excuse,
                beside=excuse in BESIDE,
                fault=fault,
                left=found.left,
                itself=found.itself,
            )
            events += _last_report(job, attempt, found.saved.reported, now)
        elif not found.began and job.outer is not None:
            # Its step has not begun to run it, so nothing is wrong with this server.
            ended = ev.LaunchVoided(at=now, job_id=job_id, serial=serial)
        elif not found.began:
            # The runner started no process of the job, so the attempt never started.
            never = f"its runner could not begin ({found.reason})"
            ended = ev.AttemptEnded(
                at=now, job_id=job_id, serial=serial, never_started=never, transient=True
            )
        else:
            ended = ev.AttemptEnded(
                at=now, job_id=job_id, serial=serial, lost=found.reason, saved=saved.progress
            )
        return [*events, *_outer_end(job, found.outer, now), ended]

    def _excuse_of(self, job: Job, attempt: Attempt, found: Ended) -> tuple[str | None, bool]:
        """Return why a failure may pass, and whether a fault of its MPS server is the reason."""
        if found.never_started is not None:
            later = found.try_later and job.outer is None  # else Slurm runs it again
            return (found.never_started if later else None), False
        excuse, fault = self._failures.judge(attempt, found)
        # An MPS server's fault is `judge`'s: one of its clients may have caused it.
        is_client = attempt.placement.collocation is Collocation.MPS
        if excuse is None and not found.exit.ok and not is_client:
            excuse = self._scheduler.snapshot.trouble(attempt)
        return excuse, fault

    def _judge_memory(
        self, job: Job, attempt: Attempt, found: Ended
    ) -> tuple[OutOfMemory | None, str | None]:
        """Return the evidence that GPU memory ran out; or why what its log says is none."""
        oom = judge(found.exit, found.tails)
        shared = self._writers.shared(job, attempt, self._scheduler.snapshot.running, oom)
        if found.tails:
            self._writers.note(attempt, self._clock.now())
        if oom is None or not shared:
            return oom, None
        pairs = zip(found.tails, found.after or (0,) * len(found.tails), strict=False)
        own = (tail[: len(tail) - after] for tail, after in pairs)
        last = next(filter(None, (classify_shared(found.exit, text) for text in own)), None)
        return last, _SHARED if last is None else None

    def _hint(self, attempt: Attempt, found: Ended) -> str | None:
        """Return what its user can change, if its last words tell."""
        told = next(filter(None, (hint(found.exit, t) for t in found.tails)), None)
        if told is None and found.no_room and not found.exit.ok:
            return _NO_ROOM
        if told is None and found.memory_killed and found.exceeded_mib is None:
            return _MEMORY_KILLED
        return told or hidden(found.exit, found.tails, found.redirected)


_NO_ROOM = "the disk of its log is full; free some space there, and requeue it"
_MEMORY_KILLED = (
    "while it ran the kernel killed processes as memory ran out; if dmesg names it, use fewer data "
    "loaders, or keep memory for it with --memory"
)
_SHARED = (
    "other jobs write to the same log, so radrm cannot tell whether this one ran out of GPU "
    "memory; give each job its own log, as with --output=%x.%j.out"
)


class Writers:
    """Tells whether other jobs wrote to a job's log while it ran.

    What it knows of ended attempts is lost with the daemon.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._ended: dict[str, tuple[int, Instant]] = {}
        """By log: the last attempt that left words in it, and when it ended."""

    def note(self, attempt: Attempt, now: Instant) -> None:
        """Note the end of an attempt that has printed something."""
        for path in self._launcher.logs(attempt.serial):
            self._ended.pop(path, None)
            self._ended[path] = attempt.serial, now
        while len(self._ended) > _MOST_LOGS:
            del self._ended[next(iter(self._ended))]

    def shared(
        self,
        job: Job,
        attempt: Attempt,
        running: Sequence[tuple[Job, Attempt]],
        oom: OutOfMemory | None,
    ) -> bool:
        """Return whether another attempt wrote there since this one was launched. It is looked up
        only where there is evidence, `oom`, that may be the other's."""
        if oom is None:
            return False
        mine = self._launcher.logs(attempt.serial)
        for path in mine:
            serial, ended = self._ended.get(path, (attempt.serial, attempt.launched))
            if serial != attempt.serial and ended.is_after(attempt.launched):
                return True
        serials = (
            its.serial
            for each, its in running
            if each.spec.uid == job.spec.uid and its.serial != attempt.serial
        )
        return any(mine & self._launcher.logs(serial) for serial in islice(serials, _MOST_OTHERS))


_OUTER_ENDS = {
    "cancelled": StopReason.CANCELLED,
    "timeout": StopReason.TIMEOUT,
    "preempted": StopReason.PREEMPTED,
}


def _outer_end(job: Job, said: OuterEnd | None, now: Instant) -> list[ev.Event]:
    """Return the event that an attempt's step says that its Slurm job ends, if it does."""
    if said is None:
        return []
    reason = _OUTER_ENDS[said.reason]
    return [ev.OuterGone(at=now, job_id=job.id, reason=reason, why=said.why, happened=said.at)]


def _saves(job: Job) -> bool:
    return job.spec.checkpoint.kind is not CheckpointKind.NONE


def _last_report(job: Job, attempt: Attempt, last: Progress | None, now: Instant) -> list[ev.Event]:
    """Return the event for the last report of an attempt that ended while no daemon ran."""
    known = [attempt.launched, *([] if job.progress is None else [job.progress.at])]
    if last is None or not all(last.at.is_after(each) for each in known):
        return []
    return [ev.ProgressReported(at=now, job_id=job.id, serial=attempt.serial, progress=last)]


def _saved_since_asked(attempt: Attempt, saved: Saved) -> bool:
    """Return whether a file is newer than the last request to save, or than the stop."""
    stop, newest = attempt.stop, saved.newest
    asked = stop.asked if stop is not None else attempt.checkpoint_asked
    return asked is not None and newest is not None and newest.is_after(asked)


def _why_failed(job: Job, attempt: Attempt, found: Ended) -> str | None:
    """Why an attempt has failed whatever its exit code; None if the exit code decides.

    After the kernel has killed one of its processes, no result of a job can be trusted.
    """
    if found.exceeded_mib is None or host_oom_of(job, attempt, found) is None:
        return None
    limit = show_mib(found.exceeded_mib)
    return f"host memory limit ({limit}) reached; ask for more with --memory"
