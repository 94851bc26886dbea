"""Follow jobs: their changes of state, and their logs through every attempt.

Nothing here reads the terminal or draws: callers pass in where bytes and remarks go, and how to
pause. The daemon is asked at most twice a second. A log is read more often, because that does
not load the daemon.
"""

from __future__ import annotations

import select
import sys
import time

from radrm.client.connection import every_job
from radrm.client.states import FINAL, WAITING
from radrm.client.tail import Tail, owner_of
from radrm.client.text import label
from radrm.errors import Refused, Unreachable, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from radrm.client.connection import Ask, Client
    from radrm.client.tail import Write
    from radrm.client.text import Document

    Say = Callable[[str], object]
    Pause = Callable[[float], object]

ASK_S = 0.5
LOOK_S = 0.1
_SHARE_OF_DAEMON = 0.1
"""Most of the time that questions may take: the longer an answer takes, the longer the pause."""
_BATCH = 500


def pause(seconds: float) -> None:
    """Sleep. Raises `BrokenPipeError` if the reader of standard output closes its end."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    if poll.poll(seconds * 1000):
        raise BrokenPipeError


class Patient:
    """Asks a daemon, and waits for one that restarts.

    Only one that has answered is waited for: otherwise `Unreachable` is raised at once.
    `answering_s` is the time that the daemon has taken to answer; outages do not count.
    """

    def __init__(self, client: Client, say: Say, pause: Pause = pause) -> None:
        self._client, self._say, self._pause = client, say, pause
        self._answered = False
        self.answering_s = 0.0

    def ask(self, op: str, **words: Any) -> Any:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                answer = self._client.ask(op, **words)
            except Unreachable:
                if not self._answered:
                    raise
                failures += 1
                if failures == 2:  # the first may be an idle connection that the daemon closed
                    self._say("the daemon does not answer; jobs run on, waiting for it")
                if failures >= 2:
                    self._pause(ASK_S)
                continue
            if failures >= 2:
                self._say("the daemon is back")
            self._answered = True
            self.answering_s += time.monotonic() - began
            return answer


# ------------------------------------------------------------------ states


def changes(patient: Patient, words: Document, pause: Pause = pause) -> Iterator[list[Document]]:
    """Yield all jobs first, then those with a new state or attempt, until all have ended.

    `words` are those of the question `status`. A job that leaves the selection (for example,
    because it has ended) is yielded once more, in its new state.
    """
    seen: dict[int, Document] = {}
    while True:
        began_s = patient.answering_s
        found: list[Document] = every_job(patient.ask, **words)
        here = {job["id"] for job in found}
        found += _left(patient.ask, [job for job in seen.values() if job["id"] not in here])
        changed = [j for j in found if j["id"] not in seen or _mark(seen[j["id"]]) != _mark(j)]
        seen |= {job["id"]: job for job in found}
        if changed:
            yield changed
        for gone in [i for i, job in seen.items() if job["state"] in FINAL and i not in here]:
            del seen[gone]
        if all(job["state"] in FINAL for job in seen.values()):
            return
        pause(max(ASK_S, (patient.answering_s - began_s) / _SHARE_OF_DAEMON))


def _mark(job: Document) -> tuple[Any, ...]:
    return job["state"], job["attempts"]


def _left(ask: Ask, jobs: list[Document]) -> list[Document]:
    """The current documents of jobs that have left the selection."""
    found: list[Document] = []
    for i in range(0, len(jobs), _BATCH):
        found += every_job(ask, jobs=[label(job) for job in jobs[i : i + _BATCH]])
    return found


# ------------------------------------------------------------------ logs


class LogFollower:
    """Copies a job's logs as they grow: waits for the start and follows all attempts to the end.

    `outputs`: where each log goes, by `stdout` and `stderr`. If both are one file, it goes to the
    first of them. `patient`: a log that cannot be read is left out, and does not end the work.
    """

    def __init__(
        self,
        ask: Ask,
        reference: str,
        outputs: Mapping[str, Write],
        say: Say,
        pause: Pause = pause,
        patient: bool = False,
    ) -> None:
        self._ask, self._outputs, self._say, self._pause = ask, outputs, say, pause
        self._reference, self._patient = reference, patient

    def follow(self, attempt: int | None, lines: int | None) -> Document:
        """Follow to the end of the job, or of `attempt`. Returns the job's last document.

        `lines` limits how much of the existing log is shown. Raises `Refused` if the job ends
        without the attempt.
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
        """Wait for this attempt. Returns the job."""
        told_user = False
        while (job := self._job())["attempts"] < number:
            if job["state"] in FINAL:
                what = "it started" if number == 1 else f"it had an attempt {number}"
                raise Refused(f"job {label(job)} ended before {what} ({_end(job)})")
            if not told_user:
                reason = plain(job["reason"] or "").rstrip(".")
                why = f": {reason}" if reason else ""
                self._say(f"job {label(job)} is {job['state']}{why}; waiting for its start")
                told_user = True
            self._pause(ASK_S)
        return job

    def _next(self, number: int) -> Document:
        """Wait for an attempt after `number`, or the job's end. Returns the job."""
        told_user = False
        while (job := self._job())["attempts"] <= number and job["state"] not in FINAL:
            if not told_user and job["state"] in WAITING:
                reason = plain(job["reason"] or "").rstrip(".")
                why = f": {reason}" if reason else ""
                self._say(f"attempt {number} has ended, the job is {job['state']}{why}")
                told_user = True
            self._pause(ASK_S)
        return job

    def _follow_attempt(self, number: int, lines: int | None) -> None:
        asked, place = time.monotonic(), self._place(number)
        writes: dict[str, Write] = {}
        for which, write in self._outputs.items():
            writes.setdefault(place[which], write)
        uid = owner_of(place)
        tails = opened = [(Tail(path, uid, self._say), write) for path, write in writes.items()]
        try:
            if lines is not None:
                tails = [each for each in tails if self._read(each[0].skip_to_last, lines)]
            while True:
                # Read after the answer: if that said the attempt had ended, the log is complete.
                tails = [each for each in tails if self._read(each[0].copy_new, each[1])]
                if not place["live"]:
                    for tail, _ in tails:
                        if not tail.found:
                            self._say(f"attempt {number} left no log {tail.path}")
                    return
                self._pause(LOOK_S)
                if time.monotonic() - asked >= ASK_S:
                    asked, place = time.monotonic(), self._place(number)
        finally:
            for tail, _ in opened:
                tail.close()

    def _read(self, read: Callable[[Any], object], argument: object) -> bool:
        """Call a reading method of a log; False if it cannot be read. Raises `Refused`."""
        try:
            read(argument)
        except Refused as error:
            if not self._patient:
                raise
            self._say(str(error))
            return False
        return True

    def _place(self, number: int) -> Document:
        answer: Document = self._ask("logs", jobs=[self._reference], attempt=number)
        return answer


def stream(
    ask: Ask,
    reference: str,
    outputs: Mapping[str, Write],
    say: Say,
    lines: int | None = None,
    pause: Pause = pause,
) -> Document:
    """Copy a job's logs until the job has ended, also if it never starts. Returns its last
    document. A log that cannot be read is left out."""
    try:
        return LogFollower(ask, reference, outputs, say, pause, patient=True).follow(None, lines)
    except Refused:
        (job,) = ask("status", jobs=[reference])
        if job["state"] not in FINAL:
            raise
        found: Document = job
        return found


def _end(job: Document) -> str:
    reason = plain(job["reason"] or "")
    return f"{job['state']}: {reason}" if reason else str(job["state"])


def end_line(job: Document) -> str:
    """How a job ended, in one line."""
    end, code = _end(job), f"exit code {job['exit_code']}"
    known = job["exit_code"] is None or code in end
    return f"job {label(job)} {end}" + ("" if known else f", {code}")
