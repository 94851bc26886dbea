"""Following jobs: their changes of state, and their logs through every attempt.

Nothing here reads the terminal or draws: callers pass in where bytes and remarks go,
and how to pause. The daemon is asked at most twice a second; a log is looked at
more often, since that costs nobody else anything.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from radrm.client.connection import Client, every_job
from radrm.client.exits import FINAL
from radrm.client.tail import Tail, Write
from radrm.client.text import Document, label
from radrm.errors import Refused, Unreachable, plain

Ask = Callable[..., Any]
Say = Callable[[str], object]
Pause = Callable[[float], object]

ASK_S = 0.5
LOOK_S = 0.1
_SHARE_OF_DAEMON = 0.1
"""A question that is costly to answer is asked seldom: this much of the time at most."""
_BATCH = 500


def pause(seconds: float) -> None:
    """Sleep; raises BrokenPipeError when whoever reads our output has gone meanwhile."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    if poll.poll(seconds * 1000):
        raise BrokenPipeError


class Patient:
    """Asks as a client does, and waits for a daemon that is being restarted.

    Only one that has answered is waited for: otherwise `Unreachable` is raised at once.
    """

    def __init__(self, client: Client, say: Say, pause: Pause = pause) -> None:
        self._client, self._say, self._pause = client, say, pause
        self._answered = False

    def ask(self, op: str, **words: Any) -> Any:
        failures = 0
        while True:
            try:
                answer = self._client.ask(op, **words)
            except Unreachable:
                if not self._answered:
                    raise
                failures += 1
                if failures == 2:  # the first may be a connection that had been idle too long
                    self._say("the daemon does not answer; jobs run on, waiting for it")
                if failures >= 2:
                    self._pause(ASK_S)
                continue
            if failures >= 2:
                self._say("the daemon is back")
            self._answered = True
            return answer


# ------------------------------------------------------------------ states


def changes(ask: Ask, words: Document, pause: Pause = pause) -> Iterator[list[Document]]:
    """The jobs as they are, then those with a new state or attempt, until all have ended.

    `words` are those of the question `status`. A job that leaves the selection (it has
    ended, say) is told of once more, as it then is.
    """
    seen: dict[int, Document] = {}
    while True:
        began = time.monotonic()
        found: list[Document] = every_job(ask, **words)
        here = {job["id"] for job in found}
        found += _left(ask, [job for job in seen.values() if job["id"] not in here])
        changed = [j for j in found if j["id"] not in seen or _mark(seen[j["id"]]) != _mark(j)]
        seen |= {job["id"]: job for job in found}
        if changed:
            yield changed
        for gone in [i for i, job in seen.items() if job["state"] in FINAL and i not in here]:
            del seen[gone]
        if all(job["state"] in FINAL for job in seen.values()):
            return
        pause(max(ASK_S, (time.monotonic() - began) / _SHARE_OF_DAEMON))


def _mark(job: Document) -> tuple[Any, ...]:
    return job["state"], job["attempts"]


def _left(ask: Ask, jobs: list[Document]) -> list[Document]:
    """What has become of jobs that the selection no longer has."""
    found: list[Document] = []
    for i in range(0, len(jobs), _BATCH):
        found += every_job(ask, jobs=[label(job) for job in jobs[i : i + _BATCH]])
    return found


# ------------------------------------------------------------------ logs


class LogFollower:
    """A job's log, live: waits for the start, goes on through later attempts to the end."""

    def __init__(
        self, ask: Ask, reference: str, which: str, write: Write, say: Say, pause: Pause = pause
    ) -> None:
        self._ask, self._write, self._say, self._pause = ask, write, say, pause
        self._reference, self._which = reference, which

    def follow(self, attempt: int | None, lines: int | None) -> Document:
        """To the job's end, or to that of `attempt`; the job's last document.

        `lines` bounds what is shown of what was there before. Raises `Refused` when the
        job ends without the attempt.
        """
        job = self._job()
        number = attempt or max(1, job["attempts"])
        job = self._started(number)
        if number > 1 and attempt is None:
            self._say(f"attempt {number}; the first one: radrm logs {label(job)} --attempt 1")
        while True:
            self._follow_attempt(number, lines)
            if attempt is not None:
                return self._job()
            job = self._next(number)
            if job["attempts"] <= number:
                return job
            number, lines = number + 1, None
            self._say(f"attempt {number}:")

    def _job(self) -> Document:
        (job,) = self._ask("status", jobs=[self._reference])
        document: Document = job
        return document

    def _started(self, number: int) -> Document:
        """The job once it has this attempt."""
        said = False
        while (job := self._job())["attempts"] < number:
            if job["state"] in FINAL:
                what = "it started" if number == 1 else f"it had an attempt {number}"
                raise Refused(f"job {label(job)} ended before {what} ({_end(job)})")
            if not said:
                reason = plain(job["reason"] or "")
                why = f": {reason}" if reason else ""
                self._say(f"job {label(job)} is {job['state']}{why}; waiting for its start")
                said = True
            self._pause(ASK_S)
        return job

    def _next(self, number: int) -> Document:
        """The job once it has another attempt than `number`, or has ended for good."""
        said = False
        while (job := self._job())["attempts"] <= number and job["state"] not in FINAL:
            if not said and job["state"] in ("PENDING", "RECOVERING"):
                reason = plain(job["reason"] or "")
                why = f": {reason}" if reason else ""
                self._say(f"attempt {number} has ended, the job is {job['state']}{why}")
                said = True
            self._pause(ASK_S)
        return job

    def _follow_attempt(self, number: int, lines: int | None) -> None:
        asked, place = time.monotonic(), self._place(number)
        tail = Tail(place[self._which], self._say)
        try:
            if lines is not None:
                tail.skip_to_last(lines)
            while True:
                # Read after the answer: once the attempt has ended, this is all there is.
                found = tail.copy_new(self._write)
                if not place["live"]:
                    if not found:
                        self._say(f"attempt {number} left no log {tail.path}")
                    return
                self._pause(LOOK_S)
                if time.monotonic() - asked >= ASK_S:
                    asked, place = time.monotonic(), self._place(number)
        finally:
            tail.close()

    def _place(self, number: int) -> Document:
        answer: Document = self._ask("logs", jobs=[self._reference], attempt=number)
        return answer


def _end(job: Document) -> str:
    reason = plain(job["reason"] or "")
    return f"{job['state']}: {reason}" if reason else str(job["state"])


def end_line(job: Document) -> str:
    """How a job ended, in one line."""
    end, code = _end(job), f"exit code {job['exit_code']}"
    known = job["exit_code"] is None or code in end
    return f"job {label(job)} {end}" + ("" if known else f", {code}")
