"""A job's log that grows, as an iterator.

`LogFollower` copies a log from inside its own loop. So it runs in a thread, which hands over
pieces through a short queue: a slow reader slows it down, and nothing piles up. It ends when the
iterator is closed or dropped.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import threading
from collections.abc import Iterator
from queue import Full, Queue

from radrm.client.connection import Client as Connection
from radrm.client.follow import LogFollower, Patient

_PIECES = 16
"""Pieces of 64 KiB that wait for the reader at most."""
_LOOK_S = 0.2

log = logging.getLogger("radrm")


class _Closed(BaseException):
    """The reader has closed the iterator."""


def follow(
    connection: Connection, job: str, stream: str, attempt: int | None, lines: int | None
) -> Iterator[str]:
    """Yield a job's log until the job ends, or `attempt` of it. Raises `RadrmError`."""
    pieces: Queue[bytes | BaseException | None] = Queue(_PIECES)
    closed = threading.Event()
    work = (connection, job, stream, attempt, lines, pieces, closed)
    thread = threading.Thread(target=_copy, args=work, name="radrm logs", daemon=True)
    thread.start()
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            if text := decode(piece):
                yield text
        if rest := decode(b"", final=True):
            yield rest
    finally:
        closed.set()


def _copy(
    connection: Connection,
    job: str,
    stream: str,
    attempt: int | None,
    lines: int | None,
    pieces: Queue[bytes | BaseException | None],
    closed: threading.Event,
) -> None:
    """Put the log into the queue, and after it None, or the error that ended it."""

    def pause(seconds: float) -> None:
        if closed.wait(seconds):
            raise _Closed

    def put(piece: bytes | BaseException | None) -> None:
        while True:
            with contextlib.suppress(Full):
                return pieces.put(piece, timeout=_LOOK_S)
            pause(0)

    try:
        ask = Patient(connection, log.info, pause).ask
        LogFollower(ask, job, {stream: put}, log.info, pause).follow(attempt, lines)
        put(None)
    except _Closed:
        pass
    except Exception as error:  # it is raised where the log is read
        with contextlib.suppress(_Closed):
            put(error)
