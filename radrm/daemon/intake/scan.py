"""Look into the spool: envelopes become jobs, and are removed once the jobs are saved.

Theory of operation. A look has a budget of time and bytes, so that the loop answers questions
between two looks. Few jobs share a transaction, and its time counts. An envelope stays in the spool
until its jobs are committed, so a kill at any moment loses nothing. An envelope that is read again
finds its ticket in the store and makes only the missing jobs. Wrong content is refused with a
reason. An error of the machine leaves the envelope for a later look, after a pause that doubles. So
no content of the spool ends the daemon. All memory here is a cache of the folder; a restart lists
it again.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf

from msgspec import Struct, field

from radrm.config import NOBODY, UserLimits
from radrm.core import events as ev
from radrm.daemon.intake.admission import Admission
from radrm.daemon.intake.batch import Batch, Knows, Taker, refused_batch, take_in
from radrm.daemon.intake.envelopes import group_of
from radrm.daemon.steps import OuterSteps
from radrm.daemon.views.references import References, Target
from radrm.errors import RadrmError, StoreError, plain
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.database import DamagedRow
from radrm.host.storage.spool import SUFFIX, Arrival, Envelope
from radrm.host.storage.submitted import Submission
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.radfile import JobFile

log = logging.getLogger("radrm")

AT_ONCE = 50
"""Jobs that are taken in with one transaction. The time is looked at between two of these."""
TURN_S = 0.05
"""Seconds for a long array before other envelopes have their turn again."""
LOOK_S = 0.25
"""Seconds of one look, to answer questions in a second. The last `AT_ONCE` jobs, or the last
envelope, may take longer."""
LOOK_BYTES = 1024 * 1024
"""Bytes after which a look reads no more: 200 usual envelopes, or one of the largest (0.1 s)."""
RELIST_S = 60.0
"""Seconds between two lists of the spool: notices may be lost (network file systems, overflow)."""
RESTS_S = 1.0
"""Pause until the next look, while users rest (`admission`)."""
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LONGEST_REASON = 300
MACHINE = (sqlite3.Error, StoreError, OSError, MemoryError)
"""Errors of the machine, not of an envelope's content: the next look may succeed."""


class Pause(Struct):
    """The length of a pause after an error, and its end by the look's clock."""

    length_s: float = 0.0
    until_s: float = 0.0

    def grow(self, now_s: float) -> None:
        """Begin a pause, twice as long as the last one."""
        self.length_s = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, 2 * self.length_s))
        self.until_s = now_s + self.length_s


def in_short(error: Exception) -> str:
    """Return an error as a short plain line, because it may contain users' text."""
    text = str(error) if isinstance(error, (RadrmError, OSError)) else repr(error)
    return plain(text[:LONGEST_REASON])


class _NotYet(Exception):
    """This envelope stays in the spool until the next look."""


class _Left(Struct):
    """An envelope that a look has left in the spool, for one or more of three reasons."""

    uid: int
    array_id: int | None = None
    """The array that lacks elements."""
    again: bool = False
    """The next look reads it."""
    waits: bool = False
    """It waits for the end of its pause, after an error."""
    pause: Pause = field(default_factory=Pause)


class _Backlog:
    """The envelopes that looks have left, by name. A file with no reason is in none of its lists,
    and its pause is known until it is taken in, so that the next error makes it longer."""

    def __init__(self) -> None:
        self._left: dict[str, _Left] = {}

    def _of(self, name: str, uid: int) -> _Left:
        return self._left.setdefault(name, _Left(uid))

    def __contains__(self, name: str) -> bool:
        left = self._left.get(name)
        return left is not None and (left.again or left.waits or left.array_id is not None)

    def __bool__(self) -> bool:
        return any(name in self for name in self._left)

    def read_again(self, name: str, uid: int) -> None:
        self._of(name, uid).again = True

    def fill(self, name: str, uid: int, array_id: int) -> None:
        """This array lacks elements."""
        self._of(name, uid).array_id = array_id

    def filled(self, name: str) -> None:
        if name in self._left:
            self._left[name].array_id = None

    def pause(self, name: str, uid: int, now_s: float) -> Pause:
        left = self._of(name, uid)
        left.pause.grow(now_s)
        left.waits = True
        return left.pause

    def is_paused(self, name: str) -> bool:
        return name in self._left and self._left[name].waits

    def forget(self, name: str) -> None:
        """A file that is no longer in the spool."""
        self._left.pop(name, None)

    def end_pauses(self, now_s: float) -> Iterator[tuple[str, int]]:
        """Yield the envelopes whose pauses are over; they wait no longer."""
        for name, left in self._left.items():
            if left.waits and left.pause.until_s <= now_s:
                left.waits = False
                yield name, left.uid

    def take_again(self) -> Iterator[tuple[str, int]]:
        """Yield what the next look reads, once."""
        for name, left in self._left.items():
            if left.again:
                left.again = False
                yield name, left.uid

    def goes_on(self, rests: Callable[[int], bool]) -> bool:
        """Return whether the next look takes in more of an array."""
        return any(
            left.again and left.array_id is not None and not rests(left.uid)
            for left in self._left.values()
        )

    def arrays(self, uid: int | None = None) -> Iterator[int]:
        """Yield the arrays that lack elements; of a user, those that are not paused."""
        for left in self._left.values():
            if left.array_id is not None and (uid is None or (left.uid == uid and not left.waits)):
                yield left.array_id

    def next_s(self) -> float:
        """Return when the first pause is over."""
        return min((e.pause.until_s for e in self._left.values() if e.waits), default=inf)


class _Look:
    """One look: what it has read and not saved yet, and what it has seen."""

    def __init__(self) -> None:
        self.events: list[ev.JobSubmitted] = []
        self.submissions: list[Submission] = []
        self.done: list[Arrival] = []
        self.read = 0
        """Bytes."""
        self.errors = 0
        """Envelopes that it has paused."""
        self.has_followers = self.has_saved = False

    def take_held(self) -> tuple[list[ev.JobSubmitted], list[Submission], list[Arrival]]:
        held = self.events, self.submissions, self.done
        self.events, self.submissions, self.done = [], [], []
        return held


class Scan:
    """All looks of one daemon. `tick` is a monotonic clock in real seconds."""

    def __init__(
        self,
        loop: Taker,
        arrivals: Arrivals,
        estimation: Knows,
        tick: Callable[[], float] = time.monotonic,
        users: UserLimits = NOBODY,
        steps: OuterSteps | None = None,
    ) -> None:
        self._loop = loop
        self._arrivals = arrivals
        self._estimation = estimation
        self._tick = tick
        self._steps = steps or OuterSteps()
        self._admission = Admission(users, loop.scheduler, tick)
        self._list_at_s = float("-inf")
        self._backlog = _Backlog()
        self._error = Pause()
        """After an error of the spool or the store: all envelopes wait."""
        self._look = _Look()
        self._next_id = 0

    def notice(self, names: Iterable[str]) -> None:
        """Note files for the next look: new ones, or those that a client asks for."""
        try:
            self._arrivals.notice(names)
        except OSError as error:
            self._pause_all(error)
            self.list_soon()  # the listing finds them again

    @property
    def empty(self) -> bool:
        """True while no envelope waits that was found so far, after at least one listing."""
        waits = self._backlog or self._arrivals.turns
        return not waits and not self._arrivals.listing and self._list_at_s > float("-inf")

    def fills(self, uid: int) -> frozenset[int]:
        """Return the arrays of a user of which the next looks take in more elements, by id."""
        if self._loop.unsaved or self._admission.rests(uid):
            return frozenset()
        return frozenset(self._backlog.arrays(uid))

    def list_soon(self) -> None:
        """Have the next look list the whole folder."""
        self._list_at_s = float("-inf")

    def run(self, first: int | None = None) -> float:
        """Take in what is possible now. Returns in how many real seconds the next look is due.

        The user `first` is served first. Raises only if a step failed half done, or for what
        no look may catch (`KeyboardInterrupt`, `SystemExit`).
        """
        now_s = self._tick()
        if now_s < self._error.until_s:
            return self._error.until_s - now_s
        self._look = _Look()
        try:
            more = self._take_turns(now_s, first)
        except Exception as error:  # no content of the spool may end the daemon
            self._drop_held()
            if self._loop.broken:
                raise
            self._pause_all(error)
            more = False
        else:
            if not self._loop.unsaved:
                self._error = Pause()
        finally:
            for name, uid in self._backlog.take_again():
                self._arrivals.turns.add(name, uid)
        return self._next_look_s(more)

    def _take_turns(self, now_s: float, first: int | None) -> bool:
        """Take in envelopes until the budget is spent. True if there is more now."""
        turns = self._arrivals.turns
        self._next_id = self._loop.store.next_job_id()
        for name, uid in self._backlog.end_pauses(now_s):
            turns.add(name, uid)
        if now_s >= self._list_at_s or (turns.left_out and not turns):
            self._list_at_s = now_s + RELIST_S
            self._arrivals.list_anew()
        listing = self._arrivals.list_on()
        if first is not None:
            turns.first(first)
        while (turn := turns.take(rests := self._admission.rests)) is not None:
            self._take_turn(*turn)
            if len(self._look.events) >= AT_ONCE:
                self._save()
            spent = self._tick() - now_s >= LOOK_S or self._look.read >= LOOK_BYTES
            if self._loop.unsaved or spent:
                break
        self._save()
        ready = turns.any_of(rests) or self._backlog.goes_on(rests)
        # An envelope that waits for another's ticket may be ready now that others are saved.
        return listing or ready or (self._look.has_followers and self._look.has_saved)

    def _take_turn(self, name: str, uid: int) -> None:
        """Take in one envelope. Its own error pauses it alone; an error of the store is raised."""
        if self._backlog.is_paused(name):
            return
        try:
            arrival = self._arrivals.read(name)
            if arrival is not None:
                self._look.read += arrival.size
                self._take_or_refuse(arrival)
        except _NotYet:
            self._backlog.read_again(name, uid)
            self._look.has_followers = True
            return
        except (DamagedRow, OSError, MemoryError) as error:
            if self._loop.broken:
                raise
            self._pause(name, uid, error)
            return
        except Exception:
            self._backlog.read_again(name, uid)
            raise
        if arrival is None:
            self._backlog.forget(name)

    def _take_or_refuse(self, arrival: Arrival) -> None:
        wrong = arrival.wrong
        if arrival.envelope is not None:
            try:
                self._take(arrival, arrival.envelope)
            except (_NotYet, *MACHINE):
                raise
            except Exception as error:
                if self._loop.broken:
                    raise
                wrong = f"it cannot be taken in: {in_short(error)}"
        if wrong is not None:
            log.error("the spool's file %r is refused: %s", arrival.name, wrong)
            self._arrivals.refuse(arrival)
            self._backlog.forget(arrival.name)

    def _pause(self, name: str, uid: int, error: Exception) -> None:
        """Let one envelope wait after an error of the machine; the others continue."""
        pause = self._backlog.pause(name, uid, self._tick())
        self._look.errors += 1
        if self._look.errors == 1:  # the others of this look mostly have the same error
            wait_s, why = pause.length_s, in_short(error)
            log.error("the spool's file %r has to wait %.0f s: %s", name, wait_s, why)

    def _pause_all(self, error: Exception) -> None:
        """Let all envelopes wait after an error of the spool or the store."""
        self._error.grow(self._tick())
        wait_s = self._error.length_s
        log.error("no job can be taken in for the next %.0f s: %s", wait_s, in_short(error))

    def _next_look_s(self, more: bool) -> float:
        now_s = self._tick()
        if self._error.until_s > now_s:
            return self._error.until_s - now_s
        if self._loop.unsaved:
            return RELIST_S  # the loop looks again as soon as it can save
        if more:
            return 0.0
        rests_s = now_s + RESTS_S if self._arrivals.turns else inf
        return max(0.0, min(self._list_at_s, self._backlog.next_s(), rests_s) - now_s)

    # ------------------------------------------------------------- one envelope

    def _take(self, arrival: Arrival, envelope: Envelope) -> None:
        """Make the jobs of an envelope; of a long array, as many elements as its turn has time."""
        until_s = self._tick() + TURN_S
        taken = self._loop.store.taken(envelope.ticket)
        parsed = None
        if taken is not None:
            # The stored submission of a ticket rules: the file may have been changed since.
            stored = self._loop.store.submissions.of_ticket(envelope.ticket)
            if taken.uid != arrival.uid:
                self._finish(arrival)
                return
            envelope, parsed = stored.envelope, stored.parsed
        batch = self._batch(arrival, envelope, parsed)
        outer = batch.outer if taken is None else None
        if outer and self._steps.is_repeated(outer, envelope.ticket):
            log.warning("the spool's file %r is dropped: its Slurm job has a job", arrival.name)
            self._finish(arrival)
            return
        made = taken.jobs if taken else 0
        first_id = taken.first_id if taken else self._next_id
        room = self._room(arrival.uid, batch, made)
        if taken is None and room:
            gid = group_of(arrival.uid, arrival.gid)
            envelope = self._admission.kept(arrival.uid, envelope)
            self._look.submissions.append(Submission(arrival.uid, gid, envelope, batch.parsed))
        if batch.array is not None:
            # Before a part of it is there.
            self._backlog.fill(arrival.name, arrival.uid, first_id)
        while room:
            at = self._loop.clock.now()
            events = list(islice(batch.events(made, first_id, self._next_id, at), room))
            self._look.events += events
            self._admission.note(arrival.uid, events, batch.refused is not None)
            self._next_id, made = self._next_id + room, made + room
            if made >= batch.size:
                break
            self._save()
            ends = self._loop.unsaved or self._tick() >= until_s
            room = 0 if ends else self._room(arrival.uid, batch, made)
        if made >= batch.size:
            self._finish(arrival)
        else:
            self._backlog.read_again(arrival.name, arrival.uid)

    def _room(self, uid: int, batch: Batch, made: int) -> int:
        """Return how many more jobs of a batch are taken in with the next transaction."""
        if batch.array is None:
            return 1 - min(made, 1)
        admitted = self._admission.room(uid)
        room = min(AT_ONCE - len(self._look.events), batch.size - made)
        return max(0, room if admitted is None else min(room, admitted))

    def _batch(self, arrival: Arrival, envelope: Envelope, parsed: JobFile | None) -> Batch:
        """The jobs of an envelope. Content that raises becomes a FAILED job with the reason."""
        try:
            return take_in(
                arrival,
                envelope,
                self._estimation,
                lambda word: self._find(word, arrival.name),
                parsed,
                self._admission.users.of(arrival.uid),
                None if parsed else self._steps.outer_of,
            )
        except (_NotYet, *MACHINE):
            raise
        except Exception as error:  # an acknowledged envelope gets a job, whatever it contains
            if self._loop.broken:
                raise
            return refused_batch(
                arrival, envelope, f"it cannot be read as a job: {in_short(error)}"
            )

    def _finish(self, arrival: Arrival) -> None:
        self._backlog.filled(arrival.name)
        self._look.done.append(arrival)

    def _find(self, word: str, asking: str) -> Target:
        """The target of a dependency. Raises `_NotYet` if it is in the spool or half taken in.

        An envelope waits only for older tickets, so that none waits for itself or in a circle.
        """
        file = f"{word.upper()}{SUFFIX}"
        if is_ticket(word.upper()) and file < asking and self._is_coming(file):
            raise _NotYet
        self._save()  # the target may be among the jobs that this look has read
        if self._loop.unsaved:
            raise _NotYet
        number = word.partition("_")[0]
        filling = self._backlog.arrays()
        if number.isascii() and number.isdigit() and int(number) in filling:
            raise _NotYet  # the array lacks elements
        return References(self._loop.scheduler, self._loop.store).target(word)

    def _is_coming(self, file: str) -> bool:
        return file in self._backlog or file in self._arrivals.turns

    # ------------------------------------------------------------- saving

    def _save(self) -> None:
        look = self._look
        events, submissions, done = look.take_held()
        self._admission.forget_read()
        look.has_saved = look.has_saved or bool(events)
        try:
            self._loop.process(events, submissions)
        except Exception as error:
            for arrival in done:
                self._backlog.read_again(arrival.name, arrival.uid)
            if self._loop.broken or isinstance(error, MACHINE):
                raise
            raise StoreError(f"what was read could not be saved: {in_short(error)}") from error
        for arrival in done:
            if self._loop.unsaved:
                self._backlog.read_again(arrival.name, arrival.uid)
                continue
            try:
                self._arrivals.remove(arrival)
                self._backlog.forget(arrival.name)
            except OSError as error:
                self._pause(arrival.name, arrival.uid, error)

    def _drop_held(self) -> None:
        """Let the next look read again what this look could not save."""
        for arrival in self._look.take_held()[2]:
            self._backlog.read_again(arrival.name, arrival.uid)
        self._admission.forget_read()
