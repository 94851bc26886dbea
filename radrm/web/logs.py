"""The end of a job's log, with the rights of this process.

Theory of operation. `client/tail.py` opens only what is the job's user's. This process serves many
for long: as root it opens nothing of other users, because even to open can block or have effects.
A file system that hangs holds one of a few threads, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from radrm.client.tail import last_lines
from radrm.errors import Refused, plain

LINES = 200
_WIDTH = 2000
"""Characters of a line that are shown."""
_THREADS = 4
_LIMIT_S = 3.0


class Logs:
    """Reads the ends of logs in a few threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "radrm-serve-log")
        self._busy = 0

    async def end(self, path: str, uid: int) -> list[str]:
        """Return the last lines of the log of a job of `uid`. Raises `Refused`."""
        if self._busy >= _THREADS:
            raise Refused(f"{_THREADS} other logs do not answer; try again")
        self._busy += 1
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, log_end, path, uid)
        reading.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(reading), _LIMIT_S)
        except asyncio.TimeoutError:
            raise Refused(f"the log {plain(path)} did not answer in {_LIMIT_S:.0f}s") from None

    def _done(self, reading: asyncio.Future[list[str]]) -> None:
        self._busy -= 1
        if not reading.cancelled():
            reading.exception()  # one that nobody waits for any more

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def log_end(path: str, uid: int) -> list[str]:
    """Return the last lines of the log of a job of `uid`. Raises `Refused`."""
    if os.geteuid() == 0 and uid != 0:
        raise Refused(
            "this page runs as root, which opens no log of another user; type: radrm logs"
        )
    found = last_lines(path, uid, LINES)
    if found is None:
        raise Refused(f"the log {plain(path)} does not exist")
    return [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in found]
