"""One look into the spool: from envelopes to jobs, saved before the envelopes are removed."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from radrm.core import events as ev
from radrm.core.scheduler import Scheduler
from radrm.daemon.envelopes import group_of
from radrm.daemon.intake import Knows, take_in
from radrm.daemon.references import References, Target
from radrm.errors import StoreError
from radrm.host.clock import Clock
from radrm.host.spool import Arrival, Envelope, Spool
from radrm.host.store import Store, Submission
from radrm.host.trouble import may_pass

log = logging.getLogger("radrm")

ELEMENTS_AT_ONCE = 1000
"""Elements of a long array that are taken in before others have their turn again."""


class Taker(Protocol):
    """What the look needs of the loop that it is taken in."""

    clock: Clock
    scheduler: Scheduler
    store: Store
    broken: bool

    @property
    def unsaved(self) -> bool: ...

    def process(
        self, events: Iterable[ev.Event], submissions: Iterable[Submission] = ()
    ) -> None: ...


class Scan:
    """One look into the spool. The envelopes rule until what was made of them is saved."""

    def __init__(self, loop: Taker, spool: Spool, refused: str, estimation: Knows) -> None:
        self._loop = loop
        self._spool = spool
        self._refused = refused
        self._estimation = estimation
        self._next_id = loop.store.next_job_id()
        self._events: list[ev.JobSubmitted] = []
        self._submissions: list[Submission] = []
        self._done: list[str] = []
        self._room = ELEMENTS_AT_ONCE
        self._unfinished_array = False

    def run(self) -> bool:
        """Never raises for what lies there: anybody may put anything into the spool. True
        when there is more to take in."""
        try:
            for arrival in self._spool.arrivals():
                self._look_at(arrival)
        except OSError as error:
            if not may_pass(error):
                raise
            log.error("the spool cannot be read now: %s", error)
        self._save()
        return self._unfinished_array

    def _look_at(self, arrival: Arrival) -> None:
        wrong = arrival.wrong
        if arrival.envelope is not None:
            try:
                self._take(arrival, arrival.envelope)
            except _NotYet:
                return
            except (sqlite3.Error, StoreError, OSError, MemoryError) as error:
                if self._loop.broken:
                    raise
                log.error("the spool's file %r has to wait: %s", arrival.name, error)
                return
            except Exception as error:  # whatever it is, it must not end the daemon
                if self._loop.broken:
                    raise
                log.exception("the spool's file %r cannot be taken in", arrival.name)
                wrong = f"it cannot be taken in: {error}"
        if wrong is None:
            return
        log.error("the spool's file %r is refused: %s", arrival.name, wrong)
        try:
            self._spool.set_aside(arrival.name, self._refused)
        except OSError as error:
            log.error("the spool's file %r cannot be set aside: %s", arrival.name, error)

    def _take(self, arrival: Arrival, envelope: Envelope) -> None:
        """Make jobs of an envelope, of a long array the next few."""
        taken = self._loop.store.taken(envelope.ticket)
        if taken is not None:
            # What was stored under this ticket rules, whatever lies there now.
            stored = self._loop.store.submitted(envelope.ticket)
            if taken.uid != arrival.uid:
                self._done.append(arrival.name)
                return
            envelope = stored.envelope
        batch = take_in(arrival, envelope, self._estimation, self._find)
        made = taken.jobs if taken else 0
        first_id = taken.first_id if taken else self._next_id
        room = 1 - min(made, 1)
        if batch.array is not None:
            room = max(0, min(self._room, batch.size - made))
            self._room -= room
        events = batch.events(made, first_id, self._next_id, self._loop.clock.now())
        if taken is None and room:
            gid = group_of(arrival.uid, arrival.gid)
            self._submissions.append(Submission(arrival.uid, gid, envelope))
        self._events += islice(events, room)
        self._next_id += room
        if made + room >= batch.size:
            self._done.append(arrival.name)
        else:
            self._unfinished_array = True

    def _find(self, word: str) -> Target:
        """What a dependency is on. It may stand before it in this very look."""
        if self._unfinished_array:
            raise _NotYet  # some of them may not be there yet
        self._save()
        if self._loop.unsaved:
            raise _NotYet
        return References(self._loop.scheduler, self._loop.store).target(word)

    def _save(self) -> None:
        events, self._events = self._events, []
        submissions, self._submissions = self._submissions, []
        self._loop.process(events, submissions)
        if not self._loop.unsaved:
            for name in self._done:
                self._spool.remove(name)
        self._done = []


class _NotYet(Exception):
    """This envelope stays in the spool until the next look."""
