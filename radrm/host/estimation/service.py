"""The threads that wait for the estimators, and the answers that are kept.

Theory of operation:

- The daemon's loop calls `join` or `ask` and goes on. A thread of the service posts the answer to
  the loop as an event. The lock protects all that is kept; no call holds it while it waits.
- A submission is asked about once. `join` adds a job to an open question, or posts the answer that
  is already there, so each job gets exactly one answer.
- A trace may take a minute, so traces and estimators have separate queues. Each user has a line of
  traces, and one trace at a time; the users take turns (`lines`). So a user's many jobs delay only
  that user's.
- Questions with the same `mark` trace the same thing. The first is traced; the others wait for it,
  or use what it has shown. A trace, or the reason for none, is kept `KEPT_TIMES` as long as it
  took, so a job that is submitted again and again costs a small part of a core at most. Files that
  the mark does not cover may change: so it is not kept for ever.
- A question whose jobs have all ended (`drop`) is not traced, and its trace ends: a user who
  cancels a job and submits it anew has not to wait for the first one's trace.
- After `close` has returned, no thread posts. The next daemon asks the open questions again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from msgspec import Struct

from radrm.config import Config
from radrm.errors import plain
from radrm.estimators.interface import Description
from radrm.host.estimation.asking import MAX_NOTE, Answer, failed
from radrm.host.estimation.tracing import Leftovers, NotTraced, TraceRequest, Unwanted, trace
from radrm.host.estimation.worker import NoAnswer, Question, Thinker
from radrm.structs import replace

log = logging.getLogger("radrm")

TRACES_AT_ONCE = 2
REMEMBERED = 1000
KEPT_TIMES = 60.0
WAITS_TIMES = 5.0
"""A job waits at most this many times the limit of one trace before its own."""
PREPARED_AFTER_S = 3.0
"""Real seconds until the estimators' process starts without a question: the daemon's own start,
and the jobs that it finds, come first."""


class Wanted(Struct, frozen=True):
    """A job to estimate, and how to trace it; `trace` is None for no trace.

    Jobs with the same `mark` have the same trace; None: no other job has.
    """

    job: Description
    trace: TraceRequest | None = None
    mark: str | None = None


class Estimated(Struct, frozen=True):
    """An answer, and the jobs that it is for. `goes_on`: the first jobs have had it."""

    job_ids: tuple[int, ...]
    answer: Answer
    goes_on: bool = False


class _Asked(Struct, frozen=True):
    """A question that waits for its trace since `at` (monotonic seconds)."""

    key: str
    wanted: Wanted
    at: float


class _Kept(Struct, frozen=True):
    """A trace's text, or the notes on its failure. It is kept until `until` (monotonic seconds)."""

    text: str | None
    notes: tuple[str, ...]
    until: float


class EstimationService:
    """Estimates every submission once; its jobs (the elements of an array) share the answer.

    `post` receives each answer, in a thread of the service or in the caller's.
    """

    def __init__(
        self,
        config: Config,
        post: Callable[[Estimated], None],
        thinker: Thinker | None = None,
        leftovers: Leftovers | None = None,
    ) -> None:
        self._limits = config.estimation
        self._post = post
        self._thinker = thinker or Thinker(config)
        self._leftovers = leftovers
        self._lock = threading.Lock()
        self._open: dict[str, dict[int, None]] = {}
        """The jobs of each question without an answer, in their order."""
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._lines: Lines[_Asked] = Lines(TRACES_AT_ONCE)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._followers: dict[str, list[_Asked]] = {}
        """By the mark of a trace that has not ended: the others that wait for it."""
        self._closed = threading.Event()
        self._thinking = ThreadPoolExecutor(1, "estimate")
        self._tracing = ThreadPoolExecutor(TRACES_AT_ONCE, "trace")
        self._preparing = threading.Timer(PREPARED_AFTER_S, self._prepare)
        self._preparing.daemon = True

    def begin(self) -> None:
        """Start the estimators soon, also without a question; clean up after an earlier daemon."""
        self._preparing.start()
        if self._leftovers is not None:
            self._tracing.submit(self._end_leftovers, self._leftovers)

    def close(self) -> None:
        """End running traces and questions. The next daemon asks again."""
        self._closed.set()
        self._preparing.cancel()
        self._thinker.close()
        for pool in (self._tracing, self._thinking):
            pool.shutdown(wait=True, cancel_futures=True)

    def join(self, key: str, job_id: int) -> bool:
        """Add a job to a question that is already asked. False if there is no such question."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is None:
                if key not in self._open:
                    return False
                self._open[key][job_id] = None
                return True
        self._post(Estimated((job_id,), answer))
        return True

    def ask(self, key: str, job_id: int, wanted: Wanted) -> None:
        """Ask about a job. `key` identifies its submission and the submission's present content."""
        asked = _Asked(key, wanted, time.monotonic())
        with self._lock:
            self._open.setdefault(key, {})[job_id] = None
            kept = self._kept_for(wanted.mark)
            if wanted.trace is not None and kept is None and not self._follows(asked):
                self._lines.add(wanted.job.spec.user, asked)
        if wanted.trace is None or kept is not None:
            self._think_with(asked, kept)
        else:
            self._trace_next()

    def drop(self, job_id: int) -> None:
        """Note that a job has ended."""
        with self._lock:
            for job_ids in self._open.values():
                job_ids.pop(job_id, None)

    def _is_wanted(self, asked: _Asked) -> bool:
        """Return whether a job waits for a trace."""
        followers = self._followers.get(asked.wanted.mark or "", ())
        return any(self._open.get(each.key) for each in (asked, *followers))

    def _kept_for(self, mark: str | None) -> _Kept | None:
        kept = None if mark is None else self._kept.get(mark)
        return kept if kept is not None and kept.until > time.monotonic() else None

    def _follows(self, asked: _Asked) -> bool:
        """Return whether another question waits for the same trace; else it is this one."""
        mark = asked.wanted.mark
        if mark is None:
            return False
        if mark in self._followers:
            self._followers[mark].append(asked)
            return True
        self._followers[mark] = []
        return False

    def _think_with(self, asked: _Asked, kept: _Kept | None) -> None:
        """Ask the estimators, with the trace that is known or without one."""
        job = asked.wanted.job
        notes: tuple[str, ...] = ()
        if kept is not None:
            job, notes = replace(job, trace=kept.text), kept.notes
        with contextlib.suppress(RuntimeError):  # the pool is closed
            self._thinking.submit(self._think, asked, Question(job), notes)

    def _prepare(self) -> None:
        with contextlib.suppress(RuntimeError):  # the pool is closed
            self._thinking.submit(self._thinker.prepare)

    def _end_leftovers(self, leftovers: Leftovers) -> None:
        try:
            found = leftovers.end()
        except Exception:
            log.exception("cannot clean up after the traces of an earlier daemon")
            return
        if found:
            log.info("cleaned up after %d trace(s) of an earlier daemon", found)

    def _trace_next(self) -> None:
        """Start the traces whose turn it is."""
        with self._lock:
            found = self._lines.take()
        for user, asked in found:
            with contextlib.suppress(RuntimeError):  # the pool is closed
                self._tracing.submit(self._trace, user, asked)

    def _trace(self, user: str, asked: _Asked) -> None:
        """Trace a job, then ask the estimators.

        A job that has waited long for its user's other jobs is not traced.
        """
        request, events = asked.wanted.trace, None
        assert request is not None
        notes: tuple[str, ...] = ()
        begun = time.monotonic()
        most_s = WAITS_TIMES * self._limits.trace_limit_s
        try:
            if begun - asked.at > most_s:
                raise NotTraced(
                    f"skipped, because it waited {begun - asked.at:.0f} s for other traces and "
                    f"the limit is {most_s:g} s"
                )
            events = trace(
                request, self._limits, lambda: self._is_over(asked), leftovers=self._leftovers
            )
        except Unwanted:
            self._give_up(user, asked)
            return
        except NotTraced as error:
            notes = (failed(request.source, str(error)),)
        except Exception as error:  # without an answer the job would wait for ever
            log.exception("a trace failed")
            notes = (failed(request.source, f"{type(error).__name__}: {error}"),)
        with self._lock:
            self._lines.free(user)
        if self._closed.is_set():
            return
        self._trace_next()
        question = Question(asked.wanted.job, events, request.source)
        took_s = time.monotonic() - begun
        with contextlib.suppress(RuntimeError):
            self._thinking.submit(self._think, asked, question, notes, took_s)

    def _is_over(self, asked: _Asked) -> bool:
        with self._lock:
            return self._closed.is_set() or not self._is_wanted(asked)

    def _give_up(self, user: str, asked: _Asked) -> None:
        """Forget the questions of a trace for which no job waited, unless one does now."""
        with self._lock:
            self._lines.free(user)
            if self._is_wanted(asked):
                self._lines.add(user, asked)
            else:
                for each in (asked, *self._followers.pop(asked.wanted.mark or "", ())):
                    self._open.pop(each.key, None)
        if not self._closed.is_set():
            self._trace_next()

    def _think(
        self, asked: _Asked, question: Question, notes: tuple[str, ...], took_s: float | None = None
    ) -> None:
        """Ask the estimators, and post the answer. `took_s`: the seconds of the trace for this."""
        try:
            answer = self._thinker.ask(question)
        except NoAnswer as error:
            answer = Answer((), (str(error),))
        except Exception as error:
            log.exception("the estimators cannot be asked")
            answer = Answer((), (plain(f"the estimators: {error}")[:MAX_NOTE],))
        if self._closed.is_set():
            return
        if took_s is not None:
            self._keep(asked.wanted.mark, answer.trace, notes or answer.notes, took_s)
        answer = Answer(answer.estimates, notes + answer.notes)
        with self._lock:
            job_ids = self._open.pop(asked.key, {})
            self._answers[asked.key] = answer
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        if job_ids:
            self._post(Estimated(tuple(job_ids), answer))

    def _keep(
        self, mark: str | None, text: str | None, notes: tuple[str, ...], took_s: float
    ) -> None:
        """Keep what a trace has shown, and answer those that have waited for it."""
        if mark is None:
            return
        kept = _Kept(text, () if text else notes, time.monotonic() + KEPT_TIMES * took_s)
        with self._lock:
            self._kept[mark] = kept
            while len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
            followers = self._followers.pop(mark, [])
        for each in followers:
            self._think_with(each, kept)


# ------------------------------------------------------------------
# Whose trace is next: each user has a line, and the users take turns. Nothing here has a lock.


T = TypeVar("T")


class Lines(Generic[T]):
    """What waits, by user. At most `at_once` are taken at the same time, and one of each user."""

    def __init__(self, at_once: int) -> None:
        self._room = at_once
        self._waiting: dict[str, deque[T]] = {}
        """The users that have something, the next one first."""
        self._busy: set[str] = set()

    def add(self, user: str, what: T) -> None:
        self._waiting.setdefault(user, deque()).append(what)

    def take(self) -> list[tuple[str, T]]:
        """Take what may begin now, until `free` is called for each user."""
        found: list[tuple[str, T]] = []
        for user in [each for each in self._waiting if each not in self._busy][: self._room]:
            line = self._waiting.pop(user)
            found.append((user, line.popleft()))
            if line:
                self._waiting[user] = line  # behind the other users
            self._busy.add(user)
            self._room -= 1
        return found

    def free(self, user: str) -> None:
        """Note that what was taken for a user has ended."""
        self._busy.discard(user)
        self._room += 1
