"""The protocol's words, and who answers each.

Orders about a job are its owner's (and root's, and the daemon's own user's) to
give; who asks is what the kernel says.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator
from typing import Any

from radrm import __version__
from radrm.daemon.answers.orders import ORDERS
from radrm.daemon.answers.questions import QUESTIONS
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.asked import Words, references
from radrm.daemon.views.documents import Document, Documents
from radrm.errors import RadrmError, Refused, UsageError
from radrm.host.sockets import Peer
from radrm.host.storage.spool import SUFFIX

log = logging.getLogger("radrm")


MAX_TICKETS = 1000
"""Tickets in one request: the answer has a whole document for each."""


class Requests:
    """Answers requests in the loop's own thread. `about` is what the daemon says of itself;
    `folder_of` tells a client's watched folder."""

    def __init__(self, about: Document, folder_of: Callable[[Peer], str] | None = None) -> None:
        self._about = about
        self._folder_of = folder_of

    def answer(self, loop: Loop, request: Request) -> Work[None]:
        """The work of a request, which answers it in the end. Never raises for what a client
        says: that is refused, in one line."""
        try:
            request.answer((yield from self._answer(loop, request)))
        except RadrmError as error:
            request.refuse(error)

    def _answer(self, loop: Loop, request: Request) -> Work[Any]:
        request.words, request.line = _words(request.line), b""
        word = str(request.words.get("op"))
        try:
            try:
                answer = self._of_word(word, loop, request)
                return (yield from answer) if isinstance(answer, Generator) else answer
            finally:
                if word in ORDERS or word == "intake":
                    loop.tables.ordered(loop.scheduler, request.client.uid)
        except RadrmError:
            raise
        except Exception as error:
            # Nothing that a client says may end the daemon; a step that failed half done must.
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
        if word in ORDERS:
            return ORDERS[word](loop, request)
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
            "summary": Documents(loop.scheduler, loop.store).summary(now),
        }


def _words(line: bytes) -> Words:
    """What a client says. Read only when its turn has come: as text it is small."""
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise UsageError("the request is not a JSON object")
    return words


def take_in_now(loop: Loop, words: Words, uid: int) -> Work[list[Document | None]]:
    """Look into the spool now, and say what has become of these tickets of user `uid`."""
    tickets = references(words, MAX_TICKETS)
    loop.scan([f"{ticket}{SUFFIX}" for ticket in tickets], first=uid)
    documents, now, pace = Documents(loop.scheduler, loop.store), loop.clock.now(), Pace()
    found: list[Document | None] = []
    for ticket in tickets:
        taken = loop.store.taken(ticket)
        job = loop.scheduler.state.jobs.get(taken.first_id) if taken else None
        if job is None and taken is not None:
            job = loop.store.job(taken.first_id)
        found.append(documents.job(job, now, reason=None) if job is not None else None)
        if pace.spent:
            yield from pace.rest()
    return found
