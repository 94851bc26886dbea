"""Carry a command out for each job that a request selects, a few jobs at a time.

Theory of operation. Each piece of a command is one transaction: its events are stepped through,
saved and acted on together. Between two pieces the loop handles events and other users'
requests, so a job may change or end before its turn. The command looks each job up again and
decides by its state at that time. So a command about many jobs is not all or nothing. It stops
between two pieces when its client disconnects or it takes too long. `request.done` counts the
jobs that it was carried out for. A restart sees the finished pieces only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from radrm.core.events import Event
from radrm.core.records import Job
from radrm.daemon.answers.selection import Selection
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import MOST_EVENTS, Pace, Work
from radrm.daemon.views.references import References
from radrm.documents.jobs import Result
from radrm.errors import RadrmError, Refused


class JobResult(Result):
    """The answer about one job, with what only radrm's own clients read."""

    folder: str | None = None
    """Of an edited job of the client's own, for the request's `folders`: where it will run and
    write its logs. The client looks whether it is there, with its own rights."""

    @classmethod
    def of(cls, job: Job, error: RadrmError | None = None) -> JobResult:
        """The job before the command. `error`: why the command was refused."""
        why, state = None if error is None else str(error), job.state.value
        return cls(id=job.id, label=job.label, name=job.spec.name, state=state, error=why)

    @classmethod
    def of_word(cls, word: str, error: str) -> JobResult:
        """Why the command was refused for a word."""
        return cls(id=word, label=word, name=None, state=None, error=error)


MakeEvent: TypeAlias = "Callable[[Job], Event | None]"
"""The event that carries the command out for a job; None where nothing is left to do. Raises
`Refused`."""
CarryOut: TypeAlias = "Callable[[list[JobResult], list[Event]], None]"


def for_each_job(
    loop: Loop,
    request: Request,
    selection: Selection,
    make_event: MakeEvent,
    carry_out: CarryOut | None = None,
) -> Work[list[JobResult]]:
    """Give the command for each selected job. Returns what the answer says.

    A job that several words mean has one result. The result of a word is a refusal only if the
    command was carried out for none of its jobs.
    """
    look_up = References(loop.scheduler, loop.store)
    results: list[JobResult] = []
    commanded: set[int] = set()
    """A request may name a job twice, by id and by name."""
    events: list[Event] = []
    done: list[JobResult] = []
    pace = Pace()
    request.total = sum(len(each.ids) for each in selection.found)

    def finish_piece() -> None:
        carry_out(done, events) if carry_out is not None else loop.process(events)
        request.done += sum(1 for result in done if result.error is None)
        results.extend(done)
        done.clear()
        events.clear()

    for found in selection.found:
        refusals = _Refusals(found.word, selection.named and selection.keep is not None)
        if found.error is not None:
            refusals.add(None, found.error)
        for job_id in found.ids:
            if job_id in commanded:
                refusals.any_done = True
                continue
            job = look_up.current(job_id)
            try:
                if job is None:
                    raise Refused(f"there is no job {job_id}")
                refusal = selection.refusal(job)
                if refusal is not None:
                    raise refusal
                if selection.keep is not None and not selection.keep(job):
                    continue
                event = make_event(job)
                events += [event] if event is not None else []
                commanded.add(job_id)
                refusals.any_done = True
                done.append(JobResult.of(job))
            except RadrmError as error:
                refusals.add(job, error)
            if len(events) >= MOST_EVENTS or pace.spent:
                finish_piece()
                yield from pace.rest()
        if not refusals.any_done and (result := refusals.result()) is not None:
            done.append(result)
    finish_piece()
    return results


class _Refusals:
    """Why the command was not carried out for the jobs of one word."""

    def __init__(self, word: str, filtered: bool) -> None:
        self.any_done = False
        self._word = word
        self._filtered = filtered
        self._first: JobResult | None = None
        """Of a job that has not ended, if there is one: the other jobs are hardly meant."""
        self._count = self._ended = 0

    def add(self, job: Job | None, error: RadrmError) -> None:
        ended = job is not None and job.state.final
        if self._first is None or (self._ended == self._count and not ended):
            if job is None:
                self._first = JobResult.of_word(self._word, str(error))
            else:
                self._first = JobResult.of(job, error)
        self._count += 1
        self._ended += ended

    def result(self) -> JobResult | None:
        """The first refusal, and how many more there are; None where nothing was refused."""
        if self._first is None and self._filtered:
            error = f"no job of {self._word[:80]!r} is of that user and state"
            return JobResult.of_word(self._word, error)
        if self._first is not None and self._count == self._ended > 1:
            error = f"all {self._count} jobs of {self._word[:80]!r} have ended"
            return JobResult.of_word(self._word, error)
        if self._first is not None and self._count > 1:
            others = f" (and {self._count - 1} more of {self._word[:80]} likewise)"
            return replace(self._first, error=f"{self._first.error}{others}")
        return self._first
