"""Look at what an attempt has left, as its user, after its end; and its last lines.

A child of the runner that has become the submitter looks, so nothing is opened with more rights
than the submitter has; a thread, where the runner has no other rights. All that one end needs is
one child's work (`Look`): a process costs more than what it reads.

The daemon finds out from the last lines how the attempt died. They are those of the files that the
job's first process has opened, wherever their names are now, from where the attempt began: not what
an earlier job left there.

Several jobs may write to one file. A log is opened to append, so the offset of the attempt's own
descriptor is the end of its last write; what follows is of others, or of a process of the job that
has opened the file anew. `stderr_after` and `stdout_after` say how much that is.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import stat
import time
from functools import partial

from radrm.host.attempts import job_process
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from radrm.host.attempts.folder import Fields

TAIL_BYTES = 64 * 1024
_OF_MEMORY = ("memory", "alloc", "batch size")
_PATIENCE_S = 5.0
"""A log may lie on a file system that does not answer; the end is recorded all the same."""


class Look:
    """Something to find out as the job's user. `send` writes it to a descriptor, and leaves nothing
    open; `fields` says what these bytes, at most `most`, mean. It gets None if they took too
    long."""

    __slots__ = ("fields", "most", "send")

    def __init__(
        self, send: Callable[[int], None], most: int, fields: Callable[[bytes | None], Fields]
    ) -> None:
        self.send = send
        self.most = most
        self.fields = fields


def looks_at_tails(begins: dict[str, int], logs: list[int]) -> list[Look]:
    """`stderr_tail` and `stdout_tail` as text; None: nothing, or not to be read. `stderr_after` and
    `stdout_after`: how many characters of them follow the attempt's own last write.

    `begins`: where each log began; `logs`: its descriptor, in the same order.
    """
    found = []
    for (which, begin), log in zip(begins.items(), logs, strict=False):
        opened = os.fstat(log)
        if not stat.S_ISREG(opened.st_mode):
            continue
        end, own_end = opened.st_size, os.lseek(log, 0, os.SEEK_CUR)
        start = max(begin, end - TAIL_BYTES)
        if end < begin:  # somebody has emptied it
            start = max(0, end - TAIL_BYTES)
        if end == start:
            continue  # it has printed nothing
        own = max(0, own_end - start)
        send = partial(_send_tail, log, start, end)
        found.append(Look(send, TAIL_BYTES, partial(_tail, which, own)))
    return found


def _tail(which: str, own: int, data: bytes | None) -> Fields:
    if data is None:
        return {}
    parts = [part.decode("utf-8", "replace") for part in (data[:own], data[own:])]
    return {f"{which}_tail": "".join(parts), f"{which}_after": len(parts[1])}


def look_at_room(logs: list[int]) -> Look:
    """`no_room`: whether a disk is full on which a log lies. What the job printed then is lost,
    and most programs fail by it."""

    def send(target: int) -> None:
        rooms = [os.fstatvfs(log) for log in logs if stat.S_ISREG(os.fstat(log).st_mode)]
        if any(room.f_blocks > 0 and room.f_bavail == 0 for room in rooms):
            os.write(target, b"full")

    return Look(send, 4, lambda data: {"no_room": data == b"full"})


def may_tell(text: str | None) -> str | None:
    """Return a tail of an attempt that ended with exit code 0, if it may end in out-of-memory: a
    script may have lost the code of its program."""
    told = text is not None and any(word in text.lower() for word in _OF_MEMORY)
    return text if told else None


def read_as_user(launch: Fields, looks: Sequence[Look]) -> Fields:
    """The fields of these looks, as the submitter: one after the other, in a limited time
    together."""
    if not looks:
        return {}
    pipes = [os.pipe() for _ in looks]
    targets = [write_end for _, write_end in pipes]
    child = 0
    if launch["uid"] in (None, os.geteuid()):
        # A thread that is stuck ends with this process, which runs no other attempt then: what the
        # thread has opened is there (`forker`).
        _thread.start_new_thread(_send_all, (looks, targets))
    else:
        child = os.fork()
        if child == 0:
            try:
                job_process.drop_rights(launch)
                for output, _ in pipes:
                    os.close(output)  # else a look that is too long for its reader would never end
                _send_all(looks, targets)
            finally:
                os._exit(0)
        for write_end in targets:
            os.close(write_end)
    found: Fields = {}
    deadline = time.monotonic() + _PATIENCE_S
    for look, (output, _) in zip(looks, pipes, strict=True):
        data = _receive(output, look.most, deadline)
        os.close(output)  # the child goes on to the next, also if this one was too long
        found |= look.fields(data)
    if child:
        os.kill(child, signal.SIGKILL)
        _reap(child)
    return found


def _send_all(looks: Sequence[Look], targets: Sequence[int]) -> None:
    for look, target in zip(looks, targets, strict=True):
        with contextlib.suppress(Exception):  # it cannot be read
            look.send(target)
        os.close(target)


def _reap(child: int) -> None:
    """Wait for a bounded time: a child that is stuck in the kernel is left behind."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(child)
        select.select([pidfd], [], [], _PATIENCE_S)
        os.close(pidfd)
    os.waitpid(child, os.WNOHANG)


def _send_tail(opened: int, start: int, end: int, target: int) -> None:
    # The job's descriptor can only write.
    log = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(log, start, os.SEEK_SET)
        left = min(TAIL_BYTES, end - start)
        while left > 0 and (data := os.read(log, left)):
            left -= len(data)
            write_all(target, data)
    finally:
        os.close(log)


def _receive(source: int, most: int, deadline: float) -> bytes | None:
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        data = os.read(source, most)
        if not data or most <= 0:
            return b"".join(parts)
        parts.append(data)
        most -= len(data)
