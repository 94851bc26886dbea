"""Read the last lines that an attempt has printed, as its user, after its end.

The daemon finds out from them how the attempt died. A child of the runner that has become the
submitter reads them, so no path is opened with more rights than the submitter has. It reads
only what this attempt wrote, not what an earlier job left in a log of the same name.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time

from radrm.host.attempts import job_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields

TAIL_BYTES = 64 * 1024
_PATIENCE_S = 5.0
"""A log may lie on a file system that does not answer; the end is recorded all the same."""


def read_tails(launch: Fields, begins: dict[str, int]) -> Fields:
    """`stderr_tail` and `stdout_tail` as text; None what cannot be read."""
    found: Fields = {"stderr_tail": None, "stdout_tail": None}
    for which, begin in begins.items():
        data = _read_as_user(launch, which, begin)
        if data is not None:
            found[f"{which}_tail"] = data.decode("utf-8", "replace")
    return found


def _read_as_user(launch: Fields, which: str, begin: int) -> bytes | None:
    output, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            job_process.drop_rights(launch)
            _send_tail(os.path.join(launch["cwd"], launch[which]), begin, write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    try:
        return _receive(output)
    finally:
        os.close(output)
        os.kill(child, signal.SIGKILL)
        _reap(child)


def _reap(child: int) -> None:
    """Wait for a bounded time: a child that is stuck in the kernel is left behind."""
    deadline = time.monotonic() + _PATIENCE_S
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.001)


def _send_tail(path: str, begin: int, target: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    log = os.open(path.encode("utf-8", "surrogateescape"), flags)
    found = os.fstat(log)
    if not stat.S_ISREG(found.st_mode):
        return
    os.lseek(log, max(begin, found.st_size - TAIL_BYTES), os.SEEK_SET)
    left = TAIL_BYTES
    while left > 0 and (data := os.read(log, left)):
        left -= len(data)
        while data:
            data = data[os.write(target, data) :]


def _receive(source: int) -> bytes | None:
    parts: list[bytes] = []
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        data = os.read(source, TAIL_BYTES)
        if not data:
            return b"".join(parts)
        parts.append(data)
