"""Convert what jobs report into events, within limits that no job can exceed.

Theory of operation. Each attempt has a socket of its own (`host/progress.py`). Once a
second the daemon takes at most 16 datagrams from each, and keeps the last value of each key. One
attempt causes at most one `ProgressReported` and one `CheckpointTaken` in `interval_s`; what comes
in between waits for the next. So a flood costs its own job reports, and other jobs nothing.

Four things are outside these limits. A job that was asked to save is read to the end of its queue
(all such jobs together have a limit), and its answer counts at once. So is a job that has ended:
its last report comes before its end. A silence counts at once when something is to be done. So do
the first steps of a training, `MOST_STEPS` times: then the job's memory is known.

A `saved` that was sent within the second before a request answers it, too: it names the step that
is saved, so the core never believes more than is saved.

What tasks use is remembered here, and counts with what the control groups have counted
(`attempts.py`). That a launcher has answered a resize is only a hint (`elastic.py`).

Reports are volatile (`core/decision.py`) and cost no transaction. Those sent while no daemon runs
are lost, but for the last of a program that ends then (`radrm/report.py` keeps it). What is dropped
is counted; the counts of this daemon's attempts are in its memory only.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from radrm.core import events as ev
from radrm.core.lifecycle.timing import warned_after_s
from radrm.core.records import Attempt, Instant, Job, TaskUse
from radrm.core.scheduler import Scheduler
from radrm.core.snapshot import Snapshot
from radrm.core.words import ActionKind
from radrm.host.clock import Clock
from radrm.host.progress import MOST_TASKS, BadReport, Latest, Receiver, parse, parse_use

MOST_AT_ONCE = 16
"""Datagrams of one attempt that are read in one round."""
MOST_AT_END = 1024
"""Datagrams that are read of a job that was asked to save or has ended: more than the kernel keeps
by the usual settings (10 to 512)."""
MOST_MORE = 8 * MOST_AT_END
"""Datagrams beyond `MOST_AT_ONCE` that are read in one round, of all jobs that were asked to save:
one user may have asked a thousand that send without end. Those that come too late have 16."""
MOST_STEPS = 16
"""How often an attempt may say how many optimizer steps it has done."""
MOST_KEPT = 2000
"""Attempts whose counts of dropped reports are remembered."""


class Dropped(Struct, frozen=True):
    """How many datagrams of an attempt were dropped, and why the last one was."""

    count: int
    reason: str


class _Sender(Struct):
    """What an attempt has reported; `fresh` and `saved`: not said to the scheduler yet."""

    job_id: int
    serial: int
    latest: Latest = field(default_factory=Latest)
    fresh: bool = False
    saved: bool = False
    silent: Instant | None = None
    """Since when its logs stand still, if that was not said to the scheduler yet."""
    steps: float | None = None
    """How many steps it has done, if that was not said to the scheduler yet."""
    steps_said: int = 0
    uses: dict[tuple[str, int], TaskUse] = field(default_factory=dict)
    used: Instant | None = None
    """When its launcher told them last."""
    next_s: float = float("-inf")
    """Boot-time second from which the limit allows the next event."""


class Reports:
    """What the live attempts report. Used by the loop's thread.

    `interval_s`: least seconds between two events about an attempt. `look_s`: seconds between two
    rounds. Both on the clock.
    """

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        receiver: Receiver,
        interval_s: float,
        look_s: float,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._receiver = receiver
        self._interval_s = interval_s
        self._look_s = look_s
        self._next_s = 0.0
        self._senders: dict[int, _Sender] = {}
        self._waiting: dict[int, _Sender] = {}
        """Those that have something to say."""
        self._dropped: dict[int, Dropped] = {}
        self._resized: set[int] = set()

    # ------------------------------------------------------------- attempts come and go

    def place(self, serial: int) -> str:
        """The path of the socket of an attempt; "" if there can be none."""
        return self._receiver.place(serial)

    def open(self, job: Job, serial: int) -> str:
        """Bind the socket of an attempt; return its path, "" if there is none."""
        path = self._receiver.open(serial, job.spec.uid)
        if path:
            self._senders[serial] = _Sender(job.id, serial)
        return path

    def adopt(self, running: Iterable[tuple[Job, Attempt]]) -> None:
        """Bind the sockets of the attempts of an earlier daemon; remove those of ended ones."""
        for job, attempt in running:
            if attempt.serial not in self._senders:
                self.open(job, attempt.serial)
        self._receiver.remove_left()

    def end(self, serial: int) -> None:
        """Close the socket of an attempt that has ended. What is left of it stays until `close`."""
        self._receiver.end(serial)
        self._senders.pop(serial, None)
        self._waiting.pop(serial, None)

    def close(self, serial: int) -> None:
        """Remove the socket of an attempt that has ended."""
        self.end(serial)
        self._receiver.close(serial)

    # ------------------------------------------------------------- events

    @property
    def due_s(self) -> float | None:
        """Boot-time second of the next round; None while no attempt can report."""
        return self._next_s if self._senders else None

    def events(self) -> list[ev.Event]:
        """The events of a round, if it is due."""
        now = self._clock.now()
        if not self._senders or now.boot_s < self._next_s:
            return []
        self._next_s = now.boot_s + self._look_s
        snapshot = self._scheduler.snapshot
        more, found = MOST_MORE, list[ev.Event]()
        for serial in self._receiver.ready():
            sender = self._senders[serial]
            most = MOST_AT_ONCE
            if _is_asked(snapshot, sender):
                most = min(MOST_AT_END, MOST_AT_ONCE + more)
            more -= max(0, self._take(sender, most, now) - MOST_AT_ONCE)
            if self._senders[serial].steps is not None:
                found.append(_steps(self._senders[serial], now))
        for sender in tuple(self._waiting.values()):
            if now.boot_s >= sender.next_s or _is_silent(snapshot, sender, now):
                found += self._said(sender, now)
            elif sender.saved and _is_asked(snapshot, sender):
                found.append(_checkpoint(sender, now))
                if not sender.fresh:
                    del self._waiting[sender.serial]
        return found

    def last_of(self, ends: Iterable[ev.Event]) -> list[ev.Event]:
        """What attempts have reported before these ends."""
        now = self._clock.now()
        found: list[ev.Event] = []
        for end in ends:
            sender = self._senders.get(end.serial) if isinstance(end, ev.AttemptEnded) else None
            if sender is not None:
                self._take(sender, MOST_AT_END, now)
                sender.silent = None  # it has ended
                found += self._said(sender, now)
        return found

    def uses(self, serial: int) -> tuple[TaskUse, ...]:
        """What each task of an attempt has used, as far as its launcher has told."""
        sender = self._senders.get(serial)
        return () if sender is None else tuple(sender.uses[key] for key in sorted(sender.uses))

    def used_at(self, serial: int) -> Instant | None:
        """When an attempt's launcher has last told what its tasks use; None if it has not."""
        sender = self._senders.get(serial)
        return None if sender is None else sender.used

    def resized(self) -> set[int]:
        """The attempts that have said, since the last call, that they answered a resize."""
        found, self._resized = self._resized, set()
        return found

    def dropped(self, serial: int) -> Dropped | None:
        """What was dropped of an attempt; None: nothing that this daemon knows of."""
        return self._dropped.get(serial)

    # ------------------------------------------------------------- one sender

    def _take(self, sender: _Sender, most: int, now: Instant) -> int:
        """Read the datagrams that wait, up to `most`. Returns how many there were."""
        datagrams = self._receiver.read(sender.serial, most)
        for datagram in datagrams:
            try:
                report, uses = parse(datagram), parse_use(datagram)
            except BadReport as bad:
                self._drop(sender.serial, str(bad))
                continue
            for use in uses:
                sender.used = now
                if len(sender.uses) < MOST_TASKS or (use.role, use.number) in sender.uses:
                    sender.uses[use.role, use.number] = use
            if report.pop("resized", None) is not None:
                self._resized.add(sender.serial)
                sender.uses.clear()  # other tasks run now
            steps = report.pop("steps", None)
            if steps is not None and sender.steps_said < MOST_STEPS:
                sender.steps = max(steps, sender.steps or 0.0)
            silent_s = report.pop("silent", None)
            if silent_s is not None:
                sender.silent = now.at(now.boot_s - silent_s * self._clock.scale)
                self._waiting[sender.serial] = sender
            if report:
                sender.latest.take(report, now)
                sender.fresh = True
                sender.saved = sender.saved or "saved" in report
                self._waiting[sender.serial] = sender
        return len(datagrams)

    def _drop(self, serial: int, reason: str) -> None:
        before = self._dropped.pop(serial, None)
        if len(self._dropped) >= MOST_KEPT:
            del self._dropped[next(iter(self._dropped))]
        self._dropped[serial] = Dropped(before.count + 1 if before else 1, reason)

    def _said(self, sender: _Sender, now: Instant) -> list[ev.Event]:
        """The events for all that a sender has said since the last ones."""
        found: list[ev.Event] = []
        if sender.fresh:
            sender.fresh = False
            found.append(
                ev.ProgressReported(
                    at=now,
                    job_id=sender.job_id,
                    serial=sender.serial,
                    progress=sender.latest.progress(now),
                )
            )
        if sender.saved:
            found.append(_checkpoint(sender, now))
        if sender.silent is not None:
            about = {"job_id": sender.job_id, "serial": sender.serial}
            found.append(ev.SilenceReported(at=now, **about, happened=sender.silent))
            sender.silent = None
        self._waiting.pop(sender.serial, None)
        sender.next_s = now.boot_s + self._interval_s
        return found


def _checkpoint(sender: _Sender, now: Instant) -> ev.CheckpointTaken:
    """The event for the state that a sender has saved last."""
    sender.saved = False
    saved = sender.latest.saved
    happened = saved.at if saved is not None else now
    return ev.CheckpointTaken(
        at=now, job_id=sender.job_id, serial=sender.serial, happened=happened, progress=saved
    )


def _steps(sender: _Sender, now: Instant) -> ev.StepsReported:
    """The event for the steps that a sender has done."""
    steps, sender.steps = sender.steps or 0.0, None
    sender.steps_said += 1
    return ev.StepsReported(at=now, job_id=sender.job_id, serial=sender.serial, steps=steps)


def _is_silent(snapshot: Snapshot, sender: _Sender, now: Instant) -> bool:
    """True if the job was silent for so long that something is to be done."""
    job = snapshot.job(sender.job_id)
    after_s = None if job is None else warned_after_s(job.spec)
    if after_s is None or sender.silent is None:
        return False
    heard_s = sender.silent.boot_s
    if sender.latest.at is not None:
        heard_s = max(heard_s, sender.latest.at.boot_s)
    return now.boot_s - heard_s >= after_s


def _is_asked(snapshot: Snapshot, sender: _Sender) -> bool:
    """True if the scheduler waits for the job to save its state."""
    attempt = snapshot.live_attempt(sender.job_id, sender.serial)
    return attempt is not None and attempt.asked(ActionKind.CHECKPOINT) is not None
