"""The threads that wait for the estimators, and what is remembered of their answers.

The daemon's loop asks and goes on; the answer is posted to it. A trace may take a
minute, so that traces and thoughts wait in lines of their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from radrm.config import Config
from radrm.core.rules import Description
from radrm.errors import plain
from radrm.host.estimation.asking import MAX_NOTE, Answer
from radrm.host.estimation.leftovers import Leftovers
from radrm.host.estimation.thinker import NoAnswer, Thinker
from radrm.host.estimation.tracing import NotTraced, TraceRequest, trace
from radrm.host.estimation.worker import Question

log = logging.getLogger("radrm")

TRACES_AT_ONCE = 2
REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to be estimated, and how to trace its training step, if that is to be tried."""

    job: Description
    trace: TraceRequest | None = None


@dataclass(frozen=True, slots=True)
class Estimated:
    """What was found out, and for which jobs."""

    job_ids: tuple[int, ...]
    answer: Answer


class EstimationService:
    """Every submission is estimated once: its jobs (elements of an array) share the answer.

    `post` takes each answer, in a thread of the service, or in the asker's own.
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
        self._closed = threading.Event()
        self._thinking = ThreadPoolExecutor(1, "estimate")
        self._tracing = ThreadPoolExecutor(TRACES_AT_ONCE, "trace")

    def begin(self) -> None:
        """Have the estimators ready before the first question, and end what traces of an earlier
        daemon have left."""
        self._thinking.submit(self._thinker.prepare)
        if self._leftovers is not None:
            self._tracing.submit(self._end_leftovers, self._leftovers)

    def close(self) -> None:
        """End what is under way: the next daemon asks anew."""
        self._closed.set()
        self._thinker.close()
        for pool in (self._tracing, self._thinking):
            pool.shutdown(wait=True, cancel_futures=True)

    def join(self, key: str, job_id: int) -> bool:
        """Let a job have the answer to a question that is asked already. False where none is."""
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
        """Ask about a job. `key` names its submission, as it is now."""
        with self._lock:
            self._open.setdefault(key, []).append(job_id)
        if wanted.trace is not None:
            asked = time.monotonic()
            self._tracing.submit(self._trace, key, wanted.job, wanted.trace, asked)
        else:
            self._thinking.submit(self._think, key, wanted.job, None, ())

    def _end_leftovers(self, leftovers: Leftovers) -> None:
        try:
            found = leftovers.end()
        except Exception:
            log.exception("what earlier traces have left could not be ended")
            return
        if found:
            log.info("ended what %d trace(s) of an earlier daemon may have left", found)

    def _trace(self, key: str, job: Description, request: TraceRequest, asked: float) -> None:
        """`asked`: since when it has been waiting. The line is cut short where it would make
        jobs wait longer than a trace may take: anybody can fill it."""
        events: bytes | None = None
        notes: tuple[str, ...] = ()
        waited_s = time.monotonic() - asked
        try:
            if waited_s > self._limits.trace_limit_s:
                raise NotTraced(f"{waited_s:.0f} s went by before it could begin; others traced")
            events = trace(request, self._limits, self._closed.is_set, leftovers=self._leftovers)
        except NotTraced as error:
            notes = (plain(f"trace: {error}")[:MAX_NOTE],)
        except Exception as error:  # whatever it is, the job must not wait for ever
            log.exception("a trace failed")
            notes = (plain(f"trace: {type(error).__name__}: {error}")[:MAX_NOTE],)
        if not self._closed.is_set():
            self._thinking.submit(self._think, key, job, events, notes)

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
