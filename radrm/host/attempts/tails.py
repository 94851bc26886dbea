"""Read the last lines that an attempt has printed, as its user, after its end.

The daemon finds out from them how the attempt died. A child of the runner that has become the
submitter reads them, so nothing is opened with more rights than the submitter has. It reads the
files that the job's first process has opened, wherever their names are now, from where the attempt
began: not what an earlier job left there.

Several jobs may write to one file. A log is opened to append, so the offset of the attempt's own
descriptor is the end of its last write; what follows is of others, or of a process of the job that
has opened the file anew. `stderr_after` and `stdout_after` say how much that is.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from functools import partial

from radrm.host.attempts import job_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from radrm.host.attempts.folder import Fields

TAIL_BYTES = 64 * 1024
_OF_MEMORY = ("memory", "alloc", "batch size")
_PATIENCE_S = 5.0
"""A log may lie on a file system that does not answer; the end is recorded all the same."""


def read_tails(launch: Fields, begins: dict[str, int], logs: list[int]) -> Fields:
    """`stderr_tail` and `stdout_tail` as text; None what cannot be read. `stderr_after` and
    `stdout_after`: how many characters of them follow the attempt's own last write.

    `begins`: where each began; `logs`: its descriptor, in the same order. They are closed.
    """
    found: Fields = {"stderr_tail": None, "stdout_tail": None}
    for (which, begin), log in zip(begins.items(), logs, strict=False):
        opened = os.fstat(log)
        if not stat.S_ISREG(opened.st_mode):
            continue
        end, own_end = opened.st_size, os.lseek(log, 0, os.SEEK_CUR)
        start = max(begin, end - TAIL_BYTES)
        if end < begin:  # somebody has emptied it
            start = max(0, end - TAIL_BYTES)
        data = read_as_user(launch, partial(_send_tail, log, start, end), TAIL_BYTES)
        if data is not None:
            own = max(0, own_end - start)
            parts = [part.decode("utf-8", "replace") for part in (data[:own], data[own:])]
            found[f"{which}_tail"] = "".join(parts)
            found[f"{which}_after"] = len(parts[1])
    for log in logs:
        os.close(log)
    return found


def may_tell(text: str | None) -> str | None:
    """Return a tail of an attempt that ended with exit code 0, if it may end in out-of-memory: a
    script may have lost the code of its program."""
    told = text is not None and any(word in text.lower() for word in _OF_MEMORY)
    return text if told else None


def read_as_user(launch: Fields, send: Callable[[int], None], most: int) -> bytes | None:
    """Return what `send`, in a child that has become the submitter, writes to its descriptor.

    At most `most` bytes; None if that takes too long.
    """
    output, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            job_process.drop_rights(launch)
            send(write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    try:
        return _receive(output, most)
    finally:
        os.close(output)
        os.kill(child, signal.SIGKILL)
        _reap(child)


def _reap(child: int) -> None:
    """Wait for a bounded time: a child that is stuck in the kernel is left behind."""
    deadline = time.monotonic() + _PATIENCE_S
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.001)


def _send_tail(opened: int, start: int, end: int, target: int) -> None:
    # The job's descriptor can only write.
    log = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.lseek(log, start, os.SEEK_SET)
    left = min(TAIL_BYTES, end - start)
    while left > 0 and (data := os.read(log, left)):
        left -= len(data)
        while data:
            data = data[os.write(target, data) :]


def _receive(source: int, most: int) -> bytes | None:
    parts: list[bytes] = []
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        data = os.read(source, most)
        if not data or most <= 0:
            return b"".join(parts)
        parts.append(data)
        most -= len(data)
