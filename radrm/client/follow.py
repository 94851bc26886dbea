"""Follow jobs: their changes of state, and their logs through every attempt.

Nothing here reads the terminal or draws: callers pass in where bytes and remarks go, and how to
pause. The daemon is asked at most twice a second. A log is read more often, because that does
not load the daemon.
"""

from __future__ import annotations

import os
import select
import sys
import time

from radrm.client.connection import every_job
from radrm.client.tail import Tail, owner_of, written_s
from radrm.client.text import FINAL, LIVE, WAITING, label
from radrm.errors import Refused, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Any

    from radrm.client.connection import Ask, Client
    from radrm.client.tail import Begins, Write
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


class AttemptLogs:
    """The logs of one attempt, copied as they grow; `place`: the answer to the question `logs`.

    `outputs`: where each log goes, by `stdout` and `stderr`. If both are one file, it goes to the
    first of them. Of two files, the order is that of the looks; what is there before the first
    look comes file by file, and last the one that was written last. `patient`: a log that cannot
    be read is left out, /dev/null without a word, and does not end the work; else `Refused` is
    raised.
    """

    def __init__(
        self,
        place: Document,
        outputs: Mapping[str, Write],
        say: Say,
        patient: bool = False,
        begins: Begins | None = None,
    ) -> None:
        writes: dict[str, Write] = {}
        for which, write in outputs.items():
            writes.setdefault(place[which], write)
        if patient or len(writes) > 1:
            writes.pop(os.devnull, None)
        self._say, self._patient = say, patient
        self._opened = [
            (Tail(path, owner_of(place), say, begins), writes[path])
            for path in sorted(writes, key=written_s)
        ]
        self._tails = list(self._opened)

    def skip_to_last(self, lines: int) -> None:
        """Begin with the last `lines` lines of each present file."""
        for tail, _ in list(self._tails):
            try:
                tail.skip_to_last(lines)
            except Refused as error:
                self._leave_out(tail, error)

    def copy_new(self) -> None:
        for _ in self.copying():
            pass

    def copying(self) -> Iterator[None]:
        """Copy what is new; yield after each piece."""
        for tail, write in list(self._tails):
            try:
                for piece in tail.pieces():
                    write(piece)
                    yield
            except Refused as error:
                self._leave_out(tail, error)

    @property
    def missing(self) -> list[str]:
        """The paths at which the last look has found no file."""
        return [tail.path for tail, _ in self._tails if not tail.found]

    @property
    def found(self) -> bool:
        """True if the last look has found a file."""
        return any(tail.found for tail, _ in self._tails)

    def close(self) -> None:
        for tail, _ in self._opened:
            tail.close()

    def _leave_out(self, tail: Tail, error: Refused) -> None:
        """Read a log no more that cannot be read. Raises its error unless `patient`."""
        if not self._patient:
            raise error
        self._say(str(error))
        self._tails = [each for each in self._tails if each[0] is not tail]


class LogFollower:
    """Copies a job's logs as they grow: waits for the start and follows all attempts to the end.

    `outputs` and `patient`: of `AttemptLogs`. `begins`: of `Tail`.
    """

    def __init__(
        self,
        ask: Ask,
        reference: str,
        outputs: Mapping[str, Write],
        say: Say,
        pause: Pause = pause,
        patient: bool = False,
        begins: Begins | None = None,
    ) -> None:
        self._ask, self._outputs, self._say, self._pause = ask, outputs, say, pause
        self._reference, self._patient, self._begins = reference, patient, begins

    def follow(self, attempt: int | None, lines: int | None) -> Document:
        """Follow to the end of the job, or of `attempt`. Returns the job's last document. Raises as
        `steps`."""
        steps = self.steps(attempt, lines)
        while True:
            try:
                if seconds := next(steps):
                    self._pause(seconds)
            except StopIteration as end:
                job: Document = end.value
                return job

    def steps(self, attempt: int | None, lines: int | None) -> Generator[float, None, Document]:
        """The same in steps: yield how long to pause; 0 after a piece of a log.

        `lines` limits how much of the existing log is shown. Raises `Refused` if the job ends
        without the attempt.
        """
        job = self._job()
        number = attempt or max(1, job["attempts"])
        job = yield from self._started(number)
        if number > 1 and attempt is None:
            self._say(f"attempt {number}; the first one: radrm logs {label(job)} --attempt 1")
        while True:
            yield from self._follow_attempt(number, lines)
            if attempt is not None:
                return self._job()
            job = yield from self._next(number)
            if job["attempts"] <= number:
                return job
            number, lines = number + 1, None
            self._say(f"attempt {number}:")

    def _job(self) -> Document:
        (job,) = self._ask("status", jobs=[self._reference])
        document: Document = job
        return document

    def _started(self, number: int) -> Generator[float, None, Document]:
        """Wait for this attempt. Returns the job."""
        told_user = False
        while (job := self._job())["attempts"] < number:
            if job["state"] in FINAL:
                what = "it started" if number == 1 else f"it had an attempt {number}"
                raise Refused(f"job {label(job)} ended before {what} ({_end(job)})")
            if not told_user:
                self._say(f"job {label(job)} is {_state(job)}; waiting for its start")
                told_user = True
            yield ASK_S
        return job

    def _next(self, number: int) -> Generator[float, None, Document]:
        """Wait for an attempt after `number`, or the job's end. Returns the job."""
        told_user = False
        while (job := self._job())["attempts"] <= number and job["state"] not in FINAL:
            if not told_user and job["state"] in WAITING:
                self._say(f"attempt {number} has ended, the job is {_state(job)}")
                told_user = True
            yield ASK_S
        return job

    def _follow_attempt(self, number: int, lines: int | None) -> Iterator[float]:
        asked, place = time.monotonic(), self._place(number)
        logs = AttemptLogs(place, self._outputs, self._say, self._patient, self._begins)
        try:
            if lines is not None:
                logs.skip_to_last(lines)
            while True:
                # Read after the answer: if that said the attempt had ended, the log is complete.
                yield from (0.0 for _ in logs.copying())
                if not place["live"]:
                    if logs.missing and not logs.found:
                        self._say(f"attempt {number} left no log {' or '.join(logs.missing)}")
                    return
                yield LOOK_S
                if time.monotonic() - asked >= ASK_S:
                    asked, place = time.monotonic(), self._place(number)
        finally:
            logs.close()

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
    begins: Begins | None = None,
) -> Document:
    """Copy a job's logs until the job has ended, also if it never starts. Returns its last
    document. A log that cannot be read is left out. `begins`: not what was there before."""
    try:
        follower = LogFollower(ask, reference, outputs, say, pause, True, begins)
        return follower.follow(None, lines)
    except Refused:
        (job,) = ask("status", jobs=[reference])
        if job["state"] not in FINAL:
            raise
        found: Document = job
        return found


class ArrayLogs:
    """The logs of several jobs, as the elements of an array: of each its newest attempt, and those
    that begin later. Each line begins with the job that printed it.

    `outputs`: of a job's `AttemptLogs`. A log that cannot be read is left out.
    """

    def __init__(
        self,
        patient: Patient,
        references: Sequence[str],
        outputs: Callable[[Document], Mapping[str, Write]],
        say: Say,
        pause: Pause = pause,
    ) -> None:
        self._patient, self._references, self._outputs = patient, references, outputs
        self._say, self._pause = say, pause
        self._width = 0
        self._seen: dict[int, int] = {}
        """The newest attempt of each job whose logs were opened."""
        self._open: dict[int, _Prefixed] = {}
        """The logs that may still grow, by job."""

    def show(self, jobs: Sequence[Document], lines: int | None, attempt: int | None) -> int:
        """Copy what is there, job by job; `attempt`: instead of the newest. Returns of how many
        jobs that is."""
        self._width = max(len(label(job)) for job in jobs)
        shown = [job for job in jobs if job["attempts"] >= (attempt or 1)]
        for job in shown:
            with self._begin(job, attempt or job["attempts"], lines) as logs:
                logs.copy_new()
        return len(shown)

    def follow(self, lines: int | None) -> list[Document]:
        """Copy until all jobs have ended. Returns their last documents.

        `lines` limits how much of each existing log is shown.
        """
        try:
            while True:
                began_s, asked = self._patient.answering_s, time.monotonic()
                jobs = every_job(self._patient.ask, jobs=list(self._references))
                self._width = max(len(label(job)) for job in jobs)
                due = (self._patient.answering_s - began_s) / _SHARE_OF_DAEMON
                # Read after the answer: the log of an attempt that had ended by then is complete.
                for job in jobs:
                    self._look(job, lines)
                if all(job["state"] in FINAL for job in jobs):
                    return jobs
                lines = None
                self._pause(LOOK_S)
                while time.monotonic() - asked < max(ASK_S, due):
                    for logs in self._open.values():
                        logs.copy_new()
                    self._pause(LOOK_S)
        finally:
            for logs in self._open.values():
                logs.close()

    def _look(self, job: Document, lines: int | None) -> None:
        """Copy what is new of a job's newest attempt, and all of those that have ended since."""
        newest: int = job["attempts"]
        seen = self._seen.setdefault(job["id"], max(0, newest - 1))
        for number in range(seen + 1, newest + 1):
            self._end(job)
            self._seen[job["id"]] = number
            self._open[job["id"]] = self._begin(job, number, lines)
        if job["state"] not in LIVE:
            self._end(job)
        elif job["id"] in self._open:
            self._open[job["id"]].copy_new()

    def _end(self, job: Document) -> None:
        """Copy what an attempt that has ended has left, if its logs are open."""
        logs = self._open.pop(job["id"], None)
        if logs is not None:
            logs.copy_new()
            logs.close()

    def _begin(self, job: Document, attempt: int, lines: int | None) -> _Prefixed:
        place = self._patient.ask("logs", jobs=[label(job)], attempt=attempt)
        logs = _Prefixed(label(job).rjust(self._width), place, self._outputs(job), self._say)
        if lines is not None:
            logs.skip_to_last(lines)
        return logs


_LONGEST = 64 * 1024
"""Bytes of an unfinished line that wait for its end."""


class _Prefixed(AttemptLogs):
    """The logs of one attempt, each line with a prefix. A line is written once it is whole, so
    that lines of several jobs do not mix. Of one that is overwritten (progress bars), the last text
    counts."""

    def __init__(
        self, prefix: str, place: Document, outputs: Mapping[str, Write], say: Say
    ) -> None:
        self._prefix = f"{prefix} | ".encode("utf-8", "replace")
        self._rests: list[tuple[bytearray, Write]] = []
        super().__init__(place, {w: self._whole(out) for w, out in outputs.items()}, say, True)

    def __enter__(self) -> _Prefixed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _whole(self, write: Write) -> Write:
        """A `write` of pieces that writes whole lines."""
        rest = bytearray()
        self._rests.append((rest, write))

        def lines_of(data: bytes) -> None:
            *lines, last = bytes(rest + data).split(b"\n")
            last = last.rstrip(b"\r").rpartition(b"\r")[2] + b"\r" * last.endswith(b"\r")
            if len(last) > _LONGEST:
                lines, last = [*lines, last], b""
            rest[:] = last
            if lines:
                write(b"".join(map(self._line, lines)))

        return lines_of

    def _line(self, line: bytes) -> bytes:
        return self._prefix + line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n"

    def close(self) -> None:
        """Write the unfinished lines, too."""
        for rest, write in self._rests:
            if rest:
                write(self._line(bytes(rest)))
            rest.clear()
        super().close()


def _state(job: Document) -> str:
    """As `PENDING: GPU memory: needs 38G`, without the point of a sentence."""
    return _end(job).rstrip(".")


def _end(job: Document) -> str:
    reason = job["reason"] or ""
    return f"{job['state']}: {reason}" if reason else str(job["state"])


def end_line(job: Document) -> str:
    """How a job ended, in one line."""
    end, code = _end(job), f"exit code {job['exit_code']}"
    known = job["exit_code"] is None or code in end
    return f"job {label(job)} {end}" + ("" if known else f", {code}")
