"""Live pages: each thing that is watched is gathered once, for all who watch it.

Theory of operation. A `Watch` runs while it has viewers. It gathers and draws its fragments every
`EVERY_S`, or less often if that takes long, and wakes its viewers if one has changed. A viewer is
sent the fragments that differ from those it has, and has no queue: one that reads slowly gets the
latest later, and `serving.py` disconnects one that does not read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Hashable

from starlette.types import Receive, Scope, Send

from radrm.client.text import warn
from radrm.errors import one_line
from radrm.web.guard import Session

Fragments = dict[str, str]
"""HTML by the id of the element that holds it; `title` is the page's title."""
EVERY_S = 0.5
_REST = 4.0
"""Rests are at least this many times as long as the gathering before."""
_BEAT_S = 15.0
_STREAM_S = 3600.0
"""A stream ends then; the browser connects again."""
MOST_STREAMS = 64
MOST_OF_SESSION = 16


class Watch:
    """What is gathered for all viewers of one thing."""

    def __init__(self, gather: Callable[[], Awaitable[Fragments]]) -> None:
        self._gather = gather
        self._changed = asyncio.Event()
        self.viewers = 0
        self.fragments: Fragments = {}
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        while True:
            began_s = time.monotonic()
            try:
                found = await self._gather()
            except Exception as error:  # its viewers connect again, the others see nothing of it
                warn(f"a live page failed: {one_line(error)}")
                return
            if found != self.fragments:
                self.fragments = found
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(max(EVERY_S, _REST * (time.monotonic() - began_s)))

    async def change(self, limit_s: float) -> None:
        """Wait until the fragments change, or this time is over."""
        try:
            await asyncio.wait_for(self._changed.wait(), limit_s)
        except asyncio.TimeoutError:
            pass


class Live:
    """All watches and streams. `alive(session)` says whether a session goes on."""

    def __init__(self, alive: Callable[[Session | None], bool]) -> None:
        self._alive = alive
        self._watches: dict[Hashable, Watch] = {}
        self.streams = 0
        self.closing = False

    @property
    def watched(self) -> int:
        return len(self._watches)

    def full(self, session: Session | None) -> bool:
        """Whether there are as many streams as may be, of all or of this session."""
        return self.streams >= MOST_STREAMS or (
            session is not None and session.streams >= MOST_OF_SESSION
        )

    def stream(
        self,
        key: Hashable,
        gather: Callable[[], Awaitable[Fragments]],
        session: Session | None,
    ) -> Stream:
        return Stream(self, key, gather, session)

    def join(self, key: Hashable, gather: Callable[[], Awaitable[Fragments]]) -> Watch:
        watch = self._watches.get(key)
        if watch is None or watch.task is None or watch.task.done():
            watch = self._watches[key] = Watch(gather)
            watch.task = asyncio.create_task(watch.run())
        watch.viewers += 1
        self.streams += 1
        return watch

    def leave(self, key: Hashable, watch: Watch) -> None:
        self.streams -= 1
        watch.viewers -= 1
        if not watch.viewers and watch.task is not None:
            watch.task.cancel()
            if self._watches.get(key) is watch:
                del self._watches[key]

    def goes_on(self, session: Session | None, watch: Watch) -> bool:
        ended = watch.task is None or watch.task.done()
        return not self.closing and not ended and self._alive(session)


class Stream:
    """One answer of server-sent events."""

    def __init__(
        self,
        live: Live,
        key: Hashable,
        gather: Callable[[], Awaitable[Fragments]],
        session: Session | None,
    ) -> None:
        self._live, self._key, self._gather, self._session = live, key, gather, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = self._live.join(self._key, self._gather)
        if self._session is not None:
            self._session.streams += 1
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await self._send_all(watch, send, gone)
        except OSError:
            return  # it has left
        finally:
            gone.cancel()
            if self._session is not None:
                self._session.streams -= 1
            self._live.leave(self._key, watch)

    async def _send_all(self, watch: Watch, send: Send, gone: asyncio.Task[None]) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sent: Fragments = {}
        until_s = beat_s = time.monotonic()
        until_s += _STREAM_S
        while not gone.done() and time.monotonic() < until_s:
            if not self._live.goes_on(self._session, watch):
                break
            new = {name: text for name, text in watch.fragments.items() if sent.get(name) != text}
            if new:
                sent = sent | new
                await _put(send, f"data: {json.dumps(new)}\n\n")
                beat_s = time.monotonic()
                continue  # there may be more by now
            if time.monotonic() - beat_s > _BEAT_S:
                await _put(send, ":\n\n")
                beat_s = time.monotonic()
            await watch.change(1.0)
        await _put(send, "", more=False)


async def _put(send: Send, text: str, more: bool = True) -> None:
    body = {"type": "http.response.body", "body": text.encode("utf-8", "replace")}
    await send({**body, "more_body": more})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
