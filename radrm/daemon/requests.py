"""What clients may ask and order. One function per word of the protocol.

Orders about a job are its owner's (and root's, and the daemon's own user's) to
give; who asks is what the kernel says.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from radrm import __version__
from radrm.core import events as ev
from radrm.core.records import Instant, Job, JobSpec, Needs, Role
from radrm.core.words import Collocation, JobState
from radrm.daemon.documents import Document, Documents
from radrm.daemon.intake import read_envelope, user_name
from radrm.daemon.launching import log_paths
from radrm.daemon.loop import Loop
from radrm.daemon.server import Request
from radrm.errors import RadrmError, Refused, UsageError

log = logging.getLogger("radrm")

MAX_REFERENCES = 10_000
MAX_FINISHED = 10_000


class Requests:
    """Answers requests in the loop's own thread."""

    def __init__(self, about: Document) -> None:
        self._about = about

    def answer(self, loop: Loop, request: Request) -> None:
        """Never raises for what a client says: that is refused, in one line."""
        try:
            word = str(request.words.get("op"))
            if word in _ORDERS:
                request.answer(_ORDERS[word](self, loop, request))
            elif word in _QUESTIONS:
                request.answer(self._question(word, loop, request))
            else:
                raise UsageError(f"this daemon does not know the request {word[:40]!r}")
        except RadrmError as error:
            request.refuse(error)

    def _question(self, word: str, loop: Loop, request: Request) -> Any:
        """A question changes nothing: whatever goes wrong in it must not end the daemon."""
        try:
            return _QUESTIONS[word](self, loop, request)
        except RadrmError:
            raise
        except Exception as error:
            log.exception("the request %r failed", word)
            raise Refused(f"the daemon could not answer: {error}; see its log") from error

    # ------------------------------------------------------------- questions

    def _ping(self, loop: Loop, request: Request) -> Document:
        now = loop.clock.now()
        return {
            **self._about,
            "version": __version__,
            "pid": os.getpid(),
            "now": now.wall_s,
            "time_scale": loop.clock.scale,
            "summary": Documents(loop.scheduler, loop.store).summary(now),
        }

    def _status(self, loop: Loop, request: Request) -> list[Document]:
        documents, now = Documents(loop.scheduler, loop.store), loop.clock.now()
        words = request.words
        if words.get("jobs"):
            return [documents.one(self._job(loop, ref), now) for ref in _references(words)]
        found = documents.unfinished(now)
        if words.get("all"):
            done = loop.store.finished(MAX_FINISHED)
            found += [documents.job(job, now, reason=None) for job in done]
            found.sort(key=lambda document: int(document["id"]))
        user, state = words.get("user"), words.get("state")
        if user is not None:
            found = [d for d in found if d["user"] == user]
        if state is not None:
            if not isinstance(state, str) or state.upper() not in JobState.__members__:
                names = ", ".join(JobState.__members__)
                raise UsageError(f"{state!r} is not a state; the states are {names}")
            found = [d for d in found if d["state"] == state.upper()]
        return found

    def _gpus(self, loop: Loop, request: Request) -> list[Document]:
        return Documents(loop.scheduler, loop.store).devices(loop.clock.now())

    def _logs(self, loop: Loop, request: Request) -> Document:
        """Where an attempt's logs are; the client opens them itself, as who it is."""
        references = _references(request.words)
        if len(references) != 1:
            raise UsageError("the request 'logs' takes one job")
        job = self._job(loop, references[0])
        if job.attempts == 0:
            raise Refused(f"job {job.id} has not started yet, so it has no log")
        number = request.words.get("attempt") or job.attempts
        if type(number) is not int or not 1 <= number <= job.attempts:
            raise Refused(f"job {job.id} has attempts 1 to {job.attempts}, not {number!r}")
        intake = loop.store.intake(job.id)
        options = read_envelope(intake.envelope).options
        cwd = os.path.join(intake.envelope.cwd, options.chdir or "")
        stdout, stderr = log_paths(job, number, options, cwd)
        live = job.state.live and number == job.attempts
        return {"stdout": stdout, "stderr": stderr, "live": live, "attempt": number}

    def _check(self, loop: Loop, request: Request) -> list[str | None]:
        """Why each of these needs can never be met here; null where it can."""
        needs = request.words.get("needs")
        if not isinstance(needs, list) or len(needs) > MAX_REFERENCES:
            raise UsageError("the request 'check' takes a list of needs")
        return [loop.scheduler.hopeless(_imagined(n)) for n in needs]

    # ------------------------------------------------------------- orders

    def _intake(self, loop: Loop, request: Request) -> list[Document | None]:
        """Look into the spool now, and say what has become of these tickets."""
        loop.scan()
        documents, now = Documents(loop.scheduler, loop.store), loop.clock.now()
        found: list[Document | None] = []
        for reference in _references(request.words):
            job = loop.store.job(reference)
            found.append(documents.job(job, now, reason=None) if job is not None else None)
        return found

    def _cancel(self, loop: Loop, request: Request) -> list[Document]:
        """Cancel each; the answer says of each what it was and what is wrong, if anything is."""
        results: list[Document] = []
        events: list[ev.Event] = []
        for reference in _references(request.words):
            try:
                job = self._own_job(loop, reference, request)
                if job.state.final:
                    raise Refused(f"job {job.id} has ended already ({job.state.value})")
                by = user_name(request.client.uid)
                events.append(ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by))
                results.append({"id": job.id, "state": job.state.value, "error": None})
            except Refused as error:
                results.append({"id": reference, "state": None, "error": str(error)})
        loop.process(events)
        return results

    # ------------------------------------------------------------- whose

    def _job(self, loop: Loop, reference: str) -> Job:
        if reference.isascii() and reference.isdigit():
            live = loop.scheduler.state.jobs.get(int(reference[:18]))
            if live is not None:
                return live
        job = loop.store.job(reference)
        if job is None:
            raise Refused(f"there is no job {reference}; `radrm status --all` lists them")
        return loop.scheduler.state.jobs.get(job.id, job)

    def _own_job(self, loop: Loop, reference: str, request: Request) -> Job:
        job = self._job(loop, reference)
        if request.client.uid not in (0, os.getuid(), job.spec.uid):
            raise Refused(f"job {job.id} is {job.spec.user}'s, not yours")
        return job


def _references(words: Document) -> list[str]:
    found = words.get("jobs")
    if not isinstance(found, list) or not all(isinstance(r, str) for r in found) or not found:
        raise UsageError("the request takes a list of job ids or tickets")
    if len(found) > MAX_REFERENCES:
        raise UsageError(f"the request takes at most {MAX_REFERENCES} jobs")
    return found


def _imagined(needs: Any) -> Job:
    """A job with these needs, to ask the core about; it is never submitted."""
    try:
        spec = JobSpec(
            name="",
            user="",
            uid=-1,
            collocation=Collocation(needs.get("collocation") or "auto"),
            roles=(
                Role(
                    needs=Needs(
                        gpus=int(needs["gpus"]),
                        gpu_memory_mib=needs.get("gpu_memory_mib"),
                        mig_profile=needs.get("mig_profile"),
                    )
                ),
            ),
        )
        return Job(id=0, ticket="", spec=spec, submitted=Instant(0.0, 0.0))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"these needs cannot be read: {error}") from None


_QUESTIONS: dict[str, Callable[[Requests, Loop, Request], Any]] = {
    "ping": Requests._ping,
    "status": Requests._status,
    "gpus": Requests._gpus,
    "logs": Requests._logs,
    "check": Requests._check,
}
_ORDERS: dict[str, Callable[[Requests, Loop, Request], Any]] = {
    "intake": Requests._intake,
    "cancel": Requests._cancel,
}
