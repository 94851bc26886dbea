"""The process that runs the daemon's estimators.

    python -m radrm.host.estimation.worker     (requests on standard input, answers on output)

The first message is the configuration, and every later one a question; each gets one message as its
answer. A message is its length (4 bytes, big-endian) and MessagePack.

Any user can write what an estimator reads. So this process gives up the rights of a root daemon
before the first question, and has at most `MEMORY_BYTES` of memory. It ends with its input, with
its parent, and when an answer takes twice the daemon's time limit.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from radrm.config import Config, parse_table
from radrm.estimators.interface import Description
from radrm.host.estimation import confine
from radrm.host.estimation.asking import Answer, Asking

MEMORY_BYTES = 4 << 30
MAX_MESSAGE = 128 << 20
"""Bytes: the longest trace plus the longest envelope, with room to spare."""
NOBODY = 65534
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A job, and the tracer's document about it, None if it was not traced."""

    job: Description
    events: bytes | None = None


def packed(message: object) -> bytes:
    """A message as bytes for the pipe."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


def main() -> int:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    source, target = os.dup(0), os.dup(1)
    # An estimator may print, and that must not mix with the answers.
    os.dup2(2, 1)
    config: Config = parse_table(_read(source, dict[str, Any]), "the daemon's configuration")
    asking = Asking(config)
    # This loads the estimators' files now. Without root's rights they may be unreadable later, and
    # the first question would wait for them.
    asking.ask(Description(spec=_empty_spec()))
    _give_up_rights(parent)
    os.write(target, packed(Answer()))
    limit_s = 2 * config.estimation.time_limit_s
    while (question := _read(source, Question)) is not None:
        # The daemon ends this process earlier. If the daemon is dead, SIGALRM ends it.
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        answer = asking.ask(question.job, question.events)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(target, packed(answer))
    return 0


def _empty_spec() -> Any:
    from radrm.core.records import JobSpec

    return JobSpec(name="nothing", user="", uid=-1)


def _give_up_rights(parent: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # there is already a lower limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    confine.die_with(parent)


def _read(source: int, kind: Any) -> Any:
    """The next message; None at the end of the input."""
    head = _exactly(source, _LENGTH)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_MESSAGE:
        raise EOFError(f"a message has {size >> 20} MiB; the limit is {MAX_MESSAGE >> 20} MiB")
    data = _exactly(source, size)
    return None if data is None else msgspec.msgpack.decode(data, type=kind)


def _exactly(source: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


if __name__ == "__main__":
    sys.exit(main())
