"""Which function answers which request.

Only a job's owner, root and the daemon's own user may give commands about a job. The kernel
says who the client is.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator
from typing import Any

from radrm import __version__
from radrm.core.records import Job
from radrm.daemon.answers.commands import COMMANDS
from radrm.daemon.answers.questions import QUESTIONS
from radrm.daemon.answers.selection import take_in
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words, references
from radrm.daemon.views.device_documents import summary
from radrm.daemon.views.documents import Document
from radrm.errors import RadrmError, Refused, UsageError
from radrm.host.crossings import crossed
from radrm.host.sockets import Peer
from radrm.host.storage.database import damage_told
from radrm.host.storage.spool import SUFFIX

log = logging.getLogger("radrm")


MAX_TICKETS = 1000
"""Tickets of one request: its answer has a document for each."""


class Requests:
    """Answers requests in the loop's own thread.

    `about` describes the daemon; `folder_of` gives a client's watched folder.
    """

    def __init__(self, about: Document, folder_of: Callable[[Peer], str] | None = None) -> None:
        self._about = about
        self._folder_of = folder_of

    def answer(self, loop: Loop, request: Request) -> Work[None]:
        """The work of a request, which ends with its answer. It raises nothing that a client
        can cause: a bad request is refused in one line."""
        try:
            answer = yield from self._answer(loop, request)
            crossed("request carried out")
            request.answer(answer)
            crossed("request answered")
        except RadrmError as error:
            request.refuse(error)

    def _answer(self, loop: Loop, request: Request) -> Work[Any]:
        request.words, request.line = _words(request.line), b""
        word = str(request.words.get("op"))
        try:
            try:
                with damage_told(loop.store.path):
                    answer = self._of_word(word, loop, request)
                    return (yield from answer) if isinstance(answer, Generator) else answer
            finally:
                if word in COMMANDS or word == "intake":
                    loop.tables.note_command(loop.scheduler, request.client.uid)
        except RadrmError:
            raise
        except Exception as error:
            # No request may end the daemon. But a half-done step leaves memory and store apart.
            if loop.broken:
                raise
            log.exception("the request %r failed", word[:40])
            raise Refused(f"the daemon could not answer: {error}; see its log") from error

    def _of_word(self, word: str, loop: Loop, request: Request) -> Any:
        """The answer, or the work that leads to it."""
        if word == "ping":
            return self._ping(loop)
        if word == "intake":
            return take_in_now(loop, request.words, request.client.uid)
        if word == "spool" and self._folder_of is not None:
            return self._folder_of(request.client)
        if word in COMMANDS:
            return COMMANDS[word](loop, request)
        if word in QUESTIONS:
            return QUESTIONS[word](loop, request.words, request.client.uid)
        raise UsageError(f"this daemon does not know the request {word[:40]!r}")

    def _ping(self, loop: Loop) -> Document:
        now = loop.clock.now()
        return {
            **self._about,
            "version": __version__,
            "pid": os.getpid(),
            "now": now.wall_s,
            "time_scale": loop.clock.scale,
            "summary": summary(loop.scheduler.snapshot),
        }


def _words(line: bytes) -> Words:
    """The request as an object. It is parsed only at its turn, because its text needs less
    memory."""
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise UsageError("the request is not a JSON object")
    return words


_MORE_LOOKS = 20
"""A client learns at once of the jobs that it has submitted, but not of an array without end."""


def take_in_now(loop: Loop, words: Words, uid: int) -> Work[list[dict[str, Any] | None]]:
    """Take in the spool now. Returns the jobs of these tickets of user `uid`, what `radrm submit`
    says of them; null for a ticket that was not taken in."""
    tickets = references(words, MAX_TICKETS)
    yield from take_in(loop, [f"{ticket}{SUFFIX}" for ticket in tickets], uid, _MORE_LOOKS)
    pace, found = Pace(), list[dict[str, Any] | None]()
    for ticket in tickets:
        taken = loop.store.taken(ticket)
        job = loop.scheduler.snapshot.job(taken.first_id) if taken else None
        if job is None and taken is not None:
            job = loop.store.job(taken.first_id)
        found.append(_taken_in(loop, job) if job is not None else None)
        yield from pace.rest_if_spent()
    return found


def _taken_in(loop: Loop, job: Job) -> dict[str, Any]:
    """A job that a client has submitted: what it needs matters where it has a due time."""
    needs_s = None
    if job.spec.due_s is not None:
        live, now = loop.scheduler.snapshot.attempt(job.id), loop.clock.now()
        needs_s = loop.parts.foresight.of(job, live, now).needs_s
    began_s = None if job.started is None else job.started.wall_s
    document = {"id": job.id, "state": job.state.value, "reason": job.reason}
    return {**document, "started_at": began_s, "needs_s": needs_s}
