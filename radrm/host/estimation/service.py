"""The threads that wait for the estimators, and the answers that are kept.

Theory of operation:

- The daemon's loop calls `join` or `ask` and goes on. A thread of the service posts the answer to
  the loop as an event. The lock protects `_open` and `_answers`; no call holds it while it waits.
- A submission is asked about once. `join` adds a job to an open question, or posts the answer that
  is already there, so each job gets exactly one answer.
- A trace may take a minute, so traces and estimators have separate queues. Each user has a line of
  traces, and at most one of them runs. For each user whose line waits and who has no trace, a call
  of `_trace_next` is queued; a call takes the user whose last turn is longest ago.
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

from msgspec import Struct

from radrm.config import Config
from radrm.errors import plain
from radrm.estimators.interface import Description
from radrm.host.estimation.asking import MAX_NOTE, Answer
from radrm.host.estimation.tracing import Leftovers, NotTraced, TraceRequest, trace
from radrm.host.estimation.worker import NoAnswer, Question, Thinker

log = logging.getLogger("radrm")

TRACES_AT_ONCE = 2
REMEMBERED = 1000
PREPARED_AFTER_S = 3.0
"""Real seconds until the estimators' process starts without a question: the daemon's own start,
and the jobs that it finds, come first."""


class Wanted(Struct, frozen=True):
    """A job to estimate, and how to trace its training step; `trace` is None for no trace."""

    job: Description
    trace: TraceRequest | None = None


class Estimated(Struct, frozen=True):
    """An answer, and the jobs that it is for. `goes_on`: the first jobs have had it."""

    job_ids: tuple[int, ...]
    answer: Answer
    goes_on: bool = False


class _Waiting(Struct, frozen=True):
    """A job that waits for its trace since a moment of `time.monotonic()`."""

    key: str
    job: Description
    request: TraceRequest
    since: float


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
        self._open: dict[str, list[int]] = {}
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._lines: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        self._traced: set[str] = set()
        """The users who have a trace now."""
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
                self._open[key].append(job_id)
                return True
        self._post(Estimated((job_id,), answer))
        return True

    def ask(self, key: str, job_id: int, wanted: Wanted) -> None:
        """Ask about a job. `key` identifies its submission and the submission's present content."""
        with self._lock:
            self._open.setdefault(key, []).append(job_id)
        if wanted.trace is not None:
            waiting = _Waiting(key, wanted.job, wanted.trace, time.monotonic())
            with self._lock:
                self._lines.setdefault(wanted.job.spec.user, deque()).append(waiting)
            self._tracing.submit(self._trace_next)
        else:
            self._thinking.submit(self._think, key, wanted.job, None, ())

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
        """Trace the first job of the line of a user who has no trace, if there is one."""
        with self._lock:
            user = next((each for each in self._lines if each not in self._traced), None)
            if user is None:
                return
            line = self._lines.pop(user)
            waiting = line.popleft()
            if line:
                self._lines[user] = line  # behind all others
            self._traced.add(user)
        try:
            self._trace(waiting)
        finally:
            with self._lock:
                self._traced.discard(user)
                more = user in self._lines
            if more:
                with contextlib.suppress(RuntimeError):  # the pool is closed
                    self._tracing.submit(self._trace_next)

    def _trace(self, waiting: _Waiting) -> None:
        """Trace a job, then ask the estimators.

        A job that has waited as long as a trace may take is not traced: any user can fill a line,
        and users together the queue.
        """
        events: bytes | None = None
        notes: tuple[str, ...] = ()
        waited_s = time.monotonic() - waiting.since
        try:
            if waited_s > self._limits.trace_limit_s:
                raise NotTraced(
                    f"skipped, because it waited {waited_s:.0f} s for other traces and the limit "
                    f"is {self._limits.trace_limit_s:g} s (estimation.trace_limit_s)"
                )
            events = trace(
                waiting.request, self._limits, self._closed.is_set, leftovers=self._leftovers
            )
        except NotTraced as error:
            notes = (plain(f"trace: {error}")[:MAX_NOTE],)
        except Exception as error:  # without an answer the job would wait for ever
            log.exception("a trace failed")
            notes = (plain(f"trace: {type(error).__name__}: {error}")[:MAX_NOTE],)
        if not self._closed.is_set():
            self._thinking.submit(self._think, waiting.key, waiting.job, events, notes)

    def _think(
        self, key: str, job: Description, events: bytes | None, notes: tuple[str, ...]
    ) -> None:
        try:
            answer = self._thinker.ask(Question(job, events))
        except NoAnswer as error:
            answer = Answer((), (str(error),))
        except Exception as error:
            log.exception("the estimators cannot be asked")
            answer = Answer((), (plain(f"the estimators: {error}")[:MAX_NOTE],))
        if self._closed.is_set():
            return
        answer = Answer(answer.estimates, notes + answer.notes)
        with self._lock:
            job_ids = self._open.pop(key, [])
            self._answers[key] = answer
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        self._post(Estimated(tuple(job_ids), answer))
