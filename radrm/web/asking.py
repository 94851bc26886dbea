"""Questions to the daemon, each asked once, and the commands of the page.

Theory of operation. The page's requests run in one thread of asyncio. Each lane has a thread and a
connection of its own, so a slow report delays no table. A question that is under way, or was
answered within `FRESH_S`, is not asked again: its answer serves all. So many viewers cost the
daemon as much as one. One who leaves cancels no question that others wait for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from radrm.client.connection import Client
from radrm.client.text import Document, label
from radrm.client.words.jobs import refused_here
from radrm.errors import RadrmError, Refused, UsageError, plain

FRESH_S = 0.4
"""The age up to which an answer is given to others who ask the same."""
KEEP_S = 10.0
"""The age from which an answer is dropped: nobody asks for an older one."""
_LIMIT_S = 20.0
"""The time of an answer."""
_MOST_WAITING = 64
_MOST_KEPT = 256


class Lane:
    """One thread with one connection to the daemon."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "radrm-serve")
        self._client = Client(limit_s=_LIMIT_S)
        self._waiting = 0

    async def call(self, work: Callable[[Client], Any]) -> Any:
        """Run `work` with the connection and return its result. Raises `RadrmError`."""
        if self._waiting >= _MOST_WAITING:
            raise Refused(f"{_MOST_WAITING} requests wait for the daemon; try again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, work, self._client)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.submit(self._client.close)
        self._thread.shutdown(wait=False, cancel_futures=True)


class Asking:
    """Asks the daemon. `asked` counts the questions that it got."""

    def __init__(self) -> None:
        self.quick, self.slow = Lane(), Lane()
        self.asked = 0
        self._coming: dict[str, asyncio.Task[Any]] = {}
        self._kept: dict[str, tuple[float, Any]] = {}

    async def ask(
        self, op: str, words: dict[str, Any] | None = None, fresh_s: float = FRESH_S
    ) -> Any:
        """Return the daemon's answer, at most `fresh_s` old. Raises `RadrmError`."""
        given = words or {}
        key = json.dumps([op, given], sort_keys=True)
        lane = self.slow if op in ("history", "report") else self.quick
        return await self._once(lane, key, fresh_s, lambda client: client.ask(op, **given))

    async def once(self, key: str, fresh_s: float, work: Callable[[Client], Any]) -> Any:
        """Return what `work` returns; once for all who ask for this key. Raises `RadrmError`."""
        return await self._once(self.slow, key, fresh_s, work)

    async def _once(
        self, lane: Lane, key: str, fresh_s: float, work: Callable[[Client], Any]
    ) -> Any:
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < fresh_s:
            return kept[1]
        coming = self._coming.get(key)
        if coming is None:
            if len(self._coming) >= _MOST_WAITING:
                raise Refused(f"{_MOST_WAITING} questions wait for the daemon; try again")
            coming = asyncio.create_task(self._keep(lane, key, work))
            self._coming[key] = coming
            coming.add_done_callback(lambda done: self._came(key, done))
        return await asyncio.shield(coming)

    def _came(self, key: str, done: asyncio.Task[Any]) -> None:
        self._coming.pop(key, None)
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more

    async def _keep(self, lane: Lane, key: str, work: Callable[[Client], Any]) -> Any:
        self.asked += 1
        try:
            answer = await lane.call(work)
        except RadrmError:
            self._kept.pop(key, None)
            raise
        self._kept.pop(key, None)
        now_s = time.monotonic()
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) < _MOST_KEPT and now_s - self._kept[oldest][0] < KEEP_S:
                break
            del self._kept[oldest]
        self._kept[key] = (now_s, answer)
        return answer

    async def command(self, op: str, **words: Any) -> Any:
        """Give a command, once. Raises `RadrmError`."""
        self.asked += 1
        answer = await self.quick.call(lambda client: client.ask(op, **words))
        self._kept.clear()
        return answer

    @property
    def kept(self) -> int:
        """The number of answers that are kept."""
        return len(self._kept)

    def close(self) -> None:
        self.quick.close()
        self.slow.close()


_DONE = {"cancel": "Cancelled", "hold": "Held", "release": "Released", "requeue": "Requeued"}
COMMANDS = (*_DONE, "priority")
_PRIORITY = 1000


def offered(job: Document) -> list[str]:
    """Return the commands that make sense for a job in its state."""
    checked = {"priority": "raise"}
    return [each for each in COMMANDS if not refused_here(checked.get(each, each), job)]


async def act(asking: Asking, command: str, job: Document, value: str) -> str:
    """Give a command about one job. Returns one line about what came of it; never raises a
    `RadrmError`."""
    name = label(job)
    if command not in COMMANDS:
        return f"There is no such command; the page has {', '.join(COMMANDS)}."
    try:
        if command not in offered(job):
            return refused_here("raise" if command == "priority" else command, job)
        if command == "priority":
            options = {"priority": str(_priority(value))}
            results = await asking.command("edit", jobs=[name], options=options)
        else:
            results = await asking.command(command, jobs=[name])
    except RadrmError as error:
        return plain(str(error))
    wrong = next((each["error"] for each in results if each["error"]), None)
    if wrong:
        return plain(wrong)
    if command == "priority":
        return f"Job {plain(name)} has priority {_priority(value)}."
    if any(each.get("saves") for each in results):
        return f"Asked job {plain(name)} to save its work; when it has, it is requeued."
    return f"{_DONE[command]} job {plain(name)}."


def _priority(text: str) -> int:
    try:
        found = int(text[:8])
    except ValueError:
        found = _PRIORITY + 1
    if not -_PRIORITY <= found <= _PRIORITY:
        raise UsageError(f"the priority is a whole number from -{_PRIORITY} to {_PRIORITY}")
    return found
