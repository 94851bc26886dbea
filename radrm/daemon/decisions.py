"""Decisions are saved, then acted on.

Theory of operation. Invariant: an action is carried out only after its decision is on disk.
(A reading changes nothing: the devices are read meanwhile.) While a decision cannot be saved (a
full disk), later events wait and are not stepped through. The result of an action is a new event;
it takes the same path, until no event is left.

A start that asks for no action is saved with the next decision, or soon (`START_S`): start.json
says it again to a daemon that adopts the attempt. So does exit.json of an end after which devices
are read: the launch that follows from the readings is saved with it, before a client asks anything
(`save_ends`). A kill meanwhile leaves what one before the look at the record leaves. A start that
is saved alone is not synced: with it or without, the attempt is lost after a power failure.

A launch that follows from an end is committed, then its runner gets its orders, and the disk syncs
the decision while that prepares the job (`Unsaved.syncs_later`). A kill finds the decision in the
file. The job begins only when it is synced (`Store.sync`), and so does all else that follows: a
power failure before that leaves the state before the decision, and the folder of an attempt that
the store does not have, which never began.

Launches wait until the requests of the round are answered (`launch`): what was submitted is saved,
and a client need not wait until it has started. Any other action about such an attempt has the
launches come first. What ended attempts have left is cleared when there is time (`clear`): no job
waits for that. A job that has begun anew meanwhile is no ended one any more.

A kill at any point leaves a sound store. Before the save, nothing has happened. After it, the
next daemon adopts the attempts and decides again. Two failures make memory and disk differ: an
exception in the middle of a step, and a decision that can never be saved (also because the store's
path leads to another file). They set `broken`, and
the daemon ends.

Volatile records (`core/decision.py`) wait in the store's memory for the next decision that is
saved, or for `save_volatile`. They are never saved before the decisions on which they build.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from math import inf
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import NAMES, Proposal
from radrm.core.records import Attempt, Job, Refusal
from radrm.core.scheduler import Scheduler
from radrm.daemon.counting import Counts
from radrm.daemon.effects import Effects, ServerReady
from radrm.daemon.past_runs import runs_of
from radrm.errors import StoreError
from radrm.host.crossings import crossed
from radrm.host.home import HomeLost
from radrm.host.storage.runs import Run
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Edits, Submission

log = logging.getLogger("radrm")

T = TypeVar("T")

RETRY_S = 5.0
"""Real seconds between two tries to write a store that cannot be written."""
START_S, END_S = 0.05, 0.02
"""Real seconds after which a start or an end is on disk."""
VOLATILE_S = 30.0
"""Real seconds after which volatile records are on disk. A kill loses at most these."""

CLEAR_AFTER_S = 0.2
"""Real seconds in which no job starts or ends, after which what ended ones have left is removed:
until then, each removal would wait for a disk that syncs their records."""
MOST_UNCLEARED = 2048
"""So many records of what has ended may wait for that: 1,024 jobs have 24 MiB."""
CLEARED_AT_ONCE = 8
"""Records of one turn of the loop: one takes a millisecond."""
MOST_REFUSED = 256
"""So many kinds of refused proposals are logged."""


_OF_THE_HOST = {ev.AttemptStarted, ev.AttemptEnded, ev.ReadingsTaken}


class Unsaved(Struct):
    """Decisions that are not on disk yet, so that none of their actions may be carried out."""

    events: list[ev.Event]
    decisions: list[Decision]
    submissions: list[Submission]
    edits: list[tuple[int, dict[str, Any]]]
    runs: list[Run]
    took_s: float = 0.0
    """Real seconds of steps and tries to save so far, without the pauses between them."""
    logged: bool = False

    @property
    def may_wait_s(self) -> float:
        """Real seconds for which this may wait for the next decision; 0: it is saved at once.

        Starts may wait for which nothing is to be done, and ends for which devices are read.
        """
        kinds = {type(event) for event in self.events}
        if self.submissions or self.edits or not kinds <= {ev.AttemptStarted, ev.AttemptEnded}:
            return 0.0
        actions = {type(action) for decision in self.decisions for action in decision.actions}
        if ev.AttemptEnded in kinds:
            return END_S if actions == {act.TakeReadings} else 0.0
        return 0.0 if actions else START_S

    @property
    def syncs_later(self) -> bool:
        """Whether launches go first that nobody's question waits for: the disk syncs meanwhile."""
        kinds = {type(event) for event in self.events}
        if self.submissions or self.edits or not kinds <= _OF_THE_HOST:
            return False
        return any(isinstance(a, act.Launch) for each in self.decisions for a in each.actions)

    def add(self, later: Unsaved) -> None:
        """Let what was decided later be saved together with this."""
        self.events += later.events
        self.decisions += later.decisions
        self.submissions += later.submissions
        self.edits += later.edits
        self.runs += later.runs
        self.took_s += later.took_s


class Decisions:
    """Used by the loop's thread. `driver` is the version of the GPUs' driver."""

    def __init__(
        self, scheduler: Scheduler, store: Store, effects: Effects, driver: str | None
    ) -> None:
        self.wake_at: float | None = None
        """When the scheduler wants a `Tick`, in boot-time seconds."""
        self.counts = Counts()
        self.broken = False
        """True once memory and disk differ, so that the daemon must restart from the store."""
        self._scheduler = scheduler
        self._store = store
        self._effects = effects
        self._driver = driver
        self._events: list[ev.Event] = []
        self._submissions: list[Submission] = []
        self._edits: list[tuple[int, dict[str, Any]]] = []
        self._unsaved: Unsaved | None = None
        self._waiting: Unsaved | None = None
        """Starts and ends that wait for the next decision."""
        self._waiting_due_s = inf
        self._end_waits = False
        self._launches: list[act.Launch] = []
        """Those that are saved, and wait for `launch`."""
        self._runs: list[Run] = []
        """Those that are saved, and of which `launch` learns."""
        self._ended: list[Attempt | Job] = []
        """Records of what has ended and is saved, for `clear`."""
        self._busy_s = -inf
        """When a job has last started or ended."""
        self._volatile_s = 0.0
        self._refused: set[tuple[str | None, type[Proposal], str]] = set()
        """What the log has of refused proposals: planner, kind and rule."""

    @property
    def unsaved(self) -> bool:
        """True while a decision is not on disk."""
        return self._unsaved is not None

    def process(
        self,
        events: Iterable[ev.Event],
        submissions: Iterable[Submission] = (),
        edits: Edits = (),
    ) -> None:
        """Step through events, save all decisions in one transaction, then act."""
        self._events += events
        self._submissions += submissions
        self._edits += edits
        if self._unsaved is None and self._events:
            self._step()
            self.commit()

    def _step(self) -> None:
        """Step through the events that wait. An exception in between leaves `broken` set."""
        events, self._events = self._events, []
        submissions, self._submissions = self._submissions, []
        edits, self._edits = self._edits, []
        if not events:
            return
        self.broken, began_s = True, self.counts.tick()
        decisions = [self._scheduler.step(event) for event in events]
        self.broken = False
        self._effects.begin_readings(decisions)
        self.wake_at = decisions[-1].wake_at
        for line in (line for decision in decisions for line in decision.log_lines):
            log.error("%s", line)
        for decision in decisions:
            for proposal, refusal in decision.rejections:
                self._log_refusal(proposal, refusal)
        for warned in (each for decision in decisions for each in decision.warned):
            log.warning("job %d: %s", warned.job_id, warned.text)
        now = self._scheduler.snapshot
        runs = [run for decision in decisions for run in runs_of(decision, now, self._driver)]
        took_s = self.counts.tick() - began_s
        decided = Unsaved(events, decisions, submissions, edits, runs, took_s)
        wait_s = decided.may_wait_s
        if self._waiting is not None:
            self._waiting.add(decided)
            decided, self._waiting = self._waiting, None
        if wait_s == 0.0:
            self._unsaved = decided
            return
        self._waiting = decided
        self._end_waits = self._end_waits or wait_s == END_S
        self._waiting_due_s = min(self._waiting_due_s, monotonic() + wait_s)

    @property
    def due_in_s(self) -> float:
        """Real seconds until `save_waiting` has something to do."""
        return max(0.0, self._waiting_due_s - monotonic()) if self._waiting is not None else inf

    def save_waiting(self, due: bool = True) -> None:
        """Save the starts and ends that wait; `due`: only if it is time."""
        if self._unsaved is None and self._waiting is not None and (self.due_in_s <= 0 or not due):
            self._unsaved, self._waiting = self._waiting, None
            self.commit()

    def save_ends(self) -> None:
        """Save the ends that wait: what has ended is in the store alone."""
        if self._end_waits:
            self.save_waiting(due=False)

    def _log_refusal(self, proposal: Proposal, refusal: Refusal) -> None:
        """Log the first refusal of each kind. `radrm explain` has the others."""
        key = (refusal.planner, type(proposal), refusal.rule)
        if key in self._refused or len(self._refused) >= MOST_REFUSED or refusal.timely:
            return
        self._refused.add(key)
        what = f"a {NAMES[type(proposal)]} of job {proposal.job_id}"
        why = f"{refusal.message} ({refusal.rule})"
        if refusal.planner is not None:
            what = f"planner {refusal.planner} proposed {what}, which"
        log.warning("%s was refused: %s", what, why)

    def commit(self) -> bool:
        """Save and act until no event is left. False while the store cannot be written."""
        while self._unsaved is not None:
            if not self._save(self._unsaved):
                return False
            saved, self._unsaved = self._unsaved, None
            self._waiting_due_s, self._end_waits = inf, False
            launched = saved.syncs_later
            if launched:
                self._launch_first(saved)
            self.counts.note(saved.events, saved.decisions, saved.took_s)
            if saved.logged:
                self._events.insert(0, self._effects.delayed())
            for decision in saved.decisions:
                if ended := [*self._effects.ended_by(decision)]:
                    self._ended += ended
                    self._busy_s = monotonic()
                for action in decision.actions:
                    if not (launched and isinstance(action, act.Launch)):
                        self._act(action)
            self._runs += saved.runs
            self._step()
        return True

    def _launch_first(self, saved: Unsaved) -> None:
        """Carry out the launches of a decision, and sync it: nothing else may come before that."""
        actions = [action for decision in saved.decisions for action in decision.actions]
        self._launches += [each for each in actions if isinstance(each, act.Launch)]
        self._begin_launches()
        self._or_broken(self._store.sync)

    def _act(self, action: act.Action) -> None:
        """Carry out an action, or note a launch. Readings have begun before it was saved."""
        if isinstance(action, act.TakeReadings):
            return
        if isinstance(action, act.Launch):
            self._launches.append(action)
            return
        if isinstance(action, act.AttemptAction):
            serials = {each.serial for each in self._launches}
            if action.serial in serials:
                self._begin_launches()
        self._events += self.carry_out(action)

    def _begin_launches(self) -> None:
        launches, self._launches = self._launches, []
        if launches:
            self._busy_s = monotonic()
        for action in launches:
            self._events += self.carry_out(action)

    def launch(self) -> None:
        """Carry out the launches that wait: they are saved, whatever is not. And what follows, also
        from what ended attempts teach: no launch waits for that."""
        while self._launches or self._runs:
            self._begin_launches()
            runs, self._runs = self._runs, []
            if runs:
                self._events += self._effects.learned(runs)
            if self._unsaved is None:
                self._step()
                self.commit()

    @property
    def uncleared(self) -> bool:
        """True while there is something for `clear`."""
        return bool(self._ended)

    @property
    def clear_in_s(self) -> float:
        """Real seconds until `clear` has something to do."""
        return max(0.0, self._busy_s + CLEAR_AFTER_S - monotonic()) if self._ended else inf

    def clear(self, at_once: bool = False) -> None:
        """Remove what attempts and jobs have left whose end is stored: a few at a time, if it is
        due or `at_once`; else only of too many."""
        waiting = self._ended
        rests = at_once or self.clear_in_s <= 0.0
        count = min(CLEARED_AT_ONCE, len(waiting) if rests else len(waiting) - MOST_UNCLEARED)
        for _ in range(count):
            self._effects.clear(waiting.pop(0))
            crossed("ended attempts cleared")

    def _save(self, waiting: Unsaved) -> bool:
        """Write to the store. False if the daemon must try again later."""
        began_s = self.counts.tick()
        try:
            its = waiting.decisions, waiting.submissions, waiting.edits, waiting.runs
            synced = waiting.may_wait_s != START_S and not waiting.syncs_later
            self._store.save(*its, synced=synced)
        except HomeLost:
            self.broken = True
            raise
        except StoreError as error:
            if not waiting.logged:
                log.error("%s; trying again every %.0f s", error, RETRY_S)
                waiting.logged = True
            return False
        except Exception as error:
            # A retry would fail in the same way, and no unsaved decision may be acted on.
            self.broken = True
            log.critical(
                "decisions cannot be saved (%s: %s), so none is carried out; the daemon ends. "
                "Jobs run on, and the next daemon continues from the store",
                type(error).__name__,
                error,
            )
            raise
        finally:
            waiting.took_s += self.counts.tick() - began_s
        return True

    def save_volatile(self, now_s: float | None = None) -> None:
        """Write the volatile records that wait, unless decisions wait for the store.

        With a time, in real seconds: only if `VOLATILE_S` have passed since the last such call.
        """
        if now_s is not None:
            if now_s < self._volatile_s:
                return
            self._volatile_s = now_s + VOLATILE_S
        self.save_waiting(due=now_s is not None)
        if self._unsaved is None:
            with contextlib.suppress(StoreError):  # the next decision that fails is logged
                self._store.save_volatile()

    def carry_out(self, action: act.Action) -> list[ev.Event]:
        """Carry out an action; see `Effects.carry_out`. An exception leaves `broken` set."""
        return self._or_broken(lambda: self._effects.carry_out(action))

    def go_on(self, waited: ServerReady) -> list[ev.Event]:
        """Carry out a launch that has waited; see `Effects.go_on`, and `carry_out`."""
        return self._or_broken(lambda: self._effects.go_on(waited))

    def _or_broken(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except Exception:
            self.broken = True
            raise
