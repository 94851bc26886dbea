"""Virtual time: what is to happen, the one loop over it, and the core that decides in it.

Theory of operation
-------------------
- **A timeline** holds what is to happen, each with its time; of equal times the one that was
  planned first comes first. Between two of these moments nothing changes, so time jumps.
- **One loop.** `in_order` lets the next thing happen and yields it, on one timeline or on several:
  then always on the one that is due first, and so a server's course depends only on what came to
  it before. All loops of the simulator are a `for` over it. They differ in what they do with what
  happened, and in when they stop.
- **An attempt's work** is an integral (`radrm.simulated.integral`). Its end follows from its rate,
  so a new rate plans a new end, and the old one is void. What is planned of an attempt is void when
  the attempt is over. Void entries stay until they are due, and are dropped unseen: no time passes
  for them.
- **The core decides** as in the daemon: what happens becomes its events, and it is asked until no
  event is left, since an action can cause the next. Only then does time go on. A plan takes no
  time. A rule that fails ends the run: the daemon would go on without it, and the result would be
  another rule's.
- **Saving and resizing** have the same steps for every kind of job. To save, an attempt stands
  still. A resize has two times: while new workers begin, the old ones work on, and if it is
  withdrawn then, nothing has happened; then the attempt stands still until it has its new size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.planning.thinking import think_in_place
from radrm.core.records import Instant, Job, Progress, Share
from radrm.core.rules import Rules
from radrm.core.scheduler import Scheduler
from radrm.errors import RadrmError
from radrm.simulated.integral import Integral

TERM = 15
"""The signal by which the core's stops end an attempt."""

# ------------------------------------------------------------------
# Time.


class Running(Struct, eq=False):
    """An attempt that is running: of the job at a place of the trace, with its serial number."""

    job: int
    serial: int = 0
    work: Integral = field(default_factory=Integral)
    over: bool = False
    ends: int = 0
    """How often its end was planned; only the last one is valid."""


class Timeline:
    """What is to happen, from time 0 on."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, object, Running | None, int | None]] = []
        self._count = 0

    @property
    def next_s(self) -> float | None:
        """Return when something happens next. None: nothing will by itself."""
        due = self._due
        while due:
            when_s, _, _, of, end = due[0]
            if of is None or not (of.over or (end is not None and end != of.ends)):
                return when_s
            heappop(due)
        return None

    def at(self, when_s: float, what: object, of: Running | None = None) -> None:
        """Plan something; when `of` is over before, it is void."""
        self._count += 1
        heappush(self._due, (when_s, self._count, what, of, None))

    def plan_end(self, of: Running, total: float, what: object) -> None:
        """Plan what happens when the work is `total`, in place of what was planned for that."""
        of.ends += 1
        when_s = of.work.reaches_s(total)
        if when_s is not None:
            self._count += 1
            heappush(self._due, (when_s, self._count, what, of, of.ends))

    def advance(self) -> object:
        """Go to the next thing, which `next_s` has found, and return it."""
        when_s, _, what, _, _ = heappop(self._due)
        self.now_s = max(self.now_s, when_s)
        return what

    def advance_to(self, until_s: float) -> None:
        """Move the clock to a time before the next thing."""
        self.now_s = max(self.now_s, until_s)


def in_order(lines: Sequence[Timeline], until_s: float = inf) -> Iterator[tuple[int, object]]:
    """Let everything happen that is due until then; yield each, with its timeline's number.

    Of equal times on several timelines the first timeline's comes first.
    """
    while True:
        first, first_s = -1, inf
        for number, line in enumerate(lines):
            next_s = line.next_s
            if next_s is not None and (first < 0 or next_s < first_s):
                first, first_s = number, next_s
        if first < 0 or first_s > until_s:
            return
        yield first, lines[first].advance()


# ------------------------------------------------------------------
# The core's decisions.

R = TypeVar("R", bound=Running)


class Arrival(Struct, frozen=True):
    """A job is submitted: the one at this place of the trace."""

    job: int


class _Wake(Struct, frozen=True):
    """The core asked to be woken at this time; a later demand may be for an earlier one."""

    at_s: float


class CoreLoop(ABC, Generic[R]):
    """`Scheduler.step` on a timeline. A subclass carries out its actions on attempts."""

    def __init__(self, time: Timeline, rules: Rules, scheduler: Scheduler) -> None:
        self._time, self._planners, self._scheduler = time, rules.planners, scheduler
        self._live: dict[int, R] = {}
        """By the job's id, which is its place in the trace and one."""
        self._uids: dict[str, int] = {}
        self._events: deque[ev.Event] = deque()
        self._wake_at: float | None = None

    @property
    def _now(self) -> Instant:
        return Instant(self._time.now_s, self._time.now_s)

    @property
    def _complete(self) -> bool:
        """Whether every job has ended: then a planner that asks to be woken is not."""
        return False

    def _uid(self, user: str) -> int:
        return self._uids.setdefault(user, len(self._uids))

    def turn(self, happened: object) -> None:
        """Have the core decide about what happened, and all that follows at this moment."""
        self._on(happened)
        self._drain()

    def _on(self, happened: object) -> None:
        if isinstance(happened, Arrival):
            self._events.append(ev.JobSubmitted(at=self._now, job=self._job(happened.job)))
        elif isinstance(happened, _Wake) and self._wake_at == happened.at_s:
            self._wake_at = None
            if not self._complete:  # else a planner could ask again for ever
                self._events.append(ev.Tick(at=self._now))

    def _drain(self) -> None:
        """Process the events of this moment, and those that their actions cause."""
        while self._events:
            self._step(self._events.popleft())

    def _step(self, event: ev.Event) -> None:
        decision = self._scheduler.step(event)
        if decision.log_lines:
            raise RadrmError(f"no result, since a rule failed: {decision.log_lines[0]}")
        for action in decision.actions:
            self._carry_out(action)
        self._note(event, decision)
        wake_at = decision.wake_at
        if wake_at is not None and (self._wake_at is None or wake_at < self._wake_at):
            self._wake_at = wake_at
            self._time.at(max(wake_at, self._time.now_s), _Wake(wake_at))

    def _note(self, event: ev.Event, decision: Decision) -> None:
        """Take what the run's record needs of a decision."""

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.Launch):
            self._launch(action)
        elif isinstance(action, act.Think):
            now, snapshot = self._now, self._scheduler.snapshot
            self._events.append(think_in_place(self._planners, action, snapshot, now))
        elif isinstance(action, (act.Terminate, act.Kill)):
            attempt = self._running(action)
            if attempt is not None:
                self._stop(attempt)
        elif not isinstance(action, act.SendSignal):
            # The daemon's host gives the same answer to actions that it does not support.
            self._refuse(action, "not in the simulator")

    def _why_waiting(self, job_id: int) -> str:
        refusals = self._scheduler.why_waiting(job_id, self._now)
        return "; ".join(dict.fromkeys(each.message for each in refusals))

    @abstractmethod
    def _job(self, position: int) -> Job:
        """Return the job at a place of the trace, as it is submitted now."""

    @abstractmethod
    def _launch(self, action: act.Launch) -> None: ...

    @abstractmethod
    def _stop(self, attempt: R) -> None: ...

    def _running(self, action: act.AttemptAction) -> R | None:
        """Return the attempt that an action is about, if that lives."""
        attempt = self._live.get(action.job_id)
        return attempt if attempt is not None and attempt.serial == action.serial else None

    def _tell(self, kind: Callable[..., ev.Event], attempt: R, **fields: Any) -> None:
        """Tell the core of an attempt."""
        job_id, serial = attempt.job + 1, attempt.serial
        self._events.append(kind(at=self._now, job_id=job_id, serial=serial, **fields))

    def _refuse(self, action: act.Action, reason: str) -> None:
        self._events.append(ev.ActionFailed(at=self._now, action=action, reason=reason))


# ------------------------------------------------------------------
# Attempts that save their work, and change their size and shares while they run.


class _Saved(Struct, Generic[R], frozen=True):
    """An attempt has saved its state."""

    attempt: R


class ChangingLoop(CoreLoop[R]):
    """Decisions about attempts that save their work, and change their shares."""

    def __init__(self, time: Timeline, rules: Rules, scheduler: Scheduler) -> None:
        super().__init__(time, rules, scheduler)
        self._saved: dict[int, float] = {}
        """The work that each job has saved, by its id."""

    # ------------------------------------------------------------- of a kind of attempt

    @abstractmethod
    def _save_s(self, job_id: int) -> float | None:
        """Return how long a job stands still to save its state; None: it cannot."""

    @abstractmethod
    def _stand_still(self, attempt: R, still: bool) -> None:
        """Have an attempt stand still, or go on when nothing else holds it up."""

    @abstractmethod
    def _set_shares(self, attempt: R, shares: tuple[Share, ...]) -> None:
        """Give an attempt these shares now."""

    @abstractmethod
    def _progress(self, attempt: R) -> Progress: ...

    # ------------------------------------------------------------- of all

    def _on(self, happened: object) -> None:
        if isinstance(happened, _Saved):
            self._end_save(happened.attempt)
        else:
            super()._on(happened)

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.TakeCheckpoint):
            self._begin_save(action)
        elif isinstance(action, act.ApplyShares):
            attempt = self._running(action)
            if attempt is not None:
                self._set_shares(attempt, action.shares)
                self._tell(ev.SharesApplied, attempt, shares=action.shares)
        else:
            super()._carry_out(action)

    def _begin_save(self, action: act.TakeCheckpoint) -> None:
        attempt, seconds = self._running(action), self._save_s(action.job_id)
        if seconds is None:
            super()._carry_out(action)
        elif attempt is not None:
            self._stand_still(attempt, True)
            self._time.at(self._time.now_s + seconds, _Saved(attempt), attempt)

    def _end_save(self, attempt: R) -> None:
        progress = self._progress(attempt)
        self._saved[attempt.job + 1] = attempt.work.value
        self._stand_still(attempt, False)
        self._tell(ev.CheckpointTaken, attempt, progress=progress)


class _Resize(Struct, Generic[R], eq=False):
    """A resize under way. `begun`: the old workers have been stopped."""

    attempt: R
    action: act.Resize
    begun: bool = False


class ResizingLoop(ChangingLoop[R]):
    """Decisions about attempts that also change their size."""

    _standby_s = 0.0
    _resize_s = 0.0

    def __init__(self, time: Timeline, rules: Rules, scheduler: Scheduler) -> None:
        super().__init__(time, rules, scheduler)
        self._resizes: dict[R, _Resize[R]] = {}

    def _why_no_resize(self, action: act.Resize) -> str | None:
        """Return why an attempt cannot have a size; None: it can."""
        return None

    @abstractmethod
    def _finish_resize(self, attempt: R, action: act.Resize) -> None:
        """Give an attempt that stands still its new size, and tell the core."""

    def _on(self, happened: object) -> None:
        if isinstance(happened, _Resize):
            self._continue_resize(happened)
        else:
            super()._on(happened)

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.Resize):
            attempt = self._running(action)
            if attempt is not None:
                self._begin_resize(attempt, action)
        else:
            super()._carry_out(action)

    def _begin_resize(self, attempt: R, action: act.Resize) -> None:
        here = self._resizes.get(attempt)
        if action.withdrawn:
            if here is None or not here.begun:
                self._resizes.pop(attempt, None)
                self._refuse(action, "it had not begun")
        elif (why := self._why_no_resize(action)) is not None:
            self._refuse(action, why)
        elif here is None:
            self._resizes[attempt] = resize = _Resize(attempt, action)
            self._time.at(self._time.now_s + self._standby_s, resize, attempt)

    def _continue_resize(self, resize: _Resize[R]) -> None:
        attempt = resize.attempt
        if self._resizes.get(attempt) is not resize:
            return  # it was withdrawn
        if resize.begun:
            del self._resizes[attempt]
            self._finish_resize(attempt, resize.action)
        else:
            resize.begun = True
            self._stand_still(attempt, True)
            self._time.at(self._time.now_s + self._resize_s, resize, attempt)
