"""The end of a job's log, read with the rights of this process, but only if it is the job's user's.

Theory of operation. A user can make the path of a log lead to any file. This process can read files
of its own user, and perhaps shows its page to others; so it shows a file only if it belongs to the
job's user. As root it opens nothing of other users: even to open can block or have effects. A file
system that hangs holds one of a few threads, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from concurrent.futures import ThreadPoolExecutor

from radrm.client.tail import open_regular, text_lines
from radrm.errors import Refused, plain

LINES = 200
_BYTES = 64 * 1024
_WIDTH = 2000
"""Characters of a line that are shown."""
_THREADS = 4
_LIMIT_S = 3.0


class Logs:
    """Reads the ends of logs in a few threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "radrm-serve-log")
        self._busy = 0

    async def end(self, path: str, user: str) -> list[str]:
        """Return the last lines of a log, plain. Raises `Refused` if it cannot be shown."""
        if self._busy >= _THREADS:
            raise Refused(f"{_THREADS} other logs do not answer; try again")
        self._busy += 1
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, log_end, path, user)
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


def log_end(path: str, user: str) -> list[str]:
    """Return the last lines of the log of a job of `user`. Raises `Refused`."""
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        uid = int(user) if user.isascii() and user.isdecimal() else -1
    if os.geteuid() == 0 and uid != 0:
        raise Refused(
            "this page runs as root, which opens no log of another user; type: radrm logs"
        )
    fd = open_regular(path)
    if fd is None:
        raise Refused(f"the log {plain(path)} does not exist")
    try:
        found = os.fstat(fd)
        if found.st_uid != uid:
            raise Refused(
                f"the log {plain(path)} belongs to uid {found.st_uid}, not to the job's user "
                f"{plain(user)}; the page does not show it"
            )
        data = os.pread(fd, _BYTES, max(0, found.st_size - _BYTES))
    except OSError as error:
        raise Refused(f"cannot read the log {plain(path)}: {error.strerror}") from None
    finally:
        os.close(fd)
    lines = text_lines(data)[-LINES:]
    return [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines]
